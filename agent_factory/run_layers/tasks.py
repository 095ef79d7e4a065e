"""Task results: what the flows around a run have done once in it, stored in its thread."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from functools import partial
from inspect import iscoroutine
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple, empty_checkpoint

from agent_factory.errors import PathNotSupported
from agent_factory.hooks.flows import Task, is_awaitable
from agent_factory.topology.model import Layer, Move

NAMESPACE = "around_agent"
"""Namespace of a thread's checkpoints that holds the results."""

_KEY = "tasks"


class TaskResults:
    """The results of the tasks of a run, by the layer and the name of the task.

    They have a checkpoint of their own, in a namespace next to the thread's checkpoints, and not a
    key of the state. So they are stored before the run has begun and while it waits, a run that
    goes back to an earlier checkpoint does not take over what a finished run has done, and no
    write changes the thread.

    Methods are generators that yield calls of the saver, for a sync or an async run.
    """

    def __init__(
        self,
        saver: BaseCheckpointSaver[Any] | None,
        place: Mapping[str, Any],
        prefix: str,
        moved: Sequence[Move],
    ) -> None:
        self._saver, self._prefix = saver, prefix
        inside = place.get("checkpoint_ns")
        where = f"{inside}|{NAMESPACE}" if inside else NAMESPACE
        self._config: RunnableConfig = {
            "configurable": {"thread_id": place.get("thread_id"), "checkpoint_ns": where}
        }
        self._moved = moved
        self._version: Any = None
        self._results: dict[str, dict[str, Any]] | None = None

    def run(self, layer: Layer, task: Task, *, resumed: bool) -> Generator[Any, Any, Any]:
        """Return the stored result of a task; without one, call its function and store what it
        returns. A run that was not `resumed` has no results of its own yet."""
        if self._results is None:
            stored = (yield from self._stored()) if resumed else {}
            for move in self._moved:
                if move.old in stored:
                    stored = {move.new: stored[move.old], **stored}
            self._results = stored
        known = self._results.setdefault(layer.owner, {})
        if task.name not in known:
            result = yield task.function
            if is_awaitable(result):
                if iscoroutine(result):
                    result.close()
                reason = f"yielded the task {task.name!r}, which is asynchronous."
                hint = "Pass a function that is not a coroutine function, or run the agent async."
                raise PathNotSupported(layer.name, reason, hint)
            known[task.name] = result
            yield from self._store()
        return known[task.name]

    def pause(self, *, resumed: bool) -> Generator[Any, Any, None]:
        """Keep the results, except for those that another run of the thread has left behind."""
        if self._results is None and not resumed and (yield from self._stored()):
            self._results = {}
            yield from self._store()

    def forget(self) -> Generator[Any, Any, None]:
        """Remove the results: the run has ended."""
        if self._results:
            self._results = {}
            yield from self._store()

    def _stored(self) -> Generator[Any, Any, dict[str, dict[str, Any]]]:
        if self._saver is None:
            return {}
        method = getattr(self._saver, f"{self._prefix}get_tuple")
        stored: CheckpointTuple | None = yield partial(method, self._config)
        if stored is None:
            return {}
        self._version = stored.checkpoint["channel_versions"].get(_KEY)
        return dict(stored.checkpoint["channel_values"].get(_KEY, {}))

    def _store(self) -> Generator[Any, Any, None]:
        if self._saver is None:
            return
        self._version = version = self._saver.get_next_version(self._version, None)
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {_KEY: self._results}
        checkpoint["channel_versions"] = {_KEY: version}
        metadata: Any = {"source": "update", "step": 0, "parents": {}}
        method = getattr(self._saver, f"{self._prefix}put")
        yield partial(method, self._config, checkpoint, metadata, {_KEY: version})
