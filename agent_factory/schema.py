"""Merge state schemas into one state, with the views a caller passes in and gets back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, NotRequired, Required, get_args, get_origin, get_type_hints

from langgraph.channels import Topic
from langgraph.channels.base import BaseChannel
from langgraph.managed.base import is_managed_value
from typing_extensions import TypedDict, is_typeddict

from agent_factory.errors import InvalidSchema, SchemaConflict, SpecError, describe
from agent_factory.types import AgentState, OmitFromSchema, PrivateStateAttr

RELAY = "loop_relay"
"""The private channel in which what tools say of the run waits for all of them to speak."""

_ENGINE_HINTS: dict[str, Any] = {
    RELAY: NotRequired[Annotated[list[Any], Topic(object), PrivateStateAttr]]
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


@dataclass(frozen=True, slots=True)
class _Source:
    """One schema with where it comes from.

    Args:
        origin: "create_agent", or a middleware's name.
        hints: What each key is.
        raw: The same as written, which is how an inherited key is known.
    """

    origin: str
    hints: Mapping[str, Any]
    raw: dict[str, Any]


def merge(sources: Sequence[tuple[str, type[Any]]]) -> tuple[Schemas, list[SpecError]]:
    """Merge state schemas; later ones win, and what they disagree on is a mistake.

    Args:
        sources: Each schema with where it comes from, the agent's own last.
    """
    usable: list[_Source] = []
    mistakes: list[SpecError] = []
    for origin, schema in sources:
        try:
            usable.append(_read(origin, schema))
        except InvalidSchema as error:
            mistakes.append(error)
    mistakes.extend(_conflicts(usable))
    merged = dict(_hints(AgentState))
    for source in usable:
        merged |= dict(_declared(source))
    return _views(merged | _ENGINE_HINTS), mistakes


def _read(origin: str, schema: Any) -> _Source:
    bare = get_origin(schema) or schema
    if not is_typeddict(bare):
        raise _no_schema(origin, schema)
    try:
        return _Source(origin, _hints(bare), dict(bare.__annotations__))
    except Exception as error:  # whatever an annotation may raise while it is read
        raise InvalidSchema(
            f"{origin} state_schema {bare.__name__}",
            f"its annotations cannot be read: {error}",
            "Import the names it uses, at run time too.",
        ) from error


@lru_cache(maxsize=256)  # a stack reads the same few schemas again and again
def _hints(schema: Any) -> Mapping[str, Any]:
    return get_type_hints(schema, include_extras=True)


def _declared(source: _Source) -> Iterator[tuple[str, Any]]:
    """The keys a schema says something about; those it has from AgentState are only inherited."""
    standard = _hints(AgentState)
    for key, hint in source.hints.items():
        if standard.get(key) != hint:
            yield key, hint


def _no_schema(origin: str, schema: Any) -> SpecError:
    return InvalidSchema(
        f"{origin} state_schema",
        f"{describe(schema)} is no TypedDict.",
        "Write `class MyState(AgentState): ...`.",
    )


def _views(hints: Mapping[str, Any]) -> Schemas:
    def view(name: str, keys: Iterable[str]) -> type[Any]:
        make: Any = TypedDict
        made: type[Any] = make(name, {key: _unmarked(hints[key]) for key in keys})
        return made

    return Schemas(
        state=view("State", hints),
        input=view("Input", (k for k, h in hints.items() if _shown(h, "input"))),
        output=view("Output", (k for k, h in hints.items() if _shown(h, "output"))),
    )


def _unmarked(hint: Any) -> Any:
    """The hint without our marks: LangGraph takes the last item of Annotated for the reducer."""
    if get_origin(hint) in (Required, NotRequired):
        return get_origin(hint)[_unmarked(get_args(hint)[0])]
    if get_origin(hint) is not Annotated:
        return hint
    kept = [item for item in hint.__metadata__ if not isinstance(item, OmitFromSchema)]
    value = get_args(hint)[0]
    return Annotated[(value, *kept)] if kept else value


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


def _conflicts(sources: Sequence[_Source]) -> Iterator[SpecError]:
    seen: dict[str, _Source] = {}
    for source in sources:
        for key, hint in _declared(source):
            if key in _ENGINE_HINTS:
                yield InvalidSchema(
                    f"{source.origin} state key {key!r}", "belongs to the engine.", "Rename it."
                )
            earlier = seen.setdefault(key, source)
            same = earlier.raw.get(key) == source.raw.get(key)
            if not same and not _agree(earlier.hints[key], hint):
                yield SchemaConflict(
                    f"state key {key!r}",
                    f"{earlier.origin} says {_say(earlier.hints[key])}, "
                    f"{source.origin} says {_say(hint)}.",
                    "Give it one type and one reducer, or two names.",
                )


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
