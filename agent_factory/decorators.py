"""A function becomes a middleware. One maker serves every hook and both colours."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Protocol, overload

from langchain_core.messages import SystemMessage

from agent_factory.base import AgentMiddleware
from agent_factory.types import AgentState, JumpTo, ModelRequest

Function = Callable[..., Any]
Tools = Sequence[Any] | None


class _Decorator(Protocol):
    def __call__(self, func: Function) -> AgentMiddleware[Any, Any]: ...


_FLOW_OF = {"wrap_model_call": "around_model", "wrap_tool_call": "around_tool"}


def _make(
    func: Function,
    *,
    slot: str,
    state_schema: type[Any] | None = None,
    tools: Tools = None,
    can_jump_to: Sequence[JumpTo] | None = None,
    name: str | None = None,
) -> AgentMiddleware[Any, Any]:
    """A middleware whose one method is `func`, in the slot of its colour."""
    slot, body = _method(func, slot)
    if can_jump_to is None:
        can_jump_to = getattr(func, "__can_jump_to__", None)
    if can_jump_to is not None:
        body.__can_jump_to__ = list(can_jump_to)  # type: ignore[attr-defined]
    # The engine checks how a method may be called, and this one is called as `func` is.
    body.__signature__ = _with_self(func)  # type: ignore[attr-defined]
    kind = type(
        str(name or getattr(func, "__name__", type(func).__name__)),
        (AgentMiddleware,),
        {
            slot: body,
            "state_schema": state_schema or AgentState,
            "tools": tuple(tools or ()),
            "__doc__": func.__doc__,
            "__module__": getattr(func, "__module__", __name__),
        },
    )
    made: AgentMiddleware[Any, Any] = kind()
    return made


def _method(func: Function, slot: str) -> tuple[str, Function]:
    """The slot and the method for a function: a flow, a coroutine or a plain one."""

    def method(_self: Any, *args: Any) -> Any:
        return func(*args)

    async def amethod(_self: Any, *args: Any) -> Any:
        return await func(*args)

    def flow(_self: Any, *args: Any) -> Any:
        return (yield from func(*args))

    if inspect.isgeneratorfunction(func):
        return _FLOW_OF.get(slot, slot), flow
    if inspect.iscoroutinefunction(func):
        return f"a{slot}", amethod
    return slot, method


def _with_self(func: Function) -> inspect.Signature:
    signature = inspect.signature(func)
    first = inspect.Parameter("_self", inspect.Parameter.POSITIONAL_ONLY)
    return signature.replace(parameters=[first, *signature.parameters.values()])


def _decorate(func: Function | None, slot: str, **options: Any) -> Any:
    if func is None:
        return partial(_make, slot=slot, **options)
    return _make(func, slot=slot, **options)


@overload
def before_agent(func: Function) -> AgentMiddleware[Any, Any]: ...
@overload
def before_agent(
    func: None = None,
    *,
    state_schema: type[Any] | None = None,
    tools: Tools = None,
    can_jump_to: Sequence[JumpTo] | None = None,
    name: str | None = None,
) -> _Decorator: ...
def before_agent(func: Function | None = None, **options: Any) -> Any:
    """Make a middleware of a function that runs once, when a run starts.

    Args:
        func: `(state, runtime) -> dict or None`; a coroutine function serves async runs.
        **options: `state_schema`, `tools`, `can_jump_to`, `name` (default: the function's).
    """
    return _decorate(func, "before_agent", **options)


@overload
def before_model(func: Function) -> AgentMiddleware[Any, Any]: ...
@overload
def before_model(
    func: None = None,
    *,
    state_schema: type[Any] | None = None,
    tools: Tools = None,
    can_jump_to: Sequence[JumpTo] | None = None,
    name: str | None = None,
) -> _Decorator: ...
def before_model(func: Function | None = None, **options: Any) -> Any:
    """Make a middleware of a function that runs before each call of the model.

    Args:
        func: `(state, runtime) -> dict or None`; a coroutine function serves async runs.
        **options: `state_schema`, `tools`, `can_jump_to`, `name` (default: the function's).

    >>> @before_model(can_jump_to=["end"])
    ... def stop_when_long(state, runtime):
    ...     return {"jump_to": "end"} if len(state["messages"]) > 50 else None
    >>> stop_when_long.name
    'stop_when_long'
    """
    return _decorate(func, "before_model", **options)


@overload
def after_model(func: Function) -> AgentMiddleware[Any, Any]: ...
@overload
def after_model(
    func: None = None,
    *,
    state_schema: type[Any] | None = None,
    tools: Tools = None,
    can_jump_to: Sequence[JumpTo] | None = None,
    name: str | None = None,
) -> _Decorator: ...
def after_model(func: Function | None = None, **options: Any) -> Any:
    """Make a middleware of a function that runs after each call of the model.

    Args:
        func: `(state, runtime) -> dict or None`; a coroutine function serves async runs.
        **options: `state_schema`, `tools`, `can_jump_to`, `name` (default: the function's).
    """
    return _decorate(func, "after_model", **options)


@overload
def after_agent(func: Function) -> AgentMiddleware[Any, Any]: ...
@overload
def after_agent(
    func: None = None,
    *,
    state_schema: type[Any] | None = None,
    tools: Tools = None,
    can_jump_to: Sequence[JumpTo] | None = None,
    name: str | None = None,
) -> _Decorator: ...
def after_agent(func: Function | None = None, **options: Any) -> Any:
    """Make a middleware of a function that runs once, when a run ends.

    Args:
        func: `(state, runtime) -> dict or None`; a coroutine function serves async runs.
        **options: `state_schema`, `tools`, `can_jump_to`, `name` (default: the function's).
    """
    return _decorate(func, "after_agent", **options)


@overload
def wrap_model_call(func: Function) -> AgentMiddleware[Any, Any]: ...
@overload
def wrap_model_call(
    func: None = None,
    *,
    state_schema: type[Any] | None = None,
    tools: Tools = None,
    name: str | None = None,
) -> _Decorator: ...
def wrap_model_call(func: Function | None = None, **options: Any) -> Any:
    """Make a middleware of a function that wraps each call of the model.

    Args:
        func: `(request, handler) -> response`; a coroutine function serves async runs. A
            generator function of `(request)` is a flow and serves both.
        **options: `state_schema`, `tools`, `name` (default: the function's).

    >>> @wrap_model_call
    ... def twice(request):
    ...     yield request
    ...     return (yield request)
    """
    return _decorate(func, "wrap_model_call", **options)


@overload
def wrap_tool_call(func: Function) -> AgentMiddleware[Any, Any]: ...
@overload
def wrap_tool_call(
    func: None = None,
    *,
    state_schema: type[Any] | None = None,
    tools: Tools = None,
    name: str | None = None,
) -> _Decorator: ...
def wrap_tool_call(func: Function | None = None, **options: Any) -> Any:
    """Make a middleware of a function that wraps each tool call.

    Args:
        func: `(request, handler) -> ToolMessage or Command`; a coroutine function serves async
            runs. A generator function of `(request)` is a flow and serves both.
        **options: `state_schema`, `tools`, `name` (default: the function's).
    """
    return _decorate(func, "wrap_tool_call", **options)


def dynamic_prompt(
    func: Callable[[ModelRequest[Any]], str | SystemMessage]
    | Callable[[ModelRequest[Any]], Awaitable[str | SystemMessage]],
) -> AgentMiddleware[Any, Any]:
    """Make a middleware of a function that writes the system prompt anew for each call.

    Args:
        func: `(request) -> str or SystemMessage`; a coroutine function serves async runs only.

    >>> @dynamic_prompt
    ... def polite(request):
    ...     return f"Be polite. {len(request.messages)} messages so far."
    """
    name = getattr(func, "__name__", None)
    if inspect.iscoroutinefunction(func):

        async def aprompt(request: ModelRequest[Any], handler: Callable[..., Any]) -> Any:
            return await handler(_prompted(request, await func(request)))

        return _make(aprompt, slot="wrap_model_call", name=name)

    def prompt(request: ModelRequest[Any]) -> Any:
        return (yield _prompted(request, func(request)))

    return _make(prompt, slot="wrap_model_call", name=name)


def _prompted(request: ModelRequest[Any], prompt: Any) -> ModelRequest[Any]:
    if isinstance(prompt, SystemMessage):
        return request.override(system_message=prompt)
    return request.override(system_prompt=prompt)
