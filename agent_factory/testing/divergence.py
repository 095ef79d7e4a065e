"""Compare two stacks on one recording, down to the first different decision."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

from agent_factory.hooks.flows import Flow, Invoke, adrive, drive
from agent_factory.testing.comparison import difference, normalize
from agent_factory.testing.harness import Middleware
from agent_factory.testing.recordings import ReplayChatModel, replay
from agent_factory.testing.redaction import Redact

Build = Callable[[ReplayChatModel, list[Middleware]], Any]
"""A function that builds the agent from a model and a stack."""


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first different decision.

    Args:
        step: The step of the run, from 1.
        node: The node of the decision.
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
    input: object,
    *,
    recorded: Sequence[Middleware],
    middleware: Sequence[Middleware],
    config: Mapping[str, object] | None = None,
    redact: Redact | None = None,
    **kwargs: Any,
) -> Divergence | None:
    """Run a recorded agent again, with the recorded stack and with another stack.

    Both runs take the answers of the model from the cassette and run their tools again: use tools
    without side effects. A node without an update makes no decision, so additional idle nodes
    are not a difference.

    Args:
        path: The cassette.
        build: Builds the agent from a model and a stack:
            `lambda model, stack: create_agent(model, tools, middleware=stack)`.
        input: The input of the recorded run.
        recorded: The stack of the recorded run.
        middleware: The other stack.
        config: A RunnableConfig for both runs.
        redact: The function for `record`, if any.
        **kwargs: Further arguments of `stream`, such as `context`.

    Returns:
        The first different decision; `str` describes it. None without a difference.

    Raises:
        CassetteMismatch: The recorded stack, too, sends requests outside of the cassette.
    """
    runs = [_Run(build, s, replay(path, redact=redact), kwargs) for s in (recorded, middleware)]
    return drive(_divergence(runs, input, config), throw_signals=True)


async def areplay_with(
    path: str | Path,
    build: Build,
    input: object,
    *,
    recorded: Sequence[Middleware],
    middleware: Sequence[Middleware],
    config: Mapping[str, object] | None = None,
    redact: Redact | None = None,
    **kwargs: Any,
) -> Divergence | None:
    """Compare two asynchronous runs; otherwise as `replay_with`."""
    runs = [_Run(build, s, replay(path, redact=redact), kwargs) for s in (recorded, middleware)]
    return await adrive(_divergence(runs, input, config), throw_signals=True)


@dataclass(frozen=True, slots=True)
class _Decision:
    """Update of a node."""

    step: int
    node: str
    written: Any


@dataclass
class _Run:
    """A run with a stack, in the form for `Invoke`.

    Decisions are noted up to the end of the run, an error, or a request outside of the recording.
    """

    build: Build
    stack: Sequence[Middleware]
    model: ReplayChatModel
    options: Mapping[str, Any]
    decisions: list[_Decision] = field(default_factory=list)
    error: Exception | None = None
    current: tuple[int, str] = (1, "the start")

    def __post_init__(self) -> None:
        self.agent = self.build(self.model, list(self.stack))

    def invoke(self, input: object, config: Any = None) -> None:
        for event in self.agent.stream(input, config, stream_mode="debug", **self.options):
            self._add(event)

    async def ainvoke(self, input: object, config: Any = None) -> None:
        events = self.agent.astream(input, config, stream_mode="debug", **self.options)
        async for event in events:
            self._add(event)

    def _add(self, event: Mapping[str, Any]) -> None:
        """Add a node's decision from a debug event of LangGraph."""
        payload, step = event["payload"], event["step"]
        if event["type"] == "task":
            self.current = (step, payload["name"])
        # After a request outside of the recording, decisions rest on no answer.
        elif event["type"] == "task_result" and not self.model.mismatch:
            update = {
                **dict(payload["result"] or {}),
                "interrupts": [interrupt["value"] for interrupt in payload["interrupts"]],
                "error": payload["error"],
            }
            update = normalize({k: v for k, v in update.items() if v not in (None, [], {})})
            if update:
                self.decisions.append(_Decision(step, payload["name"], update))

    def in_order(self) -> list[_Decision]:
        """The decisions in a fixed order: tools of one step end in any order."""
        return sorted(self.decisions, key=lambda d: (d.step, d.node, repr(d.written)))


def _divergence(runs: Sequence[_Run], input: object, config: object) -> Flow[Divergence | None]:
    """Make both runs, and find the first different decision."""
    for run in runs:
        try:
            yield Invoke(run, input, config)
        except Exception as error:
            run.error = error
            run.decisions.append(_Decision(*run.current, {"raised": normalize(error)}))
    original, other = runs
    # If the recorded stack does not fit the cassette, a comparison means nothing.
    if original.model.mismatch:
        original.model.assert_done()
    if original.error and not other.error:
        raise original.error
    for before, after in zip_longest(original.in_order(), other.in_order()):
        if before is None or after is None or before.node != after.node:
            text = f"{_describe(before)} in the recorded run, {_describe(after)} in this one"
        else:
            labels = ("in the recorded run", "in this one")
            text = difference(before.written, after.written, labels)
        if not text:
            continue
        if other.model.mismatch and (after is None or "raised" in after.written):
            text = f"the model is asked something else: {other.model.mismatch}"
        decision = after or before
        return Divergence(decision.step, decision.node, text)
    return None


def _describe(decision: _Decision | None) -> str:
    if decision is None:
        return "the run ends"
    # Only the names of lists, because messages would be too long for a line.
    updates = [k if isinstance(v, list) else f"{k}: {v!r}" for k, v in decision.written.items()]
    return f"{decision.node} writes {', '.join(updates)}"
