"""Functions and runnables that a user gives to `create_react_agent`, called in a run's colour."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import run_in_executor
from langgraph.config import get_config
from langgraph.runtime import get_runtime

from agent_factory.effects import CanInvoke
from agent_factory.prebuilt.react_errors import ReactPathNotSupported

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
