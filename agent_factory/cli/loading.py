"""Turn a target into a plan, with the findings of the build."""

from __future__ import annotations

import dis
import importlib
import inspect
import pkgutil
import sys
import sysconfig
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from difflib import get_close_matches
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from agent_factory.cli.error_reports import PACKAGE, CommandError
from agent_factory.cli.targets import USAGE, Target, read_text, target_of
from agent_factory.demo.interrupt import CtrlC
from agent_factory.errors import AgentFactoryWarning, ArgumentError, SpecError, describe
from agent_factory.topology.topology import Topology

_stored_modules: dict[Path, dict[str, ModuleType]] = {}
"""Modules of the user by the folder they were imported from."""


@contextmanager
def importing_from(root: Path, folders: Sequence[Path] = ()) -> Iterator[None]:
    """Let imports search some folders first, as `python -m` searches the current folder.

    Modules from there leave `sys.modules` afterwards: so two checkouts of one package can be
    compared.
    """
    path, before = list(sys.path), set(sys.modules)
    # Modules of an earlier target of this folder come back. A second import would create other
    # classes with the same names.
    modules = _stored_modules.setdefault(root, {})
    sys.modules.update({name: modules[name] for name in modules.keys() - before})
    sys.path[:0] = [str(root), *map(str, folders)]
    # Python caches the listings of folders, and a command may have written the file just now.
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path[:] = path
        # Only modules of these folders leave. Libraries stay.
        previous = {name.partition(".")[0] for name in before}
        new = [name for name in sys.modules if name.partition(".")[0] not in previous]
        packages = set()
        for name in new:
            file = getattr(sys.modules[name], "__file__", None)
            places = [*getattr(sys.modules[name], "__path__", ()), *([file] if file else [])]
            # Only top-level names are compared: submodules leave with their package.
            if "." not in name and places and Path(places[0]).parent in {root, *folders}:
                packages.add(name)
        for name in new:
            if name.partition(".")[0] in packages:
                modules[name] = sys.modules.pop(name)


def root_and_name(path: Path) -> tuple[Path, str]:
    """The folder of a file's outermost package, and the file's name as a module."""
    folder, parts = path.parent, [] if path.stem == "__init__" else [path.stem]
    while (folder / "__init__.py").is_file() and folder != folder.parent:
        parts.insert(0, folder.name)
        folder = folder.parent
    return folder, ".".join(parts)


def import_file(path: Path, name: str) -> ModuleType:
    """Import a file under its name, or under another name if a different module has the first."""
    # A dot in the file name does not separate packages, so such a name cannot be imported.
    spec = find_spec(name) if "." not in path.stem else None
    if spec and spec.origin and Path(spec.origin) == path:
        return importlib.import_module(name)
    name = f"_target_{path.stem}"
    if name in sys.modules:
        return sys.modules[name]
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be imported as a module")
    # Before the code runs: dataclasses with annotations as strings look for their module there.
    module = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    # As importlib does: a module whose code has failed does not stay imported.
    except BaseException:
        del sys.modules[name]
        raise
    return module


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """A line of a file, counted from 1."""

    file: Path
    line: int

    @property
    def name(self) -> str:
        """Path of the file, relative to the current folder if possible."""
        here = Path.cwd()
        return str(self.file.relative_to(here) if self.file.is_relative_to(here) else self.file)

    def __str__(self) -> str:
        return f"{self.name}:{self.line}"


def find_definition(file: Path, name: str) -> SourceLocation | None:
    """The last line of a module with a binding of a name; None without a binding."""
    try:
        with warnings.catch_warnings(action="ignore"):  # they were shown at the import
            # dont_inherit: the file does not get the `from __future__` imports of this module.
            code = compile(file.read_bytes(), file, "exec", dont_inherit=True)
    except (OSError, ValueError, SyntaxError):
        return None
    # The code of a module holds statements and blocks; functions have separate code.
    bound = (i for i in dis.get_instructions(code) if i.opname == "STORE_NAME" and i.argval == name)
    lines = [step.positions.lineno or 0 for step in bound if step.positions]
    # Of several assignments, the last has made the loaded value.
    return SourceLocation(file, max(lines)) if lines else None


def find_raise(error: BaseException) -> SourceLocation | None:
    """The innermost line of the user's own code in a traceback."""
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        return SourceLocation(Path(error.filename), error.lineno)
    paths = sysconfig.get_paths()
    libraries = {Path(paths[kind]) for kind in ("stdlib", "platstdlib", "purelib", "platlib")}
    # middleware/ lies outside of the package in a checkout.
    libraries |= {PACKAGE, PACKAGE.parent / "middleware"}
    # The innermost frame is the last.
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = Path(frame.filename)
        # An editable install is reached by a link.
        folders = {*file.parents, *file.resolve().parents}
        is_own = not frame.filename.startswith("<") and not libraries & folders
        if is_own and frame.lineno:
            return SourceLocation(file, frame.lineno)
    return None


@dataclass(frozen=True, slots=True)
class Loaded:
    """A loaded target: the plan, the warnings of the build, and the line of the definition.

    The plan of an agent holds settings. A plan from a file has None in place of findings.
    `agent` is the agent itself, unless the target is a plan or a list of middleware. `stack` is
    its middleware, unless the target is a plan.
    """

    plan: Topology
    findings: tuple[SpecError, ...] | None = None
    place: SourceLocation | None = None
    agent: Any = None
    stack: Sequence[Any] | None = None


class BuildFailed(CommandError):
    """The agent of a target cannot be built; `place` is the line in the user's code."""

    def __init__(self, target: Target, error: SpecError, place: SourceLocation | None) -> None:
        self.spec_error = error
        self.place = place
        where = f" ({place})" if place else ""
        super().__init__(f"{target.text} cannot be built{where}. {error}", error)

    @property
    def plan(self) -> Topology | None:
        """The refused plan, if nothing but guarantees is wrong."""
        from agent_factory.guarantees import GuaranteeError

        errors = self.spec_error.errors
        broken = [error.counterexample for error in errors if isinstance(error, GuaranteeError)]
        plans = [each.plan for each in broken if isinstance(each.plan, Topology)]
        return plans[0] if len(plans) == len(errors) else None


def load(text: str) -> Loaded:
    """The plan of a target. Prints of its code go to the error output."""
    target = target_of(text)
    if target.is_plan:
        from agent_factory.topology.load import TopologyFileError, load_topology

        try:
            return Loaded(load_topology(read_text(target), target.place))
        except TopologyFileError as error:
            raise CommandError(str(error), error) from None
    with _imported(target) as (module, attribute, value):
        result = _loaded(f"{target.place}:{attribute}", value)
    if file := getattr(module, "__file__", None):
        result = replace(result, place=find_definition(Path(file), attribute.partition(".")[0]))
    return result


def load_agent(text: str) -> tuple[str, Any]:
    """The name of an agent in its module, and the agent.

    A function without arguments is called. Any compiled graph is an agent here.
    """
    from langgraph.graph.state import CompiledStateGraph

    target = target_of(text)
    with _imported(target) as (_, attribute, value):
        if inspect.isroutine(value):
            value = value()
    if not isinstance(value, CompiledStateGraph):
        where = f"{target.place}:{attribute}"
        raise CommandError(f"{where} must be an agent, got {describe(value)}. {USAGE}")
    return attribute.rpartition(".")[2], value


def load_builder(text: str) -> Any:
    """The agent of a target, or a function of a model that builds the agent."""
    target = target_of(text)
    with _imported(target) as (_, _, value):
        parameters = inspect.signature(value).parameters if inspect.isroutine(value) else {}
        # A function without required parameters builds the agent itself, unless a parameter is
        # the model.
        takes_model = any(p.default is p.empty or n == "model" for n, p in parameters.items())
    if not takes_model:
        return load_agent(text)[1]

    def build(model: object) -> object:
        # A call of the function may import more of the folder.
        with _imported(target):
            return value(model)

    return build


_SAVERS = {
    "sqlite": "langgraph.checkpoint.sqlite SqliteSaver",
    "postgresql": "langgraph.checkpoint.postgres PostgresSaver",
}


@contextmanager
def load_saver(text: str) -> Iterator[Any]:
    """The saver of a URL of SQLite or Postgres, or of a target: also a function, or its context."""
    with _errors_as_sentences(Target(text, text), text), ExitStack() as stack:
        if (scheme := text.partition("://")[0]) in _SAVERS:
            package, name = _SAVERS[scheme].split()
            kind = getattr(importlib.import_module(package), name)
            value: Any = kind.from_conn_string(text.removeprefix("sqlite:///"))
        else:
            with _imported(target_of(text)) as (_, name, value):
                value = result_of(name, value, "its saver") if inspect.isroutine(value) else value
        saver = stack.enter_context(value) if hasattr(value, "__enter__") else value
        getattr(saver, "setup", lambda: None)()  # creates the tables
        yield saver


@contextmanager
def _imported(target: Target) -> Iterator[tuple[ModuleType, str, Any]]:
    """Module of a target, name and value there; errors of module and block become sentences."""
    if target.is_plan:
        raise CommandError(f"{target.place} is a plan. A plan cannot run; name the agent. {USAGE}")
    root, name = root_and_name(target.path) if target.is_file else (Path.cwd(), target.place)
    with (
        importing_from(root, target.folders),
        # The standard output belongs to the command, and may be JSON.
        redirect_stdout(sys.stderr),
        # The agent keeps its warnings, and commands read them there.
        warnings.catch_warnings(action="ignore", category=AgentFactoryWarning),
        _errors_as_sentences(target, name),
    ):
        module = import_file(target.path, name) if target.is_file else importlib.import_module(name)
        yield module, *_attribute(target, module)


@contextmanager
def _errors_as_sentences(target: Target, name: str) -> Iterator[None]:
    """Turn every exception of the target's code into an error message."""
    try:
        yield
    except SpecError as error:
        raise BuildFailed(target, error, find_raise(error)) from None
    except (CommandError, CtrlC):
        raise
    except BaseException as error:
        # Also SystemExit: a module may call sys.exit().
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        # The module itself is missing, or a package around it: no import inside has failed.
        if missing and f"{name}.".startswith(f"{missing}."):
            parent, _, last = name.rpartition(".")
            package = sys.modules.get(parent)
            places = getattr(package, "__path__", [str(Path.cwd())])
            close = get_close_matches(last, [m.name for m in pkgutil.iter_modules(places)], n=1)
            hint = f"It is neither in this folder nor installed. {USAGE}"
            if package is not None and hasattr(package, last):
                hint = f"Did you mean {parent}:{last}?"
            elif close:
                hint = f"Did you mean {f'{parent}.' if package else ''}{close[0]}?"
            message = f"Module {name} was not found. {hint}"
        else:
            place = find_raise(error)
            where = f", at {place}" if place else ""
            first_line = str(error).strip().partition("\n")[0]
            problem = f"{type(error).__name__}: {first_line}".rstrip(": ")
            message = (
                f"{target.text} raised {problem}{where}. --traceback shows the whole traceback."
            )
        raise CommandError(message, error) from None


def _attribute(target: Target, module: ModuleType) -> tuple[str, Any]:
    """Name and value of a target in its module, by default of the only agent."""
    attribute, where = target.attribute, target.place
    if not attribute:
        names = _agents_in(module)
        if not names:
            raise CommandError(f"{where} has no agent. Write {where}:attribute.")
        if len(names) > 1:
            choice = " or ".join(f"{where}:{name}" for name in names)
            raise CommandError(f"{where} has several agents. Write {choice}.")
        attribute = names[0]
    value: object = module
    for name in attribute.split("."):
        if not hasattr(value, name):
            public = [member for member in dir(value) if not member.startswith("_")]
            agents = _agents_in(value) if isinstance(value, ModuleType) else []
            hint = f"Agents in it: {', '.join(agents)}." if agents else "It has no agents."
            if close := get_close_matches(name, public, n=1):
                hint = f"Did you mean {close[0]}?"
            raise CommandError(f"{where} does not have {name!r}. {hint}")
        where = f"{where}{':' if value is module else '.'}{name}"
        value = getattr(value, name)
    return attribute, value


def _agents_in(module: ModuleType) -> list[str]:
    public = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    return [name for name, value in public.items() if _as_agent(value)]


def result_of(name: str, function: Any, what: str) -> Any:
    """The result of a function without arguments, which stands for an agent or a service."""
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise CommandError(f"{name} is asynchronous. Use {what}, or a synchronous function.")
    parameters = inspect.signature(function).parameters.values()
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    required = [p.name for p in parameters if p.default is p.empty and p.kind not in variadic]
    if required:
        names = ", ".join(required)
        raise CommandError(f"{name} must be callable without arguments, but needs {names}.")
    value = function()
    if inspect.isawaitable(value):
        # Python warns about a coroutine that is freed before an await or a close.
        getattr(value, "close", lambda: None)()
        raise CommandError(
            f"{name} was called, and its result is awaitable. Use {what}, or a synchronous "
            "function."
        )
    return value


def _loaded(name: str, value: object) -> Loaded:
    """The plan of a value, or of the result of a function without arguments."""
    prefix = name
    if inspect.isroutine(value):
        value = result_of(name, value, "an agent")
        prefix = f"{name} was called, and its result"
    if isinstance(value, list | tuple):
        from agent_factory.factory.agent import plan_agent

        with warnings.catch_warnings(record=True, action="always") as records:
            # These codes are about missing tools, and a list of middleware has no tools.
            plan = plan_agent(middleware=list(value), ignore=["AF124", "AF210"], settings=True)
        messages = [w.message for w in records if isinstance(w.message, AgentFactoryWarning)]
        findings = [finding for message in messages for finding in message.warnings]
        problems = tuple(error for error in findings if isinstance(error, SpecError))
        return Loaded(plan, problems, stack=tuple(value))
    if result := _as_agent(value):
        return result
    from langgraph.graph import StateGraph
    from langgraph.pregel import Pregel

    from agent_factory.hooks.base import AgentMiddleware

    if isinstance(value, Pregel | StateGraph):
        reason = (
            "is a graph that agent_factory.create_agent did not build, so nothing is known about "
            "its middleware. LangGraph draws it: get_graph().draw_mermaid()."
        )
    elif isinstance(value, AgentMiddleware):
        reason = "is one middleware. Put it into a list."
    elif inspect.isclass(value):
        reason = "is a class. Use an agent, or a function that builds one."
    else:
        reason = f"must be an agent, got {describe(value)}. {USAGE}"
    raise CommandError(f"{prefix} {reason}")


def _as_agent(value: Any) -> Loaded | None:
    """The plan of an agent, or the plan itself; None for anything else."""
    from agent_factory.factory.agent import middleware_of, topology_of, warnings_of

    if isinstance(value, Topology):
        return Loaded(value)
    if inspect.isclass(value) or not hasattr(value, "builder"):
        return None
    try:
        plan, stack = topology_of(value, settings=True), middleware_of(value)
        return Loaded(plan, warnings_of(value), agent=value, stack=stack)
    except ArgumentError:
        return None
