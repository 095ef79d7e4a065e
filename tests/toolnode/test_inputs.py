"""Inputs of a ToolNode, and their precedence: C7 to C11."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.prebuilt import ToolNode as LangGraphToolNode
from langgraph.types import Command
from pydantic import BaseModel

from agent_factory import ToolNode
from samples import Thread, add
from tables import each


def calling(a: int, id_: str = "1") -> dict[str, Any]:
    return {"name": "add", "args": {"a": a, "b": 0}, "id": id_, "type": "tool_call"}


def message(a: int) -> AIMessage:
    return AIMessage("", tool_calls=[calling(a)])


class Model(BaseModel):
    messages: list[Any] = []


def texts(messages: list[Any]) -> list[str]:
    return [report.text for report in messages]


def test_c7_a_list_that_ends_with_a_call_is_a_list_of_calls(kind: Any, run: Any) -> None:
    result = run(kind([add]), [calling(1), calling(2, "2")])
    assert texts(result["messages"]) == ["1", "2"]


def test_c7_another_list_is_a_list_of_messages(kind: Any, run: Any) -> None:
    assert texts(run(kind([add]), [HumanMessage("Go"), message(3)])) == ["3"]


@each("more", [{}, {"messages": [message(8)]}])
def test_c7_c8_a_call_with_its_context_is_one_call(kind: Any, run: Any, more: Any) -> None:
    """C8: this form comes before that of a state."""
    given = {"__type": "tool_call_with_context", "tool_call": calling(4), "state": {}, **more}
    assert texts(run(kind([add]), given)["messages"]) == ["4"]


@each("wrap", [None, lambda request, execute: execute(request.override())])
def test_c7_a_call_with_a_list_as_context_has_a_dict(kind: Any, run: Any, wrap: Any) -> None:
    @tool("add")
    def answer(tool_call_id: Annotated[str, InjectedToolCallId], as_list: bool) -> Any:
        """Add."""
        messages = [ToolMessage("4", tool_call_id=tool_call_id)]
        return Command(update=messages if as_list else {"messages": messages})

    def given(as_list: bool) -> Any:
        call = {**calling(4), "args": {"as_list": as_list}}
        return {"__type": "tool_call_with_context", "tool_call": call, "state": [message(4)]}

    node = kind([answer], wrap_tool_call=wrap)
    (command,) = run(node, given(False))
    assert texts(command.update["messages"]) == ["4"]
    with pytest.raises(ValueError, match="can provide a list of messages"):
        run(node, given(True))


@each("state", [dict, Thread, Model])
def test_c7_a_state_holds_messages(kind: Any, run: Any, state: Any) -> None:
    assert texts(run(kind([add]), state(messages=[message(5)]))["messages"]) == ["5"]


@each("state", [dict, Thread, Model])
def test_c7_c11_anything_else_holds_no_message(kind: Any, run: Any, state: Any) -> None:
    for given in (state(messages=[]), state(), {"other": [message(1)]}, None, 5, message(1)):
        with pytest.raises(ValueError, match="No message found in input"):
            run(kind([add]), given)


def test_c7_the_messages_may_have_another_key(kind: Any, run: Any) -> None:
    node = kind([add], messages_key="talk")
    assert texts(run(node, {"talk": [message(6)]})["talk"]) == ["6"]
    with pytest.raises(ValueError, match="No message found in input"):
        run(node, {"messages": [message(6)]})


def test_c8_a_users_own_key_named_type_has_no_special_meaning(kind: Any, run: Any) -> None:
    given = {"type": "tool_call_with_context", "messages": [message(8)]}
    assert texts(run(kind([add]), given)["messages"]) == ["8"]


def test_c9_the_last_ai_message_counts_wherever_it_stands(kind: Any, run: Any) -> None:
    history = [message(1), message(2), ToolMessage("9", tool_call_id="0"), HumanMessage("Well?")]
    assert texts(run(kind([add]), history)) == ["2"]


def test_c9_without_an_ai_message_there_is_nothing_to_run(kind: Any, run: Any) -> None:
    for given in ([HumanMessage("Go")], {"messages": [HumanMessage("Go")]}):
        with pytest.raises(ValueError, match="No AIMessage found in input"):
            run(kind([add]), given)


def test_c10_a_message_without_calls_gives_an_empty_result(kind: Any, run: Any) -> None:
    assert run(kind([add]), {"messages": [AIMessage("Done.")]}) == {"messages": []}
    assert run(kind([add]), [AIMessage("Done.")]) == []


def test_c10_an_empty_list_holds_no_message_and_is_an_index_error_in_langgraph(run: Any) -> None:
    with pytest.raises(ValueError, match="No message found in input"):
        run(ToolNode([add]), [])
    with pytest.raises(IndexError):
        run(LangGraphToolNode([add]), [])
