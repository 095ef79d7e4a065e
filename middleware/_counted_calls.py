"""Which calls of tools have run: the count, and how it is written with a call's result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langchain_core.messages import ToolMessage
from langgraph.channels import UntrackedValue
from langgraph.types import Command

from agent_factory import ToolCallRequest

from ._tool_limits import added

THREAD, RUN = "thread_tool_call_count", "run_tool_call_count"
"""The keys of the counts: each maps names of tools to numbers of calls."""


class RunCount(UntrackedValue[dict[str, int]]):
    """Counts of this run alone, to which the parallel tasks of a step add."""

    def update(self, values: Sequence[dict[str, int]]) -> bool:
        """Add what the tasks of a step have counted."""
        if not values:
            return False
        total = self.get() if self.is_available() else {}
        for value in values:
            total = added(total, value)
        self.value = total
        return True


def counts_of(
    request: ToolCallRequest, result: Any, started: Sequence[str]
) -> dict[str, dict[str, int]]:
    """What a call adds to the counts; empty where it was refused further in.

    Args:
        request: The call.
        result: What came back from further in.
        started: The tools that started meanwhile.
    """
    ran = _what_ran(request, result, started)
    return {THREAD: {ran: 1}, RUN: {ran: 1}} if ran else {}


def _what_ran(request: ToolCallRequest, result: Any, started: Sequence[str]) -> str | None:
    """The tool that ran for a call; None where the call was refused further in.

    A layer that runs tools of its own starts none that LangChain hears of, so a result that is no
    error counts all the same.
    """
    call = request.tool_call
    if not started:
        return None if _failed(result, call["id"]) else call["name"]
    return call["name"] if call["name"] in started else started[0]


def _failed(result: Any, call_id: str | None) -> bool:
    return any(
        isinstance(message, ToolMessage)
        and message.tool_call_id == call_id
        and message.status == "error"
        for key, value in _writes(result)
        if key == "messages"
        for message in (value if isinstance(value, list) else [value])
    )


def is_counted(result: Any) -> bool:
    """Whether another limit further in has counted the call."""
    # A message alone, as tools give it, writes no count.
    return not isinstance(result, ToolMessage) and any(key == THREAD for key, _ in _writes(result))


def _writes(result: Any) -> Iterator[tuple[str, Any]]:
    """What a call's result writes to the state, whatever form it has."""
    for part in result if isinstance(result, list) else [result]:
        if isinstance(part, Command):
            yield from _pairs(part.update)
        else:
            yield "messages", part


def _pairs(update: Any) -> Iterator[tuple[str, Any]]:
    pairs = update.items() if isinstance(update, Mapping) else update
    # Other things a Command may hold are refused where it is applied.
    return (pair for pair in pairs or () if isinstance(pair, tuple) and len(pair) == 2)


def with_update(result: Any, update: dict[str, Any]) -> Any:
    """The result of a call together with an update of the state."""
    if not update:
        return result
    if isinstance(result, ToolMessage):
        return Command(update={"messages": [result], **update})
    return [*(result if isinstance(result, list) else [result]), Command(update=update)]
