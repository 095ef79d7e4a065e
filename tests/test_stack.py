"""A stack is changed by name, into a new list."""

from __future__ import annotations

from typing import Any

import pytest

from agent_factory import AgentMiddleware, stack
from agent_factory.stack import UnknownMember
from tables import each


class Retry(AgentMiddleware):
    pass


class Slow(Retry):
    pass


class Guard(AgentMiddleware):
    pass


A, B, G = Retry(name="a"), Retry(name="b"), Guard()


def names(members: list[Any]) -> list[str]:
    return [member.name for member in members]


def test_members_are_found_by_name_by_class_and_by_the_name_of_a_class() -> None:
    assert stack.find([A, B, G], "b") is B
    assert stack.find([A, G], Guard) is G
    assert stack.find([A, G], "Retry") is A
    slow = Slow()
    assert stack.find([slow, G], Retry) is slow
    named = Guard(name="Retry")  # the name of a member takes precedence over a class
    assert stack.find([A, named], "Retry") is named
    assert stack.find([A, named], Retry) is A


def test_every_change_is_a_new_list() -> None:
    before = [A, B]
    assert names(stack.insert_before(before, "b", G)) == ["a", "Guard", "b"]
    assert names(stack.insert_after(before, "b", G)) == ["a", "b", "Guard"]
    assert names(stack.replace(before, "a", G)) == ["Guard", "b"]
    assert names(stack.replace(before, "a", G, Slow())) == ["Guard", "Slow", "b"]
    assert names(stack.remove(before, "a")) == ["b"]
    assert before == [A, B]


@each(
    "which, hint",
    [
        ("zebra", "The members are a, b, Guard."),
        ("Gaurd", "Did you mean Guard?"),
        (Slow, "The members are a, b"),
    ],
)
def test_a_name_that_is_not_there_is_an_error_that_helps(which: Any, hint: str) -> None:
    with pytest.raises(UnknownMember) as caught:
        stack.remove([A, B, G], which)
    assert caught.value.hint.startswith(hint)
    with pytest.raises(LookupError, match="The stack is empty"):
        stack.find([], which)


@pytest.mark.parametrize("which", ["Retry", Retry])
def test_a_class_with_several_members_lists_them(which: Any) -> None:
    with pytest.raises(UnknownMember, match="Use one of their names: a, b"):
        stack.insert_before([A, B, G], which, Guard(name="other"))
