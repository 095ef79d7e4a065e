"""What a scripted model says once, in any of the forms a test may write it."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from typing import Any
from uuid import uuid4

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolCall
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk
from pydantic import BaseModel

Step = str | AIMessage | Sequence[Any] | Exception | BaseModel | Callable[[list[BaseMessage]], Any]
"""What a model does once: say a text, give a message, call tools, raise, answer, or decide."""


class ScriptError(AssertionError):
    """The model was asked more often than its script foresees, or less often."""


@dataclass(frozen=True)
class Reply:
    """One answer of a model, with everything that can be said about it.

    Args:
        text: What it says.
        calls: The tools it calls: dicts with `name`, `args` and perhaps `id`.
        usage: Tokens of input and of output, `(12, 5)` or LangChain's usage dict.
        delay: Seconds until it begins to answer.
        chunks: The pieces in which the text is streamed; default: word by word.
        error: What it raises: at once, or once the chunks have been streamed.

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
        text = self.text or "".join(self.chunks or ())
        calls = [made_call(call) for call in self.calls]
        return AIMessage(text, tool_calls=calls, usage_metadata=_usage(self.usage))


def _usage(usage: tuple[int, int] | Mapping[str, Any] | None) -> UsageMetadata | None:
    if usage is None:
        return None
    if isinstance(usage, Mapping):
        total = usage["input_tokens"] + usage["output_tokens"]
        return UsageMetadata(**{"total_tokens": total, **usage})  # type: ignore[typeddict-item]
    taken, given = usage
    return UsageMetadata(input_tokens=taken, output_tokens=given, total_tokens=taken + given)


@dataclass(frozen=True)
class Said:
    """An answer that is about to be given.

    Args:
        message: The whole of it.
        reply: How it is given.
    """

    message: AIMessage
    reply: Reply = Reply()

    def whole(self) -> AIMessage:
        """The message, or the error."""
        if self.reply.error is not None:
            raise self.reply.error
        return self.message

    def chunks(self) -> Iterator[ChatGenerationChunk]:
        """The message as a provider would stream it: piece by piece, then its tool calls.

        A name and unreadable calls do not travel: LangChain leaves them out where it adds up
        chunks.
        """
        id_ = self.message.id or f"run-{uuid4()}"
        words = self._words()
        for text in words:
            if text:
                yield ChatGenerationChunk(message=AIMessageChunk(content=text, id=id_))
        if self.reply.error is not None:
            raise self.reply.error
        yield _last_chunk(self.message, id_, [] if words else self.message.content)

    def _words(self) -> Sequence[str]:
        if self.reply.chunks is not None:
            return self.reply.chunks
        if not isinstance(self.message.content, str):
            return ()
        *words, last = self.message.content.split(" ")
        return [*(f"{word} " for word in words), last]


def _last_chunk(message: AIMessage, id_: str, content: Any) -> ChatGenerationChunk:
    calls = [
        tool_call_chunk(name=c["name"], args=json.dumps(c["args"]), id=c["id"], index=index)
        for index, c in enumerate(message.tool_calls)
    ]
    return ChatGenerationChunk(
        message=AIMessageChunk(
            content=content or "",
            id=id_,
            tool_call_chunks=calls,
            usage_metadata=message.usage_metadata,
            response_metadata=message.response_metadata,
            additional_kwargs=message.additional_kwargs,
            chunk_position="last",
        )
    )


def as_said(step: Any, messages: list[BaseMessage], tools: Collection[str], number: int) -> Said:
    """A step of a script as the answer it stands for.

    Args:
        step: The step.
        messages: What the model was shown.
        tools: The names of the tools it was offered; a structured answer is a call of one of them.
        number: Which step it is, for the error.

    Raises:
        ScriptError: It is no step.
    """
    match step:
        case Reply():
            return Said(step.message, step)
        case AIMessage():
            # A copy: a step may be given twice, and who receives a message may change it.
            return Said(step.model_copy())
        case str():
            return Said(AIMessage(step))
        case BaseException():
            return Said(AIMessage(""), Reply(error=step))
    if _is_answer(step):
        return Said(_answer(step, tools))
    if callable(step):
        return as_said(step(messages), messages, tools, number)
    if isinstance(step, Sequence) and all(isinstance(c, Mapping) and "name" in c for c in step):
        return Said(AIMessage("", tool_calls=[made_call(call) for call in step]))
    raise ScriptError(
        f"step {number} is {step!r}; give a text, a Reply, an AIMessage, a list of tool calls such "
        "as {'name': ..., 'args': {...}}, a structured answer, an exception, or a function that "
        "gives one of these."
    )


def made_call(call: Mapping[str, Any]) -> ToolCall:
    """A tool call, with an id where it has none."""
    return ToolCall(
        name=call["name"],
        args=call.get("args", {}),
        id=call.get("id") or f"call_{uuid4().hex[:8]}",
        type="tool_call",
    )


def _is_answer(step: Any) -> bool:
    if isinstance(step, type):
        return False
    return (isinstance(step, BaseModel) and not isinstance(step, BaseMessage)) or is_dataclass(step)


def _answer(step: Any, tools: Collection[str]) -> AIMessage:
    """A structured answer: a call of the tool of its name, or JSON where there is none."""
    data = step.model_dump(mode="json") if isinstance(step, BaseModel) else asdict(step)
    name = type(step).__name__
    if name in tools:
        return AIMessage("", tool_calls=[made_call({"name": name, "args": data})])
    return AIMessage(json.dumps(data))
