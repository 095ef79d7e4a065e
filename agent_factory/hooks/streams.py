"""Streams: the answer of a chat model passes a flow, chunk by chunk, before anybody sees it.

A wrapper calls only the methods of the other model that talk to the provider and notify nobody. All
listeners of the run (streams, events, tracers, handlers, a cache) observe the wrapper. So the
streamed answer is the kept answer.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.runnables.fallbacks import RunnableWithFallbacks
from langgraph.constants import TAG_NOSTREAM

from agent_factory.errors import BadReturn, describe
from agent_factory.hooks.flows import Flow, NextChunk, close, is_signal, perform
from agent_factory.models import configured
from agent_factory.upstream import ModelWrapper, current_config

if TYPE_CHECKING:
    from agent_factory.types import ModelRequest, ModelResponse

StreamFlow = Callable[[], Flow[None]]
"""Makes the flow of one answer."""

Stop = list[str] | None  # the words at which a model stops
RunManager = CallbackManagerForLLMRun | None
AsyncRunManager = AsyncCallbackManagerForLLMRun | None

_SILENT_CONFIG: RunnableConfig = {"callbacks": [], "tags": [TAG_NOSTREAM]}

# LangChain's work around every model, now around the wrapper.
_COPIED_FIELDS = (
    *("cache", "callbacks", "disable_streaming", "metadata", "name", "output_version", "profile"),
    *("rate_limiter", "tags", "verbose"),
)


def stream_through(model: object, flow: StreamFlow, *, cache_key: str | None = None) -> Any:
    """Return a model whose answers pass a flow, chunk by chunk, before anybody sees them.

    The flow is a generator. `chunk = yield NextChunk()` receives the next chunk of the answer, an
    `AIMessageChunk`, and None at the end; `yield chunk` lets a chunk pass. The chunks that pass, in
    whatever pieces, are streamed and kept. An answer that does not stream arrives whole, as an
    `AIMessage`, and a message must pass. The flow may also yield `Sleep`, `Invoke` and `Together`.
    An exception of the model is raised at the `yield`.

    A model that has the flow already is returned unchanged. Bound tools and fallbacks are kept.

    Args:
        model: A chat model, or a binding of a chat model.
        flow: Makes the flow, for each answer.
        cache_key: Distinguishes the answers for LangChain's cache of model calls; empty if the flow
            changes nothing. Without a key the model uses no cache: a cached answer passes no flow.

    >>> from agent_factory.testing import ScriptedChatModel
    >>> def louder():
    ...     while (chunk := (yield NextChunk())) is not None:
    ...         yield chunk.model_copy(update={"content": chunk.content.upper()})
    >>> stream_through(ScriptedChatModel(["Hello."]), louder).invoke("Hi").text
    'HELLO.'
    """
    model = configured(model)
    if isinstance(model, RunnableBindingBase):
        bound = stream_through(model.bound, flow, cache_key=cache_key)
        return model.model_copy(update={"bound": bound})
    if isinstance(model, RunnableWithFallbacks):
        first, *fallbacks = (
            stream_through(each, flow, cache_key=cache_key)
            for each in (model.runnable, *model.fallbacks)
        )
        return model.model_copy(update={"runnable": first, "fallbacks": fallbacks})
    inner = model
    # A layer may pass on a model with the flow, and each chunk passes the flow once.
    while isinstance(inner, StreamedModel):
        if inner.flow == flow:
            return model
        inner = inner.inner
    names = model.model_fields_set if isinstance(model, BaseChatModel) else ()
    fields = {key: getattr(model, key) for key in _COPIED_FIELDS if key in names}
    # A cached answer comes without a call of the methods below, so it would pass no flow. With a
    # key, the cache holds answers that have passed the flow.
    if cache_key is None:
        fields["cache"] = False
    return StreamedModel(inner=model, flow=flow, cache_key=cache_key, **fields)


def stream_layer(
    flow: Callable[[Any], Flow[None]], request: ModelRequest[Any]
) -> Flow[ModelResponse]:
    """Layer whose model streams through a flow of the request: `around_stream`."""
    through = partial(stream_through, flow=partial(flow, request))
    response: ModelResponse = yield request.wrapped(through)
    return response


class StreamedModel(ModelWrapper):
    """Chat model that asks another model, is described as this model, and filters its answers."""

    flow: Any
    cache_key: str | None

    def __getattr__(self, name: str) -> Any:
        # A copy that pydantic begins has no `inner`, and the lookup would not end.
        if name.startswith("_") or "inner" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.__dict__["inner"], name)

    def around(self, model: object) -> Any:
        """Return another model, whose answers pass the same flow."""
        return stream_through(model, self.flow, cache_key=self.cache_key)

    def bind_tools(
        self, tools: Sequence[Any], **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Bind tools to the other model, and keep the flow."""
        model: Runnable[LanguageModelInput, AIMessage] = self.around(
            self.inner.bind_tools(tools, **kwargs)
        )
        return model

    def with_structured_output(
        self, schema: Any, **kwargs: Any
    ) -> Runnable[LanguageModelInput, Any]:
        """Return the other model's runnable, without the flow: the result is not a text."""
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
        """Model that describes this model to LangChain: the other model, if it is a chat model."""
        return self.inner if isinstance(self.inner, BaseChatModel) else super()

    # The next four are not documented (langchain-core 1.7, language_models/chat_models.py).
    # A test in tests/hooks/test_answer_flows.py fails if BaseChatModel loses one of them.

    def _should_stream(
        self, *, async_api: bool, run_manager: RunManager | AsyncRunManager = None, **kwargs: Any
    ) -> bool:
        # A model that does not stream answers with a message. In a chunk, truncated arguments would
        # turn into a valid call, because LangChain completes the JSON of chunks.
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
        # The key of a cache: another flow makes other answers.
        key = f" {self.cache_key}" if self.cache_key else ""
        return f"{self._described._get_llm_string(stop=stop, **kwargs)}{key}"

    def _combine_llm_outputs(self, llm_outputs: list[Any]) -> dict[str, Any]:
        # Integrations give callbacks the tokens by the run manager.
        return dict(self._described._combine_llm_outputs(llm_outputs))

    @property
    def _llm_type(self) -> str:
        return str(getattr(self.inner, "_llm_type", type(self.inner).__name__))

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return dict(getattr(self.inner, "_identifying_params", {}))

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: Stop = None,
        run_manager: RunManager = None,
        **kwargs: Any,
    ) -> ChatResult:
        # Without the run manager, which would report tokens before the flow.
        if isinstance(self.inner, BaseChatModel):
            result = self.inner._generate(messages, stop=stop, **kwargs)
        else:
            # A runnable that is not a chat model may not know `stop`.
            kwargs = kwargs if stop is None else {**kwargs, "stop": stop}
            answer = self.inner.invoke(messages, _SILENT_CONFIG, **kwargs)
            result = ChatResult(generations=[ChatGeneration(message=answer)])
        passed = [
            [*_passed(self.flow(), iter([generation.message]))] for generation in result.generations
        ]
        return _result(result, passed)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: Stop = None,
        run_manager: AsyncRunManager = None,
        **kwargs: Any,
    ) -> ChatResult:
        if isinstance(self.inner, BaseChatModel):
            result = await self.inner._agenerate(messages, stop=stop, **kwargs)
        else:
            kwargs = kwargs if stop is None else {**kwargs, "stop": stop}
            answer = await self.inner.ainvoke(messages, _SILENT_CONFIG, **kwargs)
            result = ChatResult(generations=[ChatGeneration(message=answer)])

        async def whole(message: BaseMessage) -> AsyncIterator[BaseMessage]:
            yield message

        passed = []
        for generation in result.generations:
            parts = _apassed(self.flow(), whole(generation.message))
            passed.append([part async for part in parts])
        return _result(result, passed)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: Stop = None,
        run_manager: RunManager = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        source = _Source()
        chunks = self.inner._stream(messages, stop=stop, **kwargs)
        for message in _passed(self.flow(), map(source.message, chunks)):
            yield source.chunk(message)
        yield from source.rest()

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: Stop = None,
        run_manager: AsyncRunManager = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        source = _Source()
        answer = self.inner._astream(messages, stop=stop, **kwargs)
        chunks = (source.message(chunk) async for chunk in answer)
        async for message in _apassed(self.flow(), chunks):
            yield source.chunk(message)
        for last in source.rest():
            yield last


class _Source:
    """The chunks of a model, whose messages the flow sees.

    Details of the generation, such as the finish reason, go with the next message that passes.
    """

    def __init__(self) -> None:
        self._details: dict[str, Any] = {}
        self._maker: dict[str, Any] = {}

    def message(self, chunk: ChatGenerationChunk) -> AIMessageChunk:
        message = chunk.message
        if not isinstance(message, AIMessageChunk):
            reason = f"must stream AIMessageChunks, got {describe(message)}."
            raise BadReturn("a chat model", reason, "Return ChatGenerationChunks of them.")
        self._details.update(chunk.generation_info or {})
        self._maker |= {k: v for k, v in message.response_metadata.items() if k == "model_provider"}
        return message

    def chunk(self, message: BaseMessage) -> ChatGenerationChunk:
        if not isinstance(message, AIMessageChunk):
            reason = f"must let AIMessageChunks of a streamed answer pass, got {describe(message)}."
            raise BadReturn("a flow of chunks", reason, "Yield the chunks that it receives.")
        # Once: LangChain adds up the details of all chunks.
        details, self._details = self._details, {}
        # LangChain reads blocks by their maker; chunks that the flow has made lack the maker.
        message.response_metadata = {**self._maker, **message.response_metadata}
        return ChatGenerationChunk(message=message, generation_info=details or None)

    def rest(self) -> Iterator[ChatGenerationChunk]:
        # A flow that holds all chunks back until the end of the answer, and lets nothing pass then,
        # must not lose the reason why the provider has ended the answer.
        if self._details:
            yield self.chunk(AIMessageChunk(content=""))


def _result(result: ChatResult, passed: Sequence[Sequence[BaseMessage]]) -> ChatResult:
    """Return a result with the messages that have passed."""
    generations = []
    for generation, messages in zip(result.generations, passed, strict=True):
        if len(messages) != 1:
            reason = f"must let one message of an unstreamed answer pass, got {len(messages)}."
            raise BadReturn("a flow of chunks", reason, "Yield the AIMessage that it receives.")
        info = generation.generation_info
        generations.append(ChatGeneration(message=messages[0], generation_info=info))
    return ChatResult(generations=generations, llm_output=result.llm_output)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep calls of other models by a flow out of the stream of the answer."""
    config = current_config.get() or {}
    tags = [*(config.get("tags") or ()), TAG_NOSTREAM]
    token = current_config.set({**config, "tags": tags})
    try:
        yield
    finally:
        current_config.reset(token)


def _passed(flow: Flow[None], chunks: Iterator[BaseMessage]) -> Iterator[BaseMessage]:
    """Yield the part of an answer that a flow lets pass."""
    advance: Callable[[Any], object] = flow.send
    value: Any = None
    with closing(flow):
        while True:
            try:
                effect = advance(value)
            except StopIteration:
                return
            # After an exception was thrown in, the flow goes on with `send` again.
            advance, value = flow.send, None
            if isinstance(effect, BaseMessage):
                yield effect
                continue
            try:
                if isinstance(effect, NextChunk):
                    value = next(chunks, None)
                else:
                    with _quiet():
                        value = perform(effect, asynchronous=False)
            except BaseException as error:
                if is_signal(error):
                    close(flow, error)
                    raise
                advance, value = flow.throw, error


# Twice, because only a coroutine may await.
async def _apassed(flow: Flow[None], chunks: AsyncIterator[Any]) -> AsyncIterator[BaseMessage]:
    advance: Callable[[Any], object] = flow.send
    value: Any = None
    with closing(flow):
        while True:
            try:
                effect = advance(value)
            except StopIteration:
                return
            advance, value = flow.send, None
            if isinstance(effect, BaseMessage):
                yield effect
                continue
            try:
                if isinstance(effect, NextChunk):
                    value = await anext(chunks, None)
                else:
                    with _quiet():
                        value = await perform(effect, asynchronous=True)
            except BaseException as error:
                if is_signal(error):
                    close(flow, error)
                    raise
                advance, value = flow.throw, error
