"""Histories a model may see: every tool call has one answer, and every answer a call.

`repair` is the one place that mends a history, whatever broke it: a crash, a cancelled run, a new
user message while calls were pending, an edit. It changes as little as it can.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from langchain_core.messages import AIMessage, AnyMessage, RemoveMessage, ToolMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES

UNANSWERED = "Error: this call has no result: it did not run, or was stopped before it ended."
"""What a model reads where a tool call was left without an answer."""


@dataclass(frozen=True, slots=True)
class Repair:
    """A mended history.

    Args:
        messages: The history a model may see.
        update: What to write to the `messages` channel so that the thread holds the same.
    """

    messages: list[AnyMessage]
    update: list[Any]


def call_ids(message: AIMessage) -> list[str]:
    """The ids of a message's tool calls that need an answer, unreadable calls included."""
    calls = [*message.tool_calls, *message.invalid_tool_calls]
    return [call["id"] for call in calls if call["id"]]


def last_turn(messages: Sequence[AnyMessage]) -> tuple[AIMessage | None, list[AnyMessage]]:
    """The last AI message and the messages after it; `(None, [])` where there is none."""
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if isinstance(message, AIMessage):
            return message, list(messages[index + 1 :])
    return None, []


def answers_of(tail: Sequence[AnyMessage]) -> dict[str, ToolMessage]:
    """The tool messages among some messages, by the call they answer."""
    return {m.tool_call_id: m for m in tail if isinstance(m, ToolMessage)}


def is_valid(messages: Sequence[AnyMessage], start: int = 0) -> bool:
    """Whether a model may see these messages.

    Args:
        messages: The history.
        start: How many of the first messages are known to be valid on their own.
    """
    waiting: set[str] = set()
    for index in range(start, len(messages)):
        message = messages[index]
        if isinstance(message, ToolMessage):
            if message.tool_call_id not in waiting:
                return False
            waiting.remove(message.tool_call_id)
        elif waiting:
            return False
        elif isinstance(message, AIMessage):
            waiting.update(call_ids(message))
    return not waiting


def repair(messages: Sequence[AnyMessage], start: int = 0) -> Repair | None:
    """Mend a history; None where nothing is broken.

    A call without an answer gets an error as its answer, an answer away from its call moves
    there, an answer without a call and a second answer go.

    Args:
        messages: The history.
        start: How many of the first messages are known to be valid on their own.

    >>> from langchain_core.messages import HumanMessage
    >>> call = AIMessage("", tool_calls=[{"name": "add", "args": {}, "id": "1"}])
    >>> [m.type for m in repair([call, HumanMessage("Well?")]).messages]
    ['ai', 'tool', 'human']
    """
    if is_valid(messages, start):
        return None
    mended = list(_mend(messages))
    return Repair(mended, _update(messages, mended))


def no_repair(messages: Sequence[AnyMessage], start: int = 0) -> Repair | None:
    """Mend nothing: stands for `repair` where a broken history is refused, or is none of ours."""
    return None


def _mend(messages: Sequence[AnyMessage]) -> Iterator[AnyMessage]:
    answers = _pair(messages)
    for index, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            continue
        yield message
        if isinstance(message, AIMessage):
            given = answers[index]
            yield from given.values()
            for call in dict.fromkeys(call_ids(message)):
                if call not in given:
                    yield _unanswered(message, call)


def _pair(messages: Sequence[AnyMessage]) -> dict[int, dict[str, ToolMessage]]:
    """For each AI message its answers. Ids may recur in a thread: the nearest open call counts."""
    answers: dict[int, dict[str, ToolMessage]] = {}
    open_calls: dict[str, int] = {}
    for index, message in enumerate(messages):
        if isinstance(message, AIMessage):
            answers[index] = {}
            open_calls.update(dict.fromkeys(call_ids(message), index))
        elif isinstance(message, ToolMessage) and message.tool_call_id in open_calls:
            asked = open_calls.pop(message.tool_call_id)
            answers[asked][message.tool_call_id] = message
    return answers


def _unanswered(message: AIMessage, call_id: str) -> ToolMessage:
    calls = [*message.tool_calls, *message.invalid_tool_calls]
    name = next(call["name"] for call in calls if call["id"] == call_id)
    return ToolMessage(UNANSWERED, tool_call_id=call_id, name=name, status="error", id=str(uuid4()))


def _update(before: Sequence[AnyMessage], after: list[AnyMessage]) -> list[Any]:
    """The smallest update that leads from one history to the other."""
    kept = {id(message) for message in after}
    stay = [message for message in before if id(message) in kept]
    gone = [message for message in before if id(message) not in kept]
    in_place = all(a is b for a, b in zip(stay, after, strict=False))
    if in_place and all(message.id for message in gone):
        removals = [RemoveMessage(id=str(message.id)) for message in gone]
        return [*removals, *after[len(stay) :]]
    return [RemoveMessage(id=REMOVE_ALL_MESSAGES), *after]


class ValidatedPrefix:
    """How much of its history each run under way has looked at.

    Only a way to save work: what was forgotten, or has changed, is looked at again. Whether it
    has changed is seen by comparing lists, which for the same objects is a matter of nanoseconds
    each.
    """

    SIZE = 64
    """How many runs are remembered; a run that ends is forgotten, one that pauses may linger."""

    def __init__(self) -> None:
        self._runs: OrderedDict[int, tuple[object, Sequence[AnyMessage]]] = OrderedDict()

    def of(self, run: object, messages: Sequence[AnyMessage]) -> int:
        """How many of the messages a run has looked at, if they are still there and the same."""
        owner, seen = self._runs.get(id(run), (None, ()))
        count = len(seen)
        return count if owner is run and count and messages[:count] == seen else 0

    def remember(self, run: object, messages: Sequence[AnyMessage]) -> None:
        """A run has looked at all these messages. Holding it keeps its id from being reused."""
        if run is None or not messages:
            return
        self._runs[id(run)] = (run, messages)
        if len(self._runs) > self.SIZE:
            self._runs.popitem(last=False)

    def forget(self, run: object) -> None:
        """A run has ended, as far as one can tell."""
        self._runs.pop(id(run), None)
