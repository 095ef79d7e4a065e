"""An agent that takes fewer steps where nobody can tell."""

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
"""What whoever serves an agent may set on it, and holds for all its runs."""

_LEAN: dict[str, Any] = {"version": "v2"}
"""How LangGraph is asked for the end of a run: otherwise it would tell of every step for that."""

_OF_CHAINS = ("on_chain_start", "on_chain_end", "on_chain_error")


class FusedAgent(CompiledStateGraph[Any, Any, Any, Any]):
    """A compiled agent whose runs go hook by hook where somebody watches, and else in fewer steps.

    Both are graphs of the same nodes and channels: a thread can go from one to the other at any
    of its checkpoints. All that shows the agent (drawings, states, updates by hand) is the graph
    that goes hook by hook.

    Args:
        quick: The graph of the fused runs.
        **parts: The parts of the graph that goes hook by hook.
    """

    def __init__(self, *, quick: CompiledStateGraph[Any, Any, Any, Any], **parts: Any) -> None:
        super().__init__(**parts)
        self.quick = quick

    @classmethod
    def of(
        cls,
        agent: CompiledStateGraph[Any, Any, Any, Any],
        quick: CompiledStateGraph[Any, Any, Any, Any],
    ) -> FusedAgent:
        """Two graphs of one agent as one: the one that goes hook by hook, and the quick one."""
        parts: dict[str, Any] = dict(vars(agent))
        parts.pop("__orig_class__", None)  # typing's own note, which no constructor takes
        return cls(quick=quick, **parts)

    def invoke(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Any:
        """Run to the end, in few steps unless somebody watches; otherwise as LangGraph's."""
        if (run := self._unwatched(input, config, options)) is None:
            return super().invoke(input, config, **options)
        return _as_asked(self._quick().invoke(input, run, **{**options, **_LEAN}), options)

    async def ainvoke(
        self, input: Any, config: RunnableConfig | None = None, **options: Any
    ) -> Any:
        """As `invoke`, awaited."""
        if (run := self._unwatched(input, config, options)) is None:
            return await super().ainvoke(input, config, **options)
        return _as_asked(await self._quick().ainvoke(input, run, **{**options, **_LEAN}), options)

    def stream(
        self, input: Any, config: RunnableConfig | None = None, **options: Any
    ) -> Iterator[Any]:
        """Run and say what happens; in few steps where only custom events are asked for."""
        if (run := self._unheard(input, config, options)) is None:
            return super().stream(input, config, **options)
        return self._quick().stream(input, run, **options)

    def astream(
        self, input: Any, config: RunnableConfig | None = None, **options: Any
    ) -> AsyncIterator[Any]:
        """As `stream`, awaited."""
        if (run := self._unheard(input, config, options)) is None:
            return super().astream(input, config, **options)
        return self._quick().astream(input, run, **options)

    def _quick(self) -> CompiledStateGraph[Any, Any, Any, Any]:
        """The graph of the fused runs, with what has been set on this one since."""
        changed = {
            name: getattr(self, name)
            for name in _SHARED
            if getattr(self, name) is not getattr(self.quick, name)
        }
        return self.quick.copy(changed) if changed else self.quick

    def _unheard(
        self, input: Any, config: RunnableConfig | None, options: Mapping[str, Any]
    ) -> RunnableConfig | None:
        modes = options.get("stream_mode")
        if modes != "custom" and modes != ["custom"]:
            return None
        return self._unwatched(input, config, {**options, "stream_mode": None})

    def _unwatched(
        self, input: Any, config: RunnableConfig | None, options: Mapping[str, Any]
    ) -> RunnableConfig | None:
        """The config of a fused run; None where somebody could tell it from one hook by hook."""
        if self.debug or any(options.get(name) for name in _WATCHING):
            return None
        if options.get("stream_mode", "values") not in ("values", None):
            return None
        merged = merge_configs(self.config, config)
        context = ensure_config()
        known = {**context["configurable"], **merged.get("configurable", {})}
        around = known.get("checkpoint_ns") or ""
        depth = around.count(NAMESPACE_MARK) + 1 if around else 0
        parent: Any = known.get(RUN)
        if around and not (isinstance(parent, Run) and parent.depth + 1 == depth):
            return None  # the graph around it may be watched, with all that is inside
        callbacks: RunnableConfig = {"callbacks": context.get("callbacks"), **merged}
        if any(map(_hears_of_nodes, get_callback_manager_for_config(callbacks).handlers)):
            return None
        run = Run(
            depth=depth,
            resumed=input is None or isinstance(input, Command),
            whole=self._is_whole(options) and (not around or parent.whole),
        )
        own: RunnableConfig = {"configurable": {RUN: run}}
        return merge_configs(merged, own)

    def _is_whole(self, options: Mapping[str, Any]) -> bool:
        """Whether nothing is kept between the steps of a run, and nobody may stop it there."""
        return not (
            any(getattr(self, name) for name in _BETWEEN)
            or options.get("control")
            # What LangGraph tells of its own steps would not be true of those it is spared.
            or self.builder.managed
        )


_BETWEEN = (
    "cache",
    "checkpointer",
    "interrupt_after_nodes",
    "interrupt_before_nodes",
    "step_timeout",
)
"""What happens between the steps of a run, or to each of them."""

_WATCHING = ("debug", "interrupt_after", "interrupt_before", "print_mode", "subgraphs")


def _hears_of_nodes(handler: BaseCallbackHandler) -> bool:
    """Whether a callback handler is told of nodes: tracers are, counters of tokens are not."""
    if handler.ignore_chain:
        return False
    kind, plain = type(handler), (BaseCallbackHandler, AsyncCallbackHandler)
    return any(
        getattr(kind, name) not in [getattr(base, name) for base in plain] for name in _OF_CHAINS
    )


def _as_asked(ended: Any, options: Mapping[str, Any]) -> Any:
    """The end of a run in the form that was asked for."""
    if options.get("version") == "v2":
        return ended
    if not ended.interrupts:
        return ended.value
    value = ended.value if isinstance(ended.value, dict) else {}
    return {**value, "__interrupt__": list(ended.interrupts)}
