"""A tool and a model that tests of steering hold at a point, and let go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Semaphore
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from typing_extensions import TypedDict

from agent_factory import AgentMiddleware, AgentState, create_agent
from agent_factory.middleware import SteeringMiddleware
from agent_factory.testing import ScriptedChatModel

WAIT = 60.0


class Mood(AgentState):
    mood: str


class Settings(TypedDict, total=False):
    user: str | None


class Moody(AgentMiddleware[Mood, Any]):
    """A key of the state that an input can set."""

    state_schema = Mood


class Stage:
    """A tool that goes on when the test says so, and a model that repeats what it has read."""

    def __init__(self) -> None:
        self._begun, self._goes_on = Semaphore(0), Semaphore(0)
        self.calls: list[list[str]] = []
        self.at_answer: list[Callable[[], object]] = []

    def work(self) -> str:
        """Work."""
        self._begun.release()
        assert self._goes_on.acquire(timeout=WAIT)
        return "worked"

    def wait_until_it_works(self) -> None:
        """Wait until the tool works, once for each time."""
        assert self._begun.acquire(timeout=WAIT)

    def go_on(self, times: int = 1) -> None:
        """Let the tool end."""
        self._goes_on.release(times)

    def answer(self, messages: list[BaseMessage]) -> AIMessage:
        texts = [str(message.text) for message in messages if message.type == "human"]
        self.calls.append(texts)
        last = messages[-1]
        if last.text.startswith("fail"):
            raise ValueError("the model is out of order")
        if isinstance(last, HumanMessage) and last.text.startswith("work"):
            return AIMessage("", tool_calls=[{"name": "work", "args": {}, "id": f"{len(texts)}"}])
        if self.at_answer:
            self.at_answer.pop()()
        return AIMessage(f"Read: {', '.join(texts)}")

    def agent(self, *middleware: Any, steered: bool = True, **options: Any) -> Any:
        steering = [SteeringMiddleware()] if steered else []
        return create_agent(
            ScriptedChatModel([self.answer] * 1000),
            [self.work],
            middleware=[*steering, Moody(), *middleware],
            checkpointer=InMemorySaver(),
            context_schema=Settings,
            **options,
        )


@pytest.fixture
def stage() -> Iterator[Stage]:
    """A stage that holds nobody when the test has ended."""
    new_stage = Stage()
    yield new_stage
    new_stage.go_on(1000)
