"""What a run shows of itself: spans of layers where a tracer listens, and who may be heard.

Node hooks are nodes, and LangGraph traces nodes. Layers run inside one, so they get their spans
here, only where a tracer is attached. Models that a middleware asks are silent in the stream:
their words are not the agent's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import Token
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import (
    get_callback_manager_for_config,
    patch_config,
    var_child_runnable_config,
)
from langchain_core.tracers.base import BaseTracer
from langgraph.constants import TAG_NOSTREAM
from langgraph.types import TracePolicy

from agent_factory.hooks.base import AgentMiddleware
from agent_factory.hooks.flows import is_awaitable

_default: TracePolicy | None = None


def configure_trace_policy(policy: TracePolicy | None) -> None:
    """Set how spans of middleware are recorded where a middleware has no policy of its own.

    Process-wide: call it once, before agents are built. None goes back to recording in full.
    """
    global _default
    _default = policy


def policy_of(middleware: AgentMiddleware[Any, Any]) -> TracePolicy | None:
    """The middleware's own policy, or the process-wide one; None records in full."""
    return middleware.trace_policy or _default


def without_streaming(config: RunnableConfig | None) -> RunnableConfig:
    """A config with which models say nothing in the agent's stream."""
    config = config or {}
    tags = config.get("tags") or []
    if TAG_NOSTREAM in tags:
        return config
    return {**config, "tags": [*tags, TAG_NOSTREAM]}


def disable_streaming(config: RunnableConfig | None) -> None:
    """From here on, models called in this context say nothing in the agent's stream."""
    var_child_runnable_config.set(without_streaming(config))


class streaming_enabled:
    """Within a silenced context: what the agent's own model says is heard."""

    __slots__ = ("_token",)
    _token: Token[RunnableConfig | None] | None

    def __enter__(self) -> None:
        config = var_child_runnable_config.get()
        # A layer may call inward from a bare thread: nothing was silenced there.
        self._token = None
        if config is not None:
            self._token = var_child_runnable_config.set(_unsilenced(config))

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            var_child_runnable_config.reset(self._token)


def _unsilenced(config: RunnableConfig) -> RunnableConfig:
    tags = [tag for tag in config.get("tags") or () if tag != TAG_NOSTREAM]
    return {**config, "tags": tags}


def call_with_streaming(call: Callable[[Any], Any], value: Any) -> Any:
    """A call, in either colour, that is heard within a silenced context."""
    with streaming_enabled():
        result = call(value)
    return _awaited_aloud(result) if is_awaitable(result) else result


async def _awaited_aloud(result: Awaitable[Any]) -> Any:
    with streaming_enabled():
        return await result


def _tracers(config: RunnableConfig | None) -> list[BaseTracer]:
    callbacks = config.get("callbacks") if config else None
    return [h for h in getattr(callbacks, "handlers", ()) if isinstance(h, BaseTracer)]


def select_traced(quiet: Callable[..., Any], spanned: Callable[..., Any]) -> Callable[..., Any]:
    """One of two calls that do the same: with spans only while a tracer listens.

    It is asked once for all layers of a call: each of them costs little more than that.
    """

    def call(*args: Any) -> Any:
        tracers = _tracers(var_child_runnable_config.get())
        return (spanned if tracers else quiet)(*args)

    return call


@dataclass(frozen=True, slots=True)
class LayerSpan:
    """A layer that is a span while a tracer listens, and only itself otherwise.

    Args:
        name: The span's name, `{middleware}.{method}`.
        policy: How its input and output are recorded.
        layer: The layer, in either colour.
    """

    name: str
    policy: TracePolicy | None
    layer: Callable[[Any, Callable[[Any], Any]], Any]

    def __call__(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        config = var_child_runnable_config.get()
        if config is None or not (tracers := _tracers(config)):
            return self.layer(request, handler)  # in a thread of the layer around it, say
        # The silence is the layer's, and not of the runs that are to be heard inside.
        manager = copy(get_callback_manager_for_config(_unsilenced(config)))
        # Other listeners see nodes and models as before: a layer is news for tracers alone.
        manager.handlers = cast("list[Any]", tracers)
        span = manager.on_chain_start(
            cast("Any", None), self._recorded("process_inputs", request), name=self.name
        )
        inner = patch_config(config, callbacks=span.get_child())
        call = partial(self.layer, request, handler)
        return self._within(span, inner, call)

    def _recorded(self, side: str, value: Any) -> dict[str, Any]:
        process: Callable[[Any], Any] | None = getattr(self.policy, side, None)
        recorded = value if process is None else process(value)
        return recorded if isinstance(recorded, dict) else {"value": recorded}

    def _within(self, span: Any, config: RunnableConfig, call: Callable[[], Any]) -> Any:
        token = var_child_runnable_config.set(config)
        try:
            result = call()
        except BaseException as error:
            span.on_chain_error(error)
            raise
        finally:
            var_child_runnable_config.reset(token)
        if is_awaitable(result):
            return self._later(span, config, result)
        span.on_chain_end(self._recorded("process_outputs", result))
        return result

    async def _later(self, span: Any, config: RunnableConfig, result: Any) -> Any:
        token = var_child_runnable_config.set(config)
        try:
            value = await result
        except BaseException as error:
            span.on_chain_error(error)
            raise
        finally:
            var_child_runnable_config.reset(token)
        span.on_chain_end(self._recorded("process_outputs", value))
        return value
