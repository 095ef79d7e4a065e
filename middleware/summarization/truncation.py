"""When a conversation is truncated, and where it may be cut.

A cut is an index: `messages[:cut]` is removed, `messages[cut:]` stays.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from typing_extensions import TypedDict

ContextSize = (
    tuple[Literal["fraction"], float]
    | tuple[Literal["tokens"], int]
    | tuple[Literal["messages"], int]
)
"""An amount of conversation: a fraction of the model's window (0 to 1), tokens, or messages."""


class TriggerClause(TypedDict, total=False):
    """Thresholds that must all be reached.

    >>> TriggerClause(tokens=4000, messages=10)
    {'tokens': 4000, 'messages': 10}
    """

    tokens: int
    messages: int
    fraction: float


_DEFAULT_TRIGGER = {"fraction": 0.8}
"""Leaves a fifth of the window to the answer and to errors of the token counter."""

_UNITS = ("fraction", "tokens", "messages")


def window_of(model: Any) -> int | None:
    """The most tokens a model reads, if its profile says."""
    profile = getattr(model, "profile", None)
    size = profile.get("max_input_tokens") if isinstance(profile, Mapping) else None
    return size if isinstance(size, int) and size > 0 else None


def validated_trigger(trigger: Any, window: int | None) -> list[dict[str, float]]:
    """A trigger as a list of alternatives; all thresholds of one alternative must be reached.

    Args:
        trigger: The argument of the user.
        window: The most tokens the model reads, or None if that is not known.

    Raises:
        ValueError: It is not a trigger.
    """
    if trigger is None:
        return [dict(_DEFAULT_TRIGGER)] if window else []
    alternatives = [trigger] if isinstance(trigger, Mapping) or _is_size(trigger) else trigger
    if not isinstance(alternatives, list | tuple) or not alternatives:
        raise ValueError(
            f"trigger must be a size, thresholds or a list of them, got {trigger!r}. Pass "
            "('tokens', 4000) or {'tokens': 4000, 'messages': 10}."
        )
    clauses = []
    for alternative in alternatives:
        sizes = alternative.items() if isinstance(alternative, Mapping) else [alternative]
        clause = dict(validated_size("trigger", size) for size in sizes)
        if not clause:
            raise ValueError("trigger must not be an empty dict, which would always be reached.")
        clauses.append(clause)
    return clauses


def _is_size(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str)


def validated_size(parameter: str, value: Any) -> tuple[str, float]:
    """An amount with its unit.

    Raises:
        ValueError: It is not one; the message names the parameter.
    """
    if not _is_size(value) or value[0] not in _UNITS:
        raise ValueError(
            f"{parameter} must be one of {', '.join(map(repr, _UNITS))} with an amount, got "
            f"{value!r}. Pass ('messages', 20)."
        )
    unit, amount = value
    check_amount(parameter, unit, amount)
    return unit, amount


def check_amount(parameter: str, unit: str, amount: Any) -> None:
    """Reject an amount that does not fit its unit.

    Raises:
        ValueError: The message names the parameter.
    """
    number = isinstance(amount, int | float) and not isinstance(amount, bool)
    if unit == "fraction" and not (number and 0 < amount <= 1):
        raise ValueError(
            f"{parameter}: a fraction must be more than 0 and at most 1, got {amount!r}."
        )
    if unit != "fraction" and not (number and isinstance(amount, int) and amount >= 1):
        raise ValueError(
            f"{parameter}: {unit} must be a whole number of at least 1, got {amount!r}."
        )


def safe_cuts(messages: Sequence[AnyMessage]) -> list[int]:
    """Every cut that does not separate a tool result from its call, in rising order.

    0 is always one of them. The end of the list never is, so that something stays.

    >>> from langchain_core.messages import HumanMessage
    >>> call = AIMessage("", tool_calls=[{"name": "add", "args": {}, "id": "1"}])
    >>> safe_cuts([HumanMessage("1 + 1?"), call, ToolMessage("2", tool_call_id="1")])
    [0, 1]
    """
    called_at: dict[str | None, int] = {}
    last_result_at: dict[int, int] = {}  # by the index of the message that calls
    for index, message in enumerate(messages):
        if isinstance(message, AIMessage):
            calls = [*message.tool_calls, *message.invalid_tool_calls]
            called_at.update((call["id"], index) for call in calls)
        elif isinstance(message, ToolMessage) and message.tool_call_id in called_at:
            last_result_at[called_at[message.tool_call_id]] = index
    cuts = []
    furthest_result = -1
    for index in range(len(messages)):
        if index > furthest_result:
            cuts.append(index)
        furthest_result = max(furthest_result, last_result_at.get(index, index))
    return cuts


def cut_by_count(messages: Sequence[AnyMessage], keep: int) -> int:
    """The last safe cut that keeps at least `keep` messages; 0 if there is nothing to cut."""
    wanted = len(messages) - keep
    return max((cut for cut in safe_cuts(messages) if cut <= wanted), default=0)


def cut_by_tokens(
    messages: Sequence[AnyMessage],
    budget: float,
    count: Callable[[Sequence[AnyMessage]], float],
) -> int:
    """The first safe cut after which the rest fits into `budget` tokens, or the last safe cut."""
    cuts = safe_cuts(messages)
    if not cuts:
        return 0
    first = bisect_left(cuts, True, key=lambda cut: count(messages[cut:]) <= budget)
    return cuts[min(first, len(cuts) - 1)]
