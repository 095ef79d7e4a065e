"""Messages in a form that a model of any provider can read.

A thread holds what its models said in their providers' own form: thoughts with signatures, cache
marks, ids of responses, calls of tools that the provider ran. Another provider refuses most of it.
What is left here are LangChain's standard forms; what cannot be put so is named, not hidden.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

__all__ = ["portable_message", "portable_messages"]

MessageT = TypeVar("MessageT", bound=BaseMessage)

_THOUGHTS = {"thinking", "redacted_thinking", "reasoning", "reasoning_content", "thought"}

_CALLS = {
    "tool_use",
    "tool_call",
    "tool_call_chunk",
    "function_call",
    "invalid_tool_call",
    "input_json_delta",
}
"""Calls as part of the content; `tool_calls` has them in the form that every model is given."""

_MARKS = {"cachePoint", "cache_point", "cache_control"}
"""Blocks that hold nothing but a provider's mark, by type or by their only key."""

_DATA_KEYS = {
    "image": ("base64", "url"),
    "audio": ("base64", "url"),
    "video": ("base64", "url"),
    "file": ("base64", "url"),
    "text-plain": ("text", "base64", "url"),
}
"""LangChain's standard blocks with the keys of which one holds the data itself.

A `file_id` is none of them: it names a file at one provider.
"""

_DATA_EXTRAS = ("type", "mime_type", "title")


def portable_messages(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Each message in a portable form, without those of which nothing is left."""
    return [portable for m in messages if (portable := portable_message(m)) is not None]


def portable_message(message: BaseMessage) -> BaseMessage | None:
    """A message in a form that every provider's model can be shown; None if nothing is left.

    Args:
        message: Any message. It stays as it is; one that is portable already is returned itself.

    >>> thinking = {"type": "thinking", "thinking": "2 + 2 ...", "signature": "x"}
    >>> said = AIMessage([thinking, {"type": "text", "text": "Four."}])
    >>> portable_message(said).content
    'Four.'
    """
    if isinstance(message, AIMessage):
        return _portable_answer(message)
    content = _portable_content(message.content)
    if not content and message.content and not isinstance(message, ToolMessage):
        return None  # nothing but marks; a tool message stays, for it answers a call
    return _with(message, {"content": content})


def _portable_answer(message: AIMessage) -> AIMessage | None:
    content = _portable_content(message.content)
    if not isinstance(content, str):
        content = "".join(map(_as_text, content))
    if not (content or message.tool_calls or message.invalid_tool_calls):
        return None  # providers refuse an empty message of the assistant
    return _with(message, {"content": content})


def _as_text(part: Mapping[str, Any]) -> str:
    """A part of an assistant's message: what it drew or spoke cannot be shown to others."""
    return str(part["text"]) if part["type"] == "text" else _left_out(part["type"])["text"]


def _with(message: MessageT, update: dict[str, Any]) -> MessageT:
    """The message with some fields changed, and without what its provider added to it."""
    update["additional_kwargs"] = {
        key: value for key, value in message.additional_kwargs.items() if key.startswith("lc_")
    }
    update["response_metadata"] = {}
    if all(getattr(message, field) == value for field, value in update.items()):
        return message
    return message.model_copy(update=update)


def _portable_content(content: Any) -> Any:
    return content if isinstance(content, str) else list(_parts(content))


def _parts(content: Sequence[Any]) -> Iterator[dict[str, Any]]:
    for block in content:
        part = _part({"type": "text", "text": block} if isinstance(block, str) else block)
        if part is not None:
            yield part


def _part(block: Mapping[str, Any]) -> dict[str, Any] | None:
    """A block of content in LangChain's standard form; None where it says nothing to others."""
    kind = str(block.get("type") or next(iter(block), ""))
    if kind == "text":
        return {"type": "text", "text": block["text"]} if block.get("text") else None
    if kind == "image_url":  # understood nearly everywhere, also by older integrations
        return {"type": "image_url", "image_url": block.get("image_url")}
    if kind in _THOUGHTS | _CALLS | _MARKS or _is_server_tool(kind):
        return None
    return _data(block) or _left_out(kind)


def _is_server_tool(kind: str) -> bool:
    """Whether the block is a call that the provider ran itself, or the result of one."""
    return kind.startswith("server_tool") or kind.endswith(("_tool_result", "_call", "_tool_use"))


def _data(block: Mapping[str, Any]) -> dict[str, Any] | None:
    try:
        (standard,) = HumanMessage([dict(block)]).content_blocks
    except Exception:  # a malformed block: whatever LangChain's readers raise for it
        return None
    found: Mapping[str, Any] = standard
    for key in _DATA_KEYS.get(found["type"], ()):
        if found.get(key):
            return {name: found[name] for name in (*_DATA_EXTRAS, key) if name in found}
    return None


def _left_out(kind: str) -> dict[str, Any]:
    text = f"[Left out here: a {kind} block, which only another provider's model can read.]"
    return {"type": "text", "text": text}
