"""Merge state schemas into the state of an agent, its input and its output."""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
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
from weakref import WeakKeyDictionary

from langchain_core.messages import HumanMessage
from langgraph.channels import Topic, UntrackedValue
from langgraph.channels.base import BaseChannel
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph.message import add_messages
from langgraph.managed.base import is_managed_value
from typing_extensions import TypedDict, is_typeddict

from agent_factory.errors import ArgumentError, BuildWarning, SpecError, describe
from agent_factory.state.channels import (
    DeltaMessages,
    IndexedMessages,
    is_messages,
    supports_delta_channel,
)
from agent_factory.types import AgentState, Checkpoints, OmitFromSchema, PrivateStateAttr

TOOL_SIGNALS = "loop_relay"
"""Private channel that collects control signals from parallel tool calls."""

RETRIES = "loop_retries"
"""Private channel with the number of requests for another structured answer in a run."""

ANSWER = "loop_answer"
"""Private channel for a structured answer that waits for the other calls of its message."""

LAST_NODE = "loop_last_node"
"""Private channel for the last node of a step of several; LangGraph knows the first node."""

REFUSAL = "__agent_factory_refusal"
"""Private channel, and key of `configurable`, for the error with which the next node ends a run."""

_ENGINE_HINTS: dict[str, Any] = {
    RETRIES: NotRequired[Annotated[int, UntrackedValue(int, guard=False), PrivateStateAttr]],
    ANSWER: NotRequired[Annotated[dict[str, Any] | None, PrivateStateAttr]],
    TOOL_SIGNALS: NotRequired[Annotated[list[Any], Topic(object), PrivateStateAttr]],
}

ENGINE_KEYS = frozenset({*_ENGINE_HINTS, LAST_NODE, REFUSAL})
"""The reserved keys of a state. Streams and stored states do not show them."""


def engine_hints(*keys: str) -> dict[str, Any]:
    """Return the annotations of reserved keys, for a state without a merge."""
    return {key: _without_marks(_ENGINE_HINTS[key]) for key in keys}


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Schemas:
    """State of an agent, and its parts for callers and hooks."""

    state: type[Any]
    hook: type[Any]  # the state for nodes of middleware: all but the reserved keys
    input: type[object]
    output: type[object]
    written: type[object] | None = None  # the user's schema, if the graph is built from it


_AGENT = "create_agent"
"""Origin of the schema that the caller of create_agent passed; this schema comes last."""


@dataclass(frozen=True, slots=True)
class _Source:
    """A schema and its parts."""

    origin: str  # "create_agent", or the name of a middleware
    schema: Any
    hints: Mapping[str, object]
    raw: Mapping[str, object]  # the annotations as written, to recognize inherited keys
    own_hints: Mapping[str, object]  # the hints that differ from those of AgentState


def _read(origin: str, schema: Any) -> _Source:
    # `AgentState[Answer]` is not the class itself, and has no hints.
    bare = get_origin(schema) or schema
    if not is_typeddict(bare):
        reason = f"must be a TypedDict, got {describe(schema)}."
        hint = "Write `class MyState(AgentState): ...`."
        raise ArgumentError(f"{origin} state_schema", reason, hint, code="AF114")
    try:
        return _Source(origin, bare, *_fields(bare))
    except Exception as error:  # Evaluating annotations may raise anything.
        subject = f"{origin} state_schema {bare.__name__}"
        reason = f"its annotations cannot be read: {error}"
        hint = "Import the names it uses at run time too."
        raise ArgumentError(subject, reason, hint, code="AF114") from error


_Fields = tuple[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]]

_schemas: WeakKeyDictionary[Any, _Fields] = WeakKeyDictionary()
"""Fields by schema: the middleware of a stack mostly share a few. A request may make a schema."""


def _fields(schema: object) -> _Fields:
    """Return the hints, the raw annotations and the declared hints of a schema."""
    if (entry := _schemas.get(schema)) is None:
        hints = get_type_hints(schema, include_extras=True)
        standard = hints if schema is AgentState else _fields(AgentState)[0]
        own_hints = {key: hint for key, hint in hints.items() if standard.get(key) != hint}
        entry = _schemas[schema] = hints, dict(schema.__annotations__), own_hints
    return entry


class _Merges:
    """States merged from schemas; agents with the same schemas share them.

    A node of a tree, in which each schema leads to the next node. So nothing keeps a schema that a
    request has made, and a state ends with any of its schemas.
    """

    def __init__(self) -> None:
        self.states: dict[tuple[Sequence[str], bool], tuple[Schemas, object]] = {}
        self.after: WeakKeyDictionary[Any, _Merges] = WeakKeyDictionary()


_merges = _Merges()


def merge(
    sources: Sequence[tuple[str, type[object]]],
    engine: Collection[str] = (TOOL_SIGNALS, RETRIES),
    checkpoints: object = "auto",
    checkpointer: object = None,
) -> tuple[Schemas, list[SpecError]]:
    """Merge state schemas and collect the mistakes.

    The schema of "create_agent", the last, decides about its keys; other schemas must agree on
    theirs. `engine` are the reserved keys of this agent; each costs a little in every step.
    `checkpointer` decides about `checkpoints="auto"`.
    """
    usable: list[_Source] = []
    errors: list[SpecError] = []
    for origin, schema in sources:
        try:
            usable.append(_read(origin, schema))
        except ArgumentError as error:
            errors.append(error)
    errors.extend(_key_errors(usable))
    delta = checkpoints == "delta" or (
        checkpoints == "auto" and supports_delta_channel(checkpointer, by_default=True)
    )
    merges, usable_schemas = _merges, [source.schema for source in usable]
    for schema, _ in groupby(usable_schemas):  # equal schemas in a row are merged once
        merges = merges.after.get(schema) or merges.after.setdefault(schema, _Merges())
    key = tuple(engine), delta
    if key not in merges.states:
        merges.states[key] = _merge(usable_schemas, *key)
    schemas, reducer = merges.states[key]
    if checkpoints not in get_args(Checkpoints):
        *others, last = map(repr, get_args(Checkpoints))
        reason = f"must be {', '.join(others)} or {last}, got {describe(checkpoints)}."
        errors.append(ArgumentError("checkpoints", reason))
    # "auto" falls back to full checkpoints; "delta" was asked for.
    elif checkpoints == "delta" and reducer is not add_messages and not is_messages(reducer):
        reason = f"'delta' requires the reducer add_messages, and messages have {_name(reducer)}."
        hint = "Remove the reducer from the state_schema, or leave checkpoints out."
        errors.append(ArgumentError("checkpoints", reason, hint))
    is_saver = isinstance(checkpointer, BaseCheckpointSaver)
    if checkpoints == "delta" and is_saver and not supports_delta_channel(checkpointer):
        reason = (
            "'delta' requires a saver with get_delta_channel_history and put_writes(task_path), "
        )
        reason += f"and {type(checkpointer).__name__} would lose messages or mix their order."
        hint = "Leave checkpoints out, or write checkpoints='full'."
        errors.append(ArgumentError("checkpoints", reason, hint))
    return schemas, errors


def _merge(schemas: Sequence[object], engine: Sequence[str], delta: bool) -> tuple[Schemas, object]:
    """Return the merged schemas, and their reducer of messages."""
    all_hints: list[tuple[str, object]] = []
    for schema in dict.fromkeys(schemas):
        all_hints += _fields(schema)[0].items()
    hints = dict(_fields(AgentState)[0])
    for schema in schemas:
        # Only own declarations of a schema: inherited keys of AgentState must not undo earlier
        # keys.
        hints |= _fields(schema)[2]
    reducer = _reducer(hints["messages"])
    qualifier, messages, metadata = _parts(hints["messages"])
    # Another reducer is the user's, and gets LangGraph's own channel.
    if reducer is add_messages:
        metadata = (DeltaMessages() if delta else IndexedMessages(),)
    hints["messages"] = _hint(qualifier, messages, metadata)
    hints |= {key: _ENGINE_HINTS[key] for key in engine}
    all_hints += hints.items()

    def view(name: str, without: Collection[str]) -> type[object]:
        # mypy accepts TypedDict only with literal arguments.
        make: Any = TypedDict
        keys = {key: _without_marks(hint) for key, hint in hints.items() if key not in without}
        schema_class: type[object] = make(name, keys)
        return schema_class

    merged = Schemas(
        state=view("State", ()),
        hook=view("Hook", ENGINE_KEYS),
        input=view("InputSchema", {key for key, hint in all_hints if _is_hidden(hint, "input")}),
        output=view("OutputSchema", {key for key, hint in all_hints if _is_hidden(hint, "output")}),
    )
    return merged, reducer


def _parts(hint: Any) -> tuple[object, object, tuple[object, ...]]:
    """Split an annotation into Required or NotRequired or None, the type, and the metadata."""
    qualifier, metadata = None, ()
    while (origin := get_origin(hint)) in (Required, NotRequired, Annotated):
        if origin is Annotated:
            metadata = hint.__metadata__
        else:
            qualifier = origin
        hint = get_args(hint)[0]
    return qualifier, hint, metadata


def _hint(qualifier: Any, value: object, metadata: Collection[object]) -> object:
    """Put the parts of an annotation together again."""
    inner_hint = Annotated[(value, *metadata)] if metadata else value
    return inner_hint if qualifier is None else qualifier[inner_hint]


def _without_marks(hint: object) -> object:
    # LangGraph takes the last item of Annotated for the reducer, so our marks must not be there.
    qualifier, value, metadata = _parts(hint)
    return _hint(qualifier, value, [m for m in metadata if not isinstance(m, OmitFromSchema)])


def _is_hidden(hint: object, side: str) -> bool:
    """Return True if a key is left out of the "input" or the "output"."""
    return any(
        # LangGraph keeps managed values out of both.
        is_managed_value(item) or (isinstance(item, OmitFromSchema) and getattr(item, side))
        for item in _parts(hint)[2]
    )


def _reducer(hint: object) -> object:
    """Return the merge of writes of a key: a channel, a function, or None for the last value."""
    for item in _parts(hint)[2]:
        # As LangGraph: a channel, or a function of two values. Marks of ours are neither.
        if isinstance(item, BaseChannel) or callable(item):
            return item
    return None


def _key_errors(sources: Sequence[_Source]) -> Iterator[SpecError]:
    # The schema that was passed to create_agent is explicit, so it decides about its keys.
    agent_keys = {key for source in sources if source.origin == _AGENT for key in source.own_hints}
    first_sources: dict[str, _Source] = {}
    for source in sources:
        for key, hint in source.own_hints.items():
            earlier = first_sources.setdefault(key, source)
            other = earlier.hints[key]
            agree = earlier.raw.get(key) == source.raw.get(key) or (
                _reducer(other) == _reducer(hint) and _same_type(_parts(other)[1], _parts(hint)[1])
            )
            if not agree and key not in agent_keys:
                yield _conflict(key, earlier, source)
            reducer, write = _reducer(hint), "Write Annotated[list[AnyMessage], add_messages]."
            if key in ENGINE_KEYS or key == "jump_to":
                mistake = "is reserved.", "Rename your key."
            elif key == "messages" and reducer is None:
                mistake = "has no reducer, so each write would replace the history.", write
            elif key == "messages" and _forgets(reducer):
                reason = f"the reducer {_name(reducer)}, which replaces the history by each write."
                mistake = f"has {reason}", write
            elif key == "messages" and reducer in (operator.add, operator.iadd):
                reason = "which appends each write: no message would be replaced or removed by id."
                mistake = f"has operator.add as its reducer, {reason}", write
            elif key == "structured_response" and reducer is not None:
                reason = "has a reducer, but each answer replaces the previous one."
                mistake = reason, "Remove the reducer."
            else:
                continue
            yield ArgumentError(f"{source.origin} state key {key!r}", *mistake, code="AF114")


def _conflict(key: str, first: _Source, second: _Source) -> SpecError:
    """Return the finding for a key on which two schemas disagree."""
    hints = first.hints[key], second.hints[key]
    forms = f"{_format(hints[0])} in {first.origin}, and {_format(hints[1])} in {second.origin}"
    decides = "declare it in the schema of the agent, create_agent(state_schema=...), which decides"
    if _reducer(hints[0]) == _reducer(hints[1]):
        # A type alone changes nothing in a run, as `str | None` and `str` show.
        reason = f"is {forms}; the agent has the last one."
        hint = f"Give it one type, or {decides}."
        return BuildWarning(f"state key {key!r}", reason, hint, code="AF215")
    hint = f"Give it one reducer, or use two names. Or {decides}."
    return SpecError(f"state key {key!r}", f"is {forms}.", hint, code="AF115")


def _forgets(reducer: Any) -> bool:
    """Return True if a reducer of messages drops the messages so far, as `lambda old, new: new`."""
    if not callable(reducer) or isinstance(reducer, BaseChannel):
        return False
    try:
        merged = reducer([HumanMessage("a", id="1")], [HumanMessage("b", id="2")])
        return "1" not in [message.id for message in merged]
    except Exception:  # the reducer may expect messages of another form
        return False


def _same_type(first: object, other: object) -> bool:
    """Return True if two types agree; a part that only one type specifies counts as equal."""
    if first == other or Any in (first, other):
        return True
    # Before Python 3.14, `int | None` and `Optional[int]` have different origins.
    origins = [Union if get_origin(t) is UnionType else get_origin(t) or t for t in (first, other)]
    arguments, others = get_args(first), get_args(other)
    if origins[0] != origins[1] or not (arguments and others):
        return bool(origins[0] == origins[1])
    if origins[0] in (Union, Literal):
        return set(arguments) == set(others)
    return len(arguments) == len(others) and all(map(_same_type, arguments, others))


def _format(hint: object) -> str:
    reducer, value = _reducer(hint), _parts(hint)[1]
    name = value.__name__ if isinstance(value, type) and not get_args(value) else str(value)
    return name if reducer is None else f"{name} with the reducer {_name(reducer)}"


def _name(reducer: object) -> str:
    return str(getattr(reducer, "__name__", type(reducer).__name__))
