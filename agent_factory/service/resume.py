"""Decisions as callers pass them: in parts, or in a value for `Command(resume=...)`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from agent_factory.errors import ArgumentError
from agent_factory.review import Judgement, Pending, PendingCall, judge_answer


def whole_decision(decision: object, **parts: object) -> Any:
    """A decision with the parts that were passed as arguments; ArgumentError for a part twice."""
    whole = {"type": decision} if isinstance(decision, str) else decision
    present = {name: part for name, part in parts.items() if part is not None}
    if not isinstance(whole, Mapping):
        return whole
    if twice := sorted(present.keys() & whole.keys()):
        reason = f"has {', '.join(twice)}, and an argument names it again."
        raise ArgumentError("decision", reason, "Pass each part once.")
    return {**whole, **present}


def decisions_of(pending: Pending, value: object) -> dict[str, Any]:
    """Decisions by the digests of the waiting calls, as they came in: the inbox judges them.

    The value is the answer to the interrupt, or a mapping of ids to answers. The errors are those
    of `Service.resume`.
    """
    if not pending.asks:  # a static interrupt
        return {call.digest: {"type": "approve"} for call in pending.calls} or {
            "": {"type": "approve"}
        }
    by_interrupt: dict[str, list[PendingCall]] = defaultdict(list)
    for call in pending.calls:
        by_interrupt[call.interrupt_id].append(call)
    # As in LangGraph: a mapping whose keys are ids of interrupts has an answer for each of them.
    if isinstance(value, Mapping) and value and by_interrupt.keys() >= value.keys():
        answers: Mapping[str, object] = value
    elif len(by_interrupt) > 1:
        reason = f"must say which interrupt it answers: {len(by_interrupt)} wait."
        hint = f"Pass a mapping of their ids: {', '.join(by_interrupt)}."
        raise ArgumentError("resume", reason, hint)
    else:
        answers = dict.fromkeys(by_interrupt, value)
    decisions: dict[str, object] = {}

    def note(call: PendingCall, decision: Any) -> Judgement:
        decisions[call.digest] = decision
        return Judgement(decision, None)

    for id, answer in answers.items():
        judge_answer(by_interrupt[id], answer, note)
    return decisions
