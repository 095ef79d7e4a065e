"""Functions and objects that handle errors of tools."""

from __future__ import annotations

from typing import Any


def values(error: ValueError) -> str:
    """Handles one kind of errors."""
    return f"bad value {error}"


def values_or_keys(error: ValueError | KeyError) -> str:
    """Handles two kinds of errors."""
    return "one of the two"


def two(error: Exception, tool_call: Any) -> str:
    """A handler with a second parameter."""
    return "never"


async def later(error: Exception) -> str:
    """An async handler."""
    return "never"


def number(error: int) -> str:
    """A handler of what is not an error."""
    return "never"


class HandlerObject:
    """A handler that is an object."""

    def __call__(self, error: ValueError) -> str:
        return "handled by an object"


FAILURES = {"value": ValueError, "key": KeyError, "os": OSError}


def fail(kind: str) -> str:
    """Fail in some way."""
    raise FAILURES[kind](kind)
