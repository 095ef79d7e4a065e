"""Decorators that turn a function into a middleware, for each hook and layer."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, overload

from langchain_core.messages import SystemMessage

from agent_factory.errors import ArgumentError, BadReturn, describe
from agent_factory.hooks.base import (
    NODE_HOOKS,
    AgentMiddleware,
    FunctionMiddleware,
    Middleware,
    jumps_among,
)
from agent_factory.types import (
    AgentState,
    ContextT,
    JumpTo,
    ModelRequest,
    ModelResponse,
    ResponseT,
    StateT,
)

if TYPE_CHECKING:
    from langchain_core.messages import ToolMessage
    from langchain_core.runnables import RunnableConfig
    from langgraph.prebuilt.tool_node import ToolCallRequest
    from langgraph.runtime import Runtime
    from langgraph.types import Command

    from agent_factory.hooks.base import HookResult, HookReturn
    from agent_factory.hooks.flows import Flow
    from agent_factory.types import ModelCallResult

    AnyHookReturn = HookReturn | Awaitable[HookResult]
    HookFunction = (
        Callable[[StateT, Runtime[ContextT]], AnyHookReturn]
        | Callable[[StateT], AnyHookReturn]
        | Callable[[StateT, Runtime[ContextT], RunnableConfig], AnyHookReturn]
    )
    """Function for a hook: sync, async, or a flow."""

    ModelLayerFunction = (
        Callable[
            [ModelRequest[ContextT], Callable[[ModelRequest[ContextT]], ModelResponse[ResponseT]]],
            ModelCallResult[ResponseT],
        ]
        | Callable[
            [
                ModelRequest[ContextT],
                Callable[[ModelRequest[ContextT]], Awaitable[ModelResponse[ResponseT]]],
            ],
            Awaitable[ModelCallResult[ResponseT]],
        ]
        | Callable[[ModelRequest[ContextT]], Flow[ModelCallResult[ResponseT]]]
    )
    """Function for a layer around model calls: sync, async, or a flow."""

    ToolResult = ToolMessage | Command[Any]
    ToolLayerFunction = (
        Callable[[ToolCallRequest, Callable[[ToolCallRequest], ToolResult]], ToolResult]
        | Callable[
            [ToolCallRequest, Callable[[ToolCallRequest], Awaitable[ToolResult]]],
            Awaitable[ToolResult],
        ]
        | Callable[[ToolCallRequest], Flow[ToolResult]]
    )
    """Function for a layer around tool calls: sync, async, or a flow."""

    PromptFunction = (
        Callable[[ModelRequest[Any]], str | SystemMessage]
        | Callable[[ModelRequest[Any]], Awaitable[str | SystemMessage]]
    )

Function = Callable[..., Any]
Tools = Sequence[Any] | None

_FLOW_OF = {"wrap_model_call": "around_model", "wrap_tool_call": "around_tool"}


def _check_function(decorator: str, func: object) -> None:
    if not callable(func) or isinstance(func, type):
        reason = f"must decorate a function, got {describe(func)}."
        write = f"@{decorator}"
        # The decorators of hooks and layers have options; only hooks can jump.
        if (jumps := jumps_among(func)) and decorator in NODE_HOOKS:
            write += f"(can_jump_to={jumps})"
        elif isinstance(func, str) and decorator != dynamic_prompt.__name__:
            write += f"(name={func!r})"
        else:
            write += "` above a `def"
        raise ArgumentError(decorator, reason, f"Write `{write}`.")
    if not inspect.isfunction(func):  # a bound method, for example
        return
    parameters = [*inspect.signature(func).parameters]
    if parameters[:1] not in (["self"], ["cls"]):
        return
    # A function in the body of a class has the name of the class before its own.
    scope = func.__qualname__.rpartition(".")[0]
    hint = f"Write `def {func.__name__}({', '.join(parameters[1:])})`."
    if scope and not scope.endswith("<locals>"):
        method = _FLOW_OF["wrap_model_call"] if decorator == "dynamic_prompt" else decorator
        hint = f"A decorator is for functions: remove it, and name the method {method}."
    reason = f"must decorate a function without {parameters[0]}, got {func.__name__}"
    raise ArgumentError(decorator, f"{reason}({', '.join(parameters)}).", hint, code="AF106")


def _make(
    slot: str,
    func: Function,
    *,
    state_schema: type[object] | None = None,
    tools: Tools = None,
    can_jump_to: Sequence[JumpTo] | None = None,
    name: str | None = None,
) -> Middleware:
    """Return a middleware with one method: `slot`, or its async variant, or its flow."""
    _check_function(slot, func)

    # Functions of a class get the instance as their first argument, which `func` does not take.
    def method(_self: object, *args: object, **injected: object) -> object:
        return func(*args, **injected)

    async def amethod(_self: object, *args: object, **injected: object) -> object:
        return await func(*args, **injected)

    def flow(_self: object, *args: object, **injected: object) -> Flow[object]:
        return (yield from func(*args, **injected))

    body: Function = method
    if inspect.isgeneratorfunction(func):
        slot, body = _FLOW_OF.get(slot, slot), flow
    elif inspect.iscoroutinefunction(func):
        slot, body = f"a{slot}", amethod
    # `@hook_config` may stand between the decorator and the function.
    if can_jump_to is None:
        can_jump_to = getattr(func, "__can_jump_to__", None)
    if can_jump_to is not None:
        body.__can_jump_to__ = can_jump_to  # type: ignore[attr-defined]
    # Signatures of methods are validated, and this signature accepts the arguments of `func`.
    signature = inspect.signature(func)
    first = inspect.Parameter("_self", inspect.Parameter.POSITIONAL_ONLY)
    body.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[first, *signature.parameters.values()]
    )
    attributes = {
        slot: body,
        "state_schema": state_schema or AgentState,
        "tools": list(tools or ()),
        "__doc__": func.__doc__,
        # Otherwise errors and docs would show the class as a class of this module.
        "__module__": getattr(func, "__module__", __name__),
    }
    # A class for each function, because a build reads hooks from classes.
    middleware: Middleware = type(str(name or _name_of(func)), (FunctionMiddleware,), attributes)()
    return middleware


def _name_of(func: Function) -> str:
    return str(getattr(func, "__name__", type(func).__name__))


class _MiddlewareDecorator:
    def __init__(self, slot: str, summary: str) -> None:
        self._slot = slot
        # One docstring of the class for four decorators; the reference shows the instance's
        # docstring.
        self.__doc__ = f"{summary}\n\n{type(self).__doc__}"

    def _decorate(
        self, func: Function | None, **options: Any
    ) -> Middleware | Callable[[Function], Middleware]:
        if func is None:
            return partial(_make, self._slot, **options)
        return _make(self._slot, func, **options)


class HookDecorator(_MiddlewareDecorator):
    """Turn a function of `(state, runtime)` with a state update or None into a middleware.

    The function may also take the state alone, or `config` as well. A coroutine function serves
    async runs only. A plain function serves both; an async run calls the function in a thread. A
    generator function is a flow and serves both. Use the decorator with or without arguments:

    >>> @before_model(can_jump_to=["end"])
    ... def stop_when_long(state, runtime):
    ...     return {"jump_to": "end"} if len(state["messages"]) > 50 else None
    >>> stop_when_long.name
    'stop_when_long'
    """

    @overload
    def __call__(
        self, func: HookFunction[StateT, ContextT]
    ) -> AgentMiddleware[StateT, ContextT]: ...
    @overload
    def __call__(
        self,
        func: None = None,
        *,
        state_schema: type[object] | None = None,
        tools: Tools = None,
        can_jump_to: Sequence[JumpTo] | None = None,
        name: str | None = None,
    ) -> Callable[[HookFunction[StateT, ContextT]], AgentMiddleware[StateT, ContextT]]: ...
    def __call__(
        self,
        func: Function | None = None,
        *,
        state_schema: type[object] | None = None,
        tools: Tools = None,
        can_jump_to: Sequence[JumpTo] | None = None,
        name: str | None = None,
    ) -> Middleware | Callable[[Function], Middleware]:
        """Return the middleware, or a decorator if `func` is missing.

        Args:
            func: The function.
            state_schema: TypedDict that extends AgentState with the keys the function uses.
            tools: Tools to add to the agent.
            can_jump_to: Targets of the function's jumps: "tools", "model" or "end".
            name: Name of the middleware; by default the name of the function.
        """
        return self._decorate(
            func, state_schema=state_schema, tools=tools, can_jump_to=can_jump_to, name=name
        )


class ModelLayerDecorator(_MiddlewareDecorator):
    """Turn a function of `(request, handler)` with a response into a middleware.

    A coroutine function serves async runs, a plain function sync runs. A generator function of
    `(request)` is a flow and serves both:

    >>> @wrap_model_call
    ... def twice(request):
    ...     yield request
    ...     return (yield request)
    """

    @overload
    def __call__(
        self, func: ModelLayerFunction[ContextT, ResponseT]
    ) -> AgentMiddleware[Any, ContextT, ResponseT]: ...
    @overload
    def __call__(
        self,
        func: None = None,
        *,
        state_schema: type[object] | None = None,
        tools: Tools = None,
        name: str | None = None,
    ) -> Callable[
        [ModelLayerFunction[ContextT, ResponseT]], AgentMiddleware[Any, ContextT, ResponseT]
    ]: ...
    def __call__(
        self,
        func: Function | None = None,
        *,
        state_schema: type[object] | None = None,
        tools: Tools = None,
        name: str | None = None,
    ) -> Middleware | Callable[[Function], Middleware]:
        """Return the middleware, or a decorator if `func` is missing.

        Args:
            func: The function.
            state_schema: TypedDict that extends AgentState with the keys the function uses.
            tools: Tools to add to the agent.
            name: Name of the middleware; by default the name of the function.
        """
        return self._decorate(func, state_schema=state_schema, tools=tools, name=name)


class ToolLayerDecorator(_MiddlewareDecorator):
    """Turn a function of `(request, handler)` with a tool's result into a middleware.

    A coroutine function serves async runs, a plain function sync runs. A generator function of
    `(request)` is a flow and serves both:

    >>> @wrap_tool_call
    ... def again(request):
    ...     result = yield request
    ...     return (yield request) if result.status == "error" else result
    """

    @overload
    def __call__(self, func: ToolLayerFunction) -> Middleware: ...
    @overload
    def __call__(
        self,
        func: None = None,
        *,
        state_schema: type[object] | None = None,
        tools: Tools = None,
        name: str | None = None,
    ) -> Callable[[ToolLayerFunction], Middleware]: ...
    def __call__(
        self,
        func: Function | None = None,
        *,
        state_schema: type[object] | None = None,
        tools: Tools = None,
        name: str | None = None,
    ) -> Middleware | Callable[[Function], Middleware]:
        """Return the middleware, or a decorator if `func` is missing; see `wrap_model_call`."""
        return self._decorate(func, state_schema=state_schema, tools=tools, name=name)


before_agent = HookDecorator("before_agent", "Run a function once when a run starts.")
"""Turn a function of `(state, runtime)` into a middleware: one call when a run starts."""

before_model = HookDecorator("before_model", "Run a function before each call of the model.")
"""Turn a function of `(state, runtime)` into a middleware: a call before each model call."""

after_model = HookDecorator("after_model", "Run a function after each call of the model.")
"""Turn a function of `(state, runtime)` into a middleware: a call after each model call."""

after_agent = HookDecorator("after_agent", "Run a function once when a run ends.")
"""Turn a function of `(state, runtime)` into a middleware: one call when a run ends."""

wrap_model_call = ModelLayerDecorator("wrap_model_call", "Wrap each model call in a function.")
"""Turn a function of `(request, handler)` into a middleware around each model call."""

wrap_tool_call = ToolLayerDecorator("wrap_tool_call", "Wrap each tool call in a function.")
"""Turn a function of `(request, handler)` into a middleware around each tool call."""


@overload
def dynamic_prompt(func: PromptFunction) -> Middleware: ...
@overload
def dynamic_prompt(func: None = None) -> Callable[[PromptFunction], Middleware]: ...
def dynamic_prompt(
    func: Function | None = None,
) -> Middleware | Callable[[PromptFunction], Middleware]:
    """Turn a function for the system prompt of each model call into a middleware.

    The function returns a prompt each time; `request.system_message or ""` keeps the prompt.

    Args:
        func: `(request) -> str or SystemMessage`. A coroutine function serves async runs only.
            Without a function, a decorator is returned.

    Raises:
        ArgumentError: `func` is not a function of one argument.

    >>> @dynamic_prompt
    ... def polite(request):
    ...     return f"Be polite. {len(request.messages)} messages so far."
    """
    if func is None:
        # The same as `@dynamic_prompt()`: there are no options.
        return dynamic_prompt
    _check_function("dynamic_prompt", func)
    name = _name_of(func)
    try:
        inspect.signature(func).bind("request")
    except TypeError as error:
        reason = f"is called with (request), but does not accept that: {error}."
        raise ArgumentError(name, reason, f"Write `def {name}(request)`.", code="AF106") from None
    if inspect.iscoroutinefunction(func):

        async def aprompt(
            request: ModelRequest[Any], handler: Callable[..., Awaitable[object]]
        ) -> object:
            return await handler(_with_prompt(name, request, await func(request)))

        return _make("wrap_model_call", aprompt, name=name)

    # A generator, and therefore a flow for sync and async runs.
    def prompt(request: ModelRequest[Any]) -> Flow[object]:
        return (yield _with_prompt(name, request, func(request)))

    return _make("wrap_model_call", prompt, name=name)


def _with_prompt(name: str, request: ModelRequest[Any], prompt: object) -> ModelRequest[Any]:
    if isinstance(prompt, SystemMessage):
        return request.override(system_message=prompt)
    if isinstance(prompt, str):
        return request.override(system_prompt=prompt)
    reason = f"must return a string or a SystemMessage, got {describe(prompt)}."
    hint = "Write `return` in each branch"
    raise BadReturn(
        name, reason, f'{hint}; `return request.system_message or ""` leaves the prompt as it is.'
    )
