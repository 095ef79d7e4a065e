"""Which calls are reviewed, and how: what a user writes, and what of it cannot work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import iscoroutinefunction
from typing import Any, cast

from langchain_core.messages.tool import ToolCall
from typing_extensions import TypedDict

from agent_factory import AgentState, ToolCallRequest

from ._review import DECISIONS, DecisionType


class InterruptOnConfig(TypedDict, total=False):
    """How the calls of one tool are reviewed.

    Attributes:
        allowed_decisions: What a reviewer may do; default: all four.
        description: What the reviewer should know: a text, or a function of the call, the state
            and the runtime. Default: the tool and its arguments.
        args_schema: A JSON schema of the arguments, handed on for a form to edit them in.
        when: Whether a call needs a review at all, a function of the ToolCallRequest. In batched
            mode no tool is looked up yet: `request.tool` is None. It is asked again when a run is
            resumed, so it must depend on nothing but the call and the state.
    """

    allowed_decisions: list[DecisionType]
    description: str | Callable[[ToolCall, AgentState[Any], Any], str]
    args_schema: dict[str, Any]
    when: Callable[[ToolCallRequest], bool]


def checked(tool: Any, config: Any) -> InterruptOnConfig:
    """A tool's configuration with its defaults.

    Raises:
        ValueError: Something in it cannot work.
    """
    if not isinstance(tool, str):
        raise ValueError(f"interrupt_on: {tool!r} is no tool name.")
    if config is True:
        config = {}
    if not isinstance(config, Mapping):
        raise ValueError(
            f"interrupt_on[{tool!r}] must be True, False or an InterruptOnConfig, not {config!r}."
        )
    if unknown := config.keys() - InterruptOnConfig.__annotations__:
        raise ValueError(
            f"interrupt_on[{tool!r}] has no key {', '.join(map(repr, unknown))}; its keys are "
            f"{', '.join(InterruptOnConfig.__annotations__)}."
        )
    for key, value in config.items():
        fits, wanted = _WANTED[key]
        if not fits(value):
            raise ValueError(f"interrupt_on[{tool!r}][{key!r}] must be {wanted}, not {value!r}.")
    allowed = list(config.get("allowed_decisions", DECISIONS))
    return cast("InterruptOnConfig", {**config, "allowed_decisions": allowed})


def _is_function(value: Any) -> bool:
    return callable(value) and not iscoroutinefunction(value)


def _are_decisions(value: Any) -> bool:
    return (
        isinstance(value, list | tuple)
        and bool(value)
        and all(isinstance(kind, str) and kind in DECISIONS for kind in value)
    )


_WANTED: dict[str, tuple[Callable[[Any], bool], str]] = {
    "allowed_decisions": (_are_decisions, f"a list of some of {', '.join(DECISIONS)}"),
    "description": (
        lambda value: isinstance(value, str) or _is_function(value),
        "a text or a plain function",
    ),
    "args_schema": (lambda value: isinstance(value, Mapping), "a JSON schema, a dict"),
    "when": (_is_function, "a plain function of the ToolCallRequest"),
}
