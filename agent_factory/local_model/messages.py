"""Conversations as the local model needs them: the turn that is open, and the wire format."""

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

# Blocks that carry no text for the model and may be passed over; others are refused.
SILENT_BLOCKS = frozenset({"reasoning", "thinking", "tool_use", "tool_call", "tool_call_chunk"})
TEXT_BLOCKS = frozenset({"text", "text-plain", "tool_result"})


@dataclass(frozen=True)
class Asked:
    """What the previous answer asked the user for.

    Attributes:
        tool: name of the tool whose arguments were incomplete.
        missing: the parameters that were asked for.
        before: what the user had said until then.
    """

    tool: str
    missing: tuple[str, ...]
    before: str


@dataclass(frozen=True)
class Turn:
    """What the user wants now.

    Attributes:
        text: the newest words of the user.
        results: results of the tools that were called since.
        asked: set if these words answer a question for missing arguments.
    """

    text: str
    results: tuple[str, ...] = ()
    asked: Asked | None = None


def read_turn(messages: Sequence[BaseMessage]) -> Turn:
    """The open turn of a conversation.

    Raises:
        ValueError: there is no message of a user or a tool to answer, or one is no text.
    """
    newest = _newest_human(messages)
    results = [message for message in messages[newest + 1 :] if _is_result(message)]
    if newest < 0 and not results:
        got = f"only messages of type {messages[-1].type}" if messages else "no message"
        raise ValueError(
            f"LocalChatModel got {got}: there is nothing of a user or a tool to answer. "
            "Add a HumanMessage."
        )
    text = text_of(messages[newest]) if newest >= 0 else ""
    return Turn(text, tuple(map(text_of, results)), _asked(messages, newest))


def _newest_human(messages: Sequence[BaseMessage]) -> int:
    spoken = (at for at, message in enumerate(messages) if not _is_result(message))
    return max((at for at in spoken if _role(messages[at]) == "user"), default=-1)


def _is_result(message: BaseMessage) -> bool:
    return isinstance(message, ToolMessage | FunctionMessage)


def _asked(messages: Sequence[BaseMessage], newest: int) -> Asked | None:
    question = messages[newest - 1].response_metadata.get(ASKED_FOR) if newest > 0 else None
    if not isinstance(question, Mapping):
        return None
    return Asked(question["tool"], tuple(question["missing"]), question["text"])


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
    return _whole(str(message.text))


def _whole(text: str) -> str:
    """Halves of surrogate pairs joined; a half on its own is no text and becomes U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def wire(messages: Sequence[BaseMessage], instruction: str = "") -> list[dict[str, str]]:
    """The conversation as the chat endpoint takes it: one system turn, then user and assistant.

    Small models know these three roles only: tool results are told by the user, and neighbours
    with one role are joined. `instruction` is added to what the user said last.
    """
    turns = [(_role(message), _said(message)) for message in messages]
    system = [text for role, text in turns if role == "system" and text]
    talk = [(role, text) for role, text in turns if role != "system"]
    if instruction:
        talk.append(("user", instruction))
    head = [{"role": "system", "content": "\n".join(system)}] if system else []
    return head + _concat_updates(talk)


def _concat_updates(talk: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    joined: list[dict[str, str]] = []
    for role, text in talk:
        if joined and joined[-1]["role"] == role:
            joined[-1]["content"] = f"{joined[-1]['content']}\n{text}".strip()
        elif text or role == "user":
            joined.append({"role": role, "content": text})
    return joined


def _said(message: BaseMessage) -> str:
    text = unmarked(text_of(message))
    return f"Tool result: {in_words(text)}" if _is_result(message) else text


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
        f"LocalChatModel does not know what to do with {message!r}: it takes messages of system, "
        "user, assistant and tools."
    )
