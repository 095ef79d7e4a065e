"""A chat model whose answers nobody hears before they were looked at.

It stands in the place of the model it asks. That one answers to it alone, without callbacks: what
listens to the run (a stream, events, tracers, handlers) hears this one, in whose answers the
personal data is already replaced, token by token where they are streamed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.base import RunnableBinding
from langchain_core.tools import BaseTool
from langgraph.constants import TAG_NOSTREAM
from langsmith import tracing_context

from ._redacted_messages import Guard
from ._redacted_stream import AnswerStream

_UNHEARD: RunnableConfig = {"callbacks": [], "tags": [TAG_NOSTREAM]}


def guarded(model: Any, guard: Guard) -> Any:
    """The model with a guard at its mouth; itself if it has this one already."""
    if isinstance(model, RunnableBinding):
        return RunnableBinding(
            bound=guarded(model.bound, guard),
            kwargs=model.kwargs,
            config=model.config,
            config_factories=model.config_factories,
        )
    if any(known == guard for known in _guards_of(model)):
        return model
    own = ("cache", "callbacks", "metadata", "tags", "verbose")
    if not isinstance(model, BaseChatModel):
        return GuardedChatModel(inner=model, guard=guard, cache=False)
    heard = {name: getattr(model, name) for name in own[1:]}
    # Handlers that were given to the model itself would hear it as well.
    inner = model.model_copy(update={"callbacks": None}) if model.callbacks else model
    return GuardedChatModel(inner=inner, guard=guard, cache=False, profile=model.profile, **heard)


def _guards_of(model: Any) -> Iterator[Guard]:
    while isinstance(model, GuardedChatModel):
        yield model.guard
        model = model.inner


class GuardedChatModel(BaseChatModel):
    """Asks another chat model, and applies a guard to what it says.

    Whatever else is asked of it, its name, its profile, how it counts tokens, is asked of the
    other model.

    Args:
        inner: The model that answers.
        guard: What is applied to the answers.
    """

    inner: Any
    guard: Any

    def __getattr__(self, name: str) -> Any:
        # Only what pydantic and this class do not have themselves comes here.
        if name.startswith("_") or "inner" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.__dict__["inner"], name)

    @property
    def _serialized(self) -> dict[str, Any]:
        """Traces and events name the model that was chosen, not what guards it."""
        return dict(getattr(self.inner, "_serialized", None) or super()._serialized)

    @property
    def _llm_type(self) -> str:
        return str(getattr(self.inner, "_llm_type", type(self.inner).__name__))

    def bind_tools(
        self, tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool], **kwargs: Any
    ) -> Runnable[Any, AIMessage]:
        """What the other model makes of the tools, with the guard."""
        bound: Runnable[Any, AIMessage] = guarded(
            self.inner.bind_tools(tools, **kwargs), self.guard
        )
        return bound

    def with_structured_output(self, schema: Any, **kwargs: Any) -> Runnable[Any, Any]:
        """The other model's own; what it gives is parsed, and no text of an answer."""
        structured: Runnable[Any, Any] = self.inner.with_structured_output(schema, **kwargs)
        return structured

    def get_token_ids(self, text: str) -> list[int]:
        """As the other model counts."""
        return list(self.inner.get_token_ids(text))

    def get_num_tokens(self, text: str) -> int:
        """As the other model counts."""
        return int(self.inner.get_num_tokens(text))

    def get_num_tokens_from_messages(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> int:
        """As the other model counts."""
        return int(self.inner.get_num_tokens_from_messages(messages, *args, **kwargs))

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> Any:
        if isinstance(self.inner, BaseChatModel):
            return self.inner._get_ls_params(stop=stop, **kwargs)
        return super()._get_ls_params(stop=stop, **kwargs)

    def _streaming_disabled(self, **kwargs: Any) -> bool:
        if isinstance(self.inner, BaseChatModel):
            return self.inner._streaming_disabled(**kwargs)
        return super()._streaming_disabled(**kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: Any = None,
        **kwargs: Any,
    ) -> ChatResult:
        with tracing_context(enabled=False):
            answer = self.inner.invoke(messages, _UNHEARD, **_with_stop(stop, kwargs))
        return self._result(answer)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: Any = None,
        **kwargs: Any,
    ) -> ChatResult:
        with tracing_context(enabled=False):
            answer = await self.inner.ainvoke(messages, _UNHEARD, **_with_stop(stop, kwargs))
        return self._result(answer)

    def _result(self, answer: AIMessage) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self.guard.answer(answer))])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: Any = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        said = AnswerStream(self.guard)
        chunks = self.inner.stream(messages, _UNHEARD, **_with_stop(stop, kwargs))
        while True:
            # Set anew at each step: between two steps, the context is that of the listener.
            with tracing_context(enabled=False):
                chunk = next(chunks, None)
            if chunk is None:
                break
            yield from map(_generated, said.feed(self._as_chunk(chunk)))
        yield from map(_generated, said.close())

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: Any = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        said = AnswerStream(self.guard)
        chunks = self.inner.astream(messages, _UNHEARD, **_with_stop(stop, kwargs))
        while True:
            with tracing_context(enabled=False):
                chunk = await anext(chunks, None)
            if chunk is None:
                break
            for part in said.feed(self._as_chunk(chunk)):
                yield _generated(part)
        for part in said.close():
            yield _generated(part)

    def _as_chunk(self, message: AIMessage) -> AIMessageChunk:
        """A model that does not stream gives its answer in one piece."""
        if isinstance(message, AIMessageChunk):
            return message
        return AIMessageChunk(**message.model_dump(exclude={"type"}))


def _with_stop(stop: list[str] | None, kwargs: dict[str, Any]) -> dict[str, Any]:
    return kwargs if stop is None else {**kwargs, "stop": stop}


def _generated(chunk: AIMessageChunk) -> ChatGenerationChunk:
    return ChatGenerationChunk(message=chunk)
