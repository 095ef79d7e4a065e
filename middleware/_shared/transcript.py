"""A conversation as text in a question to a model."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from math import ceil

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from agent_factory.providers.thoughts import THOUGHT_BLOCKS

from .messages import CALL_BLOCKS

_ROLES = {"human": "User", "ai": "Assistant", "system": "System"}

# Keys of content blocks with a file or a reference to a file.
_ATTACHMENTS = frozenset(
    {"audio", "document", "file", "image", "input_audio", "video"}
    | {"base64", "data", "file_data"}
    | {"file_id", "file_uri", "file_url", "image_url", "source", "url"}
)

# Keys, at any depth of a block, whose value may be the address of a file.
_ADDRESSES = ("url", "uri", "image_url", "file_url", "file_uri", "source")

# Keys of content blocks for their provider alone.
_OPAQUE = frozenset(
    {"encrypted_content", "encrypted_index", "encrypted_stdout"}
    | {"extras", "signature", "thought_signature"}
)


def render(message: BaseMessage) -> str:
    """A message as text: its author and content, and its tool calls."""
    text = _text(message.content)
    if isinstance(message, ToolMessage):
        failed = " failed" if message.status == "error" else ""
        return f"Tool {message.name or message.tool_call_id}{failed}: {text}"
    lines = []
    if isinstance(message, AIMessage):
        calls = [*message.tool_calls, *message.invalid_tool_calls]
        lines = [f"Assistant called {call['name']} with {to_json(call['args'])}" for call in calls]
    if text or not lines:
        lines.insert(0, f"{_ROLES.get(message.type, message.type)}: {text}")
    return "\n".join(lines)


def _text(content: str | list[str | dict[object, object]]) -> str:
    if isinstance(content, str):
        return content
    return " ".join(filter(None, map(_block_text, content)))


def _block_text(block: object) -> str:
    if not isinstance(block, dict):
        return str(block)
    kind = block.get("type")
    if kind in THOUGHT_BLOCKS or kind in CALL_BLOCKS:  # `render` shows the calls itself
        return ""
    # LangChain wraps a block like this if the type is unknown.
    if kind == "non_standard" and isinstance(block.get("value"), dict):
        return _block_text(block["value"])
    if isinstance(block.get("text"), str):
        return str(block["text"])
    links = " ".join(_links(block))
    if isinstance(block.get("content"), list):
        return " ".join(filter(None, (_title(block), links, _text(block["content"]))))
    if _ATTACHMENTS & block.keys():
        name = " ".join(filter(None, (_title(block), links)))
        return f"[{': '.join(filter(None, (kind or 'attachment', name)))}]"
    return to_json({key: value for key, value in block.items() if key not in _OPAQUE})


def links_of(message: BaseMessage) -> list[str]:
    """The addresses of files in a message, such as images."""
    return [] if isinstance(message.content, str) else list(_links(message.content))


def _links(value: object, key: str = "") -> Iterator[str]:
    # A data URL holds the file itself.
    if key in _ADDRESSES and isinstance(value, str) and re.match(r"(?!data:)\w+://\S+$", value):
        yield value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _links(inner, str(name))
    elif isinstance(value, list):
        for inner in value:
            yield from _links(inner)


def _title(block: dict[object, object]) -> str:
    return str(block.get("title") or block.get("filename") or "")


def to_json(value: object) -> str:
    """A value as JSON for a model; a text stays unchanged."""
    return value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)


def shortened(text: str, most: int, mark: str = "...") -> str:
    """The beginning of a text, with a mark if the text is cut."""
    return text if len(text) <= most else f"{text[:most]}{mark}"


def pages(
    texts: Iterable[str], limit: int | None, count: Callable[[str], float]
) -> Iterator[tuple[int, str]]:
    """All of the texts, in order, in pages of at most `limit` tokens; a longer text is split.

    Each page comes with the index of the text at its beginning.
    """
    page: list[str] = []
    room = float("inf") if limit is None else limit
    used_room, first = 0.0, 0
    for index, text in enumerate(texts):
        # Equal parts, so that no page holds a few last words alone.
        parts = max(1, ceil(count(text) / room))
        width = max(1, ceil(len(text) / parts))
        for start in range(0, len(text), width):
            piece = text[start : start + width]
            cost = count(piece)
            if page and used_room + cost > room:
                yield first, "\n".join(page)
                page, used_room = [], 0.0
            if not page:
                first = index
            page.append(piece)
            used_room += cost
    if page:
        yield first, "\n".join(page)
