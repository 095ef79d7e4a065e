"""Spans: what callbacks learn about the nodes of a fused step, as LangGraph says it of a task."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import replace
from functools import lru_cache, partial
from inspect import iscoroutinefunction
from typing import Any, cast

from langchain_core.callbacks import BaseCallbackHandler, CallbackManager
from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import (
    run_in_executor,
    set_config_context,
)
from langchain_core.tracers import LangChainTracer
from langgraph.types import Command

from agent_factory.upstream import current_config, streams_events, streams_messages

Take = Callable[[Any], Any]
"""Makes something of the result of a node, and returns what handlers see of it."""

_CHILD = "seq:step:1"
"""Tag of what a node calls, as LangGraph sets it."""

_NOTHING: Any = None
"""LangGraph's nodes have no serialized form."""


def call_in_span(node: Any, name: str, input: Any, config: RunnableConfig, take: Take) -> None:
    """Run a node in a span, in which `take` gets its result."""
    span = _manager(config).on_chain_start(_NOTHING, input, name=name)
    try:
        own = _inside(config, span)
        if _traces_functions(span.handlers):
            with set_config_context(own) as context:
                result = context.run(node.invoke, input, own)
        else:
            current_config.set(own)
            result = node.invoke(input, own)
        recorded = take(result)
    except BaseException as error:
        span.on_chain_error(error)
        raise
    span.on_chain_end(recorded)


class AsyncSpans:
    """The spans of the nodes of one step in an asynchronous run.

    LangChain calls a synchronous handler in a thread. Here the end of one span and the start of the
    next share a call.
    """

    def __init__(self) -> None:
        self._late: list[Callable[[], Any]] = []  # what handlers in threads have yet to learn

    async def call(
        self,
        node: Any,
        name: str,
        input: Any,
        config: RunnableConfig,
        take: Take,
        *,
        streaming: bool,
    ) -> None:
        """Run a node in a span, in which `take` gets its result."""
        manager = _manager(config)
        handlers = manager.handlers
        in_threads = [
            one
            for one in handlers
            if not one.run_inline and _runs_in_thread(type(one))  # type: ignore[arg-type]
        ]
        manager.handlers = [one for one in handlers if one not in in_threads]
        span = await manager.on_chain_start(_NOTHING, input, name=name)
        other: Any = None
        if in_threads:
            manager_there = CallbackManager(
                in_threads,
                parent_run_id=manager.parent_run_id,
                tags=manager.tags,
                metadata=manager.metadata,
            )
            start = partial(
                manager_there.on_chain_start, _NOTHING, input, name=name, run_id=span.run_id
            )
            other = await self._in_thread(start)
        try:
            own = _inside(config, span)
            if _traces_functions(handlers):
                with set_config_context(own) as context:
                    result = await asyncio.create_task(node.ainvoke(input, own), context=context)
            else:
                current_config.set(own)
                result = await node.ainvoke(input, own)
            recorded = take(result)
            if streaming:
                await _stream(span.run_id, handlers, recorded)
        except BaseException as error:
            if other is not None:
                await self._in_thread(partial(other.on_chain_error, error))
            await span.on_chain_error(error)
            raise
        if other is not None:
            self._late.append(partial(other.on_chain_end, recorded))
        if span.handlers:  # the call makes a task, whether there is something to do or not
            await span.on_chain_end(recorded)

    async def finish(self) -> None:
        """Let handlers in threads learn how the last span has ended."""
        if self._late:
            await self._in_thread(lambda: None)

    async def _in_thread(self, call: Callable[[], Any]) -> Any:
        late, self._late = self._late, []
        return await run_in_executor(None, lambda: [each() for each in (*late, call)][-1])


def as_written(result: Any, *, streamed: bool = False) -> Any:
    """Return the result of a node with copies of messages that have no id.

    They get one when they are written, which for LangGraph is after the span of the node, or when
    its stream of messages has seen them. That does not look into lists of pairs.
    """
    if isinstance(result, BaseMessage):
        return result.model_copy() if result.id is None and not streamed else result
    if isinstance(result, list | tuple):
        return type(result)(as_written(part, streamed=streamed) for part in result)
    if isinstance(result, Command):
        streamed = streamed and not isinstance(result.update, list)
        return replace(result, update=as_written(result.update, streamed=streamed))
    if isinstance(result, dict):
        return {key: as_written(value, streamed=streamed) for key, value in result.items()}
    return result


def _manager(config: RunnableConfig) -> Any:
    """Return the callback manager of a node, which is its own."""
    manager: Any = config["callbacks"]
    manager.add_tags(config.get("tags") or [])
    manager.add_metadata(config["metadata"])
    # LangGraph's stream of messages needs no span. It needs the messages themselves, with ids.
    manager.handlers = [one for one in manager.handlers if not streams_messages(one)]
    return manager


def _inside(config: RunnableConfig, span: Any) -> RunnableConfig:
    """Return the config of what a node calls."""
    own: Any = {**config, "callbacks": span.get_child(_CHILD)}
    own.pop("run_name", None)
    own.pop("run_id", None)
    return cast("RunnableConfig", own)


@lru_cache
def _runs_in_thread(kind: type[BaseCallbackHandler]) -> bool:
    """Whether LangChain calls handlers of a class in a thread, in an asynchronous run."""
    return not iscoroutinefunction(kind.on_chain_start)


def _traces_functions(handlers: Iterable[BaseCallbackHandler]) -> bool:
    """Whether functions with LangSmith's `traceable` look for the span in their context."""
    return any(isinstance(handler, LangChainTracer) for handler in handlers)


async def _stream(run_id: Any, handlers: Iterable[Any], result: Any) -> None:
    """Show the result of a node to the handlers that stream what runnables yield."""

    async def once() -> AsyncIterator[Any]:
        yield result

    for handler in filter(streams_events, handlers):
        async for _ in handler.tap_output_aiter(run_id, once()):
            pass
