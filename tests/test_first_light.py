"""The shortest agent works."""

from __future__ import annotations

from typing import Any

from agent_factory import create_agent
from agent_factory.testing import ScriptedChatModel
from samples import add


def test_a_model_calls_a_tool_and_answers(call: Any) -> None:
    model = ScriptedChatModel([[{"name": "add", "args": {"a": 2, "b": 3}}], "It is 5."])
    result = call(create_agent(model, [add]), {"messages": [("user", "2 + 3?")]})
    assert [m.type for m in result["messages"]] == ["human", "ai", "tool", "ai"]
    assert result["messages"][-1].text == "It is 5."
    model.assert_done()
