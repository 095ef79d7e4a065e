"""Repetitions at the end of a run: calls, cycles of calls, errors, answers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise, takewhile
from typing import Any, Literal, NamedTuple

from langchain_core.messages import HumanMessage, ToolMessage
from typing_extensions import ReadOnly, TypedDict

from agent_factory.middleware._shared.messages import REMARKS, mark_in
from agent_factory.structured_output.strategies import EXPLANATION

LONGEST_CYCLE = 4
"""The most turns of a cycle: a turn is compared with as many turns before."""

MARKS = "progress_guard"
"""Key in the response metadata of results: a remark was added, or the call did not run."""


class Call(TypedDict):
    """A call of a turn: of a tool, an unreadable call, or an answer."""

    name: ReadOnly[str | None]
    args: ReadOnly[object]
    id: ReadOnly[str | None]


class Turn(NamedTuple):
    """The calls of a turn, and the positions of its results; an answer is a call without a name."""

    calls: Sequence[Call]
    messages: Sequence[object]
    at: int

    def result(self, call: Call) -> ToolMessage | None:
        """The result of a call."""
        for index in range(self.at + 1, len(self.messages)):
            message = self.messages[index]
            if not isinstance(message, ToolMessage):
                break
            if message.tool_call_id == call["id"]:
                return message
        return None

    @property
    def failed(self) -> bool:
        """True if the result of each call is an error."""
        return all(
            (result := self.result(call)) is not None
            and result.status == "error"
            and not _is_explanation(result)
            for call in self.calls
        )


@dataclass(frozen=True, slots=True)
class Repetition:
    """Turns at the end of a run that repeat earlier turns."""

    kind: Literal["calls", "unknown", "errors", "answers"]
    cycle: Sequence[Turn]  # the repeated turns
    times: int
    excess: int  # repeated turns beyond the mark

    def __str__(self) -> str:
        """The repetition as half a sentence, for the decision log, the model and users."""
        if self.kind == "answers" and len(self.cycle) == 1:
            return f"the same answer was given {self.times} times in a row"
        if self.kind == "unknown":
            names = dict.fromkeys(str(call["name"]) for turn in self.cycle for call in turn.calls)
            tools = ", ".join(names)
            return f"tools that are not offered were called {self.times} times in a row ({tools})"
        turns = [" + ".join(c["name"] or "an answer" for c in turn.calls) for turn in self.cycle]
        if self.kind == "errors":
            return f"{turns[0]} failed {self.times} times in a row with the same error"
        if len(turns) > 1:
            return f"cycle {' -> '.join(turns)}, {self.times} times with the same results"
        return f"{turns[0]} was called {self.times} times in a row with the same result"


Arguments = Callable[[str | None], Collection[str] | None]
"""Returns the arguments of a tool; None if the tool takes any."""


def turns_of(messages: Sequence[Any], start: Callable[[], int]) -> Iterator[Turn]:
    """The turns since the last message of the user, newest first.

    A hook may write as the user, too: its messages in a run, which began with the first `start()`
    messages, do not count.
    """
    for at in range(len(messages) - 1, -1, -1):
        message = messages[at]
        # By `type`, because `isinstance` is slow for the classes of pydantic.
        kind = message.type
        if kind == "tool":
            continue
        if kind in ("ai", "AIMessageChunk"):
            calls = message.tool_calls
            if message.invalid_tool_calls:
                calls = [*calls, *message.invalid_tool_calls]
            if not calls:
                # A hook that sends an answer back writes as the user: after other words, the same
                # answer is new.
                before = messages[at - 1] if at else None
                words = before.text if isinstance(before, HumanMessage) else ""
                calls = [{"name": "", "args": [message.text, words], "id": None}]
            yield Turn(calls, messages, at)
        elif kind == "human" and "lc_source" not in message.additional_kwargs and at < start():
            return


@dataclass(frozen=True, slots=True)
class Comparison:
    """Rules for the kinds of repetitions and their marks; the arguments of the guard."""

    remark_after: int
    error_after: int
    reach: int  # more repeated turns than any step needs, which bounds the work of each call
    polling_tools: Mapping[str, int]
    ignored_tools: Collection[str]
    ignored_arguments: Collection[str]
    result_key: Callable[[ToolMessage], object] | None

    def is_progress(self, messages: Sequence[Any], arguments: Arguments) -> bool:
        """Return True if the last turn certainly repeats nothing, like nearly all turns.

        Its last result is not an error, and the turns before have not made its first call.
        """
        if not messages or messages[-1].type != "tool" or messages[-1].status == "error":
            return False
        first: Call | None = None
        earlier = 0
        for at in range(len(messages) - 1, -1, -1):
            message = messages[at]
            if message.type not in ("ai", "AIMessageChunk"):
                continue
            if first is None:
                if not message.tool_calls:
                    return False
                first = message.tool_calls[0]
                continue
            for call in message.tool_calls:
                if call["name"] == first["name"] and self.is_same_call(call, first, arguments):
                    return False
            earlier += 1
            if earlier == LONGEST_CYCLE:
                break
        return first is not None

    def repetition(
        self, turns: Iterable[Turn], arguments: Arguments, offered_tools: Collection[str]
    ) -> Repetition | None:
        """Return the repetition in the turns at or above its mark, if any."""
        read = [*islice(turns, self.reach + LONGEST_CYCLE)]
        longest = self.of_calls(read, arguments)
        # If all results are errors, so is the last message, which costs less to find out.
        is_error = read and getattr(read[0].messages[-1], "status", "") == "error"
        if is_error and read[0].failed:
            for other in (self.of_unknown_tools(read, offered_tools), self.of_an_error(read)):
                if other and (longest is None or other.excess > longest.excess):
                    longest = other
        return longest

    def of_calls(self, turns: Sequence[Turn], arguments: Arguments) -> Repetition | None:
        """The repetition of calls, or of answers, that is furthest above its mark."""
        longest: Repetition | None = None
        period = polling = 0
        for at, turn in enumerate(turns[: self.reach]):
            if not (distance := self.distance(turns, at, arguments)):
                break
            period = max(period, distance)
            polling = max(polling, self._polling(turn))
            excess = at + 1 - max(self.remark_after, period, polling)
            if excess >= 0 and (longest is None or excess >= longest.excess):
                cycle = turns[period - 1 :: -1]
                is_answer = not any(call["name"] for turn in cycle for call in turn.calls)
                kind: Literal["answers", "calls"] = "answers" if is_answer else "calls"
                longest = Repetition(kind, cycle, (at + 1 + period) // period, excess)
        return longest

    def distance(self, turns: Sequence[Turn], at: int, arguments: Arguments) -> int:
        """Count the turns back to the same calls as those of a turn; 0 if a call is new."""
        turn, furthest = turns[at], 0
        for call in turn.calls:
            if call["name"] in self.ignored_tools:
                return 0
            for distance, earlier in enumerate(turns[at + 1 : at + 1 + LONGEST_CYCLE], 1):
                # Nearly all calls are new, so the cheapest comparison is first.
                if any(
                    earlier_call["name"] == call["name"]
                    and self.is_same_call(call, earlier_call, arguments)
                    and self._is_same_result(turn, call, earlier, earlier_call)
                    for earlier_call in earlier.calls
                ):
                    furthest = max(furthest, distance)
                    break
            else:
                return 0
        return furthest

    def of_unknown_tools(
        self, turns: Sequence[Turn], offered_tools: Collection[str]
    ) -> Repetition | None:
        """Turns in a row with calls of tools outside of the request alone, which fail."""

        def has_failed(turn: Turn) -> bool:
            return turn.failed and not any(call["name"] in offered_tools for call in turn.calls)

        row = [*takewhile(has_failed, turns[: self.reach + 1])]
        excess = len(row) - 1 - self.remark_after
        return Repetition("unknown", row[::-1], len(row), excess) if excess >= 0 else None

    def of_an_error(self, turns: Sequence[Turn]) -> Repetition | None:
        """Turns in a row in which the same tools fail with the same errors."""
        last, count = turns[0], 0
        if any(call["name"] in self.ignored_tools for call in last.calls):
            return None
        for later, turn in pairwise(turns[: self.reach + 1]):
            if not turn.failed or len(turn.calls) != len(later.calls):
                break
            if not all(
                call["name"] == earlier_call["name"]
                and self._is_same_result(later, call, turn, earlier_call)
                for call, earlier_call in zip(later.calls, turn.calls, strict=True)
            ):
                break
            count += 1
        excess = count - max(self.remark_after, self.error_after, self._polling(last))
        return Repetition("errors", [last], count + 1, excess) if excess >= 0 else None

    def _polling(self, turn: Turn) -> int:
        """Limit of the repetitions of a turn that waits for something."""
        return max([0, *(self.polling_tools.get(call["name"] or "", 0) for call in turn.calls)])

    def is_same_call(self, one: Call, other: Call, arguments: Arguments) -> bool:
        """Return True if two calls have the same name, and as JSON the same arguments.

        Arguments unknown to the tool do not count.
        """
        mine, theirs = one["args"], other["args"]
        if one["name"] != other["name"]:
            return False
        if _is_same_json(mine, theirs):
            return True
        if not isinstance(mine, dict) or not isinstance(theirs, dict):
            return False
        known = arguments(one["name"])
        if known is None and not self.ignored_arguments:
            return False
        mine, theirs = (
            {
                key: args[key]
                for key in args
                if key not in self.ignored_arguments and (known is None or key in known)
            }
            for args in (mine, theirs)
        )
        return _is_same_json(mine, theirs)

    def _is_same_result(self, turn: Turn, call: Call, earlier: Turn, earlier_call: Call) -> bool:
        last, other = turn.result(call), earlier.result(earlier_call)
        if last is None or other is None:
            return not call["name"] and not earlier_call["name"]  # two answers
        if any("withheld" in (mark_in(result, MARKS) or {}) for result in (last, other)):
            return True  # the call would have brought the same result
        if last.status != other.status or _is_explanation(last) or _is_explanation(other):
            return False
        keys = []
        for result in (last, other):
            content: Any = result.content
            remarks = result.response_metadata.get(REMARKS)
            # The result counts as the tool gave it. A caller may have written the key.
            for remark in reversed(remarks if isinstance(remarks, list) else []):
                if isinstance(content, list):
                    content = content[:-1]
                else:
                    content = content.removesuffix(str(remark)).removesuffix("\n\n")
            if self.result_key is not None:
                content = self.result_key(result.model_copy(update={"content": content}))
            keys.append(content)
        return bool(keys[0] == keys[1])


def _is_same_json(first: object, other: object) -> bool:
    """Return True if two values are the same JSON; in Python, also 1 == 1.0 == True.

    Spaces around a text do not count: a model that cannot get on adds them.
    """
    if isinstance(first, str) and isinstance(other, str):
        return first == other or first.strip() == other.strip()
    if isinstance(first, dict) and isinstance(other, dict):
        return first.keys() == other.keys() and all(
            _is_same_json(value, other[key]) for key, value in first.items()
        )
    if isinstance(first, list) and isinstance(other, list):
        return len(first) == len(other) and all(map(_is_same_json, first, other))
    return type(first) is type(other) and bool(first == other)


def _is_explanation(result: ToolMessage) -> bool:
    """Return True for an explanation of a wrong structured answer, whose retries have a limit."""
    return result.additional_kwargs.get("lc_source") == EXPLANATION
