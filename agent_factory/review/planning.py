"""From decisions to what is written to the thread and how the run goes on: values alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from langchain_core.messages import AnyMessage, ToolMessage, convert_to_messages
from langchain_core.messages.tool import ToolCall
from langgraph.types import Command

from agent_factory.errors import ArgumentError, describe
from agent_factory.review.errors import (
    DecideTogether,
    DecisionNotAllowed,
    NothingPending,
    UnknownCall,
)
from agent_factory.review.pending_calls import Decision, Pending, PendingCall, decided, noted
from agent_factory.review.records import with_review
from agent_factory.topology.model import END, TOOLS
from agent_factory.topology.topology import Topology

REJECTED = (
    "A reviewer rejected this call of {name}, so it did not run. Do not make it again unless the "
    "user asks for it; find another way, or ask what they want instead."
)
"""What the model reads where a reviewer gave no reason."""

INTERRUPTED = "This call of {name} did not run: the user wrote on instead."
"""What the model reads where the user's next message came before a decision."""

REVIEWER = "review"
"""Who decided, in the notes of the model's message."""


@dataclass(frozen=True, slots=True)
class Write:
    """An update of the thread.

    Args:
        values: What is written; None ends the tasks of this step and keeps what they wrote.
        node: The node in whose name; its edge says what runs next.
    """

    values: dict[str, Any] | None
    node: str


@dataclass(frozen=True, slots=True)
class Step:
    """What a decision comes to.

    Args:
        writes: What is written first, in order.
        input: What the agent is then invoked with.
        runs: It is invoked at all.
    """

    writes: tuple[Write, ...] = ()
    input: Any = None
    runs: bool = True


Choice = Callable[[Pending, Topology | None], Step]
"""Decides, from what waits and the agent's plan."""


def deciding(kind: str, call_id: str | None, make: Callable[[PendingCall], Decision]) -> Choice:
    """A decision of one kind, about one call or about all that are open.

    Args:
        kind: Its type.
        call_id: The call; None for all.
        make: The decision about a call.
    """

    def choose(pending: Pending, plan: Topology | None) -> Step:
        _refuse_nothing(pending)
        if call_id is None and not pending.calls and kind == "approve":
            return Step()
        calls = pending.open if call_id is None else (_find(pending, call_id),)
        if not calls:
            raise NothingPending(
                "the thread", f"no call waits; next is {', '.join(pending.next)}.", _GO_ON
            )
        if len(calls) > 1 and kind in _SINGLE:
            raise UnknownCall(
                "call_id", f"is needed, for {len(calls)} calls wait.", _listed(pending)
            )
        return _step(pending, plan, {call.id: make(call) for call in calls})

    return choose


def deciding_all(decisions: Mapping[str, Decision]) -> Choice:
    """Decisions about several calls, by their ids."""

    def choose(pending: Pending, plan: Topology | None) -> Step:
        _refuse_nothing(pending)
        for call_id in decisions:
            _find(pending, call_id)
        return _step(pending, plan, dict(decisions))

    return choose


def adding(input: Any) -> Choice:
    """The user writes on: calls that wait are answered, and a new turn begins."""
    given = _as_input(input)

    def choose(pending: Pending, plan: Topology | None) -> Step:
        _refuse_nothing(pending)
        return Step(tuple(_cancelled(pending, plan)), given)

    return choose


_SINGLE = ("edit", "respond")
_GO_ON = "approve() goes on, add_input() lets the user write."


def _refuse_nothing(pending: Pending) -> None:
    if not pending:
        raise NothingPending(
            "the thread", "waits for nothing: its run has ended.", "Use invoke for the next turn."
        )


def _find(pending: Pending, call_id: str) -> PendingCall:
    for call in pending.calls:
        if call_id in (call.id, call.interrupt_id):
            return call
    raise UnknownCall(repr(call_id), "is no call that waits.", _listed(pending))


def _listed(pending: Pending) -> str:
    calls = ", ".join(f"{call.id!r} ({call.name})" for call in pending.calls)
    return f"Waiting: {calls}." if calls else "None does."


def _step(pending: Pending, plan: Topology | None, new: Mapping[str, Decision]) -> Step:
    checked = {id_: _checked(_find(pending, id_), decision) for id_, decision in new.items()}
    made = {**decided(pending), **checked}
    if pending.asks:
        return _answered(pending, plan, made)
    if any(call.id not in made for call in pending.calls):
        return _put_down(pending, plan, made)
    return Step(tuple(_carried_out(pending, plan, made)))


def _checked(call: PendingCall, decision: Any) -> Decision:
    kind = decision.get("type") if isinstance(decision, Mapping) else None
    if kind not in call.allowed:
        raise DecisionNotAllowed(
            f"{call.name} ({call.id!r})",
            f"{describe(decision if kind is None else kind)} cannot be decided here.",
            f"Allowed: {', '.join(call.allowed)}." + _HINTS.get(call.kind, ""),
        )
    if kind == "edit":
        return {**decision, "edited_action": _action(call, decision.get("edited_action"))}
    if kind == "respond" and call.kind != "question":
        _check_text(decision.get("message"))
    return dict(decision)


_HINTS = {
    "question": " Its own code asks: respond() answers it, add_input() goes on without it.",
    "result": " The call has run: respond() changes what the model reads of it.",
}


def _check_text(message: Any) -> None:
    if not isinstance(message, str):
        raise ArgumentError(
            "respond", f"{describe(message)} is no text.", "Give the result of the call as a text."
        )


def _action(call: PendingCall, action: Any) -> dict[str, Any]:
    found = {"name": call.name, "args": call.args, **(action or {})}
    if not isinstance(found["args"], Mapping) or not isinstance(found["name"], str):
        raise ArgumentError(
            "edit", f"{describe(action)} is no call.", "Give args as a dict and name as a text."
        )
    return {"name": found["name"], "args": dict(found["args"])}


def _answered(pending: Pending, plan: Topology | None, made: Mapping[str, Decision]) -> Step:
    """The answers to interrupts; one that asks about several calls waits for all decisions."""
    resume, partly = {}, False
    for id_, group in groupby(pending.calls, key=lambda call: call.interrupt_id):
        calls = list(group)
        left = [call for call in calls if call.id not in made]
        if not left:
            resume[id_] = _answer(calls, made)
        partly = partly or 0 < len(left) < len(calls)
    if not partly:
        return Step(input=Command(resume=resume))
    if resume or not _are_own(pending, plan):
        raise DecideTogether(
            ", ".join(call.name for call in pending.open),
            "one question asks about several of these calls, and it cannot be kept open for some "
            "of them: other questions wait beside it, or another agent asks it.",
            "Decide about all its calls at once, with decide().",
        )
    return _put_down(pending, plan, made)


def _are_own(pending: Pending, plan: Topology | None) -> bool:
    """Whether the calls that wait are those of this agent's own model."""
    made = {call["id"] for call in pending.unanswered}
    return plan is not None and made.issuperset(call.id for call in pending.calls)


def _answer(calls: list[PendingCall], made: Mapping[str, Decision]) -> Any:
    decisions = [dict(made[call.id]) for call in calls]
    if calls[0].kind == "question":
        return decisions[0].get("message")
    return {"decisions": decisions} if calls[0].batched else decisions[0]


def _put_down(pending: Pending, plan: Topology | None, made: Mapping[str, Decision]) -> Step:
    """Notes the decisions until all are made; a question is asked again, for the rest."""
    node = _leading_to(plan, pending.next[0], still=True)
    return Step((Write({"messages": [noted(pending, made)]}, node),), runs=pending.asks)


def _carried_out(
    pending: Pending, plan: Topology | None, made: Mapping[str, Decision]
) -> Iterator[Write]:
    """What is written where a run was stopped from outside; nothing where it just goes on."""
    ran = pending.calls[0].kind == "result"
    messages = list((_replaced if ran else _decided)(pending, made))
    if not messages:
        return
    answered = {m.tool_call_id for m in messages if isinstance(m, ToolMessage)}
    still = any(call["id"] not in answered for call in pending.unanswered)
    yield Write({"messages": messages}, _leading_to(plan, pending.next[0], still=still))


def _replaced(pending: Pending, made: Mapping[str, Decision]) -> Iterator[AnyMessage]:
    for message in pending.tail:
        decision = made.get(message.tool_call_id, {}) if isinstance(message, ToolMessage) else {}
        if decision.get("type") == "respond":
            yield message.model_copy(update={"content": decision["message"]})


def _decided(pending: Pending, made: Mapping[str, Decision]) -> Iterator[AnyMessage]:
    edits: dict[str | None, ToolCall] = {
        call.id: _edited(call, made[call.id])
        for call in pending.calls
        if made[call.id]["type"] == "edit"
    }
    if edits and pending.message is not None:
        yield with_review(pending.message, REVIEWER, list(made), edits)
    for call in pending.calls:
        yield from _said_of(call, made[call.id])


def _edited(call: PendingCall, decision: Decision) -> ToolCall:
    action = decision["edited_action"]
    return ToolCall(type="tool_call", name=action["name"], args=action["args"], id=call.id)


def _said_of(call: PendingCall, decision: Decision) -> Iterator[ToolMessage]:
    """The result of a call that does not run."""
    if decision["type"] == "reject":
        text = decision.get("message") or REJECTED.format(name=call.name)
        yield ToolMessage(text, tool_call_id=call.id, name=call.name, status="error")
    if decision["type"] == "respond":
        yield ToolMessage(decision["message"], tool_call_id=call.id, name=call.name)


def _cancelled(pending: Pending, plan: Topology | None) -> Iterator[Write]:
    if plan is None or TOOLS not in plan.nodes:
        return
    if pending.finished:
        # A write in the name of a node would drop what tasks beside it have already done.
        yield Write(None, END)
    messages = [
        ToolMessage(
            INTERRUPTED.format(name=call["name"]),
            tool_call_id=call["id"],
            name=call["name"],
            status="error",
        )
        for call in pending.unanswered
    ]
    if messages:
        yield Write({"messages": messages}, TOOLS)


def _leading_to(plan: Topology | None, node: str, *, still: bool) -> str:
    """The node in whose name to write, so that the run goes on where it was stopped.

    Args:
        plan: The agent's plan.
        node: What runs next.
        still: Calls are still to run.
    """
    assert plan is not None  # no call of another graph's is decided about by a write
    if node == TOOLS:
        return plan.loop_exit if still else TOOLS
    if node == plan.loop_entry:
        return TOOLS
    return next(edge.source for edge in plan.edges if edge.targets[0] == node)


def _as_input(input: Any) -> dict[str, Any]:
    if isinstance(input, Mapping) and "messages" in input:
        return dict(input)
    given = input if isinstance(input, list) else [input]
    try:
        return {"messages": convert_to_messages(given)}
    except (NotImplementedError, TypeError, ValueError) as error:
        raise ArgumentError(
            "input", f"{describe(input)} is no message.", "Give a text, or messages."
        ) from error
