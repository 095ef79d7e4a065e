"""Standing approvals, as reviews use them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from langchain_core.messages.tool import ToolCall

from agent_factory import Flow, Invoke, ToolCallRequest
from agent_factory.review.approvals import ApprovalStore, StandingApproval
from agent_factory.review.policy import Rule
from agent_factory.review.records import digest, tool_digest
from agent_factory.review.requests import Remember

from .invocable import Called, once_per_task
from .messages import caller_of

Subject = tuple[ToolCall, str, str | None]
"""A call, the digest of the tool and of the rule that asks, and the thread."""


def subject_of(review: str, rule: Rule, request: ToolCallRequest) -> Subject:
    """Return what a standing approval is about: calls that another rule asks about are not."""
    thread = ((request.runtime.config or {}).get("configurable") or {}).get("thread_id")
    parts = (rule.tool, rule.action, rule.calls, sorted(rule.reviewers), rule.remember)
    scope = digest(tool_digest(request.tool), review, *parts)
    return request.tool_call, scope, None if thread is None else str(thread)


def covered_calls(
    review: str, questions: Sequence[tuple[ToolCallRequest, Rule]], store: ApprovalStore | None
) -> Flow[Collection[str | None]]:
    """The ids of the calls that a standing approval covers."""
    remembered = [(request, rule) for request, rule in questions if rule.remember is not None]
    if store is None or not remembered:
        return ()
    subjects = [subject_of(review, rule, request) for request, rule in remembered]

    def look() -> Flow[list[str | None]]:
        ids = []
        for subject in subjects:
            if (yield Invoke(Called(store.find), subject)) is not None:
                ids.append(subject[0]["id"])
        return ids

    return (yield from once_per_task([digest(*subject) for subject in subjects], look))


def remember_approval(
    review: str, rule: Rule, request: ToolCallRequest, decision: Any, store: ApprovalStore | None
) -> Flow[None]:
    """Keep a standing approval, if the decision about a call asks for one."""
    remember: Remember | None = decision.get("remember")
    if remember is None or store is None:
        return
    call, scope, thread = subject = subject_of(review, rule, request)
    caller = caller_of(request.state["messages"], call["id"])
    source = [caller.id] if caller else []
    # The id is the same if the node runs again after a pause, so that the approval is kept once.
    approval = StandingApproval(
        id=digest(source, *subject)[:16],
        tool=call["name"],
        schema=scope,
        args=call["args"],
        when=remember.get("when"),
        seconds=remember["seconds"],
        by=remember.get("by") or "",
        thread=thread if remember.get("thread") else None,
    )
    yield Invoke(Called(store.add), (approval,))
