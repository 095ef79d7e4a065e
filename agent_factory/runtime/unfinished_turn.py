"""Unfinished turn of a thread with a new message: the results of the calls are kept."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from typing import Any

from langchain_core.messages import ToolMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple

from agent_factory.state.channels import is_ephemeral, is_single, random_id
from agent_factory.state.history import MAY_HAVE_RUN, error_result, last_turn, unanswered_calls
from agent_factory.state.schema import ENGINE_KEYS
from agent_factory.topology.model import Phase
from agent_factory.topology.topology import Topology
from agent_factory.upstream import (
    NO_TASK,
    RESUME,
    earlier_checkpoint,
    finished_writes,
    read_channels,
    read_keys,
    sent_writes,
    waiting_interrupts,
    waiting_nodes,
)

SUPERSEDED = "This call of {name} did not run: the user sent a new message instead."
"""Result of a call whose tool had not been started when the user sent a new message."""

UNFINISHED = (
    "This call of {name} has no result: the user sent a new message before it had one. "
    + MAY_HAVE_RUN
)
"""Result of each other call that was pending."""


def is_before_tools(topology: Topology, nodes: Collection[str]) -> bool:
    """Return True if a thread waits between the model and the tools: no call has begun."""
    # At the tools, nobody knows: the thread is the same before the tools, and after the death of
    # the process during their run.
    between = {hook.node for hook in topology.hooks if hook.phase is Phase.AFTER_MODEL}
    return bool(nodes) and between.issuperset(nodes)


def results_of(calls: Iterable[Mapping[str, Any]], text: str) -> list[ToolMessage]:
    """Return an error for each call as its result."""
    return [error_result(call, text.format(name=call["name"]), id=random_id()) for call in calls]


def _unfinished_turn(config: RunnableConfig) -> tuple[Any, RunnableConfig, Any] | None:
    """Return the config of the writes of a turn with open calls; None without open calls."""
    if (place := earlier_checkpoint(config)) is None:
        return None
    message, tail = last_turn(read_keys(config, ["messages"]).get("messages") or ())
    is_last = all(isinstance(m, ToolMessage) for m in tail)
    return place if is_last and unanswered_calls(message, tail) else None


class TurnStart(Runnable[Any, Any]):
    """First node of a run with new input, which may leave an unfinished turn.

    LangGraph drops the updates of finished calls of the turn: their results, and the counts of
    limits. The node writes them before the input, and a result for each call waiting for a review.
    `ModelNode` completes the rest.
    """

    def __init__(
        self, topology: Topology, channels: Mapping[str, Any], node: Runnable[Any, Any]
    ) -> None:
        self._topology, self._channels, self._node = topology, channels, node

    def invoke(self, input: Any, config: Any = None, **_: Any) -> Any:
        if place := _unfinished_turn(config):
            saver, thread, options = place
            self._finish(next(saver.list(thread, **options), None), input, config)
        return self._node.invoke(input, config)

    async def ainvoke(self, input: Any, config: Any = None, **_: Any) -> Any:
        await self._afinish(input, config)
        return await self._node.ainvoke(input, config)

    async def astream(self, input: Any, config: Any = None, **_: Any) -> AsyncIterator[Any]:
        """Run as `ainvoke`, with the events of a stream for callbacks."""
        await self._afinish(input, config)
        async for part in self._node.astream(input, config):
            yield part

    async def _afinish(self, input: Any, config: RunnableConfig) -> None:
        if place := _unfinished_turn(config):
            saver, thread, options = place
            self._finish(await anext(saver.alist(thread, **options), None), input, config)

    def _finish(
        self, checkpoint: CheckpointTuple | None, input: Any, config: RunnableConfig
    ) -> None:
        """Write the known results of the calls of the turn at a checkpoint."""
        if checkpoint is None:
            return
        writes, values = sent_writes(config), {}
        new_values = input if isinstance(input, Mapping) else getattr(input, "__dict__", {})
        for task, key, value in finished_writes(checkpoint):
            channel = self._channels.get(key)
            if channel is None or key in ENGINE_KEYS or is_ephemeral(channel) or task == NO_TASK:
                continue
            if not is_single(channel):
                writes.append((key, value))
            elif key not in new_values:  # a channel with one value in a step
                values[key] = value
        writes.extend(values.items())
        try:
            messages = read_channels(config)["messages"]
        except Exception:  # of a reducer: it has ended the run of the calls
            writes.clear()
            messages = read_channels(config)["messages"]
        if waiting := self._waiting(checkpoint, unanswered_calls(*last_turn(messages))):
            writes.append(("messages", results_of(waiting, SUPERSEDED)))

    def _waiting(
        self, checkpoint: CheckpointTuple, calls: list[Mapping[str, Any]]
    ) -> list[Mapping[str, Any]]:
        """Return the calls that wait for a review and have not run."""
        former = self._topology.former_nodes
        nodes = [former.get(node, node) for node in waiting_nodes(checkpoint, latest=True)]
        if is_before_tools(self._topology, nodes):
            return calls
        interrupts = waiting_interrupts(checkpoint)
        for task, channel, _ in checkpoint.pending_writes or ():
            if channel == RESUME:  # a task with an answer may have begun the call
                interrupts.pop(task, None)
        values = [interrupt.value for group in interrupts.values() for interrupt in group]
        # HumanInTheLoopMiddleware asks before the call runs. Other questions have no digest.
        ids = {v.get("tool_call_id") for v in values if isinstance(v, Mapping) and "digest" in v}
        return [call for call in calls if call["id"] in ids]
