"""What a failing tool leads to: every form of `handle_tool_errors`, checked when it is given.

ToolNode looks at a handler only when an error occurs, and for errors of layers it does not look
at the types a handler lists. So each form becomes one function here that raises what it does not
cover, and ToolNode calls that.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from traceback import walk_tb
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from langchain_core.tools import BaseTool
from langgraph.prebuilt.tool_node import ToolInvocationError

from agent_factory.errors import ArgumentError, describe

DEFAULT_ERRORS: Any = object()
"""Stands for ToolNode's own default: bad arguments become a message, a raising tool raises."""

Answer = Callable[[Exception], str]
Handler = Literal[False] | Answer

UNHANDLED = "__unhandled_by_agent_factory__"
"""Marks an exception that came out of a tool's execution, where it was not handled: by whom. An
agent may be a tool of another, whose handler has not been asked yet."""

WHOLE = "arguments"
"""Where an error is that concerns several arguments together."""


def mark_unhandled(
    call: Callable[[Any], Any],
    handler: Answer,
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


async def _marking_later(result: Awaitable[Any], handler: Answer, kinds: type[Exception]) -> Any:
    try:
        return await result
    except kinds as error:
        raise _marked(error, handler)  # noqa: B904  # the same error, with a mark


def _marked(error: Exception, handler: Answer) -> Exception:
    setattr(error, UNHANDLED, handler)
    return error


def handle_once(handler: Handler | None) -> Answer:
    """A handler as ToolNode is to ask it: once about an error, and about what really happened.

    Args:
        handler: What `handler_for` gave.
    """
    respond = _refuse if handler is False else handler or _default

    def answer(error: Exception) -> str:
        if getattr(error, UNHANDLED, None) is answer:
            raise error
        return respond(original_error(error))

    return answer


def _default(error: Exception) -> str:
    if isinstance(error, ToolInvocationError):
        return error.message
    raise error


def _refuse(error: Exception) -> str:
    raise error


def original_error(error: Exception) -> Exception:
    """An error that ToolNode blames on the model's arguments, with the right culprit and in full.

    ToolNode takes any ValidationError for one of the arguments, also what a tool raises while it
    works. And it leaves out what validators of a whole model say: the model would read a blank.
    """
    if not isinstance(error, ToolInvocationError):
        return error
    if raised_inside_tool(error.source):
        return error.source
    # The input of such an error holds what was injected, which is not for the model's eyes.
    unplaced = [
        {**fact, "loc": (WHOLE,), "input": error.tool_kwargs}
        for fact in error.source.errors()
        if not fact["loc"]
    ]
    if not unplaced or error.filtered_errors is None:
        return error
    facts: Any = [*error.filtered_errors, *unplaced]
    full = ToolInvocationError(error.tool_name, error.source, error.tool_kwargs, facts)
    full.__cause__ = error.source
    return full


def raised_inside_tool(error: Exception) -> bool:
    """Whether a tool was running, not only reading its arguments, when this was raised.

    Every tool works in `_run` or `_arun`, the methods that BaseTool leaves to it.
    """
    return any(
        frame.f_code.co_name in ("_run", "_arun")
        and isinstance(frame.f_locals.get("self"), BaseTool)
        for frame, _ in walk_tb(error.__traceback__)
    )


def handler_for(value: Any) -> Handler | None:
    """One of ToolNode's forms as a handler it can be given; None for its own default.

    Raises:
        ArgumentError: It is none of the forms, or could not be called with an exception.
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
    raise ArgumentError(
        "handle_tool_errors",
        f"{describe(value)} cannot handle an error.",
        "Give True, False, a text, an exception type or a tuple of them, or a function of the "
        "exception.",
        code="AF112",
    )


def _are_exceptions(kinds: tuple[Any, ...]) -> bool:
    return all(isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds)


def _template(error: Exception) -> str:
    return f"Error: {error!r}\n Please fix your mistakes."


def _only(kinds: Any, text: Answer) -> Answer:
    def answer(error: Exception) -> str:
        if not isinstance(error, kinds):
            raise error
        return text(error)

    return answer


def _handled_types(handler: Callable[..., Any]) -> tuple[type[Exception], ...]:
    """The exceptions a handler's parameter is annotated with; all where it is not."""
    if any(map(inspect.iscoroutinefunction, (handler, type(handler).__call__))):
        raise _unusable(handler, "is a coroutine, and would not be awaited.")
    kind = _annotation(handler)
    if kind in (inspect.Parameter.empty, Any):
        return (Exception,)
    kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    if not _are_exceptions(kinds):
        raise _unusable(handler, f"takes {kind}, which is no exception.")
    return kinds


def _annotation(handler: Callable[..., Any]) -> Any:
    """What the parameter for the exception is annotated with."""
    try:
        signature = inspect.signature(handler, eval_str=True)
        signature.bind(ValueError())
    except (TypeError, ValueError) as error:
        raise _unusable(
            handler, "is called with the exception alone, and does not take that."
        ) from error
    except Exception as error:
        raise _unusable(handler, f"has an annotation that cannot be read: {error}.") from error
    return next(iter(signature.parameters.values())).annotation


def _unusable(handler: Callable[..., Any], reason: str) -> ArgumentError:
    name = getattr(handler, "__name__", describe(handler))
    return ArgumentError(
        f"handle_tool_errors {name}",
        reason,
        "Write `def handler(error: ValueError) -> str`.",
        code="AF112",
    )
