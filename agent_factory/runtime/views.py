"""Views of a tool call: handlers and streams get values that have passed the agent's guards.

A tool works with data that a guard removes from its result. So each observer of the call gets a
stand-in: an object of a subclass of the observer's class, with the same state and methods that
filter their arguments. The calls of the tool, and agents inside, inherit the stand-ins.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from inspect import iscoroutinefunction
from typing import Any
from weakref import WeakKeyDictionary

from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler, BaseCallbackManager
from langchain_core.messages import AIMessageChunk
from langchain_core.messages.ai import add_ai_message_chunks
from langchain_core.outputs import ChatGenerationChunk
from langgraph.prebuilt.tool_node import ToolCallRequest

from agent_factory.hooks.guards import MessageGuard
from agent_factory.upstream import handler_variables, streams, with_stream, with_writer

Call = tuple[str, tuple[Any, ...], dict[str, Any]]
"""Name and arguments of a method of a handler."""

_EVENTS = (
    *("on_llm_start", "on_chat_model_start", "on_llm_new_token", "on_llm_end", "on_llm_error"),
    *("on_stream_event", "on_chain_start", "on_chain_end", "on_chain_error"),
    *("on_tool_start", "on_tool_end", "on_tool_error"),
    *("on_retriever_start", "on_retriever_end", "on_retriever_error"),
    *("on_text", "on_retry", "on_agent_action", "on_agent_finish", "on_custom_event"),
)

_NAMED = {name for name in _EVENTS if name.endswith("_start")} | {"on_custom_event"}
"""Events with a description or a name of the runnable as first argument."""

_VALUES = frozenset(
    {"inputs", "input_str", "messages", "prompts", "query", "documents", "outputs", "output"}
    | {"response", "error", "text", "data", "token", "chunk"}
)
"""Named arguments with inputs or outputs; others are ids, tags and metadata."""

_CONTENTS = frozenset({"input", "result", "error", "values"})
"""Keys of a task and of a checkpoint, in a stream, with values of the state."""

_DELTA_TEXTS = {"text-delta": "text", "reasoning-delta": "reasoning"}


class Views:
    """Views of the tool calls of an agent, through its guards."""

    def __init__(self, guards: Sequence[MessageGuard]) -> None:
        self._guards = guards
        self._classes: WeakKeyDictionary[type, type] = WeakKeyDictionary()

    def value(self, value: Any) -> Any:
        """Return a value in the form for observers."""
        for guard in self._guards:
            value = guard.shown(value)
        return value

    def text(self) -> _Texts:
        """Return a filter for a text in pieces."""
        return _Texts([guard.text() for guard in self._guards])

    def answer(self) -> _Answers:
        """Return a filter for an answer in chunks."""
        return _Answers([guard.answer() for guard in self._guards])

    def request(self, request: ToolCallRequest) -> ToolCallRequest:
        """Return a request whose tool is observed through the guards."""
        runtime, writer = request.runtime, request.runtime.stream_writer
        config = with_writer(runtime.config, lambda put: lambda data: put(self.value(data)))
        config = with_stream(
            config, lambda put: lambda part: put((*part[:2], self.data(*part[1:])))
        )
        # One for each handler: LangChain compares handlers of the context with handlers of the
        # config.
        stand_ins: dict[int, Any] = {}

        def stand_in(handler: BaseCallbackHandler) -> Any:
            if id(handler) not in stand_ins:
                stand_ins[id(handler)] = self.handler(handler)
            return stand_ins[id(handler)]

        if isinstance(callbacks := config.get("callbacks"), BaseCallbackManager):
            manager = callbacks.copy()
            manager.handlers = list(map(stand_in, callbacks.handlers))
            manager.inheritable_handlers = list(map(stand_in, callbacks.inheritable_handlers))
            config = {**config, "callbacks": manager}
        for variable in handler_variables():
            # Never reset: each call has its own copy of the context.
            if isinstance(handler := variable.get(), BaseCallbackHandler):
                variable.set(stand_in(handler))

        runtime = replace(
            runtime, config=config, stream_writer=lambda data: writer(self.value(data))
        )
        return replace(request, runtime=runtime)

    def handler(self, handler: BaseCallbackHandler) -> BaseCallbackHandler:
        """Return the stand-in of a handler; a stand-in of these views unchanged."""
        kind = type(handler)
        if getattr(kind, "shown_through", None) is self:
            return handler
        if kind not in self._classes:
            self._classes[kind] = self._class_of(kind)
        stand_in: Any = object.__new__(self._classes[kind])
        state = vars(handler)
        if streams(handler, "tools"):
            # The handler gives tools a function that writes to its stream, without its methods.
            state = {**state, "stream": _ToolStream(state["stream"], self)}
        stand_in.__dict__ = state
        result: BaseCallbackHandler = stand_in
        return result

    def _class_of(self, kind: type) -> type:
        """Return the class of stand-ins for a class of handlers."""
        bases = (BaseCallbackHandler, AsyncCallbackHandler)
        members: dict[str, Any] = {
            # Not in the state, which the handler shares.
            "__slots__": ("shown_streams",),
            # LangGraph's handlers are recognized by their module.
            "__module__": kind.__module__,
            "__qualname__": kind.__qualname__,
            "__doc__": kind.__doc__,
            "shown_through": self,
        }
        for name in _EVENTS:
            method = getattr(kind, name)
            is_inherited = method in [getattr(base, name, None) for base in bases]
            # The held back part of an answer is shown at the end.
            if not is_inherited or name in ("on_llm_end", "on_llm_error"):
                members[name] = _method(name, kind, self)
        if hasattr(kind, "tap_output_aiter"):
            members |= _taps(kind, self)
        return type(kind)(kind.__name__, (kind,), members)

    def calls(self, handler: Any, name: str, args: Any, kwargs: Any) -> Iterable[Call]:
        """Return the calls of a handler in place of a call of one of its methods."""
        # Stand-ins of stand-ins share the attribute. A tracer may copy itself without it.
        if not hasattr(handler, "shown_streams"):
            handler.shown_streams = {}
        streams, key = handler.shown_streams, (id(self), kwargs.get("run_id"))
        if name == "on_stream_event":
            events = streams.setdefault(key, _Events(self)).feed(*args)
            return [(name, (event,), kwargs) for event in events]
        if name == "on_llm_new_token":
            token, chunk = (*args, kwargs.pop("token", None))[0], kwargs.get("chunk")
            if isinstance(chunk, ChatGenerationChunk):
                parts = streams.setdefault(key, self.answer()).feed(chunk)
                return [_token(part, kwargs) for part in parts]
            # A model for completion, and not a chat model.
            text = streams.setdefault(key, self.text()).feed(str(token))
            return [(name, (text,), {**kwargs, "chunk": None})] if text else ()
        if name == "on_retry":
            return ()  # the argument holds the exception in a form of another package
        first = args[:1] if name in _NAMED else ()
        shown = (*first, *map(self.value, args[len(first) :]))
        options = {k: self.value(v) if k in _VALUES else v for k, v in kwargs.items()}
        held: list[Call] = []
        if name in ("on_llm_end", "on_llm_error"):
            stream = streams.pop(key, None)
            if name == "on_llm_end" and isinstance(stream, _Answers):
                place = {k: kwargs.get(k) for k in ("run_id", "parent_run_id", "tags")}
                held = [_token(chunk, place) for chunk in stream.close()]
        return [*held, (name, shown, options)]

    def data(self, mode: str, data: Any) -> Any:
        """Return the data of a part of the stream of an agent in a tool, for observers."""
        if mode not in ("tasks", "checkpoints", "debug") or not isinstance(data, dict):
            return self.value(data)
        # The event protocol finds the ends of graphs by the ids and names of tasks.
        shown = {k: self.value(data[k]) for k in _CONTENTS & data.keys()}
        if "payload" in data:
            shown["payload"] = self.data(mode, data["payload"])
        if "tasks" in data:
            shown["tasks"] = [self.data(mode, task) for task in data["tasks"]]
        return {**data, **shown}


def _token(chunk: ChatGenerationChunk, kwargs: dict[str, Any]) -> Call:
    return "on_llm_new_token", (chunk.message.content,), {**kwargs, "chunk": chunk}


def _method(name: str, kind: type, views: Views) -> Callable[..., Any]:
    """Return a method that passes filtered arguments on."""
    if iscoroutinefunction(getattr(kind, name)):

        async def asynchronous(self: Any, *args: Any, **kwargs: Any) -> None:
            for method, positional, named in views.calls(self, name, args, kwargs):
                await getattr(kind, method)(self, *positional, **named)

        return asynchronous

    def synchronous(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = None
        for method, positional, named in views.calls(self, name, args, kwargs):
            result = getattr(kind, method)(self, *positional, **named)
        return result

    return synchronous


# Items of runnables


def _taps(kind: Any, views: Views) -> dict[str, Any]:
    """Return the methods by which a handler sees the items of a runnable, and passes them on."""

    def tap_output_iter(self: Any, run_id: Any, output: Iterator[Any]) -> Iterator[Any]:
        items = _Items(views)

        def shown() -> Iterator[Any]:
            for item in output:
                yield items.feed(item)
            yield from items.close()

        for _ in kind.tap_output_iter(self, run_id, shown()):
            if items.originals:
                yield items.originals.popleft()

    async def tap_output_aiter(
        self: Any, run_id: Any, output: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        items = _Items(views)

        async def shown() -> AsyncIterator[Any]:
            async for item in output:
                yield items.feed(item)
            for rest in items.close():
                yield rest

        async for _ in kind.tap_output_aiter(self, run_id, shown()):
            if items.originals:
                yield items.originals.popleft()

    return {"tap_output_iter": tap_output_iter, "tap_output_aiter": tap_output_aiter}


class _Items:
    """Items of a runnable, with a filtered item for each."""

    def __init__(self, views: Views) -> None:
        self.originals: deque[Any] = deque()
        self._views = views
        self._filter: Any = None

    def feed(self, item: Any) -> Any:
        self.originals.append(item)
        if isinstance(item, str):
            self._filter = self._filter or self._views.text()
            return self._filter.feed(item)
        if not isinstance(item, AIMessageChunk):
            return self._views.value(item)
        self._filter = self._filter or self._views.answer()
        chunks = self._filter.feed(ChatGenerationChunk(message=item))
        if not chunks:
            return AIMessageChunk(content="" if isinstance(item.content, str) else [], id=item.id)
        return add_ai_message_chunks(*[chunk.message for chunk in chunks])

    def close(self) -> list[Any]:
        if isinstance(self._filter, _Texts):
            return [text] if (text := self._filter.close()) else []
        return [chunk.message for chunk in self._filter.close()] if self._filter else []


# Filters of all guards, in a chain


@dataclass(frozen=True, slots=True)
class _Texts:
    """Filters of a text."""

    filters: Sequence[Any]

    def feed(self, piece: str) -> str:
        for each in self.filters:
            piece = each.feed(piece)
        return piece

    def close(self) -> str:
        text = ""
        for each in self.filters:
            text = (each.feed(text) if text else "") + each.close()
        return text


@dataclass(frozen=True, slots=True)
class _Answers:
    """Filters of an answer."""

    filters: Sequence[Any]

    def feed(self, chunk: ChatGenerationChunk) -> list[ChatGenerationChunk]:
        chunks = [chunk]
        for each in self.filters:
            chunks = [part for whole in chunks for part in each.feed(whole)]
        return chunks

    def close(self) -> list[ChatGenerationChunk]:
        chunks: list[ChatGenerationChunk] = []
        for each in self.filters:
            fed = [part for chunk in chunks for part in each.feed(chunk)]
            chunks = [*fed, *each.close()]
        return chunks


class _Events:
    """Events of one answer in the event protocol: texts in pieces, calls at their end."""

    def __init__(self, views: Views) -> None:
        self._views = views
        self._texts: dict[tuple[int, str], _Texts] = {}

    def feed(self, event: Any) -> Iterator[Any]:
        kind, index = event.get("event"), event.get("index")
        if kind == "content-block-delta":
            delta = event["delta"]
            if (key := _DELTA_TEXTS.get(delta.get("type"))) is not None:
                text = self._texts.setdefault((index, delta["type"]), self._views.text())
                if piece := text.feed(delta[key]):
                    yield {**event, "delta": {**delta, key: piece}}
            elif delta.get("type") == "data-delta":
                yield event
            return  # the finished block has the arguments of a call
        if kind == "content-block-finish":
            for at, type_ in [place for place in self._texts if place[0] == index]:
                if rest := self._texts.pop((at, type_)).close():
                    delta = {"type": type_, _DELTA_TEXTS[type_]: rest}
                    yield {"event": "content-block-delta", "index": index, "delta": delta}
        if kind in ("content-block-start", "content-block-finish"):
            block = event["content"]
            # The type and the ids stay.
            names = {k: block[k] for k in ("type", "id", "name", "index") if k in block}
            yield {**event, "content": {**self._views.value(block), **names}}
        elif kind == "message-finish" and "additional_kwargs" in event:
            extras = self._views.value(event["additional_kwargs"])
            yield {**event, "additional_kwargs": extras}
        else:
            yield event


class _ToolStream:
    """Stream of LangGraph's mode "tools": the output of a tool, piece by piece."""

    def __init__(self, put: Callable[[Any], None], views: Views) -> None:
        self._put, self._views = put, views
        self._texts: dict[str, _Texts] = {}

    def __call__(self, part: Any) -> None:
        namespace, mode, data = part
        call = data["tool_call_id"]
        if data["event"] != "tool-output-delta":
            if (text := self._texts.pop(call, None)) is not None and (rest := text.close()):
                delta = {"event": "tool-output-delta", "tool_call_id": call, "delta": rest}
                self._put((namespace, mode, delta))
            self._put(part)
        elif not isinstance(data["delta"], str):
            self._put((namespace, mode, {**data, "delta": self._views.value(data["delta"])}))
        elif piece := self._texts.setdefault(call, self._views.text()).feed(data["delta"]):
            self._put((namespace, mode, {**data, "delta": piece}))
