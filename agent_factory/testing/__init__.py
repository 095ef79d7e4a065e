"""For tests of agents and middleware: a chat model that says what it was told to say."""

from __future__ import annotations

from agent_factory.testing.scripted import ModelCallRecord, ScriptedChatModel, ScriptError

__all__ = ["ModelCallRecord", "ScriptError", "ScriptedChatModel"]
