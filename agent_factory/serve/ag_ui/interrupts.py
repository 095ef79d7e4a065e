"""Interrupts of AG-UI: waits of a thread, and the answers as decisions."""

from __future__ import annotations

from collections.abc import Container, Mapping

from ag_ui.core import Interrupt, ResumeEntry

from agent_factory.errors import ArgumentError, describe
from agent_factory.serve.json_response import time_text
from agent_factory.service import Wait

_PARTS = {"editedArgs": "edited_action", "response": "message"}
"""Parts of an answer, with their names in a decision."""

NO_ANSWER = "The user has not answered."
"""Message to the model about a call whose review was abandoned."""


def to_interrupt(
    wait: Wait, calls: Container[str], schema: Mapping[str, object] | None
) -> Interrupt:
    """Return a wait of a thread as an interrupt of AG-UI.

    Args:
        calls: The ids of tool calls that the client knows.
        schema: The JSON schema of the call's arguments, if known.
    """
    is_call = wait.call_id in calls
    reason = "tool_call" if is_call else "confirmation"
    message = wait.question if isinstance(wait.question, str) else None
    answers: dict[str, object] = {}  # their JSON schema: any value answers a question
    if wait.kind == "question":
        reason = "input_required"
    else:
        properties: dict[str, object] = {"approved": {"type": "boolean"}}
        if "edit" in wait.allowed:
            about = "All arguments, as they are to be; nothing is merged."
            properties["editedArgs"] = {"type": "object", **(schema or {}), "description": about}
        if "reject" in wait.allowed:
            about = "Why not, with approved: false; the model reads it."
            properties["message"] = {"type": "string", "description": about}
        if "respond" in wait.allowed:
            properties["response"] = {"description": "The result that the model reads."}
        answers = {"type": "object", "properties": properties}
    return Interrupt(
        id=wait.id,
        reason=reason,
        message=message or f"{wait.tool} waits for an answer.",
        tool_call_id=wait.call_id if is_call else None,
        response_schema=answers,
        expires_at=None if wait.deadline is None else time_text(wait.deadline),
        metadata={
            "tool": wait.tool,
            "args": dict(wait.args),
            "question": wait.question,
            "allowed": list(wait.allowed),
        },
    )


def to_decision(wait: Wait, entry: ResumeEntry) -> dict[str, object] | None:
    """The decision of an answer to a wait; None to end the run.

    Raises:
        ArgumentError: The answer decides nothing.
    """
    if entry.status == "cancelled":
        rejection: dict[str, object] = {"type": "reject", "message": NO_ANSWER}
        return rejection if "reject" in wait.allowed else None
    payload = entry.payload
    if wait.kind in ("question", "client"):
        return {"type": "respond", "message": payload}
    answer = payload if isinstance(payload, Mapping) else {"approved": payload}
    if "type" in answer:  # a whole decision
        return dict(answer)
    parts = {_PARTS.get(name, name): value for name, value in answer.items()}
    if "edited_action" in parts:
        parts["edited_action"] = {"args": parts["edited_action"]}
    approval = parts.pop("approved", None)
    # Alone: with an approval, these would be two decisions.
    if answer.keys() == {"response"}:
        return {"type": "respond", **parts}
    if isinstance(approval, bool) and "response" not in answer:
        kind = "reject" if not approval else "edit" if "edited_action" in parts else "approve"
        return {"type": kind, **parts}
    raise ArgumentError(
        "resume",
        f"must have a decision about {wait.tool} as its payload, got {describe(payload)}.",
        'Pass {"approved": true}, {"approved": false, "message": "why"}, or {"response": "text"}.',
    )
