"""Chat models without a provider: with a script, or (in `recordings`) with a file."""

from __future__ import annotations

import asyncio
import json
import time
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass
from threading import Lock
from typing import Any, Self
from uuid import uuid4

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, SystemMessage, ToolCall
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.errors import GraphBubbleUp
from pydantic import BaseModel, Field, PrivateAttr

Step = str | AIMessage | Sequence[Any] | Exception | BaseModel | Callable[[list[BaseMessage]], Any]
"""One answer of a model, in any of the forms that `ScriptedChatModel` takes."""

Messages = list[BaseMessage]
Stop = list[str] | None
Manager = CallbackManagerForLLMRun | None
AsyncManager = AsyncCallbackManagerForLLMRun | None


# LangGraph and flows pass on a GraphBubbleUp: no retry repeats the error, no layer answers it.
class ScriptError(AssertionError, GraphBubbleUp):
    """The number of requests differs from the number of steps in the script.

    The error ends the run: no retry, fallback or error handler of a flow answers it.
    """


@dataclass(frozen=True)
class Reply:
    """One answer of a model in full detail.

    Args:
        text: The text of the message.
        calls: The tool calls: dicts with `name`, `args` and optionally `id`.
        usage: Input and output tokens, `(12, 5)` or LangChain's usage dict.
        delay: Seconds until the model begins to answer.
        chunks: The pieces in which the text is streamed; default: word by word.
        error: An exception to raise: at once, or after the chunks were streamed.

    >>> from agent_factory.testing import ScriptedChatModel
    >>> model = ScriptedChatModel([Reply("It is five.", usage=(12, 5))])
    >>> model.invoke("2 + 3?").usage_metadata["total_tokens"]
    17
    """

    text: str = ""
    calls: Sequence[Mapping[str, Any]] = ()
    usage: tuple[int, int] | Mapping[str, Any] | None = None
    delay: float = 0.0
    chunks: Sequence[str] | None = None
    error: BaseException | None = None

    @property
    def message(self) -> AIMessage:
        """The reply as a message."""
        usage: Any = self.usage
        if isinstance(usage, tuple):
            usage = {"input_tokens": usage[0], "output_tokens": usage[1]}
        if usage is not None:
            total = usage["input_tokens"] + usage["output_tokens"]
            usage = {"total_tokens": total, **usage}
        return AIMessage(
            self.text or "".join(self.chunks or ()),
            tool_calls=[tool_call(call) for call in self.calls],
            usage_metadata=usage,
        )


@dataclass(frozen=True)
class FakeResponse:
    """A message, and a reply with the delay, the chunks and the error of the delivery."""

    message: AIMessage
    reply: Reply = Reply()

    def complete(self) -> AIMessage:
        """The message, or the error raised."""
        if self.reply.error is not None:
            raise self.reply.error
        return self.message

    def stream(self) -> Iterator[ChatGenerationChunk]:
        """The message as a provider would stream it: piece by piece, then its tool calls.

        The name of a message and invalid tool calls get lost: LangChain leaves them out when it
        adds up chunks.
        """
        message = self.message
        # Readers of a stream tell messages apart by the id, so all chunks have the same.
        id_ = message.id or f"run-{uuid4()}"
        texts: Sequence[str] = ()
        if self.reply.chunks is not None:
            texts = self.reply.chunks
        elif isinstance(message.content, str):
            # Each word keeps the space after the word: the chunks, joined, are the text.
            *words, last = message.content.split(" ")
            texts = [*(f"{word} " for word in words), last]
        for text in texts:
            if text:
                yield ChatGenerationChunk(message=AIMessageChunk(content=text, id=id_))
        if self.reply.error is not None:
            raise self.reply.error
        calls = [
            tool_call_chunk(name=c["name"], args=json.dumps(c["args"]), id=c["id"], index=index)
            for index, c in enumerate(message.tool_calls)
        ]
        # By the position, LangChain knows the end of the message, and parses the tool calls.
        last_chunk = AIMessageChunk(
            content="" if texts else message.content or "",
            id=id_,
            tool_call_chunks=calls,
            usage_metadata=message.usage_metadata,
            response_metadata=message.response_metadata,
            additional_kwargs=message.additional_kwargs,
            chunk_position="last",
        )
        yield ChatGenerationChunk(message=last_chunk)


def fake_response(
    step: Any, messages: list[BaseMessage], tools: Collection[str], number: int
) -> FakeResponse:
    """A step of a script as a response; a structured answer calls the tool of its name, if any."""
    match step:
        case Reply():
            return FakeResponse(step.message, step)
        case AIMessage():
            # A copy, because a script may repeat a step, and LangGraph sets the id of a message.
            return FakeResponse(step.model_copy())
        case str():
            return FakeResponse(AIMessage(step))
        case BaseException():
            return FakeResponse(AIMessage(""), Reply(error=step))
    is_answer = isinstance(step, BaseModel) or is_dataclass(step)
    # A class can be called, and messages are models of pydantic, too: neither is an answer.
    if is_answer and not isinstance(step, type | BaseMessage):
        data = step.model_dump(mode="json") if isinstance(step, BaseModel) else asdict(step)
        name = type(step).__name__
        if name in tools:
            return FakeResponse(AIMessage("", tool_calls=[tool_call({"name": name, "args": data})]))
        return FakeResponse(AIMessage(json.dumps(data)))
    if callable(step):
        return fake_response(step(messages), messages, tools, number)
    if isinstance(step, Sequence) and all(isinstance(c, Mapping) and "name" in c for c in step):
        return FakeResponse(AIMessage("", tool_calls=[tool_call(call) for call in step]))
    raise ScriptError(
        f"step {number} must be a str, a Reply, an AIMessage, a list of tool calls such as "
        "{'name': ..., 'args': {...}}, a structured answer, an exception, or a function that "
        f"returns one of these, got {_short(step)}."
    )


def tool_call(call: Mapping[str, Any]) -> ToolCall:
    """A tool call; a missing id is made."""
    return ToolCall(
        name=call["name"],
        args=call.get("args", {}),
        id=call.get("id") or f"call_{uuid4().hex[:8]}",
        type="tool_call",
    )


def tool_name(tool: dict[str, Any]) -> str:
    """The name of a tool in a request; the type of a provider's tool without a name."""
    return str(tool.get("function", tool).get("name") or tool.get("type"))


class FakeChatModel(BaseChatModel):
    """Chat model for subclasses with a `_respond` method; streams, and runs asynchronously."""

    _lock: Lock = PrivateAttr(default_factory=Lock)

    @abstractmethod
    def assert_done(self) -> None:
        """Fail unless the model got exactly the expected requests."""

    @abstractmethod
    def _respond(self, messages: Messages, stop: Stop, kwargs: dict[str, object]) -> FakeResponse:
        """The response to one request."""

    def __enter__(self) -> Self:
        return self

    def __repr_args__(self) -> list[tuple[str | None, object]]:
        # LangChain writes every model into the traces, and compares each field with the default
        # value, which takes longer than the answer.
        names = self.model_fields_set
        return [(k, v) for k, v in BaseModel.__repr_args__(self) if k in names and v is not None]

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # An exception says more than steps without a request.
        if kind is None:
            self.assert_done()

    def bind_tools(
        self, tools: Sequence[Any], *, tool_choice: object = None, **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Offer tools; a provider's own tool, a dict that is not a function, passes unchanged."""
        # `bind` would keep a None among the `kwargs` of each request.
        if tool_choice is not None:
            kwargs["tool_choice"] = tool_choice
        schemas = [
            tool
            if isinstance(tool, dict) and tool.get("type") != "function"
            else convert_to_openai_tool(tool)
            for tool in tools
        ]
        return self.bind(tools=schemas, **kwargs)

    def _generate(
        self, messages: Messages, stop: Stop = None, run_manager: Manager = None, **kwargs: Any
    ) -> ChatResult:
        response = self._respond(messages, stop, kwargs)
        time.sleep(response.reply.delay)
        return ChatResult(generations=[ChatGeneration(message=response.complete())])

    async def _agenerate(
        self, messages: Messages, stop: Stop = None, run_manager: AsyncManager = None, **kwargs: Any
    ) -> ChatResult:
        response = self._respond(messages, stop, kwargs)
        await asyncio.sleep(response.reply.delay)
        return ChatResult(generations=[ChatGeneration(message=response.complete())])

    def _stream(
        self, messages: Messages, stop: Stop = None, run_manager: Manager = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        response = self._respond(messages, stop, kwargs)
        time.sleep(response.reply.delay)
        yield from response.stream()

    async def _astream(
        self, messages: Messages, stop: Stop = None, run_manager: AsyncManager = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        response = self._respond(messages, stop, kwargs)
        await asyncio.sleep(response.reply.delay)
        for chunk in response.stream():
            yield chunk


@dataclass(frozen=True)
class ModelCallRecord:
    """A request as the model received it.

    Args:
        messages: The messages, the system message included.
        tools: The names of the tools.
        kwargs: All other bound or passed arguments.
    """

    messages: list[BaseMessage]
    tools: list[str] = field(default_factory=list)
    kwargs: dict[str, Any] = field(default_factory=dict)

    @property
    def system_prompt(self) -> str | None:
        """The text of the system message, which is the first of `messages`; None without a text."""
        first = self.messages[0] if self.messages else None
        return first.text if isinstance(first, SystemMessage) else None


class ScriptedChatModel(FakeChatModel):
    """Chat model with a script of answers, in order.

    A step is a text, a `Reply`, an AIMessage, a list of tool calls (dicts with `name` and `args`;
    missing ids are made), a structured answer (a pydantic model or dataclass), an exception to
    raise, or a function of the messages with one of these as result. A request beyond the script
    fails. `assert_done` fails while steps are left; a `with` block calls it at the end.

    >>> with ScriptedChatModel(["Hello!"]) as model:
    ...     model.invoke("Hi").text
    'Hello!'
    >>> model.requests[0].messages[0].text
    'Hi'
    """

    steps: list[Any] = Field(default_factory=list)
    _position: int = PrivateAttr(default=0)
    _requests: list[ModelCallRecord] = PrivateAttr(default_factory=list)
    _beyond_script: list[str] = PrivateAttr(default_factory=list)

    def __init__(self, steps: Sequence[Step | Any] = (), **kwargs: Any) -> None:
        super().__init__(**{"steps": list(steps), **kwargs})

    @property
    def requests(self) -> list[ModelCallRecord]:
        """Every request so far, in order."""
        return self._requests

    @property
    def position(self) -> int:
        """The number of steps so far, each taken by a request."""
        return self._position

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def rewind(self, position: int = 0) -> None:
        """Go back to a step, and forget the requests from there on.

        Args:
            position: The number of taken steps.
        """
        with self._lock:
            self._position = position
            self._beyond_script.clear()
            del self._requests[position:]

    def assert_done(self) -> None:
        """Fail if steps of the script were not requested, or if a request went beyond them.

        A request beyond the script counts even if a layer has caught the error.

        Raises:
            ScriptError: Steps are left, or there were too few.
        """
        if self._beyond_script:
            raise ScriptError(self._beyond_script[0])
        left = self.steps[self._position :]
        if left:
            raise ScriptError(
                f"the script has {_steps(len(self.steps))}, and {self._position} were requested; "
                f"the next is {_short(left[0])}."
            )

    def _respond(self, messages: Messages, stop: Stop, kwargs: dict[str, Any]) -> FakeResponse:
        # Agents in tools run in parallel and may share the model: each request gets a step.
        with self._lock:
            tools = [tool_name(tool) for tool in kwargs.get("tools", ())]
            rest = {key: value for key, value in kwargs.items() if key != "tools"}
            rest |= {} if stop is None else {"stop": stop}
            # A copy, because the caller may go on with the same list.
            self._requests.append(ModelCallRecord(list(messages), tools, rest))
            if self._position >= len(self.steps):
                last = _short(messages[-1] if messages else None)
                self._beyond_script.append(
                    f"the script has {_steps(len(self.steps))}, and this is request "
                    f"{len(self._requests)}; the last message was {last}."
                )
                raise ScriptError(self._beyond_script[-1])
            step = self.steps[self._position]
            self._position += 1
            number = self._position
        return fake_response(step, messages, tools, number)


def _short(value: object, most: int = 300) -> str:
    """A message or a step, as an error shows it."""
    text = repr(value)
    more = len(text) - most
    return text if more <= 0 else f"{text[:most]}... and {more:,} more characters"


def _steps(number: int) -> str:
    return f"{number} step{'' if number == 1 else 's'}"
