"""Where a history may be cut in two: pure functions on a list of messages.

A cut is an index: `messages[:cut]` goes, `messages[cut:]` stays.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage


def safe_cuts(messages: Sequence[AnyMessage]) -> list[int]:
    """Every cut that leaves no tool result without its call, in rising order.

    0 is always one of them and the end of the list never is, so that something stays.

    >>> from langchain_core.messages import HumanMessage
    >>> call = AIMessage("", tool_calls=[{"name": "add", "args": {}, "id": "1"}])
    >>> safe_cuts([HumanMessage("1 + 1?"), call, ToolMessage("2", tool_call_id="1")])
    [0, 1]
    """
    return list(_safe_cuts(messages))


def _safe_cuts(messages: Sequence[AnyMessage]) -> Iterator[int]:
    answered_at = _last_answers(messages)
    furthest = -1
    for index in range(len(messages)):
        if index > furthest:
            yield index
        furthest = max(furthest, answered_at.get(index, index))


def _last_answers(messages: Sequence[AnyMessage]) -> dict[int, int]:
    """For each message that calls tools, the index of the last result of its calls."""
    called_at: dict[str | None, int] = {}
    answered_at: dict[int, int] = {}
    for index, message in enumerate(messages):
        if isinstance(message, AIMessage):
            calls = [*message.tool_calls, *message.invalid_tool_calls]
            called_at.update((call["id"], index) for call in calls)
        elif isinstance(message, ToolMessage) and message.tool_call_id in called_at:
            answered_at[called_at[message.tool_call_id]] = index
    return answered_at


def cut_by_count(messages: Sequence[AnyMessage], keep: int) -> int:
    """The last safe cut that keeps at least so many messages; 0 where there is nothing to cut."""
    wanted = len(messages) - keep
    return max((cut for cut in safe_cuts(messages) if cut <= wanted), default=0)


def cut_by_tokens(
    messages: Sequence[AnyMessage],
    budget: float,
    count: Callable[[Sequence[AnyMessage]], float],
) -> int:
    """The first safe cut whose kept messages fit the budget, and else the last safe cut.

    Args:
        messages: The history.
        budget: How many tokens may stay.
        count: Counts the tokens of some messages.
    """
    cuts = safe_cuts(messages)
    if not cuts:
        return 0
    first = bisect_left(cuts, True, key=lambda cut: count(messages[cut:]) <= budget)
    return cuts[min(first, len(cuts) - 1)]
