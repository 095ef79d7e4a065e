"""Valid message histories: every tool call has one answer, and every answer has a call.

`repair` fixes a history after a crash, a cancelled run, a new user message while calls were
pending, or an edit. The changes are as small as possible.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from math import isfinite
from operator import attrgetter, is_
from typing import Any, TypeVar
from uuid import uuid4

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, RemoveMessage, ToolMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from agent_factory.state.json_values import MAX_INT, MIN_INT
from agent_factory.structured_output.strategies import EXPLANATION

Message = TypeVar("Message", bound=BaseMessage)

MAY_HAVE_RUN = "It may have run: find out before you make it again, or say that it is uncertain."
"""Result for the model of a call without a result that may have run."""

UNANSWERED = f"Error: this call has no result. {MAY_HAVE_RUN}"
"""Content of the tool message that answers a call without a result."""

REVIEWED, EDITED, DECIDED = "reviewed_calls", "edited_calls", "review"
"""Keys in the response metadata of a model's message: records of reviews of its calls.

Only middleware and `agent_factory.review` write records: records from a model are dropped.
"""

RAN = "ran_call"
"""Key in the response metadata of a result: the call that ran, where a person edited it late."""

RECORDS = frozenset((REVIEWED, EDITED, DECIDED))
"""All of these keys."""


@dataclass(frozen=True, slots=True)
class Repair:
    """Repaired history, and the write to the `messages` channel that repairs the thread."""

    messages: list[AnyMessage]
    update: list[Any]


def call_ids(message: AIMessage) -> list[str]:
    """Return the ids of the tool calls that need an answer, including invalid tool calls."""
    calls = [*message.tool_calls, *message.invalid_tool_calls]
    return [call["id"] for call in calls if call["id"]]


_MAY_CHANGE = re.compile(r"\d{19}|\\ud[89a-f]|\b(?:nan|inf)\b")
"""Signs in the `repr` of a number that is not stored unchanged, or of half of a character."""


_WITH_CALLS = ("content", "tool_calls", "invalid_tool_calls", "additional_kwargs")
"""Parts of a message with its calls."""

_PARTS = attrgetter(*_WITH_CALLS)


def with_valid_calls(message: AIMessage) -> AIMessage:
    """Return a model's message whose calls can be answered, and stored unchanged.

    A call without an id gets an id. A call with the id of another call gets the id with a number,
    and so does the content block of the call in the provider's form.

    LangGraph's serializer takes integers of 64 bits, and writes "?" for half of a character of
    UTF-16, by which a reviewed call becomes another call; JSON has neither NaN nor infinity. Here,
    such a number becomes a string, which a tool with a number reads, and a half becomes U+FFFD.

    >>> calls = [{"name": "add", "args": {"a": 10**20}, "id": id} for id in ("a", "a", "b")]
    >>> message = with_valid_calls(AIMessage("", tool_calls=calls))
    >>> [call["id"] for call in message.tool_calls], message.tool_calls[0]["args"]
    (['a', 'a_2', 'b'], {'a': '100000000000000000000'})
    """
    # One search instead of a walk: nearly no message has to be changed.
    if _MAY_CHANGE.search(repr(_PARTS(message))):
        values = dict(zip(_WITH_CALLS, _PARTS(message), strict=True))
        changes = {name: _storable(value) for name, value in values.items()}
        changes = {name: new for name, new in changes.items() if new is not values[name]}
        message = message.model_copy(update=changes) if changes else message
    original_ids = [call["id"] for call in (*message.tool_calls, *message.invalid_tool_calls)]
    if all(original_ids) and len(set(original_ids)) == len(original_ids):
        return message
    used_ids = set(original_ids)
    ids: dict[str, list[str]] = {}  # new ids, by the id that several calls have

    def renamed(call: Any) -> object:
        id_ = call["id"]
        if not id_:
            return {**call, "id": f"call_{uuid4().hex}"}
        variants = ids.setdefault(id_, [])
        # The model may have used such an id itself.
        candidates = (f"{id_}_{number}" for number in count(len(variants) + 1))
        variants.append(next(n for n in candidates if n not in used_ids) if variants else id_)
        used_ids.add(variants[-1])
        return {**call, "id": variants[-1]}

    update: dict[str, Any] = {
        "tool_calls": [renamed(call) for call in message.tool_calls],
        "invalid_tool_calls": [renamed(call) for call in message.invalid_tool_calls],
    }
    if isinstance(message.content, list):
        update["content"] = content = list(message.content)
        left = {id_: iter(variants) for id_, variants in ids.items()}
        for at, block in enumerate(content):
            # OpenAI's Responses API: `id` is the id of the item, and `call_id` the id of the call.
            key = "call_id" if isinstance(block, dict) and block.get("call_id") else "id"
            if isinstance(block, dict) and block.get(key) in left:
                content[at] = {**block, key: next(left[block[key]], block[key])}
    return message.model_copy(update=update)


def _storable(value: Any) -> Any:
    """The same value if nothing inside has to change."""
    if isinstance(value, str):
        # Two adjacent halves become the character.
        whole = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return value if whole == value else whole
    if isinstance(value, dict):
        keys, parts = [*map(_storable, value)], [*map(_storable, value.values())]
        is_same = all(map(is_, value, keys)) and all(map(is_, value.values(), parts))
        return value if is_same else dict(zip(keys, parts, strict=True))
    if isinstance(value, list):
        items = [_storable(item) for item in value]
        return value if all(map(is_, value, items)) else items
    is_large = isinstance(value, int) and not MIN_INT <= value <= MAX_INT
    is_odd = isinstance(value, float) and not isfinite(value)
    return str(value) if is_large or is_odd else value


def without_records(message: Message) -> Message:
    """Return a message without records of reviews, which no model and no client has written."""
    if RECORDS.isdisjoint(message.response_metadata):
        return message
    metadata = {k: v for k, v in message.response_metadata.items() if k not in RECORDS}
    return message.model_copy(update={"response_metadata": metadata})


def with_reviewers(messages: list[AnyMessage], new_names: Mapping[str, str]) -> list[AnyMessage]:
    """Return messages whose last record of a review has reviewers by their current names."""
    message, tail = last_turn(messages)
    # Only in the last message of a model: the calls of earlier messages have results.
    record = message.response_metadata.get(REVIEWED, {}) if message else {}
    if message is None or new_names.keys().isdisjoint(record):
        return messages
    metadata = {**message.response_metadata, REVIEWED: {}}
    for name, calls in record.items():
        metadata[REVIEWED].setdefault(new_names.get(name, name), {}).update(calls)
    copy = message.model_copy(update={"response_metadata": metadata})
    return [*messages[: -len(tail) - 1], copy, *tail]


def last_turn(messages: Sequence[AnyMessage]) -> tuple[AIMessage | None, list[AnyMessage]]:
    """Return the last AI message and the messages after it, or `(None, [])` without one."""
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if isinstance(message, AIMessage):
            return message, list(messages[index + 1 :])
    return None, []


def unanswered_calls(
    message: AIMessage | None, tail: Sequence[AnyMessage]
) -> list[Mapping[str, Any]]:
    """Return the calls of the last AI message without a result, including invalid tool calls."""
    if message is None:
        return []
    ids = {m.tool_call_id for m in tail if isinstance(m, ToolMessage)}
    calls: list[Any] = [*message.tool_calls, *message.invalid_tool_calls]
    return [call for call in calls if call["id"] and call["id"] not in ids]


def answers_of(tail: Sequence[AnyMessage]) -> dict[str, ToolMessage]:
    """Return the tool messages among some messages, by the id of the call they answer."""
    return {m.tool_call_id: m for m in tail if isinstance(m, ToolMessage)}


def error_result(call: Mapping[str, Any], text: str, **fields: Any) -> ToolMessage:
    """Return an error as the result of a call, for the model to read."""
    return ToolMessage(text, name=call["name"], tool_call_id=call["id"], status="error", **fields)


def messages_in(update: Any) -> list[Any]:
    """Return the messages in an update, a mapping or pairs. They may be dicts."""
    pairs = update.items() if isinstance(update, Mapping) else update
    if not isinstance(update, Mapping | list | tuple):
        return []
    values = [pair[1] for pair in pairs if isinstance(pair, tuple) and pair[:1] == ("messages",)]
    return [m for value in values for m in (value if isinstance(value, list) else [value])]


def new_results(messages: Sequence[object], history: Sequence[AnyMessage]) -> list[str]:
    """Return the ids of the calls that new messages answer in a history.

    Two kinds of results do not count: results that repeat a message of the history, as in a handoff
    with the history, and results of calls in the new messages, as of a subagent.
    """
    history_ids: set[str] | None = None
    brought: set[str] = set()
    results: list[str] = []
    for message in messages:
        result_id, calls = _field(message, "tool_call_id"), _ids_of_calls(message)
        if (result_id is None and not calls) or result_id in brought:
            continue
        # Read only for a message that may count: the history is long, and most updates have none.
        if history_ids is None:
            history_ids = {m.id for m in history if m.id}
        if _field(message, "id") in history_ids or message in history:
            continue
        if result_id is not None:
            results.append(str(result_id))
        brought.update(calls)
    return results


def results_of(ids: Collection[str], messages: Sequence[object]) -> dict[str, Any]:
    """Return the results of the calls of one turn among messages, by the ids of the calls.

    Ids may recur in a thread: if the messages hold the turn, only later messages count.
    """
    start = 0
    for index, message in enumerate(messages):
        if not set(ids).isdisjoint(_ids_of_calls(message)):
            start = index + 1
    tail = messages[start:]
    return {id: m for m in tail if (id := _field(m, "tool_call_id")) in ids}


def with_results(messages: list[Any], results: Mapping[str, object]) -> list[Any]:
    """Return messages with the missing results of the last turn with these calls, in its order."""
    for index in range(len(messages) - 1, -1, -1):
        ids = _ids_of_calls(messages[index])
        if results.keys().isdisjoint(ids):
            continue
        start, end = index + 1, index + 1
        while end < len(messages) and _field(messages[end], "tool_call_id") in ids:
            end += 1
        own_results = results_of(ids, messages)
        missing = [results[id] for id in ids if id in results and id not in own_results]
        tail = [*messages[start:end], *missing]
        tail.sort(key=lambda message: ids.index(_field(message, "tool_call_id")))
        return [*messages[:start], *tail, *messages[end:]] if missing else messages
    return messages


def _field(message: object, name: str) -> Any:
    return message.get(name) if isinstance(message, Mapping) else getattr(message, name, None)


def _ids_of_calls(message: object) -> list[str]:
    if isinstance(message, AIMessage):
        return call_ids(message)
    return [call["id"] for call in _field(message, "tool_calls") or ()]


def is_valid(messages: Sequence[AnyMessage], start: int = 0) -> bool:
    """Return True if a history is valid; its first `start` messages are known to be valid."""
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
    """Repair a history, whose first `start` messages are known to be valid; None if all are.

    - A call without an answer is answered with an error.
    - An answer at another position moves behind its call.
    - An answer without a call, and a second answer, are removed.

    >>> from langchain_core.messages import HumanMessage
    >>> call = AIMessage("", tool_calls=[{"name": "add", "args": {}, "id": "1"}])
    >>> [m.type for m in repair([call, HumanMessage("Well?")]).messages]
    ['ai', 'tool', 'human']
    """
    if is_valid(messages, start):
        return None
    # Ids may recur in a thread: an answer belongs to the nearest open call before.
    answers: dict[int, dict[str, ToolMessage]] = {}
    # `pop` closes a call, so that a second answer has no call and is left out.
    open_calls: dict[str, int] = {}
    for index, message in enumerate(messages):
        if isinstance(message, AIMessage):
            answers[index] = {}
            open_calls.update(dict.fromkeys(call_ids(message), index))
        elif isinstance(message, ToolMessage) and message.tool_call_id in open_calls:
            answers[open_calls.pop(message.tool_call_id)][message.tool_call_id] = message
    valid_messages: list[AnyMessage] = []
    for index, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            continue
        valid_messages.append(message)
        if isinstance(message, AIMessage):
            results = answers[index]
            for call in (*message.tool_calls, *message.invalid_tool_calls):
                if call["id"] and call["id"] not in results:
                    results[call["id"]] = error_result(call, UNANSWERED, id=str(uuid4()))
            valid_messages += results.values()
    return Repair(valid_messages, _smallest_update(messages, valid_messages))


def no_repair(messages: Sequence[AnyMessage], start: int = 0) -> Repair | None:
    """Return None: replaces `repair` where invalid histories are left as they are."""
    return None


def _smallest_update(before: Sequence[AnyMessage], after: list[AnyMessage]) -> list[Any]:
    """Return the smallest update that turns a history into another history."""
    # By identity: a message may lack an id, or be equal to another.
    kept_ids = {id(message) for message in after}
    stay = [message for message in before if id(message) in kept_ids]
    removed_messages = [message for message in before if id(message) not in kept_ids]
    # Messages can be removed and added by id, and not be put in another order.
    in_place = all(a is b for a, b in zip(stay, after, strict=False))
    if in_place and all(message.id for message in removed_messages):
        removals = [RemoveMessage(id=str(message.id)) for message in removed_messages]
        return [*removals, *after[len(stay) :]]
    return [RemoveMessage(id=REMOVE_ALL_MESSAGES), *after]


class ValidatedPrefix:
    """Validated part of the history of each active run, so that each part is validated once.

    Forgotten and changed parts are validated again. The messages are compared as lists, which takes
    nanoseconds for each message that is the same object.
    """

    SIZE = 64
    """Maximum number of runs. A run that ends is forgotten; a paused run may stay."""

    def __init__(self) -> None:
        @lru_cache(self.SIZE)
        def record(run: object) -> list[Sequence[AnyMessage]]:
            # Parallel nodes of a run share the list: its only item is replaced, never changed.
            return [[]]

        self._record = record

    def of(self, run: object, messages: Sequence[AnyMessage]) -> int:
        """Return how many of the first messages the run has validated and not changed since."""
        (prefix,) = self._record(run)
        return len(prefix) if messages[: len(prefix)] == prefix else 0

    def remember(self, run: object, messages: Sequence[AnyMessage]) -> None:
        """Record that a run has validated all these messages."""
        # Without a run, all callers would share a record.
        if run is not None:
            self._record(run)[0] = messages

    def forget(self, run: object) -> None:
        """Drop the record of a run."""
        self._record(run)[0] = []


def is_explanation(message: BaseMessage) -> bool:
    """Return True if a message reports an invalid structured answer to the model."""
    return bool(message.additional_kwargs.get("lc_source") == EXPLANATION)
