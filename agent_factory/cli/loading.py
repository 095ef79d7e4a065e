"""Turn a target into a plan, with what was found while its agent was built."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import sys
import sysconfig
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from difflib import get_close_matches
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from agent_factory.cli.error_reports import OURS, Trouble
from agent_factory.cli.targets import HOW, Target, read_text, target_of
from agent_factory.errors import AgentFactoryWarning, ArgumentError, SpecError, describe
from agent_factory.topology.topology import Topology

_kept: dict[Path, dict[str, ModuleType]] = {}


@contextmanager
def at_home(root: Path, folders: Sequence[Path] = ()) -> Iterator[None]:
    """Imports look into a folder first, as `python -m` has it with the current one.

    Its own modules are put aside afterwards: two checkouts of one package can be compared.

    Args:
        root: The folder.
        folders: More folders to look into next.
    """
    path, before = list(sys.path), set(sys.modules)
    kept = _kept.setdefault(root, {})
    sys.modules.update({name: kept[name] for name in kept.keys() - before})
    sys.path[:0] = [str(root), *map(str, folders)]
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path[:] = path
        for name in _come_from({root, *folders}, before):
            kept[name] = sys.modules.pop(name)


def _come_from(folders: set[Path], before: set[str]) -> list[str]:
    """The modules that were imported since from these folders themselves."""
    known = {name.partition(".")[0] for name in before}
    new = [name for name in sys.modules if name.partition(".")[0] not in known]
    tops = {name for name in new if "." not in name and _folder(sys.modules[name]) in folders}
    return [name for name in new if name.partition(".")[0] in tops]


def _folder(module: ModuleType) -> Path | None:
    """The folder in which a module of the first level was found."""
    for place in getattr(module, "__path__", ()):
        return Path(place).parent
    file = getattr(module, "__file__", None)
    return Path(file).parent if file else None


def root_and_name(path: Path) -> tuple[Path, str]:
    """Where a file's outermost package lies, and what the file is called as a module.

    >>> root_and_name(Path("desk.py"))[1]
    'desk'
    """
    folder, parts = path.parent, [] if path.stem == "__init__" else [path.stem]
    while (folder / "__init__.py").is_file() and folder != folder.parent:
        parts.insert(0, folder.name)
        folder = folder.parent
    return folder, ".".join(parts)


def import_file(path: Path, name: str) -> ModuleType:
    """Import a file under its name, or under another one where something else has it."""
    # A dot in a file's own name is none between packages.
    spec = find_spec(name) if "." not in path.stem else None
    if spec and spec.origin and Path(spec.origin) == path:
        return importlib.import_module(name)
    return _import_from(path, f"_target_{path.stem}")


def _import_from(path: Path, name: str) -> ModuleType:
    if name in sys.modules:
        return sys.modules[name]
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no module")
    module = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a file.

    Args:
        file: The file.
        line: The line, from 1.
    """

    file: Path
    line: int

    @property
    def name(self) -> str:
        """The file's path from the current folder, where it lies in it."""
        here = Path.cwd()
        return str(self.file.relative_to(here) if self.file.is_relative_to(here) else self.file)

    def __str__(self) -> str:
        return f"{self.name}:{self.line}"


def definition(file: Path, name: str) -> Place | None:
    """Where a module gives a name its value: the last such line."""
    try:
        tree = ast.parse(file.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, SyntaxError):
        return None
    lines = [line for bound, line in _bindings(tree.body) if bound == name]
    return Place(file, lines[-1]) if lines else None


def _bindings(body: list[ast.stmt]) -> Iterator[tuple[str, int]]:
    for node in body:
        yield from ((name, node.lineno) for name in _bound(node))
        for block in ("body", "orelse", "finalbody"):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield from _bindings(getattr(node, block, []))


def _bound(node: ast.stmt) -> list[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [node.name]
        case ast.Assign():
            return [n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case ast.Import() | ast.ImportFrom():
            return [(alias.asname or alias.name).partition(".")[0] for alias in node.names]
        case _:
            return []


def raised_at(error: BaseException) -> Place | None:
    """Where the user's own code raised an error, or called what did."""
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        return Place(Path(error.filename), error.lineno)
    places = [
        Place(Path(frame.filename), frame.lineno)
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.lineno and not frame.filename.startswith("<")
    ]
    own = [place for place in places if not _is_a_librarys(place.file)]
    return own[-1] if own else None


def _is_a_librarys(file: Path) -> bool:
    paths = sysconfig.get_paths()
    libraries = {Path(paths[kind]) for kind in ("stdlib", "platstdlib", "purelib", "platlib")}
    return bool({*libraries, OURS, OURS.parent / "middleware"} & {*file.parents})


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a target is.

    Args:
        plan: The plan.
        findings: What was found likely wrong; None for a plan from a file, which keeps none.
        place: Where its name is defined, where that can be found.
    """

    plan: Topology
    findings: tuple[SpecError, ...] | None = None
    place: Place | None = None


class NotBuilt(Trouble):
    """The target's agent was refused.

    Args:
        target: What was to be loaded.
        error: Why not.
        place: Where the user's code asked for it.
    """

    def __init__(self, target: Target, error: SpecError, place: Place | None) -> None:
        self.refusal = error
        self.place = place
        where = f" ({place})" if place else ""
        super().__init__(f"{target.text} cannot be built{where}. {error}", error)


def load(text: str) -> Loaded:
    """The plan that a target stands for; what its code prints goes to the error output.

    Raises:
        NotBuilt: Its agent was refused.
        Trouble: There is no such thing, it is no agent, or its code raised an error.
    """
    target = target_of(text)
    return _read(target) if target.is_plan else _run(target)


def _read(target: Target) -> Loaded:
    from agent_factory.topology.load import TopologyFileError, load_topology, read_topology

    read = load_topology if target.place.endswith(".json") else read_topology
    try:
        return Loaded(read(read_text(target), target.place))
    except TopologyFileError as error:
        raise Trouble(str(error), error) from None


def _run(target: Target) -> Loaded:
    root, name = root_and_name(target.path) if target.is_file else (Path.cwd(), target.place)
    with at_home(root, target.folders), redirect_stdout(sys.stderr), _told_briefly():
        with _explained(target, name):
            module = import_file(target.path, name) if target.is_file else _import(name)
        attribute = target.attribute or _only_agent(target, module)
        with _explained(target, name):
            value = _get(target, module, attribute)
            loaded = _plan_of(f"{target.place}:{attribute}", value)
    file = getattr(module, "__file__", None)
    return replace(
        loaded, place=definition(Path(file), attribute.partition(".")[0]) if file else None
    )


def _import(name: str) -> ModuleType:
    return importlib.import_module(name)


@contextmanager
def _told_briefly() -> Iterator[None]:
    """What a build warns of is kept with the agent: nothing is to be printed of it here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AgentFactoryWarning)
        yield


@contextmanager
def _explained(target: Target, name: str) -> Iterator[None]:
    """Whatever the code of a target raises becomes a sentence."""
    try:
        yield
    except SpecError as error:
        raise NotBuilt(target, error, raised_at(error)) from None
    except Trouble:
        raise
    except ModuleNotFoundError as error:
        if error.name and f"{name}.".startswith(f"{error.name}."):
            raise Trouble(_no_module(target, name), error) from None
        raise _raised(target, error) from None
    except (Exception, SystemExit) as error:
        raise _raised(target, error) from None


def _raised(target: Target, error: BaseException) -> Trouble:
    place = raised_at(error)
    where = f", at {place}" if place else ""
    first_line = str(error).strip().partition("\n")[0]
    last = f"{type(error).__name__}: {first_line}".rstrip(": ")
    return Trouble(
        f"{target.text} raised {last}{where}. With --traceback, all of it is shown.", error
    )


def _no_module(target: Target, name: str) -> str:
    parent, _, last = name.rpartition(".")
    module = sys.modules.get(parent)
    if module is not None and hasattr(module, last):
        return f"There is no module {name}. Did you mean {parent}:{last}?"
    around = getattr(module, "__path__", [str(Path.cwd())])
    close = get_close_matches(last, [found.name for found in pkgutil.iter_modules(around)], n=1)
    meant = ".".join(filter(None, [parent if module else "", *close])) if close else ""
    hint = f"Did you mean {meant}?" if close else f"It is neither here nor installed. {HOW}"
    return f"There is no module {name}. {hint}"


def _only_agent(target: Target, module: ModuleType) -> str:
    """The name of the only agent in a module.

    Raises:
        Trouble: There is none, or more than one.
    """
    names = _agents_in(module)
    if len(names) == 1:
        return names[0]
    if not names:
        raise Trouble(f"{target.place} holds no agent. Write {target.place}:attribute.")
    choice = " or ".join(f"{target.place}:{name}" for name in names)
    raise Trouble(f"{target.place} holds several agents. Write {choice}.")


def _agents_in(module: ModuleType) -> list[str]:
    public = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    return [name for name, value in public.items() if _known(value)]


def _get(target: Target, module: ModuleType, attribute: str) -> Any:
    value: Any = module
    where = target.place
    for name in attribute.split("."):
        if not hasattr(value, name):
            raise Trouble(_no_attribute(where, value, name))
        value, where = getattr(value, name), f"{where}{'.' if value is not module else ':'}{name}"
    return value


def _no_attribute(where: str, owner: Any, name: str) -> str:
    there = [known for known in dir(owner) if not known.startswith("_")]
    agents = _agents_in(owner) if isinstance(owner, ModuleType) else []
    if close := get_close_matches(name, there, n=1):
        return f"{where} has no {name!r}. Did you mean {close[0]}?"
    hint = f"It has the agents {', '.join(agents)}." if agents else "It has no agent."
    return f"{where} has no {name!r}. {hint}"


def _plan_of(name: str, value: Any) -> Loaded:
    """The plan of a value, or of what a function without arguments gives.

    Raises:
        Trouble: It is nothing that has a plan.
        SpecError: The function builds an agent that is refused.
    """
    if found := _known(value):
        return found
    if isinstance(value, list | tuple):
        return _stack(value)
    if not inspect.isroutine(value):
        raise Trouble(f"{name} {_what_else(value)}")
    _check_call(name, value)
    made = value()
    if inspect.isawaitable(made):
        getattr(made, "close", lambda: None)()
        raise Trouble(f"{name} gives something to await. Give an agent, or a plain function.")
    if found := _known(made):
        return found
    if isinstance(made, list | tuple):
        return _stack(made)
    raise Trouble(f"{name} was called, and its result {_what_else(made)}")


def _known(value: Any) -> Loaded | None:
    """What an agent or a plan is; None for anything else."""
    from agent_factory.factory.agent import topology_of, warnings_of

    if isinstance(value, Topology):
        return Loaded(value)
    if inspect.isclass(value) or not hasattr(value, "builder"):
        return None
    try:
        return Loaded(topology_of(value), warnings_of(value))
    except ArgumentError:
        return None


def _stack(members: Sequence[Any]) -> Loaded:
    """The plan of a list of middleware: of an agent whose tools nobody knows yet."""
    from agent_factory.factory.agent import plan_agent

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        plan = plan_agent(middleware=list(members), ignore=["AF210"])
    told = [w.message for w in caught if isinstance(w.message, AgentFactoryWarning)]
    return Loaded(plan, tuple(finding for warning in told for finding in warning.warnings))


def _check_call(name: str, function: Any) -> None:
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise Trouble(f"{name} is asynchronous. Give an agent, or a plain function.")
    required = [
        parameter.name
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    if required:
        raise Trouble(
            f"{name} takes {', '.join(required)}, and can only be called without arguments. "
            "Write a function that needs none."
        )


def _what_else(value: Any) -> str:
    """Why a value is nothing that can be shown, and what to give instead."""
    from langgraph.graph import StateGraph
    from langgraph.pregel import Pregel

    from agent_factory.hooks.base import AgentMiddleware

    if isinstance(value, Pregel | StateGraph):
        return (
            "is a graph that agent_factory.create_agent did not build, so that nothing is known "
            "of its middleware. LangGraph draws it: get_graph().draw_mermaid()."
        )
    if isinstance(value, AgentMiddleware):
        return "is one middleware. Put it into a list."
    if inspect.isclass(value):
        return "is a class. Give an agent, or a function that builds one."
    return f"is no agent: {describe(value)}. {HOW}"
