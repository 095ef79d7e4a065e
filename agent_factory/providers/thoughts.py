"""Thoughts that a provider binds to the conversation before them.

Newer Claude models check that `system`, `tools` and all messages before a thinking block are those
of the request that made the block (platform.claude.com, build-with-claude/preserved-thinking). A
block behind a change is refused, or dropped, for good. So each answer with thoughts gets a
stamp: a digest of the request before the thoughts. In a later request, thoughts with another digest
are left out, which these models allow; thoughts before the change, and after it, stay.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any, Final

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage

THOUGHT_BLOCKS: Final = frozenset(
    {"thinking", "redacted_thinking", "reasoning", "reasoning_content", "thought"}
)
"""Types of content blocks in which a model thinks."""

STAMP: Final = "lc_thoughts"
"""Key of `response_metadata` for the digests of the request before the thoughts of an answer."""

_CALL_BLOCKS: Final = frozenset({"tool_use", "tool_call", "tool_call_chunk", "input_json_delta"})
"""Blocks that repeat the calls of a message."""

_NOT_READ: Final = frozenset({"cache_control", "cachePoint", "index"})
"""Keys of blocks that are not part of the conversation."""

_CLAUDE: Final = re.compile(
    r"claude-(fable|mythos|opus|sonnet|haiku)-(\d{1,2})(?!\d)(?:[-.](\d{1,2})(?!\d))?"
)
_FIRST_VERSIONS: Final = {"fable": (5, 1), "mythos": (5, 1)}
"""The first versions with preserved thinking; (5, 5) for other families (prefix-checks, there)."""


def preserves_thoughts(model_name: str | None) -> bool:
    """Return True for a model that checks the conversation before its thoughts.

    >>> preserves_thoughts("claude-opus-5-5"), preserves_thoughts("us.anthropic.claude-fable-5-2")
    (True, True)
    >>> preserves_thoughts("claude-opus-4-5-20251101"), preserves_thoughts("gpt-5.6")
    (False, False)
    """
    if not model_name or (match := _CLAUDE.search(model_name)) is None:
        return False
    family, major, minor = match.groups()
    return (int(major), int(minor or 0)) >= _FIRST_VERSIONS.get(family, (5, 5))


class Conversation:
    """A conversation as these models check it: digests of its beginning, and its last thoughts."""

    def __init__(self, tools: Iterable[Any], system: BaseMessage | None) -> None:
        texts = [] if system is None else _blocks_of(system)
        self._digest = _digest(["head", [*tools], texts])
        self._last_thoughts = ""

    def add(self, message: AnyMessage) -> AnyMessage:
        """Add a message of the request; return it without thoughts that its beginning refuses."""
        if has_thoughts(message):
            stamp = message.response_metadata.get(STAMP) or {}
            prefix = self._before_thoughts(message)
            # Without any earlier thoughts, the later ones stay valid; without some, they do not.
            follows = self._last_thoughts in ("", stamp.get("follows"))
            if stamp.get("prefix") == prefix and follows:
                self._last_thoughts = prefix
            else:
                content = [block for block in message.content if not is_thought(block)]
                message = message.model_copy(update={"content": content})
        self._digest = _digest([self._digest, _form_of(message)])
        return message

    def stamped(self, answer: AIMessage) -> AIMessage:
        """Return the answer to the request with a stamp, if it has thoughts."""
        if not has_thoughts(answer):
            return answer
        stamp = {"prefix": self._before_thoughts(answer), "follows": self._last_thoughts}
        metadata = {**answer.response_metadata, STAMP: stamp}
        return answer.model_copy(update={"response_metadata": metadata})

    def _before_thoughts(self, message: BaseMessage) -> str:
        """Return the digest of everything before the last thoughts of a message."""
        blocks: Any = message.content
        last = max(index for index, block in enumerate(blocks) if is_thought(block))
        return _digest([self._digest, _read(blocks[:last])])


def with_valid_thoughts(
    messages: Sequence[Any], tools: Iterable[Any], system: BaseMessage | None
) -> tuple[Sequence[Any], Conversation]:
    """Return messages without invalid thoughts, and the conversation that stamps the answer."""
    conversation = Conversation(tools, system)
    valid = [conversation.add(message) for message in messages]
    is_same = all(a is b for a, b in zip(valid, messages, strict=True))
    return messages if is_same else valid, conversation


def is_thought(block: object) -> bool:
    """Return True for a content block in which a model thinks."""
    return isinstance(block, dict) and block.get("type") in THOUGHT_BLOCKS


def has_thoughts(message: BaseMessage) -> bool:
    """Return True for an answer with content blocks in which the model thinks."""
    # Not for the characters of a text: the whole history is read for each request.
    if isinstance(message.content, str) or not isinstance(message, AIMessage):
        return False
    return any(map(is_thought, message.content))


def _form_of(message: BaseMessage) -> list[Any]:
    """Return the parts of a message that a provider reads, without thoughts."""
    kind = "ai" if isinstance(message, AIMessage) else message.type
    calls = getattr(message, "tool_calls", ())
    form = [(call["name"], call["args"], call["id"]) for call in calls]
    fields = [getattr(message, name, None) for name in ("tool_call_id", "status")]
    return [kind, _blocks_of(message), form, fields]


def _blocks_of(message: BaseMessage) -> list[Any]:
    content = message.content
    return _read([content] if isinstance(content, str) else content)


def _read(blocks: Iterable[Any]) -> list[Any]:
    """Return content blocks in the form that counts: a plain text equals a block of text."""
    form: list[Any] = []
    for block in blocks:
        if isinstance(block, dict):
            if is_thought(block) or block.get("type") in _CALL_BLOCKS:
                continue
            block = {key: value for key, value in block.items() if key not in _NOT_READ}
            if block.keys() == {"type", "text"}:
                block = block["text"]
        if block:
            form.append(block)
    return form


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, default=repr)
    return blake2b(text.encode(), digest_size=12).hexdigest()
