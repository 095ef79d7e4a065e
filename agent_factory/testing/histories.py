"""Whether a model may be shown a history; and if not, which message is to blame."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage


class InvalidHistory(AssertionError):
    """A history that providers refuse: a call without its answer, or the reverse."""


def assert_valid_history(messages: Sequence[BaseMessage], *, pending: bool = False) -> None:
    """Fail unless a model may be shown these messages.

    Each tool call has exactly one answer, before the next message that is none; each answer has
    its call; calls have ids, and no two messages share one.

    Args:
        messages: The history.
        pending: The calls of the last turn may still wait for their answers.

    Raises:
        InvalidHistory: It is broken; the error names the message, the culprit and the remedy.

    >>> from langchain_core.messages import HumanMessage
    >>> call = AIMessage("", tool_calls=[{"name": "add", "args": {}, "id": "1"}])
    >>> assert_valid_history([call, ToolMessage("5", tool_call_id="1"), HumanMessage("Thanks")])
    >>> try:
    ...     assert_valid_history([call, HumanMessage("Well?")])
    ... except InvalidHistory as error:
    ...     print(str(error).partition(". ")[0])
    messages[0] calls add (id '1') and nothing answers it before messages[1]
    """
    __tracebackhide__ = True
    for mistake in _mistakes(list(messages), pending):
        raise InvalidHistory(mistake)


def _mistakes(messages: list[BaseMessage], pending: bool) -> Iterator[str]:
    yield from _strangers(messages)
    yield from _shared_ids(messages)
    waiting: dict[str, tuple[int, str]] = {}
    answered: set[str] = set()
    for index, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            yield from _answer(index, message, waiting, answered)
            continue
        yield from _unanswered(waiting, f"before messages[{index}]")
        if isinstance(message, AIMessage):
            yield from _calls(index, message)
            waiting = {call["id"]: (index, call["name"]) for call in _called(message)}
            answered = set()
    if not pending:
        yield from _unanswered(waiting, "before the end")


def _strangers(messages: list[Any]) -> Iterator[str]:
    for index, message in enumerate(messages):
        if not isinstance(message, BaseMessage):
            yield (
                f"messages[{index}] is a {type(message).__name__}, and no message. "
                "Convert it with langchain_core.messages.convert_to_messages."
            )


def _shared_ids(messages: list[BaseMessage]) -> Iterator[str]:
    seen: dict[str, int] = {}
    for index, message in enumerate(messages):
        if message.id and seen.setdefault(message.id, index) != index:
            yield (
                f"messages[{index}] has the id {message.id!r} of messages[{seen[message.id]}]. "
                "Give each message an id of its own, or none: add_messages makes one."
            )


def _called(message: AIMessage) -> list[Any]:
    return [*message.tool_calls, *message.invalid_tool_calls]


def _calls(index: int, message: AIMessage) -> Iterator[str]:
    ids = [call["id"] for call in _called(message)]
    for call in _called(message):
        if not call["id"]:
            yield (
                f"messages[{index}] calls {call['name']} without an id, so nothing can answer it. "
                "Give the call an id."
            )
        elif ids.count(call["id"]) > 1:
            yield (
                f"messages[{index}] has several calls with the id {call['id']!r}, and one answer "
                "can only be meant for one. Give each call an id of its own."
            )


def _answer(
    index: int, message: ToolMessage, waiting: dict[str, Any], answered: set[str]
) -> Iterator[str]:
    id_ = message.tool_call_id
    if id_ in waiting:
        del waiting[id_]
        answered.add(id_)
    elif id_ in answered:
        yield (
            f"messages[{index}] answers the call {id_!r} a second time. "
            "Keep one answer for each call."
        )
    else:
        yield (
            f"messages[{index}] answers the call {id_!r}, which the AI message before it does not "
            "make. Remove it, or keep the AI message with that call right before it."
        )


def _unanswered(waiting: dict[str, tuple[int, str]], until: str) -> Iterator[str]:
    for id_, (index, name) in waiting.items():
        yield (
            f"messages[{index}] calls {name} (id {id_!r}) and nothing answers it {until}. "
            "Put a ToolMessage with that tool_call_id right after it."
        )
