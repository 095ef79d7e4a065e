"""Normalize values so that equal runs compare equal, and find the first difference of two values.

LangChain draws the ids of messages and tool calls at random. So message ids are left out, and the
ids of tool calls are numbered in the order in which they appear.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, fields, is_dataclass
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
_MAX_CHARACTERS = 60  # of a value in the description of a difference


def normalize(value: Any) -> Any:
    """The value as plain data that is equal for runs that did the same.

    >>> from langchain_core.messages import AIMessage
    >>> normalize([AIMessage("Hi", id="1")])
    [{'type': 'ai', 'content': 'Hi'}]
    """
    ids = dict.fromkeys(_call_ids(value))
    return replace_strings(_normalize(value), {id_: f"call_{n}" for n, id_ in enumerate(ids, 1)})


def _call_ids(value: Any) -> Iterator[str]:
    """The ids of tool calls, in the order in which they appear."""
    if isinstance(value, AIMessage):
        yield from call_ids(value)
    elif isinstance(value, ToolMessage):
        yield value.tool_call_id
    elif isinstance(value, ToolCallRequest):
        yield str(value.tool_call["id"])
    elif isinstance(value, ModelRequest):
        yield from _call_ids(value.messages)
    elif isinstance(value, Mapping | list | tuple):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _call_ids(item)
    elif is_dataclass(value) and not isinstance(value, type):
        yield from _call_ids([getattr(value, f.name) for f in fields(value)])


def replace_strings(value: Any, names: Mapping[str, str]) -> Any:
    """Plain data with some strings replaced, at any depth."""
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, dict):
        return {key: replace_strings(item, names) for key, item in value.items()}
    return [replace_strings(item, names) for item in value] if isinstance(value, list) else value


@singledispatch
def _normalize(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        found = {f.name: _normalize(getattr(value, f.name)) for f in fields(value) if f.repr}
        return {name: item for name, item in found.items() if item not in (None, (), [], {})}
    return value


@_normalize.register
def _(message: BaseMessage) -> Any:
    if isinstance(message, RemoveMessage):
        return {"type": "remove"}
    found: dict[str, Any] = {"type": message.type}
    for name in _MESSAGE_FIELDS:
        value = getattr(message, name, None)
        if value or name == "content":
            found[name] = [_tool_call(call) for call in value or ()] if "calls" in name else value
    if getattr(message, "status", "success") != "success":
        found["status"] = "error"
    return _normalize(found)


@_normalize.register
def _(request: ModelRequest) -> Any:
    tools: list[Any] = []
    for tool in request.tools:
        name = getattr(tool, "name", None) or getattr(tool, "__name__", None)
        tools.append(tool if isinstance(tool, dict) else name)
    found = {
        "model": type(request.model).__name__,
        "messages": request.messages,
        "system": request.system_prompt,
        "tools": tools,
        "tool_choice": request.tool_choice,
        "settings": request.model_settings,
    }
    return {name: _normalize(item) for name, item in found.items() if item not in (None, [], {})}


def _tool_call(call: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in call.items() if key != "type"}


_FORMS: dict[type[Any], Callable[[Any], Any]] = {
    Mapping: lambda mapping: {str(key): _normalize(value) for key, value in mapping.items()},
    list: lambda items: [_normalize(item) for item in items],
    tuple: lambda items: [_normalize(item) for item in items],
    Set: lambda items: sorted((_normalize(item) for item in items), key=repr),
    ToolCallRequest: lambda request: _tool_call(request.tool_call),
    Interrupt: lambda interrupt: {"interrupt": _normalize(interrupt.value)},
    BaseException: lambda error: {"error": type(error).__name__, "text": str(error)},
    Enum: lambda member: member.value,
    BaseTool: lambda tool: tool.name,
    BaseChatModel: lambda model: type(model).__name__,
    BaseModel: lambda model: {type(model).__name__: _normalize(model.model_dump())},
}
for _kind, _form in _FORMS.items():
    _normalize.register(_kind, _form)


class _Missing:
    def __repr__(self) -> str:
        return "nothing"


MISSING = _Missing()
"""Stands for a part that only the other value has."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where two values differ.

    Args:
        path: The place, such as `messages[2].content`; empty if the values differ as a whole.
        one: The part of the first value.
        other: The part of the second value.
    """

    path: str
    one: Any
    other: Any

    def describe(self, one: str, other: str) -> str:
        """The difference as text, with names for the two values."""
        texts = [
            text if len(text) <= _MAX_CHARACTERS else f"{text[: _MAX_CHARACTERS - 3]}..."
            for text in (repr(self.one), repr(self.other))
        ]
        where = f"{self.path}: " if self.path else ""
        return f"{where}{texts[0]} {one}, {texts[1]} {other}"


def first_difference(one: Any, other: Any, path: str = "") -> Difference | None:
    """The first place where two normalized values differ; None if they are equal.

    >>> first_difference({"a": [1, 2]}, {"a": [1, 3]}).path
    'a[1]'
    """
    if isinstance(one, list) and isinstance(other, list):
        steps = {index: f"{path}[{index}]" for index in range(max(len(one), len(other)))}
        one, other = dict(enumerate(one)), dict(enumerate(other))
    elif isinstance(one, dict) and isinstance(other, dict):
        steps = {key: f"{path}.{key}" if path else str(key) for key in [*one, *other]}
    else:
        return None if one is other or one == other else Difference(path, one, other)
    for key, step in steps.items():
        found = first_difference(one.get(key, MISSING), other.get(key, MISSING), step)
        if found:
            return found
    return None
