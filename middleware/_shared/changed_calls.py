"""Calls changed by layers after the decision of a reviewer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from agent_factory import ToolCallRecorder, ToolCallRequest, TurnError
from agent_factory.review.approval import Approval


class CallChanged(TurnError):
    """A layer changed a tool call after the decision about the call. The call has not run.

    The HumanInTheLoopMiddleware of the decision catches the error, and decides about the changed
    call. Layers further in see the error.

    Attributes:
        request: The changed call.
        reviewer: The name of the middleware without a decision about this call.
    """

    code = "AF343"

    def __init__(self, request: ToolCallRequest, reviewer: str = "") -> None:
        self.request, self.reviewer = request, reviewer
        super().__init__(
            request.tool_call["name"],
            "a layer changed this call after it was decided about, so it did not run.",
            "Let the exception pass: HumanInTheLoopMiddleware decides about the changed call.",
        )


# LangGraph runs each task in a copy of the context, so parallel calls have separate dicts.
_of_task: ContextVar[dict[object, Approval] | None] = ContextVar("approvals_of_task", default=None)


@contextmanager
def approval_of(
    request: ToolCallRequest, reviewer: str, new: Callable[[], Approval]
) -> Iterator[Approval]:
    """The approval of a call by a reviewer, in effect until the outermost reviewer has ended."""
    approvals, token = _of_task.get(), None
    if approvals is None:
        token = _of_task.set(approvals := {})
    # Calls of an agent inside the tool have another namespace.
    key = (reviewer, _place_of(request.runtime), request.tool_call["id"])
    if key not in approvals:
        approvals[key] = new()
    try:
        yield approvals[key]
    finally:
        # The outermost reviewer has begun the record, and ends it.
        if token is not None:
            _of_task.reset(token)


class Guard(ToolCallRecorder):
    """Refuses a call changed by a layer further in after the decision.

    Args:
        request: The call of the decision.
        reviewer: The name of the review.
        free: The call, if all calls of the tool may run without a decision.
        approval: Permits further calls.
    """

    def __init__(
        self,
        request: ToolCallRequest,
        reviewer: str,
        free: ToolCallRequest | None,
        approval: Approval,
    ) -> None:
        super().__init__()
        self._request, self._reviewer = request, reviewer
        self._free, self._approval = free, approval

    def record(self, request: ToolCallRequest) -> None:
        """Raise CallChanged unless the call may run."""
        free, known = self._free, self._request
        is_free = (
            free is not None
            and free.tool is request.tool
            and free.tool_call["name"] == request.tool_call["name"]
        )
        if (
            not is_free
            and is_same_agent(request.runtime, known.runtime)
            and not self._approval.permits(request, knows_tool=known.tool is not None)
        ):
            raise CallChanged(request, self._reviewer)
        super().record(request)


def is_same_agent(runtime: object, other: object) -> bool:
    """Return True if two calls are of the same agent, and neither of an agent inside a tool."""
    return runtime is other or _place_of(runtime) == _place_of(other)


def _place_of(runtime: object) -> object:
    config = getattr(runtime, "config", None) or {}
    return (config.get("configurable") or {}).get("checkpoint_ns")
