"""Records of reviewed tool calls, kept in the response metadata of the message that made them.

Response metadata is stored with the thread and is not sent to a provider.
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
"""Metadata key: the ids of the calls that were decided about, by the name of the reviewer."""

EDITED = "edited_calls"
"""Metadata key: the calls as the model made them, by id, where a reviewer replaced them."""

REJECTED = (
    "A reviewer rejected this call of {name}, so it did not run. Do not make it again unless the "
    "user asks for it; find another way, or ask what they want instead."
)
"""What the model reads if a reviewer gave no reason."""


def result_of(decision: Mapping[str, Any], name: str, call_id: str | None) -> ToolMessage | None:
    """The result of a rejected or answered call, which does not run; None for other decisions."""
    if decision["type"] == "reject":
        text = decision.get("message") or REJECTED.format(name=name)
        return ToolMessage(text, tool_call_id=call_id, name=name, status="error")
    if decision["type"] == "respond":
        return ToolMessage(decision["message"], tool_call_id=call_id, name=name)
    return None


def with_review(
    message: AIMessage,
    reviewer: str,
    decided: Sequence[str | None],
    edits: Mapping[str | None, ToolCall],
) -> AIMessage:
    """The message with a record of its review, and with the edited calls in place."""
    originals = {call["id"]: call for call in message.tool_calls if call["id"] in edits}
    metadata = message.response_metadata
    content = message.content
    if isinstance(content, list):
        content = [_edited_block(block, edits) for block in content]
    return message.model_copy(
        update={
            "tool_calls": [edits.get(call["id"], call) for call in message.tool_calls],
            "content": content,
            "response_metadata": {
                **metadata,
                REVIEWED: {**metadata.get(REVIEWED, {}), reviewer: list(decided)},
                EDITED: {**originals, **metadata.get(EDITED, {})},
            },
        }
    )


def _edited_block(block: Any, edits: Mapping[str | None, ToolCall]) -> Any:
    # Some providers repeat a call in a content block, each under its own key and either as a dict
    # or as JSON. A block that still held the old call would contradict `tool_calls`.
    if not isinstance(block, dict) or "name" not in block:
        return block
    edit = edits.get(block.get("call_id") or block.get("id"))
    if edit is None:
        return block
    edited = {**block, "name": edit["name"]}
    for key in edited.keys() & {"args", "input", "arguments"}:
        edited[key] = json.dumps(edit["args"]) if isinstance(block[key], str) else edit["args"]
    return edited


def was_decided(call: ToolCall, messages: Sequence[AnyMessage], reviewer: str) -> bool:
    """Whether a reviewer decided about the call before it reached the tools."""
    return call["id"] in _last_record(messages, REVIEWED).get(reviewer, ())


def original_of(call: ToolCall, messages: Sequence[AnyMessage]) -> ToolCall | None:
    """The call as the model made it, if a reviewer replaced it."""
    original: ToolCall | None = _last_record(messages, EDITED).get(call["id"])
    return original


def _last_record(messages: Sequence[AnyMessage], key: str) -> Mapping[Any, Any]:
    for message in reversed(messages):
        if isinstance(message, AIMessage):
            record: Mapping[Any, Any] = message.response_metadata.get(key, {})
            return record
    return {}


def write_notice(template: str, original: ToolCall, ran: ToolCall) -> str:
    """The template with `{original_name}`, `{original_args}`, `{name}` and `{args}` filled in.

    >>> call = {"name": "add", "args": {"a": 1}, "id": "1"}
    >>> write_notice("{original_name} {args} {else}", call, call)
    'add {"a": 1} {else}'
    """
    values = {
        "{original_name}": original["name"],
        "{original_args}": json.dumps(original["args"], default=str, ensure_ascii=False),
        "{name}": ran["name"],
        "{args}": json.dumps(ran["args"], default=str, ensure_ascii=False),
    }
    return re.sub("|".join(map(re.escape, values)), lambda found: values[found[0]], template)


def with_notice(result: Any, call_id: str | None, notice: str) -> Any:
    """The result of a call with a notice appended: a message, a command, or a list of them."""
    if isinstance(result, list):
        return [with_notice(item, call_id, notice) for item in result]
    if isinstance(result, ToolMessage) and result.tool_call_id == call_id:
        content: Any = result.content
        if not isinstance(content, str):
            content = [*content, {"type": "text", "text": notice}]
        else:
            content = f"{content}\n\n{notice}" if content else notice
        return result.model_copy(update={"content": content})
    if isinstance(result, Command) and result.update:
        pairs = result.update.items() if isinstance(result.update, Mapping) else result.update
        update = [
            (key, with_notice(value, call_id, notice) if key == "messages" else value)
            for key, value in pairs
        ]
        return replace(result, update=update)
    return result
