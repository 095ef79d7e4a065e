"""Check the order of calls and results in a history, and name the first wrong message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage


class InvalidHistory(AssertionError):
    """A history outside of the rules of providers, such as a tool call without a result."""


def assert_valid_history(messages: Sequence[BaseMessage], *, pending: bool = False) -> None:
    """Fail unless a model may be shown these messages.

    Each tool call has exactly one result, before the next message of another kind. Each result
    has a call. Calls have ids, and no two messages share an id.

    Args:
        messages: The history.
        pending: Whether the calls of the last turn may still be without results.

    Raises:
        InvalidHistory: The history is invalid; the error names the message and the correction.

    >>> from langchain_core.messages import HumanMessage
    >>> call = AIMessage("", tool_calls=[{"name": "add", "args": {}, "id": "1"}])
    >>> assert_valid_history([call, ToolMessage("5", tool_call_id="1"), HumanMessage("Thanks")])
    >>> try:
    ...     assert_valid_history([call, HumanMessage("Well?")])
    ... except InvalidHistory as error:
    ...     print(str(error).partition(". ")[0])
    messages[0] calls add (id '1') and nothing answers it before messages[1]
    """
    # pytest then shows the line of the test instead of a line here.
    __tracebackhide__ = True
    index_of: dict[str, int] = {}
    waiting: dict[str, tuple[int, str]] = {}
    answered_ids: set[str] = set()
    for index, message in enumerate(messages):
        if not isinstance(message, BaseMessage):
            raise InvalidHistory(
                f"messages[{index}] must be a message, got {type(message).__name__}. "
                "Convert it with langchain_core.messages.convert_to_messages."
            )
        if message.id and index_of.setdefault(message.id, index) != index:
            raise InvalidHistory(
                f"messages[{index}] has the id {message.id!r} of messages[{index_of[message.id]}]. "
                "Give each message a unique id, or none: add_messages makes one."
            )
        if not isinstance(message, ToolMessage):
            _check_answered(waiting, f"before messages[{index}]")
            if isinstance(message, AIMessage):
                calls: list[Any] = [*message.tool_calls, *message.invalid_tool_calls]
                ids = [call["id"] for call in calls]
                for call in calls:
                    if not call["id"]:
                        raise InvalidHistory(
                            f"messages[{index}] calls {call['name']} without an id, so nothing can "
                            "answer it. Give the call an id."
                        )
                    if ids.count(call["id"]) > 1:
                        raise InvalidHistory(
                            f"messages[{index}] has several calls with the id {call['id']!r}, so a "
                            "result could belong to any of them. Give each call a unique id."
                        )
                waiting = {call["id"]: (index, call["name"]) for call in calls}
                answered_ids = set()
        elif (id_ := message.tool_call_id) in waiting:
            del waiting[id_]
            answered_ids.add(id_)
        elif id_ in answered_ids:
            raise InvalidHistory(
                f"messages[{index}] answers the call {id_!r} a second time. "
                "Keep one result for each call."
            )
        else:
            raise InvalidHistory(
                f"messages[{index}] answers the call {id_!r}, which the AI message before it does "
                "not make. Remove it, or keep the AI message with that call right before it."
            )
    if not pending:
        _check_answered(waiting, "before the end")


def _check_answered(waiting: dict[str, tuple[int, str]], until: str) -> None:
    __tracebackhide__ = True
    for id_, (index, name) in waiting.items():
        raise InvalidHistory(
            f"messages[{index}] calls {name} (id {id_!r}) and nothing answers it {until}. "
            "Put a ToolMessage with that tool_call_id right after it."
        )
