"""The plan of the agent stays as it is, until somebody means to change it."""

from __future__ import annotations

from typing import Any

from desk.agent import TOOLS, support_agent, support_stack

from agent_factory import plan_agent
from agent_factory.middleware import ModelRetryMiddleware
from agent_factory.testing import ScriptedChatModel, each_stack


def test_the_agent(topology_snapshot: Any) -> None:
    assert support_agent(ScriptedChatModel()) == topology_snapshot


@each_stack(
    {
        "bare": [],
        "support": support_stack,
        "with retry": lambda: [ModelRetryMiddleware(), *support_stack()],
    }
)
def test_a_family(agent_stack: Any, topology_snapshot: Any) -> None:
    assert plan_agent(tools=TOOLS, middleware=agent_stack) == topology_snapshot
