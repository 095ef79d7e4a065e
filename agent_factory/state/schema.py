"""Merge state schemas into one state, with the views a caller passes in and gets back."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from langgraph.channels import Topic, UntrackedValue
from langgraph.channels.base import BaseChannel
from langgraph.graph.message import add_messages
from langgraph.managed.base import is_managed_value
from typing_extensions import TypedDict, is_typeddict

from agent_factory.errors import ArgumentError, SpecError, describe
from agent_factory.state.channels import DeltaMessages, IndexedMessages, is_messages
from agent_factory.types import AgentState, Checkpoints, OmitFromSchema, PrivateStateAttr

TOOL_SIGNALS = "loop_relay"
"""The private channel in which what tools say of the run waits for all of them to speak."""

RETRIES = "loop_retries"
"""The private channel that counts, within a run, how often a structured answer was explained."""

_ENGINE_HINTS: dict[str, Any] = {
    RETRIES: NotRequired[Annotated[int, UntrackedValue(int, guard=False), PrivateStateAttr]],
    TOOL_SIGNALS: NotRequired[Annotated[list[Any], Topic(object), PrivateStateAttr]],
}


CHECKPOINTS = get_args(Checkpoints)


def engine_hints(*keys: str) -> dict[str, Any]:
    """What keys of the engine's own are, for a state that is not merged here."""
    return {key: _unmarked(_ENGINE_HINTS[key]) for key in keys}


@dataclass(frozen=True, slots=True)
class Schemas:
    """The state of an agent: all of it, and what its caller sees.

    Args:
        state: Every key.
        hook: The keys a node sees that has no need of the engine's own.
        input: The keys a caller may pass in.
        output: The keys a caller gets back.
        written: The state as its author wrote it, where the graph is to be made from that.
    """

    state: type[Any]
    hook: type[Any]
    input: type[Any]
    output: type[Any]
    written: type[Any] | None = None


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


def merge(
    sources: Sequence[tuple[str, type[Any]]],
    engine: Collection[str] = (TOOL_SIGNALS, RETRIES),
    checkpoints: Any = "full",
) -> tuple[Schemas, list[SpecError]]:
    """Merge state schemas; later ones win, and what they disagree on is a mistake.

    Args:
        sources: Each schema with where it comes from, the agent's own last.
        engine: Which of the engine's own keys this agent needs: each costs a little at each step.
        checkpoints: How messages are stored: "full" or "delta".
    """
    usable: list[_Source] = []
    mistakes: list[SpecError] = []
    for origin, schema in sources:
        try:
            usable.append(_read(origin, schema))
        except ArgumentError as error:
            mistakes.append(error)
    mistakes.extend(_conflicts(usable))
    merged = dict(_hints(AgentState))
    for source in usable:
        mistakes.extend(_misuse(source))
        merged |= dict(_declared(source))
    hidden = {side: {key for s in usable for key in _hidden(s.hints, side)} for side in _SIDES}
    own = {key: _ENGINE_HINTS[key] for key in engine}
    mistakes.extend(_unstorable(checkpoints, merged["messages"]))
    merged["messages"] = _stored(merged["messages"], checkpoints)
    return _views(merged | own, hidden), mistakes


def _stored(hint: Any, checkpoints: Any) -> Any:
    """The hint of the messages with a channel that does what `add_messages` does."""
    if get_origin(hint) in (Required, NotRequired):
        return get_origin(hint)[_stored(get_args(hint)[0], checkpoints)]
    if _reducer(hint) is not add_messages:
        return hint
    channel = DeltaMessages() if checkpoints == "delta" else IndexedMessages()
    return Annotated[get_args(hint)[0], channel]


def _unstorable(checkpoints: Any, hint: Any) -> Iterator[SpecError]:
    if checkpoints not in CHECKPOINTS:
        yield ArgumentError(
            "checkpoints",
            f"{describe(checkpoints)} is no way to store messages.",
            f"Give {' or '.join(map(repr, CHECKPOINTS))}.",
        )
    elif checkpoints == "delta" and not _folds_messages(_reducer(hint)):
        yield ArgumentError(
            "checkpoints",
            f"'delta' stores what add_messages folds, and the state's messages are {_say(hint)}.",
            "Take the reducer out of the state_schema, or leave checkpoints out.",
        )


def _folds_messages(reducer: Any) -> bool:
    return reducer is add_messages or is_messages(reducer)


def _read(origin: str, schema: Any) -> _Source:
    bare = get_origin(schema) or schema
    if not is_typeddict(bare):
        raise _no_schema(origin, schema)
    try:
        return _Source(origin, _hints(bare), dict(bare.__annotations__))
    except Exception as error:  # whatever an annotation may raise while it is read
        raise ArgumentError(
            f"{origin} state_schema {bare.__name__}",
            f"its annotations cannot be read: {error}",
            "Import the names it uses, at run time too.",
            code="AF114",
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
    return ArgumentError(
        f"{origin} state_schema",
        f"{describe(schema)} is no TypedDict.",
        "Write `class MyState(AgentState): ...`.",
        code="AF114",
    )


def _views(hints: Mapping[str, Any], hidden: Mapping[str, set[str]]) -> Schemas:
    def view(name: str, without: Collection[str]) -> type[Any]:
        make: Any = TypedDict
        keys = {key: _unmarked(hint) for key, hint in hints.items() if key not in without}
        made: type[Any] = make(name, keys)
        return made

    return Schemas(
        state=view("State", ()),
        hook=view("Hook", _ENGINE_HINTS),
        input=view("Input", hidden["input"] | _hidden(hints, "input")),
        output=view("Output", hidden["output"] | _hidden(hints, "output")),
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


_SIDES = ("input", "output")


def _hidden(hints: Mapping[str, Any], side: str) -> set[str]:
    """The keys that are no part of a view. LangGraph keeps values it manages out of both."""
    return {key for key, hint in hints.items() if any(_hides(m, side) for m in _metadata(hint))}


def _hides(mark: Any, side: str) -> bool:
    return is_managed_value(mark) or (isinstance(mark, OmitFromSchema) and getattr(mark, side))


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


def _misuse(source: _Source) -> Iterator[SpecError]:
    """Keys that a schema may not have, or not so."""
    for key, hint in _declared(source):
        subject = f"{source.origin} state key {key!r}"
        if key in _ENGINE_HINTS or key == "jump_to":
            yield ArgumentError(
                subject, "belongs to the engine.", "Give yours another name.", code="AF114"
            )
        elif key == "messages" and _reducer(hint) is None:
            yield ArgumentError(
                subject,
                "has no reducer: each write would replace the history.",
                "Write Annotated[list[AnyMessage], add_messages].",
                code="AF114",
            )
        elif key == "structured_response" and _reducer(hint) is not None:
            yield ArgumentError(
                subject,
                "has a reducer, and each answer replaces the one before.",
                "Take it out.",
                code="AF114",
            )


def _conflicts(sources: Sequence[_Source]) -> Iterator[SpecError]:
    seen: dict[str, _Source] = {}
    for source in sources:
        for key, hint in _declared(source):
            earlier = seen.setdefault(key, source)
            same = earlier.raw.get(key) == source.raw.get(key)
            if not same and not _agree(earlier.hints[key], hint):
                yield SpecError(
                    f"state key {key!r}",
                    f"{earlier.origin} says {_say(earlier.hints[key])}, "
                    f"{source.origin} says {_say(hint)}.",
                    "Give it one type and one reducer, or two names.",
                    code="AF115",
                )


def _agree(one: Any, other: Any) -> bool:
    return _reducer(one) == _reducer(other) and _same_type(_value_type(one), _value_type(other))


def _same_type(one: Any, other: Any) -> bool:
    """Whether two types agree; what one of them leaves open does."""
    if one == other or Any in (one, other):
        return True
    origins = [Union if get_origin(t) is UnionType else get_origin(t) or t for t in (one, other)]
    if origins[0] != origins[1]:
        return False
    arguments, others = get_args(one), get_args(other)
    if not arguments or not others:
        return True
    if origins[0] in (Union, Literal):
        return set(arguments) == set(others)
    return len(arguments) == len(others) and all(map(_same_type, arguments, others))


def _say(hint: Any) -> str:
    reducer = _reducer(hint)
    how = f" folded by {getattr(reducer, '__name__', type(reducer).__name__)}" if reducer else ""
    kind = _value_type(hint)
    name = kind.__name__ if isinstance(kind, type) and not get_args(kind) else str(kind)
    return f"{name}{how}"
