"""Task results: results of the tasks of flows around a run, stored next to the thread."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import iscoroutine
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import empty_checkpoint

from agent_factory.errors import PathNotSupported
from agent_factory.hooks.flows import Task, is_awaitable
from agent_factory.runtime.run_layers.thread import Calls, RunThread
from agent_factory.topology.model import Layer, Move

NAMESPACE = "around_agent"
"""Namespace of a thread's checkpoints with the results."""

_KEY = "tasks"


class TaskResults:
    """The results of the tasks of a run, by the layer and the name of the task.

    The results have a checkpoint in another namespace, and not a key of the state. So they are
    stored before the run has begun and while it waits, a run from an earlier checkpoint does not
    take over the results of a finished run, and no write changes the thread.

    Methods are generators that yield calls, for a sync or an async run.
    """

    def __init__(self, thread: RunThread, moves: Sequence[Move]) -> None:
        self._thread, self._moves = thread, moves
        inside = thread.place.get("checkpoint_ns")
        where = f"{inside}|{NAMESPACE}" if inside else NAMESPACE
        self._config: RunnableConfig = {
            "configurable": {"thread_id": thread.place.get("thread_id"), "checkpoint_ns": where}
        }
        self._version: Any = None
        self._results: dict[str, dict[str, Any]] | None = None

    def run(self, layer: Layer, task: Task, *, is_resumed: bool) -> Calls:
        """Return the stored result of a task, or call its function and store the result.

        A run that is not resumed has no results yet.
        """
        if self._results is None:
            results = (yield from self._read()) if is_resumed else {}
            for move in self._moves:
                if move.old in results:
                    results = {move.new: results[move.old], **results}
            self._results = results
        layer_results = self._results.setdefault(layer.owner, {})
        if task.name not in layer_results:
            result = yield task.function
            if is_awaitable(result):  # an async run has awaited the result
                # Python would warn of a coroutine that was never awaited.
                if iscoroutine(result):
                    result.close()
                reason = f"yielded the task {task.name!r}, which is asynchronous."
                hint = "Pass a function that is not a coroutine function, or run the agent async."
                raise PathNotSupported(layer.name, reason, hint)
            layer_results[task.name] = result
            yield from self._write(self._results)
        return layer_results[task.name]

    def keep(self, *, is_resumed: bool) -> Calls:
        """Keep the results of a paused run, and no others.

        An earlier run of the thread may have left results: a run that was paused and never resumed.
        """
        if self._results is None and not is_resumed and (yield from self._read()):
            yield from self._write({})

    def forget(self) -> Calls:
        """Remove the results: the run has ended."""
        if self._results:
            yield from self._write({})

    def _read(self) -> Calls:
        if (saver := self._thread.saver) is None:
            return {}
        checkpoint = yield from self._thread.call(saver, "get_tuple", self._config)
        if checkpoint is None:
            return {}
        self._version = checkpoint.checkpoint["channel_versions"].get(_KEY)
        return dict(checkpoint.checkpoint["channel_values"].get(_KEY, {}))

    def _write(self, results: dict[str, dict[str, Any]]) -> Calls:
        if (saver := self._thread.saver) is None:
            return
        # The saver for Postgres stores each version of a value once.
        self._version = saver.get_next_version(self._version, None)
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {_KEY: results}
        versions = checkpoint["channel_versions"] = {_KEY: self._version}
        metadata = {"source": "update", "step": 0, "parents": {}}
        yield from self._thread.call(saver, "put", self._config, checkpoint, metadata, versions)
