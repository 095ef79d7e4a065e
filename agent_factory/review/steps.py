"""Steps: writes of decisions to a thread, and the input with which the run continues.

A planner turns decisions into a step, a value; `apply` writes the step and invokes the agent.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from itertools import groupby
from typing import Any, ParamSpec, cast

from langchain_core.messages import AnyMessage, ToolMessage, convert_to_messages
from langchain_core.messages.tool import ToolCall
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.types import Command, StateSnapshot

from agent_factory.errors import ArgumentError, NothingPending, NoThread, UnknownCall, describe
from agent_factory.factory.agent import tools_of, topology_of
from agent_factory.hooks.flows import Flow, adrive, drive, identity
from agent_factory.review.decision import Judge, judge
from agent_factory.review.errors import DecideTogether
from agent_factory.review.pending_calls import (
    VALUE_KINDS,
    Pending,
    PendingCall,
    read_pending,
    with_decisions,
)
from agent_factory.review.policy import rules_about
from agent_factory.review.records import split_decisions, with_review, without_decisions
from agent_factory.runtime.inputs import missing_thread, nothing_pending
from agent_factory.runtime.unfinished_turn import (
    SUPERSEDED,
    UNFINISHED,
    is_before_tools,
    results_of,
)
from agent_factory.topology.model import TOOLS, Phase
from agent_factory.topology.topology import Topology
from agent_factory.upstream import CLEAR_TASKS, COPY_BRANCH

P = ParamSpec("P")

REVIEWER = "review"
"""Name of the reviewer in the record of the model's message."""


@dataclass(frozen=True, slots=True)
class Step:
    """Writes and input which apply decisions to a thread."""

    # Each write is an update, and the node to write as; the edges of this node lead to the next
    # nodes. An update of None ends the tasks of this step and keeps their writes.
    writes: tuple[tuple[Mapping[str, object] | None, str], ...] = ()
    input: object = None
    runs: bool = True  # False: the agent is not invoked after the writes


Thread = tuple[StateSnapshot, Pending]
"""The state of a thread, and the pending calls."""

StepPlanner = Callable[[Pending, Topology | None, Judge], Step]
"""Plans a step from the pending calls of a thread, the agent's topology and a judge.

The judge knows the tools and the policies of the agent.
"""


# Planning


def plan_decision(kind: str, call_id: str | None, **details: object) -> StepPlanner:
    """Plan a decision about a call, or about all open calls; details of None are left out."""
    decision = {"type": kind, **{k: v for k, v in details.items() if v is not None}}

    def plan_step(pending: Pending, topology: Topology | None, judge: Judge) -> Step:
        if call_id is None and not pending.calls and kind == "approve":
            return Step()
        calls = pending.open if call_id is None else (_find(pending, call_id),)
        if not calls:
            reason = f"no call is pending; next is {', '.join(pending.next)}."
            hint = "Use approve() to continue, or add_input() to send a new message."
            raise NothingPending("the thread", reason, hint)
        if len(calls) > 1 and kind in ("edit", "respond"):
            reason = f"is needed: {len(calls)} calls are pending."
            raise UnknownCall("call_id", reason, _list_pending(pending))
        return _plan(pending, topology, judge, [(call, decision) for call in calls])

    return plan_step


def plan_input(input: Any) -> StepPlanner:
    """Plan a new message of the user: pending calls are answered, and a new turn begins."""
    if isinstance(input, Mapping) and "messages" in input:
        new_turn = dict(input)
    else:
        try:
            items = input if isinstance(input, list) else [input]
            new_turn = {"messages": convert_to_messages(items)}
        except (NotImplementedError, TypeError, ValueError) as error:
            raise ArgumentError(
                "input",
                f"must be a string, a message or a list of messages, got {describe(input)}.",
                'Pass "..." or {"messages": [...]}.',
            ) from error

    def plan_step(pending: Pending, topology: Topology | None, _: Judge) -> Step:
        writes: list[tuple[dict[str, object] | None, str]] = []
        if pending.finished:
            # A write as a node, or new input, would drop the writes of finished tasks of this step.
            writes.append((None, CLEAR_TASKS))
        if topology is not None and TOOLS in topology.nodes:
            text = SUPERSEDED if is_before_tools(topology, pending.next) else UNFINISHED
            messages = results_of(pending.unanswered, text)
            if messages:
                writes.append(({"messages": messages}, TOOLS))
        return Step(tuple(writes), new_turn)

    return plan_step


def _find(pending: Pending, call_id: str) -> PendingCall:
    matches = [call for call in pending.calls if call_id in (call.id, call.digest)]
    matches = matches[:1] or [call for call in pending.calls if call_id == call.interrupt_id]
    if len(matches) == 1:
        return matches[0]
    reason = f"asks about {len(matches)} calls." if matches else "is not a pending call."
    raise UnknownCall(repr(call_id), reason, _list_pending(pending))


def _list_pending(pending: Pending) -> str:
    calls = ", ".join(f"{call.id!r} ({call.name})" for call in pending.calls)
    return f"Pending: {calls or 'none'}."


def plan_decisions(
    pending: Pending, topology: Topology | None, judge: Judge, new: Mapping[str, object]
) -> Step:
    """Plan decisions about several calls, by the ids of the calls."""
    if not isinstance(new, Mapping):
        reason = f"must map the ids of calls to decisions, got {describe(new)}."
        raise ArgumentError("decisions", reason, f"Pass {{{pending.calls[0].id!r}: ...}}.")
    whole = {id_: {"type": one} if isinstance(one, str) else one for id_, one in new.items()}
    pairs = [(_find(pending, id_), decision) for id_, decision in whole.items()]
    return _plan(pending, topology, judge, pairs)


def _plan(
    pending: Pending,
    topology: Topology | None,
    judge: Judge,
    new: Iterable[tuple[PendingCall, object]],
) -> Step:
    """Plan decisions about calls, with the decisions recorded so far."""
    decisions = {call.id: call.decision for call in pending.calls if call.decision is not None}
    decisions |= {call.id: judge(call, decision).decision for call, decision in new}
    if pending.asks:
        return _plan_answers(pending, topology, decisions)
    if any(call.id not in decisions for call in pending.calls):
        return _record(pending, topology, decisions)
    messages: list[AnyMessage] = []
    # The calls have run. An answer replaces the content of a result.
    if pending.calls[0].kind == "result":
        respond = {id_: d["message"] for id_, d in decisions.items() if d["type"] == "respond"}
        for message in pending.tail:
            if isinstance(message, ToolMessage) and message.tool_call_id in respond:
                content = respond[message.tool_call_id]
                messages.append(message.model_copy(update={"content": content}))
    else:
        edits, results = split_decisions(
            (ToolCall(name=call.name, args=dict(call.args), id=call.id), decisions[call.id])
            for call in pending.calls
        )
        if edits and pending.message is not None:
            digests: dict[str | None, str] = {c.id: c.call_digest for c in pending.calls}
            messages.append(with_review(pending.message, REVIEWER, digests, edits))
        messages += results
    if not messages:
        return Step()
    result_ids = {m.tool_call_id for m in messages if isinstance(m, ToolMessage)}
    calls_left = any(call["id"] not in result_ids for call in pending.unanswered)
    node = _node_before(topology, pending.next[0], calls_left=calls_left)
    return Step((({"messages": messages}, node),))


def _plan_answers(
    pending: Pending, topology: Topology | None, decisions: Mapping[str, Mapping[str, object]]
) -> Step:
    """Answer the interrupts without open calls."""
    resume: dict[str, object] = {}
    partly = False
    # groupby needs no sorting here: the calls of one interrupt follow each other.
    for interrupt_id, group in groupby(pending.calls, key=lambda call: call.interrupt_id):
        calls = list(group)
        answers = [dict(decisions[call.id]) for call in calls if call.id in decisions]
        if len(answers) < len(calls):
            partly = partly or bool(answers)
        elif calls[0].kind in VALUE_KINDS:
            resume[interrupt_id] = answers[0].get("message")
        else:
            resume[interrupt_id] = {"decisions": answers} if calls[0].batched else answers[0]
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


def _record(
    pending: Pending, topology: Topology | None, decisions: Mapping[str, Mapping[str, object]]
) -> Step:
    """Record the decisions made so far; an interrupt then asks about the rest."""
    node = _node_before(topology, pending.next[0], calls_left=True)
    update = {"messages": [with_decisions(pending, decisions)]}
    return Step(((update, node),), runs=pending.asks)


def _node_before(topology: Topology | None, node: str, *, calls_left: bool) -> str:
    """The node to write as, so that the run continues at the stop."""
    assert topology is not None  # Decisions about another graph's calls are never written.
    if node == TOOLS:
        return topology.loop_exit if calls_left else TOOLS
    if node == topology.loop_entry:
        return TOOLS
    # LangGraph continues after the node of a write, so the write names the node before.
    return next(edge.source for edge in topology.edges if edge.targets[0] == node)


# Applying

_STREAM_OPTIONS = frozenset(("output_keys", "stream_mode", "subgraphs", "version"))
"""Options about the parts of a stream, without effect on the run."""


@dataclass(frozen=True, slots=True)
class Reviews:
    """An agent, with the parts for decisions about its calls.

    Args:
        agent: The agent.
        topology: The plan; None for a graph around agents, whose questions can be answered too.
        tools: The tools by name; empty for a graph around agents.
    """

    agent: Any
    topology: Topology | None
    tools: Mapping[str, BaseTool]

    @classmethod
    def of(cls, agent: Any) -> Reviews:
        """The reviews of an agent, or of a graph around agents."""
        topology = topology_or_none(agent)
        return cls(agent, topology, {} if topology is None else tools_of(agent))

    def judge(self, state: Callable[[], object]) -> Judge:
        """Return the judge of decisions, by the tools and the policies of the agent.

        An edit alone needs the thread's state.
        """
        if self.topology is None:
            return judge
        return lambda call, decision: judge(
            call, decision, self.tools, lambda edit: rules_about(self.agent, state(), edit)
        )

    def pending_of(self, snapshot: StateSnapshot) -> Pending:
        """Return the pending calls of a thread."""
        return read_pending(snapshot, self.topology, self.tools)

    def read(self, prefix: str, config: RunnableConfig, *, stranded: bool = False) -> Flow[Thread]:
        """Read a thread with the pending calls; methods with the prefix "a" are awaited.

        A wait at a node which the agent lacks is read with `stranded`, and otherwise raises
        MissingNode.
        """
        agent = self.agent
        snapshot: StateSnapshot = yield getattr(agent, f"{prefix}get_state")(config)
        if snapshot.next or self.topology is None or snapshot.metadata is None:
            return snapshot, self.pending_of(snapshot)
        # LangGraph leaves out next nodes which the graph lacks: a stranded thread looks finished.
        # Only the checkpoint has these nodes.
        saver, place = agent.stored(config)
        checkpoint = (yield getattr(saver, f"{prefix}get_tuple")(place)) if saver else None
        latest = "checkpoint_id" not in config["configurable"]
        missing = agent.missing_nodes(checkpoint, latest=latest)
        if missing and not stranded:
            raise agent.missing_node_error(config["configurable"]["thread_id"], missing)
        return snapshot, self.pending_of(snapshot._replace(next=tuple(missing)))


def action(function: Callable[P, Any]) -> Callable[P, Any]:
    """Return a function which runs the flow of a function, sync.

    The flow takes the prefix of the agent's methods: "" here, "a" in `async_variant`.
    """

    @wraps(function)
    def act(*args: P.args, **kwargs: P.kwargs) -> Any:
        return drive(function(*args, **kwargs)(prefix=""), identity)

    return act


def async_variant(act: Callable[P, Any]) -> Callable[P, Coroutine[Any, Any, Any]]:
    """Return the async variant of a function of `action`."""
    function: Callable[P, Any] = act.__wrapped__  # type: ignore[attr-defined]

    @wraps(function)
    async def aact(*args: P.args, **kwargs: P.kwargs) -> Any:
        return await adrive(function(*args, **kwargs)(prefix="a"), identity)

    aact.__name__ = aact.__qualname__ = f"a{function.__name__}"
    aact.__doc__ = f"Async variant of `{function.__name__}`."
    return aact


def apply(
    agent: Any,
    config: RunnableConfig,
    planner: StepPlanner,
    options: dict[str, object],
    *,
    prefix: str,
    stranded: bool = False,
    thread: Thread | None = None,
) -> Flow[Any]:
    """Plan a step from the pending calls of a thread, write it, and invoke or stream the agent.

    With `stranded`, the thread may wait at a node which the agent lacks. A `thread` from
    `read_thread` is not read again.
    """
    streams = options.pop("stream", False)
    config, reviews = thread_config(agent, config), Reviews.of(agent)
    get_state = getattr(agent, f"{prefix}get_state")
    update_state = getattr(agent, f"{prefix}update_state")

    def plan(
        config: RunnableConfig, seen: Sequence[PendingCall] = ()
    ) -> Flow[tuple[Pending, Step]]:
        snapshot, pending = thread or (yield from reviews.read(prefix, config, stranded=stranded))
        if snapshot.metadata is None:
            raise missing_thread(config["configurable"])
        if not pending:
            raise nothing_pending()
        if is_earlier and not pending.unanswered:
            # The answer of the model belongs to the old branch.
            pending = replace(pending, finished=False)
        if seen:
            digests = {call.digest for call in pending.calls}
            left = [call for call in seen if call.digest not in digests]
            pending = replace(pending, calls=tuple(_renamed(c, left) for c in pending.calls))
        judge = reviews.judge(lambda: snapshot.values)
        return pending, planner(pending, reviews.topology, judge)

    checkpoint_id, is_earlier = config["configurable"].get("checkpoint_id"), False
    if checkpoint_id is not None:
        newest = yield get_state(_latest(config))
        is_earlier = newest.config["configurable"].get("checkpoint_id") != checkpoint_id
    pending, step = yield from plan(config)
    if is_earlier and pending.asks:
        # LangGraph stores an answer with the interrupt, and would ignore a second answer at this
        # checkpoint. So copy the checkpoint, which has no answers then, and run the copy up to the
        # interrupt.
        yield update_state(config, None, COPY_BRANCH)
        config = _latest(config)
        # Nobody reads the parts of this run, so options about a stream are left out.
        of_run = {k: v for k, v in options.items() if not streams or k not in _STREAM_OPTIONS}
        yield getattr(agent, f"{prefix}invoke")(None, config, **of_run)
        # Agents inside have run again, and name their calls by other interrupts.
        _, step = yield from plan(config, pending.calls)
    place = config
    for update, node in step.writes:
        place = yield update_state(place, update, node)
    if step.writes:
        # The run has to continue from the newer checkpoints of the writes.
        config = _latest(config)
    if streams and step.runs:
        return getattr(agent, f"{prefix}stream")(step.input, config, **options)
    if streams:
        # A step without a run has no parts.
        return _no_parts() if prefix else iter(())
    if not step.runs:
        snapshot = yield get_state(config)
        return snapshot.values
    return (yield getattr(agent, f"{prefix}invoke")(step.input, config, **options))


def _renamed(call: PendingCall, left: list[PendingCall]) -> PendingCall:
    """The call with the names that a person has seen: those of an equal call."""
    for other in left:
        renamed = replace(call, id=other.id, digest=other.digest)
        if replace(renamed, interrupt_id=other.interrupt_id) == other:
            left.remove(other)
            return renamed
    return call


async def _no_parts() -> AsyncIterator[object]:
    return
    yield  # makes the function a generator


def repeat_review(
    agent: Any, config: RunnableConfig, *, earlier: bool
) -> list[tuple[Any, RunnableConfig, str | None]]:
    """Revoke the decisions about the calls of a thread without a result.

    The turn continues after the answer of the model, so the calls are reviewed again. At an
    `earlier` checkpoint, all tasks run again.

    Returns:
        The agent, and the agents among its nodes which continue with it. For each, the config of
        the state, and the node after which the agent continues, if a turn does.
    """
    places: list[tuple[Any, RunnableConfig, str | None]] = []
    agents = [(agent, config)]
    # The list grows in the loop: agents inside are appended.
    for graph, place in agents:
        # The outer agent also reads the state of an inner agent, by the `checkpoint_ns`.
        snapshot: StateSnapshot = agent.get_state(place)
        topology = topology_or_none(graph)
        turn = read_pending(snapshot, topology)
        hooks = () if topology is None else topology.hooks
        review = {TOOLS, *(hook.node for hook in hooks if hook.phase is Phase.AFTER_MODEL)}
        if topology and turn.message and turn.unanswered and not review.isdisjoint(turn.next):
            # As in `plan_input`: a write as a node drops the writes of finished tasks of this step.
            if turn.finished and not earlier:
                place = agent.update_state(place, None, CLEAR_TASKS)
            message, model = without_decisions(turn.message), topology.style.model
            place = agent.update_state(place, {"messages": [message]}, model)
            places.append((graph, place, model))
            continue
        places.append((graph, place, None))
        if not earlier:
            parts = dict(graph.get_subgraphs())
            inner = [task for task in snapshot.tasks if task.state]
            # In a snapshot without subgraphs, LangGraph has the config of an inner agent here.
            agents += [(parts[task.name], cast("RunnableConfig", task.state)) for task in inner]
    return places


def is_paused(agent: Any, snapshot: StateSnapshot, *, goes_on: bool = False) -> bool:
    """Return True if a run waits for a decision here; a run that `goes_on` has no message."""
    before, after = agent.interrupt_before_nodes, agent.interrupt_after_nodes
    # A run that was interrupted before such a node must not skip the review. The writes of a
    # decision have another source: their run has to continue.
    stops = bool(after) or before == "*" or not set(snapshot.next).isdisjoint(before)
    from_loop = (snapshot.metadata or {}).get("source") == "loop"
    return bool(snapshot.interrupts or (snapshot.next and stops and (from_loop or goes_on)))


def topology_or_none(agent: Any) -> Topology | None:
    """The agent's topology; None for a graph around agents, whose questions can be answered too."""
    try:
        return topology_of(agent)
    except ArgumentError:
        return None


def _latest(config: RunnableConfig) -> RunnableConfig:
    """The config without a `checkpoint_id`, for the newest checkpoint."""
    configurable = {k: v for k, v in config["configurable"].items() if k != "checkpoint_id"}
    return {**config, "configurable": configurable}


def thread_config(agent: Any, config: RunnableConfig) -> RunnableConfig:
    """The config, with the `configurable` bound to the agent."""
    if not getattr(agent, "checkpointer", None):
        raise NoThread(
            "agent",
            "must have a checkpointer; without one it keeps no threads.",
            "Build it with create_agent(..., checkpointer=InMemorySaver()).",
        )
    hint = "Pass {'configurable': {'thread_id': '1'}}."
    if not isinstance(config, Mapping):
        raise NoThread("config", f"must be a dict with a thread_id, got {describe(config)}.", hint)
    bound = (agent.config or {}).get("configurable", {})
    configurable = {**bound, **(config.get("configurable") or {})}
    if configurable.get("thread_id") in (None, ""):
        raise NoThread("config", f"must have a thread_id, got {describe(config)}.", hint)
    return {**config, "configurable": configurable}
