"""Loads of messages, an agent for them, and a service that runs it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from uuid import uuid4

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.config import get_stream_writer

from agent_factory import create_agent
from agent_factory.testing import ScriptedChatModel
from benchmarks.contenders import OURS

SLOTS = 8
"""Runs at once, in a service and in plain LangGraph."""

SERVICE, PLAIN = "service", "langgraph alone"

PATIENCE = 300.0
"""Seconds that a result is waited for."""


class Load(NamedTuple):
    """Messages that are submitted at once.

    Args:
        calls: Tool calls of a message, one a turn; the model is called once more.
        seconds: How long each call of the model takes.
        messages: How many messages, each on a thread of its own.
    """

    calls: int
    seconds: float
    messages: int

    def __str__(self) -> str:
        calls = {0: "no tool call", 1: "1 tool call"}.get(self.calls, f"{self.calls} tool calls")
        return f"{calls}, {self.seconds * 1000:.0f} ms a model call"

    def scaled(self, share: float) -> Load:
        """A share of the messages, from a model that takes a share of the time."""
        messages = max(2, round(self.messages * share))
        return Load(self.calls, self.seconds * share, messages)


def new_agent(load: Load, **options: Any) -> Any:
    """An agent that calls a tool a few times for each message, and then answers."""

    def answer(messages: list[BaseMessage]) -> AIMessage:
        time.sleep(load.seconds)
        done = _calls_of_last_message(messages)
        if done == load.calls:
            return AIMessage("Paid.")
        call = {"name": "pay", "args": {"euros": done}, "id": f"call-{uuid4().hex[:8]}"}
        return AIMessage("", tool_calls=[call])

    def pay(euros: int) -> str:
        """Pay a bill."""
        get_stream_writer()({"at": time.time()})
        return f"Paid {euros}."

    return create_agent(ScriptedChatModel([answer] * 100_000), [pay], **options)


def _calls_of_last_message(messages: list[BaseMessage]) -> int:
    number = 0
    # From the end: a thread may have a thousand messages before.
    for message in reversed(messages):
        if isinstance(message, HumanMessage):
            break
        number += isinstance(message, ToolMessage)
    return number


@contextmanager
def new_service(url: str, load: Load, **options: Any) -> Iterator[Any]:
    """A service with such an agent; its worker is not started."""
    from agent_factory.service import Service

    service = Service(url)
    service.add(OURS, new_agent(load, **options))
    try:
        yield service
    finally:
        service.close()


def start(service: Any) -> None:
    """Start a worker, and let it carry out its first message."""
    service.start(slots=SLOTS)
    submit_all(service, 1)


def submit_all(service: Any, number: int) -> None:
    """Submit so many messages at once, each on a new thread, and wait for their results."""
    runs = [service.submit(OURS, message="Pay.") for _ in range(number)]
    for run in runs:
        run.result(timeout=PATIENCE)
