"""Where a middleware belongs in a stack, as it declares it itself, and what breaks that order."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import product
from typing import Any, Final, Literal, get_args

from agent_factory.errors import ArgumentError, BuildWarning, SpecError, describe

Aspect = Literal["user_messages", "answers", "tool_calls", "tool_results", "tool_errors"]
"""A part of a conversation that middleware look at or change; tool errors are exceptions."""

ASPECTS: Final[tuple[str, ...]] = get_args(Aspect)


def are_texts(value: Any) -> bool:
    """Whether a value is a collection of texts, and not one text."""
    several = isinstance(value, Collection) and not isinstance(value, str)
    return several and all(isinstance(word, str) for word in value)


@dataclass(frozen=True, slots=True)
class Ordering:
    """What a middleware says of its place. Others are named by `name` or by their class.

    Args:
        before: It must come before (outside of) these, where they are in the stack.
        after: It must come after (inside of) these.
        requires: One of each must be in the stack.
        conflicts: None of these may be.
        reads: What it judges: a change that comes later would go unjudged.
        writes: What it changes after the model has answered.
        sends_to_model: What it sends to a model of its own.
        sanitizes: What it cleans before others see it.

    Raises:
        ArgumentError: A field is no collection of texts, or names an unknown aspect.

    >>> Ordering(before=("Retry",), sends_to_model=("user_messages",)).before
    ('Retry',)
    """

    before: Collection[str] = ()
    after: Collection[str] = ()
    requires: Collection[str] = ()
    conflicts: Collection[str] = ()
    reads: Collection[str] = ()
    writes: Collection[str] = ()
    sends_to_model: Collection[str] = ()
    sanitizes: Collection[str] = ()

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not are_texts(value):
                raise ArgumentError(
                    f"Ordering.{field.name}",
                    f"{describe(value)} is no tuple of texts.",
                    "Give one.",
                )
            aspects = field.name in ("reads", "writes", "sends_to_model", "sanitizes")
            if aspects and (unknown := set(value) - set(ASPECTS)):
                raise ArgumentError(
                    f"Ordering.{field.name}",
                    f"{', '.join(sorted(unknown))} is nothing a stack knows of.",
                    f"Name any of {', '.join(ASPECTS)}.",
                )


@dataclass(frozen=True, slots=True)
class StackPosition:
    """A middleware in its stack, as far as its order is concerned.

    Args:
        name: Its name.
        classes: The names of its class and of those it derives from.
        index: Its place in the list.
        ordering: What it declares.
        early: It acts in a hook before the model, not in a layer only.
        late: It acts in a hook after the model.
    """

    name: str
    classes: frozenset[str]
    index: int
    ordering: Ordering
    early: bool
    late: bool

    def is_called(self, name: str) -> bool:
        """Whether a declaration means this one."""
        return name == self.name or name in self.classes

    @property
    def input_order(self) -> tuple[bool, int]:
        """When it looks at what goes to the model: hooks come before all layers."""
        return (not self.early, self.index)

    @property
    def output_order(self) -> tuple[bool, int]:
        """When it looks at what the model gave: hooks backwards, then the layers of the tools."""
        return (not self.late, -self.index if self.late else self.index)


def order_findings(stack: Sequence[StackPosition]) -> Iterator[SpecError]:
    """Everything that speaks against the order of a stack, or against what is in it."""
    yield from _absent(stack)
    yield from _conflicting(stack)
    pairs = sorted(_declared(stack))
    if cycle := _cycle(pairs):
        yield SpecError(
            " and ".join(sorted(cycle)),
            "each declare to come before the other; no order serves both.",
            "Correct the `ordering` of one of them.",
            code="AF120",
        )
    else:
        yield from _misplaced(stack, pairs)
    yield from _exposed(stack)
    yield from _unjudged(stack)


def _absent(stack: Sequence[StackPosition]) -> Iterator[SpecError]:
    for one in stack:
        for wanted in one.ordering.requires:
            if not any(other.is_called(wanted) for other in stack if other is not one):
                yield SpecError(
                    one.name,
                    f"needs {wanted}, which is not in the stack.",
                    f"Add {wanted} to `middleware`.",
                    code="AF118",
                )


def _conflicting(stack: Sequence[StackPosition]) -> Iterator[SpecError]:
    for one, other in product(stack, stack):
        named = [name for name in one.ordering.conflicts if other.is_called(name)]
        if one is not other and named:
            yield SpecError(
                one.name, f"cannot work beside {other.name}.", "Take one of them out.", code="AF119"
            )


def _declared(stack: Sequence[StackPosition]) -> Iterator[tuple[str, str]]:
    """Pairs of names: the first is to come before the second."""
    for one, other in product(stack, stack):
        if one is other:
            continue
        if any(other.is_called(name) for name in one.ordering.before):
            yield one.name, other.name
        if any(other.is_called(name) for name in one.ordering.after):
            yield other.name, one.name


def _cycle(pairs: Sequence[tuple[str, str]]) -> set[str]:
    """The names that no order can serve: those left when all that can go first are gone."""
    left = {name for pair in pairs for name in pair}
    while free := {n for n in left if not any(b == n and a in left for a, b in pairs)}:
        left -= free
    # What merely comes after a cycle is no part of it.
    while last := {n for n in left if not any(a == n and b in left for a, b in pairs)}:
        left -= last
    return left


def _misplaced(
    stack: Sequence[StackPosition], pairs: Sequence[tuple[str, str]]
) -> Iterator[SpecError]:
    at = {one.name: one.index for one in stack}
    for first, second in dict.fromkeys(pairs):
        if at[first] > at[second]:
            yield BuildWarning(
                f"{second}, {first}",
                f"stand in the wrong order: {first} belongs outside of {second}.",
                f"Put {first} before {second} in `middleware`.",
                code="AF204",
            )


def _exposed(stack: Sequence[StackPosition]) -> Iterator[SpecError]:
    for one, guard in product(stack, stack):
        # Answers and results are cleaned before they are written, whatever the order.
        shared = {"user_messages"} & {*one.ordering.sends_to_model} & {*guard.ordering.sanitizes}
        if shared and one is not guard and one.input_order < guard.input_order:
            yield BuildWarning(
                one.name,
                f"sends what users write to a model of its own before {guard.name} has cleaned it.",
                f"Put {guard.name} before {one.name} in `middleware`.",
                code="AF205",
            )


def _unjudged(stack: Sequence[StackPosition]) -> Iterator[SpecError]:
    for judge, changer in product(stack, stack):
        shared = {"tool_calls"} & {*judge.ordering.reads} & {*changer.ordering.writes}
        if shared and judge is not changer and changer.output_order > judge.output_order:
            yield BuildWarning(
                judge.name,
                f"judges tool calls that {changer.name} may still change.",
                f"Put {judge.name} where it sees them last: hooks after the model run from the end "
                "of the list to its beginning, and layers of tools after them.",
                code="AF206",
            )


def placed(
    members: Sequence[Any], early: Collection[str], late: Collection[str]
) -> list[StackPosition]:
    """The members of a stack with what they declare.

    Args:
        members: The middleware, in order.
        early: The names of those with a hook before the model.
        late: The names of those with a hook after it.
    """
    return [
        StackPosition(
            member.name,
            frozenset(base.__name__ for base in type(member).__mro__),
            index,
            member.ordering,
            member.name in early,
            member.name in late,
        )
        for index, member in enumerate(members)
    ]
