"""Count the tokens of a request; each message and each tool schema is counted once."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final
from weakref import ref

from langchain_core.messages import BaseMessage, SystemMessage
from langchain_core.messages.utils import count_tokens_approximately
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from agent_factory import ContextT, ModelRequest
from agent_factory.types import model_name, unbound

from .identity import IdentityCache
from .models import known_provider
from .validation import check_value

TokenCounter = Callable[[Sequence[BaseMessage]], int]
"""Counts the tokens of some messages."""


def check_token_counter(token_counter: object) -> None:
    """Reject an argument that is not a function."""
    expected = "a function of a list of messages"
    check_value("token_counter", token_counter, callable(token_counter), expected, error=TypeError)


def window_of(model: object) -> int | None:
    """The most tokens for a model, if the profile says."""
    profile = getattr(unbound(model), "profile", None)
    size = profile.get("max_input_tokens") if isinstance(profile, Mapping) else None
    return size if isinstance(size, int) and size > 0 else None


def tokens_sent(
    request: ModelRequest[ContextT], messages: Sequence[BaseMessage], count: TokenCounter
) -> int:
    """Tokens of a request with these messages, including the system prompt and tool schemas."""
    all_messages: list[BaseMessage] = []
    if request.system_message is not None:
        all_messages.append(request.system_message)
    if request.tools:
        all_messages.append(_SCHEMAS.message_for(request.tools))
    all_messages += messages
    count = counter_for(request.model, count)
    # The counts of another function may not add up, so only LangChain's are cached.
    if cached_counts := _COUNTS.get(count):
        return cached_counts.total(all_messages)
    return count(all_messages)


_SIGNED: Final = frozenset({"signature", "encrypted_content", "encrypted_index"})
"""Keys of a block that no model reads as text, and LangChain's counter counts."""

_FILES: Final = frozenset({"base64", "data", "file_data"})
"""Keys of a block with a file. An eighth counts: 2,000 tokens for 50 kB, about a page of a PDF, of
which platform.claude.com/docs/en/build-with-claude/pdf-support says 1,500 to 3,000 tokens."""


def _readable(value: Any) -> Any:
    """A part of a content without signatures, and with an eighth of the characters of files."""
    if isinstance(value, list):
        return [_readable(part) for part in value]
    if not isinstance(value, dict):
        return value
    return {
        # Base64 has no spaces.
        k: v[::8] if k in _FILES and isinstance(v, str) and " " not in v[:999] else _readable(v)
        for k, v in value.items()
        if k not in _SIGNED
    }


def _count(messages: Sequence[BaseMessage], **options: float) -> int:
    texts = [m.model_copy(update={"content": _readable(m.content)}) for m in messages]
    return count_tokens_approximately(texts, **options)  # type: ignore[arg-type]


_count_for_claude = partial(_count, chars_per_token=3.3)
"""Anthropic's tokens are shorter than the four characters that LangChain's counter assumes."""


def approximate_counter(provider: str | None, name: str | None) -> TokenCounter:
    """The approximate counter for a model with this provider and this name."""
    is_claude = provider == "anthropic" or "claude" in (name or "").lower()
    return _count_for_claude if is_claude else _count


def counter_for(model: object, count: TokenCounter) -> TokenCounter:
    """The counter for a model: in place of LangChain's approximate counter, the provider's."""
    if count is not count_tokens_approximately:
        return count
    return approximate_counter(known_provider(model), model_name(unbound(model)))


class _MessageCounts:
    """Cache of an approximate count for each message, while the message exists."""

    def __init__(self, count: TokenCounter) -> None:
        self._count = count
        # An entry holds for a message object with a content object. Counts can be added up,
        # because the counter counts each message separately.
        self._counts: dict[int, tuple[ref[BaseMessage], object, int]] = {}

    def total(self, messages: Sequence[BaseMessage]) -> int:
        total, counts = 0, self._counts
        for message in messages:  # the whole history at each call: so no function calls on a hit
            entry = counts.get(id(message))
            if entry and entry[0]() is message and entry[1] is message.content:
                total += entry[2]
                continue
            key, tokens = id(message), self._count([message])
            # The reference calls `pop(key, reference)` when the message is gone.
            counts[key] = ref(message, partial(counts.pop, key)), message.content, tokens
            total += tokens
        return total


_COUNTS: dict[TokenCounter, _MessageCounts] = {
    count: _MessageCounts(count) for count in (_count, _count_for_claude)
}


class _ToolSchemas:
    """Cache of tool schemas as a message, so that they are counted like other messages."""

    def __init__(self) -> None:
        self._texts = IdentityCache(_schema_of)
        self._last: tuple[list[ref[object]], list[str], SystemMessage] = [], [], SystemMessage("[]")

    def message_for(self, tools: Sequence[BaseTool | dict[str, object]]) -> SystemMessage:
        """The schemas in one message; the same object for the same tools, which is counted once."""
        last_tools, last_texts, message = self._last
        if len(tools) == len(last_tools) and all(
            last() is tool for tool, last in zip(tools, last_tools, strict=True)
        ):
            return message
        # The caller may change a dict in place.
        texts = [_schema_of(t) if isinstance(t, dict) else self._texts.of(t) for t in tools]
        # The same object for the same texts, so the count stays in the cache.
        if texts != last_texts:
            message = SystemMessage(f"[{', '.join(texts)}]")
        # A list with a dict is compared by its texts.
        unchanging = all(isinstance(tool, BaseTool) for tool in tools)
        self._last = list(map(ref, tools)) if unchanging else [], texts, message
        return message


def _schema_of(tool: Any) -> str:
    return json.dumps(tool if isinstance(tool, dict) else convert_to_openai_tool(tool), default=str)


_SCHEMAS = _ToolSchemas()
