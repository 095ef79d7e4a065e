"""What a tool takes from its graph beside the model's arguments: read, checked, kept apart.

ToolNode gives every tool the objects of the state themselves, so that a tool which sorts a list
changes the thread, unsaved, and under the hands of the calls beside it. What a tool is given here
is its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass, is_dataclass
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints
from weakref import ref

from langchain_core.tools import BaseTool
from langchain_core.tools.base import get_all_basemodel_annotations
from langgraph.prebuilt import InjectedState, InjectedStore, ToolRuntime
from pydantic import BaseModel

from agent_factory.errors import ArgumentError, SpecError

CONTAINERS = frozenset({dict, list, set})
"""What is copied of a state, at any depth; all else in it is shared. Measured on a thread of 1,000
messages: 0.03 ms, where a copy of the messages as well takes 16 ms and more."""

RUNTIME = "runtime"
"""A parameter of this name is given the ToolRuntime, whatever its type."""


@dataclass(slots=True)
class _ToolSignature:
    """What was read of a tool, and of what.

    Args:
        tool: The tool, which is not kept alive by that.
        parts: The identities of what its annotations come from. A tool's function may belong to
            whoever brings it, and must not be kept alive here.
        annotations: Those of its parameters.
        faultless: Whether they were looked at, and nothing was wrong.
    """

    tool: ref[BaseTool]
    parts: tuple[int, ...]
    annotations: dict[str, Any]
    validated: bool = False


_read: dict[int, _ToolSignature] = {}


def _read_of(tool: BaseTool) -> _ToolSignature:
    """What is known of a tool: it is given to agent after agent, and reading it takes its time."""
    function = getattr(tool, "func", None) or getattr(tool, "coroutine", None)
    parts, key = (id(function), id(tool.args_schema)), id(tool)
    known = _read.get(key)
    if known is not None and known.tool() is tool and known.parts == parts:
        return known
    hints = get_type_hints(function, include_extras=True) if function else {}
    annotations = {**hints, **get_all_basemodel_annotations(tool.get_input_schema())}
    found = _read[key] = _ToolSignature(
        ref(tool, lambda _: _read.pop(key, None)), parts, annotations
    )
    return found


def annotations_of(tool: BaseTool) -> dict[str, Any]:
    """The annotations of a tool's parameters, those the model does not see included.

    Raises:
        Exception: An annotation cannot be read.
    """
    return _read_of(tool).annotations


def validate_tool(tool: BaseTool, origin: str) -> Iterator[SpecError]:
    """What a tool asks of its graph in vain.

    ToolNode would find out in the middle of a run, if at all: of two parameters for the store it
    fills one, and a text named `runtime` is given a ToolRuntime that does not validate.

    Args:
        tool: The tool.
        origin: Who brings it.
    """
    subject = f"{origin}: {tool.name}"
    try:
        read = _read_of(tool)
    except Exception as error:
        yield ArgumentError(
            subject,
            f"has a signature that cannot be read: {error}",
            "Annotate its parameters with types that its module imports.",
            code="AF112",
        )
        return
    if not read.validated:
        mistakes = list(_mistakes(subject, read.annotations))
        read.validated = not mistakes
        yield from mistakes


def _mistakes(subject: str, annotations: Mapping[str, Any]) -> Iterator[SpecError]:
    for name, annotation in annotations.items():
        yield from _marked_twice(subject, name, annotation)
    stores = [name for name, annotation in annotations.items() if _has(annotation, InjectedStore)]
    if len(stores) > 1:
        yield ArgumentError(
            subject,
            f"takes the store in {' and in '.join(map(repr, stores))}, and would get one of them.",
            "Keep one parameter: there is one store.",
            code="AF112",
        )
    if RUNTIME in annotations and not _fits_runtime(annotations[RUNTIME]):
        yield ArgumentError(
            subject,
            f"has a parameter named {RUNTIME!r}, which is given the ToolRuntime and cannot be one.",
            "Give the parameter another name, or annotate it `runtime: ToolRuntime`.",
            code="AF112",
        )


def _marked_twice(subject: str, name: str, annotation: Any) -> Iterator[SpecError]:
    for kind in (InjectedState, InjectedStore, ToolRuntime):
        if sum(_is(part, kind) for part in _parts(annotation)) > 1:
            yield ArgumentError(
                subject,
                f"A tool argument should not be annotated with {kind.__name__} more than once, and "
                f"{name!r} is.",
                "Keep one of the two marks.",
                code="AF112",
            )


def _fits_runtime(annotation: Any) -> bool:
    if _has(annotation, InjectedState) or _has(annotation, InjectedStore):
        return False
    return any(
        part is Any or isinstance(part, TypeVar) or _is(part, ToolRuntime) or _is_base(part)
        for part in _parts(annotation)
    )


def _is_base(part: Any) -> bool:
    return isinstance(part, type) and issubclass(ToolRuntime, part)


def takes_state(tool: BaseTool) -> bool:
    """Whether a tool is given the state, in whole or in part, or with its runtime."""
    annotations = annotations_of(tool)
    return RUNTIME in annotations or any(
        _has(annotation, InjectedState) or _has(annotation, ToolRuntime)
        for annotation in annotations.values()
    )


def _has(annotation: Any, kind: type[Any]) -> bool:
    return any(_is(part, kind) for part in _parts(annotation))


def _is(part: Any, kind: type[Any]) -> bool:
    """Whether it is the class, one of its instances, or one of its generic forms."""
    part = get_origin(part) or part
    return isinstance(part, kind) or (isinstance(part, type) and issubclass(part, kind))


def _parts(annotation: Any) -> Iterator[Any]:
    """The types and marks of an annotation, `Annotated` and unions taken apart."""
    if get_origin(annotation) not in (Annotated, Union, UnionType):
        yield annotation
        return
    for part in get_args(annotation):
        yield from _parts(part)


def copy_containers(state: Any) -> Any:
    """A state of which a tool can change any dict, list or set without changing the thread.

    Messages and other objects in it are the thread's own, and to be left as they are.

    Args:
        state: A dict, a list, a pydantic model or a dataclass; another kind is given back as it is.

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
        # Not by attributes: models validate those, and dataclasses may be frozen.
        getattr(own, "__dict__", {}).update(_copied(dict(getattr(own, "__dict__", {})), {}))
        return own
    return state


def _copied(value: Any, known: dict[int, Any]) -> Any:
    """A container's copy, at any depth; what was one object before is one again."""
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
