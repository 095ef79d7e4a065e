"""Check that the results of a tool call name the call that they answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import ToolCall, ToolMessage
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from agent_factory.errors import WrongToolCallId
from agent_factory.state.history import messages_in, stray_result

TOOL_HINT = (
    "Return the content alone, or write tool_call_id=tool_call_id in a tool with a parameter "
    "`tool_call_id: Annotated[str, InjectedToolCallId]`."
)
LAYER_HINT = "Write tool_call_id=request.tool_call['id']."


def check_result(name: str, request: ToolCallRequest, result: Any, hint: str = LAYER_HINT) -> None:
    """Check that what a tool or a layer returned answers no other call than that of its request.

    The history that a command passes on, and calls that it brings along, keep their results.

    Args:
        name: The tool or the layer, for the error.
        request: What it was called with.
        result: What it returned: a message, a command, or a list of them.
        hint: What to write instead.

    Raises:
        WrongToolCallId: A message has another `tool_call_id`.
    """
    if isinstance(result, ToolMessage) and result.tool_call_id == request.tool_call["id"]:
        return  # nearly always
    messages: list[Any] = []
    for part in result if isinstance(result, list) else [result]:
        messages += messages_in(part.update) if isinstance(part, Command) else [part]
    state = request.state
    history = state.get("messages") or () if isinstance(state, Mapping) else ()
    expected = request.tool_call["id"]
    if (got := stray_result(messages, {expected}, history)) is not None:
        raise wrong_call_id(name, expected, got, hint)


def wrong_call_id(name: str, expected: Any, got: str, hint: str) -> WrongToolCallId:
    """Return the error of a tool or a layer whose result names another call."""
    return WrongToolCallId(
        name,
        f"returned a result with another tool_call_id than that of its call: expected "
        f"{expected!r}, got {got!r}. The call may have had its effect.",
        hint,
    )
