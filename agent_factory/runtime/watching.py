"""Observation of the nodes in a step: events of streams, spans for callbacks and tracers.

LangGraph emits events for its own steps. A step of several nodes emits the events of each node
itself, as in a run hook by hook, and marks the events of LangGraph that they replace. Spans are as
LangGraph makes them for tasks.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from functools import partial
from inspect import iscoroutinefunction
from typing import Any, NamedTuple

from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from langchain_core.callbacks.manager import handle_event
from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import run_in_executor, set_config_context
from langchain_core.tracers import LangChainTracer
from langgraph.config import get_stream_writer
from langgraph.types import Command

from agent_factory.state.updates import Pair, Preview
from agent_factory.upstream import current_config, streams, streams_events

# Events

UPDATES, VALUES, CUSTOM, TASKS = "updates", "values", "custom", "tasks"

REPLACEMENT = object()
"""Data of an event that replaces LangGraph's next event in its mode, which is not shown."""

MARK = object()
"""Data of an event that is not shown: a reader at this event has read all events before."""

PATIENCE = 0.1
"""Seconds for which a step waits for the reader of a stream; after them, LangGraph waits."""


class Event(NamedTuple):
    """An event of a stream, in the namespace of its graph."""

    namespace: tuple[str, ...]
    mode: str
    data: Any


@dataclass(frozen=True, slots=True)
class Events:
    """The events of each node for the caller of a stream."""

    modes: Collection[str]
    keys: Sequence[str]  # of the state, in the order in which they are shown
    emit: Callable[[Event], Any]
    awaits: bool = False  # `emit` is asynchronous: the run waits until the caller took the event
    late: bool = False  # the caller sees the events of a step after the step

    def of_node(
        self,
        namespace: tuple[str, ...],
        node: str,
        task: str,
        pairs: Sequence[Pair],
        preview: Preview | None,
    ) -> Iterator[Event]:
        """Yield the events of a node that has written `pairs`.

        The state after the node is `preview`; None after a failure of the edge.
        """
        visible = [(key, value) for key, value in pairs if key in self.keys]
        if UPDATES in self.modes:
            update: Any = dict(visible) or None
            # As in LangGraph's events: a list, if a key is written several times.
            if len(visible) > 1 and max(Counter(key for key, _ in visible).values()) > 1:
                update = [{key: value} for key, value in visible]
            yield Event(namespace, UPDATES, {node: update})
        if TASKS in self.modes:
            # For the event protocol: graphs called by the node have ended.
            task_result: Any = {
                "id": task,
                "name": node,
                "error": None,
                "result": {},
                "interrupts": [],
            }
            yield Event(namespace, TASKS, task_result)
        # LangGraph emits no values after a step without writes to shown keys.
        if VALUES in self.modes and visible and preview:
            state = preview.state()
            values = {key: state[key] for key in self.keys if key in state}
            yield Event(namespace, VALUES, values)

    def of_step(self, namespace: tuple[str, ...], preview: Preview) -> Iterator[Event]:
        """Yield the events in place of LangGraph's for the step with the end `preview`."""
        if UPDATES in self.modes:
            yield Event(namespace, UPDATES, REPLACEMENT)
        has_writes = any(key in self.keys for key, _ in preview.writes())
        if VALUES in self.modes and has_writes:
            yield Event(namespace, VALUES, REPLACEMENT)


class EventStream:
    """A stream of events in the form for its caller."""

    def __init__(
        self, modes: Collection[str], *, single: bool, subgraphs: bool, version: str
    ) -> None:
        self._modes = modes
        self._single = single  # the caller has asked for one mode, and gets no names of modes
        self._subgraphs = subgraphs
        self._version = version
        self._replacements: dict[str, tuple[str, ...]] = {}
        self.early: deque[Event] = deque()  # events for the caller before LangGraph's next event
        self.handover: Handover | None = None  # passes the events of an asynchronous run
        self.reader: Reader | None = None  # for whom the steps of the run wait

    def read(self, parts: Iterator[Any]) -> Iterator[Any]:
        """Yield the caller's view of LangGraph's parts."""
        try:
            for part in parts:
                yield from self._early_parts()
                yield from self._shown(part)
        # Events of nodes come before an error of a node, as in a run hook by hook. Not in
        # `finally`: a closed generator may not yield.
        except Exception:
            yield from self._early_parts()
            raise
        finally:
            if self.reader is not None:
                self.reader.leave()
        yield from self._early_parts()  # LangGraph may have nothing to show for the last step

    async def aread(self, parts: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Yield the caller's view of LangGraph's parts, and of parts handed over by nodes."""
        merged: Any = parts if self.handover is None else self.handover.merge(parts)
        try:
            async with aclosing(merged):
                async for part in merged:
                    for visible_part in self._shown(part):
                        yield visible_part
        finally:
            if self.reader is not None:
                self.reader.leave()

    def _early_parts(self) -> Iterator[Any]:
        while self.early:
            yield from self._shown(self.early.popleft())

    def _shown(self, part: Any) -> Iterator[Any]:
        """Yield a part of LangGraph's stream, or an event of a node, if the caller sees it."""
        namespace, mode, data = self.read_part(part)
        if mode == CUSTOM and isinstance(data, Event):
            part, mode = data, data.mode
        if isinstance(part, Event):
            if part.data is MARK:
                assert self.reader is not None  # a step has sent the mark for the reader
                self.reader.read_on()
                return
            if part.data is REPLACEMENT:
                self._replacements[mode] = part.namespace
                return
            part = self.form(part)
        # Without `subgraphs`, parts have no namespace, and all of them are of this graph.
        elif mode in self._replacements and namespace in (None, self._replacements[mode]):
            del self._replacements[mode]
            return
        elif self._single and self._version != "v2":
            part = (namespace, data) if self._subgraphs else data
        if mode in self._modes:
            yield part

    def read_part(self, part: Any) -> tuple[tuple[str, ...] | None, str, Any]:
        """Return the namespace, the mode and the data of a part."""
        if isinstance(part, Event):
            return part
        if self._version == "v2":
            return part["ns"], part["type"], part["data"]
        namespace, mode, data = part if self._subgraphs else (None, *part)
        return namespace, mode, data

    def form(self, event: Event) -> Any:
        """Return an event in the form of LangGraph's stream."""
        namespace, mode, data = event
        if self._version == "v2":
            # Of LangGraph's parts in this version, only parts with values have the key.
            interrupts = {"interrupts": ()} if mode == VALUES else {}
            return {"type": mode, "ns": namespace, "data": data, **interrupts}
        prefix: list[Any] = [namespace] * self._subgraphs + [mode] * (not self._single)
        return (*prefix, data) if prefix else data


class Reader:
    """The caller of a stream: a step waits for the caller before it begins with the next step.

    LangGraph runs the step in a thread or a task, and the caller reads the events meanwhile.
    """

    def __init__(self, *, asynchronous: bool) -> None:
        self._is_here: Any = asyncio.Event() if asynchronous else threading.Event()
        self._has_left = False

    def wait(self) -> bool:
        """Return True once the reader has read all events; False if the reader is slow or gone."""
        self._mark()
        self._is_here.wait(PATIENCE)
        return self._stays()

    async def await_(self) -> bool:
        """Wait as `wait`, in an asynchronous run."""
        self._mark()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._is_here.wait(), PATIENCE)
        return self._stays()

    def read_on(self) -> None:
        """Tell the step that the reader has come to the mark."""
        self._is_here.set()

    def leave(self) -> None:
        """Tell the step that nobody reads the stream any more."""
        self._has_left = True
        self._is_here.set()

    def _mark(self) -> None:
        self._is_here.clear()
        get_stream_writer()(Event((), CUSTOM, MARK))

    def _stays(self) -> bool:
        return self._is_here.is_set() and not self._has_left


_END = object()


class Handover:
    """Hands the parts of a run to the caller, one by one: the run waits until a part was taken."""

    _next_part: asyncio.Future[Any]
    _receipt: asyncio.Future[None] | None = None

    async def offer(self, part: Any) -> None:
        """Hand over a part, and wait until the caller asks for the next one."""
        self._receipt = asyncio.get_running_loop().create_future()
        self._next_part.set_result(part)
        await self._receipt

    async def merge(self, parts: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Yield these parts, and the parts that are offered meanwhile."""
        make_future = asyncio.get_running_loop().create_future
        self._next_part = make_future()
        run = asyncio.create_task(self._offer_all(parts))
        try:
            while (part := await self._next_part) is not _END:
                yield part
                self._next_part = make_future()
                if self._receipt is not None:
                    self._receipt.set_result(None)
            await run
        finally:
            # The run ends with its stream: nobody would wait for its tasks later.
            run.cancel()
            with suppress(asyncio.CancelledError):
                await run

    async def _offer_all(self, parts: Any) -> None:
        try:
            async with aclosing(parts):
                async for part in parts:
                    await self.offer(part)
        # Also after an error, which `merge` raises: `merge` waits for a part.
        finally:
            if not self._next_part.done():
                self._next_part.set_result(_END)


# Observers of a run


@dataclass(frozen=True, slots=True)
class Watch:
    """Observers of the nodes of a run."""

    is_traced: bool = False  # callbacks listen to nodes, so each node is a traced run
    messages: bool = False  # LangGraph streams the messages of results of nodes
    shows_names: bool = False  # callbacks or streams show under which node something happens
    events: Events | None = None  # events of nodes for the caller of a stream
    reader: Reader | None = None  # of a stream, if the run waits for the reader

    @property
    def nodes(self) -> bool:
        """True if somebody observes single nodes."""
        return self.is_traced or self.messages or self.events is not None


# Spans

Take = Callable[[Any], Any]
"""Takes the result of a node, and returns the result for handlers."""


def observes_nodes(handler: BaseCallbackHandler) -> bool:
    """Return True if a callback handler listens to nodes: tracers do, counters of tokens do not."""
    if handler.ignore_chain or streams(handler, "messages"):
        return False
    kind, bases = type(handler), (BaseCallbackHandler, AsyncCallbackHandler)
    events = ("on_chain_start", "on_chain_end", "on_chain_error")
    return any(getattr(kind, name) not in [getattr(b, name) for b in bases] for name in events)


def call_in_span(node: Any, name: str, input: Any, config: RunnableConfig, take: Take) -> None:
    """Run a node in a span, in which `take` gets the result."""
    span = _manager(config).on_chain_start(None, input, name=name)
    try:
        node_config = _inside(config, span)
        # `set_config_context` sets LangSmith's context as well, in a copy, which takes longer.
        if _traces_functions(span.handlers):
            with set_config_context(node_config) as context:
                result = context.run(node.invoke, input, node_config)
        else:
            current_config.set(node_config)
            result = node.invoke(input, node_config)
        outputs = take(result)
    # As in LangGraph, also for interrupts and cancellations: tracers keep a span open without an
    # end.
    except BaseException as error:
        span.on_chain_error(error)
        raise
    span.on_chain_end(outputs)


class AsyncSpans:
    """The spans of the nodes of one step in an asynchronous run.

    LangChain calls a synchronous handler in a thread. Here the end of a span and the start of the
    next span share a call.
    """

    def __init__(self) -> None:
        self._late: list[Callable[[], Any]] = []  # calls that handlers in threads have not got yet

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
        """Run a node in a span, in which `take` gets the result."""
        manager = _manager(config)
        handlers = manager.handlers
        # The handlers that LangChain would call in a thread, and wait, at each event.
        in_threads = [
            handler
            for handler in handlers
            if not handler.run_inline and not iscoroutinefunction(handler.on_chain_start)
        ]
        manager.handlers = [handler for handler in handlers if handler not in in_threads]
        span = await manager.on_chain_start(None, input, name=name)
        # The same id for all handlers: the calls of the node name it as their parent. Tracers that
        # instrument LangChain add themselves to each new manager, so none is made.
        ids: Any = {"parent_run_id": manager.parent_run_id, "tags": manager.tags}
        tell = partial(handle_event, in_threads, run_id=span.run_id, **ids)
        if in_threads:
            about: Any = {"metadata": manager.metadata, "name": name}
            start = partial(tell, "on_chain_start", "ignore_chain", None, input, **about)
            await self._in_thread(start)
        try:
            node_config = _inside(config, span)
            if _traces_functions(handlers):
                with set_config_context(node_config) as context:
                    result = await asyncio.create_task(
                        node.ainvoke(input, node_config), context=context
                    )
            else:
                current_config.set(node_config)
                result = await node.ainvoke(input, node_config)
            outputs = take(result)
            if streaming:
                await _stream(span.run_id, handlers, outputs)
        except BaseException as error:
            if in_threads:
                await self._in_thread(partial(tell, "on_chain_error", "ignore_chain", error))
            await span.on_chain_error(error)
            raise
        if in_threads:
            self._late.append(partial(tell, "on_chain_end", "ignore_chain", outputs))
        if span.handlers:  # the call makes a task, whether there is something to do or not
            await span.on_chain_end(outputs)

    async def finish(self) -> None:
        """Let handlers in threads learn how the last span has ended."""
        if self._late:
            await self._in_thread(lambda: None)

    async def _in_thread(self, call: Callable[[], Any]) -> Any:
        late, self._late = self._late, []
        return await run_in_executor(None, lambda: [each() for each in (*late, call)][-1])


def as_written(result: Any, *, is_streamed: bool = False) -> Any:
    """Return the result of a node with copies of messages that have no id.

    Messages get ids when they are written, which for LangGraph is after the span of the node, or
    when LangGraph's stream of messages has seen them. The stream does not look into lists of pairs.
    """
    if isinstance(result, BaseMessage):
        return result.model_copy() if result.id is None and not is_streamed else result
    if isinstance(result, list | tuple):
        return type(result)(as_written(part, is_streamed=is_streamed) for part in result)
    if isinstance(result, Command):
        is_streamed = is_streamed and not isinstance(result.update, list)
        return replace(result, update=as_written(result.update, is_streamed=is_streamed))
    if isinstance(result, dict):
        return {key: as_written(value, is_streamed=is_streamed) for key, value in result.items()}
    return result


def _manager(config: RunnableConfig) -> Any:
    """Return the callback manager of a node, which no other node has."""
    manager: Any = config["callbacks"]
    manager.add_tags(config.get("tags") or [])
    manager.add_metadata(config["metadata"])
    # LangGraph's stream of messages needs no span. It needs the messages themselves, with ids.
    manager.handlers = [handler for handler in manager.handlers if not streams(handler, "messages")]
    return manager


def _inside(config: RunnableConfig, span: Any) -> RunnableConfig:
    """Return the config for the calls of a node, with the tag that LangGraph sets."""
    return {**config, "callbacks": span.get_child("seq:step:1")}


def _traces_functions(handlers: Iterable[BaseCallbackHandler]) -> bool:
    """Return True if functions with LangSmith's `traceable` look for the span in their context."""
    return any(isinstance(handler, LangChainTracer) for handler in handlers)


async def _stream(run_id: Any, handlers: Iterable[Any], result: Any) -> None:
    """Show the result of a node to handlers that stream the items of runnables."""

    async def once() -> AsyncIterator[Any]:
        yield result

    for handler in filter(streams_events, handlers):
        async for _ in handler.tap_output_aiter(run_id, once()):
            pass
