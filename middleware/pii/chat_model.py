"""Chat model that wraps another one and redacts its answers before anybody sees them.

It calls only those methods of the other model that talk to the provider and notify nobody. All
listeners of the run (streams, events, tracers, handlers, a cache) observe the wrapper, whose
answers are already redacted, token by token if they are streamed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.runnables.fallbacks import RunnableWithFallbacks
from langgraph.constants import TAG_NOSTREAM

from .messages import AnswerStream, Guard

Stop = list[str] | None
RunManager = CallbackManagerForLLMRun | None
AsyncRunManager = AsyncCallbackManagerForLLMRun | None
"""The words at which a model stops."""

_SILENT_CONFIG: RunnableConfig = {"callbacks": [], "tags": [TAG_NOSTREAM]}

# What LangChain does around every model. It now does it around the wrapper.
_COPIED_FIELDS = (
    *("cache", "callbacks", "disable_streaming", "metadata", "name", "output_version", "profile"),
    *("rate_limiter", "tags", "verbose"),
)


def guard_model(model: object, guard: Guard) -> Any:
    """Wrap a model so that a guard redacts its answers; a model with this guard stays as it is."""
    if isinstance(model, RunnableBindingBase):
        return model.model_copy(update={"bound": guard_model(model.bound, guard)})
    if isinstance(model, RunnableWithFallbacks):
        fallbacks = [guard_model(fallback, guard) for fallback in model.fallbacks]
        first = guard_model(model.runnable, guard)
        return model.model_copy(update={"runnable": first, "fallbacks": fallbacks})
    inner = model
    while isinstance(inner, GuardedChatModel):
        if inner.guard == guard:
            return model
        inner = inner.inner
    names = model.model_fields_set if isinstance(model, BaseChatModel) else ()
    fields = {key: getattr(model, key) for key in _COPIED_FIELDS if key in names}
    return GuardedChatModel(inner=model, guard=guard, **fields)


class GuardedChatModel(BaseChatModel):
    """Chat model that asks another one, is described as that one, and guards its answers."""

    inner: Any
    guard: Any

    def __getattr__(self, name: str) -> Any:
        # Called only for attributes that neither pydantic nor this class has.
        # Without `inner`, as in a copy that pydantic begins, the lookup would not end.
        if name.startswith("_") or "inner" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.__dict__["inner"], name)

    def bind_tools(
        self, tools: Sequence[Any], **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Bind tools to the other model, and keep the guard."""
        bound = self.inner.bind_tools(tools, **kwargs)
        model: Runnable[LanguageModelInput, AIMessage] = guard_model(bound, self.guard)
        return model

    def with_structured_output(
        self, schema: Any, **kwargs: Any
    ) -> Runnable[LanguageModelInput, Any]:
        """Return the other model's own, without the guard: its result is parsed, not text."""
        structured: Runnable[LanguageModelInput, Any] = self.inner.with_structured_output(
            schema, **kwargs
        )
        return structured

    def get_token_ids(self, text: str) -> list[int]:
        return list(self.inner.get_token_ids(text))

    def get_num_tokens(self, text: str) -> int:
        return int(self.inner.get_num_tokens(text))

    def get_num_tokens_from_messages(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> int:
        return int(self.inner.get_num_tokens_from_messages(messages, *args, **kwargs))

    @property
    def _described(self) -> Any:
        """Model that describes this one to LangChain: another kind of model has no description."""
        return self.inner if isinstance(self.inner, BaseChatModel) else super()

    # The next four are not documented (langchain-core 1.7, language_models/chat_models.py).
    # A test in test_pii_chat_model.py fails if BaseChatModel loses one of them.

    @property
    def _serialized(self) -> dict[str, Any]:
        # Traces and events show the model that the user chose, not this wrapper.
        return dict(getattr(self.inner, "_serialized", None) or super()._serialized)

    def _should_stream(
        self, *, async_api: bool, run_manager: RunManager | AsyncRunManager = None, **kwargs: Any
    ) -> bool:
        # A model that does not stream answers with a message. As a chunk, arguments that were cut
        # off would turn into a valid call, because LangChain completes the JSON of chunks.
        return isinstance(self.inner, BaseChatModel) and self.inner._should_stream(
            async_api=async_api, run_manager=run_manager, **kwargs
        )

    def _should_use_protocol_streaming(
        self, *, async_api: bool, run_manager: RunManager | AsyncRunManager = None, **kwargs: Any
    ) -> bool:
        return super()._should_use_protocol_streaming(
            async_api=async_api, run_manager=run_manager, **kwargs
        ) and self._should_stream(async_api=async_api, **{"stream": True, **kwargs})

    def _get_llm_string(self, stop: Stop = None, **kwargs: Any) -> str:
        # The key of a cache: another guard makes other answers.
        return f"{self._described._get_llm_string(stop=stop, **kwargs)} {self.guard!r}"

    @property
    def _llm_type(self) -> str:
        return str(getattr(self.inner, "_llm_type", type(self.inner).__name__))

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return dict(getattr(self.inner, "_identifying_params", {}))

    def _get_ls_params(self, stop: Stop = None, **kwargs: Any) -> Any:
        return self._described._get_ls_params(stop=stop, **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: Stop = None,
        run_manager: RunManager = None,
        **kwargs: Any,
    ) -> ChatResult:
        # Without the run manager, which would report tokens that are not redacted.
        if isinstance(self.inner, BaseChatModel):
            return self._redact(self.inner._generate(messages, stop=stop, **kwargs))
        # A runnable that is not a chat model may not know `stop`.
        kwargs = kwargs if stop is None else {**kwargs, "stop": stop}
        answer = self.inner.invoke(messages, _SILENT_CONFIG, **kwargs)
        return self._redact(ChatResult(generations=[ChatGeneration(message=answer)]))

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: Stop = None,
        run_manager: AsyncRunManager = None,
        **kwargs: Any,
    ) -> ChatResult:
        if isinstance(self.inner, BaseChatModel):
            return self._redact(await self.inner._agenerate(messages, stop=stop, **kwargs))
        kwargs = kwargs if stop is None else {**kwargs, "stop": stop}
        answer = await self.inner.ainvoke(messages, _SILENT_CONFIG, **kwargs)
        return self._redact(ChatResult(generations=[ChatGeneration(message=answer)]))

    def _redact(self, result: ChatResult) -> ChatResult:
        generations = [
            ChatGeneration(
                message=self.guard.redact_name(self.guard.redact_answer(generation.message)),
                generation_info=generation.generation_info,
            )
            for generation in result.generations
        ]
        return ChatResult(generations=generations, llm_output=result.llm_output)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: Stop = None,
        run_manager: RunManager = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        answer = AnswerStream(self.guard)
        for chunk in self.inner._stream(messages, stop=stop, **kwargs):
            yield from answer.feed(chunk)
        yield from answer.close()

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: Stop = None,
        run_manager: AsyncRunManager = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        answer = AnswerStream(self.guard)
        async for chunk in self.inner._astream(messages, stop=stop, **kwargs):
            for part in answer.feed(chunk):
                yield part
        for part in answer.close():
            yield part
