"""Plan a step from decisions: what to write to the thread, and how the run continues."""

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
from agent_factory.review.pending_calls import (
    Decision,
    Pending,
    PendingCall,
    recorded_decisions,
    with_decisions,
)
from agent_factory.review.records import result_of, with_review
from agent_factory.topology.model import TOOLS
from agent_factory.topology.topology import Topology
from agent_factory.upstream import CLEAR_TASKS

SUPERSEDED = "This call of {name} did not run: the user sent a new message instead."
"""Result of a call that was pending when the user sent a new message."""

REVIEWER = "review"
"""Name of the reviewer in the record that the model's message keeps."""

_HINTS = {
    "question": " Its own code asks: respond() answers it, add_input() continues without it.",
    "result": " The call has run: respond() changes the result that the model reads.",
}


@dataclass(frozen=True, slots=True)
class Write:
    """An update of the thread."""

    values: dict[str, Any] | None  # None ends the tasks of this step and keeps what they wrote
    node: str  # written as this node: its edges lead to what runs next


@dataclass(frozen=True, slots=True)
class Step:
    """How a decision is applied."""

    writes: tuple[Write, ...] = ()
    input: Any = None
    runs: bool = True  # whether the agent is invoked after the writes


StepPlanner = Callable[[Pending, Topology | None], Step]
"""Plans a step from what a thread waits for and from the agent's topology."""


def plan_decision(decision: Decision, call_id: str | None) -> StepPlanner:
    """Plan one decision about one call, or about all calls that are open.

    Args:
        decision: The decision. An `edited_action` may leave out the name or the arguments; they
            stay as they are.
        call_id: The call; None for all that are open.
    """
    kind = decision["type"]

    def plan_step(pending: Pending, topology: Topology | None) -> Step:
        _require_pending(pending)
        if call_id is None and not pending.calls and kind == "approve":
            return Step()
        calls = pending.open if call_id is None else (_find(pending, call_id),)
        if not calls:
            raise NothingPending(
                "the thread",
                f"no call is pending; next is {', '.join(pending.next)}.",
                "Use approve() to continue, or add_input() to send a new message.",
            )
        if len(calls) > 1 and kind in ("edit", "respond"):
            raise UnknownCall(
                "call_id", f"is needed: {len(calls)} calls are pending.", _list_pending(pending)
            )
        return _plan(pending, topology, {call.id: decision for call in calls})

    return plan_step


def plan_decisions(decisions: Mapping[str, Decision]) -> StepPlanner:
    """Plan decisions about several calls, by the ids of the calls."""

    def plan_step(pending: Pending, topology: Topology | None) -> Step:
        _require_pending(pending)
        for call_id in decisions:
            _find(pending, call_id)
        return _plan(pending, topology, decisions)

    return plan_step


def plan_input(input: Any) -> StepPlanner:
    """Plan a new message of the user: pending calls are answered, and a new turn begins.

    Raises:
        ArgumentError: The input is not a message and has no messages.
    """
    if isinstance(input, Mapping) and "messages" in input:
        new_turn = dict(input)
    else:
        try:
            given = input if isinstance(input, list) else [input]
            new_turn = {"messages": convert_to_messages(given)}
        except (NotImplementedError, TypeError, ValueError) as error:
            raise ArgumentError(
                "input",
                f"must be a string, a message or a list of messages, got {describe(input)}.",
                'Pass "..." or {"messages": [...]}.',
            ) from error

    def plan_step(pending: Pending, topology: Topology | None) -> Step:
        _require_pending(pending)
        writes = []
        if topology is not None and TOOLS in topology.nodes:
            if pending.finished:
                # Writing as a node would drop what the finished tasks of this step have written.
                writes.append(Write(None, CLEAR_TASKS))
            messages = [
                ToolMessage(
                    SUPERSEDED.format(name=call["name"]),
                    tool_call_id=call["id"],
                    name=call["name"],
                    status="error",
                )
                for call in pending.unanswered
            ]
            if messages:
                writes.append(Write({"messages": messages}, TOOLS))
        return Step(tuple(writes), new_turn)

    return plan_step


def _require_pending(pending: Pending) -> None:
    if not pending:
        raise NothingPending(
            "the thread", "is not paused: its run has ended.", "Use invoke() for the next turn."
        )


def _find(pending: Pending, call_id: str) -> PendingCall:
    for call in pending.calls:
        if call_id in (call.id, call.interrupt_id):
            return call
    raise UnknownCall(repr(call_id), "is not a pending call.", _list_pending(pending))


def _list_pending(pending: Pending) -> str:
    calls = ", ".join(f"{call.id!r} ({call.name})" for call in pending.calls)
    return f"Pending: {calls or 'none'}."


def _plan(pending: Pending, topology: Topology | None, new: Mapping[str, Decision]) -> Step:
    checked = {id_: _validated(_find(pending, id_), decision) for id_, decision in new.items()}
    decisions = {**recorded_decisions(pending), **checked}
    if pending.asks:
        return _plan_answers(pending, topology, decisions)
    if any(call.id not in decisions for call in pending.calls):
        return _record(pending, topology, decisions)
    has_run = pending.calls[0].kind == "result"
    messages = list((_new_results if has_run else _messages_of)(pending, decisions))
    if not messages:
        return Step()
    answered = {m.tool_call_id for m in messages if isinstance(m, ToolMessage)}
    calls_left = any(call["id"] not in answered for call in pending.unanswered)
    node = _node_before(topology, pending.next[0], calls_left=calls_left)
    return Step((Write({"messages": messages}, node),))


def _validated(call: PendingCall, decision: Any) -> Decision:
    kind = decision.get("type") if isinstance(decision, Mapping) else None
    if kind not in call.allowed:
        raise DecisionNotAllowed(
            f"{call.name} ({call.id!r})",
            f"{describe(decision if kind is None else kind)} is not allowed here.",
            f"Allowed: {', '.join(call.allowed)}." + _HINTS.get(call.kind, ""),
        )
    if kind == "edit":
        action = {"name": call.name, "args": call.args, **(decision.get("edited_action") or {})}
        if not isinstance(action["args"], Mapping) or not isinstance(action["name"], str):
            raise ArgumentError(
                "edit",
                f"args must be a dict and name a string, got {describe(action)}.",
                "Pass edit(agent, config, {'argument': value}).",
            )
        return {**decision, "edited_action": {"name": action["name"], "args": dict(action["args"])}}
    if kind == "respond" and call.kind != "question":
        message = decision.get("message")
        if not isinstance(message, str):
            raise ArgumentError(
                "respond",
                f"the result of a call must be a string, got {describe(message)}.",
                "Pass respond(agent, config, 'the result').",
            )
    return dict(decision)


def _plan_answers(
    pending: Pending, topology: Topology | None, decisions: Mapping[str, Decision]
) -> Step:
    """Answer the interrupts for which every decision is made."""
    resume: dict[str, Any] = {}
    partly = False
    for interrupt_id, group in groupby(pending.calls, key=lambda call: call.interrupt_id):
        calls = list(group)
        made = [dict(decisions[call.id]) for call in calls if call.id in decisions]
        if len(made) < len(calls):
            partly = partly or bool(made)
        elif calls[0].kind == "question":
            resume[interrupt_id] = made[0].get("message")
        else:
            resume[interrupt_id] = {"decisions": made} if calls[0].batched else made[0]
    if not partly:
        return Step(input=Command(resume=resume))
    own_ids = {call["id"] for call in pending.unanswered}
    is_own = topology is not None and own_ids.issuperset(call.id for call in pending.calls)
    if resume or not is_own:
        raise DecideTogether(
            ", ".join(call.name for call in pending.open),
            "one interrupt asks about several of these calls, and decisions about some of them "
            "cannot be stored: other interrupts are pending too, or a nested agent asks.",
            "Decide about all its calls at once, with decide().",
        )
    return _record(pending, topology, decisions)


def _record(pending: Pending, topology: Topology | None, decisions: Mapping[str, Decision]) -> Step:
    """Record the decisions until all are made; an interrupt then asks about the rest."""
    node = _node_before(topology, pending.next[0], calls_left=True)
    write = Write({"messages": [with_decisions(pending, decisions)]}, node)
    return Step((write,), runs=pending.asks)


def _new_results(pending: Pending, decisions: Mapping[str, Decision]) -> Iterator[AnyMessage]:
    """The results of calls that have run, as the reviewer changed them."""
    for message in pending.tail:
        call_id = message.tool_call_id if isinstance(message, ToolMessage) else None
        decision = decisions.get(call_id or "", {})
        if decision.get("type") == "respond":
            yield message.model_copy(update={"content": decision["message"]})


def _messages_of(pending: Pending, decisions: Mapping[str, Decision]) -> Iterator[AnyMessage]:
    """The model's message with edited calls, and results of the calls that do not run."""
    edits: dict[str | None, ToolCall] = {}
    results = []
    for call in pending.calls:
        decision = decisions[call.id]
        if decision["type"] == "edit":
            action = decision["edited_action"]
            edits[call.id] = ToolCall(
                type="tool_call", name=action["name"], args=action["args"], id=call.id
            )
        elif result := result_of(decision, call.name, call.id):
            results.append(result)
    if edits and pending.message is not None:
        yield with_review(pending.message, REVIEWER, list(decisions), edits)
    yield from results


def _node_before(topology: Topology | None, node: str, *, calls_left: bool) -> str:
    """The node to write as, so that the run continues where it was stopped."""
    assert topology is not None  # Decisions about another graph's calls are never written.
    if node == TOOLS:
        return topology.loop_exit if calls_left else TOOLS
    if node == topology.loop_entry:
        return TOOLS
    return next(edge.source for edge in topology.edges if edge.targets[0] == node)
