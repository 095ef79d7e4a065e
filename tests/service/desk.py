"""An agent whose effects outlive the process: what the tests of recovery run and count."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from agent_factory import ToolRuntime, create_agent
from agent_factory.middleware import HumanInTheLoopMiddleware
from agent_factory.service import Service
from agent_factory.testing import ScriptedChatModel


class Journal:
    """A file to which processes append lines; what was written survives a kill."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, *words: object) -> None:
        line = " ".join(map(str, words))
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, f"{line}\n".encode())
        os.close(file)

    def lines(self, kind: str) -> list[str]:
        """What was written after this word."""
        if not self._path.exists():
            return []
        found = self._path.read_text().splitlines()
        return [line.partition(" ")[2] for line in found if line.partition(" ")[0] == kind]

    def has(self, kind: str, number: int) -> bool:
        return len(self.lines(kind)) >= number

    def times(self, kind: str) -> Counter[str]:
        return Counter(self.lines(kind))


def take(seconds: float) -> None:
    """Work for some time, in a process that a test kills meanwhile."""
    time.sleep(seconds)  # waits: nobody in the process can be waited for


def calls_since(messages: Sequence[BaseMessage]) -> int:
    """How many results there are since the user spoke last."""
    last = max(at for at, one in enumerate(messages) if isinstance(one, HumanMessage))
    return sum(isinstance(one, ToolMessage) for one in messages[last:])


def make_desk(
    journal: Journal,
    *,
    calls: int = 2,
    seconds: float = 0.0,
    review: bool = False,
    middleware: Sequence[Any] = (),
    **options: Any,
) -> Any:
    """An agent that calls `pay` a few times for each message, one call a turn, and then answers."""

    def answer(messages: list[BaseMessage]) -> AIMessage:
        done = calls_since(messages)
        journal.write("model", messages[-1].id)
        take(seconds)
        if done == calls:
            return AIMessage("Paid.")
        call = {"name": "pay", "args": {"euros": done + 1}, "id": f"call-{os.urandom(4).hex()}"}
        return AIMessage("", tool_calls=[call])

    def pay(euros: int, runtime: ToolRuntime) -> str:
        """Pay a bill."""
        journal.write("start", runtime.tool_call_id)
        take(seconds)
        journal.write("pay", runtime.tool_call_id)
        return f"Paid {euros}."

    asks = [HumanInTheLoopMiddleware(interrupt_on={"pay": True})] if review else []
    return create_agent(
        ScriptedChatModel([answer] * 100_000),
        [pay],
        middleware=[*middleware, *asks],
        checkpointer=InMemorySaver(),
        **options,
    )


def check_history(messages: Sequence[BaseMessage], expected: Sequence[str]) -> None:
    """Each message once and in order, each call answered once, each turn ended."""
    assert [one.id for one in messages if isinstance(one, HumanMessage)] == [*expected]
    made = [call["id"] for one in messages if isinstance(one, AIMessage) for call in one.tool_calls]
    assert made == [one.tool_call_id for one in messages if isinstance(one, ToolMessage)]
    assert isinstance(messages[-1], AIMessage)
    assert not messages[-1].tool_calls


def status_of(service: Service, thread: str) -> str:
    return service.threads.get(thread).status


def waiting(service: Service, thread: str, agent: str = "desk") -> Any:
    """The decision that a new run of a thread waits for."""
    service.submit(agent, thread=thread, message="Pay.", message_id="m-1").result(60)
    (wait,) = service.inbox().waits(thread=thread)
    return wait
