"""The last turn of a conversation: the model's message, and what has answered its calls."""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.messages.tool import ToolCall


def last_turn(messages: Sequence[AnyMessage]) -> tuple[AIMessage | None, list[AnyMessage]]:
    """The last AI message and what came after it."""
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if isinstance(message, AIMessage):
            return message, list(messages[index + 1 :])
    return None, []


def unanswered(message: AIMessage | None, tail: Sequence[AnyMessage]) -> list[ToolCall]:
    """The calls of a message that no result in `tail` answers."""
    answered = {m.tool_call_id for m in tail if isinstance(m, ToolMessage)}
    calls = message.tool_calls if message else []
    return [call for call in calls if call["id"] not in answered]


def given_up(messages: Sequence[AnyMessage]) -> list[ToolMessage]:
    """Answers to the calls of the last turn that will not run, for a run that ends here."""
    message, tail = last_turn(messages)
    unread = message.invalid_tool_calls if message else []
    answered = {m.tool_call_id for m in tail if isinstance(m, ToolMessage)}
    waiting = [*unanswered(message, tail), *(c for c in unread if c["id"] not in answered)]
    return [
        ToolMessage(
            "This call did not run: the run ended here.",
            tool_call_id=call["id"],
            name=call["name"],
            status="error",
        )
        for call in waiting
        if call["id"]
    ]
