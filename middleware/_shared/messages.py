"""The last turn of a conversation: the model's message, and what has answered its calls."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.messages.tool import ToolCall
from langchain_core.tools import BaseTool

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


def tool_names(
    tools: Iterable[str | BaseTool] | None, argument: str = "tools"
) -> frozenset[str] | None:
    """The names of some tools; None where all are meant. Errors call them by `argument`.

    Raises:
        TypeError: It is no list of names and tools.
        ValueError: It is empty.

    >>> sorted(tool_names(["search", "fetch"]))
    ['fetch', 'search']
    """
    if tools is None:
        return None
    if isinstance(tools, str | BaseTool | dict) or not isinstance(tools, Iterable):
        raise TypeError(f"{argument} must be a list, not {tools!r}: write {argument}=['search'].")
    names = frozenset(_name(tool, argument) for tool in tools)
    if not names:
        raise ValueError(
            f"{argument} is empty, so no call would be covered. Leave it out for all tools."
        )
    return names


def _name(tool: Any, argument: str) -> str:
    name = tool.name if isinstance(tool, BaseTool) else tool
    if not isinstance(name, str) or not name:
        raise TypeError(
            f"{argument} must hold names of tools, or BaseTool instances, not {tool!r}. A function "
            f"becomes a tool of its own name: write {argument}=['search'] for `def search(...)`."
        )
    return name


def last_turn(messages: Sequence[AnyMessage]) -> tuple[AIMessage | None, list[AnyMessage]]:
    """The last AI message and what came after it."""
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if isinstance(message, AIMessage):
            return message, list(messages[index + 1 :])
    return None, []


def unanswered(message: AIMessage | None, tail: Sequence[AnyMessage]) -> list[ToolCall]:
    """The calls of a message that no result in `tail` answers."""
    answered = {m.tool_call_id for m in tail if isinstance(m, ToolMessage)}
    calls = message.tool_calls if message else []
    return [call for call in calls if call["id"] not in answered]


def given_up(messages: Sequence[AnyMessage]) -> list[ToolMessage]:
    """Answers to the calls of the last turn that will not run, for a run that ends here."""
    message, tail = last_turn(messages)
    unread = message.invalid_tool_calls if message else []
    answered = {m.tool_call_id for m in tail if isinstance(m, ToolMessage)}
    waiting = [*unanswered(message, tail), *(c for c in unread if c["id"] not in answered)]
    return [
        ToolMessage(
            "This call did not run: the run ended here.",
            tool_call_id=call["id"],
            name=call["name"],
            status="error",
        )
        for call in waiting
        if call["id"]
    ]
