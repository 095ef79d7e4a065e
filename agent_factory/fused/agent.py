"""FusedAgent: compiled agent whose runs take many nodes in one step."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import (
    ensure_config,
    get_callback_manager_for_config,
    merge_configs,
)
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.config import get_stream_writer
from langgraph.stream import SubgraphTransformer
from langgraph.types import Command, StateUpdate

from agent_factory.fused.events import CUSTOM, TASKS, UPDATES, VALUES, Events, EventStream, Handover
from agent_factory.fused.run import RUN, Run, run_of
from agent_factory.runtime.threads import COORDINATES, ThreadAgent
from agent_factory.runtime.tools_node import NAMESPACE_MARK
from agent_factory.state.schema import LAST_NODE
from agent_factory.upstream import (
    is_resumed,
    shows_subgraphs,
    streams_events,
    streams_messages,
)

_BETWEEN_STEPS = (
    "cache",
    "checkpointer",
    "interrupt_after_nodes",
    "interrupt_before_nodes",
    "step_timeout",
)
"""Attributes that make something happen between the steps of a run, or to each of them."""

_SHOWN_BY_STEPS = ("debug", "interrupt_after", "interrupt_before", "print_mode")
"""Options of a call that show or stop LangGraph's own steps."""

_LIVE = frozenset({"messages", "tools", CUSTOM})
"""Modes of a stream whose events come from inside of nodes."""

_MODES = _LIVE | {UPDATES, VALUES}
"""Modes of a stream that a fused run can serve; others are about LangGraph's own steps."""

HIDES_TASKS = "__agent_factory_hides_tasks"
"""Key of `configurable` for the event protocol, which asks for tasks and may not show them."""

_CHAIN_EVENTS = ("on_chain_start", "on_chain_end", "on_chain_error")

# Request only the final state; the default makes LangGraph emit every step.
_FINAL_STATE: dict[str, Any] = {"version": "v2"}


class FusedAgent(ThreadAgent):
    """Compiled agent whose runs take many nodes in one step.

    A caller sees each node as it would be hook by hook: in streams, in callbacks and traces. A run
    goes hook by hook if its caller observes LangGraph's own steps.
    """

    def invoke(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Any:
        """Run to the end."""
        own, for_state = self._ask_for_state(input, config, options)
        result = super().invoke(input, own, **for_state)
        return _in_version(result, options) if for_state is not options else result

    async def ainvoke(
        self, input: Any, config: RunnableConfig | None = None, **options: Any
    ) -> Any:
        """Run to the end, asynchronously."""
        own, for_state = self._ask_for_state(input, config, options)
        result = await super().ainvoke(input, own, **for_state)
        return _in_version(result, options) if for_state is not options else result

    def stream(
        self, input: Any, config: RunnableConfig | None = None, **options: Any
    ) -> Iterator[Any]:
        """Run and yield events."""
        own, shown = self._watch(input, config, options)
        parts = super().stream(input, own, **options)
        return parts if shown is None else shown.read(parts)

    def astream(
        self, input: Any, config: RunnableConfig | None = None, **options: Any
    ) -> AsyncIterator[Any]:
        """Run and yield events, asynchronously."""
        own, shown = self._watch(input, config, options, asynchronous=True)
        parts = super().astream(input, own, **options)
        return parts if shown is None else shown.aread(parts)

    def stream_events(
        self, input: Any, config: RunnableConfig | None = None, **options: Any
    ) -> Any:
        """Run and yield the events of the event protocol."""
        return super().stream_events(input, self._for_protocol(config, options), **options)

    def astream_events(
        self, input: Any, config: RunnableConfig | None = None, **options: Any
    ) -> Any:
        """Run and yield events in one of three versions, asynchronously."""
        return super().astream_events(input, self._for_protocol(config, options), **options)

    def bulk_update_state(
        self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        """Update the state of a thread; without `as_node`, as the last node of its last step."""
        saver, place = self.stored(config)
        stored = saver.get_tuple(place) if saver else None
        return super().bulk_update_state(config, self._by_last_node(stored, supersteps))

    async def abulk_update_state(
        self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        """Update the state of a thread, asynchronously; otherwise as `bulk_update_state`."""
        saver, place = self.stored(config)
        stored = await saver.aget_tuple(place) if saver else None
        return await super().abulk_update_state(config, self._by_last_node(stored, supersteps))

    def _by_last_node(
        self, stored: CheckpointTuple | None, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> list[list[StateUpdate]]:
        """Return updates with the name of the node that has made the last one, if it is missing."""
        made = [list(updates) for updates in supersteps]
        if stored is None or not made:
            return made
        checkpoint = stored.checkpoint
        version: Any = checkpoint["channel_versions"].get(LAST_NODE)
        seen: list[Any] = [
            seen
            for node, versions in checkpoint["versions_seen"].items()
            if node in self.nodes
            for seen in versions.values()
        ]
        if version is None or any(other >= version for other in seen):
            return made  # the last step had one node, which LangGraph finds itself
        last = checkpoint["channel_values"][LAST_NODE]
        made[0] = [
            one._replace(as_node=last) if one.as_node is None and one.values is not None else one
            for one in made[0]
        ]
        return made

    def _for_protocol(
        self, config: RunnableConfig | None, options: Mapping[str, Any]
    ) -> RunnableConfig | None:
        """Return a config that says whether the event protocol shows tasks to its caller."""
        if options.get("version") != "v3":
            return config
        made: list[Any] = [*self.stream_transformers, *(options.get("transformers") or ())]
        hidden = all(
            isinstance(one, type)
            and (
                issubclass(one, SubgraphTransformer)
                or _MODES.issuperset(getattr(one, "required_stream_modes", (TASKS,)))
            )
            for one in made
        )
        return _with_configurable(config, {HIDES_TASKS: hidden})

    def _ask_for_state(
        self, input: Any, config: RunnableConfig | None, options: dict[str, Any]
    ) -> tuple[RunnableConfig | None, dict[str, Any]]:
        """Return the config and the options of a run that only has to return the final state.

        For another run, the options are the same object.
        """
        if options.get("stream_mode", VALUES) not in (VALUES, None):
            return config, options  # `stream` is called
        own, run = self._start(input, config, options, ())
        return own, options if run is None else {**options, **_FINAL_STATE}

    def _watch(
        self,
        input: Any,
        config: RunnableConfig | None,
        options: dict[str, Any],
        *,
        asynchronous: bool = False,
    ) -> tuple[RunnableConfig | None, EventStream | None]:
        """Return the config of a run that yields events, and what reads them if nodes emit some.

        The options become those that LangGraph gets.
        """
        run = run_of(config)
        if run is not None and not run.entered:
            run.entered = True  # `invoke` calls `stream`
            return config, None
        mode = options.get("stream_mode") or self.stream_mode
        modes = [mode] if isinstance(mode, str) else list(mode)
        own, run = self._start(input, config, options, modes)
        of_nodes = {UPDATES, VALUES, TASKS}.intersection(modes)
        if run is None or not of_nodes:
            return own, None
        subgraphs = bool(options.get("subgraphs"))
        version = options.get("version", "v1")
        shown = EventStream(
            modes, single=isinstance(mode, str), subgraphs=subgraphs, version=version
        )
        keys = options.get("output_keys") or self.stream_channels_list
        if subgraphs or not _LIVE.isdisjoint(modes):
            # Events pass through LangGraph's stream, where they keep their place among the others.
            run.events = Events(of_nodes, keys, lambda event: get_stream_writer()(event))
            options["stream_mode"] = modes if CUSTOM in modes else [*modes, CUSTOM]
        elif asynchronous:
            shown.handover = Handover()
            run.events = Events(of_nodes, keys, shown.handover.offer, awaits=True)
            options["stream_mode"] = modes
        else:
            run.events, run.shows_steps = Events(of_nodes, keys, shown.early.append), True
            options["stream_mode"] = modes
        return own, shown

    def _start(
        self,
        input: Any,
        config: RunnableConfig | None,
        options: Mapping[str, Any],
        modes: Collection[str],
    ) -> tuple[RunnableConfig | None, Run | None]:
        """Return the config of a run, and the run if it is fused."""
        given, context = merge_configs(self.config, config), ensure_config()
        # LangGraph's errors depend on a config without keys of this class.
        is_inside = any(run_of(known) for known in (config, context))
        by_hook = _with_configurable(config, {RUN: None}) if is_inside else config
        if not self.has_thread(config):
            return by_hook, None
        configurable = given.get("configurable", {})
        if not any(configurable.get(key) for key in COORDINATES):
            configurable = {**context["configurable"], **configurable}
        if self._shows_steps(configurable, options, modes):
            return by_hook, None
        builder: Any = self.builder  # the AgentGraph, whose module imports this one
        namespace = configurable.get("checkpoint_ns") or ""
        depth = namespace.count(NAMESPACE_MARK) + 1 if namespace else 0
        around: RunnableConfig = {"callbacks": context.get("callbacks"), **given}
        handlers = get_callback_manager_for_config(around).handlers
        for handler in filter(streams_events, handlers):
            handler.run_inline = True  # a call in a task or a thread would cost more than the hook
        run = Run(
            entered=bool(modes),
            depth=depth,
            resumed=input is None or isinstance(input, Command) or is_resumed(configurable),
            traced=any(map(_observes_nodes, handlers)),
            messages="messages" in modes,
            named=bool(
                handlers
                or options.get("subgraphs")
                or not _LIVE.isdisjoint(modes)
                or builder.fusion.records
            ),
        )
        if not (modes or run.traced or options.get("control")):
            run.single_step = self._is_single_step(configurable.get(RUN), depth)
        return _with_configurable(config, {RUN: run}), run

    def _shows_steps(
        self, configurable: Mapping[str, Any], options: Mapping[str, Any], modes: Collection[str]
    ) -> bool:
        """Whether the caller observes LangGraph's own steps."""
        served = {*_MODES, TASKS} if configurable.get(HIDES_TASKS) else _MODES
        return bool(
            self.debug
            or any(options.get(name) for name in _SHOWN_BY_STEPS)
            or not served.issuperset(modes)
            or isinstance(options.get("output_keys"), str)
            # LangGraph shows its own steps to the caller of the graph around this one.
            or shows_subgraphs(configurable)
            # In a graph, the default mode depends on how LangGraph calls this one.
            or (modes and not options.get("stream_mode") and configurable.get("checkpoint_ns"))
        )

    def _is_single_step(self, parent: Run | None, depth: int) -> bool:
        """Whether a run that no caller observes can be a single step."""
        builder: Any = self.builder
        # A fused run of one step would misreport managed values such as `remaining_steps`.
        if builder.managed or builder.spec.node_policies:
            return False
        if any(getattr(self, name) for name in _BETWEEN_STEPS):
            return False
        return depth == 0 or (
            parent is not None and parent.single_step and parent.depth + 1 == depth
        )


def _with_configurable(config: RunnableConfig | None, values: Mapping[str, Any]) -> RunnableConfig:
    own: RunnableConfig = {**(config or {})}
    own["configurable"] = {**own.get("configurable", {}), **values}
    return own


def _observes_nodes(handler: BaseCallbackHandler) -> bool:
    """Whether a callback handler listens to nodes: tracers do, counters of tokens do not."""
    if handler.ignore_chain or streams_messages(handler):
        return False
    kind, bases = type(handler), (BaseCallbackHandler, AsyncCallbackHandler)
    return any(
        getattr(kind, name) not in [getattr(base, name) for base in bases] for name in _CHAIN_EVENTS
    )


def _in_version(result: Any, options: Mapping[str, Any]) -> Any:
    """Return the final state in the version of the output format that the caller requested."""
    if options.get("version") == "v2":
        return result
    if not result.interrupts:
        return result.value
    value = result.value if isinstance(result.value, dict) else {}
    return {**value, "__interrupt__": list(result.interrupts)}
