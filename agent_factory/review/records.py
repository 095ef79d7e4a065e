"""Tool calls that were reviewed: what is noted of it in the message that made them.

The notes lie in the message's response metadata, which is kept with the thread and is not sent to
a provider.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.messages.tool import ToolCall
from langgraph.types import Command

REVIEWED = "reviewed_calls"
"""Which calls were decided about: the reviewing middleware's name -> ids."""

EDITED = "edited_calls"
"""The calls as the model made them, where they were replaced: id -> call."""

_ARGUMENTS = ("args", "input", "arguments")


def with_review(
    message: AIMessage,
    reviewer: str,
    decided: Sequence[str | None],
    edits: Mapping[str | None, ToolCall],
) -> AIMessage:
    """The message with a note of its review, and with some of its calls replaced.

    Args:
        message: What the model said.
        reviewer: The name of the middleware that asked.
        decided: The ids of the calls that were decided about.
        edits: New calls by id.
    """
    made = {call["id"]: call for call in message.tool_calls if call["id"] in edits}
    notes = message.response_metadata
    content = message.content
    if isinstance(content, list):
        content = [_edited_block(block, edits) for block in content]
    return message.model_copy(
        update={
            "tool_calls": [edits.get(call["id"], call) for call in message.tool_calls],
            "content": content,
            "response_metadata": {
                **notes,
                REVIEWED: {**notes.get(REVIEWED, {}), reviewer: list(decided)},
                EDITED: {**made, **notes.get(EDITED, {})},
            },
        }
    )


def _edited_block(block: Any, edits: Mapping[str | None, ToolCall]) -> Any:
    """Some providers repeat a call among the blocks of the content, each under its own keys."""
    if not isinstance(block, dict) or "name" not in block:
        return block
    edit = edits.get(block.get("call_id") or block.get("id"))
    if edit is None:
        return block
    written = {key: _like(block[key], edit["args"]) for key in _ARGUMENTS if key in block}
    return {**block, "name": edit["name"], **written}


def _like(old: Any, args: dict[str, Any]) -> Any:
    return json.dumps(args) if isinstance(old, str) else args


def was_decided(call: ToolCall, messages: Sequence[AnyMessage], reviewer: str) -> bool:
    """Whether the call was decided about before it came to the tools."""
    return call["id"] in _note(messages, REVIEWED).get(reviewer, ())


def original_of(call: ToolCall, messages: Sequence[AnyMessage]) -> ToolCall | None:
    """The call as the model made it, if a reviewer replaced it."""
    original: ToolCall | None = _note(messages, EDITED).get(call["id"])
    return original


def _note(messages: Sequence[AnyMessage], key: str) -> Mapping[Any, Any]:
    for message in reversed(messages):
        if isinstance(message, AIMessage):
            note: Mapping[Any, Any] = message.response_metadata.get(key, {})
            return note
    return {}


def write_notice(template: str, original: ToolCall, ran: ToolCall) -> str:
    """The template with `{original_name}`, `{original_args}`, `{name}` and `{args}` filled in.

    >>> call = {"name": "add", "args": {"a": 1}, "id": "1"}
    >>> write_notice("{original_name} {args} {else}", call, call)
    'add {"a": 1} {else}'
    """
    values = {
        "{original_name}": original["name"],
        "{original_args}": _json(original["args"]),
        "{name}": ran["name"],
        "{args}": _json(ran["args"]),
    }
    return re.sub("|".join(map(re.escape, values)), lambda found: values[found[0]], template)


def _json(args: Any) -> str:
    return json.dumps(args, default=str, ensure_ascii=False)


def with_notice(result: Any, call_id: str | None, notice: str) -> Any:
    """The result of a call with a notice at its end, whatever form the result has."""
    if isinstance(result, list):
        return [with_notice(item, call_id, notice) for item in result]
    if isinstance(result, ToolMessage):
        return _noticed(result, notice) if result.tool_call_id == call_id else result
    if isinstance(result, Command) and result.update:
        pairs = result.update.items() if isinstance(result.update, Mapping) else result.update
        told = [
            (key, with_notice(value, call_id, notice) if key == "messages" else value)
            for key, value in pairs
        ]
        return replace(result, update=told)
    return result


def _noticed(message: ToolMessage, notice: str) -> ToolMessage:
    content = message.content
    told: Any
    if isinstance(content, str):
        told = f"{content}\n\n{notice}" if content else notice
    else:
        told = [*content, {"type": "text", "text": notice}]
    return message.model_copy(update={"content": told})
