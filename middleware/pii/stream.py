"""Redaction of an answer while it is streamed.

Text that a match may begin or continue in is held back until it is complete; all other text is
released at once. The released pieces, joined, are the redacted whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from langchain_core.messages import AIMessageChunk
from langchain_core.messages.ai import add_ai_message_chunks
from langchain_core.outputs import ChatGenerationChunk

from agent_factory.middleware._shared.redaction import RedactionRule

from .messages import CALL_KEYS, EXTRAS, Guard, TextPath, is_call, map_answer

# Held text is examined again when it has grown by an eighth: so a text that never settles takes
# time proportional to its length.
_GROWTH = 8

# Parts of blocks that arrive as a whole, not piece by piece.
_WHOLE_KEYS = frozenset({"annotations", "citations", "output", "value"})


class TextStream:
    """Redaction of one text that arrives in pieces.

    >>> stream = TextStream(RedactionRule("email"))
    >>> [stream.feed(piece) for piece in ("Ask ada@", "example.", "com or ")], stream.close()
    (['Ask ', '', '[REDACTED_EMAIL] or '], '')
    """

    def __init__(self, rule: RedactionRule) -> None:
        self._rule = rule
        self._held: list[str] = []
        self._size = 0
        self._next_look = 0

    def feed(self, piece: str) -> str:
        """Add the next piece; return what can be released now."""
        self._held.append(piece)
        self._size += len(piece)
        if self._size < self._next_look:
            return ""
        text = "".join(self._held)
        cut = self._rule.settled(text)
        self._held, self._size = [text[cut:]], len(text) - cut
        self._next_look = self._size + self._size // _GROWTH
        return self._rule.apply(text[:cut])

    def close(self) -> str:
        """End the text; return the rest."""
        text = "".join(self._held)
        self._held, self._size, self._next_look = [], 0, 0
        return self._rule.apply(text)


class AnswerStream:
    """Redaction of an answer that arrives in chunks, each with parts of several texts and calls."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._texts: dict[TextPath, TextStream] = {}
        self._released: list[AIMessageChunk] = []
        self._calls: list[AIMessageChunk] = []  # redacted at the end, when they are complete
        self._last: list[AIMessageChunk] = []
        self._id: str | None = None

    def feed(self, chunk: ChatGenerationChunk) -> Iterator[ChatGenerationChunk]:
        """Add the next chunk; return the chunks that can be released now."""
        message = chunk.message
        if not isinstance(message, AIMessageChunk):
            raise TypeError(
                f"a chat model must stream AIMessageChunks, got {type(message).__name__}."
            )
        self._id = message.id or self._id
        if message.chunk_position:
            # The position marks the last chunk: keep it for the end.
            empty: Any = "" if isinstance(message.content, str) else []
            position = message.chunk_position
            self._last = [AIMessageChunk(content=empty, id=message.id, chunk_position=position)]
            message = message.model_copy(update={"chunk_position": None})
        if self._guard.redacts_calls:
            message = self._without_calls(message)
        if self._guard.text:
            update = map_answer(message, self._redact_piece)
            update[EXTRAS] = {key: value for key, value in update[EXTRAS].items() if value != ""}
            if isinstance(update["content"], list):
                update["content"] = [b for b in update["content"] if not _is_empty_block(b)]
            message = message.model_copy(update=update)
        released, self._released = self._released, []
        if (
            message.content
            or message.tool_call_chunks
            or message.additional_kwargs
            or message.response_metadata
            or message.usage_metadata
            or (chunk.generation_info and not released)
        ):
            released.append(message)
        parts = [ChatGenerationChunk(message=part) for part in released]
        # Details of the generation, such as the finish reason, go with the last chunk.
        if chunk.generation_info:
            parts[-1].generation_info = chunk.generation_info
        return iter(parts)

    def close(self) -> Iterator[ChatGenerationChunk]:
        """End the answer; return the chunks that were held back."""
        self._end_texts()
        released = self._released
        if self._calls:
            calls, guard = add_ai_message_chunks(*self._calls), self._guard
            released.append(
                AIMessageChunk(
                    id=self._id,
                    content=guard.redact_calls(calls.content),
                    additional_kwargs=guard.redact_raw_calls(calls.additional_kwargs),
                    tool_call_chunks=guard.redact_calls(calls.tool_call_chunks),
                )
            )
        return (ChatGenerationChunk(message=part) for part in [*released, *self._last])

    def _redact_piece(self, path: TextPath, text: str) -> str:
        """Feed the next piece of the text at a path; return what can be released."""
        if not text or not _WHOLE_KEYS.isdisjoint(path):
            return self._guard.rule.apply(text)
        if path not in self._texts:
            # Texts follow one another: where the answer begins, the reasoning before it is over.
            if any(other[:2] != path[:2] for other in self._texts):
                self._end_texts()
            self._texts[path] = TextStream(self._guard.rule)
        return self._texts[path].feed(text)

    def _end_texts(self) -> None:
        for path, stream in self._texts.items():
            if rest := stream.close():
                # Nest the rest at its path, so that it is merged into what was released before.
                value: Any = rest
                step: Any
                for step in reversed(path):
                    value = {step: value} if isinstance(step, str) else [{**dict(step), **value}]
                self._released.append(AIMessageChunk(id=self._id, **{"content": "", **value}))
        self._texts.clear()

    def _without_calls(self, message: AIMessageChunk) -> AIMessageChunk:
        """Keep the parts of calls for the end; return the chunk without them."""
        calls: Any = ""
        content: Any = message.content
        if isinstance(content, list):
            calls = [block for block in content if is_call(block)]
            content = [block for block in content if not is_call(block)]
        extras = message.additional_kwargs
        raw_calls = {key: value for key, value in extras.items() if key in CALL_KEYS}
        if not (calls or raw_calls or message.tool_call_chunks):
            return message
        kept = {"content": calls, EXTRAS: raw_calls, "tool_call_chunks": message.tool_call_chunks}
        self._calls.append(AIMessageChunk(**kept))
        empty: dict[str, Any] = {"tool_call_chunks": [], "tool_calls": [], "invalid_tool_calls": []}
        extras = {key: value for key, value in extras.items() if key not in raw_calls}
        return message.model_copy(update={**empty, "content": content, EXTRAS: extras})


def _is_empty_block(block: Any) -> bool:
    """Whether all text of a block is held back, and it contains nothing else."""
    if isinstance(block, dict):
        values = [value for key, value in block.items() if key not in ("type", "index")]
        return bool(values) and all(value in ("", []) for value in values)
    return bool(block == "")
