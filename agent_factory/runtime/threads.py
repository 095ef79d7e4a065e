"""ThreadAgent: compiled agent that checks what a run is started with."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import aclosing, contextmanager
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config, merge_configs
from langchain_core.runnables.graph import Graph
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command

from agent_factory.errors import MissingNode
from agent_factory.runtime.inputs import STREAM_MODES, check_answer, check_keys, unknown_mode
from agent_factory.state.schema import ENGINE_KEYS
from agent_factory.upstream import (
    current_config,
    is_nested,
    is_resumed,
    place_of_run,
    saver_of,
    waiting_nodes,
)

COORDINATES = ("thread_id", "checkpoint_ns", "checkpoint_id", "checkpoint_map")
"""Keys of a config that name a thread or a place in it: with one, a run has no graph around it."""


LAST_WRITE = "__last_write__"
"""Node by which the layers around a run write to its thread. No edge leads to it, or from it."""


class ThreadAgent(CompiledStateGraph[Any, Any, Any, Any]):
    """Compiled agent whose inputs and threads are checked before a run starts.

    LangGraph would end a run at once, without an error, if the thread waits at a node that the
    graph does not have, or for nothing. It would drop keys of the input that no schema has. Its
    error about a missing `thread_id` gets a note.

    LangGraph's `invoke`, `ainvoke` and the event protocols call `stream` and `astream`.
    """

    def stream(
        self, input: Any, config: RunnableConfig | None = None, **options: Any
    ) -> Iterator[Any]:
        """Run and yield events."""
        check_modes(options.get("stream_mode"))
        if not self.has_thread(config):
            return _explained(super().stream(input, config, **options))
        if (checked := self._to_check(input, config)) is None:
            return super().stream(input, config, **options)
        return self._stream_checked(input, *checked, options)

    def astream(
        self, input: Any, config: RunnableConfig | None = None, **options: Any
    ) -> AsyncIterator[Any]:
        """Run and yield events, asynchronously."""
        check_modes(options.get("stream_mode"))
        if not self.has_thread(config):
            return _aexplained(super().astream(input, config, **options))
        if (checked := self._to_check(input, config)) is None:
            return super().astream(input, config, **options)
        return self._astream_checked(input, *checked, options)

    def get_graph(self, config: RunnableConfig | None = None, **options: Any) -> Graph:
        """Return the graph to draw, without the nodes that no edge leads to."""
        graph = super().get_graph(config, **options)
        builder: Any = self.builder  # the AgentGraph, whose module imports this one
        for node in (*builder.spec.topology.former_nodes, LAST_WRITE):
            if node in graph.nodes:
                graph.remove_node(graph.nodes[node])
        return graph

    def has_thread(self, config: RunnableConfig | None) -> bool:
        """Whether a run needs no `thread_id`, or has one in its config or in the context."""
        if not self.checkpointer or "thread_id" in (config or {}).get("configurable", ()):
            return True
        return "thread_id" in ensure_config(merge_configs(self.config, config))["configurable"]

    def effective_configurable(self, config: RunnableConfig | None) -> dict[str, Any]:
        """Return the `configurable` of a run: its own, and that of the graph around it if any."""
        given: Any = merge_configs(self.config, config)
        own: dict[str, Any] = given.get("configurable", {})
        if any(own.get(key) for key in COORDINATES):
            return own
        return {**(current_config.get() or {}).get("configurable", {}), **own}

    def stored(
        self, config: RunnableConfig
    ) -> tuple[BaseCheckpointSaver[Any] | None, RunnableConfig]:
        """Return the saver of a thread, and where the thread lies."""
        saver = saver_of(config) or self.checkpointer
        place = merge_configs(self.config, config)
        return (saver if isinstance(saver, BaseCheckpointSaver) else None), place

    def missing_nodes(self, stored: CheckpointTuple | None, *, latest: bool = True) -> list[str]:
        """Return the nodes that a stored thread waits at, and this agent does not have."""
        waiting = () if stored is None else waiting_nodes(stored, latest=latest)
        return [node for node in waiting if node not in self.nodes]

    def missing_node_error(self, thread_id: str | None, missing: Collection[str]) -> MissingNode:
        """Return the error for a thread that waits at nodes which this agent does not have."""
        builder: Any = self.builder  # the AgentGraph, whose module imports this one
        moved = {move.old: move.new for move in builder.spec.topology.moved}
        hints = []
        for node in missing:
            owner, _, phase = node.rpartition(".")
            if owner in moved:
                hints.append(f"{owner} was moved to {moved[owner]}, which has no {phase} hook.")
            elif owner:
                renamed = f"create_agent(..., moved={{{owner!r}: ...}})"
                hints.append(f"Pass {renamed} if {owner} was renamed.")
        hints.append("Send a new message with review.add_input(...) to go on without it.")
        return MissingNode(thread_id, list(missing), " ".join(hints))

    def _to_check(
        self, input: Any, config: RunnableConfig | None
    ) -> tuple[BaseCheckpointSaver[Any] | None, RunnableConfig, RunnableConfig] | None:
        """Return the saver and the place of a thread to check, and the config of the run.

        None for a run with new input of which all keys are known: it reads the thread once only.
        """
        own: Any = (config or {}).get("configurable", {})
        context: Any = (current_config.get() or {}).get("configurable", {})
        resumes = input is None or (isinstance(input, Command) and not input.goto)
        builder: Any = self.builder  # the AgentGraph, whose module imports this one
        unknown = self.has_unknown_keys(input) and not builder.spec.run_layers  # they checked it
        if not (resumes or unknown or any(is_resumed(keys) for keys in (own, context) if keys)):
            return None
        configurable = self.effective_configurable(config)
        # A graph around this one passes on its state, in which other keys are ordinary.
        unknown = unknown and not is_nested(configurable)
        if not (resumes or unknown or is_resumed(configurable)):
            return None
        saver = saver_of({"configurable": configurable}) or self.checkpointer
        if self.checkpointer is False or not isinstance(saver, BaseCheckpointSaver):
            saver = None
            if not unknown:
                return None
        place, again = place_of_run(configurable, stateful=self.checkpointer is True)
        return saver, place, {**(config or {}), "configurable": {**own, **again}}

    def _stream_checked(
        self,
        input: Any,
        saver: BaseCheckpointSaver[Any] | None,
        place: RunnableConfig,
        config: RunnableConfig,
        options: dict[str, Any],
    ) -> Iterator[Any]:
        self.check_start(input, saver.get_tuple(place) if saver else None, place)
        yield from super().stream(input, config, **options)

    async def _astream_checked(
        self,
        input: Any,
        saver: BaseCheckpointSaver[Any] | None,
        place: RunnableConfig,
        config: RunnableConfig,
        options: dict[str, Any],
    ) -> AsyncIterator[Any]:
        self.check_start(input, await saver.aget_tuple(place) if saver else None, place)
        events: Any = super().astream(input, config, **options)
        async with aclosing(events):
            async for event in events:
                yield event

    def has_unknown_keys(self, input: Any) -> bool:
        """Whether an input has keys that no schema of the agent has."""
        return isinstance(input, dict) and not input.keys() <= self.channels.keys()

    def check_start(
        self, input: Any, stored: CheckpointTuple | None, place: RunnableConfig
    ) -> None:
        """Check what a run is started with, and where its thread waits.

        Raises:
            MissingNode: The thread is resumed, and waits at a node that this agent does not have.
            UnknownInput: The input has a key that no schema has, and that is likely a mistake.
            NothingPending: An answer was passed, and the thread waits for nothing.
            UnknownCall: An answer names an interrupt that does not wait.
            NoThread: An answer was passed, and the thread does not exist.
        """
        where: dict[str, Any] = place["configurable"]
        nested = bool(where.get("checkpoint_ns"))
        if nested or not isinstance(input, dict):
            latest = "checkpoint_id" not in where
            if missing := self.missing_nodes(stored, latest=latest):
                raise self.missing_node_error(str(where["thread_id"]), missing)
        if nested:
            return
        graph: Any = self.builder
        keys = [key for key in graph.schemas[graph.input_schema] if key not in ENGINE_KEYS]
        check_keys(input, self.channels, keys, stored)
        check_answer(input, stored, where)


def check_modes(modes: Any) -> None:
    """Raise an ArgumentError if one of the modes of a stream does not exist."""
    if modes is None or (isinstance(modes, str) and modes in STREAM_MODES):
        return
    if not STREAM_MODES.issuperset(modes := [modes] if isinstance(modes, str) else modes):
        raise unknown_mode(modes)


def _explained(events: Iterator[Any]) -> Iterator[Any]:
    with _thread_note():
        yield from events


async def _aexplained(events: Any) -> AsyncIterator[Any]:
    with _thread_note():
        async with aclosing(events):
            async for event in events:
                yield event


@contextmanager
def _thread_note() -> Iterator[None]:
    """Add a note to an error that a missing `thread_id` causes, in LangGraph or in a saver."""
    try:
        yield
    except (KeyError, ValueError) as error:
        if "thread_id" in str(error):
            error.add_note(
                "The agent has a checkpointer, so each run needs the name of its thread. Write "
                'agent.invoke(..., {"configurable": {"thread_id": "1"}}).'
            )
        raise
