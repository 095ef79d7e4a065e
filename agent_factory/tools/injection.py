"""Arguments that a tool takes from its graph and not from the model: read, checked, injected.

LangGraph's ToolNode injects the objects of the state themselves: a tool that sorts a list in place
mutates shared state, unsaved, while parallel calls read it. `copy_containers` prevents that.
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

from agent_factory.errors import ArgumentError, SpecError

CONTAINERS = frozenset({dict, list, set})
"""Types that `copy_containers` copies, at any depth; all else in a state is shared. Measured on a
thread of 1,000 messages: 0.03 ms, where copying the messages as well takes 16 ms and more."""

RUNTIME = "runtime"
"""A parameter of this name receives the ToolRuntime, whatever its type."""


@dataclass(frozen=True, slots=True)
class Injection:
    """Injected arguments of a tool.

    Args:
        state: Keys of the state by parameter; None stands for the whole state.
        optional: Parameters of `state` that have a default, which a missing key leaves in place.
        store: Parameter that receives the store, or None.
        runtime: Parameter that receives the ToolRuntime, or None.
        hidden: Parameters that the model must not set.
    """

    state: dict[str, str | None]
    optional: frozenset[str]
    store: str | None
    runtime: str | None
    hidden: frozenset[str]

    @property
    def takes_state(self) -> bool:
        """Whether the tool sees the state: all of it, parts, or through its runtime."""
        return bool(self.state) or self.runtime is not None

    @property
    def names(self) -> frozenset[str]:
        """Parameters that are filled from the graph."""
        return frozenset(name for name in (*self.state, self.store, self.runtime) if name)

    def inject(
        self, call: ToolCall, runtime: ToolRuntime[Any, Any], state: Any, messages_key: str
    ) -> ToolCall:
        """Return a tool call with the injected arguments added.

        Raises:
            KeyError: A dict state lacks a key that the tool requires.
            AttributeError: Another state lacks an attribute that the tool requires.
            ValueError: The graph has no store, or the state is a list and the tool takes its keys.
        """
        if self.takes_state:
            state = copy_containers(state)
        args = {name: value for name, value in call["args"].items() if name not in self.hidden}
        if self.state:
            args |= self._from_state(call["name"], state, messages_key)
        if self.store is not None:
            if runtime.store is None:
                raise ValueError(
                    "Cannot inject store into tools with InjectedStore annotations - please "
                    "compile your graph with a store."
                )
            args[self.store] = runtime.store
        if self.runtime is not None:
            args[self.runtime] = replace(runtime, state=state)
        return {**call, "args": args}

    def _from_state(self, tool: str, state: Any, messages_key: str) -> dict[str, Any]:
        if isinstance(state, list):
            keys = list(self.state.values())
            if keys != [messages_key] and keys[0] is not None:
                fields = ", ".join(key for key in keys if key)
                raise ValueError(
                    f"Invalid input to ToolNode. Tool {tool} requires graph state dict as input. "
                    f"State should contain fields {fields}."
                )
            state = {messages_key: state}
        found: dict[str, Any] = {}
        for name, key in self.state.items():
            if key is None:
                found[name] = state
            elif isinstance(state, dict):
                if key in state:
                    found[name] = state[key]
                elif name not in self.optional:
                    raise KeyError(key)
            elif hasattr(state, key):
                found[name] = getattr(state, key)
            elif name not in self.optional:
                raise AttributeError(key)
        return found


@dataclass(slots=True)
class _ToolSignature:
    """Annotations of a tool's parameters, those that the model does not see included."""

    tool: ref[BaseTool]
    # Identities of its function and schema: the cache must not keep alive what they belong to.
    parts: tuple[int, ...]
    annotations: dict[str, Any]
    injection: Injection
    validated: bool = False


_signatures: dict[int, _ToolSignature] = {}


def _signature_of(tool: BaseTool) -> _ToolSignature:
    """Read a tool's signature once: agents share tools, and reading is slow."""
    function = getattr(tool, "func", None) or getattr(tool, "coroutine", None)
    parts, key = (id(function), id(tool.args_schema)), id(tool)
    known = _signatures.get(key)
    if known is not None and known.tool() is tool and known.parts == parts:
        return known
    hints = get_type_hints(function, include_extras=True) if function else {}
    schema = tool.get_input_schema()
    annotations = {**hints, **get_all_basemodel_annotations(schema)}
    fields = getattr(schema, "model_fields", {})
    optional = (name for name, field in fields.items() if not field.is_required())
    signature = _signatures[key] = _ToolSignature(
        ref(tool, lambda _: _signatures.pop(key, None)),
        parts,
        annotations,
        _read_injection(annotations, frozenset(optional)),
    )
    return signature


def _read_injection(annotations: dict[str, Any], optional: frozenset[str]) -> Injection:
    state: dict[str, str | None] = {}
    store = runtime = None
    hidden = set()
    for name, annotation in annotations.items():
        marks = [part for part in _parts(annotation) if _is(part, InjectedState)]
        if marks:
            # The class itself marks the whole state, as an instance without a field does.
            state[name] = (isinstance(marks[0], InjectedState) and marks[0].field) or None
        if _has(annotation, InjectedStore):
            store = name
        if name == RUNTIME or _has(annotation, ToolRuntime):
            runtime = name
        if _has(annotation, InjectedToolArg) or _has(annotation, ToolRuntime):
            hidden.add(name)
    return Injection(state, optional, store, runtime, frozenset(hidden))


def injection_of(tool: BaseTool) -> Injection:
    """Return the injected arguments of a tool.

    Raises:
        Exception: An annotation cannot be evaluated.
    """
    return _signature_of(tool).injection


def validate_tool(tool: BaseTool, origin: str) -> Iterator[SpecError]:
    """Yield what a tool asks of its graph and cannot get.

    LangGraph's ToolNode would find out in the middle of a run, if at all: it fills one of two
    parameters for the store, and passes a ToolRuntime to a string named `runtime`.
    """
    subject = f"{origin}: {tool.name}"
    try:
        signature = _signature_of(tool)
    except Exception as error:
        yield ArgumentError(
            subject,
            f"has a signature that cannot be evaluated: {error}",
            "Annotate its parameters with types that its module imports.",
            code="AF112",
        )
        return
    if not signature.validated:
        mistakes = list(_mistakes(subject, signature.annotations))
        signature.validated = not mistakes
        yield from mistakes


def _mistakes(subject: str, annotations: dict[str, Any]) -> Iterator[SpecError]:
    for name, annotation in annotations.items():
        for kind in (InjectedState, InjectedStore, ToolRuntime):
            if sum(_is(part, kind) for part in _parts(annotation)) > 1:
                yield ArgumentError(
                    subject,
                    f"A tool argument should not be annotated with {kind.__name__} more than once, "
                    f"and {name!r} is.",
                    "Remove one of the two annotations.",
                    code="AF112",
                )
    stores = [name for name, annotation in annotations.items() if _has(annotation, InjectedStore)]
    if len(stores) > 1:
        yield ArgumentError(
            subject,
            f"takes the store in {' and in '.join(map(repr, stores))}, and would get one of them.",
            "Keep one of these parameters.",
            code="AF112",
        )
    parts = list(_parts(annotations.get(RUNTIME, ToolRuntime)))
    accepts_runtime = any(
        part is Any
        or isinstance(part, TypeVar)
        or _is(part, ToolRuntime)
        or (isinstance(part, type) and issubclass(ToolRuntime, part))
        for part in parts
    )
    if not accepts_runtime or any(
        _is(part, kind) for part in parts for kind in (InjectedState, InjectedStore)
    ):
        yield ArgumentError(
            subject,
            f"has a parameter named {RUNTIME!r}, which receives the ToolRuntime, with another "
            "type.",
            "Rename the parameter, or annotate it `runtime: ToolRuntime`.",
            code="AF112",
        )


def _has(annotation: Any, kind: type[Any]) -> bool:
    return any(_is(part, kind) for part in _parts(annotation))


def _is(part: Any, kind: type[Any]) -> bool:
    """Whether it is the class, one of its instances, or one of its generic forms."""
    part = get_origin(part) or part
    return isinstance(part, kind) or (isinstance(part, type) and issubclass(part, kind))


def _parts(annotation: Any) -> Iterator[Any]:
    """Yield the types and annotations inside `Annotated` and unions."""
    if get_origin(annotation) not in (Annotated, Union, UnionType):
        yield annotation
        return
    for part in get_args(annotation):
        yield from _parts(part)


def copy_containers(state: Any) -> Any:
    """Copy the dicts, lists and sets of a state, so that changing them does not change the thread.

    Messages and other objects in them are shared with the thread.

    Args:
        state: A dict, a list, a pydantic model or a dataclass; another value is returned unchanged.

    >>> state = {"found": {"pages": [1]}}
    >>> mine = copy_containers(state)
    >>> mine["found"]["pages"].append(2)
    >>> state
    {'found': {'pages': [1]}}
    """
    if type(state) in CONTAINERS:
        return _copied(state, {})
    if isinstance(state, BaseModel) or is_dataclass(state):
        own = copy(state)
        # Not through attributes: models validate those, and dataclasses may be frozen.
        getattr(own, "__dict__", {}).update(_copied(dict(getattr(own, "__dict__", {})), {}))
        return own
    return state


def _copied(value: Any, known: dict[int, Any]) -> Any:
    """Copy a container at any depth; an object that occurs twice is copied once."""
    if type(value) not in CONTAINERS:
        return value
    if id(value) in known:
        return known[id(value)]
    own = known[id(value)] = value.copy()
    if type(value) is dict:
        own.update((key, _copied(part, known)) for key, part in value.items())
    elif type(value) is list and not CONTAINERS.isdisjoint(map(type, value)):
        own[:] = [_copied(part, known) for part in value]
    return own
