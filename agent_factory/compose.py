"""Fold layers around a call. The fold takes the colour of what it is given; it never says async."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, ToolMessage
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from agent_factory.effects import Driven, then
from agent_factory.errors import BadReturn, CommandNotSupported, describe
from agent_factory.types import ExtendedModelResponse, ModelRequest, ModelResponse

LayerCall = Callable[[Any, Callable[[Any], Any]], Any]


class Outcome(NamedTuple):
    """A response with the commands of the layers it came through, innermost first."""

    response: ModelResponse[Any]
    commands: tuple[Command[Any], ...] = ()


ModelCall = Callable[[ModelRequest[Any]], Any]
"""A request becomes an Outcome, or an awaitable of one."""


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
            raise BadReturn(
                "a wrap_model_call layer",
                f"called its handler with {describe(request)}.",
                "Pass the ModelRequest on, or request.override(...).",
            )
        return self._inner(request)

    def keep(self, outcome: Outcome) -> ModelResponse[Any]:
        """Note what came back; what the layer is told of it."""
        self.commands = outcome.commands
        return outcome.response


@dataclass(frozen=True, slots=True)
class _ModelLayer:
    """One layer with all that lies inside it."""

    name: str
    layer: LayerCall
    inner: ModelCall

    def __call__(self, request: ModelRequest[Any]) -> Any:
        handler = _Handler(self.inner)
        finish = partial(self._finish, handler)
        if isinstance(self.layer, Driven):
            # Most layers are flows: their driver does what `then` would do around each call.
            return self.layer.drive(self.layer.flow(request), handler.ask, handler.keep, finish)
        return then(self.layer(request, handler), finish)

    def _finish(self, handler: _Handler, result: Any) -> Outcome:
        if type(result) is ModelResponse and type(result.result) is list:
            return Outcome(result, handler.commands)  # as nearly always
        if isinstance(result, ExtendedModelResponse):
            return Outcome(
                self._response(result.model_response),
                (*handler.commands, *self._commands(result.command)),
            )
        return Outcome(self._response(result), handler.commands)

    def _response(self, result: Any) -> ModelResponse[Any]:
        if isinstance(result, ModelResponse) and isinstance(result.result, list):
            return result
        if isinstance(result, AIMessage):
            return ModelResponse(result=[result])
        raise BadReturn(
            self.name,
            f"returned {describe(result)} from its model layer.",
            "Return what the handler gave, an AIMessage, a ModelResponse with a list of messages, "
            "or an ExtendedModelResponse around one.",
        )

    def _commands(self, command: Command[Any] | None) -> tuple[Command[Any], ...]:
        if command is None:
            return ()
        if not isinstance(command, Command):
            raise BadReturn(
                self.name,
                f"returned {describe(command)} as a command.",
                "Give a Command(update={...}).",
            )
        for field in ("goto", "resume", "graph"):
            if getattr(command, field) not in (None, ()):
                raise CommandNotSupported(
                    self.name,
                    f"returned a Command with {field} from a model layer.",
                    "Only update is applied there; jump from a node hook instead.",
                )
        return (command,)


def compose_model_call(layers: Sequence[tuple[str, LayerCall]], innermost: ModelCall) -> ModelCall:
    """One call out of many layers; the first is the outermost.

    Args:
        layers: Each layer with the name an error should give it.
        innermost: The call of the model itself.
    """
    return reduce(
        lambda inner, named: _ModelLayer(named[0], named[1], inner), reversed(layers), innermost
    )


@dataclass(frozen=True, slots=True)
class _ToolLayer:
    name: str
    layer: LayerCall
    inner: LayerCall

    def __call__(self, request: Any, execute: Callable[[Any], Any]) -> Any:
        inward = partial(self._inward, execute)
        if isinstance(self.layer, Driven):
            return self.layer.drive(self.layer.flow(request), inward, None, self._check)
        return then(self.layer(request, inward), self._check)

    def _inward(self, execute: Callable[[Any], Any], request: Any) -> Any:
        if not isinstance(request, ToolCallRequest):
            raise BadReturn(
                self.name,
                f"called inward with {describe(request)}.",
                "Pass the ToolCallRequest on, or request.override(...).",
            )
        return self.inner(request, execute)

    def _check(self, result: Any) -> Any:
        if isinstance(result, ToolMessage):
            return result
        parts = result if isinstance(result, list) and result else [result]
        if not all(isinstance(part, ToolMessage | Command) for part in parts):
            raise BadReturn(
                self.name,
                f"returned {describe(result)}, so the call would stay unanswered.",
                "Return what the handler gave, a ToolMessage or a Command.",
            )
        return result


def compose_tool_call(layers: Sequence[tuple[str, LayerCall]]) -> LayerCall:
    """One wrapper out of many tool layers, the first outermost."""
    return reduce(
        lambda inner, named: _ToolLayer(named[0], named[1], inner), reversed(layers), _execute
    )


def _execute(request: Any, execute: Callable[[Any], Any]) -> Any:
    return execute(request)
