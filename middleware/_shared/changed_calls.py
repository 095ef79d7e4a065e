"""Calls that layers change after a reviewer has decided about them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from langchain_core.messages import ToolMessage
from langchain_core.messages.tool import ToolCall

from agent_factory import ToolCallRecorder, ToolCallRequest, TurnError


class CallChanged(TurnError):
    """A layer changed a tool call after it was decided about. The call has not run.

    The HumanInTheLoopMiddleware that decided catches it, and decides about the changed call. Layers
    further in see it.

    Attributes:
        request: The call as it would run.
        reviewer: The name of the middleware that has not decided about this call.
    """

    code = "AF343"

    def __init__(self, request: ToolCallRequest, reviewer: str = "") -> None:
        self.request, self.reviewer = request, reviewer
        super().__init__(
            request.tool_call["name"],
            "a layer changed this call after it was decided about, so it did not run.",
            "Let the exception pass: HumanInTheLoopMiddleware decides about the changed call.",
        )


@dataclass(slots=True)
class Decisions:
    """Decisions of a reviewer in one task about a call, also if a layer begins it again."""

    approved: set[str | None] = field(default_factory=set)  # digests of the calls that may run
    # By the digests of other calls: the call that runs instead, or the result.
    settled: dict[str, ToolCall | ToolMessage] = field(default_factory=dict)


# LangGraph runs each task in a copy of the context, so parallel calls have separate dicts.
_of_task: ContextVar[dict[object, Decisions] | None] = ContextVar("decisions_of_task", default=None)


@contextmanager
def decisions_of(request: ToolCallRequest, reviewer: str) -> Iterator[Decisions]:
    """The decisions of a reviewer about a call, kept until the outermost reviewer has ended."""
    decisions, token = _of_task.get(), None
    if decisions is None:
        token = _of_task.set(decisions := {})
    # Calls of an agent inside of the tool have another place.
    key = (reviewer, _place_of(request.runtime), request.tool_call["id"])
    try:
        yield decisions.setdefault(key, Decisions())
    finally:
        # Only the outermost reviewer has begun the record, so it alone ends it.
        if token is not None:
            _of_task.reset(token)


class Guard(ToolCallRecorder):
    """Refuses a call that a layer further in has changed since it was decided about.

    Calls of the `allowed` tool, if there is one, need no decision.
    """

    def __init__(
        self,
        request: ToolCallRequest,
        reviewer: str,
        allowed: str | None,
        may_run: Callable[[ToolCallRequest], bool],
    ) -> None:
        super().__init__()
        self._runtime, self._reviewer = request.runtime, reviewer
        self._allowed, self._may_run = allowed, may_run

    def record(self, request: ToolCallRequest) -> None:
        """Raise CallChanged unless the call may run."""
        if (
            request.tool_call["name"] != self._allowed
            and is_same_agent(request.runtime, self._runtime)
            and not self._may_run(request)
        ):
            raise CallChanged(request, self._reviewer)
        super().record(request)


def is_same_agent(runtime: object, other: object) -> bool:
    """Return True if two calls are of one agent, and not of an agent inside of a tool."""
    return runtime is other or _place_of(runtime) == _place_of(other)


def _place_of(runtime: object) -> object:
    config = getattr(runtime, "config", None) or {}
    return (config.get("configurable") or {}).get("checkpoint_ns")
