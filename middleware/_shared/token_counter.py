"""Count the tokens of a request; each message and each tool schema is counted once."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any
from weakref import ref

from langchain_core.messages import BaseMessage, SystemMessage
from langchain_core.messages.utils import count_tokens_approximately
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from agent_factory import ContextT, ModelRequest
from agent_factory.types import model_name, unbound

from .identity import IdentityCache
from .models import known_provider

TokenCounter = Callable[[Sequence[BaseMessage]], int]
"""Counts the tokens of some messages."""


def check_token_counter(token_counter: object) -> None:
    """Reject an argument that is not a function."""
    if not callable(token_counter):
        raise TypeError(
            f"token_counter must be a function of a list of messages, got {token_counter!r}."
        )


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


_count_for_claude = partial(count_tokens_approximately, chars_per_token=3.3)
"""Anthropic's tokens are shorter than the four characters that LangChain's counter assumes."""


def approximate_counter(provider: str | None, name: str | None) -> TokenCounter:
    """The approximate counter for a model with this provider and this name."""
    is_claude = provider == "anthropic" or "claude" in (name or "").lower()
    return _count_for_claude if is_claude else count_tokens_approximately


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
    count: _MessageCounts(count) for count in (count_tokens_approximately, _count_for_claude)
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
