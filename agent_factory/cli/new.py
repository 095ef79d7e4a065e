"""`agent-factory new`: the first files of a middleware."""

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

from agent_factory.cli import console
from agent_factory.cli.console import AsJson
from agent_factory.cli.error_reports import CommandError, ShowTraceback
from agent_factory.cli.loading import root_and_name

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

_STREAM_FLOW = '''
    def $hook(self, request: $request) -> Flow[None]:
        """$when `yield chunk` lets one pass."""
        while (chunk := (yield NextChunk())) is not None:
            yield chunk
'''

_RUN_FLOW = '''
    def $hook(self, state: $request) -> Flow[Any]:
        """$when `yield state` runs the agent."""
        return (yield state)
'''

_WHEN = {
    "before_agent": "Runs once, when a run starts.",
    "before_model": "Runs before each model call.",
    "after_model": "Runs after each model call.",
    "after_agent": "Runs once, when a run ends.",
    "around_agent": "Wraps a whole run.",
    "around_model": "Wraps each model call.",
    "around_stream": "Changes each answer, chunk by chunk.",
    "around_tool": "Wraps each tool call.",
}

_REQUESTS = {
    "around_agent": "AgentState[Any]",
    "around_model": "ModelRequest[Any]",
    "around_stream": "ModelRequest[Any]",
    "around_tool": "ToolCallRequest",
}
"""What the flows get; the other methods are node hooks."""

_FORMS = {"around_agent": _RUN_FLOW, "around_stream": _STREAM_FLOW}
"""The flows of another form than those around calls."""

HOOKS: Final = tuple(_WHEN)
"""The methods that a new middleware can have."""

_CLASS = '''"""The middleware $name."""

from __future__ import annotations

from typing import Any

from agent_factory import (
$imports
)


class $name(AgentMiddleware):
    """Changes nothing yet: an agent gives the same answer with it and without it.

    >>> from agent_factory import create_agent
    >>> from agent_factory.testing import ScriptedChatModel
    >>> stack = [$name()]
    >>> agent = create_agent(ScriptedChatModel(["Hello."]), middleware=stack)
    >>> agent.invoke({"messages": [("user", "Hi")]})["messages"][-1].text
    'Hello.'
    """
$methods'''

_TESTS = '''"""Tests of $name."""

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
    """An agent that calls its tool once and then answers."""
    call = {"name": "find", "args": {"query": "tea"}}
    model = ScriptedChatModel([[call], "There is TEA."])
    return create_agent(model, [find], middleware=stack)


def texts(result: Any) -> list[str]:
    return [message.text for message in result["messages"]]


def test_its_hooks_and_layers_are_in_the_plan() -> None:
    plan = plan_agent(tools=[find], middleware=[$name()])
    assert [str(hook.phase) for hook in plan.hooks] == [$hooks]
    assert [layer.method for layer in plan.layers] == [$layers]


def test_a_run_gives_the_same_with_and_without_it() -> None:
    result = agent($name()).invoke(QUESTION)
    assert texts(result) == ["Find tea", "", "TEA", "There is TEA."]
    assert texts(result) == texts(agent().invoke(QUESTION))


def test_an_async_run_gives_the_same() -> None:
    built = agent($name())
    result = asyncio.run(built.ainvoke(QUESTION))
    assert texts(result) == ["Find tea", "", "TEA", "There is TEA."]
'''


@dataclass(frozen=True, slots=True)
class Skeleton:
    """A new middleware: its class, the module that tests import it from, its hooks and flows."""

    name: str
    module: str
    hooks: Sequence[str]

    @property
    def code(self) -> str:
        """The module."""
        imports, methods = {"AgentMiddleware"}, []
        for hook in (hook for hook in HOOKS if hook in self.hooks):
            request = _REQUESTS.get(hook)
            names = {"Flow", request.partition("[")[0]} if request else {"AgentState", "Runtime"}
            imports |= names
            form = _FORMS.get(hook, _FLOW)
            if hook == "around_stream":
                imports.add("NextChunk")
            template = Template(form if request else _NODE)
            methods.append(template.substitute(hook=hook, when=_WHEN[hook], request=request))
        return Template(_CLASS).substitute(
            name=self.name,
            imports="\n".join(f"    {name}," for name in sorted(imports)),
            methods="".join(methods),
        )

    @property
    def tests(self) -> str:
        """The module of its tests."""

        def listed(are_flows: bool) -> str:
            # One name a line, so that the list may have any length.
            names = [n for n in HOOKS if n in self.hooks and (n in _REQUESTS) == are_flows]
            lines = "".join(f'\n        "{name}",' for name in names)
            return f"{lines}\n    " if names else ""

        return Template(_TESTS).substitute(
            name=self.name,
            module=self.module,
            hooks=listed(are_flows=False),
            layers=listed(are_flows=True),
        )


EXAMPLES = """Examples:

agent-factory new middleware AuditTrail

agent-factory new middleware Guard --hooks before_model,around_tool --dir shop"""

LONGEST_NAME = 36
"""The most characters of a class's name: with more, lines of its files would be too long."""


def middleware(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The class, in CapWords: AuditTrail.")
    ],
    hooks: Annotated[
        str, typer.Option(help=f"Its methods, separated by commas: {', '.join(HOOKS)}.")
    ] = "before_model",
    directory: Annotated[
        Path, typer.Option("--dir", metavar="DIR", help="The folder to write into.")
    ] = Path(),
    json: AsJson = False,
    traceback: ShowTraceback = False,
) -> None:
    """Write a middleware and its tests, which pass and are fully typed.

    AuditTrail becomes audit_trail.py and test_audit_trail.py. Nothing is overwritten.
    """
    words = re.findall(r"[^\W_]+", name)
    proposal = "".join(word[:1].upper() + word[1:] for word in words)
    if not name.isidentifier() or iskeyword(name) or name != proposal:
        good = proposal.isidentifier() and not iskeyword(proposal)
        hint = f"Did you mean {proposal}?" if good else "Write one such as AuditTrail."
        raise CommandError(f"{name!r} is not a valid class name; use CapWords. {hint}")
    if len(name) > LONGEST_NAME:
        raise CommandError(
            f"A class name may have {LONGEST_NAME} characters, and {name} has {len(name)}."
        )
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
    if not directory.is_dir():
        raise CommandError(
            f"The folder {directory} does not exist. Create it, or use another --dir."
        )
    files = directory / f"{module}.py", directory / f"test_{module}.py"
    for file in files:
        if file.exists():
            raise CommandError(f"{file} exists and is not changed. Use another name or --dir.")
    skeleton = Skeleton(name, root_and_name(files[0].absolute())[1], selection)
    for file, text in zip(files, (skeleton.code, skeleton.tests), strict=True):
        try:
            # Mode x: a file that has been created since the check is not overwritten.
            with file.open("x", encoding="utf-8", newline="\n") as stream:
                stream.write(text)
        except OSError as error:
            raise CommandError(f"{file} cannot be written: {error.strerror}.", error) from None
    paths = [str(file) for file in files]
    if json:
        console.write_json({"class": name, "hooks": selection, "files": paths})
        return
    console.write(f"Wrote {paths[0]} and {paths[1]}.")
    console.write(f"Try them: python -m pytest --doctest-modules {' '.join(paths)}")


def snake_case(name: str) -> str:
    """The file name of a class, without its suffix.

    >>> snake_case("AuditTrail"), snake_case("HTTPGuard"), snake_case("PIIMask2")
    ('audit_trail', 'http_guard', 'pii_mask2')
    """
    # Before a capital that ends a small word, and before the last of several capitals.
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return words.lower()
