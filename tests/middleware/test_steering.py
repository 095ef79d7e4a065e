"""SteeringMiddleware."""

from __future__ import annotations

from typing import Any

from agent_factory import create_agent
from agent_factory.middleware import (
    SteeringMiddleware,
)
from agent_factory.testing import ScriptedChatModel
from samples import last_text


def test_it_changes_nothing_yet(call: Any) -> None:
    agent = create_agent(ScriptedChatModel(["Hello."]), middleware=[SteeringMiddleware()])
    assert last_text(call(agent, {"messages": "Hi"})) == "Hello."
