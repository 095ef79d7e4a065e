"""`agent-factory new`: files to begin with."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from keyword import iskeyword
from pathlib import Path
from string import Template
from typing import Annotated, Final

import typer

from agent_factory.cli import console as screen
from agent_factory.cli.console import AsJson
from agent_factory.cli.error_reports import ShowTraceback, Trouble
from agent_factory.cli.loading import root_and_name
from agent_factory.topology.model import Phase

FLOWS: Final = ("around_model", "around_tool")
PHASES: Final = tuple(map(str, Phase))
HOOKS: Final = (*PHASES, *FLOWS)
"""What a new middleware can have: hooks, and flows, which serve both kinds of run."""

_NODE = '''
    def $hook(
        self,
        state: AgentState[Any],
        runtime: Runtime[Any],
    ) -> dict[str, Any] | None:
        """$when Returns a state update or None."""
        return None
'''

_FLOW = '''
    def $hook(self, request: $request) -> Flow[Any]:
        """$when `yield request` makes the call."""
        return (yield request)
'''

_WHEN = {
    "before_agent": "Runs once, when a run starts.",
    "before_model": "Runs before each call of the model.",
    "after_model": "Runs after each call of the model.",
    "after_agent": "Runs once, when a run ends.",
    "around_model": "Lies around each call of the model.",
    "around_tool": "Lies around each tool call.",
}

_REQUESTS = {"around_model": "ModelRequest[Any]", "around_tool": "ToolCallRequest"}

_CLASS = '''"""The middleware $name."""

from __future__ import annotations

from typing import Any

from agent_factory import (
$imports
)


class $name(AgentMiddleware):
    """Changes nothing yet: an agent answers with it as it does without.

    >>> from agent_factory import create_agent
    >>> from agent_factory.testing import ScriptedChatModel
    >>> stack = [$name()]
    >>> agent = create_agent(ScriptedChatModel(["Hello."]), middleware=stack)
    >>> agent.invoke({"messages": [("user", "Hi")]})["messages"][-1].text
    'Hello.'
    """
$methods'''

_TESTS = '''"""$name: its place in a plan, and a run with it."""

from __future__ import annotations

import asyncio
from typing import Any

from agent_factory import AgentMiddleware, create_agent, plan_agent
from agent_factory.testing import ScriptedChatModel

from $module import (
    $name,
)

QUESTION: Any = {"messages": [("user", "Find tea")]}


def find(query: str) -> str:
    """Find something."""
    return query.upper()


def agent(*stack: AgentMiddleware[Any, Any]) -> Any:
    """An agent that calls its tool once, and then answers."""
    call = {"name": "find", "args": {"query": "tea"}}
    model = ScriptedChatModel([[call], "There is TEA."])
    return create_agent(model, [find], middleware=stack)


def texts(result: Any) -> list[str]:
    return [message.text for message in result["messages"]]


def test_its_hooks_and_layers_are_in_the_plan() -> None:
    plan = plan_agent([find], middleware=[$name()])
    assert [str(hook.phase) for hook in plan.hooks] == [$hooks]
    assert [layer.method for layer in plan.layers] == [$layers]


def test_a_run_gives_what_it_gives_without_it() -> None:
    result = agent($name()).invoke(QUESTION)
    assert texts(result) == ["Find tea", "", "TEA", "There is TEA."]
    assert texts(result) == texts(agent().invoke(QUESTION))


def test_an_asynchronous_run_gives_the_same() -> None:
    built = agent($name())
    result = asyncio.run(built.ainvoke(QUESTION))
    assert texts(result) == ["Find tea", "", "TEA", "There is TEA."]
'''


@dataclass(frozen=True, slots=True)
class Skeleton:
    """A new middleware.

    Args:
        name: Its class.
        module: How tests import its module.
        hooks: The hooks and flows it has, in any order.
    """

    name: str
    module: str
    hooks: Sequence[str]

    @property
    def code(self) -> str:
        """The module.

        >>> "def before_model(" in Skeleton("Guard", "guard", ["before_model"]).code
        True
        """
        methods = "".join(map(_method, self._in_order(HOOKS)))
        imports = "\n".join(f"    {name}," for name in sorted(self._imports()))
        return Template(_CLASS).substitute(name=self.name, imports=imports, methods=methods)

    @property
    def tests(self) -> str:
        """The module of its tests."""
        return Template(_TESTS).substitute(
            name=self.name,
            module=self.module,
            hooks=_listed(self._in_order(PHASES)),
            layers=_listed(self._in_order(FLOWS)),
        )

    def _in_order(self, names: Sequence[str]) -> list[str]:
        return [name for name in names if name in self.hooks]

    def _imports(self) -> set[str]:
        nodes = {"AgentState", "Runtime"} if self._in_order(PHASES) else set()
        flows = {"Flow"} if self._in_order(FLOWS) else set()
        requests = {_REQUESTS[flow].partition("[")[0] for flow in self._in_order(FLOWS)}
        return {"AgentMiddleware", *nodes, *flows, *requests}


def _listed(names: Sequence[str]) -> str:
    """A list's inside, a line each: so it may be of any length."""
    lines = "".join(f'\n        "{name}",' for name in names)
    return f"{lines}\n    " if names else ""


def _method(hook: str) -> str:
    text = _FLOW if hook in FLOWS else _NODE
    return Template(text).substitute(hook=hook, when=_WHEN[hook], request=_REQUESTS.get(hook, ""))


EXAMPLES = """Examples:

agent-factory new middleware AuditTrail

agent-factory new middleware Guard --hooks before_model,around_tool --dir shop"""

LONGEST_NAME = 36
"""Characters of a class's name: with more, lines of its files would be too long."""


def middleware(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The class, in CapWords: AuditTrail.")
    ],
    hooks: Annotated[
        str, typer.Option(help=f"What it has, with commas: {', '.join(HOOKS)}.")
    ] = "before_model",
    directory: Annotated[
        Path, typer.Option("--dir", metavar="DIR", help="The folder to write into.")
    ] = Path(),
    json: AsJson = False,
    traceback: ShowTraceback = False,
) -> None:
    """Write a middleware and its tests: they pass, and are typed, as they are.

    AuditTrail becomes audit_trail.py and test_audit_trail.py. Nothing is overwritten.
    """
    module = _module(name)
    chosen = _hooks(hooks)
    files = _free_files(directory, module)
    _, dotted = root_and_name(files[0].absolute())
    skeleton = Skeleton(name, dotted, chosen)
    for file, text in zip(files, (skeleton.code, skeleton.tests), strict=True):
        _write(file, text)
    paths = [str(file) for file in files]
    if json:
        screen.write_json({"class": name, "hooks": chosen, "files": paths})
        return
    screen.write(f"Wrote {paths[0]} and {paths[1]}.")
    screen.write(f"Try them: python -m pytest --doctest-modules {' '.join(paths)}")


def _module(name: str) -> str:
    """The module of a class.

    Raises:
        Trouble: The name cannot be that of a class, or its module would hide another one.
    """
    words = re.findall(r"[^\W_]+", name)
    proposed = "".join(word[:1].upper() + word[1:] for word in words)
    if not name.isidentifier() or iskeyword(name) or name != proposed:
        good = proposed.isidentifier() and not iskeyword(proposed)
        hint = f"Did you mean {proposed}?" if good else "Write one such as AuditTrail."
        raise Trouble(f"{name!r} is no name for a class: CapWords are wanted. {hint}")
    if len(name) > LONGEST_NAME:
        raise Trouble(f"{name} has {len(name)} characters, and {LONGEST_NAME} are the most.")
    module = snake_case(name)
    if iskeyword(module) or module in sys.stdlib_module_names:
        raise Trouble(
            f"{module}.py would hide Python's own {module}. Add a word: {name}Middleware."
        )
    return module


def snake_case(name: str) -> str:
    """The file's name of a class.

    >>> snake_case("AuditTrail"), snake_case("HTTPGuard"), snake_case("PIIMask2")
    ('audit_trail', 'http_guard', 'pii_mask2')
    """
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return parted.lower()


def _hooks(text: str) -> list[str]:
    names = list(dict.fromkeys(filter(None, (part.strip() for part in text.split(",")))))
    for name in names:
        if name not in HOOKS:
            raise Trouble(f"--hooks: {name!r} is none that can be written. {_other(name)}")
    if not names:
        raise Trouble(f"--hooks is empty. Take any of {', '.join(HOOKS)}.")
    return names


def _other(name: str) -> str:
    if match := re.fullmatch(r"a?wrap_(model|tool)_call", name):
        return f"Take around_{match[1]}, which serves synchronous and asynchronous runs."
    return f"Take any of {', '.join(HOOKS)}."


def _free_files(directory: Path, module: str) -> tuple[Path, Path]:
    if not directory.is_dir():
        raise Trouble(f"There is no folder {directory}. Make it first, or give another --dir.")
    files = directory / f"{module}.py", directory / f"test_{module}.py"
    for file in files:
        if file.exists():
            raise Trouble(f"{file} exists, and is left as it is. Take another name or --dir.")
    return files


def _write(file: Path, text: str) -> None:
    try:
        with file.open("x", encoding="utf-8", newline="\n") as opened:
            opened.write(text)
    except OSError as error:
        raise Trouble(f"{file} cannot be written: {error.strerror}.", error) from None
