"""What all contenders share: one model that costs nothing, and one tool."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.config import get_stream_writer


class Gate:
    """Holds runs at one place until all of them have come.

    Args:
        number: How many will come.
    """

    def __init__(self, number: int) -> None:
        self._missing = number
        self.full = asyncio.Event()
        self.open = asyncio.Event()

    async def wait(self) -> None:
        """Come, and stay until the gate opens."""
        self._missing -= 1
        if not self._missing:
            self.full.set()
        await self.open.wait()


class FreeModel(BaseChatModel):
    """Asks for a tool a number of times and then answers, at no cost: it looks at one length.

    Args:
        turns: How many answers ask for a tool.
        calls: How many calls each of them makes.
        before: How many messages the history has, before the question.
        size: The length of each answer's text, in characters.
        gate: Where async runs wait before their last answer, or None.
    """

    turns: int
    calls: int = 1
    before: int = 0
    size: int = 0
    gate: Any = None

    @property
    def _llm_type(self) -> str:
        return "free"

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> FreeModel:
        """Real models convert the tools here; this one only costs the call."""
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return self._answer(messages)

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        if self.gate is not None and self._turn(messages) == self.turns:
            await self.gate.wait()
        return self._answer(messages)

    def _turn(self, messages: list[BaseMessage]) -> int:
        # The question, then each turn an answer and the results of its calls.
        return (len(messages) - self.before - 1) // (1 + self.calls)

    def _answer(self, messages: list[BaseMessage]) -> ChatResult:
        turn = self._turn(messages)
        asked = range(self.calls if turn < self.turns else 0)
        calls: list[Any] = [
            {"name": "add", "args": {"a": turn, "b": index}, "id": f"call_{turn}_{index}"}
            for index in asked
        ]
        answer = AIMessage("x" * self.size, tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=answer)])


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def async_add() -> Callable[..., Any]:
    """The same tool as a coroutine function, which needs no thread in an async run."""

    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    return add


def writing_add() -> Callable[..., Any]:
    """The same tool, which also writes a custom event."""

    def add(a: int, b: int) -> int:
        """Add two numbers."""
        get_stream_writer()({"sum": a + b})
        return a + b

    return add


def async_writing_add() -> Callable[..., Any]:
    """The same as a coroutine function."""

    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        get_stream_writer()({"sum": a + b})
        return a + b

    return add


def wordy_add(size: int) -> Callable[..., Any]:
    """The same tool with a long answer, `size` characters."""

    def add(a: int, b: int) -> str:
        """Add two numbers."""
        return f"{a + b} ".ljust(size, "x")

    return add


def history(number: int) -> list[BaseMessage]:
    """An earlier conversation of so many messages, with the ids that a state gives them."""
    kinds: tuple[type[BaseMessage], ...] = (HumanMessage, AIMessage)
    return [kinds[i % 2](content=f"Message {i}.", id=f"old_{i}") for i in range(number)]


def new_functions(number: int) -> list[Callable[..., Any]]:
    """Functions that no factory has seen before."""
    return [_new_function(f"tool_{index}") for index in range(number)]


def _new_function(name: str) -> Callable[..., Any]:
    def function(city: str, days: int = 1) -> str:
        """Tell the weather."""
        return f"{city}: sun for {days} days"

    function.__name__ = name
    return function
