"""What LangGraph and agents do with paused threads: the behaviour that reviews rely on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import InvalidUpdateError
from langgraph.types import interrupt

from agent_factory import create_agent
from agent_factory.testing import InvalidHistory, ScriptedChatModel, assert_valid_history
from reviews import question

Run = Callable[..., Any]

THREAD: Any = {"configurable": {"thread_id": "1"}}
QUESTION: Any = {"messages": [("user", "2 + 3?")]}


def add(a: int, b: int = 3) -> int:
    """Add two numbers."""
    return a + b


def ask(about: str) -> str:
    """Ask a person."""
    return str(interrupt(about))


def called(*numbers: int) -> list[dict[str, Any]]:
    return [{"name": "add", "args": {"a": n}, "id": f"call_{n}"} for n in numbers]


def stopped(*script: Any, call: Run, **options: Any) -> Any:
    """An agent that stopped before its tools, or as the options say."""
    options = {"interrupt_before": ["tools"], "checkpointer": InMemorySaver(), **options}
    agent = create_agent(ScriptedChatModel(script), [add], **options)
    call(agent, QUESTION, THREAD)
    return agent


def texts(agent: Any) -> list[str]:
    return [m.text for m in agent.get_state(THREAD).values["messages"]]


def last(agent: Any) -> Any:
    return agent.get_state(THREAD).values["messages"][-1]


def test_a_run_stops_before_a_node_and_needs_a_thread(call: Run) -> None:
    agent = stopped(called(2), "5", call=call)
    assert agent.get_state(THREAD).next == ("tools",)
    with pytest.raises(ValueError, match="Checkpointer requires one or more of the following"):
        call(agent, QUESTION)


def test_a_run_without_a_checkpointer_stops_and_cannot_be_resumed(call: Run) -> None:
    model = ScriptedChatModel([called(2)])
    agent = create_agent(model, [add], interrupt_before=["tools"])
    assert call(agent, QUESTION)["messages"][-1].tool_calls
    with pytest.raises(ValueError, match="No checkpointer set"):
        agent.get_state(THREAD)


def test_a_stop_holds_all_calls_of_the_turn_and_the_state_has_a_task_for_each(call: Run) -> None:
    agent = stopped(called(2, 4), call=call)
    assert agent.get_state(THREAD).next == ("tools", "tools")
    assert [c["id"] for c in last(agent).tool_calls] == ["call_2", "call_4"]
    assert texts(agent) == ["2 + 3?", ""]


def test_invoking_with_none_runs_the_calls_and_returns_a_dict(call: Run) -> None:
    agent = stopped(called(2), called(4), "7", call=call)
    while agent.get_state(THREAD).next:
        result = call(agent, None, THREAD)
    assert isinstance(result, dict)
    assert texts(agent) == ["2 + 3?", "", "5", "", "7", "7"]


def test_an_appended_message_leaves_the_call_unanswered(call: Run) -> None:
    """The documents' way to reject. The next turn has to repair what it leaves behind."""
    agent = stopped(called(2), "Fine.", call=call)
    agent.update_state(THREAD, {"messages": [AIMessage("No.")]}, as_node="model")
    assert agent.get_state(THREAD).next == ()
    with pytest.raises(InvalidHistory, match="calls add"):
        assert_valid_history(agent.get_state(THREAD).values["messages"])
    assert_valid_history(call(agent, QUESTION, THREAD)["messages"])


def test_a_message_with_the_same_id_replaces_the_calls_and_ends_the_run(call: Run) -> None:
    agent = stopped(called(2), "Fine.", call=call)
    agent.update_state(THREAD, {"messages": [AIMessage("No.", id=last(agent).id)]}, as_node="model")
    assert agent.get_state(THREAD).next == ()
    assert texts(agent) == ["2 + 3?", "No."]
    assert_valid_history(call(agent, QUESTION, THREAD)["messages"])


def test_results_for_every_call_written_as_the_tools_node_lead_to_the_model(call: Run) -> None:
    agent = stopped(called(2, 4), "Fine.", call=call)
    answers = [ToolMessage("no", tool_call_id=f"call_{n}") for n in (2, 4)]
    agent.update_state(THREAD, {"messages": answers}, as_node="tools")
    assert agent.get_state(THREAD).next == ("model",)
    assert_valid_history(call(agent, None, THREAD)["messages"])
    assert texts(agent) == ["2 + 3?", "", "no", "no", "Fine."]


def test_a_message_with_the_same_id_and_other_calls_edits_them(call: Run) -> None:
    agent = stopped(called(2), "13", call=call)
    changed = last(agent).model_copy(update={"tool_calls": called(10)})
    agent.update_state(THREAD, {"messages": [changed]}, as_node="model")
    assert agent.get_state(THREAD).next == ("tools",)
    assert_valid_history(call(agent, None, THREAD)["messages"])
    assert texts(agent) == ["2 + 3?", "", "13", "13"]


def test_the_start_is_a_node_to_write_as_and_the_end_is_not(call: Run) -> None:
    agent = stopped(called(2), "Hello!", call=call)
    with pytest.raises(InvalidUpdateError, match="Node __end__ does not exist"):
        agent.update_state(THREAD, {"messages": [HumanMessage("Hi")]}, as_node="__end__")
    both = [AIMessage("", id=last(agent).id), HumanMessage("Hi")]
    agent.update_state(THREAD, {"messages": both}, as_node="__start__")
    assert agent.get_state(THREAD).next == ("model",)
    assert_valid_history(call(agent, None, THREAD)["messages"])
    assert texts(agent) == ["2 + 3?", "", "Hi", "Hello!"]


def test_writing_as_a_node_drops_the_results_of_siblings_and_ending_the_step_keeps_them() -> None:
    """Why `add_input` writes twice where tasks of the step have already ended."""
    for ends, expected in ((False, [""]), (True, ["", "5"])):
        model = ScriptedChatModel([[*called(2), question("size")]])
        agent: Any = create_agent(model, [add, ask], checkpointer=InMemorySaver())
        agent.invoke(QUESTION, THREAD)
        if ends:
            agent.update_state(THREAD, None, as_node="__end__")
        answer = ToolMessage("no", tool_call_id="size")
        agent.update_state(THREAD, {"messages": [answer]}, as_node="tools")
        assert texts(agent)[1:-1] == expected
