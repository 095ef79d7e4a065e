"""A conversation as text that a model can be asked about."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from math import ceil
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

_SPOKEN = {"human": "User", "ai": "Assistant", "system": "System"}

_TOLD_ELSEWHERE = {
    "thinking",
    "redacted_thinking",
    "reasoning",
    "reasoning_content",
    "tool_use",
    "tool_call",
    "invalid_tool_call",
    "function_call",
}
"""Content blocks that are no part of what was said: thoughts, and the calls listed on their own."""

_ATTACHED = {
    "audio",
    "base64",
    "data",
    "document",
    "file",
    "file_data",
    "file_id",
    "image",
    "image_url",
    "input_audio",
    "source",
    "url",
    "video",
}
"""Keys of content blocks that hold or point at a file."""

_OPAQUE = {
    "encrypted_content",
    "encrypted_index",
    "encrypted_stdout",
    "extras",
    "signature",
    "thought_signature",
}
"""Keys of content blocks that only their provider can read."""


def render(message: BaseMessage) -> str:
    """One message as a line or more: who said what, which tools were called, what came back.

    >>> render(ToolMessage("sunny", name="weather", tool_call_id="1"))
    'Tool weather: sunny'
    """
    return "\n".join(_lines(message))


def _lines(message: BaseMessage) -> Iterator[str]:
    said = _text(message.content)
    if isinstance(message, ToolMessage):
        failed = " failed" if message.status == "error" else ""
        yield f"Tool {message.name or message.tool_call_id}{failed}: {said}"
        return
    calls = _calls(message)
    if said or not calls:
        yield f"{_SPOKEN.get(message.type, message.type)}: {said}"
    yield from calls


def _calls(message: BaseMessage) -> list[str]:
    if not isinstance(message, AIMessage):
        return []
    calls = [*message.tool_calls, *message.invalid_tool_calls]
    return [f"Assistant called {call['name']} with {_json(call['args'])}" for call in calls]


def _text(content: str | list[str | dict[Any, Any]]) -> str:
    if isinstance(content, str):
        return content
    return " ".join(filter(None, map(_block_text, content)))


def _block_text(block: Any) -> str:
    if not isinstance(block, dict):
        return str(block)
    kind = block.get("type")
    if kind in _TOLD_ELSEWHERE:
        return ""
    if kind == "non_standard" and isinstance(block.get("value"), dict):
        return _block_text(block["value"])
    if isinstance(block.get("text"), str):
        return str(block["text"])
    if isinstance(block.get("content"), list):
        return " ".join(filter(None, (_title(block), _text(block["content"]))))
    if _ATTACHED & block.keys():
        return f"[{': '.join(filter(None, (kind or 'attachment', _title(block))))}]"
    return _json({key: value for key, value in block.items() if key not in _OPAQUE})


def _title(block: dict[Any, Any]) -> str:
    return str(block.get("title") or block.get("filename") or "")


def _json(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)


def pages(texts: Iterable[str], limit: int | None, count: Callable[[str], float]) -> Iterator[str]:
    """All of the texts, in order, as pages of at most `limit` tokens.

    A text longer than a page is cut; nothing is left out.

    Args:
        texts: What to put on the pages, each beginning on a line of its own.
        limit: Tokens a page; None puts all on one.
        count: Counts the tokens of a text.

    >>> list(pages(["one two", "three"], 2, lambda text: len(text.split())))
    ['one two', 'three']
    """
    page: list[str] = []
    room = float("inf") if limit is None else limit
    filled = 0.0
    for text in texts:
        for piece in _pieces(text, room, count):
            cost = count(piece)
            if page and filled + cost > room:
                yield "\n".join(page)
                page, filled = [], 0.0
            page.append(piece)
            filled += cost
    if page:
        yield "\n".join(page)


def _pieces(text: str, room: float, count: Callable[[str], float]) -> list[str]:
    width = max(1, ceil(len(text) / max(1, ceil(count(text) / room))))
    return [text[start : start + width] for start in range(0, len(text), width)]
