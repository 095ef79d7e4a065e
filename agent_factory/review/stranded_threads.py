"""Find the threads at a node which an agent lacks."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.types import PregelTask

from agent_factory.errors import ArgumentError, describe
from agent_factory.factory.agent import topology_of
from agent_factory.hooks.flows import Flow, arun, identity, run
from agent_factory.review.pending_calls import PendingCall, read_pending
from agent_factory.review.steps import thread_config
from agent_factory.upstream import waiting_interrupts


@dataclass(frozen=True, slots=True)
class StrandedThread:
    """A thread at a node which the agent lacks.

    Args:
        thread_id: The id of the thread.
        nodes: The nodes of the wait, or the nodes after an interrupted step.
        calls: The pending tool calls and questions, as far as readable. No decision is allowed,
            because the agent cannot take a decision.
    """

    thread_id: str
    nodes: tuple[str, ...]
    calls: tuple[PendingCall, ...] = ()


def stranded(agent: object, thread_ids: Iterable[str] | None = None) -> Iterator[StrandedThread]:
    """Yield the threads with a newest checkpoint at a node which the agent lacks.

    Without `thread_ids`, every checkpoint of the checkpointer is read once, and then each of these
    threads. Paused threads of further agents with the same checkpointer are included.

    Args:
        agent: An agent with a checkpointer.
        thread_ids: The threads to look at; None for all.

    Raises:
        NoThread: The agent has no checkpointer.
        ArgumentError: The graph was not built by `create_agent`, or `thread_ids` is a string.

    >>> from langgraph.checkpoint.memory import InMemorySaver
    >>> from agent_factory import create_agent
    >>> from agent_factory.middleware import HumanInTheLoopMiddleware
    >>> from agent_factory.testing import ScriptedChatModel
    >>> def pay(euros: int) -> str:
    ...     "Pay."
    ...     return "paid"
    >>> saver = InMemorySaver()
    >>> model = ScriptedChatModel([[{"name": "pay", "args": {"euros": 5}}]])
    >>> review = HumanInTheLoopMiddleware({"pay": True}, name="Review")
    >>> agent = create_agent(model, [pay], middleware=[review], checkpointer=saver)
    >>> _ = agent.invoke({"messages": "Pay 5."}, {"configurable": {"thread_id": "t-17"}})
    >>> for thread in stranded(create_agent(model, [pay], checkpointer=saver)):
    ...     print(thread.thread_id, thread.nodes, [call.args for call in thread.calls])
    t-17 ('Review.after_model',) [{'euros': 5}]
    """
    saver = _saver_of(agent, thread_ids)
    if thread_ids is None:
        newest: dict[str, tuple[str, bool]] = {}
        # None lists the checkpoints of all threads. No thread is read meanwhile: savers hold a lock
        # during a listing.
        for checkpoint in saver.list(None):
            _note(agent, checkpoint, newest)
        thread_ids = [thread_id for thread_id, (_, missing) in newest.items() if missing]
    for thread_id in thread_ids:
        if thread := run(_read(agent, "", saver, thread_id), identity):
            yield thread


async def astranded(
    agent: object, thread_ids: Iterable[str] | None = None
) -> AsyncIterator[StrandedThread]:
    """Async variant of `stranded`."""
    saver = _saver_of(agent, thread_ids)
    if thread_ids is None:
        newest: dict[str, tuple[str, bool]] = {}
        every: AsyncIterable[CheckpointTuple] = saver.alist(None)
        async for checkpoint in every:
            _note(agent, checkpoint, newest)
        thread_ids = [thread_id for thread_id, (_, missing) in newest.items() if missing]
    for thread_id in thread_ids:
        if thread := await arun(_read(agent, "a", saver, thread_id), identity):
            yield thread


def _saver_of(agent: Any, thread_ids: object) -> BaseCheckpointSaver[Any]:
    # Raises for a graph of another origin than create_agent.
    topology_of(agent)
    # Each letter of a string would pass for an id.
    if isinstance(thread_ids, str):
        reason = f"must be a list of ids, got {describe(thread_ids)}."
        raise ArgumentError("thread_ids", reason, f"Pass [{thread_ids!r}].")
    # Any thread will do, because only the saver is asked for.
    config = thread_config(agent, {"configurable": {"thread_id": "any"}})
    saver, _ = agent.stored(config)
    assert saver is not None  # thread_config has checked it
    return saver  # type: ignore[no-any-return]


def _note(agent: Any, checkpoint: CheckpointTuple, newest: dict[str, tuple[str, bool]]) -> None:
    """Note for the newest checkpoint of a thread, in any order, if the thread is stranded."""
    where = checkpoint.config["configurable"]
    thread_id, checkpoint_id = where["thread_id"], where["checkpoint_id"]
    # The ids of LangGraph's checkpoints are UUIDs of version 6, which sort by time. Checkpoints of
    # subgraphs do not count.
    if not where.get("checkpoint_ns") and checkpoint_id > newest.get(thread_id, ("", False))[0]:
        newest[thread_id] = checkpoint_id, bool(agent.missing_nodes(checkpoint))


def _read(
    agent: Any, prefix: str, saver: BaseCheckpointSaver[Any], thread_id: str
) -> Flow[StrandedThread | None]:
    config = thread_config(agent, {"configurable": {"thread_id": thread_id}})
    checkpoint = yield getattr(saver, f"{prefix}get_tuple")(config)
    if not (missing := agent.missing_nodes(checkpoint)):
        return None
    snapshot = yield getattr(agent, f"{prefix}get_state")(config)
    interrupts = waiting_interrupts(checkpoint).items()
    # LangGraph lists no tasks of unknown nodes.
    tasks = tuple(PregelTask(id, missing[0], (), interrupts=waiting) for id, waiting in interrupts)
    turn = read_pending(snapshot._replace(next=tuple(missing), tasks=tasks), topology_of(agent))
    calls = turn.calls or tuple(
        PendingCall(str(call["id"]), call["name"], call["args"], "pause")
        for call in turn.unanswered
    )
    return StrandedThread(
        str(thread_id), tuple(missing), tuple(replace(call, allowed=()) for call in calls)
    )
