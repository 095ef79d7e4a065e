"""JSON from outside, and values of a model's message: what every database stores as it is.

JSON from outside is refused where a database would store something else, or where other requests
would fail later. A model cannot be refused: its values are changed.
"""

from __future__ import annotations

from math import isfinite
from operator import is_
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from agent_factory.errors import ArgumentError, describe

DEEPEST = 100
"""The most lists and objects within each other."""

_LEAST, _MOST = -(2**63), 2**63 - 1

Fault = tuple[list[int | str], str]
"""What is wrong with a value: the keys and indexes that lead to it, and the reason."""


def check_json(name: str, value: object) -> None:
    """Raise ArgumentError unless a value is JSON that every database stores as it is.

    Args:
        name: The argument. It begins the place that the error names.
        value: The value.

    >>> check_json("metadata", {"topic": "refund", "tags": ["new", None], "euros": 4.5})
    >>> check_json("metadata", {"amounts": [1, float("nan")]})
    Traceback (most recent call last):
        ...
    agent_factory.errors.ArgumentError: [AF101] metadata.amounts.1: must be a finite number, got nan.
    """
    _raise(name, json_fault(value))


def check_storable(name: str, value: object) -> None:
    """Raise ArgumentError if a value in a state or an input cannot be stored as it is.

    It may hold messages and other objects, and numbers that are not finite.
    """
    _raise(name, json_fault(value, objects=True))


def _raise(name: str, fault: Fault | None) -> None:
    if fault is not None:
        path, reason = fault
        raise ArgumentError(".".join([name, *map(_shown, path)]), reason)


def json_fault(value: object, *, objects: bool = False, levels: int = DEEPEST) -> Fault | None:
    """Return what is wrong with a value, if anything.

    Args:
        value: The value.
        objects: Whether it may hold objects of Python, which are not looked into except for
            messages, and numbers that are not finite.
        levels: The most lists and objects within each other.
    """
    if isinstance(value, str):
        reason = text_fault(value)
        return None if reason is None else ([], reason)
    # In Python, True is an int.
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, int):
        return None if _LEAST <= value <= _MOST else ([], "must be a number of at most 64 bits.")
    if isinstance(value, float):
        is_good = objects or isfinite(value)
        return None if is_good else ([], f"must be a finite number, got {value!r}.")
    if objects and isinstance(value, BaseMessage):
        value = vars(value)
    if isinstance(value, dict):
        for key, part in value.items():
            if isinstance(key, str):
                reason = text_fault(key)
            else:
                reason = None if objects else f"must have strings as keys, got {describe(key)}."
            if reason is not None:
                return [key] if isinstance(key, str) else [], reason
            if levels and (fault := json_fault(part, objects=objects, levels=levels - 1)):
                fault[0].insert(0, str(key))
                return fault
    elif isinstance(value, list | tuple):
        for index, part in enumerate(value):
            if levels and (fault := json_fault(part, objects=objects, levels=levels - 1)):
                fault[0].insert(0, index)
                return fault
    elif not objects:
        return [], f"must be JSON, got {describe(value)}."
    else:
        return None
    return None if levels else ([], f"must not be nested more than {DEEPEST} levels deep.")


def text_fault(text: str) -> str | None:
    r"""Return what is wrong with a text, if anything.

    >>> text_fault("a\0b"), text_fault("Grüße")
    ('must not have the character U+0000, which Postgres does not store.', None)
    """
    if "\0" in text:
        return "must not have the character U+0000, which Postgres does not store."
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            half = f"U+{ord(text[error.start]):04X}"
            return f"must not have {half}, half of a character of UTF-16, without the other half."
    return None


def _shown(part: int | str) -> str:
    """A key in the place of an error: what cannot be stored cannot be logged everywhere either."""
    text = str(part)
    return text if text_fault(text) is None and len(text) <= 60 else ascii(text[:60])


def storable(message: AIMessage) -> AIMessage:
    """Return a model's message whose content and calls can be stored, and do not change by it.

    LangGraph's serializer takes integers of 64 bits, and writes "?" for half of a character of
    UTF-16, by which a reviewed call becomes another one. Here, a larger integer becomes a string of
    its digits, which a tool that takes an integer reads, and a half becomes U+FFFD.

    >>> calls = [{"name": "look", "args": {"order": 10**20}, "id": "1"}]
    >>> storable(AIMessage("", tool_calls=calls)).tool_calls[0]["args"]
    {'order': '100000000000000000000'}
    """
    update: dict[str, Any] = {}
    for name in ("content", "tool_calls", "invalid_tool_calls", "additional_kwargs"):
        value = getattr(message, name)
        if value and (new := _storable(value)) is not value:
            update[name] = new
    return message.model_copy(update=update) if update else message


def _storable(value: Any) -> Any:
    """The value itself if nothing in it has to change: nearly always."""
    if isinstance(value, str):
        if value.isascii():
            return value
        try:
            value.encode()
        except UnicodeEncodeError:
            # Two halves that belong together become the character.
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return value
    if isinstance(value, dict):
        keys, parts = [*map(_storable, value)], [*map(_storable, value.values())]
        is_same = all(map(is_, value, keys)) and all(map(is_, value.values(), parts))
        return value if is_same else dict(zip(keys, parts, strict=True))
    if isinstance(value, list):
        items = [_storable(item) for item in value]
        return value if all(map(is_, value, items)) else items
    # In Python, True is an int.
    if isinstance(value, int) and not isinstance(value, bool) and not _LEAST <= value <= _MOST:
        return str(value)
    return value
