"""Counts in the state that stay: if a layer drops the result of a node, if the node fails, if a
thread is forked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from threading import Lock
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple

from agent_factory.upstream import NO_TASK, checkpoint_of, saver_of, send_of, stores_at_exit

Pair = tuple[str, Any]

counted_keys: set[str] = set()
"""Keys of the state that `count` writes."""

_counting = Lock()


def count(
    config: RunnableConfig | None, key: str, amount: Any, add: Callable[[Any, Any], Any]
) -> bool:
    """Count in the state from inside of the node of a config; return False outside of a node."""
    send, writes = send_of(config)
    if send is None:
        return False
    with _counting:
        # A stream shows two writes to a key as two updates, so they are added here.
        for place, (name, earlier) in enumerate(writes or ()):
            if name == key:
                writes[place] = key, add(earlier, amount)
                return True
        send([(key, amount)])
    return True


def counts_in(writes: Iterable[Pair]) -> list[Pair]:
    """Return the writes that `count` has made."""
    return [pair for pair in writes if pair[0] in counted_keys]


def counts_of(config: RunnableConfig | None) -> dict[str, Any]:
    """Return what the node of a config has counted so far."""
    with _counting:
        return dict(counts_in(send_of(config)[1] or ()))


def _stores(config: RunnableConfig | None) -> BaseCheckpointSaver[Any] | None:
    """Return the saver of a node that fails, if it has counted something."""
    if config is None or not counts_of(config) or stores_at_exit(config):
        return None
    return saver_of(config)


def store_counts(config: RunnableConfig | None) -> None:
    """Store what a node has counted that fails: LangGraph drops what it has written."""
    if config and (saver := _stores(config)) is not None:
        place = checkpoint_of(config)
        writes = writes_of_state(saver.get_tuple(place), counts_of(config))
        saver.put_writes(place, writes, NO_TASK)


async def astore_counts(config: RunnableConfig | None) -> None:
    """Store what a node has counted that fails, asynchronously."""
    if config and (saver := _stores(config)) is not None:
        place = checkpoint_of(config)
        writes = writes_of_state(await saver.aget_tuple(place), counts_of(config))
        await saver.aput_writes(place, writes, NO_TASK)


def writes_of_state(checkpoint: CheckpointTuple | None, counts: Mapping[str, Any]) -> list[Pair]:
    """Return the writes by which a checkpoint has more counts."""
    earlier = (checkpoint and checkpoint.pending_writes) or ()
    pairs = [(name, value) for task, name, value in earlier if task == NO_TASK]
    return [*(pair for pair in pairs if not pair[0].startswith("__")), *counts.items()]


def stored_counts(
    checkpoint: CheckpointTuple, channels: Mapping[str, Any], *, is_end: bool
) -> dict[str, Any]:
    """Return the values of a checkpoint, with what was counted after it: at the end by any task."""
    values, writes = {**checkpoint.checkpoint["channel_values"]}, checkpoint.pending_writes or ()
    left_out = {task for task, name, _ in writes if name == "__error__" or not is_end}
    for task, name, value in writes:
        if name in counted_keys and name in channels and task not in left_out - {NO_TASK}:
            values[name] = channels[name].operator(values.get(name, type(value)()), value)
    return values
