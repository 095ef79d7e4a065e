"""Messages of a model while they arrive, chunk by chunk."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.utils.utils import LC_ID_PREFIX


@dataclass
class PartialMessage:
    """The text and the calls of a message so far.

    LangChain adds up chunks, too, and reads the arguments of all calls again at each of them.

    Args:
        ids: The ids of its chunks.
        text: The text.
        calls: The name and the text of the arguments of each call.
    """

    ids: list[str] = field(default_factory=list)
    text: str = ""
    calls: dict[Any, tuple[str, str]] = field(default_factory=dict)

    def continues_with(self, chunk: AIMessage) -> bool:
        """Return True if a chunk belongs to this message, and does not begin another message."""
        if chunk.id in self.ids:
            return True
        # Some providers send an id with the first chunk only, and LangChain fills in the run's.
        is_run = [id_.startswith(LC_ID_PREFIX) for id_ in [*self.ids, chunk.id or ""]]
        return len(is_run) > 1 and is_run[-1] and not any(is_run[:-1])

    def add(self, chunk: AIMessage) -> None:
        """Add a chunk, or a whole message."""
        if chunk.id not in self.ids:
            self.ids.append(chunk.id or "")
        # The text alone: reasoning and other blocks do not belong to the answer.
        self.text += chunk.text
        for index, name, args in _pieces(chunk):
            key = index
            if index is None:  # a whole call, or more of the one before
                key = object() if name else next(reversed(self.calls), None)
            call = self.calls.get(key, ("", ""))
            self.calls[key] = call[0] + name, call[1] + args


def _pieces(message: AIMessage) -> Iterator[tuple[Any, str, str]]:
    """The index, the name and the arguments of each call in a chunk or a whole message."""
    if isinstance(message, AIMessageChunk):
        for chunk in message.tool_call_chunks:
            yield chunk["index"], chunk["name"] or "", chunk["args"] or ""
        return
    for number, call in enumerate([*message.tool_calls, *message.invalid_tool_calls]):
        args = call["args"]
        yield number, call["name"] or "", args if isinstance(args, str) else json.dumps(args or {})
