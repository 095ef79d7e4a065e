"""Standing approvals, as reviews use them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from agent_factory import Flow, Invoke, ToolCallRequest
from agent_factory.review.approvals import ApprovalStore, StandingApproval
from agent_factory.review.policy import Rule
from agent_factory.review.records import call_digest, digest, tool_digest
from agent_factory.review.requests import Remember

from .invocable import Called, once_per_task
from .messages import caller_of


def covered_calls(
    questions: Sequence[tuple[ToolCallRequest, Rule]], store: ApprovalStore | None
) -> Flow[Collection[str | None]]:
    """The ids of the calls that a standing approval covers."""
    requests = [request for request, rule in questions if rule.remember is not None]
    if store is None or not requests:
        return ()

    def look() -> Flow[list[str | None]]:
        ids = []
        for request in requests:
            about = (request.tool_call, tool_digest(request.tool), thread_of(request))
            if (yield Invoke(Called(store.find), about)) is not None:
                ids.append(request.tool_call["id"])
        return ids

    key = [call_digest(request.tool_call, request.tool) for request in requests]
    return (yield from once_per_task(key, look))


def remember_approval(
    request: ToolCallRequest, decision: Any, store: ApprovalStore | None
) -> Flow[None]:
    """Keep a standing approval, if the decision about a call asks for one."""
    remember: Remember | None = decision.get("remember")
    if remember is None or store is None:
        return
    call, thread = request.tool_call, thread_of(request)
    caller = caller_of(request.state["messages"], call["id"])
    source = [caller.id] if caller else []
    # The id is the same if the node runs again after a pause, so that the approval is kept once.
    approval = StandingApproval(
        id=digest(thread, source, call["id"], call_digest(call, request.tool))[:16],
        tool=call["name"],
        schema=tool_digest(request.tool),
        args=call["args"],
        when=remember.get("when"),
        seconds=remember["seconds"],
        by=remember.get("by") or "",
        thread=thread if remember.get("thread") else None,
    )
    yield Invoke(Called(store.add), (approval,))


def thread_of(request: ToolCallRequest) -> str | None:
    """The id of the thread that a call belongs to, if there is one."""
    configurable = (request.runtime.config or {}).get("configurable") or {}
    thread = configurable.get("thread_id")
    return None if thread is None else str(thread)
