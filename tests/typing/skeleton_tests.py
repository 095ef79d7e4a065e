# ruff: noqa: I001 - where a new file is written, its module is first-party
"""Tests of AuditTrail."""

from __future__ import annotations

import asyncio
from typing import Any

from agent_factory import AgentMiddleware, create_agent, plan_agent
from agent_factory.testing import ScriptedChatModel

from skeleton import (
    AuditTrail,
)

QUESTION: Any = {"messages": [("user", "Find tea")]}


def find(query: str) -> str:
    """Find something."""
    return query.upper()


def agent(*stack: AgentMiddleware[Any, Any]) -> Any:
    """An agent that calls its tool once and then answers."""
    call = {"name": "find", "args": {"query": "tea"}}
    model = ScriptedChatModel([[call], "There is TEA."])
    return create_agent(model, [find], middleware=stack)


def texts(result: Any) -> list[str]:
    return [message.text for message in result["messages"]]


def test_its_hooks_and_layers_are_in_the_plan() -> None:
    plan = plan_agent(tools=[find], middleware=[AuditTrail()])
    assert [str(hook.phase) for hook in plan.hooks] == [
        "before_agent",
        "before_model",
        "after_model",
        "after_agent",
    ]
    assert [layer.method for layer in plan.layers] == [
        "around_agent",
        "around_model",
        "around_stream",
        "around_tool",
    ]


def test_a_run_gives_the_same_with_and_without_it() -> None:
    result = agent(AuditTrail()).invoke(QUESTION)
    assert texts(result) == ["Find tea", "", "TEA", "There is TEA."]
    assert texts(result) == texts(agent().invoke(QUESTION))


def test_an_async_run_gives_the_same() -> None:
    built = agent(AuditTrail())
    result = asyncio.run(built.ainvoke(QUESTION))
    assert texts(result) == ["Find tea", "", "TEA", "There is TEA."]
