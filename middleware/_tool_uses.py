"""Tool calls and their results in a conversation, and how they are emptied: pure functions.

What was emptied is noted in the message's response metadata, which is kept with the thread and is
not sent to a provider: the text alone would not tell, since a tool may return any text.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.messages.tool import ToolCall

_NOTE = "context_editing"
_INPUTS = ("args", "arguments", "input", "partial_json")


def calls_of_results(messages: Sequence[AnyMessage]) -> dict[int, tuple[int, ToolCall]]:
    """For the index of each result: the index of the message that called, and the call.

    Ids may recur in a thread: the nearest call before the result counts.
    """
    called: dict[str | None, tuple[int, ToolCall]] = {}
    found: dict[int, tuple[int, ToolCall]] = {}
    for index, message in enumerate(messages):
        if isinstance(message, AIMessage):
            called.update((call["id"], (index, call)) for call in message.tool_calls)
        elif isinstance(message, ToolMessage) and message.tool_call_id in called:
            found[index] = called[message.tool_call_id]
    return found


def is_cleared(message: ToolMessage) -> bool:
    """Whether the result was cleared before."""
    noted = message.response_metadata
    return bool(noted) and bool(noted.get(_NOTE, {}).get("cleared"))


def without_result(message: ToolMessage, placeholder: str) -> ToolMessage:
    """The result with a placeholder for its content; all else, its artifact included, stays."""
    noted = {**message.response_metadata, _NOTE: {"cleared": True}}
    return message.model_copy(update={"content": placeholder, "response_metadata": noted})


def without_inputs(message: AIMessage, ids: Collection[str | None]) -> AIMessage:
    """The message with empty arguments for some of its calls, wherever it repeats them."""
    calls = [{**call, "args": {}} if call["id"] in ids else call for call in message.tool_calls]
    content = message.content
    if isinstance(content, list):
        content = [_emptied(block, ids) for block in content]
    raw = message.additional_kwargs
    if isinstance(raw.get("tool_calls"), list):
        raw = {**raw, "tool_calls": [_emptied(call, ids) for call in raw["tool_calls"]]}
    return message.model_copy(
        update={"tool_calls": calls, "content": content, "additional_kwargs": raw}
    )


def _emptied(block: Any, ids: Collection[str | None]) -> Any:
    """A call as a provider writes it, without its input."""
    if not isinstance(block, dict) or (block.get("call_id") or block.get("id")) not in ids:
        return block
    function = block.get("function")
    nested = {"function": _without_input(function)} if isinstance(function, dict) else {}
    return {**_without_input(block), **nested}


def _without_input(call: dict[str, Any]) -> dict[str, Any]:
    empty = {key: "{}" if isinstance(call[key], str) else {} for key in _INPUTS if key in call}
    return {**call, **empty}
