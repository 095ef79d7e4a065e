"""Conversations for the local model: the open turn, and the messages of the chat endpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from agent_factory.local_model.prompts import in_words, unmarked

ASKED_FOR = "asked_for"
"""Key in the response metadata of a question that asks for missing arguments."""

# Blocks without text for the model are left out; unknown ones are refused.
SILENT_BLOCKS = frozenset({"reasoning", "thinking", "tool_use", "tool_call", "tool_call_chunk"})
TEXT_BLOCKS = frozenset({"text", "text-plain", "tool_result"})


@dataclass(frozen=True)
class Asked:
    """A question for missing arguments.

    Attributes:
        tool: the name of the tool.
        missing: the parameters that the question asks for.
        before: the user's messages before it.
    """

    tool: str
    missing: tuple[str, ...]
    before: str


@dataclass(frozen=True)
class Turn:
    """The open turn of a conversation.

    Attributes:
        text: the last message of the user.
        results: the results of the tools that were called since.
        asked: the question that this message follows, if there is one.
    """

    text: str
    results: tuple[str, ...] = ()
    asked: Asked | None = None


def read_turn(messages: Sequence[BaseMessage]) -> Turn:
    """The open turn of a conversation.

    Raises:
        ValueError: there is no user message or tool result to answer, or one has other content.
    """
    spoken = (at for at, message in enumerate(messages) if not _is_result(message))
    newest = max((at for at in spoken if _role(messages[at]) == "user"), default=-1)
    results = [message for message in messages[newest + 1 :] if _is_result(message)]
    if newest < 0 and not results:
        got = f"only messages of type {messages[-1].type}" if messages else "no message"
        raise ValueError(
            f"LocalChatModel needs a user message or a tool result to answer, got {got}. "
            "Add a HumanMessage."
        )
    text = text_of(messages[newest]) if newest >= 0 else ""
    question = messages[newest - 1].response_metadata.get(ASKED_FOR) if newest > 0 else None
    asked = None
    if isinstance(question, Mapping):
        asked = Asked(question["tool"], tuple(question["missing"]), question["text"])
    return Turn(text, tuple(map(text_of, results)), asked)


def _is_result(message: BaseMessage) -> bool:
    return isinstance(message, ToolMessage | FunctionMessage)


def text_of(message: BaseMessage) -> str:
    """The text of a message.

    Raises:
        ValueError: it holds an image, a file or another block that this model can't read.
    """
    blocks = message.content if isinstance(message.content, list) else []
    kinds = [str(block.get("type")) for block in blocks if isinstance(block, dict)]
    unreadable = [kind for kind in kinds if kind not in SILENT_BLOCKS | TEXT_BLOCKS]
    if unreadable:
        raise ValueError(
            f"LocalChatModel reads text only, and a {message.type} message holds a block of type "
            f"{unreadable[0]!r}. Leave it out or use another model."
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
        if _is_result(message):
            text = f"Tool result: {in_words(text)}"
        if role != "system":
            talk.append((role, text))
        elif text:
            system.append(text)
    if instruction:
        talk.append(("user", instruction))
    joined: list[dict[str, str]] = []
    for role, text in talk:
        if joined and joined[-1]["role"] == role:
            joined[-1]["content"] = f"{joined[-1]['content']}\n{text}".strip()
        elif text or role == "user":
            joined.append({"role": role, "content": text})
    head = [{"role": "system", "content": "\n".join(system)}] if system else []
    return head + joined


def _role(message: BaseMessage) -> str:
    match message:
        case SystemMessage():
            return "system"
        case HumanMessage() | ToolMessage() | FunctionMessage():
            return "user"
        case AIMessage():
            return "assistant"
        case ChatMessage() if message.role in ("system", "user", "assistant"):
            return message.role
    raise ValueError(
        f"LocalChatModel takes system, user, assistant and tool messages, got {message!r}."
    )
