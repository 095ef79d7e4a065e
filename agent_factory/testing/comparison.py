"""Normalize values so that equal runs compare equal, and find the first difference of two values.

LangChain draws the ids of messages and tool calls at random. So message ids are left out, and the
ids of tool calls are numbered in the order in which they appear.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import singledispatch
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, RemoveMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Interrupt
from pydantic import BaseModel

from agent_factory.state.history import call_ids
from agent_factory.types import ModelRequest, unbound

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


def normalize(value: object) -> Any:
    """The value as plain data, equal for runs with the same course.

    >>> from langchain_core.messages import AIMessage
    >>> normalize([AIMessage("Hi", id="1")])
    [{'type': 'ai', 'content': 'Hi'}]
    """
    ids: dict[str, None] = {}  # in the order in which they appear
    plain = _plain(value, ids)
    # Replaced afterwards, because a value may mention a call before the call appears.
    names = {id_: f"call_{n}" for n, id_ in enumerate(ids, 1)}
    return replace_strings(plain, names)


def replace_strings(value: object, names: Mapping[str, str]) -> Any:
    """Plain data with some strings replaced, at any depth."""
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, dict):
        # Records of reviews have ids as keys.
        return {names.get(key, key): replace_strings(item, names) for key, item in value.items()}
    return [replace_strings(item, names) for item in value] if isinstance(value, list) else value


def _plain(value: object, ids: dict[str, None]) -> object:
    """Plain data; the ids of tool calls are added to `ids`."""
    if isinstance(value, AIMessage):
        ids.update(dict.fromkeys(call_ids(value)))
    elif isinstance(value, ToolMessage):
        ids[value.tool_call_id] = None
    elif isinstance(value, ToolCallRequest):
        ids[str(value.tool_call["id"])] = None
    parts = _parts(value)
    if isinstance(parts, Mapping):
        return {str(key): _plain(item, ids) for key, item in parts.items()}
    if isinstance(parts, list | tuple):
        return [_plain(item, ids) for item in parts]
    if isinstance(parts, Set):
        # A set has another order in each process, and parts of a set need not compare.
        return sorted((_plain(item, ids) for item in parts), key=repr)
    return parts


@singledispatch
def _parts(value: object) -> object:
    """Parts of a value for a comparison."""
    if is_dataclass(value) and not isinstance(value, type):
        return _not_empty({f.name: getattr(value, f.name) for f in fields(value) if f.repr})
    return value


@_parts.register
def _(message: BaseMessage) -> object:
    parts: dict[str, object] = {"type": message.type}
    for name in _MESSAGE_FIELDS:
        value = getattr(message, name, None)
        if value or name == "content":
            parts[name] = [_tool_call(call) for call in value or ()] if "calls" in name else value
    if getattr(message, "status", "success") != "success":
        parts["status"] = "error"
    return parts


@_parts.register
def _(request: ModelRequest) -> object:
    parts = {
        "model": type(unbound(request.model)).__name__,
        "messages": request.messages,
        "system": request.system_prompt,
        "tools": [getattr(t, "name", getattr(t, "__name__", t)) for t in request.tools],
        "tool_choice": request.tool_choice,
        "settings": request.model_settings,
    }
    return _not_empty(parts)


def _tool_call(call: Mapping[str, object]) -> dict[str, object]:
    # AIMessage adds the type to a call; the call of a test or a layer may have none.
    return {key: value for key, value in call.items() if key != "type"}


def _not_empty(items: dict[str, object]) -> dict[str, object]:
    return {name: item for name, item in items.items() if item not in (None, (), [], {})}


_PARTS: dict[type[object], Callable[[Any], object]] = {
    RemoveMessage: lambda _: {"type": "remove"},
    ToolCallRequest: lambda request: _tool_call(request.tool_call),
    Interrupt: lambda interrupt: {"interrupt": interrupt.value},
    BaseException: lambda error: {"error": type(error).__name__, "text": str(error)},
    Enum: lambda member: member.value,
    BaseTool: lambda tool: tool.name,
    BaseChatModel: lambda model: type(unbound(model)).__name__,
    BaseModel: lambda model: {type(model).__name__: model.model_dump()},
}
for _kind, _form in _PARTS.items():
    _parts.register(_kind, _form)


class _Missing:
    def __repr__(self) -> str:
        return "nothing"


_MISSING = _Missing()
"""Stands for a part that only the other value has."""


def shortened(text: str, most: int = 60) -> str:
    """The begin of a text, for a line."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def difference(first: object, other: object, labels: tuple[str, str], path: str = "") -> str:
    """The first difference of two normalized values as text; empty if they are equal.

    >>> difference({"a": [1, 2]}, {"a": [1, 3]}, ("before", "after"))
    'a[1]: 2 before, 3 after'
    """
    if isinstance(first, list) and isinstance(other, list):
        steps = {index: f"{path}[{index}]" for index in range(max(len(first), len(other)))}
        first, other = dict(enumerate(first)), dict(enumerate(other))
    elif isinstance(first, dict) and isinstance(other, dict):
        steps = {key: f"{path}.{key}" if path else str(key) for key in [*first, *other]}
    # By identity as well: NaN is not equal to itself.
    elif first is other or first == other:
        return ""
    else:
        where = f"{path}: " if path else ""
        texts = shortened(repr(first)), shortened(repr(other))
        return f"{where}{texts[0]} {labels[0]}, {texts[1]} {labels[1]}"
    for key, step in steps.items():
        text_of_part = difference(first.get(key, _MISSING), other.get(key, _MISSING), labels, step)
        if text_of_part:
            return text_of_part
    return ""
