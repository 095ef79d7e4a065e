"""The agent that all servers serve: it answers at no cost, without a tool call."""

from __future__ import annotations

from agent_factory import create_agent
from agent_factory.testing import ScriptedChatModel

ANSWER = "Hello!"

agent = create_agent(
    ScriptedChatModel([ANSWER] * 1_000_000),
    ignore=["AF211"],  # no checkpointer: each server has one
)
