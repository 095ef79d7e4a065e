"""Recall of messages outside of a request: the references of a model, and the results."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from typing import Final

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, ToolMessage
from langchain_core.tools import BaseTool

from .transcript import render, shortened

RECALLS: Final = {"recalls": "messages"}
"""`metadata` of the tool that brings messages back, by which other layers find it."""

LIST: Final = "list"
"""What the tool takes in place of an id to list all messages."""

_MAX_LINE = 100  # characters of a message in the list


def recall_tool(tools: Sequence[BaseTool | dict[str, object]]) -> str | None:
    """The name of the offered tool for bringing messages back; None without one."""
    for tool in tools:
        # By the metadata, because the user may give the tool another name.
        if isinstance(tool, BaseTool) and (tool.metadata or {}).items() >= RECALLS.items():
            return tool.name
    return None


def how_to_recall(tool: str, message: BaseMessage) -> str:
    """The call that brings a message back."""
    return f"{tool}(id={json.dumps(message.id or getattr(message, 'tool_call_id', ''))})"


def find_message(messages: Sequence[AnyMessage], id_: str) -> AnyMessage | None:
    """The message of an id, a number or the id of a tool call; of several, the newest."""
    for message in reversed(messages):
        if message.id == id_:
            return message
    for message in reversed(messages):
        if isinstance(message, ToolMessage) and message.tool_call_id == id_:
            return message
    number = id_.removeprefix("#")
    # `isdigit` is true of signs refused by `int`, such as "²".
    if number.isascii() and number.isdigit() and 1 <= int(number) <= len(messages):
        return messages[int(number) - 1]
    return None


def list_messages(messages: Sequence[AnyMessage]) -> str:
    """A line for each message: the number, and the beginning of the text."""
    texts = (" ".join(render(message).split()) for message in messages)
    return "\n".join(f"#{n} {shortened(text, _MAX_LINE)}" for n, text in enumerate(texts, start=1))


def whole_text(message: BaseMessage, content: object) -> str:
    """All of a message as text: strings as they are, the rest as JSON."""
    keys = ("tool_calls", "invalid_tool_calls") if isinstance(message, AIMessage) else ()
    calls = {key: raw for key in keys if (raw := getattr(message, key))}
    if isinstance(content, str) and not calls:
        return content
    return json.dumps(
        {"content": content, **calls} if calls else content,
        ensure_ascii=False,
        # Some providers put the bytes of an image into a block.
        default=lambda value: (
            {"base64": b64encode(value).decode()} if isinstance(value, bytes) else repr(value)
        ),
    )
