"""Run an agent from a cassette with another stack, and find the first decision that differs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

from agent_factory.testing.comparison import difference, normalize
from agent_factory.testing.harness import Middleware
from agent_factory.testing.recordings import Redact, ReplayChatModel, replay

Build = Callable[[ReplayChatModel, list[Middleware]], Any]
"""A function that builds the agent from a model and a stack."""


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first decision that differs.

    Args:
        step: The step of the run in which it was made, from 1.
        node: The node that made it.
        what: The difference as text.
    """

    step: int
    node: str
    what: str

    def __str__(self) -> str:
        return f"step {self.step}, {self.node}: {self.what}"


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

    Both runs take the answers of the model from the cassette and run their tools again: use tools
    without side effects. A node that writes nothing makes no decision, so additional nodes of that
    kind are not a difference.

    Args:
        path: The cassette.
        build: Builds the agent from a model and a stack:
            `lambda model, stack: create_agent(model, tools, middleware=stack)`.
        input: The input of the recorded run.
        recorded: The stack of the recorded run.
        middleware: The other stack.
        config: A RunnableConfig for both runs.
        redact: The function that was passed to `record`, if any.
        **kwargs: Further arguments of `stream`, such as `context`.

    Returns:
        The first decision that differs; `str` describes it. None if there is none.

    Raises:
        CassetteMismatch: Even the recorded stack sends requests that are not in the cassette.
    """
    options = {"config": config, "stream_mode": "debug", **kwargs}
    runs = [_Run(replay(path, redact=redact)) for _ in range(2)]
    for run, stack in zip(runs, (recorded, middleware), strict=True):
        agent = build(run.model, list(stack))
        with run:
            for event in agent.stream(input, **options):
                run.add(event)
    return _divergence(*runs)


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
    """Compare two asynchronous runs; otherwise as `replay_with`."""
    options = {"config": config, "stream_mode": "debug", **kwargs}
    runs = [_Run(replay(path, redact=redact)) for _ in range(2)]
    for run, stack in zip(runs, (recorded, middleware), strict=True):
        agent = build(run.model, list(stack))
        with run:
            async for event in agent.astream(input, **options):
                run.add(event)
    return _divergence(*runs)


@dataclass(frozen=True, slots=True)
class _Decision:
    """What a node wrote."""

    step: int
    node: str
    written: Any


@dataclass
class _Run:
    """The decisions of a run until it ended, failed, or sent a request that was not recorded."""

    model: ReplayChatModel
    decisions: list[_Decision] = field(default_factory=list)
    error: Exception | None = None
    _current: tuple[int, str] = (1, "the start")

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> bool:
        if isinstance(error, Exception):
            self.error = error
            self.decisions.append(_Decision(*self._current, {"raised": normalize(error)}))
        return isinstance(error, Exception)

    def add(self, event: Mapping[str, Any]) -> None:
        """Add what a debug event of LangGraph says about a node."""
        payload, step = event["payload"], event["step"]
        if event["type"] == "task":
            self._current = (step, payload["name"])
        elif event["type"] == "task_result" and not self.model.mismatch:
            written = {
                **dict(payload["result"] or {}),
                "interrupts": [interrupt["value"] for interrupt in payload["interrupts"]],
                "error": payload["error"],
            }
            written = normalize({k: v for k, v in written.items() if v not in (None, [], {})})
            if written:
                self.decisions.append(_Decision(step, payload["name"], written))

    def in_order(self) -> list[_Decision]:
        """The decisions in a fixed order: tools of one step end in any order."""
        return sorted(self.decisions, key=lambda made: (made.step, made.node, repr(made.written)))


def _divergence(recorded: _Run, other: _Run) -> Divergence | None:
    if recorded.model.mismatch:
        recorded.model.assert_done()
    if recorded.error and not other.error:
        raise recorded.error
    for one, another in zip_longest(recorded.in_order(), other.in_order()):
        if one is None or another is None or one.node != another.node:
            found = f"{_describe(one)} in the recorded run, {_describe(another)} in this one"
        else:
            labels = ("in the recorded run", "in this one")
            found = difference(one.written, another.written, labels)
        if not found:
            continue
        if other.model.mismatch and (another is None or "raised" in another.written):
            found = f"the model is asked something else: {other.model.mismatch}"
        decision = another or one
        return Divergence(decision.step, decision.node, found)
    return None


def _describe(decision: _Decision | None) -> str:
    if decision is None:
        return "the run ends"
    # Only the names of lists, because messages would be too long for a line.
    written = [k if isinstance(v, list) else f"{k}: {v!r}" for k, v in decision.written.items()]
    return f"{decision.node} writes {', '.join(written)}"
