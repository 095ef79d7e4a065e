"""`agent-factory new`: the first files of a middleware, or of an agent with its tests."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.util import find_spec
from keyword import iskeyword
from pathlib import Path
from string import Template
from typing import Annotated, Final

import typer

from agent_factory.cli import console
from agent_factory.cli.console import AsJson
from agent_factory.cli.error_reports import CommandError
from agent_factory.cli.loading import load_builder, root_and_name
from agent_factory.errors import requirement

_IMPORTS = re.compile("AgentState|Flow|ModelRequest|NextChunk|Runtime|ToolCallRequest")
"""The names in a method that the module imports."""


@dataclass(frozen=True, slots=True)
class Method:
    """Method of a new middleware.

    Args:
        when: Sentence about the time of a call.
        form: Template of the method.
        request: Type of the argument of a flow; empty for a node hook.
    """

    when: str
    form: str = "node_hook"
    request: str = ""


HOOKS: Final[Mapping[str, Method]] = {
    "before_agent": Method("Runs once, when a run starts."),
    "before_model": Method("Runs before each model call."),
    "after_model": Method("Runs after each model call."),
    "after_agent": Method("Runs once, when a run ends."),
    "around_agent": Method("Wraps a whole run.", "run_flow", "AgentState[Any]"),
    "around_model": Method("Wraps each model call.", "call_flow", "ModelRequest[Any]"),
    "around_stream": Method(
        "Changes each answer, chunk by chunk.", "stream_flow", "ModelRequest[Any]"
    ),
    "around_tool": Method("Wraps each tool call.", "call_flow", "ToolCallRequest"),
}
"""The methods that a new middleware can have; those without a request are node hooks."""


def template(path: str) -> Template:
    """Text of a new file, from the folder of templates."""
    return Template((files("agent_factory.cli") / "templates" / path).read_text(encoding="utf-8"))


@dataclass(frozen=True, slots=True)
class Skeleton:
    """New middleware: the name of the class, the module, the hooks and flows."""

    name: str
    module: str
    hooks: Iterable[str]

    @property
    def methods(self) -> dict[str, Method]:
        """The methods of the class, in the order of `HOOKS`."""
        return {name: method for name, method in HOOKS.items() if name in self.hooks}

    @property
    def code(self) -> str:
        """The module."""
        methods = "".join(
            template(f"middleware/{method.form}.py.txt").substitute(
                hook=hook, when=method.when, request=method.request
            )
            for hook, method in self.methods.items()
        )
        imports = {"AgentMiddleware", *_IMPORTS.findall(methods)}
        return template("middleware/middleware.py.txt").substitute(
            name=self.name,
            imports="\n".join(f"    {name}," for name in sorted(imports)),
            methods=methods,
        )

    @property
    def tests(self) -> str:
        """The module of its tests."""

        def listed(names: Sequence[str]) -> str:
            # A name on each line: the list may have any length.
            lines = "".join(f'\n        "{name}",' for name in names)
            return f"{lines}\n    " if names else ""

        methods = self.methods.items()
        return template("middleware/test_middleware.py.txt").substitute(
            name=self.name,
            module=self.module,
            hooks=listed([name for name, method in methods if not method.request]),
            layers=listed([name for name, method in methods if method.request]),
        )


@dataclass(frozen=True, slots=True)
class NameRule:
    """Form of the name of a new class or package; longer names make lines of files too long."""

    kind: str
    style: str
    example: str
    longest: int

    def check(self, name: str, proposal: str) -> None:
        """Refuse a name that is not the proposal, is not a name of Python, or is too long."""
        if not name.isidentifier() or iskeyword(name) or name != proposal:
            good = proposal.isidentifier() and not iskeyword(proposal)
            hint = f"Did you mean {proposal}?" if good else f"Write one such as {self.example}."
            raise CommandError(
                f"{name!r} is not a valid {self.kind} name; use {self.style}. {hint}"
            )
        if len(name) > self.longest:
            raise CommandError(
                f"A {self.kind} name may have {self.longest} characters, and {name} has "
                f"{len(name)}."
            )


CLASS: Final = NameRule("class", "CapWords", "AuditTrail", 36)
PACKAGE: Final = NameRule("package", "snake_case", "order_desk", 30)

FILES: Final = (
    "README.md",
    "pyproject.toml",
    ".gitignore",
    "$name/__init__.py",
    "$name/agent.py",
    "$name/py.typed",
    "tests/test_agent.py",
)
"""The files of an agent, by their paths, without the snapshot of its plan."""

SNAPSHOT: Final = "tests/__snapshots__/test_agent/test_the_plan.topology"

Directory = Annotated[Path, typer.Option("--dir", metavar="DIR", help="The folder to write into.")]

EXAMPLES = """\
agent-factory new middleware AuditTrail
agent-factory new middleware Guard --hooks before_model,around_tool --dir shop"""

AGENT_EXAMPLES = """\
agent-factory new agent desk
agent-factory new agent order_desk --dir products"""


def middleware(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The class, in CapWords: AuditTrail.")
    ],
    hooks: Annotated[
        str, typer.Option(help=f"Its methods, separated by commas: {', '.join(HOOKS)}.")
    ] = "before_model",
    directory: Directory = Path(),
    json: AsJson = False,
) -> None:
    """Write a middleware and its tests, which pass and are fully typed.

    AuditTrail becomes audit_trail.py and test_audit_trail.py. Nothing is overwritten.
    """
    words = re.findall(r"[^\W_]+", name)
    CLASS.check(name, "".join(word[:1].upper() + word[1:] for word in words))
    module = snake_case(name)
    if iskeyword(module) or module in sys.stdlib_module_names:
        raise CommandError(
            f"{module}.py would hide Python's own {module}. Add a word: {name}Middleware."
        )
    selection = list(dict.fromkeys(filter(None, (part.strip() for part in hooks.split(",")))))
    for hook in selection:
        if hook not in HOOKS:
            wrap = re.fullmatch(r"a?wrap_(model|tool)_call", hook)
            hint = f"Use around_{wrap[1]}, which works in sync and async runs." if wrap else ""
            hint = hint or f"Use any of {', '.join(HOOKS)}."
            raise CommandError(f"--hooks: {hook!r} is not available. {hint}")
    if not selection:
        raise CommandError(f"--hooks is empty. Use any of {', '.join(HOOKS)}.")
    paths = directory / f"{module}.py", directory / f"test_{module}.py"
    _check_new(directory, *paths)
    skeleton = Skeleton(name, root_and_name(paths[0].absolute())[1], selection)
    written = _write({paths[0]: skeleton.code, paths[1]: skeleton.tests})
    data = {"class": name, "hooks": selection, "files": written}
    command = f"python -m pytest --doctest-modules {' '.join(written)}"
    text = f"Wrote {' and '.join(written)}.\nTry them: {command}"
    console.report(data, text, json=json)


def agent(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The package, in snake_case: order_desk.")
    ],
    directory: Directory = Path(),
    json: AsJson = False,
) -> None:
    """Write a product: an agent with a stack, tests, a snapshot of its plan, a trajectory.

    order_desk becomes a folder of that name. Its tests pass and it is fully typed. Nothing is
    overwritten.
    """
    from agent_factory import topology_of
    from agent_factory.testing import ScriptedChatModel

    PACKAGE.check(name, re.sub(r"\W+", "_", name).strip("_").lower())
    if name in sys.stdlib_module_names or name == "tests" or find_spec(name) is not None:
        raise CommandError(
            f"A package {name} would hide another one of that name. Add a word: {name}_agent."
        )
    folder = directory / name
    _check_new(directory, folder)
    values = {
        "name": name,
        "library": requirement(),
        "library_for_tests": requirement("cli", "testing"),
        "library_for_studio": requirement("serve"),
    }
    texts = {
        folder / Template(path).substitute(values): template(
            f"agent/{Path(path).name.lstrip('.')}.txt"
        ).substitute(values)
        for path in FILES
    }
    written = _write(texts)
    # The snapshot is the plan of the new agent, which is loaded from the new files.
    build = load_builder(f"{folder / name / 'agent.py'}:build_agent")
    plan = topology_of(build(ScriptedChatModel([])))
    written += _write({folder / SNAPSHOT: plan.to_snapshot()})
    text = f"Wrote {folder} with {len(written)} files.\nTry it: cd {folder} && python -m pytest"
    console.report({"package": name, "files": written}, text, json=json)


def _check_new(folder: Path, *paths: Path) -> None:
    """Refuse a missing folder, and existing paths in a folder."""
    if not folder.is_dir():
        raise CommandError(f"The folder {folder} does not exist. Create it, or use another --dir.")
    for path in paths:
        if path.exists():
            raise CommandError(f"{path} exists and is not changed. Use another name or --dir.")


def _write(texts: Mapping[Path, str]) -> list[str]:
    """Write new files, and return their paths."""
    for file, text in texts.items():
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            # Mode x: a file created since the check is not overwritten.
            with file.open("x", encoding="utf-8", newline="\n") as stream:
                stream.write(text)
        except OSError as error:
            raise CommandError(f"{file} cannot be written: {error.strerror}.", error) from None
    return list(map(str, texts))


def snake_case(name: str) -> str:
    """The file name of a class, without the suffix.

    >>> snake_case("AuditTrail"), snake_case("HTTPGuard"), snake_case("PIIMask2")
    ('audit_trail', 'http_guard', 'pii_mask2')
    """
    # Before a capital after a small letter, and before the last of several capitals.
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return words.lower()
