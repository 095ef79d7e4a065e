"""Decide which tool calls of a turn may run under several limits, and count those that ran.

The calls of a turn run as parallel tasks, and none sees what the others do. So each task decides
for the whole turn, from the same facts: the calls in the order the model made them, the counts
before the turn, and all limits. A call that one limit refuses must not use up the others, so the
limits must know of each other: each limit that may refuse a call records itself in the response
metadata of the model's message, which is kept with the thread and not sent to a provider.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import inf
from typing import Any, Literal

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.messages.tool import ToolCall
from langgraph.channels import UntrackedValue
from langgraph.types import Command
from pydantic import TypeAdapter, ValidationError

from agent_factory import ToolCallRequest
from agent_factory.middleware._shared.final_answer import used_up
from agent_factory.middleware._shared.messages import unanswered

ExitBehavior = Literal["continue", "end", "error", "answer"]

THREAD_COUNTS, RUN_COUNTS = "thread_tool_call_count", "run_tool_call_count"
"""The state keys of the counts: each maps names of tools to numbers of calls."""

LIMITS = "tool_call_limits"
"""Metadata key of the message that makes the calls: the limits on them, innermost first."""

REFUSED_BY = "tool_call_limit"
"""Metadata key of a refused call's result: the name of the limit."""


def add_counts(counts: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    """The sum of two counts."""
    total = dict(counts)
    for name, number in more.items():
        total[name] = total.get(name, 0) + number
    return total


class RunCounts(UntrackedValue[dict[str, int]]):
    """State channel for counts of one run, to which the parallel tasks of a step add."""

    def update(self, values: Sequence[dict[str, int]]) -> bool:
        """Add what the tasks of a step have counted."""
        if not values:
            return False
        total = self.get() if self.is_available() else {}
        for value in values:
            total = add_counts(total, value)
        self.value = total
        return True


@dataclass(frozen=True, slots=True)
class CallCounts:
    """The calls that have run, by the name of the tool."""

    thread: Mapping[str, int]
    run: Mapping[str, int]

    @classmethod
    def from_state(cls, state: Any) -> CallCounts:
        """The counts in a state."""
        return cls(state.get(THREAD_COUNTS) or {}, state.get(RUN_COUNTS) or {})


@dataclass(frozen=True, slots=True)
class Limit:
    """The limit that one middleware sets."""

    name: str
    tool_name: str | None
    thread_limit: int | None
    run_limit: int | None
    exit_behavior: ExitBehavior

    def used(self, counts: CallCounts) -> tuple[int, int]:
        """The calls in the thread and in the run that this limit counts."""
        if self.tool_name is None:
            return sum(counts.thread.values()), sum(counts.run.values())
        return counts.thread.get(self.tool_name, 0), counts.run.get(self.tool_name, 0)

    def room(self, counts: CallCounts) -> float:
        """How many more of the calls that this limit counts may run."""
        thread, run = self.used(counts)
        left = inf if self.thread_limit is None else self.thread_limit - thread
        return left if self.run_limit is None else min(left, self.run_limit - run)

    def refuses(self, tool: str, counts: CallCounts) -> bool:
        """Whether one more call of the tool would exceed the limit."""
        return self.tool_name in (None, tool) and self.room(counts) < 1

    def reason(self, thread_count: int, run_count: int) -> str:
        """What is used up, as half a sentence; empty if nothing is."""
        what = "tool calls" if self.tool_name is None else f"calls of {self.tool_name}"
        return used_up(what, thread_count, run_count, self.thread_limit, self.run_limit)


@dataclass(frozen=True, slots=True)
class Refusal:
    """The limit that refuses a call, and the counts it had reached."""

    limit: Limit
    thread_count: int
    run_count: int

    def result(self, call: ToolCall) -> ToolMessage:
        """The error that the model reads as the result of the call."""
        reason = self.limit.reason(self.thread_count, self.run_count)
        return ToolMessage(
            f"Limit reached: {reason}. This call of {call['name']} did not run. Do not call "
            f"{self.limit.tool_name or 'any tool'} again; go on with what you have.",
            tool_call_id=call["id"],
            name=call["name"],
            status="error",
            response_metadata={REFUSED_BY: self.limit.name},
        )


def refusals(
    calls: Sequence[ToolCall], limits: Sequence[Limit], counts: CallCounts
) -> dict[str | None, Refusal]:
    """The calls that may not run, by id. Earlier calls use up the limits before later ones.

    Args:
        calls: The open calls of a turn.
        limits: All limits. If several refuse a call, the first one whose `exit_behavior` ends the
            run decides.
        counts: The calls that ran before.
    """
    if all(limit.room(counts) >= len(calls) for limit in limits):
        return {}
    # Whether the run ends must not depend on the order in which the limits are asked.
    ranked = sorted(limits, key=lambda limit: limit.exit_behavior == "continue")
    refused: dict[str | None, Refusal] = {}
    for call in calls:
        limit = next((limit for limit in ranked if limit.refuses(call["name"], counts)), None)
        if limit is None:
            one = {call["name"]: 1}
            counts = CallCounts(add_counts(counts.thread, one), add_counts(counts.run, one))
        else:
            refused[call["id"]] = Refusal(limit, *limit.used(counts))
    return refused


def calls_in_order(
    call: ToolCall, message: AIMessage | None, tail: Sequence[AnyMessage]
) -> list[ToolCall]:
    """The open calls of a turn, in the order in which they use up limits, as one task sees them.

    If a layer has replaced `call` by another one, it comes last, because the tasks of the other
    calls do not know of the replacement. Calls before it may have been replaced by the same call,
    of which this task does not know; so they are counted as if they were.
    """
    open_calls = unanswered(message, tail)
    if any((c["id"], c["name"]) == (call["id"], call["name"]) for c in open_calls):
        return open_calls
    ids = [c["id"] for c in open_calls]
    position = ids.index(call["id"]) if call["id"] in ids else len(ids)
    maybe_same = [ToolCall(**{**c, "name": call["name"]}) for c in open_calls[:position]]
    return [*maybe_same, *open_calls[position + 1 :], call]


def with_limit(message: AIMessage, limit: Limit) -> AIMessage:
    """The message with a record of a limit on its calls."""
    records = {**message.response_metadata.get(LIMITS, {}), limit.name: asdict(limit)}
    return message.model_copy(
        update={"response_metadata": {**message.response_metadata, LIMITS: records}}
    )


_LIMIT_RECORDS = TypeAdapter(dict[str, Limit])


def limits_on(message: AIMessage | None, own: Limit) -> list[Limit]:
    """All limits on the calls of a message, outermost first; `own` replaces its record."""
    records = message.response_metadata.get(LIMITS, {}) if message else {}
    if isinstance(records, Mapping) and records.keys() <= {own.name}:
        return [own]
    try:
        limits = _LIMIT_RECORDS.validate_python(records)
    except ValidationError:  # somebody else's metadata under our key
        limits = {}
    return list(reversed({**limits, own.name: own}.values()))


def counts_of(
    request: ToolCallRequest, result: Any, started: Sequence[str]
) -> dict[str, dict[str, int]]:
    """The counts that a call adds; empty if an inner layer refused the call.

    Args:
        request: The call.
        result: What the inner layers returned.
        started: The names of the tools that started during the call. It is empty if a layer ran a
            tool without LangChain callbacks; then a result that is not an error counts.
    """
    call = request.tool_call
    if not started and _has_failed(result, call["id"]):
        return {}
    ran = call["name"] if not started or call["name"] in started else started[0]
    return {THREAD_COUNTS: {ran: 1}, RUN_COUNTS: {ran: 1}}


def _has_failed(result: Any, call_id: str | None) -> bool:
    written = [value for key, value in _writes(result) if key == "messages"]
    return any(
        isinstance(message, ToolMessage)
        and message.tool_call_id == call_id
        and message.status == "error"
        for value in written
        for message in (value if isinstance(value, list) else [value])
    )


def is_counted(result: Any) -> bool:
    """Whether another limit further in has counted the call."""
    # A ToolMessage, the usual result of a tool, writes no counts.
    return not isinstance(result, ToolMessage) and any(
        key == THREAD_COUNTS for key, _ in _writes(result)
    )


def _writes(result: Any) -> Iterator[tuple[str, Any]]:
    """What the result of a call writes to the state: a message, a command, or a list of them."""
    for part in result if isinstance(result, list) else [result]:
        if not isinstance(part, Command):
            yield "messages", part
            continue
        pairs = part.update.items() if isinstance(part.update, Mapping) else part.update
        for pair in pairs or ():
            # LangGraph rejects other forms of update when it applies the command.
            if isinstance(pair, tuple) and len(pair) == 2:
                yield pair


def with_update(result: Any, update: dict[str, Any]) -> Any:
    """The result of a call together with an update of the state."""
    if not update:
        return result
    if isinstance(result, ToolMessage):
        return Command(update={"messages": [result], **update})
    return [*(result if isinstance(result, list) else [result]), Command(update=update)]
