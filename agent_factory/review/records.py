"""Records of reviewed tool calls, kept in the response metadata of the model's message.

Response metadata is stored with the thread and is not sent to a provider. An agent drops records
in the answer of a model.

- `REVIEWED`: by the name of the reviewer, the ids of the decided calls, each with the digest of the
  call with permission to run.
- `EDITED`: the original calls of the model, by id, where a reviewer replaced a call.

The result of a call has `RAN`: the name and the arguments of the executed call, if not the call in
the message.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any, Literal, cast

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, ToolMessage
from langchain_core.messages.tool import ToolCall
from langchain_core.tools import BaseTool
from langgraph.types import Command, Overwrite

from agent_factory.state.history import DECIDED as DECIDED
from agent_factory.state.history import EDITED as EDITED
from agent_factory.state.history import RAN as RAN
from agent_factory.state.history import RECORDS
from agent_factory.state.history import REVIEWED as REVIEWED
from agent_factory.state.history import answers_of as answers_of
from agent_factory.state.history import last_turn as last_turn
from agent_factory.state.history import messages_in as messages_in
from agent_factory.state.history import repair as repair
from agent_factory.state.history import unanswered_calls as unanswered_calls
from agent_factory.state.history import with_valid_calls as with_valid_calls
from agent_factory.tools.schemas import arguments_schema

MARKS = RECORDS | {
    "asked_for",
    "client_message_id",
    "context_editing",
    "failed_answers",
    "failure",
    "offloaded",
    "progress_guard",
    RAN,
    *("refusals", "remarks"),
    "tool_call_limit",
    "tool_call_limits",
}
"""Keys of a message's metadata, written and later trusted by an agent and built-in middleware.

Keys with the prefix "lc_", such as "lc_source", are marks as well.
"""

CLIENT_REQUEST = frozenset({"client_response_format", "client_tool_choice", "client_tools"})
"""Keys of an artifact with the wishes of a client, for ClientToolsMiddleware."""

_MARKED = ("response_metadata", "additional_kwargs", "artifact")

_TYPES = ("human", "user", "ai", "assistant", "system", "developer", "tool", "function")
"""Types of messages in dicts."""

REJECTED = (
    "A reviewer rejected this call of {name}, so it did not run. Do not make it again unless the "
    "user asks for it; find another way, or ask what they want instead."
)
"""Result of a rejected call without a reason."""


def digest(*parts: object) -> str:
    """Name of some values, 32 hexadecimal digits, the same in every process."""
    # sort_keys: the order of the arguments means nothing to a tool.
    text = json.dumps(parts, default=str, sort_keys=True)
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def tool_digest(tool: BaseTool | None) -> str:
    """The digest of the name, description and arguments of a tool; empty for no tool."""
    return "" if tool is None else digest(tool.name, tool.description, arguments_schema(tool))


def call_digest(call: Mapping[str, object], tool: BaseTool | None) -> str:
    """The digest of a call, by which approvals name the call: of the tool and the arguments."""
    return digest(call["name"], call["args"], tool_digest(tool))


def is_same_call(call: Mapping[str, object], other: Mapping[str, object]) -> bool:
    """Return True if two calls have the same name and arguments. In Python, 1 == True."""
    return digest(call["name"], call["args"]) == digest(other["name"], other["args"])


def split_decisions(
    pairs: Iterable[tuple[ToolCall, Mapping[str, Any]]],
) -> tuple[dict[str | None, ToolCall], list[ToolMessage]]:
    """The edited calls by id, and the results of rejected and answered calls."""
    edits: dict[str | None, ToolCall] = {}
    results = []
    for call, decision in pairs:
        if decision["type"] == "edit":
            action = decision["edited_action"]
            # An edit without a change is an approval, and leaves no record of an edit.
            if not is_same_call(action, call):
                edits[call["id"]] = cast("ToolCall", {**call, **action})
        elif decision["type"] == "reject":
            text = decision.get("message") or REJECTED.format(name=call["name"])
            results.append(decided(call, "reject", text))
        elif decision["type"] == "respond":
            results.append(decided(call, "respond", decision["message"]))
    return edits, results


def decided(call: ToolCall, kind: Literal["reject", "respond"], text: str) -> ToolMessage:
    """The result of a call by a decision, with the mark of langchain."""
    return ToolMessage(
        text,
        tool_call_id=call["id"],
        name=call["name"],
        status="error" if kind == "reject" else "success",
        additional_kwargs={"lc_source": "hitl_interrupt_decision", "lc_data": {"decision": kind}},
    )


def with_review(
    message: AIMessage,
    reviewer: str,
    digests: Mapping[str | None, str],
    edits: Mapping[str | None, ToolCall],
) -> AIMessage:
    """The message with a record of its review, and with the edited calls in place.

    The digests name the calls with permission to run, by the ids of the decided calls.
    """
    originals = {call["id"]: call for call in message.tool_calls if call["id"] in edits}
    metadata = message.response_metadata
    record: dict[str, object] = {
        REVIEWED: {**metadata.get(REVIEWED, {}), reviewer: dict(digests)},
        # An earlier record wins: it has the original call of the model.
        EDITED: {**originals, **metadata.get(EDITED, {})},
    }
    content: Any = message.content
    if isinstance(content, list):
        # A copy, because the message may be in the state.
        content = list(content)
        # Some providers repeat a call in a content block, each under a key of the provider, as a
        # dict or as JSON. A block with the old call would contradict `tool_calls`.
        for at, block in enumerate(content):
            has_name = isinstance(block, dict) and "name" in block
            if has_name and (edit := edits.get(block.get("call_id") or block.get("id"))):
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


def without_decisions(message: AIMessage) -> AIMessage:
    """The message without decisions about its calls. Edited calls stay, with their record.

    >>> message = AIMessage("", response_metadata={REVIEWED: {"R": {"1": "a"}}, "model": "m"})
    >>> without_decisions(message).response_metadata
    {'model': 'm'}
    """
    keys = {REVIEWED, DECIDED}
    metadata = {k: v for k, v in message.response_metadata.items() if k not in keys}
    return message.model_copy(update={"response_metadata": metadata})


def without_marks(value: object) -> Any:
    """A value from outside, without the marks of an agent in the messages of the value.

    Only an agent and its middleware write marks. A message may come as an object, as a dict, or
    serialized.

    >>> without_marks([{"role": "ai", "response_metadata": {REVIEWED: {}, "model": "m"}}])
    [{'role': 'ai', 'response_metadata': {'model': 'm'}}]
    """
    if isinstance(value, BaseMessage):
        parts = {name: getattr(value, name, None) for name in _MARKED}
        bare = {name: _unmarked(part, name) for name, part in parts.items()}
        update = {name: part for name, part in bare.items() if part is not parts[name]}
        return value.model_copy(update=update) if update else value
    if isinstance(value, Overwrite):
        return Overwrite(without_marks(value.value))
    if isinstance(value, list | tuple):
        return [without_marks(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    parts = {key: without_marks(part) for key, part in value.items()}
    for name in _MARKED:
        if name in parts:
            parts[name] = _unmarked(parts[name], name)
    # LangChain takes the other keys of a message in a dict for its additional_kwargs.
    is_message = "content" in parts and ("role" in parts or parts.get("type") in _TYPES)
    return _unmarked(parts, "additional_kwargs") if is_message else parts


def _unmarked(part: object, name: str) -> Any:
    """A part of a message without marks; the part itself if it has none."""
    if not isinstance(part, Mapping):
        return part
    # An artifact belongs to the tool, except for the wishes of a client.
    marks, prefix = (CLIENT_REQUEST, ()) if name == "artifact" else (MARKS, "lc_")
    bare = {k: v for k, v in part.items() if k not in marks and not str(k).startswith(prefix)}
    return bare if len(bare) < len(part) else part


def last_records(messages: Sequence[AnyMessage]) -> Mapping[str, Any]:
    """The metadata of the model's last message, with the records of the calls."""
    answers = (m.response_metadata for m in reversed(messages) if isinstance(m, AIMessage))
    return next(answers, {})


def caller_of(messages: Sequence[Any], call_id: str | None) -> AIMessage | None:
    """The newest message with a call of this id, because models give ids again."""
    answers = (message for message in reversed(messages) if isinstance(message, AIMessage))
    return next((m for m in answers if any(c["id"] == call_id for c in m.tool_calls)), None)


def approved_digest(call: ToolCall, records: Mapping[str, Any], reviewer: str) -> str | None:
    """The digest of the approved call under the id of a call; None without a decision."""
    return cast("str | None", records.get(REVIEWED, {}).get(reviewer, {}).get(call["id"]))


def original_of(call: ToolCall, records: Mapping[str, Any]) -> ToolCall | None:
    """The original call of the model, if a reviewer replaced the call."""
    return cast("ToolCall | None", records.get(EDITED, {}).get(call["id"]))


def write_notice(template: str, original: ToolCall, ran: ToolCall) -> str:
    """The template with the names and arguments of both calls filled in."""
    values = {
        "{original_name}": original["name"],
        "{original_args}": json.dumps(original["args"], default=str, ensure_ascii=False),
        "{name}": ran["name"],
        "{args}": json.dumps(ran["args"], default=str, ensure_ascii=False),
    }
    # In a single pass: an argument in the form of a field of the template is not filled in.
    return re.sub("|".join(map(re.escape, values)), lambda match: values[match[0]], template)


def with_edit(result: object, call: ToolCall, ran: ToolCall, notice: str) -> Any:
    """The result of an edited call with a notice: a message, a command, or a list of both."""
    if isinstance(result, list):
        return [with_edit(item, call, ran, notice) for item in result]
    if isinstance(result, ToolMessage) and result.tool_call_id == call["id"]:
        content: Any = result.content
        if notice and not isinstance(content, str):
            content = [*content, {"type": "text", "text": notice}]
        elif notice:
            content = f"{content}\n\n{notice}" if content else notice
        update: dict[str, Any] = {"content": content}
        if not is_same_call(ran, call):
            record = {RAN: {"name": ran["name"], "args": ran["args"]}}
            update["response_metadata"] = {**result.response_metadata, **record}
        return result.model_copy(update=update)
    if isinstance(result, Command) and result.update:
        # LangGraph also takes an update as a list of pairs.
        pairs = result.update.items() if isinstance(result.update, Mapping) else result.update
        changed_pairs = [
            (key, with_edit(value, call, ran, notice) if key == "messages" else value)
            for key, value in pairs
        ]
        return replace(result, update=changed_pairs)
    return result
