"""Run an agent again with another stack, and find the first decision that differs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

from agent_factory.testing.comparison import first_difference, plain
from agent_factory.testing.fixtures import Middleware
from agent_factory.testing.recordings.cassette import Redact
from agent_factory.testing.recordings.replay import ReplayChatModel, replay

Build = Callable[[ReplayChatModel, list[Middleware]], Any]
"""What builds the agent, out of a model and a stack."""


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first decision that differs.

    Args:
        step: The step of the run it was made in, from 1.
        node: The node that made it.
        what: What differed, in words.
    """

    step: int
    node: str
    what: str

    def __str__(self) -> str:
        return f"step {self.step}, {self.node}: {self.what}"


@dataclass(frozen=True, slots=True)
class _Decision:
    """What a node wrote."""

    step: int
    node: str
    wrote: Any


def replay_with(
    path: str | Path,
    build: Build,
    input: Any,
    *,
    recorded: Sequence[Middleware],
    middleware: Sequence[Middleware],
    config: Mapping[str, Any] | None = None,
    redact: Redact | None = None,
    **kwargs: Any,
) -> Divergence | None:
    """Run an agent that was recorded with one stack again with another one.

    Both runs take the model's answers from the cassette, and their tools run anew: give tools that
    do no harm. Nodes that write nothing have decided nothing, so a stack with more of them does not
    differ for that.

    Args:
        path: The cassette.
        build: Builds the agent of a model and a stack:
            `lambda model, stack: create_agent(model, tools, middleware=stack)`.
        input: The input of the recorded run.
        recorded: The stack it was recorded with.
        middleware: The other stack.
        config: A RunnableConfig for both runs.
        redact: The function that was given to `record`, if there was one.
        **kwargs: Further arguments of `stream`, such as `context`.

    Returns:
        The first decision that differs, which reads as words; None where there is none.

    Raises:
        CassetteMismatch: The recorded stack itself asks something else than was recorded.
    """
    options = {"config": config, "stream_mode": "debug", **kwargs}
    runs = [_Run(replay(path, redact=redact)) for _ in range(2)]
    for run, stack in zip(runs, (recorded, middleware), strict=True):
        agent = build(run.model, list(stack))
        with run:
            for event in agent.stream(input, **options):
                run.note(event)
    return _first(*runs)


async def areplay_with(
    path: str | Path,
    build: Build,
    input: Any,
    *,
    recorded: Sequence[Middleware],
    middleware: Sequence[Middleware],
    config: Mapping[str, Any] | None = None,
    redact: Redact | None = None,
    **kwargs: Any,
) -> Divergence | None:
    """As `replay_with`, in asynchronous runs."""
    options = {"config": config, "stream_mode": "debug", **kwargs}
    runs = [_Run(replay(path, redact=redact)) for _ in range(2)]
    for run, stack in zip(runs, (recorded, middleware), strict=True):
        agent = build(run.model, list(stack))
        with run:
            async for event in agent.astream(input, **options):
                run.note(event)
    return _first(*runs)


@dataclass
class _Run:
    """A run, and what was decided in it until it ended, asked something new, or failed."""

    model: ReplayChatModel
    decisions: list[_Decision] = field(default_factory=list)
    error: Exception | None = None
    _under_way: tuple[int, str] = (1, "the start")

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        if isinstance(error, Exception):
            self.error = error
            self.decisions.append(_Decision(*self._under_way, {"raised": plain(error)}))
        return isinstance(error, Exception)

    def note(self, event: Mapping[str, Any]) -> None:
        payload, step = event["payload"], event["step"]
        if event["type"] == "task":
            self._under_way = (step, payload["name"])
        elif event["type"] == "task_result" and not self.model.mismatch:
            wrote = _wrote(payload)
            if wrote:
                self.decisions.append(_Decision(step, payload["name"], wrote))


def _wrote(payload: Mapping[str, Any]) -> Any:
    result = dict(payload["result"] or {})
    interrupts = [interrupt["value"] for interrupt in payload["interrupts"]]
    found = {**result, "interrupts": interrupts, "error": payload["error"]}
    return plain({key: value for key, value in found.items() if value not in (None, [], {})})


def _first(recorded: _Run, other: _Run) -> Divergence | None:
    if recorded.model.mismatch:
        recorded.model.assert_done()
    if recorded.error and not other.error:
        raise recorded.error
    pairs = zip_longest(_in_order(recorded.decisions), _in_order(other.decisions))
    for one, another in pairs:
        if words := _words(one, another):
            made = another or one
            return Divergence(made.step, made.node, _because(words, other.model, another))
    return None


def _in_order(decisions: list[_Decision]) -> Iterator[_Decision]:
    """Tools of one step end in any order."""
    yield from sorted(decisions, key=lambda made: (made.step, made.node, repr(made.wrote)))


def _because(words: str, model: ReplayChatModel, made: _Decision | None) -> str:
    asked_anew = model.mismatch and (made is None or "raised" in made.wrote)
    return f"the model is asked something else: {model.mismatch}" if asked_anew else words


def _words(one: _Decision | None, other: _Decision | None) -> str:
    if one is None or other is None or one.node != other.node:
        return f"{_told(one)} in the recorded run, {_told(other)} in this one"
    found = first_difference(one.wrote, other.wrote)
    return found.words("in the recorded run", "in this one") if found else ""


def _told(made: _Decision | None) -> str:
    if made is None:
        return "the run ends"
    # What stands in a list, messages above all, would be too much for a line.
    wrote = [k if isinstance(v, list) else f"{k}: {v!r}" for k, v in made.wrote.items()]
    return f"{made.node} writes {', '.join(wrote)}"
