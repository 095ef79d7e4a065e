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

_OTHER_NAMES = {
    **dict.fromkeys(("prompt", "state_modifier", "messages_modifier"), "system_prompt"),
    **dict.fromkeys(("output_schema", "output_type", "response_schema"), "response_format"),
    "config_schema": "context_schema",
    "llm": "model",
    "memory": "checkpointer",
    "verbose": "debug",
}
"""Arguments of other agent builders, by the name of ours."""

_MIDDLEWARE_FOR = {
    "pre_model_hook": "a middleware with before_model",
    "post_model_hook": "a middleware with after_model",
    "max_iterations": "ModelCallLimitMiddleware(run_limit=...)",
    "interrupt_on": "HumanInTheLoopMiddleware(interrupt_on=...)",
}
"""Arguments of other agent builders, by the middleware that does the same."""


def unknown_arguments(function: Callable[..., object], names: Iterable[str]) -> list[SpecError]:
    """Return an error for each unknown keyword argument of a function."""
    parameters = [name for name in inspect.signature(function).parameters if name != "unknown"]
    mistakes: list[SpecError] = []
    for name in names:
        mistake = unknown_argument(name, function.__name__, parameters)
        hint = None
        if name in _OTHER_NAMES:
            hint = f"Write {_OTHER_NAMES[name]}=..."
        elif name in _MIDDLEWARE_FOR:
            hint = f"Write middleware=[...] with {_MIDDLEWARE_FOR[name]}."
        mistakes.append(ArgumentError(name, mistake.reason, hint or mistake.hint))
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
