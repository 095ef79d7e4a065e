"""Decisions as agent-inbox sends them, whose form is older than that of LangChain's reviews."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from agent_factory.service import Service


def plain_answer(service: Service, thread: str, tenant: str, answer: Any) -> Any:
    """An answer to a review, in LangChain's form.

    agent-inbox sends what it shows as `args` of each decision: the call, or a text.

    Args:
        service: The service.
        thread: The thread that waits.
        tenant: The tenant of the one who answers.
        answer: The answer, of any client.
    """
    decisions = answer.get("decisions") if isinstance(answer, Mapping) else None
    if not isinstance(decisions, list):
        return answer
    waits = service.inbox(tenant).waits(thread=thread, limit=1000)
    calls = [(wait.tool, wait.args) for wait in waits]
    return {**answer, "decisions": [_plain_decision(decision, calls) for decision in decisions]}


def _plain_decision(decision: Any, calls: Collection[tuple[str, Any]]) -> Any:
    if not isinstance(decision, Mapping) or "args" not in decision:
        return decision
    kind, args = decision.get("type"), decision["args"]
    plain = {key: value for key, value in decision.items() if key != "args"}
    is_call = isinstance(args, Mapping) and args.keys() == {"action", "args"}
    # A call that does not wait any more is not approved: the person has seen another one.
    if kind == "approve" and is_call and (args["action"], args["args"]) in calls:
        return plain
    if kind == "edit" and is_call:
        return {**plain, "edited_action": {"name": args["action"], "args": args["args"]}}
    if kind == "reject" and isinstance(args, str):
        return {**plain, "message": args}
    return decision
