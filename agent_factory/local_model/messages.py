"""Conversations for the local model: the open turn, and the messages of the chat endpoint."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

ASKED_FOR = "asked_for"
"""Key in the response metadata of a question that asks for missing arguments."""

# Blocks without text for the model are left out; unknown blocks are refused.
SILENT_BLOCKS = frozenset({"reasoning", "thinking", "tool_use", "tool_call", "tool_call_chunk"})
TEXT_BLOCKS = frozenset({"text", "text-plain", "tool_result"})


@dataclass(frozen=True)
class Turn:
    """The open turn of a conversation."""

    text: str
    """The last message of the user."""

    results: Sequence[str] = ()
    """The results of the tools that were called since."""

    asked: Mapping[str, Any] | None = None
    """What the message answers: a "tool", its "missing" parameters, the user's "text" before."""


def read_turn(messages: Sequence[BaseMessage]) -> Turn:
    """The open turn of a conversation; refuse one with nothing to answer."""
    roles = [_role(message) for message in messages]
    newest = max((at for at, role in enumerate(roles) if role == "user"), default=-1)
    results = [text_of(messages[at]) for at in range(newest + 1, len(roles)) if roles[at] == "tool"]
    if newest < 0:
        if not results:
            got = f"only messages of type {messages[-1].type}" if messages else "no message"
            raise ValueError(
                f"LocalChatModel needs a user message or a tool result to answer, got {got}. "
                "Add a HumanMessage."
            )
        return Turn("", results)
    question = messages[newest - 1].response_metadata.get(ASKED_FOR) if newest else None
    return Turn(
        text_of(messages[newest]), results, question if isinstance(question, Mapping) else None
    )


def text_of(message: BaseMessage) -> str:
    """The text of a message; refuse an image, a file or another unreadable block."""
    blocks = message.content if isinstance(message.content, list) else []
    for kind in [str(block.get("type")) for block in blocks if isinstance(block, dict)]:
        if kind not in SILENT_BLOCKS | TEXT_BLOCKS:
            raise ValueError(
                f"LocalChatModel reads text only, and a {message.type} message holds a block of "
                f"type {kind!r}. Leave it out or use another model."
            )
    # Joins surrogate pairs; a single surrogate cannot be encoded and becomes U+FFFD.
    return str(message.text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def wire(messages: Sequence[BaseMessage], instruction: str = "") -> list[dict[str, str]]:
    """The messages for the chat endpoint: a system message, then user and assistant.

    Small models know these three roles only: tool results become user messages, and neighbours
    with the same role are joined. `instruction` is added to the last user message.
    """
    system, talk = [], []
    for message in messages:
        role, text = _role(message), unmarked(text_of(message))
        if role == "tool":
            role, text = "user", f"Tool result: {in_words(text)}"
        if role != "system":
            talk.append((role, text))
        elif text:
            system.append(text)
    if instruction:
        talk.append(("user", instruction))
    turns: list[dict[str, str]] = []
    for role, text in talk:
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] = f"{turns[-1]['content']}\n{text}".strip()
        # A message of the assistant with only a call has no text.
        elif text or role == "user":
            turns.append({"role": role, "content": text})
    head = [{"role": "system", "content": "\n".join(system)}] if system else []
    return head + turns


def _role(message: BaseMessage) -> str:
    match message:
        case SystemMessage():
            return "system"
        case HumanMessage():
            return "user"
        case ToolMessage() | FunctionMessage():
            return "tool"
        case AIMessage():
            return "assistant"
        case ChatMessage() if message.role in ("system", "user", "assistant"):
            return message.role
    raise ValueError(
        f"LocalChatModel takes system, user, assistant and tool messages, got {message!r}."
    )


def one_line(text: str, longest: int | None = None) -> str:
    """The text on a line, cut after `longest` characters, without the model's control marks."""
    return unmarked(" ".join(text.split()))[:longest]


def unmarked(text: str) -> str:
    """The text with `<|` split, so that a user's text can't open or close a turn of the chat."""
    return text.replace("<|", "< |")


def in_words(result: str) -> str:
    """A tool's result in words: JSON becomes `key: value`.

    >>> in_words('{"order_id": "A-1001", "items": ["mug", "lamp"]}')
    'order id: A-1001, items: mug, lamp'
    """
    try:
        value = json.loads(result)
    except ValueError:
        return result
    return _spoken(value)


def _spoken(value: object) -> str:
    match value:
        case dict():
            pairs = (f"{key.replace('_', ' ')}: {_spoken(item)}" for key, item in value.items())
            return ", ".join(pairs)
        case list():
            between = "; " if any(isinstance(item, dict) for item in value) else ", "
            return between.join(map(_spoken, value))
        case str():
            return value
    return json.dumps(value)
