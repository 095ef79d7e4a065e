"""What tools touch: the files, rows and keys of the state that a call reads and writes.

Calls of one turn run side by side where they cannot meet, and in the order of the message where
they can: two calls meet if one writes what the other reads or writes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from langchain_core.tools import BaseTool

from agent_factory.errors import ArgumentError, describe

ToolT = TypeVar("ToolT", bound=BaseTool | Callable[..., Any])

NamesOfCall = Callable[[Mapping[str, Any]], str | Iterable[str]]
"""Function of the arguments of a call that returns one name or several."""

Names = str | Iterable[str] | NamesOfCall
"""A name, several, or a function of the arguments."""

EVERYTHING = "*"
"""The name that meets each other name."""

_KEY = "touches"
"""Key of `BaseTool.extras`, of which integrations send the keys that they know."""

_ATTRIBUTE = "_agent_factory_touches"
"""Attribute of a function. `functools.wraps` copies it."""

_ARGUMENT = re.compile(r"\{(\w+)\}")
"""The place of an argument in a name."""


@dataclass(frozen=True, slots=True)
class Touches:
    """What a tool reads and writes; a function stands for the names that it returns.

    Args:
        reads: Names of what it reads.
        writes: Names of what it writes, which it may read as well.
    """

    reads: tuple[str, ...] | NamesOfCall = ()
    writes: tuple[str, ...] | NamesOfCall = ()

    def of(self, arguments: Mapping[str, Any]) -> CallTouches:
        """Return what a call with these arguments touches.

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

    def texts(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return what it reads and what it writes, as a plan shows them."""
        return _texts(self.reads), _texts(self.writes)


@dataclass(frozen=True, slots=True)
class CallTouches:
    """What one call reads and writes, by names with its arguments in them."""

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()

    def meets(self, other: CallTouches) -> bool:
        """Return True if one of two calls writes what the other one reads or writes.

        >>> CallTouches(reads=("file:a",)).meets(CallTouches(writes=("file:*",)))
        True
        >>> CallTouches(reads=("file:a",)).meets(CallTouches(reads=("file:a",)))
        False
        """
        return any(_same(a, b) for a in self.writes for b in (*other.writes, *other.reads)) or any(
            _same(a, b) for a in self.reads for b in other.writes
        )


def touches(*, reads: Names = (), writes: Names = ()) -> Callable[[ToolT], ToolT]:
    """Say what a tool reads and writes: a decorator for functions and tools.

    Calls of one turn that meet run in the order of the message, and each sees the state that the
    earlier ones have written. All other calls run side by side. Two calls meet if one writes what
    the other reads or writes. A tool without `touches` touches nothing that is known, so that it
    runs side by side with all others.

    A name is any text: "file:notes.txt", "row:orders/7", "state:todos". `{argument}` in it is
    filled from the call: "file:{path}". Two names are the same if they are equal; a name that ends
    in `*` is the same as each name that begins with the text before it. If a call lacks the
    argument, or the function raises an error, the name is "*", which is the same as each name.

    A function keeps what it touches, and a BaseTool is copied with it.

    Args:
        reads: A name, several names, or a function of the arguments of the call (a dict by the
            names of the parameters) that returns one name or several.
        writes: The same for what it writes.

    Raises:
        ArgumentError: A name is not a text or is empty, or what is decorated is not a tool.

    >>> @touches(reads="file:{source}", writes="file:{target}")
    ... def copy_file(source: str, target: str) -> str:
    ...     "Copy a file."
    ...     return "Done."
    >>> touches_of(copy_file).of({"source": "a", "target": "b"})
    CallTouches(reads=('file:a',), writes=('file:b',))
    """
    declared = Touches(_checked(reads, "reads"), _checked(writes, "writes"))

    def decorate(tool: ToolT) -> ToolT:
        if isinstance(tool, BaseTool):
            names = {"reads": declared.reads, "writes": declared.writes}
            extras = {**(tool.extras or {}), _KEY: names}
            return tool.model_copy(update={"extras": extras})
        if not callable(tool) or isinstance(tool, type):
            reason = f"must decorate a function or a BaseTool, got {describe(tool)}."
            hint = 'Write @touches(writes="file:{path}") above the tool, or touches(...)(tool).'
            raise ArgumentError("touches", reason, hint)
        setattr(tool, _ATTRIBUTE, declared)
        return tool

    return decorate


def touches_of(tool: object) -> Touches | None:
    """Return what `touches` says about a tool or its function; None without.

    Raises:
        ArgumentError: `extras` of the tool hold something else by this key.
    """
    if isinstance(tool, BaseTool):
        if tool.extras and _KEY in tool.extras:
            return _from_extras(tool.extras[_KEY])  # which may be written by hand
        fields = vars(tool)  # pydantic takes long to say that a tool has no such field
        functions = (fields.get("func"), fields.get("coroutine"))
    else:
        functions = (tool, None)
    for function in functions:
        declared: Touches | None = getattr(function, _ATTRIBUTE, None)
        if declared is not None:
            return declared
    return None


def check_touches(tool: BaseTool) -> None:
    """Check that the names of what a tool touches refer to its parameters.

    Raises:
        ArgumentError: It has no such parameter, so that each call would meet all others.
    """
    if (declared := touches_of(tool)) is None or not (parameters := declared.parameters()):
        return
    if unknown := sorted(parameters - tool.args.keys()):
        names = ", ".join(f"{{{name}}}" for name in unknown)
        reason = f"touches {names}, and the tool has no such parameter."
        known = ", ".join(f"{{{name}}}" for name in tool.args) or "none"
        raise ArgumentError(tool.name, reason, f"Its parameters are: {known}.")


def _names(
    declared: tuple[str, ...] | NamesOfCall, arguments: Mapping[str, Any]
) -> tuple[str, ...]:
    try:
        if isinstance(declared, tuple):
            return tuple(
                _ARGUMENT.sub(lambda match: str(arguments[match[1]]), name) for name in declared
            )
        names: tuple[str, ...] = _checked(declared(arguments), "names")
        return names
    except Exception:  # what the call touches is unknown, so it waits for all others
        return (EVERYTHING,)


def _same(name: str, other: str) -> bool:
    """Return True if two names may stand for one thing."""
    if name.endswith("*"):
        start = name[:-1]
        return other.startswith(start) or (other[-1:] == "*" and start.startswith(other[:-1]))
    return name.startswith(other[:-1]) if other.endswith("*") else name == other


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
    raise ArgumentError("touches", reason, 'Write @touches(writes="file:{path}") above the tool.')


def _texts(declared: tuple[str, ...] | NamesOfCall) -> tuple[str, ...]:
    if isinstance(declared, tuple):
        return declared
    return (f"{getattr(declared, '__name__', type(declared).__name__)}(...)",)


def _from_extras(value: Any) -> Touches:
    if isinstance(value, Mapping) and value.keys() <= {"reads", "writes"}:
        return Touches(**{key: _checked(names, key) for key, names in value.items()})
    reason = f"must have reads and writes, got {describe(value)}."
    raise ArgumentError("touches", reason, 'Write @touches(writes="file:{path}") above the tool.')
