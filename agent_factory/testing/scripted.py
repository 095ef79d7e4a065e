"""A chat model that follows a script: no network, no chance, and every request on record."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any
from uuid import uuid4

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ToolCall,
)
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import Field, PrivateAttr

Step = str | AIMessage | Sequence[Any] | Exception | Callable[[list[BaseMessage]], Any]
"""What the model does once: say a text, give a message, call tools, raise, or decide."""


class ScriptError(AssertionError):
    """The model was asked more often than its script foresees, or less often."""


@dataclass(frozen=True)
class ModelCallRecord:
    """One request as the model received it.

    Args:
        messages: What it was shown, the system message included.
        tools: The names of the tools it was offered.
        kwargs: Everything else it was bound or called with.
    """

    messages: list[BaseMessage]
    tools: list[str] = field(default_factory=list)
    kwargs: dict[str, Any] = field(default_factory=dict)


class ScriptedChatModel(BaseChatModel):
    """Answers by a script, in order.

    A step is a text, an AIMessage, a list of tool calls (dicts with `name` and `args`; ids are
    made where they are missing), an exception to raise, or a function of the messages that gives
    one of these. A request beyond the script fails; so does `assert_done` while steps are left.

    >>> model = ScriptedChatModel(["Hello!"])
    >>> model.invoke("Hi").text
    'Hello!'
    >>> model.requests[0].messages[0].text
    'Hi'
    """

    steps: list[Any] = Field(default_factory=list)
    _position: int = PrivateAttr(default=0)
    _requests: list[ModelCallRecord] = PrivateAttr(default_factory=list)
    _lock: Any = PrivateAttr(default_factory=Lock)

    def __init__(self, steps: Sequence[Step] = (), **kwargs: Any) -> None:
        super().__init__(**{"steps": list(steps), **kwargs})

    @property
    def requests(self) -> list[ModelCallRecord]:
        """Every request so far, in order."""
        return self._requests

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(
        self, tools: Sequence[Any], *, tool_choice: Any = None, **kwargs: Any
    ) -> Runnable[Any, AIMessage]:
        """Offer tools; a request records their names."""
        if tool_choice is not None:
            kwargs["tool_choice"] = tool_choice
        return self.bind(tools=[_offered(tool) for tool in tools], **kwargs)

    def assert_done(self) -> None:
        """Fail if steps of the script were never asked for.

        Raises:
            ScriptError: Steps are left.
        """
        left = self.steps[self._position :]
        if left:
            raise ScriptError(f"{len(left)} steps were never asked for; the next is {left[0]!r}.")

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        message = self._answer(messages, stop, kwargs)
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: Any = None,
        **kwargs: Any,
    ) -> ChatResult:
        return self._generate(messages, stop, **kwargs)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        for chunk in _chunks(self._answer(messages, stop, kwargs)):
            if run_manager is not None and chunk.text:
                run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk

    def _answer(
        self, messages: list[BaseMessage], stop: list[str] | None, kwargs: dict[str, Any]
    ) -> AIMessage:
        with self._lock:
            tools = [_name(tool) for tool in kwargs.get("tools", ())]
            rest = {key: value for key, value in kwargs.items() if key != "tools"}
            rest |= {} if stop is None else {"stop": stop}
            self._requests.append(ModelCallRecord(list(messages), tools, rest))
            if self._position >= len(self.steps):
                raise ScriptError(
                    f"request {self._position + 1} has no step; the last message was "
                    f"{messages[-1] if messages else None!r}"
                )
            step = self.steps[self._position]
            self._position += 1
            number = self._position
        return _as_message(step, messages, number)


def _offered(tool: Any) -> dict[str, Any]:
    if isinstance(tool, dict) and tool.get("type") != "function":
        return tool
    return convert_to_openai_tool(tool)


def _name(tool: dict[str, Any]) -> str:
    return str(tool.get("function", tool).get("name") or tool.get("type"))


def _as_message(step: Any, messages: list[BaseMessage], number: int) -> AIMessage:
    if isinstance(step, AIMessage):
        # A copy: the same step may be given twice, and who receives a message may change it.
        return step.model_copy()
    if isinstance(step, str):
        return AIMessage(step)
    if isinstance(step, BaseException):
        raise step
    if callable(step):
        return _as_message(step(messages), messages, number)
    if isinstance(step, Sequence) and all(isinstance(c, Mapping) and "name" in c for c in step):
        return AIMessage("", tool_calls=[_call(call) for call in step])
    raise ScriptError(
        f"step {number} is {step!r}; give a text, an AIMessage, a list of tool calls such as "
        "{'name': ..., 'args': {...}}, an exception, or a function that gives one of these."
    )


def _call(call: Mapping[str, Any]) -> ToolCall:
    return ToolCall(
        name=call["name"],
        args=call.get("args", {}),
        id=call.get("id") or f"call_{uuid4().hex[:8]}",
        type="tool_call",
    )


def _chunks(message: AIMessage) -> Iterator[ChatGenerationChunk]:
    """A message as a provider would stream it: word by word, then its tool calls.

    A name and unreadable calls do not travel: LangChain leaves them out where it adds up chunks.
    """
    id_ = message.id or f"run-{uuid4()}"
    words = message.text.split(" ") if isinstance(message.content, str) else []
    for index, word in enumerate(words):
        text = word if index == len(words) - 1 else f"{word} "
        if text:
            yield ChatGenerationChunk(message=AIMessageChunk(content=text, id=id_))
    content: Any = [] if words else message.content
    yield ChatGenerationChunk(
        message=AIMessageChunk(
            content=content or "",
            id=id_,
            tool_call_chunks=[
                tool_call_chunk(name=c["name"], args=json.dumps(c["args"]), id=c["id"], index=index)
                for index, c in enumerate(message.tool_calls)
            ],
            usage_metadata=message.usage_metadata,
            response_metadata=message.response_metadata,
            additional_kwargs=message.additional_kwargs,
            chunk_position="last",
        )
    )
