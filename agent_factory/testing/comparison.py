"""Normalize values so that equal runs compare equal, and find the first difference of two values.

LangChain draws the ids of messages and tool calls at random. So message ids are left out, and the
ids of tool calls are numbered in the order in which they appear.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, RemoveMessage
from langchain_core.tools import BaseTool
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Interrupt
from pydantic import BaseModel

from agent_factory.types import ModelRequest

_MESSAGE_FIELDS = (
    "content",
    "name",
    "tool_calls",
    "invalid_tool_calls",
    "tool_call_id",
    "artifact",
    "usage_metadata",
    "additional_kwargs",
    "response_metadata",
)
_EMPTY: tuple[Any, ...] = (None, (), [], {})
_MAX_CHARACTERS = 60  # of a value in the description of a difference


_Ids = dict[Any, None]
"""The ids of tool calls in the order in which they appear."""


def normalize(value: Any) -> Any:
    """The value as plain data that is equal for runs that did the same.

    >>> from langchain_core.messages import AIMessage
    >>> normalize([AIMessage("Hi", id="1")])
    [{'type': 'ai', 'content': 'Hi'}]
    """
    ids: _Ids = {}
    plain = _plain(value, ids)
    # Replaced afterwards, because a value may mention a call before the call appears.
    names = {id_: f"call_{n}" for n, id_ in enumerate(filter(None, ids), 1)}
    return replace_strings(plain, names)


def replace_strings(value: Any, names: Mapping[str, str]) -> Any:
    """Plain data with some strings replaced, at any depth."""
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, dict):
        return {key: replace_strings(item, names) for key, item in value.items()}
    return [replace_strings(item, names) for item in value] if isinstance(value, list) else value


def _plain(value: Any, ids: _Ids) -> Any:
    """Plain data; the ids of its tool calls are added to `ids`."""
    match value:
        case RemoveMessage():
            return {"type": "remove"}
        case BaseMessage():
            return _plain_message(value, ids)
        case ToolCallRequest():
            return _plain_call(value.tool_call, ids)
        case ModelRequest():
            found = {
                "model": type(value.model).__name__,
                "messages": value.messages,
                "system": value.system_prompt,
                "tools": [getattr(t, "name", getattr(t, "__name__", t)) for t in value.tools],
                "tool_choice": value.tool_choice,
                "settings": value.model_settings,
            }
            return {k: _plain(v, ids) for k, v in found.items() if v not in _EMPTY}
        case Interrupt():
            return {"interrupt": _plain(value.value, ids)}
        case Mapping():
            return {str(key): _plain(item, ids) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item, ids) for item in value]
        case Set():
            return sorted((_plain(item, ids) for item in value), key=repr)
        case BaseException():
            return {"error": type(value).__name__, "text": str(value)}
        case Enum():
            return value.value
        case BaseTool():
            return value.name
        case BaseChatModel():
            return type(value).__name__
        case BaseModel():
            return {type(value).__name__: _plain(value.model_dump(), ids)}
    if is_dataclass(value) and not isinstance(value, type):
        found = {f.name: _plain(getattr(value, f.name), ids) for f in fields(value) if f.repr}
        return {name: item for name, item in found.items() if item not in _EMPTY}
    return value


def _plain_message(message: BaseMessage, ids: _Ids) -> Any:
    found: dict[str, Any] = {"type": message.type}
    for name in _MESSAGE_FIELDS:
        value = getattr(message, name, None)
        if name == "tool_call_id":
            ids[value] = None
        elif "calls" in name:
            value = [_plain_call(call, ids) for call in value or ()]
        if value or name == "content":
            found[name] = value
    if getattr(message, "status", "success") != "success":
        found["status"] = "error"
    return _plain(found, ids)


def _plain_call(call: Mapping[str, Any], ids: _Ids) -> dict[str, Any]:
    ids[call["id"]] = None
    return {key: value for key, value in call.items() if key != "type"}


class _Missing:
    def __repr__(self) -> str:
        return "nothing"


_MISSING = _Missing()
"""Stands for a part that only the other value has."""


def difference(one: Any, other: Any, labels: tuple[str, str], path: str = "") -> str:
    """The first difference of two normalized values as text; empty if they are equal.

    >>> difference({"a": [1, 2]}, {"a": [1, 3]}, ("before", "after"))
    'a[1]: 2 before, 3 after'
    """
    if isinstance(one, list) and isinstance(other, list):
        steps = {index: f"{path}[{index}]" for index in range(max(len(one), len(other)))}
        one, other = dict(enumerate(one)), dict(enumerate(other))
    elif isinstance(one, dict) and isinstance(other, dict):
        steps = {key: f"{path}.{key}" if path else str(key) for key in [*one, *other]}
    elif one is other or one == other:
        return ""
    else:
        texts = [
            text if len(text) <= _MAX_CHARACTERS else f"{text[: _MAX_CHARACTERS - 3]}..."
            for text in (repr(one), repr(other))
        ]
        where = f"{path}: " if path else ""
        return f"{where}{texts[0]} {labels[0]}, {texts[1]} {labels[1]}"
    for key, step in steps.items():
        found = difference(one.get(key, _MISSING), other.get(key, _MISSING), labels, step)
        if found:
            return found
    return ""
