"""The models of `create_react_agent`: given with or without their tools, or chosen in a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import Parameter, iscoroutinefunction, signature
from typing import Any, TypeGuard

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable, RunnableBinding, RunnableConfig, RunnableSequence
from langchain_core.runnables.config import run_in_executor
from langchain_core.tools import BaseTool
from langgraph.config import get_config
from langgraph.runtime import get_runtime

from agent_factory.compat.conversion import init_model
from agent_factory.errors import BadReturn, describe
from agent_factory.hooks.flows import CanInvoke, Flow, Invoke
from agent_factory.prebuilt.react_errors import (
    ModelTakesNoTools,
    ReactArgumentError,
    ReactPathNotSupported,
)

_INJECTED: Mapping[str, Callable[[], object]] = {
    "config": get_config,
    "runtime": get_runtime,
    "store": lambda: get_runtime().store,
    "writer": lambda: get_runtime().stream_writer,
}
"""What LangGraph passes to the function of a node, by the names of its parameters."""


class StateFunction:
    """A function of the state, sync or async; parameters may be `runtime`, `store` and the like.

    A returned runnable is invoked with the state, as LangGraph does: core makes a template
    of `SystemMessage(...) + state["messages"]`.
    """

    returns_runnable = False  # a runnable is the result itself
    async_only = (
        'No synchronous function provided to "{name}".\nEither initialize with a '
        "synchronous function or invoke via the async API (ainvoke, astream, etc.)"
    )

    def __init__(self, function: Callable[..., object], name: str) -> None:
        self._function = function
        self._name = name
        call = getattr(function, "__call__", None)  # noqa: B004  # its kind matters, not whether it has one
        self._asynchronous = iscoroutinefunction(function) or iscoroutinefunction(call)
        try:
            (_, *others) = signature(function).parameters.values()
        except (TypeError, ValueError):  # no signature, or no parameter
            others = []
        variable = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
        self._wants = [p.name for p in others if p.name in _INJECTED and p.kind not in variable]

    def invoke(self, input: object, config: RunnableConfig | None = None) -> object:
        """Call the function in a sync run."""
        if self._asynchronous:
            raise ReactPathNotSupported(self._name, self.async_only.format(name=self._name))
        result = self._call(input)()
        return result.invoke(input, config) if self._leads_on(result) else result

    async def ainvoke(self, input: object, config: RunnableConfig | None = None) -> object:
        """Call the function in an async run; a sync function runs in a thread."""
        call = self._call(input)
        result = await (call() if self._asynchronous else run_in_executor(None, call))
        return await result.ainvoke(input, config) if self._leads_on(result) else result

    def _leads_on(self, result: object) -> TypeGuard[Runnable[Any, Any]]:
        return isinstance(result, Runnable) and not self.returns_runnable

    def _call(self, input: object) -> Callable[[], Any]:
        return partial(self._function, input, **{name: _INJECTED[name]() for name in self._wants})


def invocable(value: object, argument: str, name: str) -> CanInvoke:
    """A hook or prompt, a function of the state or a runnable, as something to invoke."""
    if isinstance(value, Runnable):
        return value.with_config(run_name=name)
    if callable(value):
        return StateFunction(value, name)
    raise ReactArgumentError(
        argument,
        f"Got unexpected type for `{argument}`: {type(value)}",
        "Pass a function of the state, or a runnable; as `prompt`, also a string or a "
        "SystemMessage.",
    )


class ChosenModel(StateFunction):
    """A function from the state and the runtime to the model of a call."""

    returns_runnable = True
    async_only = (
        "Async model callable provided but agent invoked synchronously. Use agent.ainvoke() or "
        "agent.astream(), or provide a sync model callable."
    )

    def _call(self, input: Any) -> Callable[[], object]:
        return partial(self._function, *input)


def choose_model(models: ChosenModel, state: object, runtime: object) -> Flow[Runnable[Any, Any]]:
    """Ask the function for the model of a call."""
    model = yield Invoke(models, (state, runtime))
    if isinstance(model, Runnable):
        return model
    raise BadReturn(
        "the function given as model",
        f"must return a chat model, got {describe(model)}.",
        "Bind the tools to the model: `return model.bind_tools(tools)`.",
    )


def read_model(value: object) -> Runnable[Any, Any] | ChosenModel:
    """The model, or the function for the model."""
    if isinstance(value, str):
        return init_model(value)
    if isinstance(value, Runnable):
        return value
    if callable(value) and not isinstance(value, type):
        return ChosenModel(value, "model")
    raise ReactArgumentError(
        "model",
        f"`model` must be a chat model, got {describe(value)}",
        "Pass a chat model, 'provider:name', or a function (state, runtime) that returns a model.",
    )


def takes_tools(
    model: Runnable[Any, Any], tools: Sequence[BaseTool], provider_tool_count: int
) -> bool:
    """Return True if the agent binds the tools to the model; otherwise they are bound already.

    Of the `provider_tool_count` tools of the provider, only the number is compared.
    """
    step = _model_step(model)
    if not isinstance(step, RunnableBinding) or "tools" not in step.kwargs:
        # A binding, or a configurable model, delegates to the model inside.
        method = getattr(type(model), "bind_tools", None) or getattr(model, "bind_tools", None)
        # BaseChatModel has the method, which raises NotImplementedError.
        binds = callable(method) and method is not BaseChatModel.bind_tools
        if (tools or provider_tool_count) and not binds:
            raise ModelTakesNoTools(
                "model",
                f"{type(model).__name__!r} object has no attribute 'bind_tools': no tools can be "
                "bound to it",
                "Bind them to the chat model inside: prompt | model.bind_tools(tools).",
            )
        return True
    bound = step.kwargs["tools"]
    if len(tools) != len(bound) - provider_tool_count:
        raise ReactArgumentError(
            "model",
            "Number of tools in the model.bind_tools() and tools passed to create_react_agent "
            f"must match Got {len(tools)} tools, expected {len(bound) - provider_tool_count}",
            "Pass the tools that are bound, or a model without tools.",
        )
    # In the forms of OpenAI and Anthropic; other forms have no name to compare.
    dicts = [tool for tool in bound if isinstance(tool, dict)]
    functions = [tool["function"] if tool.get("type") == "function" else tool for tool in dicts]
    if missing := {tool.name for tool in tools} - {tool.get("name") for tool in functions}:
        raise ReactArgumentError(
            "model",
            f"Missing tools '{missing}' in the model.bind_tools()",
            "Bind them, or pass a model without tools.",
        )
    return False


def _model_step(model: object) -> object:
    """The step of a chain with the model."""
    if not isinstance(model, RunnableSequence):
        return model
    # For example prompt | model.bind_tools(tools).
    models = (step for step in model.steps if isinstance(step, RunnableBinding | BaseChatModel))
    return next(models, model)


def chat_model_of(model: object) -> Any:
    """The chat model inside chains and bindings."""
    inner = _model_step(model)
    while isinstance(inner, RunnableBinding):
        inner = inner.bound
    if isinstance(inner, BaseChatModel) or hasattr(inner, "with_structured_output"):
        return inner
    raise ReactArgumentError(
        "model",
        "Expected `model` to be a ChatModel or RunnableBinding (e.g. model.bind_tools(...)), got "
        f"{type(inner)}",
        "Pass a chat model, or leave out response_format.",
    )
