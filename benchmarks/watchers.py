"""Ways to run an agent and to see what it does, and how much each of them has to show.

A row would be fast if it showed nothing. So what a run showed is counted after each run, by kind,
and compared with what a step for each hook shows.
"""

from __future__ import annotations

import asyncio
import warnings
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.tracers.base import BaseTracer

from benchmarks.harness import Contender
from benchmarks.runs import Entry, built, question, until_done
from benchmarks.savers import CONFIG, Mode

Counts = Mapping[str, int]
"""How many things of each kind were seen."""

Watch = Callable[[Any, Any, Any], list[Any] | Awaitable[list[Any]]]
"""Runs an agent on an input with a config, and returns everything that was seen."""


@dataclass(frozen=True, slots=True)
class Size:
    """How large a run is.

    Args:
        turns: How many tool turns it takes.
        number: How many middleware its agent has, each with a hook before and after the model.
    """

    turns: int
    number: int

    @property
    def answers(self) -> int:
        """How often the model answers: once a turn, and at the end."""
        return self.turns + 1

    @property
    def hooks(self) -> int:
        """How many hooks run."""
        return 2 * self.number * self.answers

    @property
    def nodes(self) -> int:
        """How many nodes run where each hook has its own."""
        return self.hooks + self.answers + self.turns


@dataclass(frozen=True, slots=True)
class Watcher:
    """A way to run an agent and to see what it does.

    Args:
        name: The call, as a user writes it.
        mode: Whether the call is sync or async.
        watch: Makes the call.
        kind: The kind of a thing that was seen.
        shown: How many of each kind a run of this size shows.
        goal: The key of its goal: "traced" or "events" where callbacks follow each node; or None.
        writing: Whether tools have to write custom events.
        most: How many tool turns a run takes at most.
    """

    name: str
    mode: Mode
    watch: Watch
    kind: Callable[[Any], str]
    shown: Callable[[Size], Counts]
    goal: str | None = "watched"
    writing: bool = False
    most: int | None = None


class ShowsTooLittle(RuntimeError):
    """A run did not show what it should, so its time means nothing."""


class Tracer(BaseTracer):
    """Tracer that keeps nothing but the kinds of the runs it follows.

    It follows every node, as LangSmith's and OpenTelemetry's do.
    """

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def _persist_run(self, run: Any) -> None:
        """A whole trace is complete; it goes nowhere."""

    def _on_run_create(self, run: Any) -> None:
        self.seen.append(run.run_type)


class TokenCounter(BaseCallbackHandler):
    """Handler that listens to answers of models only, as counters of tokens do."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def on_llm_end(self, response: Any, **_: Any) -> None:
        """Count an answer."""
        self.seen.append("answer")


@contextmanager
def watched_runs(agents: Mapping[str, Entry], watcher: Watcher) -> Iterator[dict[str, Contender]]:
    """Contenders that each run an agent in view of a watcher, all in one event loop."""
    with ExitStack() as stack, warnings.catch_warnings():
        # Version 1 of the events is deprecated, version 3 is in beta.
        warnings.simplefilter("ignore")
        runner = stack.enter_context(asyncio.Runner())
        yield {
            name: _watched(name, entry, watcher, runner, stack) for name, entry in agents.items()
        }


def _watched(
    name: str, entry: Entry, watcher: Watcher, runner: asyncio.Runner, stack: ExitStack
) -> Contender:
    _, how = entry
    agent, kept = built(entry, runner, stack)
    asked, shown = question(how), watcher.shown(Size(how.turns, how.number))
    seen: list[Any] = []

    def run() -> None:
        found: Any = watcher.watch(agent, asked, CONFIG)
        seen.extend(found if watcher.mode is Mode.SYNC else until_done(runner, found))

    def check() -> None:
        kept.forget()
        counted = Counter(map(watcher.kind, seen))
        seen.clear()
        if counted != +Counter(shown):  # without kinds that are shown no times
            raise ShowsTooLittle(
                f"{name} must show {_listed(shown)} by {watcher.name}, got {_listed(counted)}. "
                "A row that shows something else is not comparable."
            )

    return Contender(run, tidy=check)


def _listed(counts: Counts) -> str:
    return ", ".join(f"{number} {kind}" for kind, number in sorted(counts.items())) or "nothing"


def watchers() -> list[Watcher]:
    """Every way: calls that only wait for the end, streams, events, and callbacks."""
    return [
        _invoke(Mode.SYNC),
        _invoke(Mode.ASYNC),
        *(_stream(each, mode) for mode in Mode for each in _STREAMED),
        _events_v3(Mode.SYNC),
        _events_v3(Mode.ASYNC),
        _called_back(TokenCounter, "a token counter", Mode.SYNC),
        _called_back(TokenCounter, "a token counter", Mode.ASYNC),
        _called_back(Tracer, "a tracer", Mode.SYNC),
        _called_back(Tracer, "a tracer", Mode.ASYNC),
        _events("v1"),
        _events("v2"),
    ]


def _called(name: str, mode: Mode) -> str:
    return name if mode is Mode.SYNC else f"a{name}"


def _invoke(mode: Mode) -> Watcher:
    watch = _invoked if mode is Mode.SYNC else _ainvoked
    return Watcher(_called("invoke", mode), mode, watch, _type, _whole_thread)


def _invoked(agent: Any, asked: Any, config: Any) -> list[Any]:
    messages: list[Any] = agent.invoke(asked, config)["messages"]
    return messages


async def _ainvoked(agent: Any, asked: Any, config: Any) -> list[Any]:
    result = await agent.ainvoke(asked, config)
    messages: list[Any] = result["messages"]
    return messages


def _type(message: Any) -> str:
    return f"{message.type} message"


def _whole_thread(size: Size) -> Counts:
    return {"human message": 1, **_new_messages(size)}


def _new_messages(size: Size) -> Counts:
    return {"ai message": size.answers, "tool message": size.turns}


def _updates(size: Size) -> Counts:
    return {
        "update of a hook": size.hooks,
        "update of the model": size.answers,
        "update of tools": size.turns,
    }


def _updated(part: Any) -> str:
    (node,) = part
    known = {"model": "update of the model", "tools": "update of tools"}
    return known.get(node, "update of a hook")


def _states(size: Size) -> Counts:
    # The input, then one after each step that wrote something.
    return {"state": 1 + size.answers + size.turns}


def _custom(size: Size) -> Counts:
    return {"custom event": size.turns}


def _both(size: Size) -> Counts:
    return {**_new_messages(size), **_updates(size)}


Shown = tuple[Callable[[Any], str], Callable[[Size], Counts]]

_BY_MODE: Mapping[str, Shown] = {
    "messages": (lambda part: _type(part[0]), _new_messages),
    "updates": (_updated, _updates),
    "values": (lambda part: "state", _states),
    "custom": (lambda part: "custom event", _custom),
}

_STREAMED: Sequence[str | list[str]] = [*_BY_MODE, ["messages", "updates"]]


def _stream(modes: str | list[str], mode: Mode) -> Watcher:
    name = f"{_called('stream', mode)} {modes!r}".replace("'", '"')
    watch = partial(_streamed if mode is Mode.SYNC else _astreamed, modes)
    if isinstance(modes, list):
        return Watcher(name, mode, watch, lambda part: _BY_MODE[part[0]][0](part[1]), _both)
    kind, shown = _BY_MODE[modes]
    return Watcher(name, mode, watch, kind, shown, writing=modes == "custom")


def _streamed(modes: Any, agent: Any, asked: Any, config: Any) -> list[Any]:
    return list(agent.stream(asked, config, stream_mode=modes))


async def _astreamed(modes: Any, agent: Any, asked: Any, config: Any) -> list[Any]:
    return [part async for part in agent.astream(asked, config, stream_mode=modes)]


def _events_v3(mode: Mode) -> Watcher:
    name = f"{_called('stream_events', mode)} v3"
    watch = _streamed_events if mode is Mode.SYNC else _astreamed_events
    return Watcher(name, mode, watch, lambda event: f"{event['method']} event", _v3)


def _streamed_events(agent: Any, asked: Any, config: Any) -> list[Any]:
    return list(agent.stream_events(asked, config, version="v3"))


async def _astreamed_events(agent: Any, asked: Any, config: Any) -> list[Any]:
    run = await agent.astream_events(asked, config, version="v3")
    return [event async for event in run]


def _v3(size: Size) -> Counts:
    (states,) = _states(size).values()
    # A call of a tool starts and ends.
    return {
        "values event": states,
        "messages event": size.answers,
        "tools event": 2 * size.turns,
    }


def _events(version: str) -> Watcher:
    watch, name = partial(_events_of, version), f"astream_events {version}"
    if version == "v2":
        return Watcher(name, Mode.ASYNC, watch, _event, _started, "events")
    # langchain-core makes these from patches of a log, in a time that grows with the square of
    # their number: ten turns take a minute, in whose agent they may be.
    return Watcher(f"{name}, one turn", Mode.ASYNC, watch, _event, _started, goal=None, most=1)


def _event(event: Any) -> str:
    return str(event["event"])


async def _events_of(version: str, agent: Any, asked: Any, config: Any) -> list[Any]:
    # langchain-core's `astream_events` sets a limit of 25 steps in place of the agent's own.
    config = {**config, "recursion_limit": 10_000}
    return [event async for event in agent.astream_events(asked, config, version=version)]


def _started(size: Size) -> Counts:
    return {
        "on_chain_start": 1 + size.nodes,
        # Each node's result is streamed by the node and by the run.
        "on_chain_stream": 2 * size.nodes,
        "on_chain_end": 1 + size.nodes,
        "on_chat_model_start": size.answers,
        "on_chat_model_end": size.answers,
        "on_tool_start": size.turns,
        "on_tool_end": size.turns,
    }


def _called_back(handler: type[Any], name: str, mode: Mode) -> Watcher:
    watch = partial(_handled if mode is Mode.SYNC else _ahandled, handler)
    called = f"{_called('invoke', mode)} with {name}"
    if handler is Tracer:
        return Watcher(called, mode, watch, str, _traced, "traced")
    return Watcher(called, mode, watch, str, _counted)


def _handled(handler: type[Any], agent: Any, asked: Any, config: Any) -> list[Any]:
    listening = handler()
    agent.invoke(asked, {**config, "callbacks": [listening]})
    seen: list[str] = listening.seen
    return seen


async def _ahandled(handler: type[Any], agent: Any, asked: Any, config: Any) -> list[Any]:
    listening = handler()
    await agent.ainvoke(asked, {**config, "callbacks": [listening]})
    seen: list[str] = listening.seen
    return seen


def _traced(size: Size) -> Counts:
    return {"chain": 1 + size.nodes, "llm": size.answers, "tool": size.turns}


def _counted(size: Size) -> Counts:
    return {"answer": size.answers}
