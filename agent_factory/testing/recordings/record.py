"""Record a chat model: it answers as ever, and what it says is kept in a cassette."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.runnables.base import RunnableBinding
from pydantic import PrivateAttr

from agent_factory.errors import ArgumentError, describe
from agent_factory.testing.comparison import plain
from agent_factory.testing.recordings.cassette import (
    Redact,
    Redaction,
    head_of,
    line_of,
    request_of,
    secrets_of,
)

_KEPT_METADATA = ("finish_reason", "stop_reason", "model_name", "model", "model_provider")
# What else providers put there is of the moment: ids, times, fingerprints, headers.


def record(
    model: BaseChatModel,
    path: str | Path,
    *,
    redact: Redact | None = None,
    redact_keys: Sequence[str] = (),
) -> RecordingChatModel:
    """Wrap a chat model so that its answers are written to a file.

    The file is written anew at the first answer. API keys never get there: not those the model
    holds, nor what looks like one, nor what stands under a key such as "authorization".

    Args:
        model: The chat model itself, before tools or settings are bound to it.
        path: The cassette. Folders are made.
        redact: Rewrites every text that is written; `replay` needs the same function.
        redact_keys: Patterns of further keys whose values are not written.

    Raises:
        ArgumentError: It is no chat model.

    >>> import tempfile
    >>> from agent_factory.testing import ScriptedChatModel, replay
    >>> folder = tempfile.TemporaryDirectory()
    >>> model = record(ScriptedChatModel(["Hello!"]), f"{folder.name}/hello.jsonl")
    >>> model.invoke("Hi").text
    'Hello!'
    >>> replay(f"{folder.name}/hello.jsonl").invoke("Hi").text
    'Hello!'
    >>> folder.cleanup()
    """
    if not isinstance(model, BaseChatModel):
        raise ArgumentError(
            "model",
            f"{describe(model)} is no chat model.",
            "Record the model itself, and bind tools or settings to what record() returns.",
        )
    redaction = Redaction(redact_keys, redact, list(secrets_of(model)))
    streams = type(model)._stream is not BaseChatModel._stream
    recording = RecordingChatModel(
        inner=model,
        path=Path(path),
        profile=model.profile,
        disable_streaming=model.disable_streaming if streams else True,
    )
    recording._redaction = redaction
    recording._redacted_by = getattr(redact, "__name__", type(redact).__name__) if redact else ""
    return recording


class RecordingChatModel(BaseChatModel):
    """A chat model that keeps what it says. `record` makes it."""

    inner: BaseChatModel
    path: Path
    _redaction: Redaction = PrivateAttr(default_factory=Redaction)
    _redacted_by: str = PrivateAttr(default="")
    _count: int = PrivateAttr(default=0)
    _lock: Any = PrivateAttr(default_factory=Lock)

    @property
    def _llm_type(self) -> str:
        return f"recorded-{self.inner._llm_type}"

    @property
    def model_name(self) -> str | None:
        """The name of the model inside."""
        found = getattr(self.inner, "model_name", None) or getattr(self.inner, "model", None)
        return found if isinstance(found, str) else None

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, AIMessage]:
        """Offer tools, as the model inside offers them."""
        bound = self.inner.bind_tools(tools, **kwargs)
        if not isinstance(bound, RunnableBinding):
            raise ArgumentError(
                type(self.inner).__name__,
                f"binds tools to {describe(bound)}, which cannot be recorded.",
                "Record a chat model whose bind_tools returns self.bind(...).",
            )
        return self.bind(**bound.kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        try:
            result = self.inner._generate(messages, stop, run_manager, **kwargs)
        except Exception as error:
            self._keep(messages, stop, kwargs, error)
            raise
        return self._kept(messages, stop, kwargs, result)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: Any = None,
        **kwargs: Any,
    ) -> ChatResult:
        try:
            result = await self.inner._agenerate(messages, stop, run_manager, **kwargs)
        except Exception as error:
            self._keep(messages, stop, kwargs, error)
            raise
        return self._kept(messages, stop, kwargs, result)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        whole = _Whole()
        try:
            for chunk in self.inner._stream(messages, stop, run_manager, **kwargs):
                yield whole.add(chunk)
        except Exception as error:
            self._keep(messages, stop, kwargs, error)
            raise
        self._keep(messages, stop, kwargs, whole.message)

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: Any = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        whole = _Whole()
        try:
            async for chunk in self.inner._astream(messages, stop, run_manager, **kwargs):
                yield whole.add(chunk)
        except Exception as error:
            self._keep(messages, stop, kwargs, error)
            raise
        self._keep(messages, stop, kwargs, whole.message)

    def _kept(
        self, messages: list[BaseMessage], stop: Any, kwargs: dict[str, Any], result: ChatResult
    ) -> ChatResult:
        self._keep(messages, stop, kwargs, result.generations[0].message)
        return result

    def _keep(
        self, messages: list[BaseMessage], stop: Any, kwargs: dict[str, Any], answer: Any
    ) -> None:
        request = self._redaction(request_of(messages, stop, kwargs))
        with self._lock:
            if not self._count:
                self._begin()
            self._count += 1
            said = self._redaction(_plain_answer(answer, self._count))
            with self.path.open("a", encoding="utf-8") as file:
                file.write(line_of({"request": request, "answer": said}))

    def _begin(self) -> None:
        facts = {"profile": dict(self.profile or {}), "model_name": self.model_name}
        kind = type(self.inner).__name__
        head = head_of(kind, self._redaction, by=self._redacted_by, facts=facts)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(line_of(head), encoding="utf-8")


class _Whole:
    """What a stream adds up to."""

    def __init__(self) -> None:
        self._sum: ChatGenerationChunk | None = None

    def add(self, chunk: ChatGenerationChunk) -> ChatGenerationChunk:
        self._sum = chunk if self._sum is None else self._sum + chunk
        return chunk

    @property
    def message(self) -> BaseMessage:
        return AIMessage("") if self._sum is None else self._sum.message


def _plain_answer(answer: Any, number: int) -> dict[str, Any]:
    if isinstance(answer, Exception):
        return dict(plain(answer))
    found = {key: value for key, value in plain(answer).items() if key not in ("type", "name")}
    metadata = found.pop("response_metadata", {})
    if kept := {key: metadata[key] for key in _KEPT_METADATA if key in metadata}:
        found["response_metadata"] = kept
    # The number of the answer keeps the ids of one file apart.
    ids = {call["id"]: f"call_{number}_{n}" for n, call in enumerate(_calls(found), 1)}
    return dict(_with_ids(found, ids))


def _calls(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [*found.get("tool_calls", []), *found.get("invalid_tool_calls", [])]


def _with_ids(value: Any, ids: dict[str, str]) -> Any:
    if isinstance(value, str):
        return ids.get(value, value)
    if isinstance(value, dict):
        return {key: _with_ids(item, ids) for key, item in value.items()}
    return [_with_ids(item, ids) for item in value] if isinstance(value, list) else value
