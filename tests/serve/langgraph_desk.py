"""Agents that tests of LangGraph's API serve."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import httpx
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph_sdk import get_sync_client
from langgraph_sdk.errors import APIStatusError

from agent_factory import create_agent
from agent_factory.middleware import HumanInTheLoopMiddleware
from agent_factory.serve import Principal
from agent_factory.service import Pace, Service
from agent_factory.testing import ScriptedChatModel
from serve.agents import ask, hold
from servers import served

REFUSED = (APIStatusError, httpx.HTTPStatusError)
"""What the client raises; `runs.wait` has its own error."""

HI: Any = {"messages": [{"role": "user", "content": "Hi"}]}


def echo(messages: list[BaseMessage]) -> AIMessage:
    hold(messages[-1].text)
    if "fail" in messages[-1].text:
        raise ValueError("the model is out of order")
    return AIMessage(f"You said: {messages[-1].text}")


def caller(name: str, **args: Any) -> ScriptedChatModel:
    def answer(messages: list[BaseMessage]) -> AIMessage:
        if isinstance(messages[-1], ToolMessage):
            return AIMessage("Done.")
        return AIMessage("", tool_calls=[{"name": name, "args": args, "id": uuid4().hex}])

    return ScriptedChatModel([answer] * 1000)


def pay(euros: int) -> str:
    """Pay a bill."""
    get_stream_writer()({"paying": euros})
    return f"Paid {euros}."


@contextmanager
def running_service(url: str, pace: Pace = Pace()) -> Iterator[Service]:  # noqa: B008
    """A service with the agents, and a worker that begins at once."""
    options: dict[str, Any] = {"checkpointer": InMemorySaver()}
    asks = [HumanInTheLoopMiddleware({"pay": True})]
    with Service(url, pace=pace) as made:
        made.add("echo", create_agent(ScriptedChatModel([echo] * 1000), **options))
        made.add("desk", create_agent(caller("pay", euros=5), [pay], middleware=asks, **options))
        made.add("asks", create_agent(caller("ask", about="it"), [ask], **options))
        yield made


@contextmanager
def two_tenants(service: Service) -> Iterator[tuple[Any, Any]]:
    """Clients of two tenants of a service."""

    def who(request: Any) -> Principal:
        return Principal(tenant=request.headers["x-tenant"], name="ann")

    with (
        served(service, authenticate=who) as url,
        get_sync_client(url=url, headers={"x-tenant": "a"}) as ours,
        get_sync_client(url=url, headers={"x-tenant": "b"}) as others,
    ):
        yield ours, others


def said(values: Any) -> list[str]:
    """The texts of the messages."""
    return [message["content"] for message in values["messages"]]
