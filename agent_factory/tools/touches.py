"""Touches of tools: the files, rows and keys of the state that a call reads and writes.

Calls of one turn run side by side where they cannot meet, and in the order of the message where
they can: two calls meet if one writes data that the other reads or writes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from posixpath import normpath
from typing import Any

from langchain_core.tools import BaseTool

from agent_factory.errors import ArgumentError, describe
from agent_factory.tools.labels import ToolT, declaration_of, declare

NamesOfCall = Callable[[Mapping[str, Any]], str | Iterable[str]]
"""Function of the arguments of a call that returns a name or several names."""

Names = str | Iterable[str] | NamesOfCall
"""A name, several, or a function of the arguments."""

EVERYTHING = "*"
"""The name that meets each name."""

_KEY = "touches"
"""Key of the touches among the declarations of a tool."""

_EXAMPLE = '@touches(writes="file:{path}")'

_ARGUMENT = re.compile(r"\{(\w+)\}")
"""The place of an argument in a name."""


@dataclass(frozen=True, slots=True)
class Touches:
    """Data that a tool reads and writes; a function stands for the names that it returns.

    Args:
        reads: Names of data that the tool reads.
        writes: Names of data that the tool writes, and may read as well.
    """

    reads: tuple[str, ...] | NamesOfCall = ()
    writes: tuple[str, ...] | NamesOfCall = ()

    def of(self, arguments: Mapping[str, Any]) -> CallTouches:
        """Return the touches of a call with these arguments.

        >>> Touches(writes=("file:{path}",)).of({"path": "a.txt"}).writes
        ('file:a.txt',)
        >>> Touches(writes=("file:{path}",)).of({}).writes
        ('*',)
        """
        return CallTouches(_names(self.reads, arguments), _names(self.writes, arguments))

    def parameters(self) -> set[str]:
        """Return the parameters that the names refer to."""
        names = [n for part in (self.reads, self.writes) if isinstance(part, tuple) for n in part]
        return {parameter for name in names for parameter in _ARGUMENT.findall(name)}

    def texts(self) -> dict[str, Any]:
        """Return the reads and writes, as a plan shows them."""
        return {"reads": _texts(self.reads), "writes": _texts(self.writes)}


@dataclass(frozen=True, slots=True)
class CallTouches:
    """Reads and writes of one call, by names with its arguments inside."""

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()

    def meets(self, other: CallTouches) -> bool:
        """Return True if one of two calls writes data that the other call reads or writes.

        >>> CallTouches(reads=("file:a",)).meets(CallTouches(writes=("file:*",)))
        True
        >>> CallTouches(reads=("file:a",)).meets(CallTouches(reads=("file:a",)))
        False
        """
        return any(_same(a, b) for a in self.writes for b in (*other.writes, *other.reads)) or any(
            _same(a, b) for a in self.reads for b in other.writes
        )


def touches(*, reads: Names = (), writes: Names = ()) -> Callable[[ToolT], ToolT]:
    """Declare the data that a tool reads and writes: a decorator for functions and tools.

    Calls of one turn that meet run in the order of the message, and each sees the state that the
    earlier calls have written. All other calls run side by side. Two calls meet if one writes data
    that the other reads or writes. A tool without `touches` touches no known data, so that its
    calls run side by side with all others.

    A name is any text: "file:notes.txt", "row:orders/7", "state:todos". `{argument}` inside is
    filled from the call: "file:{path}". Two names are the same if they are equal; a name with a `*`
    is the same as each name that begins with the text before the `*`. The path after "file:" is
    read as POSIX reads paths: "file:./a" and "file:b/../a" are "file:a". If a call lacks the
    argument, or the function raises an error, the name is "*", which is the same as each name.

    The calls of a turn with calls that meet are one task of LangGraph: if the process is killed
    during the task, all of them run again; otherwise only unfinished calls run again.

    A function keeps its touches, and a BaseTool is copied with them.

    Args:
        reads: A name, several names, or a function of the arguments of the call (a dict by the
            names of the parameters) that returns a name or several names.
        writes: The same for writes.

    Raises:
        ArgumentError: A name is not a text or is empty, or the decorated object is not a tool.

    >>> @touches(reads="file:{source}", writes="file:{target}")
    ... def copy_file(source: str, target: str) -> str:
    ...     "Copy a file."
    ...     return "Done."
    >>> touches_of(copy_file).of({"source": "a", "target": "b"})
    CallTouches(reads=('file:a',), writes=('file:b',))
    """
    names = {"reads": _checked(reads, "reads"), "writes": _checked(writes, "writes")}
    return lambda tool: declare(tool, _KEY, names, _EXAMPLE)


def touches_of(tool: object) -> Touches | None:
    """Return the declaration of `touches` for a tool or its function; None without.

    Raises:
        ArgumentError: `extras` of the tool hold something else by this key.
    """
    if (value := declaration_of(tool, _KEY)) is None:
        return None
    if isinstance(value, Mapping) and value.keys() <= {"reads", "writes"}:  # may be by hand
        return Touches(**{key: _checked(names, key) for key, names in value.items()})
    # Left out, such a tool would run side by side with calls that it meets.
    reason = f"must have reads and writes, got {describe(value)}."
    raise ArgumentError("touches", reason, f"Write {_EXAMPLE} above the tool.")


def check_touches(tool: BaseTool) -> None:
    """Check that the names in a tool's touches refer to its parameters.

    Raises:
        ArgumentError: There is no such parameter, so that each call would meet all others.
    """
    names_of_calls = touches_of(tool)
    parameters = set[str]() if names_of_calls is None else names_of_calls.parameters()
    # Only on demand: reading the parameters of a tool makes its schema.
    if parameters and (unknown := sorted(parameters - tool.args.keys())):
        names = ", ".join(f"{{{name}}}" for name in unknown)
        reason = f"touches {names}, and the tool has no such parameter."
        own = ", ".join(f"{{{name}}}" for name in tool.args) or "none"
        raise ArgumentError(tool.name, reason, f"Its parameters are: {own}.")


def _names(
    declaration: tuple[str, ...] | NamesOfCall, arguments: Mapping[str, Any]
) -> tuple[str, ...]:
    """Return the names of a call, in one spelling."""
    try:
        if isinstance(declaration, tuple):
            fill = partial(_ARGUMENT.sub, lambda match: str(arguments[match[1]]))
            return tuple(_spelled(fill(name)) for name in declaration)
        return tuple(map(_spelled, _checked(declaration(arguments), "names")))
    except Exception:  # the touches of the call are unknown, so it waits for all others
        return (EVERYTHING,)


def _spelled(name: str) -> str:
    """Return a name in one spelling: the path of a file without `.`, `..` and double slashes."""
    kind, _, path = name.partition(":")
    # POSIX leaves the meaning of two slashes at the beginning open.
    return f"file:{normpath(path).replace('//', '/')}" if kind == "file" else name


def _same(name: str, other: str) -> bool:
    """Return True if two names may stand for one thing."""
    start, star, _ = name.partition("*")
    other_start, other_star, _ = other.partition("*")
    if star and other_star:
        return start.startswith(other_start) or other_start.startswith(start)
    if star or other_star:
        return other.startswith(start) if star else name.startswith(other_start)
    return name == other


def _checked(names: Any, parameter: str) -> Any:
    """Return names as a tuple, and a function unchanged."""
    if callable(names):
        return names
    values = (names,) if isinstance(names, str) else names
    if isinstance(values, Iterable) and not isinstance(values, Mapping):
        values = tuple(values)
        if all(isinstance(name, str) and name for name in values):
            return values
    reason = f"{parameter} must be names or a function of the arguments, got {describe(names)}."
    raise ArgumentError("touches", reason, f"Write {_EXAMPLE} above the tool.")


def _texts(names: tuple[str, ...] | NamesOfCall) -> tuple[str, ...]:
    if isinstance(names, tuple):
        return names
    return (f"{getattr(names, '__name__', type(names).__name__)}(...)",)
