"""Run one build with langchain's agents and with ours, and compare everything visible."""

from __future__ import annotations

import asyncio
import importlib
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from inspect import cleandoc
from typing import Any
from unittest.mock import patch

from langchain_core.tools import tool
from pydantic import PrivateAttr

import agent_factory
import agent_factory.middleware
import agent_factory.prebuilt
from agent_factory.testing import ScriptedChatModel
from agent_factory.testing.comparison import difference, normalize

THREAD: Any = {"configurable": {"thread_id": "1"}}
Build = Callable[["Library", Callable[..., Any]], Any]
"""Makes an agent with the factories of a library and models that play a script."""


@dataclass(frozen=True)
class Library:
    """Factories and built-in middleware: langchain's, or ours."""

    create_agent: Any
    create_react_agent: Any
    middleware: Any
    structured_output: Any

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Put the factories in the place of langchain's, in the packages that imported them."""
        with ExitStack() as stack:
            for name, module in list(sys.modules.items()):
                if name.partition(".")[0] in ("deepagents", "langgraph_supervisor"):
                    for factory in ("create_agent", "create_react_agent"):
                        if hasattr(module, factory):
                            ours = getattr(self, factory)
                            stack.enter_context(patch.object(module, factory, ours))
            yield


def libraries() -> tuple[Library, Library, Library]:
    """Langchain's, ours, and ours hook by hook."""
    theirs = Library(
        importlib.import_module("langchain.agents").create_agent,
        importlib.import_module("langgraph.prebuilt").create_react_agent,
        importlib.import_module("langchain.agents.middleware"),
        importlib.import_module("langchain.agents.structured_output"),
    )
    ours = Library(
        agent_factory.create_agent,
        agent_factory.prebuilt.create_react_agent,
        agent_factory.middleware,
        importlib.import_module("agent_factory.structured_output"),
    )
    by_hook = Library(
        partial(ours.create_agent, fused=False),
        ours.create_react_agent,
        ours.middleware,
        ours.structured_output,
    )
    return theirs, ours, by_hook


def dedented(definition: Any) -> Any:
    """The definition of a tool, with its descriptions as `inspect.getdoc` has them."""
    if isinstance(definition, list):
        return [dedented(part) for part in definition]
    if not isinstance(definition, dict):
        return definition
    return {
        key: cleandoc(part) if key == "description" and isinstance(part, str) else dedented(part)
        for key, part in definition.items()
    }


class RecordingModel(ScriptedChatModel):
    """Scripted model that also keeps the definitions of the tools that it was offered."""

    _definitions: list[Any] = PrivateAttr(default_factory=list)

    def _respond(self, messages: Any, stop: Any, kwargs: Any) -> Any:
        self._definitions.append(kwargs.get("tools", []))
        return super()._respond(messages, stop, kwargs)

    @property
    def seen(self) -> Any:
        """What reached the model, except for three differences by design (docs/differences.md).

        Here the tools of the agent come before those of its middleware, so tools are sorted. And
        a model is never forced to call an output tool, which is `tool_choice="any"` in langchain.
        Before Python 3.13, langchain sends the docstring of a class with its indentation.
        """
        return [
            (
                request.messages,
                sorted(map(dedented, tools), key=str),
                {k: v for k, v in request.kwargs.items() if (k, v) != ("tool_choice", "any")},
            )
            for request, tools in zip(self.requests, self._definitions, strict=True)
        ]


@dataclass
class Story:
    """What is visible of the runs of an agent on one thread, as plain data."""

    outcomes: list[Any] = field(default_factory=list)
    """The result of each input: the state and its interrupts, or the error."""
    state: Any = None
    """The state of the thread at the end, if the agent has a checkpointer."""
    seen: list[Any] = field(default_factory=list)
    """For each model, its requests: messages, definitions of tools, settings."""
    stream: Any = None
    """For each namespace and mode, the chunks of all runs."""

    @property
    def course(self) -> Any:
        """How the last run went: messages without the texts of tools, and files."""
        result = self.outcomes[-1]
        fields = ("type", "name", "tool_calls", "status")
        messages = [
            [m.get(name) for name in fields] + ([] if m["type"] == "tool" else [m["content"]])
            for m in result["messages"]
        ]
        return messages, result.get("files")

    @property
    def results(self) -> list[str]:
        """The texts of tool messages in the last result."""
        messages = self.outcomes[-1]["messages"]
        return [str(m["content"]) for m in messages if m["type"] == "tool"]


VARYING = {
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(\+00:00| UTC|Z)?": "<time>",
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}": "<uuid>",
    r"\bsession_[0-9a-f]+\b": "<session>",
    r"0x[0-9a-f]{6,}": "<address>",
    r"-[0-9a-f]{16}\b": "-<random>",
}


def plain(value: Any) -> Any:
    """Plain data without what differs between two runs of one agent."""
    if isinstance(value, dict):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    # The description of an output tool is a docstring, here without the space at its end.
    text = value.rstrip() if isinstance(value, str) else repr(value)
    for pattern, name in VARYING.items():
        text = re.sub(pattern, name, text)
    return text


def tell(
    build: Build, library: Library, inputs: Sequence[Any], way: Any, done: bool = True, **known: Any
) -> Story:
    """Run the inputs on a fresh agent, one after the other on one thread."""
    with library.in_place():
        return _tell(build, library, inputs, way, done, **known)


def _tell(
    build: Build, library: Library, inputs: Sequence[Any], way: Any, done: bool, **known: Any
) -> Story:
    models: list[RecordingModel] = []

    def script(*steps: Any) -> RecordingModel:
        models.append(RecordingModel(steps=list(steps)))
        return models[-1]

    agent = build(library, script)
    story = Story()
    chunks: Counter[Any] = Counter()
    for given in inputs:
        if callable(given):  # what to answer depends on the thread
            given = given(agent)
        given = {"messages": [("user", given)]} if isinstance(given, str) else given
        try:
            result, streamed = way(agent, given, THREAD, **known)
        except Exception as error:
            result, streamed = {"error": error}, []
        story.outcomes.append(plain(normalize(result)))
        for namespace, mode, chunk in streamed:
            where = "/".join(step.partition(":")[0] for step in namespace)
            # Parallel tools finish in any order, so chunks are counted.
            chunks[f"{where} {mode}: {plain(normalize(chunk))}"] += 1
    story.stream = dict(sorted(chunks.items()))
    if getattr(agent, "checkpointer", None):
        story.state = plain(normalize(agent.get_state(THREAD).values))
    story.seen = [plain(normalize(model.seen)) for model in models]
    if done:
        for model in models:
            model.assert_done()
    return story


MODES = ["updates", "values", "messages", "custom"]


def streamed(agent: Any, given: Any, config: Any, **known: Any) -> Any:
    """The result of a run and all its chunks."""
    options: Any = {"stream_mode": MODES, "subgraphs": True, **known}
    return with_result(agent, list(agent.stream(given, config, **options)))


def astreamed(agent: Any, given: Any, config: Any, **known: Any) -> Any:
    """The same of an asynchronous run."""

    async def collect() -> list[Any]:
        options: Any = {"stream_mode": MODES, "subgraphs": True, **known}
        return [chunk async for chunk in agent.astream(given, config, **options)]

    return with_result(agent, asyncio.run(collect()))


def with_result(agent: Any, chunks: list[Any]) -> Any:
    values = [chunk for namespace, mode, chunk in chunks if mode == "values" and not namespace]
    # This mode also yields the keys that a result leaves out.
    result = {key: value for key, value in values[-1].items() if key in agent.output_channels}
    waiting = [
        interrupt.value
        for namespace, mode, chunk in chunks
        if mode == "updates" and not namespace
        for interrupt in chunk.get("__interrupt__", ())
    ]
    return result | ({"interrupts": waiting} if waiting else {}), [
        (namespace, mode, simple(mode, chunk))
        for namespace, mode, chunk in chunks
        # A handoff waits here for the other calls of the turn, so its own step follows.
        if (mode, chunk) != ("updates", {"tools": None})
    ]


def simple(mode: str, chunk: Any) -> Any:
    """A chunk; of a message its text, calls and node."""
    if mode != "messages":
        return chunk
    message, metadata = chunk
    calls = getattr(message, "tool_call_chunks", None)
    return [type(message).__name__, message.text, calls, metadata["langgraph_node"]]


def invoked(agent: Any, given: Any, config: Any, **known: Any) -> Any:
    return with_interrupts(agent.invoke(given, config, **known))


def ainvoked(agent: Any, given: Any, config: Any, **known: Any) -> Any:
    return with_interrupts(asyncio.run(agent.ainvoke(given, config, **known)))


def with_interrupts(result: Any) -> Any:
    result = dict(result)
    waiting = [interrupt.value for interrupt in result.pop("__interrupt__", ())]
    return result | ({"interrupts": waiting} if waiting else {}), []


def tell_each(build: Build, *inputs: Any, asynchronous: bool, **known: Any) -> list[Story]:
    """Run all libraries: langchain's, ours, ours hook by hook."""
    way = ainvoked if asynchronous else invoked
    known["done"] = False
    return [tell(build, library, inputs or ("Hi",), way, **known) for library in libraries()]


def compare(
    build: Build,
    *inputs: Any,
    asynchronous: bool,
    stream: bool = True,
    quiet: bool = True,
    parts: Sequence[str] = ("outcomes", "state", "seen", "stream"),
    **known: Any,
) -> Story:
    """Run all libraries, compare them, and return the story of ours."""
    theirs, ours, by_hook = libraries()
    stream_way, invoke_way = (astreamed, ainvoked) if asynchronous else (streamed, invoked)
    inputs = inputs or ("Hi",)
    way = stream_way if stream else invoke_way
    expected = tell(build, theirs, inputs, way, **known)
    given = tell(build, ours, inputs, way, **known)
    found = [(given, "here"), (tell(build, by_hook, inputs, way, **known), "hook by hook")]
    if quiet and stream:
        found.append((tell(build, ours, inputs, invoke_way, **known), "here, not streamed"))
    for story, name in found:
        for part in parts:
            if (name, part) == ("here, not streamed", "stream"):
                continue
            one, other = getattr(expected, part), getattr(story, part)
            text = difference(one, other, ("in langchain", name), part)
            if text:
                raise AssertionError(text)
    return given


def calls(*requests: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Tool calls with ids that are the same in each run: `calls(("ls", {"path": "/"}))`."""
    return [{"name": n, "args": args, "id": f"{n}_{i}"} for i, (n, args) in enumerate(requests)]


@tool
def lookup(topic: str) -> str:
    """Look a topic up."""
    return f"All about {topic}."
