"""Arguments of a tool from its graph and not from the model: read, checked, injected.

LangGraph's ToolNode injects the objects of the state themselves: a tool that sorts a list in place
mutates shared state, unsaved, while parallel calls read the list. `copy_containers` prevents this.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, is_dataclass, replace
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints
from weakref import ref

from langchain_core.messages import ToolCall
from langchain_core.tools import BaseTool, InjectedToolArg
from langchain_core.tools.base import get_all_basemodel_annotations
from langgraph.prebuilt import InjectedState, InjectedStore, ToolRuntime
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from agent_factory.errors import ArgumentError, SpecError, UnknownStateKey
from agent_factory.structured_output.json_schema import NOT_AT_TOP, JsonSchema

CONTAINERS = frozenset({dict, list, set})
"""Types that `copy_containers` copies, at any depth; all other values are shared. Measured on a
thread of 1,000 messages: 0.03 ms; a copy of the messages as well takes 16 ms and more."""

_KINDS: tuple[type[object], ...] = (InjectedState, InjectedStore, ToolRuntime)

RUNTIME = "runtime"
"""A parameter of this name receives the ToolRuntime, whatever its type."""


@dataclass(frozen=True, slots=True)
class Injection:
    """Injected arguments of a tool."""

    state: dict[str, str | None]  # keys of the state by parameter; None means the whole state
    optional: frozenset[str]  # parameters with a default, which a missing key leaves in place
    store: str | None
    runtime: str | None
    hidden: frozenset[str]  # parameters that the model must not set
    schema: JsonSchema | None = None  # shown to the model in another form

    @property
    def takes_state(self) -> bool:
        """True if the tool sees the state: the whole, parts, or through its runtime."""
        return bool(self.state) or self.runtime is not None

    @property
    def names(self) -> frozenset[str]:
        """Parameters filled from the graph."""
        return frozenset(name for name in (*self.state, self.store, self.runtime) if name)

    def inject(
        self, call: ToolCall, runtime: ToolRuntime[Any, Any], state: object, messages_key: str
    ) -> ToolCall:
        """Return a tool call with the injected arguments added."""
        if self.takes_state:
            state = copy_containers(state)
        # A value of the model for a hidden parameter never reaches the tool.
        args = {name: value for name, value in call["args"].items() if name not in self.hidden}
        if self.state:
            args |= self._from_state(call["name"], state, messages_key)
        # The text of LangGraph's ToolNode.
        if self.store is not None:
            if runtime.store is None:
                raise ValueError(
                    "Cannot inject store into tools with InjectedStore annotations - please "
                    "compile your graph with a store. Outside of a graph, pass it to the node: "
                    "`invoke(input, runtime=Runtime(store=store))`."
                )
            args[self.store] = runtime.store
        if self.runtime is not None:
            args[self.runtime] = replace(runtime, state=state)
        return {**call, "args": args}

    def _from_state(self, tool: str, state: object, messages_key: str) -> dict[str, object]:
        # As in LangGraph's ToolNode, a list of messages stands for a state with one key.
        if isinstance(state, list):
            required = {key for name, key in self.state.items() if name not in self.optional}
            if required - {messages_key, None}:
                fields = ", ".join(key for key in self.state.values() if key)
                raise ValueError(
                    f"Invalid input to ToolNode. Tool {tool} requires graph state dict as input. "
                    f"State should contain fields {fields}."
                )
            state = {messages_key: state}
        arguments: dict[str, object] = {}
        for name, key in self.state.items():
            if key is None:
                arguments[name] = state
            elif isinstance(state, dict) and key in state:
                arguments[name] = state[key]
            elif not isinstance(state, dict) and hasattr(state, key):
                arguments[name] = getattr(state, key)
            elif name in self.optional:
                continue
            elif isinstance(state, dict):
                raise UnknownStateKey(tool, _missing(name, key), _MISSING_HINT)
            else:
                raise AttributeError(f"{tool} {_missing(name, key)} {_MISSING_HINT}", name=key)
        return arguments


def _missing(parameter: str, key: str) -> str:
    return (
        f"takes {key!r} of the state for its parameter {parameter!r}, and the state has no such "
        "key."
    )


_MISSING_HINT = (
    "Write it to the state before the call, or give the parameter a default. A ToolNode outside of "
    "a graph takes a dict with messages and this key as its input."
)


@dataclass(frozen=True, slots=True)
class _ToolSignature:
    tool: ref[BaseTool]
    # Identities of its function and schema: the cache must not keep their owners alive.
    parts: tuple[int, ...]
    injection: Injection
    mistakes: tuple[tuple[str, str], ...]  # each with a hint


_signatures: dict[int, _ToolSignature] = {}


def _leave_out_of_dumps(schema: Any, field: FieldInfo) -> None:
    """Leave a ToolRuntime out when the arguments of a tool are dumped.

    langchain-core 1.7, `tools/base.py`: `_parse_input` dumps all arguments for their names, and
    takes injected arguments from the call. A runtime is dumped with its state, and pydantic warns
    of each context, because a bare `ToolRuntime` has the type None for the context.
    """
    if not field.exclude:
        field.exclude = True
        schema.model_rebuild(force=True)


def _signature_of(tool: BaseTool) -> _ToolSignature:
    """Read a tool's signature once: agents share tools, and reading is slow."""
    function = getattr(tool, "func", None) or getattr(tool, "coroutine", None)
    parts, key = (id(function), id(tool.args_schema)), id(tool)
    previous = _signatures.get(key)
    if previous is not None and previous.tool() is tool and previous.parts == parts:
        return previous
    hints = get_type_hints(function, include_extras=True) if function else {}
    schema = tool.get_input_schema()
    annotations = {**hints, **get_all_basemodel_annotations(schema)}
    fields = schema.model_fields if issubclass(schema, BaseModel) else {}
    optional = frozenset(name for name, field in fields.items() if not field.is_required())
    for name in fields.keys() & hints.keys():
        if any(_is(part, ToolRuntime) for part in _parts(hints[name])):
            _leave_out_of_dumps(schema, fields[name])
    # The entry goes with the tool, because another object may get the id.
    injection, mistakes = _read(annotations, optional)
    if isinstance(tool.args_schema, dict) and not NOT_AT_TOP.isdisjoint(tool.args_schema):
        injection = replace(injection, schema=JsonSchema(tool.args_schema))
    signature = _signatures[key] = _ToolSignature(
        ref(tool, lambda _: _signatures.pop(key, None)), parts, injection, mistakes
    )
    return signature


def _read(
    annotations: dict[str, object], optional: frozenset[str]
) -> tuple[Injection, tuple[tuple[str, str], ...]]:
    """Return the parameters of a tool that the graph fills, and the mistakes in them."""
    state: dict[str, str | None] = {}
    stores: list[str] = []
    runtime = None
    hidden = set()
    mistakes = []
    for name, annotation in annotations.items():
        parts = list(_parts(annotation))
        marks = {kind: [part for part in parts if _is(part, kind)] for kind in _KINDS}
        for kind, parameters in marks.items():
            if len(parameters) > 1:
                reason = (
                    f"A tool argument should not be annotated with {kind.__name__} more than once, "
                    f"and {name!r} is."
                )
                mistakes.append((reason, "Remove one of the two annotations."))
        if from_state := marks[InjectedState]:
            # The class itself marks the whole state, as an instance without a field does.
            mark = from_state[0]
            state[name] = (isinstance(mark, InjectedState) and mark.field) or None
        if marks[InjectedStore]:
            stores.append(name)
        # LangGraph's ToolNode decides by the name too, whatever the annotation.
        if name == RUNTIME or marks[ToolRuntime]:
            runtime = name
        if marks[ToolRuntime] or any(_is(part, InjectedToolArg) for part in parts):
            hidden.add(name)
    if len(stores) > 1:
        names = " and in ".join(map(repr, stores))
        reason = f"takes the store in {names}, and would get one of them."
        mistakes.append((reason, "Keep one of these parameters."))
    if RUNTIME in annotations and not _accepts_runtime(annotations[RUNTIME]):
        reason = (
            f"has a parameter named {RUNTIME!r}, which receives the ToolRuntime, with another type."
        )
        hint = "Rename the parameter, or annotate it `runtime: ToolRuntime`."
        mistakes.append((reason, hint))
    store = stores[-1] if stores else None
    return Injection(state, optional, store, runtime, frozenset(hidden)), tuple(mistakes)


def injection_of(tool: BaseTool) -> Injection:
    """Return the injected arguments of a tool; evaluating its annotations may raise anything."""
    return _signature_of(tool).injection


def validate_tool(tool: BaseTool, origin: str) -> Iterator[SpecError]:
    """Yield the requests of a tool that its graph cannot fulfil.

    LangGraph's ToolNode would find out in the middle of a run, if at all: it fills only one of two
    parameters for the store, and passes a ToolRuntime to a string named `runtime`.
    """
    try:
        mistakes = _signature_of(tool).mistakes
    except Exception as error:
        reason = f"has a signature that cannot be evaluated: {error}"
        mistakes = ((reason, "Annotate its parameters with types that its module imports."),)
    for reason, hint in mistakes:
        yield ArgumentError(f"{origin}: {tool.name}", reason, hint, code="AF112")


def _accepts_runtime(annotation: object) -> bool:
    parts = list(_parts(annotation))
    if any(_is(part, kind) for part in parts for kind in (InjectedState, InjectedStore)):
        return False
    return any(
        part is Any
        or isinstance(part, TypeVar)
        or _is(part, ToolRuntime)
        or (isinstance(part, type) and issubclass(ToolRuntime, part))
        for part in parts
    )


def _is(part: object, kind: type[object]) -> bool:
    """Return True for the class, one of its instances, or one of its generic forms."""
    part = get_origin(part) or part
    return isinstance(part, kind) or (isinstance(part, type) and issubclass(part, kind))


def _parts(annotation: object) -> Iterator[object]:
    """Yield the types and annotations inside `Annotated` and unions."""
    if get_origin(annotation) not in (Annotated, Union, UnionType):
        yield annotation
        return
    for part in get_args(annotation):
        yield from _parts(part)


def copy_containers(state: object) -> object:
    """Copy the dicts, lists and sets of a state, so that changes do not change the thread.

    Messages and other objects inside are shared with the thread. A pydantic model or a dataclass is
    copied with its fields; another value is returned unchanged.

    >>> state = {"found": {"pages": [1]}}
    >>> mine = copy_containers(state)
    >>> mine["found"]["pages"].append(2)
    >>> state
    {'found': {'pages': [1]}}
    """
    if type(state) in CONTAINERS:
        return _copied(state, {})
    if isinstance(state, BaseModel) or is_dataclass(state):
        duplicate = copy(state)
        # Not through attributes: models validate values, and dataclasses may be frozen.
        getattr(duplicate, "__dict__", {}).update(
            _copied(dict(getattr(duplicate, "__dict__", {})), {})
        )
        return duplicate
    return state


def _copied(value: Any, copies: dict[int, object]) -> Any:
    """Copy a container at any depth; an object that occurs twice is copied once."""
    if type(value) not in CONTAINERS:
        return value
    # A container may hold itself or occur twice: the copy has the same shape.
    if id(value) in copies:
        return copies[id(value)]
    duplicate = copies[id(value)] = value.copy()
    if type(value) is dict:
        duplicate.update((key, _copied(part, copies)) for key, part in value.items())
    elif type(value) is list and not CONTAINERS.isdisjoint(map(type, value)):
        duplicate[:] = [_copied(part, copies) for part in value]
    return duplicate
