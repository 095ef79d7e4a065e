"""What LangGraph and agents do with paused threads: the behaviour that reviews rely on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import InvalidUpdateError
from langgraph.types import Command, interrupt

from agent_factory import create_agent
from agent_factory.errors import SpecError
from agent_factory.testing import InvalidHistory, ScriptedChatModel, assert_valid_history
from reviews import question

Run = Callable[..., Any]

THREAD: Any = {"configurable": {"thread_id": "1"}}
QUESTION: Any = {"messages": [("user", "2 + 3?")]}


def add(a: int, b: int = 3) -> int:
    """Add two numbers."""
    return a + b


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


def test_an_unknown_node_raises_when_the_agent_is_built() -> None:
    with pytest.raises(SpecError, match=r"^\[AF116\] .*tool"):
        create_agent(ScriptedChatModel([]), [add], interrupt_before=["tool"])


def test_the_state_has_a_task_for_each_call_and_holds_the_calls(call: Run) -> None:
    agent = stopped(called(2, 4), call=call)
    assert agent.get_state(THREAD).next == ("tools", "tools")
    assert [c["id"] for c in last(agent).tool_calls] == ["call_2", "call_4"]


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


def test_results_are_visible_after_the_tools_and_before_the_model_reads_them(call: Run) -> None:
    agent = stopped(
        called(2), "It is 5.", call=call, interrupt_before=[], interrupt_after=["tools"]
    )
    assert agent.get_state(THREAD).next == ("model",)
    assert last(agent).text == "5"
    assert call(agent, None, THREAD)["messages"][-1].text == "It is 5."


class Shop:
    """Two tools: one that asks, and one that is done at once. It counts how often they start."""

    def __init__(self) -> None:
        self.started: list[str] = []

    def ask(self, about: str) -> str:
        """Ask a person."""
        self.started.append(about)
        return f"{about}: {interrupt({'about': about})}"

    def look(self) -> str:
        """Look around."""
        self.started.append("look")
        return "seen"

    def agent(self, *calls: dict[str, Any], call: Run) -> Any:
        agent = create_agent(
            ScriptedChatModel([list(calls), "Done."]),
            [self.ask, self.look],
            checkpointer=InMemorySaver(),
        )
        call(agent, QUESTION, THREAD)
        return agent


LOOK = {"name": "look", "args": {}, "id": "look"}


def test_an_interrupted_tool_runs_again_and_its_sibling_does_not(call: Run) -> None:
    shop = Shop()
    agent = shop.agent(LOOK, question("size"), call=call)
    result = call(agent, Command(resume="big"), THREAD)
    assert sorted(shop.started) == ["look", "size", "size"]
    assert [m.text for m in result["messages"][2:]] == ["seen", "size: big", "Done."]


def test_several_interrupts_are_answered_by_their_ids(call: Run) -> None:
    agent = Shop().agent(question("size"), question("mode"), call=call)
    tasks = agent.get_state(THREAD).tasks
    ids = {task.interrupts[0].value["about"]: task.interrupts[0].id for task in tasks}
    with pytest.raises(RuntimeError, match="multiple pending interrupts"):
        call(agent, Command(resume="big"), THREAD)
    answers = {ids["mode"]: "red", ids["size"]: "big"}
    result = call(agent, Command(resume=answers), THREAD)
    assert [m.text for m in result["messages"][2:4]] == ["size: big", "mode: red"]


def test_a_stop_before_the_tools_holds_all_calls_of_the_turn(call: Run) -> None:
    ran: list[int] = []

    def note(number: int) -> str:
        """Note a number."""
        ran.append(number)
        return "noted"

    calls = [{"name": "note", "args": {"number": n}, "id": f"call_{n}"} for n in (1, 2)]
    agent = create_agent(
        ScriptedChatModel([calls]),
        [note],
        interrupt_before=["tools"],
        checkpointer=InMemorySaver(),
    )
    call(agent, QUESTION, THREAD)
    assert not ran
    assert len(agent.get_state(THREAD).tasks) == 2


def test_writing_as_a_node_drops_the_results_of_siblings_and_ending_the_step_keeps_them() -> None:
    """Why `add_input` writes twice where tasks of the step have already ended."""
    for ends, expected in ((False, [""]), (True, ["", "seen"])):
        shop = Shop()
        agent = shop.agent(LOOK, question("size"), call=lambda agent, *a: agent.invoke(*a))
        if ends:
            agent.update_state(THREAD, None, as_node="__end__")
        answer = ToolMessage("no", tool_call_id="size")
        agent.update_state(THREAD, {"messages": [answer]}, as_node="tools")
        assert texts(agent)[1:-1] == expected


def test_a_run_from_an_earlier_checkpoint_is_a_separate_branch(call: Run) -> None:
    agent = stopped(called(2), "5", called(4), "7", call=call)
    moment = agent.get_state(THREAD).config
    call(agent, None, THREAD)
    count = len(list(agent.get_state_history(THREAD)))
    agent.update_state(moment, {"messages": [HumanMessage("4 + 3?")]}, as_node="__start__")
    call(agent, None, THREAD)
    assert len(list(agent.get_state_history(THREAD))) > count
    assert agent.get_state(moment).next == ("tools",)
