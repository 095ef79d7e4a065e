"""One layer of one middleware, run alone: around a call that a test answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import Any

from langchain_core.messages import AIMessage, ToolMessage
from langgraph.config import get_config
from langgraph.prebuilt import ToolRuntime
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.runtime import get_runtime
from langgraph.store.base import BaseStore
from langgraph.types import Command

from agent_factory.errors import ArgumentError, PathNotSupported, describe
from agent_factory.hooks.flows import then
from agent_factory.hooks.introspection import Bound, layers_of, sync_async_error
from agent_factory.runtime.composition import Outcome, compose_model_call, compose_tool_call
from agent_factory.testing.fixtures import Bench, Middleware, as_state, usable_middleware
from agent_factory.testing.responses import ScriptError, as_said, made_call
from agent_factory.testing.scripted import ScriptedChatModel
from agent_factory.topology.model import Call, Layer
from agent_factory.types import ModelRequest, ModelResponse

DONE = "Done."
"""What the call inward answers where a test does not say."""


@dataclass(frozen=True)
class LayerRun:
    """What came of a layer.

    Args:
        response: What it handed outward: a ModelResponse, a ToolMessage or a Command.
        asked: The requests it sent inward, in order; none where it answered itself.
        commands: The state updates it returned beside a model's response.
    """

    response: Any
    asked: list[Any] = field(default_factory=list)
    commands: tuple[Command[Any], ...] = ()

    @property
    def text(self) -> str:
        """The text of the last message of the response."""
        said = self.response.result[-1] if isinstance(self.response, ModelResponse) else None
        return str((said or self.response).text)


def run_layer(
    middleware: Middleware,
    request: Any = None,
    handler: Any = DONE,
    *,
    call: str | None = None,
    state: Any = None,
    context: Any = None,
    store: BaseStore | None = None,
    config: Mapping[str, Any] | None = None,
    resume: Sequence[Any] = (),
) -> LayerRun:
    """Run one layer of a middleware around a call, as a synchronous run of an agent would.

    Args:
        middleware: The middleware.
        request: For a model's call a ModelRequest or messages in any form; for a tool's call a
            ToolCallRequest or a dict with `name` and `args`. What is missing is made.
        handler: What the call inward gives: an answer, a list of answers (one for each time it is
            asked; an exception is raised), or a function of the request.
        call: "model" or "tool", where the middleware has a layer around both.
        state: The state; default: the messages of the request.
        context: `runtime.context`.
        store: `runtime.store`.
        config: A RunnableConfig.
        resume: Answers to interrupts, in order.

    Raises:
        ArgumentError: It has no such layer, or the request is none.
        GraphInterrupt: Something interrupts, and `resume` holds no answer.
        ScriptError: It asked inward more often than there are answers.
        TurnError: It returned what an agent refuses, or has no synchronous function.

    >>> from agent_factory import wrap_model_call
    >>> @wrap_model_call
    ... def twice(request):
    ...     yield request
    ...     return (yield request)
    >>> run = run_layer(twice, "Hello", ["One.", "Two."])
    >>> run.text, len(run.asked)
    ('Two.', 2)
    """
    trial = _Trial(middleware, request, handler, call, state)
    return trial.finish(Bench(context, store, config, resume).run(trial.func))


async def arun_layer(
    middleware: Middleware,
    request: Any = None,
    handler: Any = DONE,
    *,
    call: str | None = None,
    state: Any = None,
    context: Any = None,
    store: BaseStore | None = None,
    config: Mapping[str, Any] | None = None,
    resume: Sequence[Any] = (),
) -> LayerRun:
    """As `run_layer`, as an asynchronous run of an agent would.

    A function that is given as `handler` may be a coroutine function.
    """
    trial = _Trial(middleware, request, handler, call, state)
    return trial.finish(await Bench(context, store, config, resume).arun(trial.afunc))


class _Trial:
    """A layer, its request, and the call inward."""

    def __init__(
        self, middleware: Middleware, request: Any, handler: Any, call: str | None, state: Any
    ) -> None:
        self._bound = _layer(usable_middleware(middleware), call)
        self._request = request
        self._state = state
        self._inside = _Inside(handler, self._bound.definition.call)

    def func(self) -> Any:
        return self._compose(self._bound.func, self._inside, asynchronous=False)

    async def afunc(self) -> Any:
        return await self._compose(self._bound.afunc, self._inside.afunc, asynchronous=True)

    def finish(self, result: Any) -> LayerRun:
        if isinstance(result, Outcome):
            return LayerRun(result.response, self._inside.asked, result.commands)
        return LayerRun(result, self._inside.asked)

    def _compose(self, layer: Any, inside: Callable[[Any], Any], *, asynchronous: bool) -> Any:
        fact = self._bound.definition
        if layer is None:
            raise PathNotSupported(*sync_async_error(self._bound, asynchronous=asynchronous))
        named = [(f"{fact.owner}.{fact.method}", layer)]
        if fact.call is Call.MODEL:
            request = _model_request(self._request, self._state)
            return compose_model_call(named, inside)(request)
        return compose_tool_call(named, inside)(_tool_request(self._request, self._state))


def _layer(middleware: Middleware, call: str | None) -> Bound[Layer]:
    found = {bound.definition.call.value: bound for bound in layers_of(middleware)}
    if call in found:
        return found[call]
    if call is None and len(found) == 1:
        return next(iter(found.values()))
    calls = ", ".join(f"call={name!r}" for name in found)
    if call is None and found:
        raise ArgumentError(middleware.name, "has several layers.", f"Say which: {calls}.")
    if call is not None and call not in list(Call):
        raise ArgumentError("call", f"{describe(call)} is no call.", "Say 'model' or 'tool'.")
    reason = f"has no layer around {call or 'any'} calls."
    raise ArgumentError(middleware.name, reason, f"It has {calls or 'none; a hook: run_hook'}.")


class _Inside:
    """The call inward, answered as the test says."""

    def __init__(self, handler: Any, call: Call) -> None:
        self.asked: list[Any] = []
        self._call = call
        self._once = not isinstance(handler, list)
        self._answers: Iterator[Any] = iter([handler] if self._once else handler)
        self._constant = handler

    def __call__(self, request: Any) -> Any:
        self.asked.append(request)
        answer = self._constant if self._once else self._next()
        if callable(answer) and not isinstance(answer, type):
            answer = answer(request)
        return then(answer, lambda value: self._as_response(value, request))

    async def afunc(self, request: Any) -> Any:
        result = self(request)
        return await result if isawaitable(result) else result

    def _next(self) -> Any:
        try:
            return next(self._answers)
        except StopIteration:
            number = len(self.asked)
            raise ScriptError(f"request {number} inward has no answer in handler.") from None

    def _as_response(self, answer: Any, request: Any) -> Any:
        if self._call is Call.MODEL:
            return Outcome(_model_response(answer, request, len(self.asked)))
        return _tool_response(answer, request)


def _model_response(answer: Any, request: ModelRequest[Any], number: int) -> ModelResponse[Any]:
    if isinstance(answer, ModelResponse):
        return answer
    names = [getattr(tool, "name", "") for tool in request.tools]
    return ModelResponse([as_said(answer, list(request.messages), names, number).whole()])


def _tool_response(answer: Any, request: ToolCallRequest) -> Any:
    if isinstance(answer, BaseException):
        raise answer
    if isinstance(answer, ToolMessage | Command | list):
        return answer
    call = request.tool_call
    return ToolMessage(str(answer), tool_call_id=call["id"], name=call["name"])


def _model_request(request: Any, state: Any) -> ModelRequest[Any]:
    runtime = get_runtime()
    if isinstance(request, ModelRequest):
        return request if request.runtime else request.override(runtime=runtime)
    if isinstance(request, ToolCallRequest) or (
        isinstance(request, Mapping) and "messages" not in request
    ):
        raise ArgumentError(
            "request", f"{describe(request)} is no request to a model.", "Give messages."
        )
    given = as_state(request if state is None else state)
    alike = state is None or request is None
    messages = given["messages"] if alike else as_state(request)["messages"]
    return ModelRequest(
        model=ScriptedChatModel(),
        messages=messages,
        state=given,  # type: ignore[arg-type]  # as_state gives what AgentState asks for
        runtime=runtime,
    )


def _tool_request(request: Any, state: Any) -> ToolCallRequest:
    if isinstance(request, ToolCallRequest) and request.runtime is not None:
        return request
    tool = request.tool if isinstance(request, ToolCallRequest) else None
    call = request.tool_call if isinstance(request, ToolCallRequest) else request
    if call is not None and not (isinstance(call, Mapping) and "name" in call):
        raise ArgumentError(
            "request", f"{describe(call)} is no tool call.", "Give {'name': ..., 'args': {...}}."
        )
    made = made_call({"id": "call_1", **(call or {"name": "tool"})})
    given = as_state(state if state is not None else [AIMessage("", tool_calls=[made])])
    return ToolCallRequest(
        tool_call=made, tool=tool, state=given, runtime=_tool_runtime(given, made["id"])
    )


def _tool_runtime(state: Any, call_id: str | None) -> ToolRuntime[Any, Any]:
    runtime = get_runtime()
    return ToolRuntime(
        state=state,
        context=runtime.context,
        config=get_config(),
        stream_writer=runtime.stream_writer,
        tool_call_id=call_id,
        store=runtime.store,
        execution_info=runtime.execution_info,
    )
