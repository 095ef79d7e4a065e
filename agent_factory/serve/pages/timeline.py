"""Timeline: work and waits of a run on one axis of time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agent_factory.serve.pages.conversation import in_one_line, shortened
from agent_factory.serve.pages.wording import PAST, changes
from agent_factory.service import RunSummary, Step, Wait

WIDTH = 1000.0
"""Units of the whole axis."""

_LEAST = 5.0  # units of a bar: a short bar stays visible
_WAIT_SHARE = 0.35  # most of one wait, of the time in which the run worked


@dataclass(slots=True)
class Span:
    """Part of a run, and its bar on the axis.

    Args:
        kind: "queue", "model", "tool", "hook", "wait", or "node" for a step from checkpoints.
        name: The part at work, or the object of the wait.
        at: The begin, in seconds since 1970.
        until: The end; None before the end.
        detail: More, in words.
        error: The type and the text of an error, or "".
        link: The address of a page, or "".
        step: The step, with tokens and cost.
        x: The begin of the bar, from 0 to `WIDTH`.
        width: The length of the bar.
        offset: Seconds since the begin of the run.
        seconds: The duration so far.
    """

    kind: str
    name: str
    at: float
    until: float | None
    detail: str = ""
    error: str = ""
    link: str = ""
    step: Step | None = None
    x: float = 0.0
    width: float = 0.0
    offset: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Timeline:
    """Spans of a run on one axis, in the order of their begin.

    Args:
        seconds: The duration so far.
        is_cut: Whether waits are drawn shorter than they were.
    """

    bars: list[Span]
    seconds: float
    is_cut: bool


class Axis:
    """Axis of time, on which waits take at most a share of the time in which the run worked.

    >>> axis = Axis(0.0, 102.0, [(1.0, 101.0)])
    >>> [round(axis.place(moment)) for moment in (0.0, 1.0, 101.0, 102.0)], axis.is_cut
    ([0, 370, 630, 1000], True)
    """

    def __init__(self, begin: float, end: float, waits: Iterable[tuple[float, float]]) -> None:
        # Parallel calls wait together: shared time counts once.
        merged: list[list[float]] = []
        for start, stop in sorted(waits):
            if merged and start <= merged[-1][1]:
                merged[-1][1] = max(stop, merged[-1][1])
            else:
                merged.append([start, stop])
        active = (end - begin) - sum(stop - start for start, stop in merged)
        # A run without work has no other scale.
        most = active * _WAIT_SHARE if active > 0 else end - begin
        self._cuts = [(start, stop) for start, stop in merged if stop - start > most]
        self._begin, self._end, self._most = begin, end, most
        self.is_cut = bool(self._cuts)

    def place(self, moment: float) -> float:
        """The place of a moment, from 0 to `WIDTH`."""
        whole = self._drawn(self._end)
        return self._drawn(min(moment, self._end)) / whole * WIDTH if whole > 0 else 0.0

    def _drawn(self, moment: float) -> float:
        """Seconds from the begin to a moment, without those that are cut from waits."""
        seconds = max(0.0, moment - self._begin)
        for start, stop in self._cuts:
            share = 1 - self._most / (stop - start)
            seconds -= share * max(0.0, min(moment, stop) - start)
        return seconds


def timeline_of(
    run: RunSummary,
    steps: Sequence[Step],
    waits: Sequence[Wait],
    nodes: Sequence[Span],
    now: float,
) -> Timeline:
    """The timeline of a run; `nodes` are steps from checkpoints, later than the recorded ones."""
    # A step of a worker whose clock is ahead may end later than now.
    end = run.ended_at or max([now, *(step.at + step.seconds for step in steps)])
    begin = run.started_at or run.ended_at
    queue = Span("queue", "Waits for a worker", run.created_at, begin)
    spans = [queue, *map(span_of_step, steps), *map(span_of_wait, waits), *nodes]
    spans.sort(key=lambda span: span.at)

    def bounds(span: Span) -> tuple[float, float]:
        # Workers and databases have clocks of their own.
        at = min(max(span.at, run.created_at), end)
        return at, min(max(span.until or end, at), end)

    # The run does nothing meanwhile.
    waiting = (bounds(span) for span in spans if span.kind in ("queue", "wait"))
    axis = Axis(run.created_at, end, waiting)
    for span in spans:
        at, until = bounds(span)
        # A bar at the end of the axis needs room to be seen, too.
        x = min(axis.place(at), WIDTH - _LEAST)
        span.x, span.width = round(x, 1), round(max(axis.place(until) - x, _LEAST), 1)
        span.offset, span.seconds = at - run.created_at, until - at
    return Timeline(spans, end - run.created_at, axis.is_cut)


def span_of_step(step: Step) -> Span:
    """A step as a span."""
    detail = step.detail
    # Most model calls are for the agent; the call of a middleware, such as a summary, is
    # named.
    if step.kind == "model" and step.part != "model":
        detail = f"called by {step.part}"
    return Span(
        step.kind, step.name, step.at, step.at + step.seconds, detail, step.error, step=step
    )


def span_of_wait(wait: Wait) -> Span:
    """A wait as a span, with its decision."""
    whom = "its client" if wait.kind == "client" else "a person"
    detail = in_one_line(wait.args) or (shortened(wait.question) if wait.question else "")
    name = f"{wait.tool} waits for {whom}"
    if wait.decision is not None:
        verdict = {**PAST, "cancel": "withdrawn"}.get(str(wait.decision.get("type")), "decided")
        if (action := wait.decision.get("edited_action")) is not None:
            detail = changes(wait.args, action["args"])
        elif wait.decision.get("message"):
            detail = shortened(wait.decision["message"])
        detail = f"{verdict} by {wait.decided_by}{f': {detail}' if detail else ''}"
    return Span("wait", name, wait.created_at, wait.decided_at, detail, link=f"/inbox/{wait.id}")
