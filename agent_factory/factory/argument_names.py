"""Names of arguments: wrong names of a caller, and the intended names."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from langchain_core.messages import SystemMessage
from langgraph.checkpoint.base import BaseCheckpointSaver

from agent_factory.errors import ArgumentError, SpecError, describe, unknown_argument
from agent_factory.factory.arguments import is_list
from agent_factory.hooks.base import AgentMiddleware

_ARGUMENTS_HERE = {
    **dict.fromkeys(("prompt", "state_modifier", "messages_modifier"), "system_prompt=..."),
    **dict.fromkeys(("output_schema", "output_type", "response_schema"), "response_format=..."),
    "config_schema": "context_schema=...",
    "llm": "model=...",
    "memory": "checkpointer=...",
    "verbose": "debug=...",
    "pre_model_hook": "middleware=[...] with a middleware with before_model.",
    "post_model_hook": "middleware=[...] with a middleware with after_model.",
    "max_iterations": "middleware=[...] with ModelCallLimitMiddleware(run_limit=...).",
    "interrupt_on": "middleware=[...] with HumanInTheLoopMiddleware(interrupt_on=...).",
}
"""Arguments that do here the same as the arguments of other agent builders, by their names."""


def unknown_arguments(function: Callable[..., object], names: Iterable[str]) -> list[SpecError]:
    """Return an error for each unknown keyword argument of a function."""
    parameters = [name for name in inspect.signature(function).parameters if name != "unknown"]
    mistakes: list[SpecError] = []
    for name in names:
        mistake = unknown_argument(name, function.__name__, parameters)
        hint = f"Write {_ARGUMENTS_HERE[name]}" if name in _ARGUMENTS_HERE else mistake.hint
        mistakes.append(ArgumentError(name, mistake.reason, hint))
    return mistakes


FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


def by_name(function: FunctionT) -> FunctionT:
    """Leave `*misplaced` out of a signature: the parameter is for `misplaced_arguments` alone."""
    whole = inspect.signature(function)
    parameters = [p for p in whole.parameters.values() if p.kind is not p.VAR_POSITIONAL]
    function.__signature__ = whole.replace(parameters=parameters)  # type: ignore[attr-defined]
    return function


def misplaced_arguments(values: Sequence[object]) -> list[SpecError]:
    """Return an error for each argument after model and tools, with the likely name."""
    mistakes: list[SpecError] = []
    for position, value in enumerate(values, 3):
        name = "an argument by its name, such as checkpointer"
        if isinstance(value, str | SystemMessage):
            name = "system_prompt"
        elif isinstance(value, BaseCheckpointSaver):
            name = "checkpointer"
        elif is_list(value) or isinstance(value, AgentMiddleware):
            name = "middleware"
        reason = f"must be given by name, got {describe(value)}."
        mistakes.append(ArgumentError(f"argument {position}", reason, f"Write {name}=..."))
    return mistakes
