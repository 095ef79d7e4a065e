"""Records of reviews in messages, and notices in every form of result."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage, ToolCall, ToolMessage
from langgraph.types import Command

from agent_factory.review.records import RAN, with_edit, with_review
from samples import tool_call


def test_content_blocks_that_repeat_an_edited_call_are_edited() -> None:
    message = AIMessage(
        [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "text", "text": "now"},
            {"type": "tool_use", "id": "1", "name": "send", "input": {"to": "Ann"}},
            {"type": "function_call", "id": "f", "call_id": "1", "name": "send", "arguments": "{}"},
            {"type": "tool_use", "id": "2", "name": "send", "input": {"to": "Cid"}},
        ],
        id="m",
        tool_calls=[tool_call("send", "1", to="Ann"), tool_call("send", "2", to="Cid")],
    )
    new: Any = tool_call("delete", "1", number=3)
    edited = with_review(message, "R", {"1": "a", "2": "b"}, {"1": new})
    assert edited.id == "m"
    assert edited.content[2:] == [
        {"type": "tool_use", "id": "1", "name": "delete", "input": {"number": 3}},
        {
            "type": "function_call",
            "id": "f",
            "call_id": "1",
            "name": "delete",
            "arguments": '{"number": 3}',
        },
        {"type": "tool_use", "id": "2", "name": "send", "input": {"to": "Cid"}},
    ]
    assert edited.content[:2] == message.content[:2]
    assert message.tool_calls[0]["name"] == "send"


def test_a_notice_is_appended_to_every_form_of_result() -> None:
    mine, other = ToolMessage("a", tool_call_id="1"), ToolMessage("b", tool_call_id="2")
    blocks = ToolMessage([{"type": "text", "text": "a"}], tool_call_id="1")
    empty = ToolMessage("", tool_call_id="1")
    made = ToolCall(name="pay", args={"euros": 9}, id="1")
    ran = ToolCall(name="pay", args={"euros": 5}, id="1")
    assert with_edit(mine, made, ran, "N").content == "a\n\nN"
    assert with_edit(empty, made, ran, "N").content == "N"
    assert with_edit(other, made, ran, "N") is other
    assert with_edit(blocks, made, ran, "N").content[-1] == {"type": "text", "text": "N"}
    for update in ({"messages": [mine, other], "x": 1}, [("messages", [mine, other]), ("x", 1)]):
        result = with_edit(Command(update=update, goto="there"), made, ran, "N")
        assert result.goto == "there"
        assert dict(result.update)["x"] == 1
        assert [m.content for m in dict(result.update)["messages"]] == ["a\n\nN", "b"]
    listed = with_edit([mine, Command(goto="there")], made, ran, "N")
    assert listed[0].content == "a\n\nN"
    assert listed[1] == Command(goto="there")


def test_a_result_has_the_call_that_ran_if_the_message_has_another() -> None:
    made = ToolCall(name="pay", args={"euros": 9}, id="1")
    ran = ToolCall(name="pay", args={"euros": 5}, id="1")
    result = ToolMessage("a", tool_call_id="1", response_metadata={"x": 1})
    record = {RAN: {"name": "pay", "args": {"euros": 5}}}
    assert with_edit(result, made, ran, "").content == "a"
    assert with_edit(result, made, ran, "").response_metadata == {"x": 1, **record}
    assert with_edit(result, ran, ran, "N").response_metadata == {"x": 1}
