"""Fold layers around a call. The fold takes the colour of what it is given; it never says async."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple

from langchain_core.messages import AIMessage, ToolMessage
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from agent_factory.decisions.recorder import Recorder
from agent_factory.errors import BadReturn, CommandNotSupported, PathNotSupported, describe
from agent_factory.hooks.flows import (
    EFFECTS,
    Flow,
    FlowLayer,
    close,
    is_signal,
    then,
    throw_everything,
)
from agent_factory.hooks.introspection import Bound, sync_async_error
from agent_factory.runtime.tracing import LayerSpan, policy_of, select_traced
from agent_factory.topology.model import Layer
from agent_factory.types import ExtendedModelResponse, ModelRequest, ModelResponse

LayerCall = Callable[[Any, Callable[[Any], Any]], Any]
Named = tuple[str, LayerCall]
"""A layer with the name an error should give it."""


class Outcome(NamedTuple):
    """A response with the commands of the layers it came through, innermost first."""

    response: ModelResponse[Any]
    commands: tuple[Command[Any], ...] = ()


ModelCall = Callable[[ModelRequest[Any]], Any]
"""A request becomes an Outcome, or an awaitable of one."""


class _Flows(ABC):
    """Adjacent flows as one: a loop in the place of a driver in a driver.

    A layer that has nothing to do is resumed twice and looked at once, which is most of what it
    costs a call.

    Args:
        layers: The flows, outermost first.
        inner: What lies inside of them.
    """

    kind: ClassVar[type[Any]]
    told: ClassVar[attrgetter[Any] | None] = None
    """What a flow is told of what came back to it; None tells it all."""

    def __init__(self, layers: Sequence[tuple[str, Any]], inner: Callable[..., Any]) -> None:
        self._names = [name for name, _ in layers]
        self._flows = [driven.flow for _, driven in layers]
        self._drive = layers[0][1].drive
        self._inner = inner

    def _steps(self, request: Any) -> Flow[Any]:
        """The flow that they are: it yields what goes further in, and the effects of all."""
        under_way: list[Flow[Any]] = [self._flows[0](request)]
        came: list[Any] = [None] * len(self._flows)  # what last came back to each of them
        at, innermost = 0, len(self._flows) - 1
        resume: Callable[[Any], Any] = under_way[0].send
        told, value = self.told, None
        while True:
            try:
                said, ends = resume(value), False
            except StopIteration as stop:
                said, ends = stop.value, True
            except BaseException as error:
                del under_way[at]
                at -= 1
                resume, value = _thrown_into(under_way, error), error
                continue
            try:
                if ends:
                    del under_way[at]
                    at -= 1
                    outcome = self._outcome(self._names[at + 1], said, came[at + 1])
                    if at < 0:
                        return outcome
                    came[at], value = outcome, told(outcome) if told else outcome
                elif not isinstance(said, self.kind):
                    if not isinstance(said, EFFECTS):
                        raise self._refusal(self._names[at], said)
                    value = yield said
                elif at < innermost:
                    under_way.append(self._flows[at + 1](said))
                    at += 1
                    came[at] = value = None
                else:
                    came[at] = outcome = yield said
                    value = told(outcome) if told else outcome
                resume = under_way[at].send
            except BaseException as error:
                resume, value = _thrown_into(under_way, error), error

    @abstractmethod
    def _outcome(self, name: str, result: Any, came: Any) -> Any:
        """What a layer makes of a call: of what it returned, and of what last came back to it."""

    @staticmethod
    @abstractmethod
    def _refusal(name: str, request: Any) -> BadReturn:
        """Why something cannot be passed inward."""


def _thrown_into(flows: Sequence[Flow[Any]], error: BaseException) -> Callable[[Any], Any]:
    """How the innermost of the flows that are under way hears of an error, if any may."""
    if not flows:
        raise error
    if is_signal(error):
        for flow in reversed(flows):
            close(flow, error)
        raise error
    return flows[-1].throw


def _folded(
    layers: Sequence[Named],
    innermost: Callable[..., Any],
    flows: Callable[[Sequence[Named], Any], Any],
    lone: Callable[[str, LayerCall, Any], Any],
) -> Any:
    inner = innermost
    for are_flows, group in groupby(
        reversed(layers), lambda named: isinstance(named[1], FlowLayer)
    ):
        members = list(group)
        if are_flows:
            inner = flows(members[::-1], inner)
            continue
        for name, layer in members:
            inner = lone(name, layer, inner)
    return inner


class _Handler:
    """What a layer is given to call inward. It keeps the commands of the last call that returned.

    Only of that one: a layer that retries must not apply the commands of its failed attempts.
    """

    __slots__ = ("_inner", "commands")

    def __init__(self, inner: ModelCall) -> None:
        self._inner = inner
        self.commands: tuple[Command[Any], ...] = ()

    def __call__(self, request: ModelRequest[Any]) -> Any:
        return then(self.ask(request), self.keep)

    def ask(self, request: ModelRequest[Any]) -> Any:
        """Call inward."""
        if not isinstance(request, ModelRequest):
            raise _no_model_request("a wrap_model_call layer", request)
        return self._inner(request)

    def keep(self, outcome: Outcome) -> ModelResponse[Any]:
        """Note what came back; what the layer is told of it."""
        self.commands = outcome.commands
        return outcome.response


def _no_model_request(name: str, given: Any) -> BadReturn:
    return BadReturn(
        name,
        f"called its handler with {describe(given)}.",
        "Pass the ModelRequest on, or request.override(...).",
    )


@dataclass(frozen=True, slots=True)
class _ModelLayer:
    """One layer with all that lies inside it."""

    name: str
    layer: LayerCall
    inner: ModelCall

    def __call__(self, request: ModelRequest[Any]) -> Any:
        handler = _Handler(self.inner)
        return then(self.layer(request, handler), partial(self._finish, handler))

    def _finish(self, handler: _Handler, result: Any) -> Outcome:
        return _outcome(self.name, result, handler.commands)


class _ModelFlows(_Flows):
    kind = ModelRequest
    told = attrgetter("response")

    def __call__(self, request: ModelRequest[Any]) -> Any:
        return self._drive(self._steps(request), self._inner, throw_everything)

    def _outcome(self, name: str, result: Any, came: Outcome | None) -> Outcome:
        if came is None:
            return _outcome(name, result, ())
        if result is came.response and type(result.result) is list:
            return came  # as nearly always
        return _outcome(name, result, came.commands)

    @staticmethod
    def _refusal(name: str, request: Any) -> BadReturn:
        return _no_model_request(name, request)


def _outcome(name: str, result: Any, commands: tuple[Command[Any], ...]) -> Outcome:
    """What a layer returned, with the commands of the layers inside and its own."""
    if isinstance(result, ExtendedModelResponse):
        response = _response(name, result.model_response)
        return Outcome(response, (*commands, *_commands(name, result.command)))
    return Outcome(_response(name, result), commands)


def _response(name: str, result: Any) -> ModelResponse[Any]:
    if isinstance(result, ModelResponse) and isinstance(result.result, list):
        return result
    if isinstance(result, AIMessage):
        return ModelResponse(result=[result])
    raise BadReturn(
        name,
        f"returned {describe(result)} from its model layer.",
        "Return what the handler gave, an AIMessage, a ModelResponse with a list of messages, "
        "or an ExtendedModelResponse around one.",
    )


def _commands(name: str, command: Command[Any] | None) -> tuple[Command[Any], ...]:
    if command is None:
        return ()
    if not isinstance(command, Command):
        raise BadReturn(
            name,
            f"returned {describe(command)} as a command.",
            "Give a Command(update={...}).",
        )
    for field in ("goto", "resume", "graph"):
        if getattr(command, field) not in (None, ()):
            raise CommandNotSupported(
                name,
                f"returned a Command with {field} from a model layer.",
                "Only update is applied there; jump from a node hook instead.",
            )
    return (command,)


def compose_model_call(layers: Sequence[Named], innermost: ModelCall) -> ModelCall:
    """One call out of many layers; the first is the outermost.

    Args:
        layers: Each layer with the name an error should give it.
        innermost: The call of the model itself.
    """
    call: ModelCall = _folded(layers, innermost, _ModelFlows, _ModelLayer)
    return call


@dataclass(frozen=True, slots=True)
class _ToolLayer:
    name: str
    layer: LayerCall
    inner: LayerCall

    def __call__(self, request: Any, execute: Callable[[Any], Any]) -> Any:
        inward = partial(self._inward, execute)
        return then(self.layer(request, inward), partial(_checked, self.name))

    def _inward(self, execute: Callable[[Any], Any], request: Any) -> Any:
        if not isinstance(request, ToolCallRequest):
            raise _no_tool_request(self.name, request)
        return self.inner(request, execute)


class _ToolFlows(_Flows):
    kind = ToolCallRequest

    def __call__(self, request: Any, execute: Callable[[Any], Any]) -> Any:
        inner = execute if self._inner is _execute else partial(self._inward, execute)
        return self._drive(self._steps(request), inner, throw_everything)

    def _inward(self, execute: Callable[[Any], Any], request: Any) -> Any:
        return self._inner(request, execute)

    def _outcome(self, name: str, result: Any, came: Any) -> Any:
        return result if isinstance(result, ToolMessage) else _checked(name, result)

    @staticmethod
    def _refusal(name: str, request: Any) -> BadReturn:
        return _no_tool_request(name, request)


def _no_tool_request(name: str, given: Any) -> BadReturn:
    return BadReturn(
        name,
        f"called inward with {describe(given)}.",
        "Pass the ToolCallRequest on, or request.override(...).",
    )


_ANSWERS = (ToolMessage, Command)


def _checked(name: str, result: Any) -> Any:
    if isinstance(result, ToolMessage):
        return result
    parts = result if isinstance(result, list) and result else [result]
    if not all(isinstance(part, _ANSWERS) for part in parts):
        raise BadReturn(
            name,
            f"returned {describe(result)}, so the call would stay unanswered.",
            "Return what the handler gave, a ToolMessage or a Command.",
        )
    return result


def compose_tool_call(layers: Sequence[Named]) -> LayerCall:
    """One wrapper out of many tool layers, the first outermost."""
    call: LayerCall = _folded(layers, _execute, _ToolFlows, _ToolLayer)
    return call


def _execute(request: Any, execute: Callable[[Any], Any]) -> Any:
    return execute(request)


def first_without_mode(
    layers: Collection[Bound[Layer]], *, asynchronous: bool
) -> Bound[Layer] | None:
    """The first layer that lacks a colour."""
    for bound in layers:
        if (bound.afunc if asynchronous else bound.func) is None:
            return bound
    return None


def raise_unsupported(bound: Bound[Layer], *_: Any, asynchronous: bool) -> Any:
    """Stand in for a call that a layer has no colour for.

    Raises:
        PathNotSupported: Always.
    """
    raise PathNotSupported(*sync_async_error(bound, asynchronous=asynchronous))


def compose_layers(
    layers: Collection[Bound[Layer]],
    asynchronous: bool,
    recorder: Recorder,
    compose: Callable[[list[tuple[str, Callable[..., Any]]]], Callable[..., Any]],
) -> Callable[..., Any]:
    """All layers as one call: spans where a tracer listens, recorded where one watches.

    Args:
        layers: The layers; each has the colour.
        asynchronous: The colour.
        recorder: Records what they decide.
        compose: Makes one call of the layers, each with the name an error should give it.
    """
    named: list[tuple[str, Callable[..., Any]]] = []
    spans: list[tuple[str, Callable[..., Any]]] = []
    for bound in layers:
        method = bound.afunc if asynchronous else bound.func
        assert method is not None  # `lacking` was asked before
        method = recorder.layer(bound.definition, method)
        name = f"{bound.definition.owner}.{bound.definition.method}"
        named.append((name, method))
        spans.append((name, LayerSpan(name, policy_of(bound.owner), method)))
    return select_traced(compose(named), compose(spans)) if layers else compose([])
