"""Compose layers into one call, with trace spans for each layer and streaming inside the last one.

The composed call is sync or async, as its layers and the innermost call are; nothing here is
written twice. Node hooks need no spans here: LangGraph traces nodes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar, Token
from copy import copy
from dataclasses import dataclass
from functools import partial
from inspect import iscoroutine
from operator import attrgetter
from types import GeneratorType
from typing import Any, ClassVar, Literal, NamedTuple, cast

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import get_callback_manager_for_config, patch_config
from langchain_core.tracers.base import BaseTracer
from langgraph.constants import TAG_NOSTREAM
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from agent_factory.decisions.recorder import Recorder, setting
from agent_factory.errors import BadReturn, CommandNotSupported, PathNotSupported, describe
from agent_factory.hooks.base import Middleware
from agent_factory.hooks.flows import (
    EFFECTS,
    MAX_REFUSALS,
    Flow,
    FlowLayer,
    Inward,
    Together,
    close,
    is_awaitable,
    is_signal,
    then,
)
from agent_factory.hooks.introspection import Bound, sync_async_error
from agent_factory.hooks.trace_policy import recorded
from agent_factory.runtime.watching import observes_nodes
from agent_factory.structured_output.strategies import Strategy
from agent_factory.tools.results import LAYER_HINT, bad_request, check_results, named_by_tool
from agent_factory.topology.model import Layer
from agent_factory.types import ExtendedModelResponse, ModelRequest, ModelResponse
from agent_factory.upstream import current_config, streams_events

Handler = Callable[[Any], Any]
"""Takes a request and returns a response, or an awaitable of one."""

LayerFunction = Callable[[Any, Handler], Any]

NamedLayer = tuple[str, LayerFunction]
"""A layer, and the name of the layer in errors."""


# Streaming


def without_streaming(config: RunnableConfig | None) -> RunnableConfig:
    """Return a config whose models do not stream tokens to the caller of the agent."""
    config = config or {}
    tags = config.get("tags") or []
    if TAG_NOSTREAM in tags:
        return config
    return {**config, "tags": [*tags, TAG_NOSTREAM]}


def unnamed(config: RunnableConfig) -> RunnableConfig:
    """Return a config for the calls of a node, without the name of the node."""
    anonymous = config.copy()
    # The calls of a node would inherit both, and two runs of a tracer would have one id.
    anonymous.pop("run_name", None)
    anonymous.pop("run_id", None)
    return anonymous


def disable_streaming(config: RunnableConfig | None) -> None:
    """Disable token streaming of models for the rest of this context."""
    current_config.set(without_streaming(config))


# Not with @contextmanager, which takes two and a half times as long, and this runs for each call.
class streaming_enabled:
    """Context manager that enables token streaming again, for the agent's own model and tools."""

    __slots__ = ("_token",)
    _token: Token[RunnableConfig | None] | None

    def __enter__(self) -> None:
        config = current_config.get()
        # A layer may call its handler in a thread without context, where nothing was disabled.
        self._token = None
        if config is not None:
            tags = list(filter(TAG_NOSTREAM.__ne__, config.get("tags") or ()))
            self._token = current_config.set({**config, "tags": tags})

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            current_config.reset(self._token)


async def _await_in(scope: AbstractContextManager[None], result: Awaitable[object]) -> object:
    with scope:
        return await result


def call_with_streaming(call: Handler, value: object) -> object:
    """Call a sync or async function with token streaming enabled."""
    with streaming_enabled():
        result = call(value)
    return _await_in(streaming_enabled(), result) if is_awaitable(result) else result


def call_without_streaming(call: Handler, value: object) -> object:
    """Call a sync or async function whose models do not stream to the caller of the agent."""
    config = without_streaming(current_config.get())
    with setting(current_config, config):
        result = call(value)
    return _await_in(setting(current_config, config), result) if is_awaitable(result) else result


# Tracing


def _tracers(config: RunnableConfig | None) -> list[BaseCallbackHandler]:
    """Return the handlers that see layers: tracers, and handlers that set `traces_layers`."""
    callbacks = config.get("callbacks") if config else None
    if not (handlers := getattr(callbacks, "handlers", ())):
        return []
    tracers = [
        h for h in handlers if isinstance(h, BaseTracer) or getattr(h, "traces_layers", False)
    ]
    # A call inside of a layer names the layer as its parent to every handler.
    others = [h for h in handlers if h not in tracers and not streams_events(h)] if tracers else []
    if any(map(observes_nodes, others)):
        return []
    # The handler of `astream_events` in version "v1" copies values, and a model may hold a lock.
    return [tracer for tracer in tracers if not streams_events(tracer)]


@dataclass(frozen=True, slots=True)
class LayerSpan:
    """A layer that runs in a separate span if a tracer is attached."""

    name: str
    owner: Middleware
    layer: LayerFunction

    def __call__(self, request: object, handler: Handler) -> object:
        config = current_config.get()
        if config is None or not (tracers := _tracers(config)):
            # For example in a thread that the layer around has started.
            return self.layer(request, handler)
        # Streaming is disabled for the layer, not for the runs inside.
        tags = list(filter(TAG_NOSTREAM.__ne__, config.get("tags") or ()))
        manager = copy(get_callback_manager_for_config({**config, "tags": tags}))
        # Only tracers see spans of layers; all callback handlers see nodes and models.
        manager.handlers = tracers
        span = manager.on_chain_start(
            cast("Any", None), self._recorded("process_inputs", request), name=self.name
        )

        def finish(result: object) -> object:
            span.on_chain_end(self._recorded("process_outputs", result))
            return result

        def fail(error: BaseException) -> object:
            span.on_chain_error(error)
            raise error

        inner = patch_config(config, callbacks=span.get_child())
        try:
            with setting(current_config, inner):
                result = self.layer(request, handler)
        except BaseException as error:
            span.on_chain_error(error)
            raise
        if is_awaitable(result):
            result = _await_in(setting(current_config, inner), result)
        return then(result, finish, fail)

    def _recorded(
        self, side: Literal["process_inputs", "process_outputs"], value: object
    ) -> dict[str, Any]:
        payload = recorded(self.owner, side, value)
        return payload if isinstance(payload, dict) else {"value": payload}


# Composition

calling_layer: ContextVar[str] = ContextVar("calling_layer", default="")
"""The layer whose flow calls a model or another runnable: `Middleware.around_model`."""


class _Flows(ABC):
    """Adjacent flows as one layer: one loop instead of a driver inside a driver.

    A flow that only passes the request on is resumed twice and checked once; drivers would be most
    of the cost.
    """

    kind: ClassVar[type[object]]
    """Type of the request with which a flow calls inward."""

    visible: ClassVar[attrgetter[Any] | None] = None
    """Reads the value to resume a flow with from an outcome; None resumes with the outcome."""

    def __init__(self, layers: Sequence[tuple[str, Any]], inner: Handler) -> None:
        self._names = [name for name, _ in layers]
        self._flows = [layer.flow for _, layer in layers]
        self._drive = layers[0][1].drive
        self._inner = inner

    def __call__(self, request: object) -> object:
        return self._drive(self.steps(request), self._inner, throw_signals=True)

    def steps(self, request: Any) -> Flow[Any]:
        """Yield the requests of the innermost flow, and the effects of all flows."""
        flows, kind, visible = self._flows, self.kind, self.visible
        # A wrap around the flows may have put another tool into the request.
        if kind is ToolCallRequest:
            tool = request.tool
            if tool is not None and tool.name != request.tool_call["name"]:
                request = self.passed_on(request)
        running: list[Flow[Any]] = [flows[0](request)]
        requests: list[Any] = [request] * len(flows)
        last_outcomes: list[Any] = [None] * len(flows)
        at, innermost, refusals = 0, len(flows) - 1, 0
        advance: Callable[[Any], object] = running[0].send
        value: Any = None
        while True:
            try:
                output, is_done = advance(value), False
            except StopIteration as stop:
                output, is_done = stop.value, True
            except BaseException as error:
                # A generator that raised is finished: the error goes to the flow around.
                del running[at]
                at -= 1
                advance, value = _throw_into(running, error), error
                continue
            try:
                if is_done:
                    running.pop()
                    at -= 1
                    last = last_outcomes[at + 1]
                    outcome = self.outcome(self._names[at + 1], requests[at + 1], output, last)
                    if at < 0:
                        return outcome
                    last_outcomes[at], value = outcome, visible(outcome) if visible else outcome
                elif isinstance(output, Together):
                    value = yield self._inward(output, at)
                    if (place := output.request) is not None:
                        last_outcomes[at] = outcome = value[place]
                        shown = visible(outcome) if visible else outcome
                        value = (*value[:place], shown, *value[place + 1 :])
                elif not isinstance(output, kind):
                    if not isinstance(output, EFFECTS):
                        raise bad_request(self._names[at], output, self.kind)
                    with setting(calling_layer, self._names[at]):
                        value = yield output
                else:
                    if output is not requests[at]:
                        output = self.passed_on(output)
                    if at < innermost:
                        # A new generator for each call inward: a flow may call several times.
                        running.append(flows[at + 1](output))
                        at += 1
                        requests[at] = output
                        last_outcomes[at] = value = None
                    else:
                        last_outcomes[at] = outcome = yield output
                        value = visible(outcome) if visible else outcome
                advance = running[at].send
            except BaseException as error:
                refusals += isinstance(error, BadReturn)
                advance, value = _throw_into(running, error, refusals > MAX_REFUSALS), error

    def _inward(self, together: Together, at: int) -> Together:
        """Return the parts of a `Together`, the request as a flow of the layers further in."""
        name, parts = self._names[at], [*together.parts]

        def own(part: Any) -> Flow[Any]:
            # A service counts model calls of a layer as use of that layer. The call of the inner
            # layer is in another part, and not counted here.
            with setting(calling_layer, name):
                return (yield from part) if isinstance(part, GeneratorType) else (yield part)

        for place, part in enumerate(parts):
            if place != together.request:
                parts[place] = own(part)
            elif not isinstance(part, self.kind):
                raise bad_request(name, part, self.kind)
            else:
                part = self.passed_on(part)
            if place == together.request and at + 1 < len(self._flows):
                # The same loop with fewer flows: this part runs in a thread or a task without
                # access to the loop of the flows around.
                inside = copy(self)
                inside._names, inside._flows = self._names[at + 1 :], self._flows[at + 1 :]
                parts[place] = Inward(inside.steps(part))
        return Together(*parts)

    def passed_on(self, request: Any) -> Any:
        """Return the next request, from the request that a flow has changed."""
        return request

    @abstractmethod
    def outcome(self, name: str, request: object, result: object, last: Any) -> Any:
        """Return the outcome of a flow, from its result and from the last outcome it was given."""


def _throw_into(
    running: Sequence[Flow[Any]], error: BaseException, is_last: bool = False
) -> Callable[[Any], object]:
    """Return `throw` of the innermost flow.

    Control flow, and an error that is the last outcome, closes all flows and is raised.
    """
    if not running:
        raise error
    if is_last or is_signal(error):
        # The innermost first, as `finally` clauses run when a call stack unwinds.
        for flow in reversed(running):
            close(flow, error)
        raise error
    return running[-1].throw


def _fold(
    layers: Sequence[NamedLayer],
    innermost: Handler,
    flows: Callable[[Sequence[NamedLayer], Handler], Handler],
    function: Callable[[NamedLayer, Handler, str], Handler],
) -> Handler:
    """Put layers around a call; the first layer is the outermost.

    `flows` takes adjacent flows, and the call inside. `function` takes another layer, the call
    inside, and the name of the layer around.
    """
    call, end = innermost, len(layers)
    while end:
        start = end - 1
        if isinstance(layers[start][1], FlowLayer):
            while start and isinstance(layers[start - 1][1], FlowLayer):
                start -= 1
            call = flows(layers[start:end], call)
        else:
            call = function(layers[start], call, layers[start - 1][0] if start else "")
        end = start
    return call


# Around model calls


class ModelOutcome(NamedTuple):
    """A model response, and the commands of its layers, innermost first.

    `refusals` answer calls of tools that the request did not offer. A layer may leave refusals out
    of the response, with their calls or alone. `strategy` is the strategy of the request.
    """

    response: ModelResponse
    commands: tuple[Command[Any], ...] = ()
    refusals: tuple[ToolMessage, ...] = ()
    strategy: Strategy = None


ModelCall = Callable[[ModelRequest[Any]], Any]
"""Takes a ModelRequest and returns a ModelOutcome, or an awaitable of one."""


@dataclass(frozen=True, slots=True)
class _ModelLayer:
    """A function layer, and the call inside it."""

    named_layer: NamedLayer
    inner: ModelCall

    def __call__(self, request: ModelRequest[Any]) -> object:
        name, layer = self.named_layer
        # Of the last call that returned: a layer that retries must not apply commands of failed
        # attempts.
        last: ModelOutcome | None = None

        def keep(outcome: ModelOutcome) -> ModelResponse:
            nonlocal last
            last = outcome
            return outcome.response

        def handler(request: ModelRequest[Any]) -> object:
            if not isinstance(request, ModelRequest):
                raise bad_request(name, request, ModelRequest)
            return then(self.inner(request), keep)

        return then(layer(request, handler), lambda result: _outcome_of(name, result, last))


class _ModelFlows(_Flows):
    kind = ModelRequest
    visible = attrgetter("response")

    def outcome(
        self, name: str, request: object, result: object, last: ModelOutcome | None
    ) -> ModelOutcome:
        if last is not None and result is last.response and type(result.result) is list:
            return last  # nearly always
        return _outcome_of(name, result, last)


def _outcome_of(name: str, result: object, last: ModelOutcome | None) -> ModelOutcome:
    """Return the result of a layer, with the outcome of its last call inward, if any."""
    _, commands, refusals, strategy = last or (None, (), (), None)
    response, command = result, None
    if isinstance(result, ExtendedModelResponse):
        response, command = result.model_response, result.command
    # The type is compared first, because the result nearly always is a response.
    if type(response) is not ModelResponse and isinstance(response, AIMessage):
        response = ModelResponse(result=[response])
    if not (isinstance(response, ModelResponse) and isinstance(response.result, list)):
        raise BadReturn(
            name,
            f"must return a model response from its model layer, got {describe(response)}.",
            _return_hint(response)
            or "Return what the handler returned, an AIMessage, a ModelResponse with a list of "
            "messages, or an ExtendedModelResponse around one.",
        )
    if command is None:
        return ModelOutcome(response, commands, refusals, strategy)
    if not isinstance(command, Command):
        raise BadReturn(
            name,
            f"must return a Command in ExtendedModelResponse, got {describe(command)}.",
            "Pass `command=Command(update={...})`.",
        )
    for field in ("goto", "resume", "graph"):
        if getattr(command, field) not in (None, ()):
            raise CommandNotSupported(
                name,
                f"returned a Command with {field} from a model layer.",
                "Only update is applied there; jump from a node hook instead.",
            )
    return ModelOutcome(response, (*commands, command), refusals, strategy)


def _return_hint(result: object) -> str:
    """Return the hint for a layer without `return` or `await`; empty for another layer."""
    if result is None:
        return "End the layer with `return response`, where response is what the handler returned."
    return "Write `return await handler(request)`." if iscoroutine(result) else ""


def compose_model_call(layers: Sequence[NamedLayer], innermost: ModelCall) -> ModelCall:
    """Compose layers around a model call; the first layer is the outermost."""
    return _fold(layers, innermost, _ModelFlows, lambda layer, inner, _: _ModelLayer(layer, inner))


# Around tool calls


@dataclass(frozen=True, slots=True)
class _ToolLayer:
    """A function layer, the call inside, and the name of the layer around.

    The request of the layer around is checked here: a check in the handler would be another frame.
    """

    named_layer: NamedLayer
    inner: Handler
    caller: str

    def __call__(self, request: object) -> object:
        if not isinstance(request, ToolCallRequest):
            raise bad_request(self.caller, request, ToolCallRequest)
        name, layer = self.named_layer
        if request.tool is not None and request.tool.name != request.tool_call["name"]:
            request = named_by_tool(request)
        result = layer(request, self.inner)
        if type(result) is ToolMessage and result.tool_call_id == request.tool_call["id"]:
            return result  # nearly always, in a sync run
        return then(result, partial(_checked_result, name, request))


class _ToolFlows(_Flows):
    kind = ToolCallRequest

    def passed_on(self, request: Any) -> Any:
        return named_by_tool(request)

    def outcome(self, name: str, request: Any, result: Any, last: object) -> object:
        if type(result) is ToolMessage and result.tool_call_id == request.tool_call["id"]:
            return result  # nearly always
        return _checked_result(name, request, result)


def _checked_result(name: str, request: ToolCallRequest, result: object) -> object:
    parts = result if isinstance(result, list) and result else [result]
    if not all(isinstance(part, ToolMessage | Command) for part in parts):
        raise BadReturn(
            name,
            f"must return a result of its tool call, got {describe(result)}: the call would stay "
            "unanswered.",
            _return_hint(result) or "Return what the handler returned, a ToolMessage or a Command.",
        )
    check_results(name, [request.tool_call], parts, request.state, LAYER_HINT)
    return result


def compose_tool_call(layers: Sequence[NamedLayer], execute: Handler) -> Handler:
    """Compose layers around the execution of a tool; the first layer is the outermost.

    The execution enables the streaming of models again, and checks the request of the last layer.
    """
    return _fold(layers, execute, _ToolFlows, _ToolLayer)


# Around both


def first_without_mode(
    layers: Collection[Bound[Layer]], *, asynchronous: bool
) -> Bound[Layer] | None:
    """Return the first layer without an async, or a sync, form; None if there is none."""
    forms = ((bound, bound.afunc if asynchronous else bound.func) for bound in layers)
    return next((bound for bound, form in forms if form is None), None)


def raise_unsupported(bound: Bound[Layer], *_: object, asynchronous: bool) -> object:
    """Stand in for a call with a layer that cannot run in this mode."""
    raise PathNotSupported(*sync_async_error(bound, asynchronous=asynchronous))


@dataclass(frozen=True, slots=True)
class ComposedCall:
    """A call with all its layers, in a version with spans and one without."""

    plain: Handler
    traced: Handler

    def select(self) -> Handler:
        """Return the version for the attached tracers, if any.

        One look serves all layers: a look costs as much as a layer.
        """
        return self.traced if _tracers(current_config.get()) else self.plain

    def __call__(self, request: object) -> object:
        return self.select()(request)


def compose_layers(
    layers: Collection[Bound[Layer]],
    asynchronous: bool,
    recorder: Recorder,
    compose: Callable[[list[NamedLayer]], Handler],
) -> Handler:
    """Compose bound layers, with spans if a tracer is attached."""
    plain: list[NamedLayer] = []
    traced_layers: list[NamedLayer] = []
    for index, bound in enumerate(layers):
        method = bound.afunc if asynchronous else bound.func
        assert method is not None  # see `first_without_mode`
        method = recorder.layer(bound.definition, method, index)
        name = f"{bound.definition.owner}.{bound.definition.method}"
        plain.append((name, method))
        traced_layers.append((name, LayerSpan(name, bound.owner, method)))
    # Without layers there are no spans, and nothing to choose between.
    return ComposedCall(compose(plain), compose(traced_layers)) if layers else compose([])
