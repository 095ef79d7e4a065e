"""Read the pending calls of a thread from its state, and write requests about them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.types import StateSnapshot

from agent_factory.review.policy import DECISIONS, DecisionType
from agent_factory.review.records import call_digest, digest
from agent_factory.review.requests import (
    ActionRequest,
    HITLRequest,
    ReviewConfig,
    ToolApprovalRequest,
)
from agent_factory.state.history import DECIDED, answers_of, last_turn, unanswered_calls
from agent_factory.tools.client_tool import CLIENT_CALL
from agent_factory.topology.model import TOOLS, Phase
from agent_factory.topology.topology import Topology

Kind = Literal["pause", "review", "question", "result", "client"]
"""Why a call waits.

- "pause": `interrupt_before` or `interrupt_after` stopped the run before the call.
- "review": HumanInTheLoopMiddleware, or a middleware like it, asks about the call.
- "question": a tool or a hook called `interrupt()`.
- "result": the call has run, and the run stopped before the model reads its result.
- "client": the client of the agent runs the call, and sends its result.
"""

VALUE_KINDS: frozenset[Kind] = frozenset({"question", "client"})
"""Kinds with a value as the answer, not a decision of a reviewer."""


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A tool call, or another question, before a decision.

    Args:
        id: The id of the call. A question without a call has the id of the interrupt, and so has a
            call of a nested agent if the id of the call is not unique. A call in a batch of a
            nested agent has the id of the interrupt and the position in the batch.
        name: The tool; for the question of a hook, the node of the hook.
        args: The arguments.
        kind: The reason of the wait.
        allowed: The allowed decisions.
        question: The value passed to `interrupt()`, the description of a review, or the result
            of a finished call.
        interrupt_id: The id of the interrupt, if any. Several calls may share an interrupt.
        decision: The decision made so far, while further calls are still open.
        batched: Whether the interrupt asks about all calls of a turn together.
        call_digest: The digest of the tool and the arguments. An approval is for calls with this
            digest only. Empty if unknown.
        reviewers: Who may decide: roles, and people as "@ann"; empty for everybody.
        remember: The longest time in seconds of a standing approval for later calls; None for no
            standing approvals.
        digest: A name of this call and its question, unique among all questions of the thread, even
            if a model gives an id again. The actions take the digest in place of the id.
    """

    id: str
    name: str
    args: Mapping[str, Any]
    kind: Kind
    allowed: tuple[DecisionType, ...] = DECISIONS
    question: Any = None
    interrupt_id: str = ""
    decision: Mapping[str, Any] | None = None
    batched: bool = field(default=False, repr=False)
    call_digest: str = field(default="", repr=False)
    reviewers: tuple[str, ...] = field(default=(), repr=False)
    remember: float | None = field(default=None, repr=False)
    digest: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Pending:
    """Pending calls of a thread. Falsy if the thread is not paused.

    Args:
        calls: The calls to decide about. Empty if a run was stopped where no call waits.
        next: The next nodes.
        message: The model's message with the calls, if a message of this thread.
        tail: The messages after this message.
        finished: Whether some tasks of the current step have ended, and some still wait.
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
        """The calls without a decision."""
        return tuple(call for call in self.calls if call.decision is None)

    @property
    def asks(self) -> bool:
        """True if an interrupt waits for an answer."""
        return any(call.interrupt_id for call in self.calls)

    @property
    def unanswered(self) -> list[Mapping[str, Any]]:
        """The calls of the model's message without a result, including invalid tool calls."""
        return unanswered_calls(self.message, self.tail)


def read_pending(
    snapshot: StateSnapshot,
    topology: Topology | None,
    tools: Mapping[str, BaseTool] = MappingProxyType({}),
) -> Pending:
    """Return the pending calls of a thread, by the plan and the tools of an agent, if any."""
    if not (snapshot.next or snapshot.tasks):
        return Pending()
    # A thread from before an upgrade has the former names of its nodes.
    former = topology.former_nodes if topology is not None else {}
    messages = snapshot.values.get("messages", ()) if isinstance(snapshot.values, Mapping) else ()
    message, tail = last_turn(messages)
    if not all(isinstance(m, ToolMessage) for m in tail):
        message, tail = None, []  # The user has sent a new message: the old turn is over.
    # A step that ended early, after the last task, has no next nodes and is not done yet.
    nodes = snapshot.next or [task.name for task in snapshot.tasks]
    turn = Pending(
        next=tuple(former.get(node, node) for node in nodes),
        message=message,
        tail=tuple(tail),
        finished=not snapshot.next or any(task.result is not None for task in snapshot.tasks),
    )
    if not snapshot.next:
        return turn
    if any(task.interrupts for task in snapshot.tasks):
        calls = [*_interrupted_calls(snapshot, topology, turn)]
    else:
        calls = [*_stopped_calls(topology, turn, tools)]
    record = message.response_metadata.get(DECIDED, {}) if message is not None else {}
    stop = record.get("at", "")
    # Decisions recorded at another stop are over.
    is_here = former.get(stop, stop) == turn.next[0]
    decisions: dict[str, Mapping[str, Any]] = record["decisions"] if is_here else {}
    times = Counter(call.id for call in calls)
    # A recorded decision about a call changes the id of the interrupt of the batch, but not the id
    # of the message.
    sources = {c["id"]: message.id for c in message.tool_calls} if message is not None else {}
    for index, call in enumerate(calls):
        # The calls of parallel nested agents may share ids.
        id_ = call.interrupt_id if times[call.id] > 1 else call.id
        about = (id_, call.name, call.args, call.kind, call.question, call.call_digest)
        name = digest(sources.get(id_, call.interrupt_id), *about)
        calls[index] = replace(call, id=id_, decision=decisions.get(call.id), digest=name)
    return replace(turn, calls=tuple(calls))


def with_decisions(pending: Pending, decisions: Mapping[str, Mapping[str, object]]) -> AIMessage:
    """The model's message with a record of these decisions, in place of earlier records."""
    assert pending.message is not None  # The calls to decide about belong to a message.
    record = {"at": pending.next[0], "decisions": dict(decisions)}
    metadata = {**pending.message.response_metadata, DECIDED: record}
    return pending.message.model_copy(update={"response_metadata": metadata})


def _stopped_calls(
    topology: Topology | None, turn: Pending, tools: Mapping[str, BaseTool]
) -> Iterator[PendingCall]:
    """The calls before or after which `interrupt_before` or `interrupt_after` stopped a run."""
    if topology is None or turn.message is None:
        return
    after_model = {hook.node for hook in topology.hooks if hook.phase is Phase.AFTER_MODEL}
    open_ids = {call["id"] for call in turn.unanswered}
    # A stop anywhere else is not about calls.
    if turn.next[0] not in ({TOOLS, *after_model} if open_ids else {topology.loop_entry}):
        return
    answers = answers_of(turn.tail)
    for call in turn.message.tool_calls:
        pending = PendingCall(
            str(call["id"]),
            call["name"],
            call["args"],
            "pause",
            call_digest=call_digest(call, tools.get(call["name"])),
        )
        if call["id"] in open_ids:
            yield pending
        elif not open_ids and (answer := answers.get(pending.id)):
            # A finished call can be neither edited nor rejected.
            allowed: tuple[DecisionType, ...] = ("approve", "respond")
            yield replace(pending, kind="result", allowed=allowed, question=answer.text)


def _interrupted_calls(
    snapshot: StateSnapshot, topology: Topology | None, turn: Pending
) -> Iterator[PendingCall]:
    """The calls in the interrupts of a run."""
    # A snapshot does not name the call of a task of the tools. Each open call has a task, in the
    # order of the calls.
    tools_tasks = [t.id for t in snapshot.tasks if t.name == TOOLS and t.result is None]
    open_calls = turn.unanswered
    one_task_a_call = len(tools_tasks) == len(open_calls)
    calls = dict(zip(tools_tasks, open_calls, strict=True)) if one_task_a_call else {}
    for task in snapshot.tasks:
        # A hook of this agent asks about its own calls; in the tools, a nested agent asks.
        own_calls = open_calls if topology is not None and task.name != TOOLS else ()
        for interrupt in task.interrupts:
            value = interrupt.value
            requested_calls = read_request(value, interrupt.response_schema)
            if requested_calls is not None:
                yield from _with_ids(requested_calls, own_calls, interrupt.id)
            elif isinstance(value, Mapping) and value.get("type") == CLIENT_CALL:
                id_, name, args = value["id"], value["name"], value["args"]
                yield PendingCall(
                    id_ or interrupt.id, name, args, "client", ("respond",), None, interrupt.id
                )
            else:
                # A hook or another graph does not ask about a call: the node takes the place of a
                # call.
                call = calls.get(task.id, {"id": interrupt.id, "name": task.name, "args": {}})
                id_, name, args = str(call["id"]), call["name"], call["args"]
                yield PendingCall(id_, name, args, "question", ("respond",), value, interrupt.id)


def _with_ids(
    calls: Iterable[PendingCall], own_calls: Iterable[Mapping[str, Any]], interrupt_id: str
) -> Iterator[PendingCall]:
    """The calls of a request, with the ids by which decisions name them."""
    left = list(own_calls)
    for position, call in enumerate(calls):
        id_ = call.id or interrupt_id
        if call.batched:
            # LangChain's request names no ids: calls are matched by name and arguments.
            keys = ("id",) if call.id else ("name", "args")
            match = next((c for c in left if all(c[k] == getattr(call, k) for k in keys)), None)
            id_ = f"{interrupt_id}/{position}" if match is None else str(match["id"])
            if match is not None:
                left.remove(match)
        yield replace(call, id=id_, interrupt_id=interrupt_id)


def write_request(
    calls: Sequence[PendingCall], args_schemas: Sequence[Mapping[str, Any] | None]
) -> HITLRequest | ToolApprovalRequest:
    """Write the request for decisions about calls, as clients see it and `read_request` reads it.

    Args:
        calls: The calls of a batch, or a single call.
        args_schemas: For each call, a JSON schema of its arguments for a form, or None.
    """
    actions, configs = [], []
    for call, schema in zip(calls, args_schemas, strict=True):
        action = ActionRequest(
            name=call.name,
            args=dict(call.args),
            description=call.question,
            tool_call_id=call.id,
        )
        if call.call_digest:
            action["digest"] = call.call_digest
        config = ReviewConfig(action_name=call.name, allowed_decisions=[*call.allowed])
        if schema is not None:
            config["args_schema"] = dict(schema)
        if call.reviewers:
            config["reviewers"] = [*call.reviewers]
        if call.remember is not None:
            config["remember"] = call.remember
        actions.append(action)
        configs.append(config)
    if calls[0].batched:
        return HITLRequest(action_requests=actions, review_configs=configs)
    return ToolApprovalRequest(type="tool_approval", **actions[0], review_config=configs[0])


def read_request(value: Any, response_schema: object = None) -> list[PendingCall] | None:
    """Read the value of an interrupt, also of langchain's; None if no review has written it.

    A call without an id in the request has an empty id.
    """
    if not isinstance(value, Mapping):
        return None
    is_batch = {"action_requests", "review_configs"} <= value.keys()
    if is_batch:
        parts = [*zip(value["action_requests"], value["review_configs"], strict=True)]
    elif {"action_request", "review_config"} <= value.keys():  # the form of earlier versions
        action = {"tool_call_id": value.get("tool_call_id"), **value["action_request"]}
        parts = [(action, value["review_config"])]
    elif value.get("type") != "tool_approval" or not {"name", "args", "tool_call_id"} <= {*value}:
        return None
    else:
        # LangChain names the allowed decisions in the schema of the answer alone.
        schema = json.dumps(response_schema, default=str)
        kinds = [kind for kind in DECISIONS if f'"const": "{kind}"' in schema]
        parts = [(value, value.get("review_config") or {"allowed_decisions": kinds or DECISIONS})]
    return [
        PendingCall(
            action.get("tool_call_id") or "",
            action["name"],
            action["args"],
            "review",
            tuple(config["allowed_decisions"]),
            action.get("description"),
            batched=is_batch,
            call_digest=action.get("digest") or "",
            reviewers=tuple(config.get("reviewers") or ()),
            remember=config.get("remember"),
        )
        for action, config in parts
    ]
