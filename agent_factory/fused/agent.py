"""FusedAgent: compiled agent whose runs are fused when no caller observes individual steps."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import (
    ensure_config,
    get_callback_manager_for_config,
    merge_configs,
)
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command

from agent_factory.fused.step import RUN, Run
from agent_factory.runtime.threads import ThreadAgent
from agent_factory.runtime.tools_node import NAMESPACE_MARK

_SHARED = (
    "cache",
    "cache_policy",
    "checkpointer",
    "interrupt_after_nodes",
    "interrupt_before_nodes",
    "name",
    "output_channels",
    "retry_policy",
    "step_timeout",
    "store",
    "stream_channels",
)
"""Attributes that a server may set on a compiled agent. They apply to fused runs too."""

_BETWEEN_STEPS = (
    "cache",
    "checkpointer",
    "interrupt_after_nodes",
    "interrupt_before_nodes",
    "step_timeout",
)
"""Attributes that make something happen between the steps of a run, or to each of them."""

_OBSERVING = ("debug", "interrupt_after", "interrupt_before", "print_mode", "subgraphs")
"""Options of a call that show or stop individual steps."""

_CHAIN_EVENTS = ("on_chain_start", "on_chain_end", "on_chain_error")

# Request only the final state; the default makes LangGraph emit every step.
_FINAL_STATE: dict[str, Any] = {"version": "v2"}


class FusedAgent(ThreadAgent):
    """Compiled agent that runs fused when no caller observes individual steps.

    It holds two graphs with the same nodes and channels: one with a step for each hook, and one
    with fused steps. A thread can change between them at each of its checkpoints. Drawings, states
    and manual updates are those of the graph with a step for each hook.
    """

    def __init__(
        self, *, fused_graph: CompiledStateGraph[Any, Any, Any, Any], **arguments: Any
    ) -> None:
        super().__init__(**arguments)
        self.fused_graph = fused_graph

    def invoke(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Any:
        """Run to the end; fused, unless the call or a callback observes individual steps."""
        if (fused := self._fused_config(input, config, options)) is None:
            return super().invoke(input, config, **options)
        result = self._fused_graph().invoke(input, fused, **{**options, **_FINAL_STATE})
        return _in_version(result, options)

    async def ainvoke(
        self, input: Any, config: RunnableConfig | None = None, **options: Any
    ) -> Any:
        """Run to the end, asynchronously; otherwise as `invoke`."""
        if (fused := self._fused_config(input, config, options)) is None:
            return await super().ainvoke(input, config, **options)
        result = await self._fused_graph().ainvoke(input, fused, **{**options, **_FINAL_STATE})
        return _in_version(result, options)

    def stream(
        self, input: Any, config: RunnableConfig | None = None, **options: Any
    ) -> Iterator[Any]:
        """Run and yield events; fused if only custom events are requested."""
        if (fused := self._fused_stream_config(input, config, options)) is None:
            return super().stream(input, config, **options)
        return self._fused_graph().stream(input, fused, **options)

    def astream(
        self, input: Any, config: RunnableConfig | None = None, **options: Any
    ) -> AsyncIterator[Any]:
        """Run and yield events, asynchronously; otherwise as `stream`."""
        if (fused := self._fused_stream_config(input, config, options)) is None:
            return super().astream(input, config, **options)
        return self._fused_graph().astream(input, fused, **options)

    def _fused_graph(self) -> CompiledStateGraph[Any, Any, Any, Any]:
        """Return the graph of the fused runs, with what has been set on this one since."""
        changed = {
            name: getattr(self, name)
            for name in _SHARED
            if getattr(self, name) is not getattr(self.fused_graph, name)
        }
        return self.fused_graph.copy(changed) if changed else self.fused_graph

    def _fused_stream_config(
        self, input: Any, config: RunnableConfig | None, options: Mapping[str, Any]
    ) -> RunnableConfig | None:
        modes = options.get("stream_mode")
        if modes != "custom" and modes != ["custom"]:
            return None
        return self._fused_config(input, config, {**options, "stream_mode": None})

    def _fused_config(
        self, input: Any, config: RunnableConfig | None, options: Mapping[str, Any]
    ) -> RunnableConfig | None:
        """Return the config of a fused run; None if a caller may observe individual steps."""
        if self.debug or any(options.get(name) for name in _OBSERVING):
            return None
        if options.get("stream_mode", "values") not in ("values", None):
            return None
        if not self.has_thread(config):
            return None  # LangGraph's error depends on a config without keys of this class
        merged = merge_configs(self.config, config)
        context = ensure_config()
        configurable = {**context["configurable"], **merged.get("configurable", {})}
        namespace = configurable.get("checkpoint_ns") or ""
        depth = namespace.count(NAMESPACE_MARK) + 1 if namespace else 0
        parent: Any = configurable.get(RUN)
        if namespace and not (isinstance(parent, Run) and parent.depth + 1 == depth):
            return None  # a caller may observe the graph around it, with its subgraphs
        callbacks: RunnableConfig = {"callbacks": context.get("callbacks"), **merged}
        if any(map(_observes_nodes, get_callback_manager_for_config(callbacks).handlers)):
            return None
        # A fused run of one step would misreport managed values such as `remaining_steps`.
        stores_steps = any(getattr(self, name) for name in _BETWEEN_STEPS)
        builder: Any = self.builder  # the AgentGraph, whose module imports this one
        steps_matter = stores_steps or builder.managed or builder.spec.node_policies
        single_step = not (steps_matter or options.get("control"))
        run = Run(
            depth=depth,
            resumed=input is None or isinstance(input, Command),
            single_step=single_step and (not namespace or parent.single_step),
        )
        own: RunnableConfig = {"configurable": {RUN: run}}
        return merge_configs(merged, own)


def _observes_nodes(handler: BaseCallbackHandler) -> bool:
    """Whether a callback handler listens to nodes: tracers do, counters of tokens do not."""
    if handler.ignore_chain:
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
