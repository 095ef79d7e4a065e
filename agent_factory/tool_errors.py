"""What a failing tool leads to: every form of `handle_tool_errors`, checked when it is given.

ToolNode looks at a handler only when an error occurs, and for errors of layers it does not look
at the types a handler lists. So each form becomes one function here that raises what it does not
cover, and ToolNode calls that.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from agent_factory.errors import InvalidTool, describe

DEFAULT_ERRORS: Any = object()
"""Stands for ToolNode's own default: bad arguments become a message, a raising tool raises."""

Handler = Literal[False] | Callable[[Exception], str]

UNHANDLED = "__unhandled_by_agent_factory__"
"""Marks an exception that came out of a tool's execution, where it was not handled: by whom. An
agent may be a tool of another, whose handler has not been asked yet."""


def marking(
    call: Callable[[Any], Any],
    handler: Handler | None,
    request: Any,
    kinds: type[Exception] = Exception,
) -> Any:
    """Make a call, in either colour; what it raises is not to be handled again outside.

    ToolNode has asked the handler already, or the call could not be made at all (a store or a
    state key is missing, a layer returned junk), which is no matter for the model.

    Args:
        call: The call.
        handler: What is not to handle it again.
        request: What it is given.
        kinds: Which exceptions are marked.
    """
    try:
        result = call(request)
    except kinds as error:
        raise _marked(error, handler)  # noqa: B904  # the same error, with a mark
    return _marking_later(result, handler, kinds) if inspect.isawaitable(result) else result


async def _marking_later(
    result: Awaitable[Any], handler: Handler | None, kinds: type[Exception]
) -> Any:
    try:
        return await result
    except kinds as error:
        raise _marked(error, handler)  # noqa: B904  # the same error, with a mark


def _marked(error: Exception, handler: Handler | None) -> Exception:
    setattr(error, UNHANDLED, handler)
    return error


def handler_for(value: Any) -> Handler | None:
    """One of ToolNode's forms as a handler it can be given; None for its own default.

    Raises:
        InvalidTool: It is none of the forms, or could not be called with an exception.
    """
    if value is DEFAULT_ERRORS:
        return None
    if value is False or value in ("", ()):
        return False
    if value is True:
        return _only(Exception, _template)
    if isinstance(value, str):
        return _only(Exception, lambda _: value)
    if _are_exceptions(value if isinstance(value, tuple) else (value,)):
        return _only(value, _template)
    if callable(value) and not isinstance(value, type):
        return _only(_handled_types(value), value)
    raise InvalidTool(
        "handle_tool_errors",
        f"{describe(value)} cannot handle an error.",
        "Give True, False, a text, an exception type or a tuple of them, or a function of the "
        "exception.",
    )


def _are_exceptions(kinds: tuple[Any, ...]) -> bool:
    return all(isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds)


def _template(error: Exception) -> str:
    return f"Error: {error!r}\n Please fix your mistakes."


def _only(kinds: Any, text: Callable[[Exception], str]) -> Callable[[Exception], str]:
    def answer(error: Exception) -> str:
        if not isinstance(error, kinds) or getattr(error, UNHANDLED, None) is answer:
            raise error
        return text(error)

    return answer


def _handled_types(handler: Callable[..., Any]) -> tuple[type[Exception], ...]:
    """The exceptions a handler's parameter is annotated with; all where it is not."""
    if inspect.iscoroutinefunction(handler):
        raise _unusable(handler, "is a coroutine, and would not be awaited.")
    try:
        (first, *_) = inspect.signature(handler).parameters.values()
        inspect.signature(handler).bind(ValueError())
    except (TypeError, ValueError) as error:
        raise _unusable(
            handler, "is called with the exception alone, and does not take that."
        ) from error
    function = handler if inspect.isroutine(handler) else type(handler).__call__
    kind = get_type_hints(function).get(first.name, Exception)
    kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    if kind is Any:
        return (Exception,)
    if not _are_exceptions(kinds):
        raise _unusable(handler, f"takes {kind}, which is no exception.")
    return kinds


def _unusable(handler: Callable[..., Any], reason: str) -> InvalidTool:
    name = getattr(handler, "__name__", describe(handler))
    return InvalidTool(
        f"handle_tool_errors {name}", reason, "Write `def handler(error: ValueError) -> str`."
    )
