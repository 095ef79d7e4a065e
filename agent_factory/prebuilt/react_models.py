"""The models of a `create_react_agent`: those that know their tools, and those chosen in a run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable, RunnableBinding, RunnableConfig, RunnableSequence
from langchain_core.runnables.config import run_in_executor
from langchain_core.tools import BaseTool
from langgraph.config import get_config
from langgraph.runtime import get_runtime

from agent_factory.compat.conversion import init_model
from agent_factory.errors import BadReturn, describe
from agent_factory.hooks.flows import CanInvoke
from agent_factory.prebuilt.react_errors import (
    ModelTakesNoTools,
    ReactArgumentError,
    ReactPathNotSupported,
)

_INJECTED: Mapping[str, Callable[[], Any]] = {
    "config": get_config,
    "runtime": get_runtime,
    "store": lambda: get_runtime().store,
    "writer": lambda: get_runtime().stream_writer,
}
"""What LangGraph gives a function of a node by the names of its parameters."""


def is_coroutine(function: Any) -> bool:
    """Whether a call has to be awaited."""
    call = getattr(function, "__call__", None)  # noqa: B004  # of which kind, not whether
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def part(given: Any, name: str) -> CanInvoke:
    """What a user gave, to be invoked.

    Args:
        given: A function of the state, a coroutine function, or a runnable.
        name: What traces and errors call it.
    """
    if isinstance(given, Runnable):
        return given.with_config(run_name=name)
    return FunctionPart(given, name)


class FunctionPart:
    """A function of the state, synchronous or not, that may ask for more by name.

    Args:
        function: It.
        name: What errors call it.
    """

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self._function = function
        self._name = name
        self._wants = _wanted(function)
        self._asynchronous = is_coroutine(function)

    def invoke(self, input: Any, config: RunnableConfig | None = None) -> Any:
        """Call it in a synchronous run.

        Raises:
            ReactPathNotSupported: It is a coroutine function.
        """
        if self._asynchronous:
            raise ReactPathNotSupported(
                self._name,
                f'No synchronous function provided to "{self._name}".\nEither initialize with a '
                "synchronous function or invoke via the async API (ainvoke, astream, etc.)",
            )
        return self._call(input)()

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None) -> Any:
        """Call it in an asynchronous run, in a thread if it is synchronous."""
        call = self._call(input)
        return await (call() if self._asynchronous else run_in_executor(None, call))

    def _call(self, input: Any) -> Callable[[], Any]:
        return partial(self._function, input, **{name: _INJECTED[name]() for name in self._wants})


def _wanted(function: Callable[..., Any]) -> tuple[str, ...]:
    """The parameters after the first that LangGraph fills in."""
    try:
        (_, *others) = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # one without a signature, or without a parameter
        return ()
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return tuple(p.name for p in others if p.name in _INJECTED and p.kind not in variable)


ASYNC_MODEL = (
    "Async model callable provided but agent invoked synchronously. Use agent.ainvoke() or "
    "agent.astream(), or provide a sync model callable."
)


class ChosenModel:
    """A function that chooses the model of a call from the state and the runtime.

    Args:
        choose: It; synchronous or not.
    """

    def __init__(self, choose: Callable[[Any, Any], Any]) -> None:
        self._choose = choose
        self._asynchronous = is_coroutine(choose)

    def invoke(self, input: tuple[Any, Any], config: RunnableConfig | None = None) -> Any:
        """The model for a state and a runtime, in a synchronous run.

        Raises:
            ReactPathNotSupported: The function is a coroutine function.
            BadReturn: It chose what is no model.
        """
        if self._asynchronous:
            raise ReactPathNotSupported("model", ASYNC_MODEL)
        return _checked(self._choose(*input))

    async def ainvoke(self, input: tuple[Any, Any], config: RunnableConfig | None = None) -> Any:
        """The model for a state and a runtime, in an asynchronous run.

        Raises:
            BadReturn: The function chose what is no model.
        """
        call = partial(self._choose, *input)
        return _checked(await (call() if self._asynchronous else run_in_executor(None, call)))


def _checked(model: Any) -> Runnable[Any, Any]:
    if isinstance(model, Runnable):
        return model
    raise BadReturn(
        "the function given as model",
        f"chose {describe(model)}, which is no model.",
        "Return a chat model, with its tools bound: `return model.bind_tools(tools)`.",
    )


def read_model(given: Any) -> Runnable[Any, Any] | ChosenModel:
    """What was given as a model.

    Raises:
        ReactArgumentError: It is none.
        ImportError: It is a string, and langchain is not installed.
    """
    if isinstance(given, str):
        return init_model(given)
    if isinstance(given, Runnable):
        return given
    if callable(given) and not isinstance(given, type):
        return ChosenModel(given)
    raise ReactArgumentError(
        "model",
        f"{describe(given)} is no model",
        "Give a chat model, 'provider:name', or a function (state, runtime) that chooses one.",
    )


def takes_tools(model: Runnable[Any, Any], tools: Sequence[BaseTool], provided: int) -> bool:
    """Whether tools are still to be bound to a model.

    Args:
        model: The model as it was given.
        tools: The tools that the agent runs.
        provided: How many tools the provider runs.

    Raises:
        ReactArgumentError: It knows other tools already.
        ModelTakesNoTools: It knows none, and cannot be told of any.
    """
    step = _model_step(model)
    if isinstance(step, RunnableBinding) and "tools" in step.kwargs:
        _compare(step.kwargs["tools"], tools, provided)
        return False
    if (tools or provided) and not _binds(model):
        raise ModelTakesNoTools(
            "model",
            f"{type(model).__name__!r} object has no attribute 'bind_tools': it cannot be told of "
            "the tools",
            "Bind them to the chat model inside: prompt | model.bind_tools(tools).",
        )
    return True


def _binds(model: Any) -> bool:
    method = getattr(type(model), "bind_tools", None)
    if method is None:  # delegated by a binding, or by a model that is configured later
        return callable(getattr(model, "bind_tools", None))
    return method is not BaseChatModel.bind_tools


def _compare(bound: Sequence[Any], tools: Sequence[BaseTool], provided: int) -> None:
    if len(tools) != len(bound) - provided:
        raise ReactArgumentError(
            "model",
            "Number of tools in the model.bind_tools() and tools passed to create_react_agent "
            f"must match Got {len(tools)} tools, expected {len(bound) - provided}",
            "Give create_react_agent the tools that were bound, or a model without any.",
        )
    if missing := {tool.name for tool in tools} - set(_names(bound)):
        raise ReactArgumentError(
            "model",
            f"Missing tools '{missing}' in the model.bind_tools()",
            "Bind them, or give a model without tools.",
        )


def _names(bound: Sequence[Any]) -> Iterator[str]:
    """The names of bound tools in the forms of OpenAI and Anthropic; others say nothing."""
    for tool in bound:
        if not isinstance(tool, dict):
            continue
        if tool.get("type") == "function":
            yield tool["function"]["name"]
        elif name := tool.get("name"):
            yield name


def _model_step(model: Any) -> Any:
    """The step of a chain that is the model."""
    if not isinstance(model, RunnableSequence):
        return model
    models = (step for step in model.steps if isinstance(step, RunnableBinding | BaseChatModel))
    return next(models, model)


def chat_model_of(model: Any) -> Any:
    """The chat model inside chains and bindings.

    Raises:
        ReactArgumentError: There is none.
    """
    inner = _model_step(model)
    while isinstance(inner, RunnableBinding):
        inner = inner.bound
    if isinstance(inner, BaseChatModel) or hasattr(inner, "with_structured_output"):
        return inner
    raise ReactArgumentError(
        "model",
        "Expected `model` to be a ChatModel or RunnableBinding (e.g. model.bind_tools(...)), got "
        f"{type(inner)}",
        "Give a chat model, or leave out response_format.",
    )
