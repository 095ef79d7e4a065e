"""The call of the model with all layers around it: bind the tools, then ask."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage, BaseMessage
from langchain_core.prompt_values import ChatPromptValue
from langchain_core.runnables.base import RunnableBinding
from langchain_core.tools import BaseTool

from agent_factory.decisions.recorder import DecisionRecorder
from agent_factory.errors import (
    HistoryError,
    ModelCannotCallTools,
    UnknownTool,
)
from agent_factory.runtime.composition import (
    ModelCall,
    Outcome,
    compose_layers,
    compose_model_call,
    first_without_mode,
    raise_unsupported,
    streaming_enabled,
)
from agent_factory.runtime.response_reader import ResponseReader, retry_count
from agent_factory.runtime.spec import AgentSpec
from agent_factory.state.history import no_repair, repair
from agent_factory.structured_output.strategies import (
    ProviderStrategy,
    Strategy,
    ToolStrategy,
    strategy_for,
)
from agent_factory.topology.model import Call
from agent_factory.types import ModelRequest


def model_call(
    spec: AgentSpec, recorder: DecisionRecorder | None = None, *, asynchronous: bool
) -> ModelCall:
    """The model's call with all layers around it, in one colour.

    Where a layer lacks the colour, the call refuses with PathNotSupported.
    """
    layers = spec.layers_around(Call.MODEL)
    if missing := first_without_mode(layers, asynchronous=asynchronous):
        return partial(raise_unsupported, missing, asynchronous=asynchronous)
    ask = AskModel(spec, recorder)
    innermost = ask.ainvoke if asynchronous else ask.invoke
    return compose_layers(
        layers, asynchronous, recorder, lambda named: compose_model_call(named, innermost)
    )


class AskModel:
    """The call inside all layers.

    Args:
        spec: The agent it belongs to.
        watch: Records what is mended, or None.
    """

    def __init__(self, spec: AgentSpec, recorder: DecisionRecorder | None = None) -> None:
        self._reader = ResponseReader(spec)
        # A tool layer may run tools that were unknown when the agent was built.
        known = None if spec.layers_around(Call.TOOL) else frozenset(spec.toolbox.client)
        self._bound = _BoundModels(known)
        # Only layers are silenced, so without any there is nothing to be heard through.
        mend = repair if spec.repairs_history else no_repair
        self._repair = mend if recorder is None else recorder.repairing(mend)
        self._heard = streaming_enabled if spec.layers_around(Call.MODEL) else nullcontext

    def invoke(self, request: ModelRequest[Any]) -> Outcome:
        """Ask in a synchronous run."""
        strategy, model, messages = self._prepare(request)
        with self._heard():
            answer = model.invoke(_prompt(model, messages))
        return Outcome(self._reader.read(strategy, answer, retry_count(request.state)))

    async def ainvoke(self, request: ModelRequest[Any]) -> Outcome:
        """Ask in an asynchronous run."""
        strategy, model, messages = self._prepare(request)
        with self._heard():
            answer = await model.ainvoke(_prompt(model, messages))
        return Outcome(self._reader.read(strategy, answer, retry_count(request.state)))

    def _prepare(self, request: ModelRequest[Any]) -> tuple[Strategy, Any, list[AnyMessage]]:
        strategy = strategy_for(request.response_format, request.model)
        return strategy, self._bound.bind(request, strategy), self._shown(request)

    def _shown(self, request: ModelRequest[Any]) -> list[AnyMessage]:
        """What the model is shown: the system message and a valid history."""
        messages = request.messages
        # The node has seen to the state's own list; a layer's list is looked at here.
        if messages is not request.state.get("messages") and (mended := self._repair(messages)):
            messages = mended.messages
        if request.system_message is not None:
            return [request.system_message, *messages]
        if not messages:
            raise HistoryError(
                "messages", "are empty, and there is no system prompt.", "Pass a message in."
            )
        return messages


@dataclass(frozen=True, slots=True)
class _Binding:
    """A bound model, with the objects whose identity its key stands for."""

    model: Any
    held: tuple[Any, ...]


class _BoundModels:
    """Models bound to tools, so that a tool set is looked at once and not at every call.

    Args:
        known: The names of the tools that can run; None where a layer may run others.
    """

    SIZE = 16
    """How many are remembered: enough for a few models and tool sets that take turns."""

    def __init__(self, known: Collection[str] | None) -> None:
        self._known = known
        self._bindings: OrderedDict[Any, _Binding] = OrderedDict()

    def bind(self, request: ModelRequest[Any], strategy: Strategy) -> Any:
        """The request's model with its tools, tool choice, strategy and settings."""
        if request.model_settings or not isinstance(request.tool_choice, str | None):
            return self._bind(request, strategy)
        objects = (request.model, strategy, *request.tools)
        key = (request.tool_choice, *map(id, objects))
        found = self._bindings.get(key)
        if found is None:
            found = self._bindings[key] = _Binding(self._bind(request, strategy), objects)
            if len(self._bindings) > self.SIZE:
                self._bindings.popitem(last=False)
        return found.model

    def _bind(self, request: ModelRequest[Any], strategy: Strategy) -> Any:
        if self._known is not None:
            _refuse_unknown(request, self._known)
        return _bind(request, strategy)


def _refuse_unknown(request: ModelRequest[Any], known: Collection[str]) -> None:
    for tool in request.tools:
        if isinstance(tool, dict):
            continue  # the provider runs it
        name = tool.name if isinstance(tool, BaseTool) else getattr(tool, "__name__", "")
        if name not in known:
            raise UnknownTool(
                name,
                "is offered to the model, and nothing in this agent can run it.",
                "Give it to create_agent, or run it in a wrap_tool_call layer.",
            )


def _bind(request: ModelRequest[Any], strategy: Strategy) -> Any:
    model = request.model
    tools: list[Any] = list(request.tools)
    settings = dict(request.model_settings)
    if isinstance(strategy, ToolStrategy):
        tools += [binding.tool for binding in strategy.bindings.values()]
    elif isinstance(strategy, ProviderStrategy):
        settings = {**strategy.to_model_kwargs(), **settings}
    if not tools:
        return model.bind(**settings) if settings else model
    if request.tool_choice is not None:
        settings["tool_choice"] = request.tool_choice
    try:
        if not hasattr(model, "bind_tools"):
            raise NotImplementedError
        return _with_tools(model, tools, settings)
    except NotImplementedError as error:
        raise ModelCannotCallTools(
            type(model).__name__,
            "cannot be told of tools: it has no bind_tools.",
            "Use a chat model that supports tool calling, or an agent without tools.",
        ) from error


def _with_tools(model: Any, tools: list[Any], settings: dict[str, Any]) -> Any:
    if not isinstance(model, RunnableBinding):
        return model.bind_tools(tools, **settings)
    # The bind_tools of a bound model is that of the model inside, and would lose what was bound.
    bound = _with_tools(model.bound, tools, {**model.kwargs, **settings})
    return RunnableBinding(
        bound=bound, config=model.config, config_factories=model.config_factories
    )


def _prompt(model: Any, messages: list[AnyMessage]) -> Any:
    """The messages in the form that a chat model takes as they are.

    A list it would convert and check message by message, which a history's length makes dear.
    """
    inner = model
    while isinstance(inner, RunnableBinding):
        inner = inner.bound
    kind = type(inner)
    plain = isinstance(inner, BaseChatModel) and (kind.invoke, kind.ainvoke) == _OWN_CALLS
    if not plain or not all(issubclass(kind, BaseMessage) for kind in set(map(type, messages))):
        return messages
    return ChatPromptValue.model_construct(messages=messages)


_OWN_CALLS = (BaseChatModel.invoke, BaseChatModel.ainvoke)
