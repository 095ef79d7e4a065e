"""Thread of a run: reads and writes of the layers around the run, in addition to the run's."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from functools import partial
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config, merge_configs
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.types import Command, StateUpdate

from agent_factory.upstream import (
    CLEAR_TASKS,
    is_nested,
    is_resumed,
    place_of_run,
    saver_of,
    stores_at_exit,
)

LAST_WRITE = "__last_write__"
"""Node by which the layers around a run write to its thread. The node has no edges."""

Calls = Generator[Any, Any, Any]
"""Generator that yields calls without arguments, sync or async, and gets the results."""


class RunThread:
    """The thread of one run; `saver` is None if nothing is stored.

    Methods are generators that yield calls, for a sync or an async run.
    """

    def __init__(self, agent: Any, config: RunnableConfig | None, *, asynchronous: bool) -> None:
        self._agent, self._prefix = agent, "a" if asynchronous else ""
        self.config = config
        self.configurable: dict[str, Any] = agent.effective_configurable(config)
        self.is_nested = is_nested(self.configurable)
        self.saver: BaseCheckpointSaver[Any] | None = None
        self.place: dict[str, Any] = {}
        self.stores_ends = False  # whether a checkpoint is stored when the run has finished
        if agent.checkpointer is False or not agent.has_thread(config):
            return
        saver = saver_of({"configurable": self.configurable}) or agent.checkpointer
        # True is the checkpointer of a graph around this graph, and may be missing.
        if not isinstance(saver, BaseCheckpointSaver):
            return
        # A nested graph that stores nothing before the end stores only pauses and errors.
        at_exit = self.is_nested and stores_at_exit({"configurable": self.configurable})
        self.stores_ends = not at_exit
        place, again = place_of_run(self.configurable, stateful=agent.checkpointer is True)
        self.saver, self.place = saver, place["configurable"]
        if again:  # the number of this graph in its node is counted once
            values = (config or {}).get("configurable", {})
            self.config = {**(config or {}), "configurable": {**values, **again}}

    def call(self, owner: object, method: str, *args: Any) -> Calls:
        """Call a method of the agent or the saver, in the form for the mode of the run."""
        return (yield partial(getattr(owner, f"{self._prefix}{method}"), *args))

    def read(self, input: object) -> Calls:
        """Return the StateSnapshot from which a run with this input goes on; None for a new run."""
        goes_on = input is None or isinstance(input, Command) or is_resumed(self.configurable)
        # Such keys may be meant as an answer, which depends on the thread.
        has_unknown_keys = self._agent.has_unknown_keys(input) and not self.is_nested
        if not has_unknown_keys and (self.saver is None or not goes_on):
            return None
        place: RunnableConfig = {"configurable": self.place}
        checkpoint = None
        if self.saver is not None:
            checkpoint = yield from self.call(self.saver, "get_tuple", place)
        self._agent.check_start(input, checkpoint, place)
        if checkpoint is None or not goes_on:
            return None
        config = {"configurable": {**self.configurable, **self.place}}
        return (yield from self.call(self._agent, "get_state", config))

    def write(self, updates: Sequence[Mapping[str, object]], *, ends: bool) -> Calls:
        """Write updates one after the other, and return the state.

        With `ends`, the tasks of the last step do not run any more. Writes of finished tasks of the
        step are kept.
        """
        around = ensure_config(merge_configs(self._agent.config, self.config))
        config = {
            **self.end,
            # LangGraph stores the key with each checkpoint of a run. A service finds its jobs by
            # the key.
            "metadata": around["metadata"],
        }
        steps = [StateUpdate(dict(update), LAST_WRITE) for update in updates]
        if ends:
            steps.insert(0, StateUpdate(None, CLEAR_TASKS))
        for step in steps:  # one by one: LangGraph stores the metadata with the first only
            yield from self.call(self._agent, "bulk_update_state", config, [[step]])
        snapshot = yield from self.latest()
        return dict(snapshot.values)

    def latest(self) -> Calls:
        """Return the StateSnapshot at the end of the thread."""
        return (yield from self.call(self._agent, "get_state", self.end))

    @property
    def end(self) -> RunnableConfig:
        """The end of the thread, also of a run from an earlier checkpoint."""
        place = {key: value for key, value in self.place.items() if key != "checkpoint_id"}
        return {"configurable": {**self.configurable, "checkpoint_id": None, **place}}
