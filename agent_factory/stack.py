"""Change a stack of middleware by name: every function returns a new list.

>>> from agent_factory import AgentMiddleware, stack
>>> class Retry(AgentMiddleware): ...
>>> class Guard(AgentMiddleware): ...
>>> [member.name for member in stack.insert_before([Retry()], "Retry", Guard())]
['Guard', 'Retry']

A member is meant by its name, by the name of its class or by the class itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from agent_factory.errors import SpecError
from agent_factory.hooks.base import AgentMiddleware

Member = AgentMiddleware[Any, Any]
Which = str | type[Member]

__all__ = ["UnknownMember", "find", "insert_after", "insert_before", "remove", "replace"]


class UnknownMember(SpecError, LookupError):
    """No middleware in a stack has this name, or several have it."""

    code = "AF121"


def find(stack: Sequence[Member], which: Which) -> Member:
    """The member that is meant.

    Raises:
        UnknownMember: There is none, or more than one.
    """
    return stack[_index(stack, which)]


def replace(stack: Sequence[Member], which: Which, *new: Member) -> list[Member]:
    """The stack with other members in the place of one.

    Raises:
        UnknownMember: There is none, or more than one.
    """
    at = _index(stack, which)
    return [*stack[:at], *new, *stack[at + 1 :]]


def insert_before(stack: Sequence[Member], which: Which, *new: Member) -> list[Member]:
    """The stack with new members just before (outside of) one.

    Raises:
        UnknownMember: There is none, or more than one.
    """
    at = _index(stack, which)
    return [*stack[:at], *new, *stack[at:]]


def insert_after(stack: Sequence[Member], which: Which, *new: Member) -> list[Member]:
    """The stack with new members just after (inside of) one.

    Raises:
        UnknownMember: There is none, or more than one.
    """
    at = _index(stack, which) + 1
    return [*stack[:at], *new, *stack[at:]]


def remove(stack: Sequence[Member], which: Which) -> list[Member]:
    """The stack without one member.

    Raises:
        UnknownMember: There is none, or more than one.
    """
    return replace(stack, which)


def _index(stack: Sequence[Member], which: Which) -> int:
    name = which if isinstance(which, str) else which.__name__
    by_name = [i for i, member in enumerate(stack) if member.name == name and name == which]
    classes = [{base.__name__ for base in type(member).__mro__} for member in stack]
    found = by_name or [i for i, names in enumerate(classes) if name in names]
    if len(found) == 1:
        return found[0]
    names = [member.name for member in stack]
    if found:
        meant = ", ".join(names[i] for i in found)
        raise UnknownMember(name, "means several members of the stack.", f"Name one: {meant}.")
    close = get_close_matches(name, names, n=1)
    hint = f"Did you mean {close[0]}?" if close else f"It has {', '.join(names) or 'none'}."
    raise UnknownMember(name, "is not in the stack.", hint)
