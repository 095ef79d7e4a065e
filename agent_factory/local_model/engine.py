"""The engine of the local chat model: load, ask."""

from __future__ import annotations

import functools
import http.client
import importlib
import json
import queue
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages.ai import UsageMetadata

from agent_factory.errors import require
from agent_factory.local_model.weights import LocalModelError, find_weights

# MiB of cached prompts. The prompt of a tool takes about 2 MiB; the engine's default of 8192 would
# let a long-running process grow without need.
PROMPT_CACHE = 128


class LocalContextOverflowError(LocalModelError, ContextOverflowError):
    """The prompt is longer than the context window.

    Attributes:
        tokens: length of the prompt, in tokens.
        limit: size of the context window (`LocalChatModel.n_ctx`), in tokens.
    """

    def __init__(self, tokens: int, limit: int) -> None:
        super().__init__(
            f"The prompt has {tokens} tokens and the context window of the local model {limit}. "
            "Send fewer or shorter messages, or pass a larger n_ctx to LocalChatModel."
        )
        self.tokens = tokens
        self.limit = limit

    # Exceptions are copied and pickled by `args`, which here is the text alone.
    def __reduce__(self) -> tuple[type[LocalContextOverflowError], tuple[int, int]]:
        return type(self), (self.tokens, self.limit)


@dataclass(frozen=True)
class Reply:
    """The answer of the engine, or a piece of a streamed answer."""

    text: str
    finish_reason: str | None
    usage: UsageMetadata
    logprobs: tuple[float, ...] = ()


@functools.cache
def engine_for(path: Path | None, n_ctx: int, n_threads: int) -> Engine:
    """The only engine of this process for these settings, not yet loaded."""
    return Engine(path, n_ctx, n_threads)


class Engine:
    """A llama.cpp server inside this process, loaded at the first question.

    Threads may share an engine: calls run in sequence.
    """

    def __init__(self, path: Path | None, n_ctx: int, n_threads: int) -> None:
        self._path = path
        self._n_ctx = n_ctx
        self._n_threads = n_threads
        self._key = secrets.token_hex(16)
        self._server: Any = None  # xllamacpp has no type hints
        # Reentrant, because a call loads the engine while holding the lock.
        self._lock = threading.RLock()

    def load(self) -> Any:
        with self._lock:
            if self._server is not None:
                return self._server
            wheels = "It has wheels for Linux, macOS, and Windows on AMD64."
            require("local", "LocalChatModel", otherwise=wheels)
            xllamacpp = importlib.import_module("xllamacpp")
            path = self._path or find_weights()
            parameters = xllamacpp.CommonParams()
            parameters.model.path = str(path)
            parameters.n_ctx = self._n_ctx
            # A single call at a time: llama.cpp divides the context among slots.
            parameters.n_parallel = 1
            parameters.cpuparams.n_threads = self._n_threads
            parameters.cpuparams_batch.n_threads = self._n_threads
            parameters.warmup = False
            parameters.use_jinja = True
            parameters.prefill_assistant = False
            # Otherwise llama.cpp writes a log to the terminal.
            parameters.verbosity = -1
            parameters.cache_ram_mib = PROMPT_CACHE
            # The engine always listens on a loopback port; the key keeps other programs out.
            parameters.api_keys = [self._key]
            parameters.ui = False
            parameters.endpoint_slots = False
            try:
                self._server = xllamacpp.Server(parameters)
            except RuntimeError as error:
                raise LocalModelError(
                    f"llama.cpp could not load {path} with n_ctx={self._n_ctx}: {error} "
                    "Is it a GGUF file of a chat model, and is there enough memory?"
                ) from error
            return self._server

    def close(self) -> None:
        with self._lock:
            self._server = None

    def ask(self, request: Mapping[str, object]) -> Reply:
        """The reply to a completion of a `prompt`, or to a chat in `messages`."""
        return read_reply(self._call(request))

    def stream(self, request: Mapping[str, object]) -> Iterator[Reply]:
        """The reply in pieces, the last of them with the usage.

        The engine runs in a separate thread and holds the lock only while it works, so an
        unfinished stream blocks no other call.
        """
        streaming = {"stream": True, "stream_options": {"include_usage": True}, **request}
        stop_event = threading.Event()
        pieces: queue.SimpleQueue[object] = queue.SimpleQueue()

        def receive(piece: object) -> bool:
            pieces.put(piece)
            return stop_event.is_set()  # true ends the engine's work

        def produce() -> None:
            try:
                self._call(streaming, receive)
            except Exception as error:
                pieces.put(error)
            finally:
                # The end, also after an error: the reader waits for the end.
                pieces.put(None)

        threading.Thread(target=produce, name="local-chat-model").start()
        try:
            while (piece := pieces.get()) is not None:
                if isinstance(piece, Exception):
                    raise piece
                yield read_reply(piece)
        finally:
            # An early stop of the reader ends the work of the engine at the next piece.
            stop_event.set()

    def tokenize(self, text: str) -> list[int]:
        address = urlsplit(self.load().listening_address)
        connection = http.client.HTTPConnection(address.netloc, timeout=60)
        headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
        try:
            connection.request("POST", "/tokenize", json.dumps({"content": text}), headers)
            return cast(list[int], json.loads(connection.getresponse().read())["tokens"])
        except (OSError, ValueError, KeyError) as error:
            raise LocalModelError(f"The local model could not tokenize a text: {error}") from error
        finally:
            connection.close()

    def _call(self, request: Mapping[str, object], *receive: Callable[[object], bool]) -> object:
        with self._lock:
            server = self.load()
            chat = "messages" in request
            handle = server.handle_chat_completions if chat else server.handle_completions
            try:
                return handle(dict(request), *receive)
            except (TypeError, ValueError) as refused:
                raise ValueError(f"The local model refused the request: {refused}") from refused


def read_reply(answer: Any) -> Reply:
    """Read an answer of the engine or a piece; raise a reported error."""
    if not isinstance(answer, Mapping) or "choices" not in answer:
        # The engine reports an error as an answer without choices.
        error = answer.get("error", answer) if isinstance(answer, Mapping) else {"message": answer}
        if error.get("type") == "exceed_context_size_error":
            raise LocalContextOverflowError(error["n_prompt_tokens"], error["n_ctx"])
        if error.get("type") == "invalid_request_error":
            raise ValueError(f"The local model refused the request: {error.get('message')}")
        raise LocalModelError(f"The local model failed: {error.get('message', error)}")
    # The last piece of a stream has the usage and no choice.
    choice = (answer["choices"] or [{}])[0]
    message = choice.get("message") or choice.get("delta") or {}
    scores = (choice.get("logprobs") or {}).get("content") or ()
    counts = answer.get("usage") or {}
    input_tokens, output_tokens = counts.get("prompt_tokens", 0), counts.get("completion_tokens", 0)
    return Reply(
        text=choice.get("text") or message.get("content") or "",
        finish_reason=choice.get("finish_reason"),
        usage=UsageMetadata(
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            total_tokens=input_tokens + output_tokens,
        ),
        logprobs=tuple(token["logprob"] for token in scores),
    )
