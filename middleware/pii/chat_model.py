"""A chat model whose answers nobody hears before they were looked at.

It stands in the place of the model it asks. Of that one it takes the methods alone that speak with
a provider, which tell nobody: what listens to the run (a stream, events, tracers, handlers, a
cache) hears this model, in whose answers the personal data is already replaced, token by token
where they are streamed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.runnables.fallbacks import RunnableWithFallbacks
from langchain_core.tools import BaseTool
from langgraph.constants import TAG_NOSTREAM

from agent_factory.middleware.pii.messages import Guard
from agent_factory.middleware.pii.stream import AnswerStream

_UNHEARD: RunnableConfig = {"callbacks": [], "tags": [TAG_NOSTREAM]}

_SHARED = (
    *("cache", "callbacks", "disable_streaming", "metadata", "name", "output_version", "profile"),
    *("rate_limiter", "tags", "verbose"),
)
"""What LangChain does around any model, and does now around the guarded one."""


def guarded(model: Any, guard: Guard) -> Any:
    """The model with a guard at its mouth; itself if it has this one already."""
    if isinstance(model, RunnableBindingBase):
        return model.model_copy(update={"bound": guarded(model.bound, guard)})
    if isinstance(model, RunnableWithFallbacks):
        others = [guarded(other, guard) for other in model.fallbacks]
        first = guarded(model.runnable, guard)
        return model.model_copy(update={"runnable": first, "fallbacks": others})
    if any(known == guard for known in _guards_of(model)):
        return model
    shared = {}
    if isinstance(model, BaseChatModel):
        shared = {key: getattr(model, key) for key in _SHARED if key in model.model_fields_set}
    return GuardedChatModel(inner=model, guard=guard, **shared)


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

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return dict(getattr(self.inner, "_identifying_params", {}))

    def _get_llm_string(self, stop: list[str] | None = None, **kwargs: Any) -> str:
        """What a cache of answers goes by: those of another guard are other answers."""
        if isinstance(self.inner, BaseChatModel):
            named = self.inner._get_llm_string(stop=stop, **kwargs)
        else:
            named = super()._get_llm_string(stop=stop, **kwargs)
        return f"{named} {self.guard!r}"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: Any = None,
        **kwargs: Any,
    ) -> ChatResult:
        if isinstance(self.inner, BaseChatModel):
            return self._result(self.inner._generate(messages, stop=stop, **kwargs))
        answer = self.inner.invoke(messages, _UNHEARD, **_with_stop(stop, kwargs))
        return self._result(ChatResult(generations=[ChatGeneration(message=answer)]))

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: Any = None,
        **kwargs: Any,
    ) -> ChatResult:
        if isinstance(self.inner, BaseChatModel):
            return self._result(await self.inner._agenerate(messages, stop=stop, **kwargs))
        answer = await self.inner.ainvoke(messages, _UNHEARD, **_with_stop(stop, kwargs))
        return self._result(ChatResult(generations=[ChatGeneration(message=answer)]))

    def _result(self, result: ChatResult) -> ChatResult:
        generations = [
            ChatGeneration(
                message=self.guard.answer(generation.message),
                generation_info=generation.generation_info,
            )
            for generation in result.generations
        ]
        return ChatResult(generations=generations, llm_output=result.llm_output)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: Any = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        if not _streams(self.inner, "_stream"):
            yield from map(_as_chunk, self._generate(messages, stop, **kwargs).generations)
            return
        said = AnswerStream(self.guard)
        for chunk in self.inner._stream(messages, stop=stop, **kwargs):
            yield from _let_out(said, chunk)
        yield from _closing(said)

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: Any = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        if not _streams(self.inner, "_stream", "_astream"):
            result = await self._agenerate(messages, stop, **kwargs)
            for generation in result.generations:
                yield _as_chunk(generation)
            return
        said = AnswerStream(self.guard)
        async for chunk in self.inner._astream(messages, stop=stop, **kwargs):
            for part in _let_out(said, chunk):
                yield part
        for part in _closing(said):
            yield part


def _streams(model: Any, *methods: str) -> bool:
    """Whether a model streams by one of the methods that LangChain's models have for it."""
    if not isinstance(model, BaseChatModel):
        return False
    return any(getattr(type(model), name) is not getattr(BaseChatModel, name) for name in methods)


def _let_out(said: AnswerStream, chunk: ChatGenerationChunk) -> Iterator[ChatGenerationChunk]:
    """What a chunk lets out; facts about the generation go with the last of it."""
    info = chunk.generation_info
    parts = [ChatGenerationChunk(message=part) for part in said.feed(_message_of(chunk))]
    if info and not parts:
        parts = [ChatGenerationChunk(message=AIMessageChunk(content="", id=chunk.message.id))]
    if info:
        parts[-1].generation_info = info
    return iter(parts)


def _closing(said: AnswerStream) -> Iterator[ChatGenerationChunk]:
    return (ChatGenerationChunk(message=part) for part in said.close())


def _message_of(chunk: ChatGenerationChunk) -> AIMessageChunk:
    message = chunk.message
    if not isinstance(message, AIMessageChunk):
        raise TypeError(f"a chat model streams AIMessageChunks, not {type(message).__name__}.")
    return message


def _as_chunk(generation: ChatGeneration) -> ChatGenerationChunk:
    """The answer of a model that does not stream, in one piece."""
    message = generation.message
    if not isinstance(message, AIMessageChunk):
        message = AIMessageChunk(**message.model_dump(exclude={"type"}))
    return ChatGenerationChunk(message=message, generation_info=generation.generation_info)


def _with_stop(stop: list[str] | None, kwargs: dict[str, Any]) -> dict[str, Any]:
    return kwargs if stop is None else {**kwargs, "stop": stop}
