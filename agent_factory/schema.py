"""Merge state schemas into one state, with the views a caller passes in and gets back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NotRequired, Required, get_args, get_origin, get_type_hints

from langgraph.channels import Topic
from langgraph.channels.base import BaseChannel
from langgraph.managed.base import is_managed_value
from langgraph.types import Command
from typing_extensions import TypedDict, is_typeddict

from agent_factory.errors import InvalidSchema, SchemaConflict, SpecError, describe
from agent_factory.types import AgentState, OmitFromSchema, PrivateStateAttr

RELAY = "loop_relay"
"""The private channel in which commands to the parent graph wait for one another."""

_ENGINE_HINTS: dict[str, Any] = {
    RELAY: NotRequired[Annotated[list[Command[Any]], Topic(Command), PrivateStateAttr]]
}


@dataclass(frozen=True, slots=True)
class Schemas:
    """The state of an agent: all of it, and what its caller sees.

    Args:
        state: Every key.
        input: The keys a caller may pass in.
        output: The keys a caller gets back.
    """

    state: type[Any]
    input: type[Any]
    output: type[Any]


def merge(sources: Sequence[tuple[str, type[Any]]]) -> tuple[Schemas, list[SpecError]]:
    """Merge state schemas; later ones win, and what they disagree on is a mistake.

    Args:
        sources: Each schema with where it comes from, the agent's own last.
    """
    usable: list[tuple[str, dict[str, Any]]] = []
    mistakes: list[SpecError] = []
    for origin, schema in sources:
        if is_typeddict(schema) or is_typeddict(get_origin(schema)):
            usable.append((origin, _hints(schema)))
        else:
            mistakes.append(_no_schema(origin, schema))
    mistakes.extend(_conflicts(usable))
    merged = {key: hint for _, hints in usable for key, hint in hints.items()}
    return _views(_hints(AgentState) | merged | _ENGINE_HINTS), mistakes


def _hints(schema: Any) -> dict[str, Any]:
    return get_type_hints(get_origin(schema) or schema, include_extras=True)


def _no_schema(origin: str, schema: Any) -> SpecError:
    return InvalidSchema(
        f"{origin} state_schema",
        f"{describe(schema)} is no TypedDict.",
        "Write `class MyState(AgentState): ...`.",
    )


def _views(hints: Mapping[str, Any]) -> Schemas:
    def view(name: str, keys: Iterable[str]) -> type[Any]:
        make: Any = TypedDict
        made: type[Any] = make(name, {key: hints[key] for key in keys})
        return made

    return Schemas(
        state=view("State", hints),
        input=view("Input", (k for k, h in hints.items() if _shown(h, "input"))),
        output=view("Output", (k for k, h in hints.items() if _shown(h, "output"))),
    )


def _shown(hint: Any, side: str) -> bool:
    """Whether a key belongs to a view. LangGraph keeps values it manages out of both."""
    metadata = _metadata(hint)
    if any(is_managed_value(item) for item in metadata):
        return False
    return not any(isinstance(m, OmitFromSchema) and getattr(m, side) for m in metadata)


def _bare(hint: Any) -> Any:
    while get_origin(hint) in (Required, NotRequired):
        (hint,) = get_args(hint)
    return hint


def _metadata(hint: Any) -> tuple[Any, ...]:
    bare = _bare(hint)
    return tuple(bare.__metadata__) if get_origin(bare) is Annotated else ()


def _value_type(hint: Any) -> Any:
    bare = _bare(hint)
    if get_origin(bare) is Annotated:
        return _value_type(get_args(bare)[0])
    return bare


def _reducer(hint: Any) -> Any:
    """What folds writes to a key: a channel, a function, or None for the last value."""
    for item in _metadata(hint):
        if isinstance(item, BaseChannel) or (isinstance(item, type) and item is not object):
            return item
        if callable(item):
            return item
    return None


def _conflicts(sources: Sequence[tuple[str, dict[str, Any]]]) -> Iterator[SpecError]:
    standard = _hints(AgentState)
    seen: dict[str, tuple[str, Any]] = {}
    for origin, hints in sources:
        for key, hint in hints.items():
            if key in _ENGINE_HINTS:
                yield InvalidSchema(
                    f"{origin} state key {key!r}", "belongs to the engine.", "Rename it."
                )
            if standard.get(key) == hint:
                continue  # inherited, not declared
            if key in seen and not _agree(seen[key][1], hint):
                yield SchemaConflict(
                    f"state key {key!r}",
                    f"{seen[key][0]} says {_say(seen[key][1])}, {origin} says {_say(hint)}.",
                    "Give it one type and one reducer, or two names.",
                )
            seen.setdefault(key, (origin, hint))


def _agree(one: Any, other: Any) -> bool:
    if _reducer(one) != _reducer(other):
        return False
    a, b = _value_type(one), _value_type(other)
    return a == b or Any in (a, b) or (get_origin(a) or a) == (get_origin(b) or b)


def _say(hint: Any) -> str:
    reducer = _reducer(hint)
    how = f" folded by {getattr(reducer, '__name__', type(reducer).__name__)}" if reducer else ""
    kind = _value_type(hint)
    return f"{getattr(kind, '__name__', kind)}{how}"
