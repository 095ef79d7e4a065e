"""A chat model whose answers come from elsewhere: a script, or a file. In all four ways."""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool

from agent_factory.testing.responses import Said


class SpeakingModel(BaseChatModel):
    """Says what `_say` decides."""

    @abstractmethod
    def _say(
        self, messages: list[BaseMessage], stop: list[str] | None, kwargs: dict[str, Any]
    ) -> Said:
        """The answer to one request."""

    def bind_tools(
        self, tools: Sequence[Any], *, tool_choice: Any = None, **kwargs: Any
    ) -> Runnable[Any, AIMessage]:
        """Offer tools."""
        if tool_choice is not None:
            kwargs["tool_choice"] = tool_choice
        return self.bind(tools=[offered(tool) for tool in tools], **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        said = self._say(messages, stop, kwargs)
        time.sleep(said.reply.delay)
        return _result(said)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: Any = None,
        **kwargs: Any,
    ) -> ChatResult:
        said = self._say(messages, stop, kwargs)
        await asyncio.sleep(said.reply.delay)
        return _result(said)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        said = self._say(messages, stop, kwargs)
        time.sleep(said.reply.delay)
        yield from said.chunks()

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: Any = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        said = self._say(messages, stop, kwargs)
        await asyncio.sleep(said.reply.delay)
        for chunk in said.chunks():
            yield chunk


def _result(said: Said) -> ChatResult:
    return ChatResult(generations=[ChatGeneration(message=said.whole())])


def offered(tool: Any) -> dict[str, Any]:
    """A tool as a model is told of it; a provider's own tool as it is."""
    if isinstance(tool, dict) and tool.get("type") != "function":
        return tool
    return convert_to_openai_tool(tool)


def tool_name(tool: dict[str, Any]) -> str:
    """The name of an offered tool; of a provider's tool without one, its type."""
    return str(tool.get("function", tool).get("name") or tool.get("type"))
