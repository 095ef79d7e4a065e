"""CompiledAgent: the graph of an agent, with its checks, its fused runs and its layers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing, closing, suppress
from functools import partialmethod
from operator import attrgetter
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import (
    ensure_config,
    get_callback_manager_for_config,
    merge_configs,
)
from langchain_core.runnables.graph import Graph
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.config import get_stream_writer
from langgraph.graph.state import CompiledStateGraph
from langgraph.stream import SubgraphTransformer
from langgraph.types import Command, StateUpdate

from agent_factory.counts import stored_counts, writes_of_state
from agent_factory.errors import MissingNode
from agent_factory.hooks.base import AgentMiddleware
from agent_factory.hooks.flows import Flow, arun, identity, is_awaitable, run
from agent_factory.runtime.guards import ENTRY
from agent_factory.runtime.inputs import (
    STREAM_MODES,
    check_answer,
    check_keys,
    check_threads,
    unknown_mode,
)
from agent_factory.runtime.run_layers.run import AGENT_RUN, LayeredRun
from agent_factory.runtime.run_layers.thread import LAST_WRITE
from agent_factory.runtime.step import RUN, Run, run_of
from agent_factory.runtime.tools_node import NAMESPACE_MARK
from agent_factory.runtime.unfinished_turn import TurnStart
from agent_factory.runtime.watching import (
    CUSTOM,
    TASKS,
    UPDATES,
    VALUES,
    Events,
    EventStream,
    Handover,
    Reader,
    Watch,
    observes_nodes,
)
from agent_factory.state.schema import LAST_NODE
from agent_factory.topology.model import START, TOOLS
from agent_factory.upstream import (
    NO_TASK,
    SAVER,
    current_config,
    finished_writes,
    is_nested,
    is_resumed,
    node_runnable,
    place_of_run,
    run_in_place,
    saver_of,
    shows_subgraphs,
    streams_events,
    unmark,
    waiting_nodes,
)

COORDINATES = ("thread_id", "checkpoint_ns", "checkpoint_id", "checkpoint_map")
"""Keys of a config that name a thread or a checkpoint: with one, a run has no graph around it."""

_between_steps = attrgetter(
    "cache", "checkpointer", "interrupt_after_nodes", "interrupt_before_nodes", "step_timeout"
)
"""Attributes that act between the steps of a run, or on each step."""

_SHOWN_BY_STEPS = ("debug", "interrupt_after", "interrupt_before", "print_mode")
"""Options of a call that show or stop LangGraph's own steps."""

_LIVE = frozenset({"messages", "tools", CUSTOM})
"""Modes of a stream whose events come from inside of nodes."""

_MODES = _LIVE | {UPDATES, VALUES}
"""Stream modes of a fused run; the remaining modes are about LangGraph's own steps."""

HIDES_TASKS = "__agent_factory_hides_tasks"
"""Key of `configurable` for the event protocol, which asks for tasks and may not show them."""

# Request only the final state; the default makes LangGraph emit every step.
_FINAL_STATE: dict[str, Any] = {"version": "v2"}


class CompiledAgent(CompiledStateGraph[Any, Any, Any, Any]):
    """Compiled agent: LangGraph's graph with checks, fused runs, and layers around each run.

    A fused run takes many nodes in one step. A caller sees each node as in a run hook by hook: in
    streams, in callbacks and traces. A run goes hook by hook if its caller observes LangGraph's own
    steps, and always in an agent that was built with `fused=False`.

    The input of a run is checked first. LangGraph would end a run at once, without an error, if the
    thread waits at a node that the graph does not have, or for nothing. LangGraph would drop keys
    of the input that no schema has. The error for a missing `thread_id` gets a note.

    LangGraph's `invoke`, `ainvoke` and the event protocols call `stream` and `astream`.
    """

    builder: Any  # the AgentGraph; the module of that class imports this module

    def __deepcopy__(self, memo: Any) -> CompiledAgent:
        """Return a copy with the same middleware, tools and services: a budget stays one budget."""
        return self.copy()

    def invoke(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Any:
        """Run to the end."""
        run_config, for_state = self._ask_for_state(input, config, options)
        result = super().invoke(input, run_config, **for_state)
        return _in_version(result, options) if for_state is not options else result

    async def ainvoke(
        self, input: Any, config: RunnableConfig | None = None, **options: Any
    ) -> Any:
        """Run to the end, asynchronously."""
        run_config, for_state = self._ask_for_state(input, config, options)
        result = await super().ainvoke(input, run_config, **for_state)
        return _in_version(result, options) if for_state is not options else result

    def stream(
        self, input: Any, config: RunnableConfig | None = None, **options: Any
    ) -> Iterator[Any]:
        """Run and yield events."""
        input, config = self._admitted(input, config)
        run = self._stream_in_layers if self.builder.spec.run_layers else self._stream
        return run(input, config, options)

    def astream(
        self, input: Any, config: RunnableConfig | None = None, **options: Any
    ) -> AsyncIterator[Any]:
        """Run and yield events, asynchronously."""
        input, config = self._admitted(input, config)
        run = self._astream_in_layers if self.builder.spec.run_layers else self._astream
        return run(input, config, options)

    def stream_events(
        self, input: Any, config: RunnableConfig | None = None, **options: Any
    ) -> Any:
        """Run and yield the events of the event protocol."""
        input, config = self._admitted(input, config)
        return super().stream_events(input, self._for_protocol(config, options), **options)

    def astream_events(
        self, input: Any, config: RunnableConfig | None = None, **options: Any
    ) -> Any:
        """Run and yield events in one of three versions, asynchronously."""
        input, config = self._admitted(input, config)
        return super().astream_events(input, self._for_protocol(config, options), **options)

    def bulk_update_state(
        self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        """Update the state of a thread; without `as_node`, as the last node of its last step.

        Results of finished calls of a turn that waits or has failed are kept.
        """
        updated: RunnableConfig = run(self._update("", config, supersteps), identity)
        return updated

    async def abulk_update_state(
        self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        """Update the state of a thread, asynchronously; otherwise as `bulk_update_state`."""
        return await arun(self._update("a", config, supersteps), identity)

    def _update(
        self, prefix: str, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> Flow[Any]:
        """Yield the results of LangGraph's methods and of the saver's."""
        guards = self.builder.guards
        steps = [*map(list, supersteps)] if guards is None else guards.steps(supersteps)
        update: Callable[..., Any] = getattr(super(), f"{prefix}bulk_update_state")
        saver, place = self.stored(config)
        where: dict[str, Any] = {**place["configurable"]}
        # LangGraph passes updates for an agent inside on to that agent.
        if saver is None or (where.get("checkpoint_ns") and not saver_of(config)):
            return (yield update(config, steps))
        checkpoint = yield (get_tuple := getattr(saver, f"{prefix}get_tuple"))(place)
        names = {updates[0].as_node for updates in steps[:1] if updates}
        writes: list[tuple[str, Any]] = []
        if (
            checkpoint is not None
            and names
            and names <= {None, *self.nodes}
            and TOOLS in waiting_nodes(checkpoint, latest=False)
        ):
            writes = [(channel, value) for _, channel, value in finished_writes(checkpoint)]
        if writes and where.pop("checkpoint_id", None):
            # An earlier checkpoint begins a branch, in which all calls of the turn run.
            newest = yield get_tuple({"configurable": where})
            writes = writes if newest.checkpoint["id"] == checkpoint.checkpoint["id"] else []
        if writes:
            # LangGraph would drop them. The node before the tools leads to the other calls.
            node = self.builder.spec.topology.loop_exit
            # Updates that cannot be merged have ended the run with this error, and are dropped.
            with suppress(Exception):
                finished: Any = Command(update=writes)
                config = yield update(config, [[StateUpdate(finished, node)]])
            checkpoint = yield get_tuple(config)
            if len(steps[0]) == 1 and steps[0][0].as_node is None:
                steps[0] = [steps[0][0]._replace(as_node=node)]
        return (yield update(config, self._by_last_node(checkpoint, steps)))

    # Entries of a thread and of its events: only values that the guards admit

    def admit(self, input: Any) -> tuple[Any, Exception | None]:
        """Return the input of a run in the form that its guards admit, and the error of a guard."""
        guards = self.builder.guards
        return (input, None) if guards is None else guards.admit(input)

    def _admitted(
        self, input: Any, config: RunnableConfig | None
    ) -> tuple[Any, RunnableConfig | None]:
        # A caller may write any record: a review counts if the agent itself has asked. Answers
        # alone bring no messages.
        if getattr(input, "update", input) is not None and self.builder.spec.topology.guards:
            input, _ = ENTRY.admit(input)
        guards = self.builder.guards
        return (input, config) if guards is None else guards.input(input, config)

    def _by_last_node(
        self, checkpoint_tuple: CheckpointTuple | None, steps: list[list[StateUpdate]]
    ) -> list[list[StateUpdate]]:
        """Return updates with the name of the node of the last update, if the name is missing."""
        if checkpoint_tuple is None or not steps or self.builder.fusion is None:
            return steps
        checkpoint = checkpoint_tuple.checkpoint
        version: Any = checkpoint["channel_versions"].get(LAST_NODE)
        seen_by_nodes = (checkpoint["versions_seen"].get(node, {}) for node in self.nodes)
        others = (other for versions in seen_by_nodes for other in versions.values())
        if version is None or any(other >= version for other in others):
            return steps  # the last step had one node, and LangGraph finds the node itself
        last = checkpoint["channel_values"][LAST_NODE]
        steps[0] = [
            update._replace(as_node=last)
            if update.as_node is None and update.values is not None
            else update
            for update in steps[0]
        ]
        return steps

    def get_graph(self, config: RunnableConfig | None = None, **options: Any) -> Graph:
        """Return the graph to draw, without nodes that no edge reaches."""
        graph = super().get_graph(config, **options)
        for node in (*self.builder.spec.topology.former_nodes, LAST_WRITE):
            if node in graph.nodes:
                graph.remove_node(graph.nodes[node])
        return graph

    # Layers around a run

    def _stream_in_layers(
        self, input: Any, config: RunnableConfig | None, options: dict[str, Any]
    ) -> Iterator[Any]:
        """Run inside the flows `around_agent` of the middleware, and yield events."""
        run = LayeredRun(self, input, config, options, asynchronous=False)
        steps = run.steps()
        advance, value = steps.send, None
        while True:
            try:
                call = advance(value)
            except StopIteration:
                yield from run.view.take()
                return
            try:
                value, advance = None, steps.send
                if call is not AGENT_RUN:
                    value = call()
                    continue
                yield from run.view.take()
                # Once more, since a layer may have changed the input.
                input, config = self._admitted(run.input, run.config)
                parts: Any = self._stream(input, config, {**run.options})
                # If the caller stops reading, the run ends now, and not when this is collected.
                with closing(parts):
                    for part in parts:
                        yield from run.view.see(part)
            except BaseException as error:
                value, advance = run.raised(error), steps.throw

    async def _astream_in_layers(
        self, input: Any, config: RunnableConfig | None, options: dict[str, Any]
    ) -> AsyncIterator[Any]:
        """Run inside the flows `around_agent`, and yield events, asynchronously."""
        run = LayeredRun(self, input, config, options, asynchronous=True)
        steps = run.steps()
        advance, value = steps.send, None
        while True:
            try:
                call = advance(value)
            except StopIteration:
                for part in run.view.take():
                    yield part
                return
            try:
                value, advance = None, steps.send
                if call is not AGENT_RUN:
                    value = call()
                    value = await value if is_awaitable(value) else value
                    continue
                for part in run.view.take():
                    yield part
                input, config = self._admitted(run.input, run.config)
                parts: Any = self._astream(input, config, {**run.options})
                # If the caller stops reading, the run ends before this generator does.
                async with aclosing(parts):
                    async for part in parts:
                        for visible_part in run.view.see(part):
                            yield visible_part
            except BaseException as error:
                value, advance = run.raised(error), steps.throw

    # A run inside of them

    def _stream(
        self,
        input: Any,
        config: RunnableConfig | None,
        options: dict[str, Any],
        *,
        asynchronous: bool = False,
    ) -> Any:
        """Run, without the layers around a run, and yield events, synchronously or not."""
        config, event_stream = self._watch(input, config, options, asynchronous=asynchronous)
        stream: Any = super().astream if asynchronous else super().stream
        stored: Any = self._astream_stored if asynchronous else self._stream_stored
        if self.has_thread(config) and (check := self._to_check(input, config)):
            parts = stored(input, *check, options)
        elif self.checkpointer or SAVER in (config or {}).get("configurable", ()):
            parts = stored(input, None, None, config, options)
        else:
            parts = stream(input, config, **options)
        if event_stream is None:
            return parts
        return event_stream.aread(parts) if asynchronous else event_stream.read(parts)

    _astream = partialmethod(_stream, asynchronous=True)

    def _stream_stored(
        self,
        input: Any,
        saver: BaseCheckpointSaver[Any] | None,
        place: RunnableConfig | None,
        config: RunnableConfig | None,
        options: dict[str, Any],
    ) -> Iterator[Any]:
        if place is not None:
            checkpoint = saver.get_tuple(place) if saver else None
            self.check_start(input, checkpoint, place)
            if saver and checkpoint and (end := self._end_of_fork(place)):
                saver.put_writes(place, *self._counted_since(checkpoint, saver.get_tuple(end)))
        if not isinstance(input, Command | None):
            self._keep_turns()
        try:
            yield from super().stream(input, config, **options)
        except Exception as error:
            self._explain(error, config)
            raise

    async def _astream_stored(
        self,
        input: Any,
        saver: BaseCheckpointSaver[Any] | None,
        place: RunnableConfig | None,
        config: RunnableConfig | None,
        options: dict[str, Any],
    ) -> AsyncIterator[Any]:
        if place is not None:
            checkpoint = await saver.aget_tuple(place) if saver else None
            self.check_start(input, checkpoint, place)
            if saver and checkpoint and (end := self._end_of_fork(place)):
                newest = await saver.aget_tuple(end)
                await saver.aput_writes(place, *self._counted_since(checkpoint, newest))
        if not isinstance(input, Command | None):
            self._keep_turns()
        events: Any = super().astream(input, config, **options)
        try:
            async with aclosing(events):
                async for event in events:
                    yield event
        except Exception as error:
            self._explain(error, config)
            raise

    def _explain(self, error: Exception, config: RunnableConfig | None) -> None:
        """Give the error of a run its usual form, and a note if the run names no thread."""
        unmark(error)
        # LangGraph raises a ValueError if the config has no keys at all, and savers a KeyError.
        is_about_thread = isinstance(error, KeyError | ValueError) and "thread_id" in str(error)
        if is_about_thread and not self.has_thread(config):
            error.add_note(
                "The agent has a checkpointer, so each run needs the name of its thread. Write "
                'agent.invoke(..., {"configurable": {"thread_id": "1"}}).'
            )

    def _keep_turns(self) -> None:
        """Keep the writes of calls of an unfinished turn, in runs with a new message."""
        start = self.nodes[START]
        if TOOLS in self.nodes and not isinstance(start.node, TurnStart):
            topology, node = self.builder.spec.topology, node_runnable(start)
            run_in_place(start, TurnStart(topology, self.channels, node))

    # The input of a run

    def has_thread(self, config: RunnableConfig | None) -> bool:
        """Return True if a run needs no `thread_id`, or has one in its config or in the context."""
        if not self.checkpointer or "thread_id" in (config or {}).get("configurable", ()):
            return True
        return "thread_id" in ensure_config(merge_configs(self.config, config))["configurable"]

    def effective_configurable(self, config: RunnableConfig | None) -> dict[str, Any]:
        """Return the `configurable` of a run, with the keys of a graph around the run."""
        effective: Any = merge_configs(self.config, config)
        values: dict[str, Any] = effective.get("configurable", {})
        if any(values.get(key) for key in COORDINATES):
            return values
        return {**(current_config.get() or {}).get("configurable", {}), **values}

    def stored(
        self, config: RunnableConfig
    ) -> tuple[BaseCheckpointSaver[Any] | None, RunnableConfig]:
        """Return the saver of a thread, and where the thread lies."""
        saver = saver_of(config) or self.checkpointer
        place = merge_configs(self.config, config)
        return (saver if isinstance(saver, BaseCheckpointSaver) else None), place

    def missing_nodes(
        self, checkpoint: CheckpointTuple | None, *, latest: bool = True
    ) -> list[str]:
        """Return the nodes that a stored thread waits at and this agent does not have."""
        waiting = () if checkpoint is None else waiting_nodes(checkpoint, latest=latest)
        return [node for node in waiting if node not in self.nodes]

    def missing_node_error(self, thread_id: str | None, missing: Collection[str]) -> MissingNode:
        """Return the error for a thread that waits at missing nodes."""
        new_names = {move.old: move.new for move in self.builder.spec.topology.moved}
        hints = []
        for node in missing:
            owner, _, phase = node.rpartition(".")
            if owner in new_names:
                hints.append(f"{owner} was moved to {new_names[owner]}, which has no {phase} hook.")
            elif owner:
                example = f"create_agent(..., moved={{{owner!r}: ...}})"
                hints.append(f"Pass {example} if {owner} was renamed.")
        hints.append("Send a new message with review.add_input(...) to go on without it.")
        return MissingNode(thread_id, list(missing), " ".join(hints))

    def _to_check(
        self, input: Any, config: RunnableConfig | None
    ) -> tuple[BaseCheckpointSaver[Any] | None, RunnableConfig, RunnableConfig] | None:
        """Return the saver and the config of a thread to check, and the config of the run.

        None for a run with new input of known keys: such a run reads the thread once only.
        """
        call_values: Any = (config or {}).get("configurable", {})
        context: Any = (current_config.get() or {}).get("configurable", {})
        resumes = input is None or (isinstance(input, Command) and not input.goto)
        # Layers around a run have checked the keys already.
        has_unknown_keys = self.has_unknown_keys(input) and not self.builder.spec.run_layers
        forks = bool(call_values.get("checkpoint_id"))
        # Before the configs are merged, which takes time: most runs have nothing to check.
        if not (
            resumes
            or has_unknown_keys
            or forks
            or any(is_resumed(keys) for keys in (call_values, context) if keys)
        ):
            return None
        configurable = self.effective_configurable(config)
        # A graph around this agent passes its state, in which unknown keys are ordinary.
        has_unknown_keys = has_unknown_keys and not is_nested(configurable)
        if not (resumes or has_unknown_keys or forks or is_resumed(configurable)):
            return None
        saver = saver_of({"configurable": configurable}) or self.checkpointer
        if self.checkpointer is False or not isinstance(saver, BaseCheckpointSaver):
            saver = None
            if not has_unknown_keys:
                return None
        place, again = place_of_run(configurable, stateful=self.checkpointer is True)
        return saver, place, {**(config or {}), "configurable": {**call_values, **again}}

    def _end_of_fork(self, place: RunnableConfig) -> RunnableConfig | None:
        """Return the end of the thread of a run that begins at an earlier checkpoint; else None.

        Only if a middleware counts events of a thread: the end is read for the counts alone.
        """
        where: dict[str, Any] = {**place["configurable"]}
        if not where.pop("checkpoint_id", None) or where.get("checkpoint_ns"):
            return None
        members, default = self.builder.spec.middleware, AgentMiddleware.counted_since
        has_counts = any(type(member).counted_since is not default for member in members)
        return {"configurable": where} if has_counts else None

    def _counted_since(
        self, checkpoint: CheckpointTuple, newest: CheckpointTuple | None
    ) -> tuple[list[tuple[str, Any]], str]:
        """Return the update of a checkpoint by which a fork has the counts of its thread."""
        before = stored_counts(checkpoint, self.channels, is_end=False)
        now = stored_counts(newest or checkpoint, self.channels, is_end=True)
        counts: dict[str, Any] = {}
        for member in self.builder.spec.middleware:
            for key, count in member.counted_since(before, now).items():
                # Several middleware may count under a key, each by its name.
                counts[key] = {**counts.get(key, {}), **count} if isinstance(count, dict) else count
        counts = {key: count for key, count in counts.items() if count}
        return writes_of_state(checkpoint, counts), NO_TASK

    def has_unknown_keys(self, input: Any) -> bool:
        """Return True if an input has keys that no schema of the agent has."""
        return isinstance(input, dict) and not input.keys() <= self.channels.keys()

    def check_start(
        self, input: Any, checkpoint: CheckpointTuple | None, place: RunnableConfig
    ) -> None:
        """Check the input of a run, and the nodes at which its thread waits.

        Raises:
            MissingNode: The thread is resumed, and waits at a node that this agent does not have.
            UnknownInput: The input has a key that no schema has and that is likely a mistake.
            NothingPending: An answer was passed, and the thread waits for nothing.
            UnknownCall: An answer names an interrupt that does not wait.
            NoThread: An answer was passed, and the thread does not exist.
        """
        where: dict[str, Any] = place["configurable"]
        nested = bool(where.get("checkpoint_ns"))
        if nested or not isinstance(input, dict):
            latest = "checkpoint_id" not in where
            if missing := self.missing_nodes(checkpoint, latest=latest):
                raise self.missing_node_error(str(where["thread_id"]), missing)
        if nested:
            return
        schema = self.builder.schemas[self.builder.input_schema]
        check_keys(input, self.channels, schema, checkpoint)
        check_answer(input, checkpoint, where)

    # The observers of a run

    def _for_protocol(
        self, config: RunnableConfig | None, options: Mapping[str, Any]
    ) -> RunnableConfig | None:
        """Return a config with a mark if the event protocol shows tasks to its caller."""
        if self.builder.fusion is None or options.get("version") != "v3":
            return config
        transformers: list[Any] = [*self.stream_transformers, *(options.get("transformers") or ())]
        # The modes that a transformer needs are unknown before its function has made it.
        hidden = all(
            isinstance(transformer, type)
            and (
                issubclass(transformer, SubgraphTransformer)
                or _MODES.issuperset(getattr(transformer, "required_stream_modes", (TASKS,)))
            )
            for transformer in transformers
        )
        return _with_configurable(config, {HIDES_TASKS: hidden})

    def _ask_for_state(
        self, input: Any, config: RunnableConfig | None, options: dict[str, Any]
    ) -> tuple[RunnableConfig | None, dict[str, Any]]:
        """Return the config and the options of a run for the final state alone.

        For another run, the options are the same object.
        """
        if self.builder.fusion is None or options.get("stream_mode", VALUES) not in (VALUES, None):
            return config, options  # `stream` is called
        config, run = self._start(input, config, options)
        return config, options if run is None else {**options, **_FINAL_STATE}

    def _watch(
        self,
        input: Any,
        config: RunnableConfig | None,
        options: dict[str, Any],
        *,
        asynchronous: bool = False,
    ) -> tuple[RunnableConfig | None, EventStream | None]:
        """Return the config of a run that yields events, and the reader of the events of nodes.

        The options become the options for LangGraph.
        """
        run = run_of(config)
        if run is not None and not run.in_graph:
            run.in_graph = True  # `invoke` calls `stream`
            return config, None
        mode = options.get("stream_mode") or self.stream_mode
        modes = [mode] if isinstance(mode, str) else list(mode)
        if not STREAM_MODES.issuperset(modes):
            raise unknown_mode(modes)
        subgraphs, version = bool(options.get("subgraphs")), options.get("version", "v1")
        in_stream = subgraphs or not _LIVE.isdisjoint(modes)
        if in_stream and not asynchronous:
            # Also with the limit of the run around, whose tool streams this agent.
            check_threads(ensure_config(merge_configs(self.config, config)))
        if self.builder.fusion is None:
            return _by_hook(config), None
        event_stream = EventStream(
            modes, single=isinstance(mode, str), subgraphs=subgraphs, version=version
        )
        of_nodes = {UPDATES, VALUES, TASKS}.intersection(modes)
        keys = options.get("output_keys") or self.stream_channels_list
        if in_stream:
            # Events pass through LangGraph's stream, which keeps the order of all events.
            events = Events(of_nodes, keys, lambda event: get_stream_writer()(event))
            event_stream.reader = Reader(asynchronous=asynchronous)
        elif asynchronous:
            event_stream.handover = Handover()
            events = Events(of_nodes, keys, event_stream.handover.offer, awaits=True)
        else:
            events = Events(of_nodes, keys, event_stream.early.append, late=True)
        config, run = self._start(
            input, config, options, modes, events if of_nodes else None, event_stream.reader
        )
        if run is None or not (of_nodes or run.watch.reader):
            return config, None
        # LangGraph's stream writer drops events unless the caller asks for the mode.
        options["stream_mode"] = [*modes, CUSTOM] if in_stream and CUSTOM not in modes else modes
        return config, event_stream

    def _start(
        self,
        input: Any,
        config: RunnableConfig | None,
        options: Mapping[str, Any],
        modes: Collection[str] = (),
        events: Events | None = None,
        reader: Reader | None = None,
    ) -> tuple[RunnableConfig | None, Run | None]:
        """Return the config of a run, and the run if it is fused."""
        settings, context = merge_configs(self.config, config), ensure_config()
        if self.builder.fusion is None or not self.has_thread(config):
            return _by_hook(config), None
        configurable = settings.get("configurable", {})
        if not any(map(configurable.get, COORDINATES)):
            configurable = {**context["configurable"], **configurable}
        if self._shows_steps(configurable, options, modes):
            return _by_hook(config), None
        all_settings: Any = {"callbacks": context.get("callbacks"), **settings}
        handlers = get_callback_manager_for_config(all_settings).handlers
        for handler in filter(streams_events, handlers):
            handler.run_inline = True  # a call in a task or a thread would cost more than the hook
        namespace = configurable.get("checkpoint_ns") or ""
        depth = namespace.count(NAMESPACE_MARK) + 1 if namespace else 0
        # A caller that leaves a stream ends the run at the next step, unless the run itself waits
        # for the caller. The event protocol finds the calls of agents by LangGraph's tasks.
        waits = reader is not None or (events is not None and events.awaits)
        in_steps = (modes and not waits) or TASKS in modes or options.get("control")
        single_step = not in_steps and self._is_single_step(configurable.get(RUN), depth)
        watch = Watch(
            is_traced=any(map(observes_nodes, handlers)),
            messages="messages" in modes,
            shows_names=bool(handlers or options.get("subgraphs") or not _LIVE.isdisjoint(modes)),
            events=events,
            reader=reader if single_step else None,
        )
        run = Run(
            watch,
            depth,
            single_step,
            in_graph=bool(modes),
            resumes=input is None or isinstance(input, Command) or is_resumed(configurable),
        )
        return _with_configurable(config, {RUN: run}), run

    def _shows_steps(
        self, configurable: Mapping[str, Any], options: Mapping[str, Any], modes: Collection[str]
    ) -> bool:
        """Return True if the caller observes LangGraph's own steps."""
        available_modes = {*_MODES, TASKS} if configurable.get(HIDES_TASKS) else _MODES
        return bool(
            self.debug
            or any(map(options.get, _SHOWN_BY_STEPS))
            or not available_modes.issuperset(modes)
            or isinstance(options.get("output_keys"), str)
            # LangGraph shows its own steps to the caller of the graph around this agent.
            or shows_subgraphs(configurable)
            # In a graph, the default mode depends on LangGraph's way to call this agent.
            or (modes and not options.get("stream_mode") and configurable.get("checkpoint_ns"))
        )

    def _is_single_step(self, parent: Run | None, depth: int) -> bool:
        """Return True if a run that no caller observes can be a single step."""
        # A fused run of one step would misreport managed values such as `remaining_steps`.
        if self.builder.managed or self.builder.spec.nodes["node_policies"]:
            return False
        if any(_between_steps(self)):
            return False
        return depth == 0 or (
            parent is not None and parent.single_step and parent.depth + 1 == depth
        )


def _by_hook(config: RunnableConfig | None) -> RunnableConfig | None:
    """Return the config of a run hook by hook, without the run of an agent around."""
    # LangGraph's errors depend on a config without keys of this class.
    is_inside = any(map(run_of, (config, current_config.get())))
    return _with_configurable(config, {RUN: None}) if is_inside else config


def _with_configurable(config: RunnableConfig | None, values: Mapping[str, Any]) -> RunnableConfig:
    merged: RunnableConfig = {**(config or {})}
    merged["configurable"] = {**merged.get("configurable", {}), **values}
    return merged


def _in_version(result: Any, options: Mapping[str, Any]) -> Any:
    """Return the final state in the version of the output format that the caller requested."""
    if options.get("version") == "v2":
        return result
    if not result.interrupts:
        return result.value
    value = result.value if isinstance(result.value, dict) else {}
    return {**value, "__interrupt__": list(result.interrupts)}
