"""Count the tokens of a request; each message and each tool schema is counted once."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from weakref import ref

from langchain_core.messages import BaseMessage, SystemMessage
from langchain_core.messages.utils import count_tokens_approximately
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from agent_factory import ContextT, ModelRequest

from .identity import IdentityMap

TokenCounter = Callable[[Sequence[BaseMessage]], int]
"""Counts the tokens of some messages."""


def check_token_counter(token_counter: object) -> None:
    """Reject an argument that is not a function."""
    if not callable(token_counter):
        raise TypeError(
            f"token_counter must be a function of a list of messages, got {token_counter!r}."
        )


def window_of(model: object) -> int | None:
    """The most tokens a model reads, if its profile says."""
    profile = getattr(model, "profile", None)
    size = profile.get("max_input_tokens") if isinstance(profile, Mapping) else None
    return size if isinstance(size, int) and size > 0 else None


def tokens_sent(
    request: ModelRequest[ContextT], messages: Sequence[BaseMessage], count: TokenCounter
) -> int:
    """Tokens of a request with these messages, including its system prompt and tool schemas."""
    all_messages: list[BaseMessage] = []
    if request.system_message is not None:
        all_messages.append(request.system_message)
    if request.tools:
        all_messages.append(_SCHEMAS.message_for(request.tools))
    all_messages += messages
    # The counts of another function may not add up, so only LangChain's are cached.
    if count is not count_tokens_approximately:
        return count(all_messages)
    return _COUNTS.total(all_messages)


class _MessageCounts:
    """Cache of LangChain's approximate count for each message, while the message exists."""

    def __init__(self) -> None:
        # An entry holds for one message object with one content object. Counts can be added up,
        # because that counter counts each message separately.
        self._counts: dict[int, tuple[ref[BaseMessage], object, int]] = {}

    def total(self, messages: Sequence[BaseMessage]) -> int:
        total, counts = 0, self._counts
        for message in messages:  # the whole history at each call: so no function calls on a hit
            entry = counts.get(id(message))
            if entry and entry[0]() is message and entry[1] is message.content:
                total += entry[2]
                continue
            key, tokens = id(message), count_tokens_approximately([message])
            # The reference calls `pop(key, reference)` when the message is gone.
            counts[key] = ref(message, partial(counts.pop, key)), message.content, tokens
            total += tokens
        return total


_COUNTS = _MessageCounts()


class _ToolSchemas:
    """Cache of tool schemas as a message, so that they are counted like other messages."""

    MAX_SIZE = 1024

    def __init__(self) -> None:
        self._texts: IdentityMap[str] = IdentityMap(self.MAX_SIZE)
        self._last: tuple[list[ref[object]], list[str], SystemMessage] = [], [], SystemMessage("[]")

    def message_for(self, tools: Sequence[BaseTool | dict[str, object]]) -> SystemMessage:
        """The schemas in one message; the same object for the same tools, so it is counted once."""
        last_tools, last_texts, message = self._last
        if len(tools) == len(last_tools) and all(
            last() is tool for tool, last in zip(tools, last_tools, strict=True)
        ):
            return message
        texts = []
        for tool in tools:
            if isinstance(tool, dict):
                texts.append(json.dumps(tool, default=str))
                continue
            text = self._texts.get(tool)
            if text is None:
                text = json.dumps(convert_to_openai_tool(tool), default=str)
                self._texts.add(tool, text)
            texts.append(text)
        # The same object for the same texts, so that its count stays in the cache.
        if texts != last_texts:
            message = SystemMessage(f"[{', '.join(texts)}]")
        # The caller may change a dict in place, so a list with one is compared by its texts.
        unchanging = all(isinstance(tool, BaseTool) for tool in tools)
        self._last = list(map(ref, tools)) if unchanging else [], texts, message
        return message


_SCHEMAS = _ToolSchemas()
