"""Calls and results in the words of the local model."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage, ToolMessage


def function(**properties: Any) -> dict[str, Any]:
    """A function as a model reads it."""
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return {"name": "act", "description": "Do it.", "parameters": parameters}


def call(**args: Any) -> AIMessage:
    """A message that looks an order up."""
    return AIMessage("", tool_calls=[{"name": "find_order", "args": args, "id": "1"}])


def result(text: str) -> ToolMessage:
    """The result of the call."""
    return ToolMessage(text, tool_call_id="1")
