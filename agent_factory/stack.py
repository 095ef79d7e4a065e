"""Edit a list of middleware by name; every function returns a new list.

>>> from agent_factory import AgentMiddleware, stack
>>> class Retry(AgentMiddleware): ...
>>> class Guard(AgentMiddleware): ...
>>> [member.name for member in stack.insert_before([Retry()], "Retry", Guard())]
['Guard', 'Retry']

A member is selected by its name, by the name of its class, or by the class.
"""

from __future__ import annotations

from collections.abc import Sequence

from agent_factory.errors import SpecError, did_you_mean
from agent_factory.hooks.base import Middleware

Member = Middleware
Which = str | type[Member]

__all__ = ["UnknownMember", "find", "insert_after", "insert_before", "remove", "replace"]


class UnknownMember(SpecError, LookupError):
    """No middleware in a stack has this name, or several have it."""

    code = "AF121"


def find(stack: Sequence[Member], which: Which) -> Member:
    """Return the selected member.

    Raises:
        UnknownMember: No member is selected, or several are.
    """
    return stack[_index(stack, which)]


def replace(stack: Sequence[Member], which: Which, *new: Member) -> list[Member]:
    """Replace a member.

    Raises:
        UnknownMember: No member is selected, or several are.
    """
    at = _index(stack, which)
    return [*stack[:at], *new, *stack[at + 1 :]]


def insert_before(stack: Sequence[Member], which: Which, *new: Member) -> list[Member]:
    """Insert members before (outside of) a member.

    Raises:
        UnknownMember: No member is selected, or several are.
    """
    return replace(stack, which, *new, find(stack, which))


def insert_after(stack: Sequence[Member], which: Which, *new: Member) -> list[Member]:
    """Insert members after (inside of) a member.

    Raises:
        UnknownMember: No member is selected, or several are.
    """
    return replace(stack, which, find(stack, which), *new)


def remove(stack: Sequence[Member], which: Which) -> list[Member]:
    """Remove a member.

    Raises:
        UnknownMember: No member is selected, or several are.
    """
    return replace(stack, which)


def _index(stack: Sequence[Member], which: Which) -> int:
    name = which if isinstance(which, str) else which.__name__
    # The name of an instance goes before that of a class, which several members may share.
    by_name = [i for i, member in enumerate(stack) if member.name == name and name == which]
    # By name, not by `isinstance`: the adapter of a LangChain middleware has bases of their names.
    classes = [{base.__name__ for base in type(member).__mro__} for member in stack]
    found = by_name or [i for i, names in enumerate(classes) if name in names]
    if len(found) == 1:
        return found[0]
    names = [member.name for member in stack]
    if found:
        matches = ", ".join(names[i] for i in found)
        raise UnknownMember(name, "selects several members.", f"Use one of their names: {matches}.")
    members = f"The members are {', '.join(names)}." if names else "The stack is empty."
    raise UnknownMember(name, "is not in the stack.", did_you_mean(name, names, members))
