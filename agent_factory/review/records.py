"""Records of reviewed tool calls, kept in the response metadata of the message that made them.

Response metadata is stored with the thread and is not sent to a provider. An agent drops records
that a model returns.

- `REVIEWED`: the ids of the calls that were decided about, by the name of the reviewer.
- `EDITED`: the calls as the model made them, by id, where a reviewer replaced them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.messages.tool import ToolCall
from langgraph.types import Command

from agent_factory.state.history import EDITED, REVIEWED
from agent_factory.state.history import with_distinct_ids as with_distinct_ids

REJECTED = (
    "A reviewer rejected this call of {name}, so it did not run. Do not make it again unless the "
    "user asks for it; find another way, or ask what they want instead."
)
"""What the model reads if a reviewer gave no reason."""


def split_decisions(
    decided: Iterable[tuple[ToolCall, Mapping[str, Any]]],
) -> tuple[dict[str | None, ToolCall], list[ToolMessage]]:
    """The calls that replace others, by id, and the results of those that do not run."""
    edits: dict[str | None, ToolCall] = {}
    results = []
    for call, decision in decided:
        name, id_ = call["name"], call["id"]
        if decision["type"] == "edit":
            action = decision["edited_action"]
            if (action["name"], action["args"]) != (name, call["args"]):
                edits[id_] = ToolCall(
                    type="tool_call", name=action["name"], args=action["args"], id=id_
                )
        elif decision["type"] == "reject":
            text = decision.get("message") or REJECTED.format(name=name)
            results.append(ToolMessage(text, tool_call_id=id_, name=name, status="error"))
        elif decision["type"] == "respond":
            results.append(ToolMessage(decision["message"], tool_call_id=id_, name=name))
    return edits, results


def with_review(
    message: AIMessage,
    reviewer: str,
    decided: Sequence[str | None],
    edits: Mapping[str | None, ToolCall],
) -> AIMessage:
    """The message with a record of its review, and with the edited calls in place."""
    originals = {call["id"]: call for call in message.tool_calls if call["id"] in edits}
    metadata = message.response_metadata
    record: dict[str, Any] = {
        REVIEWED: {**metadata.get(REVIEWED, {}), reviewer: list(decided)},
        EDITED: {**originals, **metadata.get(EDITED, {})},
    }
    content: Any = message.content
    if isinstance(content, list):
        content = list(content)
        # Some providers repeat a call in a content block, each under its own key and either as a
        # dict or as JSON. A block that still held the old call would contradict `tool_calls`.
        for at, block in enumerate(content):
            named = isinstance(block, dict) and "name" in block
            if named and (edit := edits.get(block.get("call_id") or block.get("id"))):
                content[at] = {**block, "name": edit["name"]}
                for key in block.keys() & {"args", "input", "arguments"}:
                    is_json = isinstance(block[key], str)
                    content[at][key] = json.dumps(edit["args"]) if is_json else edit["args"]
    return message.model_copy(
        update={
            "tool_calls": [edits.get(call["id"], call) for call in message.tool_calls],
            "content": content,
            "response_metadata": {**metadata, **{k: v for k, v in record.items() if v}},
        }
    )


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
    """The template with the names and arguments of both calls filled in."""
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
