"""Which tool calls of a turn may run, where several limits hold at once: pure decisions.

The calls of a turn are tasks of their own, and none sees what the others do. So each task decides
for the whole turn, from the same facts: the calls in the order the model made them, what was used
before, and all limits. A call that one limit refuses leaves its place under the others free, and
for that the limits must know of each other: each that may refuse one leaves a note in the message
that makes the calls. The notes lie in its response metadata, which is kept with the thread and is
not sent to a provider.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Literal

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.messages.tool import ToolCall
from langgraph.channels import UntrackedValue
from langgraph.types import Command
from pydantic import TypeAdapter, ValidationError

from agent_factory import ToolCallRequest
from agent_factory.middleware._shared.messages import unanswered

ExitBehavior = Literal["continue", "end", "error", "answer"]

LIMITS = "tool_call_limits"
"""In the metadata of the message that makes the calls: the limits on them, innermost first."""

REFUSED_BY = "tool_call_limit"
"""In the metadata of a refused call's answer: the name of the limit."""


@dataclass(frozen=True, slots=True)
class Used:
    """The calls that have run, by the name of the tool."""

    thread: Mapping[str, int]
    run: Mapping[str, int]

    @classmethod
    def of(cls, state: Any) -> Used:
        """What a state has counted."""
        return cls(
            state.get("thread_tool_call_count") or {}, state.get("run_tool_call_count") or {}
        )

    def and_one(self, tool: str) -> Used:
        """With one call more."""
        one = {tool: 1}
        return Used(added(self.thread, one), added(self.run, one))


def added(counts: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    """The sum of two counts."""
    total = dict(counts)
    for name, number in more.items():
        total[name] = total.get(name, 0) + number
    return total


@dataclass(frozen=True, slots=True)
class Limit:
    """What one middleware allows."""

    name: str
    tool_name: str | None
    thread_limit: int | None
    run_limit: int | None
    exit_behavior: ExitBehavior

    def written(self) -> dict[str, Any]:
        """As a note of it is kept."""
        return {
            "name": self.name,
            "tool_name": self.tool_name,
            "thread_limit": self.thread_limit,
            "run_limit": self.run_limit,
            "exit_behavior": self.exit_behavior,
        }

    def counts(self, used: Used) -> tuple[int, int]:
        """The calls in the thread and in the run that fall under this limit."""
        if self.tool_name is None:
            return sum(used.thread.values()), sum(used.run.values())
        return used.thread.get(self.tool_name, 0), used.run.get(self.tool_name, 0)

    def room(self, used: Used) -> float:
        """How many more calls may run of those that fall under this limit."""
        thread, run = self.counts(used)
        left = inf if self.thread_limit is None else self.thread_limit - thread
        return left if self.run_limit is None else min(left, self.run_limit - run)

    def refuses(self, tool: str, used: Used) -> bool:
        """Whether one more call of the tool would be too many."""
        return self.tool_name in (None, tool) and self.room(used) < 1

    def reason(self, thread_count: int, run_count: int) -> str:
        """What is used up, in words; empty while nothing is."""
        what = "tool calls" if self.tool_name is None else f"calls of {self.tool_name}"
        scopes = (
            ("thread", thread_count, self.thread_limit),
            ("run", run_count, self.run_limit),
        )
        return " and ".join(
            f"{count} of {limit} {what} are used up in this {scope}"
            for scope, count, limit in scopes
            if limit is not None and count >= limit
        )


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a call may not run: a limit, and the counts it had reached."""

    limit: Limit
    thread_count: int
    run_count: int

    @property
    def reason(self) -> str:
        """What is used up, in words."""
        return self.limit.reason(self.thread_count, self.run_count)

    def answer(self, call: ToolCall) -> ToolMessage:
        """What the model is told in the place of a result."""
        again = self.limit.tool_name or "any tool"
        return ToolMessage(
            f"Limit reached: {self.reason}. This call of {call['name']} did not run. Do not call "
            f"{again} again; go on with what you have.",
            tool_call_id=call["id"],
            name=call["name"],
            status="error",
            response_metadata={REFUSED_BY: self.limit.name},
        )


def refusals(
    calls: Sequence[ToolCall], limits: Sequence[Limit], used: Used
) -> dict[str | None, Refusal]:
    """The calls that may not run, by id: those for which there is no place in their order.

    Args:
        calls: The calls of a turn that wait to run.
        limits: All limits. Where a call breaks several, the first that does more than refuse it
            counts.
        used: What has run before.
    """
    if all(limit.room(used) >= len(calls) for limit in limits):
        return {}
    # What must end the run must not depend on which limit is asked first.
    ranked = sorted(limits, key=lambda limit: limit.exit_behavior == "continue")
    refused: dict[str | None, Refusal] = {}
    for call in calls:
        subject = next((limit for limit in ranked if limit.refuses(call["name"], used)), None)
        if subject is None:
            used = used.and_one(call["name"])
        else:
            refused[call["id"]] = Refusal(subject, *subject.counts(used))
    return refused


def in_turn(
    call: ToolCall, message: AIMessage | None, tail: Sequence[AnyMessage]
) -> list[ToolCall]:
    """The waiting calls of a turn in the order of their claims, as the task of `call` sees them.

    A call that a layer has turned into another comes last: the tasks of the others know nothing
    of it. Those before it may have been turned into the same, of which this task knows nothing.
    """
    waiting = unanswered(message, tail)
    same = [(c["id"], c["name"]) == (call["id"], call["name"]) for c in waiting]
    if any(same):
        return waiting
    ids = [c["id"] for c in waiting]
    place = ids.index(call["id"]) if call["id"] in ids else len(ids)
    feared = [ToolCall(**{**c, "name": call["name"]}) for c in waiting[:place]]
    return [*feared, *waiting[place + 1 :], call]


def with_limit(message: AIMessage, limit: Limit) -> AIMessage:
    """The message with a note of a limit on its calls."""
    notes = {**message.response_metadata.get(LIMITS, {}), limit.name: limit.written()}
    return message.model_copy(
        update={"response_metadata": {**message.response_metadata, LIMITS: notes}}
    )


_notes = TypeAdapter(dict[str, Limit])


def limits_on(message: AIMessage | None, own: Limit) -> list[Limit]:
    """All limits on the calls of a message, outermost first; `own` as it is now."""
    noted = message.response_metadata.get(LIMITS, {}) if message else {}
    if isinstance(noted, Mapping) and noted.keys() <= {own.name}:
        return [own]
    try:
        limits = _notes.validate_python(noted)
    except ValidationError:  # not our notes: a limit holds by itself as well
        limits = {}
    return list(reversed({**limits, own.name: own}.values()))


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
