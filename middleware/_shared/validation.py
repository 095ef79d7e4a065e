"""Checks and copies of constructor arguments. An error says the expected and the actual value."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any, TypeVar, cast

from langchain_core.messages import ToolCall
from langchain_core.tools import BaseTool
from langgraph.prebuilt.tool_node import ToolInvocationError
from pydantic import BaseModel, ValidationError

T = TypeVar("T")


def copied(value: T) -> T:
    """A copy of a list, a dict, a set or a tuple, with inner copies; any other object unchanged.

    A built-in keeps no container of its caller, who may change the container afterwards.
    """
    copy: Any = value
    kind: Any = type(value)
    if kind is dict:
        copy = {key: copied(item) for key, item in copy.items()}
    elif kind in (list, tuple, set):
        copy = kind(map(copied, copy))
    return cast("T", copy)


def check_value(
    name: str, value: object, holds: object, expected: str, hint: str = "", error: Any = ValueError
) -> None:
    """Check that a condition on an argument holds; the error may end with a hint."""
    if not holds:
        raise error(f"{name} must be {expected}, got {value!r}.{hint and f' {hint}'}")


def check_count(name: str, value: object, least: int = 0, *, required: bool = False) -> None:
    """Check that an argument is a whole number; None passes unless a number is required."""
    if value is None and not required:
        return
    # In Python, True is an int.
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}.")


def check_number(
    name: str, value: Any, least: float = 0.0, *, unit: str = "", required: bool = False
) -> None:
    """Check that an argument is a finite number; None passes unless a number is required."""
    if value is None and not required:
        return
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    # NaN is less than no number, so the comparison alone would accept it.
    if not is_number or not math.isfinite(value) or value < least:
        kind = f"a number of {unit}" if unit else "a number"
        raise ValueError(f"{name} must be {kind} of at least {least:g}, got {value!r}.")


def check_limits(thread_limit: object, run_limit: object) -> None:
    """Check the limits of a thread and of a run: counts, at least one of which is given."""
    if thread_limit is None and run_limit is None:
        raise ValueError(
            "A limit is needed. Pass thread_limit, run_limit or both, such as run_limit=10."
        )
    check_count("thread_limit", thread_limit)
    check_count("run_limit", run_limit)


def check_string(name: str, value: object) -> None:
    """Check that an argument is a string."""
    check_value(name, value, isinstance(value, str), "a string", error=TypeError)


def check_strings(name: str, value: Any) -> None:
    """Check that an argument is a collection of strings, and not a string."""
    several = isinstance(value, Collection) and not isinstance(value, str)
    are_strings = several and all(isinstance(item, str) for item in value)
    check_value(name, value, are_strings, "a list of strings", "Pass ['...'].", TypeError)


def check_choice(name: str, value: object, choices: Collection[str]) -> None:
    """Check that an argument is one of several strings."""
    if value not in choices:
        *most, last = map(repr, choices)
        words = f"{', '.join(most)} or {last}" if most else last
        raise ValueError(f"{name} must be {words}, got {value!r}.")


def check_bool(name: str, value: object) -> None:
    """Check that an argument is True or False."""
    check_value(name, value, isinstance(value, bool), "True or False", error=TypeError)


def check_call(call: ToolCall, tool: BaseTool | None) -> None:
    """Check the arguments of a call whose tool does not get them now.

    Raises:
        ToolInvocationError: The arguments do not fit; handled as if the tool had run.
    """
    schema = None if tool is None else tool.tool_call_schema
    # Any other schema is plain JSON, which a real call does not validate either.
    if isinstance(schema, type) and issubclass(schema, BaseModel):
        try:
            schema.model_validate(call["args"])
        except ValidationError as error:
            raise ToolInvocationError(call["name"], error, call["args"], error.errors()) from error


def check_state_schema(owner: Any, schema: type[object]) -> None:
    """Check that a subclass of a built-in with another state schema keeps the built-in's keys.

    Writes of the built-in would otherwise be refused in the middle of a run.
    """
    state_schema, name = owner.state_schema, type(owner).__name__
    if not getattr(state_schema, "__annotations__", {}).keys() >= schema.__annotations__.keys():
        raise TypeError(
            f"{name}.state_schema must extend {schema.__name__}, got "
            f"{getattr(state_schema, '__name__', state_schema)!r}. "
            f"Write class {name}State({schema.__name__})."
        )
