"""Values without what differs from run to run, and the first place where two of them differ.

Message ids are left out, and the ids of tool calls are numbered as they come: LangChain makes them
by chance. What is left is plain data where it can be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
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
_SHOWN = 60  # characters of a value in the words of a difference


def plain(value: Any) -> Any:
    """The value as data that is equal wherever two runs did the same.

    >>> from langchain_core.messages import AIMessage
    >>> plain([AIMessage("Hi", id="1")])
    [{'type': 'ai', 'content': 'Hi'}]
    """
    found = _plain(value)
    ids = dict.fromkeys(_ids(value))
    return _renamed(found, {id_: f"call_{n}" for n, id_ in enumerate(ids, 1)})


def _ids(value: Any) -> Iterator[str]:
    """The ids of tool calls, in the order in which they appear."""
    if isinstance(value, AIMessage):
        yield from call_ids(value)
    elif isinstance(value, ToolMessage):
        yield value.tool_call_id
    elif isinstance(value, ToolCallRequest):
        yield str(value.tool_call["id"])
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _ids(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _ids(item)
    elif isinstance(value, ModelRequest):
        yield from _ids(value.messages)
    elif is_dataclass(value) and not isinstance(value, type):
        yield from _ids([getattr(value, f.name) for f in fields(value)])


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, dict):
        return {key: _renamed(item, names) for key, item in value.items()}
    return [_renamed(item, names) for item in value] if isinstance(value, list) else value


@singledispatch
def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        found = {f.name: _plain(getattr(value, f.name)) for f in fields(value) if f.repr}
        return {name: item for name, item in found.items() if item not in (None, (), [], {})}
    return value


@_plain.register(BaseMessage)
def _(message: BaseMessage) -> Any:
    if isinstance(message, RemoveMessage):
        return {"type": "remove"}
    found: dict[str, Any] = {"type": message.type}
    for name in _MESSAGE_FIELDS:
        value = getattr(message, name, None)
        if value or name == "content":
            found[name] = [_call(call) for call in value or ()] if "calls" in name else value
    if getattr(message, "status", "success") != "success":
        found["status"] = "error"
    return _plain(found)


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in call.items() if key != "type"}


@_plain.register(dict)
@_plain.register(Mapping)
def _(mapping: Mapping[Any, Any]) -> Any:
    return {str(key): _plain(value) for key, value in mapping.items()}


@_plain.register(list)
@_plain.register(tuple)
def _(items: Any) -> Any:
    return [_plain(item) for item in items]


@_plain.register(set)
@_plain.register(frozenset)
@_plain.register(Set)
def _(items: Any) -> Any:
    return sorted((_plain(item) for item in items), key=repr)


@_plain.register
def _(request: ModelRequest) -> Any:
    found = {
        "model": type(request.model).__name__,
        "messages": request.messages,
        "system": request.system_prompt,
        "tools": [_tool(tool) for tool in request.tools],
        "tool_choice": request.tool_choice,
        "settings": request.model_settings,
    }
    return {name: _plain(item) for name, item in found.items() if item not in (None, [], {})}


def _tool(tool: Any) -> Any:
    return tool if isinstance(tool, dict) else getattr(tool, "name", None) or tool.__name__


@_plain.register
def _(request: ToolCallRequest) -> Any:
    return _call(request.tool_call)


@_plain.register
def _(interrupt: Interrupt) -> Any:
    return {"interrupt": _plain(interrupt.value)}


@_plain.register
def _(error: BaseException) -> Any:
    return {"error": type(error).__name__, "text": str(error)}


@_plain.register
def _(value: Enum) -> Any:
    return value.value


@_plain.register
def _(tool: BaseTool) -> Any:
    return tool.name


@_plain.register
def _(model: BaseChatModel) -> Any:
    return type(model).__name__


@_plain.register
def _(value: BaseModel) -> Any:
    return {type(value).__name__: _plain(value.model_dump())}


class _Nothing:
    def __repr__(self) -> str:
        return "nothing"


NOTHING = _Nothing()
"""Stands where one of two values has no part at all."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where two values differ.

    Args:
        path: Where it is, such as `messages[2].content`; empty for the whole.
        one: What is there in the first.
        other: What is there in the second.
    """

    path: str
    one: Any
    other: Any

    def words(self, one: str, other: str) -> str:
        """The difference in words, with names for the two sides."""
        where = f"{self.path}: " if self.path else ""
        return f"{where}{_short(self.one)} {one}, {_short(self.other)} {other}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def first_difference(one: Any, other: Any, path: str = "") -> Difference | None:
    """The first place where two plain values differ; None where they are equal.

    >>> first_difference({"a": [1, 2]}, {"a": [1, 3]}).path
    'a[1]'
    """
    if isinstance(one, dict) and isinstance(other, dict):
        return _first_of(one, other, dict.fromkeys([*one, *other]), f"{path}." if path else "")
    if isinstance(one, list) and isinstance(other, list):
        pair = dict(enumerate(one)), dict(enumerate(other))
        return _first_of(*pair, dict.fromkeys([*pair[0], *pair[1]]), path)
    return None if one is other or one == other else Difference(path, one, other)


def _first_of(
    one: Mapping[Any, Any], other: Mapping[Any, Any], keys: Mapping[Any, Any], path: str
) -> Difference | None:
    for key in keys:
        step = f"{path}[{key}]" if isinstance(key, int) else f"{path}{key}"
        found = first_difference(one.get(key, NOTHING), other.get(key, NOTHING), step)
        if found:
            return found
    return None
