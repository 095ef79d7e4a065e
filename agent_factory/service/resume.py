"""What a value for `Command(resume=...)` decides about the calls that a thread waits for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from agent_factory.errors import ArgumentError, describe
from agent_factory.review.pending_calls import Decision, Pending, PendingCall


def decisions_of(pending: Pending, value: Any) -> dict[str, Decision]:
    """Decisions by the digests of the calls.

    Args:
        pending: What the thread waits for.
        value: The answer to its interrupt; if there are several, a mapping of their ids to answers.
            The answer to a review is `{"decisions": [...]}`, with one decision for each call.

    Raises:
        ArgumentError: The value does not answer what the thread waits for.
    """
    if not pending.asks:  # a static interrupt
        return {call.digest: {"type": "approve"} for call in pending.calls} or {
            "": {"type": "approve"}
        }
    asked: dict[str, list[PendingCall]] = defaultdict(list)
    for call in pending.calls:
        asked[call.interrupt_id].append(call)
    answers = value
    if not (isinstance(value, Mapping) and value and asked.keys() >= value.keys()):
        if len(asked) > 1:
            raise ArgumentError(
                "resume",
                f"must say which interrupt it answers: {len(asked)} wait.",
                f"Pass a mapping of their ids: {', '.join(asked)}.",
            )
        answers = dict.fromkeys(asked, value)
    return {
        call.digest: decision
        for id, answer in answers.items()
        for call, decision in _answered(asked[id], answer)
    }


def _answered(calls: list[PendingCall], answer: Any) -> list[tuple[PendingCall, Decision]]:
    """The calls of one interrupt, with their decisions."""
    if calls[0].kind != "review":
        return [(call, {"type": "respond", "message": answer}) for call in calls]
    decisions = answer.get("decisions") if isinstance(answer, Mapping) else None
    if not isinstance(decisions, list) or len(decisions) != len(calls):
        names = ", ".join(call.name for call in calls)
        raise ArgumentError(
            "resume",
            f"must have a decision about each of the calls ({names}), got {describe(answer)}.",
            'Pass {"decisions": [{"type": "approve"}, ...]}, in their order.',
        )
    return list(zip(calls, decisions, strict=True))
