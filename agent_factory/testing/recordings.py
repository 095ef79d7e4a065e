"""Record the answers of a chat model to a file, a cassette, and replay them.

A cassette is a file of JSON lines: a header, then a line for each request with its answer. The
content is independent of time and place: without message ids, and with numbered tool calls.
"""

from __future__ import annotations

import builtins
import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import reduce
from hashlib import sha256
from operator import add
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, ToolMessage, convert_to_messages
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.runnables.base import RunnableBinding
from langgraph.errors import GraphBubbleUp
from langgraph.types import Command
from pydantic import PrivateAttr, SecretStr

from agent_factory.errors import ArgumentError, describe
from agent_factory.models import model_name
from agent_factory.providers import reasons_in
from agent_factory.testing.comparison import difference, normalize, replace_strings
from agent_factory.testing.fake_model import (
    AsyncManager,
    FakeChatModel,
    FakeResponse,
    Manager,
    Messages,
    Reply,
    Stop,
    tool_name,
)
from agent_factory.testing.redaction import Redact, Redaction
from agent_factory.upstream import ModelWrapper

FORMAT = "agent_factory.cassette"
VERSION = 3
"""The version of the format. A cassette without results of tools is written in version 1, and one
of version 2 lacks pauses."""

# Besides reasons for the end. Ids, times, fingerprints and headers change with each call.
_RECORDED_METADATA = ("model_name", "model", "model_provider", "tool_calls")

_HINT = "Record it again with record(model, path)."

_LEVELS = 200


class CassetteError(ValueError):
    """The file is not a cassette in a known version."""


class CassetteMismatch(AssertionError, GraphBubbleUp):
    """A model got a request outside of the cassette, or not all requests of the cassette.

    The error ends the run, as a `ScriptError` does.
    """


class ReplayedError(RuntimeError):
    """Stands for an error of the recorded model whose class cannot be instantiated.

    Attributes:
        kind: The name of the class of the recorded error.
    """

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind


def _json_line(data: dict[str, object], *, sort_keys: bool = True) -> str:
    # The repr of an object would hold an address in memory, which differs from run to run.
    def default(value: object) -> str:
        return f"<{type(value).__name__}>"

    _check_nesting(data)
    return json.dumps(data, sort_keys=sort_keys, ensure_ascii=False, default=default) + "\n"


def _check_nesting(data: object, levels: int = _LEVELS) -> None:
    """Raise RecursionError if lists and dicts are nested in so many levels, on any Python."""
    if not levels:
        raise RecursionError(f"nested in more than {_LEVELS} levels")
    items = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
    for item in items:
        _check_nesting(item, levels - 1)


@contextmanager
def _nesting_reported(subject: str) -> Iterator[None]:
    """Report data with too many levels as a CassetteError."""
    try:
        yield
    except RecursionError:
        raise CassetteError(
            f"{subject} is nested too deeply. Lists and dicts in a cassette may be nested in "
            f"{_LEVELS} levels."
        ) from None


def _request_data(messages: Messages, stop: Stop, kwargs: dict[str, Any]) -> dict[str, object]:
    """A request as plain data, with the name and a digest of the schema of each tool."""
    settings = {key: value for key, value in kwargs.items() if key != "tools"}
    settings |= {"stop": list(stop)} if stop else {}
    tools = {
        tool_name(tool): sha256(_json_line(tool).encode()).hexdigest()[:8]
        for tool in kwargs.get("tools", ())
    }
    parts = {"messages": list(messages), "tools": tools, "settings": settings}
    request = normalize({key: value for key, value in parts.items() if value})
    return _without_metadata(dict(json.loads(_json_line(request))))


def _without_metadata(request: dict[str, Any]) -> dict[str, object]:
    """A request without the response metadata of its messages, which no provider gets."""
    for message in request.get("messages", ()):
        message.pop("response_metadata", None)
    return request


def record(
    model: BaseChatModel,
    path: str | Path,
    *,
    redact: Redact | None = None,
    redact_keys: Sequence[str] = (),
    inputs: Sequence[object] = (),
    expect: str = "",
) -> RecordingChatModel:
    """Wrap a chat model, and write each answer to a file.

    The file is replaced at the first answer. API keys are never written: neither keys of the
    model, nor texts in the form of a key, nor values of keys such as "authorization".

    Args:
        model: The chat model itself, without bound tools or settings.
        path: The cassette. Missing folders are made.
        redact: A function to rewrite every written text; `replay` needs the same function.
        redact_keys: Patterns of further keys whose values are not written.
        inputs: For `replay_folder`, the inputs of the agent, run by run of one thread: states, or
            `Command(resume=...)`. Default: the user's messages in the requests.
        expect: For `replay_folder`, the expected pattern of the run: see `assert_trajectory`.

    Raises:
        ArgumentError: `model` is not a chat model, or an input is neither of both.

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
        hint = "Record the model itself, and bind tools or settings to what record() returns."
        raise ArgumentError("model", f"must be a chat model, got {describe(model)}.", hint)
    secrets = [v.get_secret_value() for v in vars(model).values() if isinstance(v, SecretStr)]
    # LangChain streams by `_stream` where a class has the method, as this class has. A model
    # without the method would have to stream as well.
    streams = type(model)._stream is not BaseChatModel._stream
    disabled = model.disable_streaming if streams else True
    recording = RecordingChatModel(
        inner=model, path=Path(path), profile=model.profile, disable_streaming=disabled
    )
    recording._redaction = Redaction(redact_keys, redact, secrets)
    more = {"inputs": [_input_data(item) for item in inputs], "expect": expect}
    recording._more = {key: value for key, value in more.items() if value}
    recording._redacted_by = getattr(redact, "__name__", type(redact).__name__) if redact else ""
    return recording


def _answer_of(result: ChatResult) -> ChatGeneration:
    """The answer of a model, with the metadata that LangChain adds to it after the call."""
    generation = result.generations[0]
    message, info = generation.message, generation.generation_info
    metadata = {**(result.llm_output or {}), **(info or {}), **message.response_metadata}
    return ChatGeneration(message=message.model_copy(update={"response_metadata": metadata}))


def _input_data(item: object) -> dict[str, object]:
    """An input of a run as plain data."""
    if isinstance(item, Command) and item.resume is not None:
        return dict(json.loads(_json_line({"resume": normalize(item.resume)}, sort_keys=False)))
    if not isinstance(item, Mapping) or "resume" in item:
        reason = f"must be states or Command(resume=...), got {describe(item)}."
        hint = 'Pass what the agent gets: inputs=[{"messages": [...]}].'
        raise ArgumentError("inputs", reason, hint)
    messages = convert_to_messages(item.get("messages", ()))
    data = {**item, **({"messages": messages} if messages else {})}
    return dict(json.loads(_json_line(normalize(data), sort_keys=False)))


class RecordingChatModel(ModelWrapper):
    """Chat model that writes the answers of another model to a file. Made by `record`."""

    inner: BaseChatModel
    path: Path
    _redaction: Redaction = PrivateAttr(default_factory=Redaction)
    _redacted_by: str = PrivateAttr(default="")
    _more: dict[str, object] = PrivateAttr(default_factory=dict)
    _records_agent: bool = PrivateAttr(default=False)
    _is_new: bool = PrivateAttr(default=True)
    _count: int = PrivateAttr(default=0)
    _ids: dict[str, str] = PrivateAttr(default_factory=dict)
    _lock: Lock = PrivateAttr(default_factory=Lock)

    @property
    def _llm_type(self) -> str:
        return f"recorded-{self.inner._llm_type}"

    @property
    def model_name(self) -> str | None:
        """The name of the recorded model."""
        return model_name(self.inner)

    def bind_tools(
        self, tools: Sequence[Any], **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Offer tools in the form in which the recorded model offers them."""
        bound = self.inner.bind_tools(tools, **kwargs)
        if not isinstance(bound, RunnableBinding):
            reason = f"must bind tools by self.bind(...), got {describe(bound)} from bind_tools."
            hint = "Record a chat model whose bind_tools returns self.bind(...)."
            raise ArgumentError(type(self.inner).__name__, reason, hint)
        # Not the binding of the recorded model: calls would bypass this model.
        return self.bind(**bound.kwargs)

    def _generate(
        self, messages: Messages, stop: Stop = None, run_manager: Manager = None, **kwargs: Any
    ) -> ChatResult:
        with self._recording(messages, stop, kwargs) as answer:
            result = self.inner._generate(messages, stop, run_manager, **kwargs)
            answer.append(_answer_of(result))
        return result

    async def _agenerate(
        self, messages: Messages, stop: Stop = None, run_manager: AsyncManager = None, **kwargs: Any
    ) -> ChatResult:
        with self._recording(messages, stop, kwargs) as answer:
            result = await self.inner._agenerate(messages, stop, run_manager, **kwargs)
            answer.append(_answer_of(result))
        return result

    def _stream(
        self, messages: Messages, stop: Stop = None, run_manager: Manager = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        with self._recording(messages, stop, kwargs) as answer:
            for chunk in self.inner._stream(messages, stop, run_manager, **kwargs):
                answer.append(chunk)
                yield chunk

    async def _astream(
        self, messages: Messages, stop: Stop = None, run_manager: AsyncManager = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        with self._recording(messages, stop, kwargs) as answer:
            async for chunk in self.inner._astream(messages, stop, run_manager, **kwargs):
                answer.append(chunk)
                yield chunk

    @contextmanager
    def _recording(
        self, messages: Messages, stop: Stop, kwargs: dict[str, object]
    ) -> Iterator[list[object]]:
        """Write a request with the answer, collected in parts by the block, or with the error."""
        parts: list[Any] = []
        try:
            yield parts
        except Exception as error:
            self._write(messages, stop, kwargs, error)
            raise
        message = reduce(add, parts).message if parts else AIMessage("")
        self._write(messages, stop, kwargs, message)

    def _write(self, messages: Messages, stop: Stop, kwargs: dict[str, Any], answer: Any) -> None:
        """Append a request and the answer, a message or an exception, to the file."""
        # Calls may run in parallel: a line is written whole, and each answer has a number.
        with self._lock, _nesting_reported(f"{self.path}: a request or its answer"):
            data = dict(normalize(answer))
            request = self._redaction(_request_data(messages, stop, kwargs))
            self._count += 1
            if not isinstance(answer, Exception):
                metadata = data.pop("response_metadata", {})
                keys = (*_RECORDED_METADATA, *dict(reasons_in(metadata)))
                kept_metadata = {key: metadata[key] for key in keys if key in metadata}
                data = {k: v for k, v in data.items() if k not in ("type", "name")}
                data |= {"response_metadata": kept_metadata} if kept_metadata else {}
                calls = [*answer.tool_calls, *answer.invalid_tool_calls]
                plain_calls = [*data.get("tool_calls", ()), *data.get("invalid_tool_calls", ())]
                ids: dict[str, str] = {}
                for number, (call, plain) in enumerate(zip(calls, plain_calls, strict=True), 1):
                    # The number of the answer makes the ids unique in the file. The results of
                    # the calls have the ids of the model.
                    ids[plain["id"]] = self._ids[call["id"]] = f"call_{self._count}_{number}"
                data = replace_strings(data, ids)
            self._append({"answer": self._redaction(data), "request": request})

    def keep_results(self) -> None:
        """Write a file for results of tools and for pauses, too."""
        self._records_agent = True

    @property
    def request_count(self) -> int:
        """The number of written requests."""
        return self._count

    def write_result(self, call: Mapping[str, Any], result: object) -> None:
        """Append the result of a tool call: a message, an exception, or None for other results."""
        with self._lock, _nesting_reported(f"{self.path}: the result of a tool"):
            data = normalize(result)
            if isinstance(result, ToolMessage):
                data = {key: data[key] for key in ("content", "status") if key in data}
            args, id_ = normalize(call["args"]), self._ids.get(call["id"])
            line = {"tool": call["name"], "args": args, "id": id_, "result": data}
            # By way of JSON: redaction reads plain data only.
            self._append(self._redaction(json.loads(_json_line(line, sort_keys=False))))

    def write_pause(self, line: Mapping[str, object]) -> None:
        """Append the questions of a run, or the answers."""
        with self._lock, _nesting_reported(f"{self.path}: a question or its answer"):
            data = {"pause": normalize({"at": self._count, **line})}
            self._append(self._redaction(json.loads(_json_line(data, sort_keys=False))))

    def _append(self, line: dict[str, object]) -> None:
        """Append a line to the file; the first line replaces the file by the header."""
        if self._is_new:
            header = {
                "format": FORMAT,
                "version": VERSION if self._records_agent else 1,
                "model": type(self.inner).__name__,
                "redacted_keys": list(self._redaction.keys),
                "redacted_by": self._redacted_by,
                "profile": dict(self.profile or {}),
                "model_name": self.model_name,
                **self._redaction(self._more),
            }
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # Only the header is sorted: inputs in the header keep their order.
            text = _json_line(dict(sorted(header.items())), sort_keys=False)
            self.path.write_text(text, encoding="utf-8")
            self._is_new = False
        # Half of a surrogate pair, which UTF-8 cannot encode, is written as a JSON escape.
        with self.path.open("a", encoding="utf-8", errors="backslashreplace") as file:
            # Arguments stay in the order in which the model wrote them: texts may quote them.
            file.write(_json_line(line, sort_keys=False))


def replay(path: str | Path, *, redact: Redact | None = None) -> ReplayChatModel:
    """A chat model with the answers of a cassette.

    Each answer is given once, to the recorded request: the same messages, tools and
    settings, except for ids. Parallel requests may come in another order.

    Args:
        path: The file of `record`.
        redact: The function for `record`, if any.

    Raises:
        FileNotFoundError: The file does not exist.
        CassetteError: The file is not a cassette, or needs the function that redacted the file.
    """
    model = ReplayChatModel(path=Path(path))
    model.load(model.path, redact)
    return model


Lines = Sequence[Mapping[str, Any]]
"""Lines of a file of one kind: requests with answers, results, or pauses."""


class Cassette(NamedTuple):
    """Content of a file: the header, the requests with their answers, results of tools, pauses."""

    header: dict[str, Any]
    entries: list[dict[str, Any]]
    results: list[dict[str, Any]]
    pauses: list[dict[str, Any]]


def read_cassette(path: Path) -> Cassette:
    """The content of a cassette; errors as in `replay`."""
    if not path.exists():
        raise FileNotFoundError(f"{path}: the cassette does not exist. {_HINT}")
    try:
        # Not splitlines(), which breaks lines at characters without an escape in JSON, as U+2028.
        texts = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise CassetteError(f"{path}: cannot be read: {error}. {_HINT}") from None
    lines: list[dict[str, Any]] = []
    for number, text in enumerate(texts, 1):
        if not text.strip():
            continue
        with _nesting_reported(f"{path}:{number}:"):
            try:
                data = json.loads(text)
                _check_nesting(data)
            except ValueError as error:
                raise CassetteError(
                    f"{path}:{number}: is not valid JSON: {error}. {_HINT}"
                ) from None
        if not isinstance(data, dict):
            raise CassetteError(
                f"{path}:{number}: must be a JSON object, got {describe(data)}. {_HINT}"
            )
        lines.append(data)
    if not lines or lines[0].get("format") != FORMAT:
        raise CassetteError(f"{path}: is not a cassette of agent_factory. {_HINT}")
    header, *rest = lines
    version = header.get("version")
    if not isinstance(version, int) or version > VERSION:
        raise CassetteError(
            f"{path}: has version {version} of the format, and this agent_factory reads up to "
            f"{VERSION}. Upgrade agent-factory, or record it again."
        )
    keys = header.get("redacted_keys", ())
    results = [line for line in rest if "tool" in line]
    pauses = [line["pause"] for line in rest if "pause" in line]
    entries = []
    for number, line in enumerate(rest, 2):
        if "tool" in line or "pause" in line:
            continue
        if not all(isinstance(line.get(key), dict) for key in ("request", "answer")):
            raise CassetteError(f"{path}:{number}: lacks a request or its answer. {_HINT}")
        with _nesting_reported(f"{path}:{number}:"):
            # An earlier version knew fewer forms of secrets, and may have written a secret.
            line["request"] = _without_metadata(Redaction(keys)(line["request"]))
        entries.append(line)
    return Cassette(header, entries, results, pauses)


def recorded_error(data: Mapping[str, Any]) -> Exception:
    """A written exception: an instance of a built-in class, or else a ReplayedError."""
    kind, text = data["error"], data.get("text", "")
    # Built-in classes only: a file must not decide what is imported.
    error_type = getattr(builtins, kind, None)
    if isinstance(error_type, type) and issubclass(error_type, Exception):
        with suppress(TypeError):  # more arguments than a text, as for UnicodeDecodeError
            return error_type(text)
    return ReplayedError(kind, text)


class ReplayChatModel(FakeChatModel):
    """Chat model with the answers of a cassette. Made by `replay`.

    A `with` block fails at the end if answers are left.
    """

    path: Path
    _left: dict[int, dict[str, Any]] = PrivateAttr(default_factory=dict)
    _redaction: Redaction = PrivateAttr(default_factory=Redaction)
    _cassette: Cassette = PrivateAttr(default=Cassette({}, [], [], []))
    _mismatch: str = PrivateAttr(default="")

    @property
    def _llm_type(self) -> str:
        return "replayed"

    @property
    def model_name(self) -> str | None:
        """The name of the recorded model."""
        return self._cassette.header.get("model_name")

    @property
    def mismatch(self) -> str:
        """Difference of the first request outside of the cassette; empty without such a request."""
        return self._mismatch

    @property
    def redacted(self) -> Redaction:
        """Function that rewrites data as in the cassette."""
        return self._redaction

    def load(self, path: Path, redact: Redact | None = None) -> Cassette:
        """Answer from a cassette from now on; errors as in `replay`."""
        cassette = self._cassette = read_cassette(path)
        header = cassette.header
        if (name := header.get("redacted_by")) and redact is None:
            raise CassetteError(
                f"{path}: was redacted by {name}. Pass it here too: replay(path, redact={name})."
            )
        self.path, self.profile = path, header.get("profile") or None
        self._left = dict(enumerate(cassette.entries, 1))
        self._redaction = Redaction(header.get("redacted_keys", ()), redact)
        self._mismatch = ""
        return cassette

    def assert_done(self) -> None:
        """Fail if answers were not requested, or if a request is not in the cassette.

        Raises:
            CassetteMismatch: Either of both.
        """
        if self._mismatch:
            raise self._error(self._mismatch)
        if self._left:
            raise self._error(
                f"answers that were not requested: {len(self._left)}, the next is number "
                f"{min(self._left)}."
            )

    def _error(self, reason: str) -> CassetteMismatch:
        return CassetteMismatch(
            f"{self.path}: {reason} If that is intended, record the cassette again."
        )

    def _unrecorded(self, request: dict[str, object], reason: str) -> int:
        """The number of the answer to a request outside of the cassette: there is none."""
        raise self._error(reason)

    def _respond(self, messages: Messages, stop: Stop, kwargs: dict[str, object]) -> FakeResponse:
        with _nesting_reported(f"{self.path}: a request"):
            request = self._redaction(_request_data(messages, stop, kwargs))
        with self._lock:
            entries = self._left.items()
            # By content and not by order: subagents of a turn may ask in any order.
            number = next((n for n, entry in entries if entry["request"] == request), None)
            if number is None:
                reason = "all answers were given, and one more request came."
                if self._left:
                    first = min(self._left)
                    labels = ("was recorded", "is asked now")
                    text = difference(self._left[first]["request"], request, labels)
                    reason = f"request {first} differs: {text}."
                self._mismatch = self._mismatch or reason
                number = self._unrecorded(request, reason)
            answer = self._left.pop(number)["answer"]
        if "error" not in answer:
            return FakeResponse(AIMessage(**answer))
        return FakeResponse(AIMessage(""), Reply(error=recorded_error(answer)))
