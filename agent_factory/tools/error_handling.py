"""Error handling of tools: every form of `handle_tool_errors`, checked at once."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from traceback import walk_tb
from types import UnionType
from typing import Any, Union, get_args, get_origin

from langchain_core.tools import BaseTool
from langgraph.prebuilt.tool_node import ToolInvocationError
from pydantic import ValidationError

from agent_factory.errors import ArgumentError, describe

DEFAULT_ERRORS: Any = object()
"""Default of `handle_tool_errors`: invalid arguments are reported to the model, others raise."""

WHOLE = "arguments"
"""Location of a validation error about several arguments together."""


@dataclass(frozen=True, slots=True)
class ErrorHandler:
    """Normalized form of `handle_tool_errors`."""

    kinds: tuple[type[Exception], ...]  # reported to the model; all others raise
    respond: Callable[[Any], str]  # writes the message


DEFAULT_HANDLER = ErrorHandler((ToolInvocationError,), lambda error: str(error.message))


def handler_for(value: object) -> ErrorHandler:
    """Normalize a value of `handle_tool_errors`."""
    if isinstance(value, ErrorHandler):
        return value
    if value is DEFAULT_ERRORS:
        return DEFAULT_HANDLER
    # The falsy values mean the same in LangGraph's ToolNode: no error is reported.
    if value is False or value in ("", ()):
        return ErrorHandler((), _describe_error)
    if value is True:
        return ErrorHandler((Exception,), _describe_error)
    if isinstance(value, str):
        return ErrorHandler((Exception,), lambda _: value)
    kinds = value if isinstance(value, tuple) else (value,)
    if _are_exceptions(kinds):
        return ErrorHandler(kinds, _describe_error)
    if callable(value) and not isinstance(value, type):
        return ErrorHandler(_handled_types(value), value)
    raise ArgumentError(
        "handle_tool_errors",
        "must be True, False, a string, an exception type, a tuple of exception types or a "
        f"function, got {describe(value)}.",
        "Pass `handle_tool_errors=True` to report every error to the model.",
        code="AF112",
    )


def _are_exceptions(kinds: tuple[object, ...]) -> bool:
    return all(isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds)


def _describe_error(error: Exception) -> str:
    return f"Error: {error!r}\n Please fix your mistakes."


def _handled_types(handler: Callable[..., object]) -> tuple[type[Exception], ...]:
    """Return the exception types in the annotation of a handler's parameter; without, all types."""

    def unusable(reason: str) -> ArgumentError:
        subject = f"handle_tool_errors {getattr(handler, '__name__', describe(handler))}"
        hint = "Write `def handler(error: ValueError) -> str`."
        return ArgumentError(subject, reason, hint, code="AF112")

    if any(map(inspect.iscoroutinefunction, (handler, type(handler).__call__))):
        raise unusable("must be a sync function, got a coroutine function.")
    try:
        # Annotations are strings with `from __future__ import annotations`.
        signature = inspect.signature(handler, eval_str=True)
        signature.bind(ValueError())
    except (TypeError, ValueError) as error:
        raise unusable("must be callable with one argument, the exception.") from error
    except Exception as error:
        raise unusable(f"has an annotation that cannot be evaluated: {error}.") from error
    kind = next(iter(signature.parameters.values())).annotation
    if kind in (inspect.Parameter.empty, Any):
        return (Exception,)
    kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    if not _are_exceptions(kinds):
        raise unusable(f"must take an exception, and its parameter is annotated with {kind}.")
    return kinds


def invocation_error(
    error: ValidationError, name: str, args: dict[str, object], injected: frozenset[str]
) -> Exception:
    """Return a ToolInvocationError for a ValidationError, or the same error of a running tool.

    LangGraph's ToolNode blames the model for every ValidationError, also for errors of a running
    tool. And LangGraph drops errors about several arguments at once, so that the model would read
    an empty list.
    """
    if any(
        # Every tool runs in `_run` or `_arun`, the methods that subclasses of BaseTool override.
        frame.f_code.co_name in ("_run", "_arun")
        and isinstance(frame.f_locals.get("self"), BaseTool)
        for frame, _ in walk_tb(error.__traceback__)
    ):
        return error
    at_argument: list[Any] = []
    at_call: list[Any] = []
    for detail in error.errors():
        if not detail["loc"]:
            # `input` holds the injected arguments too.
            at_call.append({**detail, "loc": (WHOLE,), "input": args})
        elif detail["loc"][0] not in injected:
            argument = detail.get("input")
            if isinstance(argument, dict):
                argument = {key: value for key, value in argument.items() if key not in injected}
            at_argument.append({**detail, "input": argument})
    return ToolInvocationError(name, error, args, [*at_argument, *at_call])
