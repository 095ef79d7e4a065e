"""An answer rewritten while it is still being given.

What a match might begin in, or go on in, is held back until it is complete; all else is let out
at once. The pieces, joined, are what the rule makes of the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from langchain_core.messages import AIMessageChunk
from langchain_core.messages.ai import add_ai_message_chunks

from agent_factory.middleware._shared.redaction.rules import RedactionRule
from agent_factory.middleware.pii.messages import (
    CALL_KEYS,
    EXTRAS,
    Guard,
    Path,
    is_call,
    spoken,
    walk,
)

_GROWTH = 8
"""A text that is held back is looked at again once it has grown by an eighth: without an end, it
takes time in proportion to its length."""


class TextStream:
    """One text that comes in pieces.

    Args:
        rule: What is applied to it.

    >>> stream = TextStream(RedactionRule("email"))
    >>> [stream.feed(piece) for piece in ("Ask ada@", "example.", "com or ")], stream.close()
    (['Ask ', '', '[REDACTED_EMAIL] or '], '')
    """

    def __init__(self, rule: RedactionRule) -> None:
        self._rule = rule
        self._held: list[str] = []
        self._size = 0
        self._look_at = 0

    def feed(self, piece: str) -> str:
        """Take the next piece; what can be let out now."""
        self._held.append(piece)
        self._size += len(piece)
        if self._size < self._look_at:
            return ""
        text = "".join(self._held)
        cut = self._rule.settled(text)
        self._hold(text[cut:])
        return self._rule.apply(text[:cut])

    def close(self) -> str:
        """There is no more; what was held back."""
        text = "".join(self._held)
        self._hold("")
        return self._rule.apply(text)

    def _hold(self, text: str) -> None:
        self._held, self._size = [text], len(text)
        self._look_at = self._size + self._size // _GROWTH


_WHOLE = frozenset({"annotations", "citations", "output", "value"})
"""Parts of blocks that come whole, and not piece by piece."""


class AnswerStream:
    """A model's answer that comes in chunks, each with parts of one or more texts and calls.

    Args:
        guard: What is applied to it. Calls that it looks at come out complete, at the end: what
            stands in them is known only then.
    """

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._texts: dict[Path, TextStream] = {}
        self._over: list[AIMessageChunk] = []
        self._calls: list[AIMessageChunk] = []
        self._last: list[AIMessageChunk] = []
        self._id: str | None = None

    def feed(self, chunk: AIMessageChunk) -> Iterator[AIMessageChunk]:
        """Take the next chunk; the chunks that can be let out now."""
        self._id = chunk.id or self._id
        if chunk.chunk_position:
            nothing: Any = "" if isinstance(chunk.content, str) else []
            self._last = [
                AIMessageChunk(content=nothing, id=chunk.id, chunk_position=chunk.chunk_position)
            ]
            chunk = chunk.model_copy(update={"chunk_position": None})
        if self._guard.guards_calls:
            chunk = self._without_calls(chunk)
        if self._guard.text:
            chunk = self._without_data(chunk)
        yield from self._over
        self._over = []
        if not _is_empty(chunk):
            yield chunk

    def close(self) -> Iterator[AIMessageChunk]:
        """There is no more; the chunks that were held back."""
        self._end_texts()
        yield from self._over
        if self._calls:
            yield self._complete_calls()
        yield from self._last

    def _without_data(self, chunk: AIMessageChunk) -> AIMessageChunk:
        extras = chunk.additional_kwargs
        extras = {**extras, **walk(spoken(extras), self._next, (EXTRAS,))}
        content = walk(chunk.content, self._next)
        if isinstance(content, list):
            content = [block for block in content if not _says_nothing(block)]
        extras = {key: value for key, value in extras.items() if value != ""}
        return chunk.model_copy(update={"content": content, EXTRAS: extras})

    def _next(self, path: Path, text: str) -> str:
        """The next piece of the text at a place."""
        if not text or not _WHOLE.isdisjoint(path):
            return self._guard.rule.apply(text)
        if path not in self._texts:
            # One follows on the other: where an answer begins, the reasoning before it is over.
            if any(other[:2] != path[:2] for other in self._texts):
                self._end_texts()
            self._texts[path] = TextStream(self._guard.rule)
        return self._texts[path].feed(text)

    def _end_texts(self) -> None:
        for path, stream in self._texts.items():
            if rest := stream.close():
                said = {"content": "", **_at(path, rest)}
                self._over.append(AIMessageChunk(id=self._id, **said))
        self._texts.clear()

    def _without_calls(self, chunk: AIMessageChunk) -> AIMessageChunk:
        """The chunk without what belongs to calls, which is kept."""
        made, said = _parted(chunk.content, is_call)
        raw = {key: value for key, value in chunk.additional_kwargs.items() if key in CALL_KEYS}
        if not (made or raw or chunk.tool_call_chunks):
            return chunk
        extras = {k: v for k, v in chunk.additional_kwargs.items() if k not in raw}
        calls: dict[str, Any] = {"tool_call_chunks": [], "tool_calls": [], "invalid_tool_calls": []}
        kept = {"content": made, EXTRAS: raw, "tool_call_chunks": chunk.tool_call_chunks}
        self._calls.append(AIMessageChunk(**kept))
        return chunk.model_copy(update={**calls, "content": said, EXTRAS: extras})

    def _complete_calls(self) -> AIMessageChunk:
        guard, made = self._guard, add_ai_message_chunks(*self._calls)
        return AIMessageChunk(
            id=self._id,
            content=guard.blocks(made.content),
            additional_kwargs=guard.raw_calls(made.additional_kwargs),
            tool_call_chunks=guard.blocks(made.tool_call_chunks),
        )


def _parted(content: Any, wanted: Callable[[Any], bool]) -> tuple[Any, Any]:
    """The blocks that are wanted, and the rest; a plain text is no block."""
    if isinstance(content, str):
        return "", content
    return [b for b in content if wanted(b)], [b for b in content if not wanted(b)]


def _says_nothing(block: Any) -> bool:
    """Whether all text of a block is held back, and there is nothing else in it."""
    if isinstance(block, dict):
        said = [value for key, value in block.items() if key not in ("type", "index")]
        return bool(said) and all(value in ("", []) for value in said)
    return bool(block == "")


def _at(path: Path, text: str) -> dict[str, Any]:
    """A text at its place, so that it is added to what was let out before."""
    value: Any = text
    step: Any
    for step in reversed(path):
        value = {step: value} if isinstance(step, str) else [{**dict(step), **value}]
    found: dict[str, Any] = value
    return found


def _is_empty(chunk: AIMessageChunk) -> bool:
    return not (
        chunk.content
        or chunk.tool_call_chunks
        or chunk.additional_kwargs
        or chunk.response_metadata
        or chunk.usage_metadata
    )
