"""Agents with some middleware, of a model or of the steps of a scripted model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_core.messages import AIMessage
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver

from agent_factory import create_agent
from agent_factory.testing import ScriptedChatModel


def agent_of(model: Any, *stack: Any, tools: Any = (), **options: Any) -> Any:
    """An agent of a model, or of the steps of a scripted model."""
    model = ScriptedChatModel(model) if isinstance(model, list) else model
    return create_agent(model, tools, middleware=stack, **options)


def kept_agent(model: Any, *stack: Any, **options: Any) -> Any:
    """Such an agent that keeps its threads in memory."""
    return agent_of(model, *stack, checkpointer=InMemorySaver(), **options)


def reply(call: Callable[..., Any], model: Any, *stack: Any, **options: Any) -> AIMessage:
    """The last message of such an agent; `call` runs it."""
    message: AIMessage = call(agent_of(model, *stack, **options), {"messages": "Go on"})[
        "messages"
    ][-1]
    return message


def calling(agent: Any, name: str) -> StructuredTool:
    """A tool whose function, sync and async, calls an agent as an author's own code does."""

    def call(request: str) -> str:
        return str(agent.invoke({"messages": request})["messages"][-1].text)

    async def acall(request: str) -> str:
        return str((await agent.ainvoke({"messages": request}))["messages"][-1].text)

    return StructuredTool.from_function(call, acall, name=name, description="Ask an agent.")
