"""The model's to-do list: written once a turn, shown at each call, never lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from agent_factory import ModelRequest, after_model, before_agent, create_agent, run
from agent_factory import middleware as m
from agent_factory.testing import ScriptedChatModel
from stack_tools import look
from tables import each

Ask = Callable[..., Any]
OPEN: m.Todo = {"content": "Read the report", "status": "pending"}
DONE: m.Todo = {"content": "Find the report", "status": "completed"}


def write(*todos: Any, id: str = "w") -> dict[str, Any]:
    return {"name": "write_todos", "args": {"todos": list(todos)}, "id": id}


def planning(*steps: Any, **more: Any) -> tuple[ScriptedChatModel, Any]:
    model = ScriptedChatModel(steps)
    return model, create_agent(model, middleware=[m.TodoListMiddleware()], **more)


def answers(result: Any) -> list[tuple[str, str]]:
    return [(m.tool_call_id, m.status) for m in result["messages"] if isinstance(m, ToolMessage)]


def test_the_list_is_written_returned_and_shown_at_each_later_call(send: Ask) -> None:
    """Unknown keys are dropped."""
    model, agent = planning([write(DONE, {**OPEN, "owner": "Ann"})], "done")
    result = send(agent, "go")
    assert result["todos"] == [DONE, OPEN]
    first, second = (record.messages[-1].text for record in model.requests)
    assert "todo_list" not in first
    assert second.endswith(
        "<todo_list>\nYour current to-do list; write_todos replaces it.\n"
        "- [completed] Find the report\n- [pending] Read the report\n</todo_list>"
    )
    assert result["messages"][2].text == "The list is written: 1 of 2 completed."


def test_no_list_can_be_passed_in(call: Callable[..., Any]) -> None:
    _, agent = planning("done")
    assert "todos" not in call(agent, {"messages": "go", "todos": [OPEN]})


def test_the_list_is_shown_in_later_runs_of_the_thread_and_cleared_by_an_empty_one(
    send: Ask,
) -> None:
    model, agent = planning([write(OPEN)], "1", [write()], "2", checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "1"}}
    send(agent, "go", config)
    result = send(agent, "again", config)
    shown = ["todo_list" in record.messages[-1].text for record in model.requests]
    assert shown == [False, True, True, False]
    assert result["todos"] == []
    assert [m.text for m in result["messages"] if m.type == "human"] == ["go", "again"]


def around(messages: list[Any], system: Any = None, **said: Any) -> ModelRequest[Any]:
    """What a model would be asked, with a list in the state."""
    state: Any = {"messages": messages, "todos": [OPEN]}
    request: Any = ModelRequest(
        model=ScriptedChatModel(), messages=messages, system_message=system, state=state
    )
    return run(m.TodoListMiddleware(**said).around_model(request), lambda inner: inner)


def test_the_list_is_added_as_a_content_block_or_as_a_message_after_an_ai_message() -> None:
    picture: Any = {"type": "image", "base64": "A", "mime_type": "image/png"}
    blocks = around([HumanMessage([picture], id="q")]).messages
    assert [block["type"] for block in blocks[0].content] == ["image", "text"]  # type: ignore[index]
    assert blocks[0].id == "q"
    spoken = around([HumanMessage("q"), AIMessage("a")]).messages
    assert [m.type for m in spoken] == ["human", "ai", "human"]
    assert [m.type for m in around([]).messages] == ["human"]


def test_the_instructions_follow_the_system_prompt() -> None:
    assert around([], system_prompt="Plan.").system_prompt == "Plan."
    assert around([], SystemMessage("Be."), system_prompt="Plan.").system_prompt == "Be.\n\nPlan."
    cached: Any = {"type": "text", "text": "Be.", "cache_control": {"type": "ephemeral"}}
    system = around([], SystemMessage([cached]), system_prompt="Plan.").system_message
    assert system is not None
    assert system.content == [cached, {"type": "text", "text": "Plan."}]
    assert around([], system_prompt="").system_message is None


def test_of_two_lists_in_one_message_the_first_counts_and_each_call_is_answered(send: Ask) -> None:
    model, agent = planning([write(OPEN, id="1"), write(DONE, id="2"), write(id="3")], "done")
    result = send(agent, "go")
    assert result["todos"] == [OPEN]
    assert answers(result) == [("1", "success"), ("2", "error"), ("3", "error")]
    assert "only the first one counts" in result["messages"][3].text
    model.assert_done()


TWO: Any = [write(OPEN, id="1"), write(DONE, id="2")]


@before_agent(can_jump_to=["tools"])
def jumps(state: Any, runtime: Any) -> Any:
    """Send calls to the tools that no model of this run has made."""
    return {"messages": [AIMessage("", tool_calls=TWO)], "jump_to": "tools"}


@after_model
def answers_first(state: Any, runtime: Any) -> Any:
    """Answer the first call of a turn."""
    calls = getattr(state["messages"][-1], "tool_calls", ())
    return {"messages": [ToolMessage("no", tool_call_id=calls[0]["id"])] if calls else []}


def test_no_jump_bypasses_the_check_and_calls_that_have_an_answer_do_not_count(send: Ask) -> None:
    for hook, steps, written, second in (
        (jumps, ["done"], OPEN, "error"),
        (answers_first, [TWO, "done"], DONE, "success"),
    ):
        agent = create_agent(ScriptedChatModel(steps), middleware=[m.TodoListMiddleware(), hook])
        result = send(agent, "go")
        assert result["todos"] == [written]
        assert answers(result) == [("1", "success"), ("2", second)]


@each(
    "args, problem",
    [
        ({}, "todos: Field required"),
        ({"todos": "Read"}, "todos: Input should be a valid list"),
        ({"todos": ["Read"]}, "todos.0: Input should be a valid dictionary"),
        ({"todos": [OPEN, {"content": "x"}]}, "todos.1.status: Field required"),
        ({"todos": [{"content": "x", "status": "done"}]}, "todos.0.status: Input should be"),
        ({"todos": [{"content": " ", "status": "pending"}]}, "todos.0.content: it is empty"),
        ({"todos": [1] * 9}, "todos.0: Input should be a valid dictionary; todos.1: "),
    ],
)
@each("handle_tool_errors", [True, False])
def test_a_malformed_list_is_reported_and_the_old_one_is_kept(
    send: Ask, args: Any, problem: str, handle_tool_errors: bool
) -> None:
    wrong = {"name": "write_todos", "args": args, "id": "x"}
    _, agent = planning([write(DONE)], [wrong], "done", handle_tool_errors=handle_tool_errors)
    result = send(agent, "go")
    assert result["todos"] == [DONE]
    assert answers(result) == [("w", "success"), ("x", "error")]
    assert result["messages"][4].text.startswith(f"Error: the list was not written. {problem}")
    assert len(result["messages"][4].text) < 400
    assert "content (text) and a status (pending, in_progress or completed)" in (
        result["messages"][4].text
    )


@each("order", [1, -1])
def test_the_list_is_in_the_prompt_when_its_call_was_cleared(send: Ask, order: int) -> None:
    asks = [{"name": "look", "args": {"word": "a"}, "id": "a"}]
    model = ScriptedChatModel([[write(OPEN)], asks, "done"])
    edit = m.ClearToolUsesEdit(trigger=0, keep=0, clear_tool_inputs=True)
    stack: list[Any] = [m.TodoListMiddleware(), m.ContextEditingMiddleware(edits=[edit])][::order]
    result = send(create_agent(model, [look], middleware=stack), "go")
    called: Any = model.requests[2].messages[2]
    assert called.tool_calls[0]["args"] == {}
    assert "- [pending] Read the report" in model.requests[2].messages[-1].text
    assert result["todos"] == [OPEN]
    assert "todo_list" not in "".join(m.text for m in result["messages"])


STATUS = st.sampled_from(["pending", "in_progress", "completed", "done", None])
ITEM = st.one_of(st.fixed_dictionaries({"content": st.text(), "status": STATUS}), st.text())


@pytest.mark.long
@settings(max_examples=20)  # each builds and runs an agent
@given(st.lists(st.lists(st.lists(ITEM, max_size=2), min_size=1, max_size=2), max_size=2))
def test_each_call_has_one_result_and_the_first_valid_list_is_written(
    turns: list[list[Any]],
) -> None:
    steps = [
        [write(*todos, id=f"{turn}.{at}") for at, todos in enumerate(lists)]
        for turn, lists in enumerate(turns)
    ]
    _, agent = planning(*steps, "done")
    result = agent.invoke({"messages": "go"})
    ids = [call["id"] for step in steps for call in step]
    assert [call for call, _ in answers(result)] == ids
    sound = [lists[0] for lists in turns if all(map(is_sound, lists[0]))]
    assert result.get("todos") == (sound[-1] if sound else None)


def is_sound(item: Any) -> bool:
    return (
        isinstance(item, dict)
        and item["status"] in ("pending", "in_progress", "completed")
        and bool(item["content"].strip())
    )
