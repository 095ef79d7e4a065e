"""What a paused thread waits for, read from its state: plain values, and no action."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langgraph.types import Interrupt, PregelTask, StateSnapshot

from agent_factory.state.history import answers_of, call_ids, last_turn
from agent_factory.topology.model import TOOLS, Phase
from agent_factory.topology.topology import Topology

Kind = Literal["pause", "review", "question", "result"]
"""Why a call waits.

- "pause": `interrupt_before` or `interrupt_after` stopped the run before the call.
- "review": HumanInTheLoopMiddleware, or one like it, asks about the call.
- "question": something called `interrupt()`: the tool itself, or a hook.
- "result": the call has run, and the run stopped before the model reads its result.
"""

Allowed = Literal["approve", "edit", "reject", "respond"]

Decision = Mapping[str, Any]
"""A decision as HumanInTheLoopMiddleware takes it: `{"type": "approve"}`,
`{"type": "edit", "edited_action": {"name": ..., "args": ...}}`,
`{"type": "reject", "message": ...}`, `{"type": "respond", "message": ...}`."""

ALL: tuple[Allowed, ...] = ("approve", "edit", "reject", "respond")

NOTE = "review"
"""Where, in the response metadata of the model's message, decisions lie until all are made."""


@dataclass(frozen=True, slots=True)
class PendingCall:
    """One thing that waits for a decision: as a rule a tool call.

    Args:
        id: The call's id. A question that belongs to no call has the id of its interrupt, and the
            calls of another agent, inside of this one, have their position added to it.
        name: The tool; for the question of a hook, its node.
        args: The arguments.
        kind: Why it waits.
        allowed: The decisions that may be made.
        question: What `interrupt()` was given; the description of a review; a call's result.
        interrupt_id: The interrupt, if there is one. Calls may share it.
        decision: What was already decided, where other calls are still open.
        batched: The interrupt asks about all calls of a turn together.
    """

    id: str
    name: str
    args: Mapping[str, Any]
    kind: Kind
    allowed: tuple[Allowed, ...] = ALL
    question: Any = None
    interrupt_id: str = ""
    decision: Decision | None = None
    batched: bool = field(default=False, repr=False)


@dataclass(frozen=True, slots=True)
class Pending:
    """What a thread waits for; false where it waits for nothing.

    Args:
        calls: What can be decided about. Empty where a run was stopped with no call in view.
        next: The nodes that run next.
        message: The model's message that makes the calls, if it is one of this thread.
        tail: The messages after it.
        finished: Some tasks of this step have ended, and others wait.
    """

    calls: tuple[PendingCall, ...] = ()
    next: tuple[str, ...] = ()
    message: AIMessage | None = field(default=None, repr=False)
    tail: tuple[AnyMessage, ...] = field(default=(), repr=False)
    finished: bool = field(default=False, repr=False)

    def __bool__(self) -> bool:
        return bool(self.next)

    @property
    def open(self) -> tuple[PendingCall, ...]:
        """The calls about which nothing was decided yet."""
        return tuple(call for call in self.calls if call.decision is None)

    @property
    def asks(self) -> bool:
        """Something asks, by an interrupt that takes an answer."""
        return any(call.interrupt_id for call in self.calls)

    @property
    def unanswered(self) -> list[Mapping[str, Any]]:
        """The calls of the model's message without a result, unreadable ones included."""
        return _unanswered(self.message, self.tail)


def read(snapshot: StateSnapshot, plan: Topology | None) -> Pending:
    """What a thread waits for.

    Args:
        snapshot: Its state.
        plan: The agent's plan; None for a graph of another make.
    """
    if not snapshot.next:
        return Pending()
    turn = _turn(snapshot)
    asking = any(task.interrupts for task in snapshot.tasks)
    calls = _asked_about(snapshot, plan, turn) if asking else _stopped_at(plan, turn)
    notes = decided(turn)
    return replace(turn, calls=tuple(replace(call, decision=notes.get(call.id)) for call in calls))


def decided(pending: Pending) -> dict[str, Decision]:
    """The decisions that were noted at this stop, by the id of their call."""
    notes = pending.message.response_metadata.get(NOTE, {}) if pending.message else {}
    return dict(notes["decisions"]) if notes.get("at") == pending.next[0] else {}


def noted(pending: Pending, decisions: Mapping[str, Decision]) -> AIMessage:
    """The model's message with these decisions noted; an earlier stop's are forgotten."""
    assert pending.message is not None  # a call to decide about is one of a message
    note = {"at": pending.next[0], "decisions": dict(decisions)}
    metadata = {**pending.message.response_metadata, NOTE: note}
    return pending.message.model_copy(update={"response_metadata": metadata})


def _turn(snapshot: StateSnapshot) -> Pending:
    values = snapshot.values
    messages = values.get("messages", ()) if isinstance(values, Mapping) else ()
    message, tail = last_turn(messages)
    if not all(isinstance(m, ToolMessage) for m in tail):
        message, tail = None, []  # the user has written since: nothing of that turn waits
    return Pending(
        next=snapshot.next,
        message=message,
        tail=tuple(tail),
        finished=any(task.result is not None for task in snapshot.tasks),
    )


def _stopped_at(plan: Topology | None, turn: Pending) -> Iterator[PendingCall]:
    """The calls before or after which a run was stopped from outside."""
    if plan is None or turn.message is None:
        return
    at, calls = turn.next[0], turn.message.tool_calls
    if turn.unanswered and at in _between(plan):
        waiting = {call["id"] for call in turn.unanswered}
        for call in calls:
            if call["id"] in waiting:
                yield PendingCall(str(call["id"]), call["name"], call["args"], "pause")
    elif not turn.unanswered and at == plan.loop_entry:
        yield from _results(turn)


def _between(plan: Topology) -> set[str]:
    """The nodes after the model and before the tools have run."""
    return {TOOLS, *(hook.node for hook in plan.hooks if hook.phase is Phase.AFTER_MODEL)}


def _results(turn: Pending) -> Iterator[PendingCall]:
    answers = answers_of(turn.tail)
    for call in turn.message.tool_calls if turn.message else ():
        if answer := answers.get(str(call["id"])):
            yield PendingCall(
                str(call["id"]),
                call["name"],
                call["args"],
                "result",
                ("approve", "respond"),
                answer.text,
            )


def _asked_about(
    snapshot: StateSnapshot, plan: Topology | None, turn: Pending
) -> Iterator[PendingCall]:
    """What the interrupts of a run ask about."""
    makers = _makers(snapshot, turn)
    for task in snapshot.tasks:
        # A question about several calls comes from a hook; at the tools it is another agent's.
        own = turn if plan is not None and task.name != TOOLS else Pending()
        for interrupt in task.interrupts:
            value = interrupt.value
            if _has(value, "action_requests", "review_configs"):
                yield from _batch(interrupt, own)
            elif _has(value, "action_request", "review_config"):
                yield _single(interrupt)
            else:
                yield _question(interrupt, task, makers.get(task.id))


def _has(value: Any, *keys: str) -> bool:
    return isinstance(value, Mapping) and all(key in value for key in keys)


def _batch(interrupt: Interrupt, turn: Pending) -> Iterator[PendingCall]:
    requests, configs = interrupt.value["action_requests"], interrupt.value["review_configs"]
    left = list(turn.unanswered)
    for position, (action, config) in enumerate(zip(requests, configs, strict=True)):
        same = [c for c in left if (c["name"], c["args"]) == (action["name"], action["args"])]
        if same:
            left.remove(same[0])
        id_ = str(same[0]["id"]) if same else f"{interrupt.id}/{position}"
        yield replace(_reviewed(id_, action, config, interrupt), batched=True)


def _single(interrupt: Interrupt) -> PendingCall:
    value = interrupt.value
    id_ = value.get("tool_call_id") or interrupt.id
    return _reviewed(id_, value["action_request"], value["review_config"], interrupt)


def _reviewed(
    id_: str, action: Mapping[str, Any], config: Mapping[str, Any], interrupt: Interrupt
) -> PendingCall:
    return PendingCall(
        id_,
        action["name"],
        action["args"],
        "review",
        tuple(config["allowed_decisions"]),
        action.get("description"),
        interrupt.id,
    )


def _question(
    interrupt: Interrupt, task: PregelTask, call: Mapping[str, Any] | None
) -> PendingCall:
    return PendingCall(
        str(call["id"]) if call else interrupt.id,
        call["name"] if call else task.name,
        call["args"] if call else {},
        "question",
        ("respond",),
        interrupt.value,
        interrupt.id,
    )


def _makers(snapshot: StateSnapshot, turn: Pending) -> dict[str, Mapping[str, Any]]:
    """The call each unfinished task of the tools works on, by the task's id.

    LangGraph does not say it. There is one task for each call, in the order of the calls.
    """
    tasks = [t for t in snapshot.tasks if t.name == TOOLS and t.result is None]
    calls = turn.unanswered
    return {t.id: c for t, c in zip(tasks, calls, strict=True)} if len(tasks) == len(calls) else {}


def _unanswered(message: AIMessage | None, tail: Sequence[AnyMessage]) -> list[Mapping[str, Any]]:
    if message is None:
        return []
    left = set(call_ids(message)) - answers_of(tail).keys()
    calls: list[Any] = [*message.tool_calls, *message.invalid_tool_calls]
    return [call for call in calls if call["id"] in left]
