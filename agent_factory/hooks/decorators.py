"""A function becomes a middleware. One maker serves every hook and both colours."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Protocol, overload

from langchain_core.messages import SystemMessage

from agent_factory.errors import ArgumentError, BadReturn, describe
from agent_factory.hooks.base import AgentMiddleware
from agent_factory.types import AgentState, JumpTo, ModelRequest

Function = Callable[..., Any]
Tools = Sequence[Any] | None


class _Decorator(Protocol):
    def __call__(self, func: Function) -> AgentMiddleware[Any, Any]: ...


def _check_function(func: Any) -> None:
    if not callable(func) or isinstance(func, type):
        raise ArgumentError(
            "a decorator", f"{describe(func)} is no function.", "Decorate a function."
        )


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
    """A middleware whose one method is `func`, in the slot of its colour.

    Raises:
        ArgumentError: It is no function.
    """
    _check_function(func)
    slot, body = _method(func, slot)
    if can_jump_to is None:
        can_jump_to = getattr(func, "__can_jump_to__", None)
    if can_jump_to is not None:
        body.__can_jump_to__ = can_jump_to  # type: ignore[attr-defined]
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


class HookDecorator:
    """Makes a middleware of a function of `(state, runtime)` that returns an update or None.

    A coroutine function serves asynchronous runs; a plain one serves both, in a thread of an
    asynchronous run. Use it bare, or with options:

    >>> @before_model(can_jump_to=["end"])
    ... def stop_when_long(state, runtime):
    ...     return {"jump_to": "end"} if len(state["messages"]) > 50 else None
    >>> stop_when_long.name
    'stop_when_long'
    """

    def __init__(self, slot: str, when: str) -> None:
        self._slot = slot
        self.__doc__ = f"A function that runs {when} becomes a middleware.\n\n{type(self).__doc__}"

    @overload
    def __call__(self, func: Function) -> AgentMiddleware[Any, Any]: ...
    @overload
    def __call__(
        self,
        func: None = None,
        *,
        state_schema: type[Any] | None = None,
        tools: Tools = None,
        can_jump_to: Sequence[JumpTo] | None = None,
        name: str | None = None,
    ) -> _Decorator: ...
    def __call__(
        self,
        func: Function | None = None,
        *,
        state_schema: type[Any] | None = None,
        tools: Tools = None,
        can_jump_to: Sequence[JumpTo] | None = None,
        name: str | None = None,
    ) -> Any:
        """Make the middleware, or a decorator that does.

        Args:
            func: The function.
            state_schema: A TypedDict that extends AgentState with the keys it uses.
            tools: Tools it brings along.
            can_jump_to: The jumps it may ask for.
            name: The middleware's name; default: the function's.
        """
        make = partial(
            _make,
            slot=self._slot,
            state_schema=state_schema,
            tools=tools,
            can_jump_to=can_jump_to,
            name=name,
        )
        return make if func is None else make(func)


class LayerDecorator:
    """Makes a middleware of a function of `(request, handler)` that returns a response.

    A coroutine function serves asynchronous runs, a plain one synchronous runs. A generator
    function of `(request)` is a flow and serves both:

    >>> @wrap_model_call
    ... def twice(request):
    ...     yield request
    ...     return (yield request)
    """

    def __init__(self, slot: str, what: str) -> None:
        self._slot = slot
        self.__doc__ = f"A function that wraps {what} becomes a middleware.\n\n{type(self).__doc__}"

    @overload
    def __call__(self, func: Function) -> AgentMiddleware[Any, Any]: ...
    @overload
    def __call__(
        self,
        func: None = None,
        *,
        state_schema: type[Any] | None = None,
        tools: Tools = None,
        name: str | None = None,
    ) -> _Decorator: ...
    def __call__(
        self,
        func: Function | None = None,
        *,
        state_schema: type[Any] | None = None,
        tools: Tools = None,
        name: str | None = None,
    ) -> Any:
        """Make the middleware, or a decorator that does.

        Args:
            func: The function.
            state_schema: A TypedDict that extends AgentState with the keys it uses.
            tools: Tools it brings along.
            name: The middleware's name; default: the function's.
        """
        make = partial(_make, slot=self._slot, state_schema=state_schema, tools=tools, name=name)
        return make if func is None else make(func)


before_agent = HookDecorator("before_agent", "once, when a run starts,")
before_model = HookDecorator("before_model", "before each call of the model")
after_model = HookDecorator("after_model", "after each call of the model")
after_agent = HookDecorator("after_agent", "once, when a run ends,")
wrap_model_call = LayerDecorator("wrap_model_call", "each call of the model")
wrap_tool_call = LayerDecorator("wrap_tool_call", "each tool call")


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
    _check_function(func)
    name = getattr(func, "__name__", type(func).__name__)
    if inspect.iscoroutinefunction(func):

        async def aprompt(request: ModelRequest[Any], handler: Callable[..., Any]) -> Any:
            return await handler(_prompted(name, request, await func(request)))

        return _make(aprompt, slot="wrap_model_call", name=name)

    def prompt(request: ModelRequest[Any]) -> Any:
        return (yield _prompted(name, request, func(request)))

    return _make(prompt, slot="wrap_model_call", name=name)


def _prompted(name: str, request: ModelRequest[Any], prompt: Any) -> ModelRequest[Any]:
    if isinstance(prompt, SystemMessage):
        return request.override(system_message=prompt)
    if isinstance(prompt, str | None):
        return request.override(system_prompt=prompt)
    raise BadReturn(name, f"gave {describe(prompt)} as a prompt.", "Give a text or SystemMessage.")
