"""Lasting counts in the state: also if a layer drops the result of a node, if the node fails, or if
a thread is forked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from threading import Lock
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple

from agent_factory.upstream import NO_TASK, checkpoint_of, saver_of, stores_at_exit

COUNTS: ContextVar[dict[str, Any] | None] = ContextVar("counts", default=None)
"""Counts of the current node, by the key of the state. The node adds the counts to its writes.

Each node sets the variable without a reset: LangGraph runs each task in a copy of the context.
"""

counted_keys: set[str] = set()
"""Keys of the state for `count`, which checkpoints hold."""

_counting = Lock()


def count(key: str, amount: Any, add: Callable[[Any, Any], Any]) -> bool:
    """Count in the state from inside of a node; return False where no node is known."""
    if (counts := COUNTS.get()) is None:
        return False
    with _counting:
        counts[key] = add(counts[key], amount) if key in counts else amount
    return True


def _counted() -> dict[str, Any]:
    return {key: value for key, value in (COUNTS.get() or {}).items() if key in counted_keys}


def _stores(config: RunnableConfig | None) -> BaseCheckpointSaver[Any] | None:
    """Return the saver of a failing node, if the node has counted anything."""
    if config is None or not _counted() or stores_at_exit(config):
        return None
    return saver_of(config)


def store_counts(config: RunnableConfig | None) -> None:
    """Store the counts of a node before it fails: LangGraph drops its updates."""
    if config and (saver := _stores(config)) is not None:
        place = checkpoint_of(config)
        writes = writes_of_state(saver.get_tuple(place), _counted())
        saver.put_writes(place, writes, NO_TASK)


async def astore_counts(config: RunnableConfig | None) -> None:
    """Store the counts of a node before it fails, asynchronously."""
    if config and (saver := _stores(config)) is not None:
        place = checkpoint_of(config)
        writes = writes_of_state(await saver.aget_tuple(place), _counted())
        await saver.aput_writes(place, writes, NO_TASK)


def writes_of_state(
    checkpoint: CheckpointTuple | None, counts: Mapping[str, Any]
) -> list[tuple[str, Any]]:
    """Return the writes by which a checkpoint has more counts."""
    earlier = (checkpoint and checkpoint.pending_writes) or ()
    pairs = [(name, value) for task, name, value in earlier if task == NO_TASK]
    return [*(pair for pair in pairs if not pair[0].startswith("__")), *counts.items()]


def stored_counts(
    checkpoint: CheckpointTuple, channels: Mapping[str, Any], *, is_end: bool
) -> dict[str, Any]:
    """Return the values of a checkpoint, with later counts: at the end, of any task."""
    values, writes = {**checkpoint.checkpoint["channel_values"]}, checkpoint.pending_writes or ()
    left_out = {task for task, name, _ in writes if name == "__error__" or not is_end}
    for task, name, value in writes:
        if name in counted_keys and name in channels and task not in left_out - {NO_TASK}:
            values[name] = channels[name].operator(values.get(name, type(value)()), value)
    return values
