"""JSON from outside: refused where a database would not store the value unchanged.

Output of a model cannot be refused: `agent_factory.state.history` changes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from langchain_core.messages import BaseMessage

from agent_factory.errors import ArgumentError, describe

DEEPEST = 100
"""The most nested lists and objects."""

MIN_INT, MAX_INT = -(2**63), 2**63 - 1
"""Integers of 64 bits."""

Fault = tuple[list[int | str], str]
"""A fault of a value: the path of keys and indexes, and the reason."""


def check_json(name: str, value: object) -> None:
    """Raise ArgumentError unless a value is JSON that every database stores unchanged.

    Args:
        name: The argument, with which the path in the error begins.
        value: The value.

    >>> check_json("metadata", {"topic": "refund", "tags": ["new", None], "euros": 4.5})
    >>> check_json("metadata", {"euros": [1, float("nan")]})
    Traceback (most recent call last):
        ...
    agent_factory.errors.ArgumentError: [AF101] metadata.euros.1: must be a finite number, got nan.
    """
    _raise(name, json_fault(value))


def check_storable(name: str, value: object) -> None:
    """Raise ArgumentError if a value in a state or an input cannot be stored unchanged.

    The value may hold messages and other objects, and numbers that are not finite.
    """
    _raise(name, json_fault(value, objects=True))


def _raise(name: str, fault: Fault | None) -> None:
    if fault is not None:
        path, reason = fault
        raise ArgumentError(f"{name}.{place_of(path)}" if path else name, reason)


def place_of(path: Sequence[int | str]) -> str:
    r"""The path of a value in an error, in ASCII if it cannot be stored or logged.

    >>> place_of(["messages", 0, "content"]), place_of(["a\0b"])
    ('messages.0.content', 'a\\x00b')
    """
    text = ".".join(map(str, path))
    return (text if text_fault(text) is None else ascii(text)[1:-1])[:200]


def json_fault(value: object, *, objects: bool = False, levels: int = DEEPEST) -> Fault | None:
    """Return the fault of a value, if any, with at most so many nested lists and objects.

    With `objects`, the value may hold numbers that are not finite, and objects of Python, of which
    only messages are looked into.
    """
    if isinstance(value, str):
        reason = text_fault(value)
        return None if reason is None else ([], reason)
    # In Python, True is an int.
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, int):
        return None if MIN_INT <= value <= MAX_INT else ([], "must be a number of at most 64 bits.")
    if isinstance(value, float):
        is_good = objects or isfinite(value)
        return None if is_good else ([], f"must be a finite number, got {value!r}.")
    if objects and isinstance(value, BaseMessage):
        value = vars(value)
    if isinstance(value, dict):
        for key, part in value.items():
            if isinstance(key, str) and (reason := text_fault(key)):
                return [key], reason
            if not (objects or isinstance(key, str)):
                return [], f"must have strings as keys, got {describe(key)}."
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
    # Only lists and objects come here. A value at the last level is refused without a look inside.
    return None if levels else ([], f"must not be nested more than {DEEPEST} levels deep.")


def text_fault(text: str) -> str | None:
    r"""Return the fault of a text, if any.

    >>> text_fault("a\0b"), text_fault("Grüße")
    ('must not have the character U+0000, which Postgres does not store.', None)
    """
    if "\0" in text:
        return "must not have the character U+0000, which Postgres does not store."
    # Most texts are ASCII, which has no halves, and this test is faster than to encode them.
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            half = f"U+{ord(text[error.start]):04X}"
            return f"must not have {half}, half of a character of UTF-16, without the other half."
    return None


def storable_text(text: str) -> str:
    r"""Return a text with U+FFFD for each character that no database stores.

    >>> storable_text("a\0b \ud83d")
    'a�b �'
    """
    # Joins adjacent halves.
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return whole.replace("\0", "\ufffd")
