"""Order of a stack of middleware: the declarations of each, and their contradictions."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import combinations, permutations
from typing import Any, Final, Literal, get_args

from agent_factory.errors import ArgumentError, BuildWarning, SpecError, describe

Aspect = Literal["user_messages", "answers", "tool_calls", "tool_results", "tool_errors", "thread"]
"""Part of a conversation that middleware read or change; tool errors are exceptions, and the thread
is all messages so far."""

ASPECTS: Final[tuple[str, ...]] = get_args(Aspect)

Part = Literal["tools", "system_prompt", "messages"]
"""Part of a request to a model, in the order in which providers read and cache them."""

PARTS: Final[tuple[str, ...]] = get_args(Part)


def is_strings(value: Any) -> bool:
    """Return True for a collection of strings, which a string itself is not."""
    several = isinstance(value, Collection) and not isinstance(value, str)
    return several and all(isinstance(item, str) for item in value)


@dataclass(frozen=True, slots=True)
class Ordering:
    """Position of a middleware in a stack. Other middleware are named by `name` or by their class.

    Args:
        before: Middleware that this middleware must precede (be outside of), if in the stack.
        after: Middleware that this middleware must follow (be inside of), if in the stack.
        requires: Middleware that must be in the stack.
        conflicts: Middleware that must not be in the stack.
        reads: Aspects it judges, so that no other middleware should change them afterwards.
        writes: Aspects it changes after the model has answered.
        sends_to_model: Aspects it sends to a model itself.
        sanitizes: Aspects it cleans before other middleware see them.
        extends: Parts of a request ("tools", "system_prompt", "messages") to which its layer adds
            the same in each call.
        varies: Parts of a request to which its layer adds something else in each call, such as the
            time, so that providers cannot read the rest from their cache.

    Raises:
        ArgumentError: A field is not a collection of strings, or names an unknown aspect or part.

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
    extends: Collection[str] = ()
    varies: Collection[str] = ()

    def __post_init__(self) -> None:
        for field in fields(self):
            subject, value = f"Ordering.{field.name}", getattr(self, field.name)
            if not is_strings(value):
                reason = f"must be a tuple of strings, got {describe(value)}."
                raise ArgumentError(subject, reason, f'Write `{field.name}=("...",)`.')
            if field.name in ("before", "after", "requires", "conflicts"):
                continue
            what, options = "an aspect of a conversation", ASPECTS
            if field.name in ("extends", "varies"):
                what, options = "a part of a request", PARTS
            # A misspelt aspect would check nothing. A middleware that is absent may be named.
            if wrong := set(value) - set(options):
                raise ArgumentError(
                    subject,
                    f"{', '.join(sorted(wrong))} is not {what}.",
                    f"Write {', '.join(options[:-1])} or {options[-1]}.",
                )


@dataclass(frozen=True, slots=True)
class _StackPosition:
    """Position of a middleware in its stack, with its declarations."""

    name: str
    names: frozenset[str]  # names in declarations: its name, and the names of its classes
    ordering: Ordering
    input_order: tuple[bool, int]  # sorts by when a middleware sees the request to the model
    output_order: tuple[bool, int]  # sorts by when a middleware sees the result of the model

    def is_one_of(self, names: Collection[str]) -> bool:
        return not self.names.isdisjoint(names)


def check_order(
    members: Sequence[Any], early: Collection[str], late: Collection[str]
) -> Iterator[SpecError]:
    """Yield all mistakes in the members of a stack and their order.

    `early` names members with a hook before the model, `late` members with a hook after the model.
    """
    stack = [
        _StackPosition(
            member.name,
            frozenset([member.name, *(base.__name__ for base in type(member).__mro__)]),
            member.ordering,
            # All hooks come before the layers.
            input_order=(member.name not in early, index),
            # Hooks run from the end of the list to its beginning, then the layers of the tools.
            output_order=(False, -index) if member.name in late else (True, index),
        )
        for index, member in enumerate(members)
    ]
    yield from _membership_errors(stack)
    # A set: both may declare the same order. Sorted, so that errors come in one order.
    pairs = sorted(
        {
            (position.name, other.name)
            for position, other in permutations(stack, 2)
            if other.is_one_of(position.ordering.before) or position.is_one_of(other.ordering.after)
        }
    )
    if cycle := _cycle(pairs):
        reason = "each declare to come before the other, so no order satisfies both."
        hint = "Correct the `ordering` of one of them."
        yield SpecError(" and ".join(sorted(cycle)), reason, hint, code="AF120")
        # No order satisfies these pairs, so a warning about the order would not help.
        pairs = []
    index = {position.name: at for at, position in enumerate(stack)}
    for first, second in pairs:
        if index[first] > index[second]:
            reason = f"are in the wrong order: {first} belongs outside of {second}."
            hint = f"Put {first} before {second} in `middleware`."
            yield BuildWarning(f"{second}, {first}", reason, hint, code="AF204")
    yield from _aspect_warnings(stack)


def _membership_errors(stack: Sequence[_StackPosition]) -> Iterator[SpecError]:
    for position in stack:
        for name in position.ordering.requires:
            if not any(other.is_one_of([name]) for other in stack if other is not position):
                reason = f"requires {name}, which is not in the stack."
                yield SpecError(position.name, reason, f"Add {name} to `middleware`.", code="AF118")
    for position, other in permutations(stack, 2):
        if other.is_one_of(position.ordering.conflicts):
            reason = f"cannot be used together with {other.name}."
            yield SpecError(position.name, reason, "Remove one of them.", code="AF119")


def _cycle(pairs: Sequence[tuple[str, str]]) -> set[str]:
    """Return the names that form a cycle."""
    left = {name for pair in pairs for name in pair}
    # A name without a predecessor is in no cycle. Take such names out until none is left.
    while free := {n for n in left if not any(b == n and a in left for a, b in pairs)}:
        left -= free
    # A name that only follows a cycle is not part of the cycle.
    while last := {n for n in left if not any(a == n and b in left for a, b in pairs)}:
        left -= last
    return left


def _aspect_warnings(stack: Sequence[_StackPosition]) -> Iterator[SpecError]:
    for position, other in permutations(stack, 2):
        # User messages only: answers and results are sanitized before they are written.
        sends = "user_messages" in position.ordering.sends_to_model
        cleans = "user_messages" in other.ordering.sanitizes
        if sends and cleans and position.input_order < other.input_order:
            reason = f"sends user messages to a model before {other.name} has sanitized them."
            hint = f"Put {other.name} before {position.name} in `middleware`."
            yield BuildWarning(position.name, reason, hint, code="AF205")
    for position, other in permutations(stack, 2):
        reads = "tool_calls" in position.ordering.reads
        changed = "tool_calls" in other.ordering.writes
        if reads and changed and other.output_order > position.output_order:
            yield BuildWarning(
                position.name,
                f"judges tool calls that {other.name} may still change.",
                f"Let {position.name} see them last: hooks after the model run from the end of the "
                "list to its beginning, then the layers of the tools.",
                code="AF206",
            )
    # In the order of the stack: a provider caches a request only up to the first part that varies.
    for position, other in combinations(stack, 2):
        for part in sorted({*position.ordering.varies} & {*other.ordering.extends}):
            name = part.replace("_", " ")
            yield BuildWarning(
                position.name,
                f"changes the {name} in each call, before {other.name} adds to it: providers "
                "cannot cache what it adds.",
                f"Put {other.name} before {position.name} in `middleware`.",
                code="AF214",
            )
    for position, other in permutations(stack, 2):
        if "thread" in position.ordering.reads and "thread" in other.ordering.writes:
            yield BuildWarning(
                position.name,
                f"relies on the messages of the thread, from which {other.name} removes some.",
                f"Let {other.name} keep them: a built-in does with keep_thread=True.",
                code="AF208",
            )
