"""Threads that wait while their agent gets another stack: `moved`, missing nodes, `stranded`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command, interrupt

from agent_factory import AgentMiddleware, agent_tool, create_agent, review, topology_of
from agent_factory.errors import MissingNode
from agent_factory.middleware import BudgetMiddleware, HumanInTheLoopMiddleware, Limits
from agent_factory.state.channels import KeyedByName
from agent_factory.state.history import REVIEWED, with_reviewers
from agent_factory.testing import ScriptedChatModel
from samples import THREAD, decisions, pay, tool_call
from tables import each

Run = Callable[..., Any]
ASK: Any = {"messages": [("user", "Pay.")]}
CALLS = [tool_call("pay", "call_1", euros=5), tool_call("pay", "call_2", euros=9)]
MODES = each("fused", [True, "turn", False])
APPROVE = decisions({"type": "approve"})


def moved_to_new(saver: Any, **how: Any) -> Any:
    """An agent whose reviewer has another name than the threads know."""
    return desk(saver, human("New"), calls=None, moved={"Old": "New"}, **how)


def human(name: str, **how: Any) -> Any:
    return HumanInTheLoopMiddleware({"pay": True}, name=name, **how)


def desk(saver: Any, *stack: Any, calls: Any = CALLS[:1], **how: Any) -> Any:
    """An agent that calls `pay` for the first message, and answers when it has the result."""
    model = ScriptedChatModel([calls, "Done."] if calls else ["Done."] * 3)
    return create_agent(model, [pay], middleware=stack, checkpointer=saver, **how)


def texts(out: Any) -> list[str]:
    return [f"{message.type}: {message.text}" for message in out["messages"]]


def waiting(saver: Any, *stack: Any, **how: Any) -> Any:
    """A thread that waits for a review of a call; what `invoke` returned."""
    return desk(saver, *stack, **how).invoke(ASK, THREAD)


@MODES
@each("checkpoints", ["full", "delta"])
def test_a_thread_waits_on_under_the_new_name(act: Run, fused: Any, checkpoints: Any) -> None:
    how: Any = {"fused": fused, "checkpoints": checkpoints}
    saver = InMemorySaver()
    (asked,) = waiting(saver, human("Old"), **how)["__interrupt__"]
    agent = moved_to_new(saver, **how)
    (call,) = act("pending", agent).calls
    assert (call.id, call.interrupt_id, call.kind) == ("call_1", asked.id, "review")
    assert texts(act("approve", agent, call.digest))[-2:] == ["tool: Paid 5.", "ai: Done."]


@each(
    "stored, moved",
    [
        ("Oldest", {"Oldest": "Old", "Old": "New"}),
        ("Old", {"Oldest": "Old", "Old": "New"}),
        ("Other", {"Other": "New", "Old": "New"}),
    ],
)
def test_threads_of_older_code_go_on_too(call: Run, stored: str, moved: Any) -> None:
    saver = InMemorySaver()
    waiting(saver, human(stored))
    agent = desk(saver, human("New"), calls=None, moved=moved)
    reject = decisions({"type": "reject", "message": "No."})
    assert texts(call(agent, reject, THREAD))[-2:] == ["tool: No.", "ai: Done."]


@each("mode", ["updates", "values", "tasks"])
def test_streams_show_the_step_that_resumes_under_the_old_name(collect: Run, mode: Any) -> None:
    """As hook by hook, in each way to run."""
    shown = []
    for fused in (False, True, "turn"):
        saver = InMemorySaver()
        waiting(saver, human("Old"), fused=fused)
        parts = collect(moved_to_new(saver, fused=fused), APPROVE, THREAD, stream_mode=mode)
        shown.append([part.get("name", [*part]) for part in parts])
    assert shown[0] == shown[1] == shown[2]
    if mode == "updates":
        assert shown[0] == [["Old.after_model"], ["tools"], ["model"], ["New.after_model"]]


@MODES
def test_a_pause_after_the_new_node_is_one_after_the_old_one(call: Run, fused: Any) -> None:
    saver = InMemorySaver()
    waiting(saver, human("Old"), fused=fused)
    pause: Any = {"interrupt_after": ["New.after_model"]}
    agent = moved_to_new(saver, fused=fused, **pause)
    call(agent, APPROVE, THREAD)
    assert agent.get_state(THREAD).next == ("tools",)
    assert texts(call(agent, None, THREAD))[-1] == "ai: Done."


@each("name", ["Old", "New"])
def test_decisions_that_were_recorded_under_either_name_count(act: Run, name: str) -> None:
    saver = InMemorySaver()
    waiting(saver, human("Old"), calls=CALLS)
    agent = moved_to_new(saver)
    if name == "Old":
        review.approve(desk(saver, human("Old"), calls=None), THREAD, "call_1")
    else:
        act("approve", agent, "call_1")
    assert [bool(call.decision) for call in act("pending", agent).calls] == [True, False]
    out = act("reject", agent, "No.", "call_2")
    assert sorted(texts(out)[-3:]) == ["ai: Done.", "tool: No.", "tool: Paid 5."]


@each("moved", [None, {"Old": "New"}], ids=str)
def test_a_call_that_was_approved_under_the_old_name_is_not_asked_about_again(
    call: Run, moved: Any
) -> None:
    """The process died between the decision and the tool."""
    saver = InMemorySaver()
    pause: Any = {"interrupt_before": ["tools"]}
    old = desk(saver, human("Old"), **pause)
    old.invoke(ASK, THREAD)
    old.invoke(APPROVE, THREAD)
    out = call(desk(saver, human("New"), calls=None, moved=moved), None, THREAD)
    assert ("__interrupt__" in out) == (moved is None)
    assert texts(out)[-1] == "ai: Done." if moved else "ai: "


@MODES
def test_a_budget_does_not_start_from_zero(call: Run, fused: Any) -> None:
    saver = InMemorySaver()
    limits: Any = {"thread": Limits(turns=3), "exit_behavior": "answer"}
    old = desk(saver, BudgetMiddleware(**limits, name="Old"), fused=fused)
    old.invoke(ASK, THREAD)
    spent = old.get_state(THREAD).values["budget_run"]["Old"]["turns"]
    budget = BudgetMiddleware(**limits, name="New")
    new = desk(saver, budget, calls=None, moved={"Old": "New"}, fused=fused)
    call(new, ASK, THREAD)
    values = new.get_state(THREAD).values
    assert values["budget_thread"]["New"]["turns"] == spent == 2
    assert "Old" not in {**values["budget_thread"], **values["budget_run"]}
    assert "3 of 3 turns in this thread" in texts(call(new, ASK, THREAD))[-1]


def test_an_entry_under_the_new_name_comes_before_one_under_the_old() -> None:
    from langgraph.channels import BinaryOperatorAggregate

    plain: Any = BinaryOperatorAggregate(dict, lambda old, new: {**old, **new})
    channel = KeyedByName(plain, {"Old": "New", "Older": "New"})
    stored = channel.from_checkpoint({"New": 1, "Old": 2, "Other": 3})
    assert stored.get() == {"New": 1, "Other": 3}
    stored.update([{"Old": 4}, {"Other": 5}])
    assert stored.copy().get() == stored.get() == {"New": 4, "Other": 5}
    assert channel.copy().get() == {}


def test_only_the_last_record_of_a_review_is_read() -> None:
    def message(record: Any) -> AIMessage:
        return AIMessage("", response_metadata={REVIEWED: record})

    first, last = message({"Old": {"a": "1"}}), message({"Old": {"b": "2"}, "New": {"c": "3"}})
    renamed = with_reviewers([first, last], {"Old": "New"})
    assert renamed[0] is first
    assert renamed[1].response_metadata[REVIEWED] == {"New": {"b": "2", "c": "3"}}
    messages: Any = [first, message({"New": {"b": "2"}})]
    assert with_reviewers(messages, {"Old": "New"}) is messages


def test_an_agent_with_former_names_looks_like_one_without() -> None:
    saver = InMemorySaver()
    plain, moved = (desk(saver, human("New"), moved=m) for m in (None, {"Old": "New"}))
    assert plain.get_graph().draw_mermaid() == moved.get_graph().draw_mermaid()
    assert topology_of(plain).to_mermaid() == topology_of(moved).to_mermaid()
    assert topology_of(plain).digest == topology_of(moved).digest


async def _events(agent: Any, input: Any, **how: Any) -> None:
    async for _ in agent.astream_events(input, THREAD, **how):
        pass


RESUMES: dict[str, Callable[[Any, Any], Any]] = {
    "invoke": lambda agent, input: agent.invoke(input, THREAD),
    "ainvoke": lambda agent, input: asyncio.run(agent.ainvoke(input, THREAD)),
    "stream": lambda agent, input: list(agent.stream(input, THREAD, stream_mode="updates")),
    "debug": lambda agent, input: list(agent.stream(input, THREAD, stream_mode="debug")),
    "astream_events": lambda agent, input: asyncio.run(_events(agent, input, version="v2")),
}


@MODES
@each("how", RESUMES)
@each("input", [None, Command(resume="yes")])
def test_to_resume_a_thread_at_a_missing_node_raises_by_name(
    fused: Any, how: str, input: Any
) -> None:
    saver = InMemorySaver()
    waiting(saver, human("Old"), fused=fused)
    before = saver.get_tuple(THREAD)
    agent = desk(saver, human("New"), calls=None, fused=fused)
    with pytest.raises(MissingNode, match=r"thread '1': waits at Old\.after_model") as caught:
        RESUMES[how](agent, input)
    assert caught.value.thread_id == "1"
    assert caught.value.nodes == ("Old.after_model",)
    assert "moved={'Old': ...}" in caught.value.hint
    assert saver.get_tuple(THREAD) == before


def test_an_error_about_a_moved_middleware_says_which_hook_it_lacks() -> None:
    class Looks(AgentMiddleware):
        def before_model(self, state: Any, runtime: Any) -> None:
            """Look."""

    saver = InMemorySaver()
    waiting(saver, human("Old"))
    agent = desk(saver, Looks(name="New"), moved={"Old": "New"})
    with pytest.raises(MissingNode, match="Old was moved to New, which has no after_model hook"):
        agent.invoke(None, THREAD)


ACTIONS: dict[str, tuple[Any, ...]] = {
    "pending": (),
    "approve": (),
    "reject": (),
    "respond": ("yes",),
    "edit": ({"euros": 1},),
    "decide": ({"call_1": {"type": "approve"}},),
}


@each("action", ACTIONS)
def test_reviews_raise_by_name_before_anything_is_written(act: Run, action: str) -> None:
    saver = InMemorySaver()
    waiting(saver, human("Old"))
    before = saver.get_tuple(THREAD)
    with pytest.raises(MissingNode, match=r"Old\.after_model"):
        act(action, desk(saver), *ACTIONS[action])
    assert saver.get_tuple(THREAD) == before


@MODES
@each("how", ["add_input", "invoke"])
def test_a_new_message_answers_the_call_that_waited(act: Run, fused: Any, how: str) -> None:
    saver = InMemorySaver()
    waiting(saver, human("Old"), fused=fused)
    agent = desk(saver, calls=None, fused=fused)
    if how == "add_input":
        out = act("add_input", agent, "Never mind.")
    else:
        out = agent.invoke({"messages": [("user", "Never mind.")]}, THREAD)
    kinds = [message.type for message in out["messages"]]
    assert kinds == ["human", "ai", "tool", "human", "ai"]
    assert "may have run" in out["messages"][2].text
    assert not review.pending(agent, THREAD)
    # Nothing waits any more: some savers keep the last value of a channel that a graph lacks.
    assert agent.invoke(None, THREAD)["messages"][-1].text == "Done."
    assert list(review.stranded(agent)) == []


def test_a_command_with_a_goto_says_where_to_go_on(call: Run) -> None:
    saver = InMemorySaver()
    waiting(saver, human("Old"))
    agent = desk(saver, calls=None)
    assert texts(call(agent, Command(goto="model"), THREAD))[-1] == "ai: Done."


def test_an_earlier_checkpoint_can_be_resumed_although_it_led_to_a_missing_node(call: Run) -> None:
    saver = InMemorySaver()
    waiting(saver, human("Old"), fused=False)
    agent = desk(saver, fused=False)
    history = list(desk(saver, human("Old")).get_state_history(THREAD))
    (before_model,) = [state for state in history if state.next == ("model",)]
    assert texts(call(agent, None, before_model.config))[-1] == "ai: Done."


def test_only_runs_that_resume_read_the_thread_once_more() -> None:
    saver: Any = InMemorySaver()
    saver.get_tuple = Mock(wraps=saver.get_tuple)
    agent = desk(saver, human("Review"))
    agent.invoke(ASK, THREAD)
    assert saver.get_tuple.call_count == 1
    agent.invoke(APPROVE, THREAD)
    assert saver.get_tuple.call_count == 1 + 2


def nested(saver: Any, *names: str, calls: Any = CALLS[:1], together: bool = False) -> Any:
    """An agent with a clerk, a nested agent whose reviewer has one of these names."""
    clerks = [
        create_agent(
            ScriptedChatModel([calls, "Paid."] if calls else ["Paid."]),
            [pay],
            middleware=[human(name)],
            ignore=["AF211"],
            name=f"clerk{number}",
        )
        for number, name in enumerate(names)
    ]
    asked: Any = [{"name": "clerk0", "args": {"request": "Pay."}}]
    tools: Any = [agent_tool(clerk, description="Pays.") for clerk in clerks]
    if together:

        def clerk0(request: str) -> str:
            """Ask the clerks one after the other."""
            answers = [clerk.invoke({"messages": [("user", request)]}) for clerk in clerks]
            return " ".join(answer["messages"][-1].text for answer in answers)

        tools = [clerk0]
    model = ScriptedChatModel([asked, "Done."] if calls else ["Done."])
    return create_agent(model, tools, checkpointer=saver)


def test_the_second_agent_that_a_tool_calls_is_found_by_its_number(call: Run) -> None:
    saver = InMemorySaver()
    old = nested(saver, "First", "Old", together=True)
    old.invoke(ASK, THREAD)
    old.invoke(APPROVE, THREAD)
    agent = nested(saver, "First", "New", calls=None, together=True)
    with pytest.raises(MissingNode, match=r"Old\.after_model"):
        call(agent, APPROVE, THREAD)
    agent = nested(saver, "First", "Old", calls=None, together=True)
    assert texts(call(agent, None, THREAD))[-2:] == ["tool: Paid. Paid.", "ai: Done."]


def found(threads: Any) -> list[Any]:
    return [(t.thread_id, t.nodes, [(c.name, c.args, c.kind) for c in t.calls]) for t in threads]


async def _afound(agent: Any, *given: Any) -> list[Any]:
    return found([thread async for thread in review.astranded(agent, *given)])


def several(saver: Any) -> Any:
    """Threads of an agent with a reviewer, and an agent without it."""
    agent = desk(saver, human("Old"), calls=None)
    agent.invoke(ASK, {"configurable": {"thread_id": "ended"}})
    for name in ("asked", "answered", "gone"):
        desk(saver, human("Old")).invoke(ASK, {"configurable": {"thread_id": name}})
    review.approve(agent, {"configurable": {"thread_id": "answered"}})
    other = desk(saver, calls=None)
    other.invoke(ASK, {"configurable": {"thread_id": "gone"}})
    failing: Any = type("Failing", (AgentMiddleware,), {"before_agent": _fail})
    with pytest.raises(ConnectionError):
        desk(saver, failing()).invoke(ASK, {"configurable": {"thread_id": "cut short"}})
    return other


def _fail(self: Any, state: Any, runtime: Any) -> None:
    raise ConnectionError


STRANDED = [
    ("asked", ("Old.after_model",), [("pay", {"euros": 5}, "review")]),
    ("cut short", ("Failing.before_agent",), []),
]


@each("is_async", [False, True])
def test_stranded_threads_are_listed_with_their_calls(is_async: bool) -> None:
    agent = several(InMemorySaver())

    def listed(given: Any) -> Any:
        if is_async:
            return sorted(asyncio.run(_afound(agent, *given)))
        return sorted(found(review.stranded(agent, *given)))

    assert listed([]) == STRANDED
    assert listed([["answered", "asked", "unknown"]]) == STRANDED[:1]


def test_a_saver_that_locks_while_it_lists_is_read(tmp_path: Path) -> None:
    file = str(tmp_path / "threads.sqlite")
    with SqliteSaver.from_conn_string(file) as saver:
        assert sorted(found(review.stranded(several(saver)))) == STRANDED

    async def listed() -> Any:
        async with AsyncSqliteSaver.from_conn_string(file) as saver:
            return await _afound(desk(saver))

    assert sorted(asyncio.run(listed())) == STRANDED


def test_the_threads_of_nested_agents_are_not_those_of_the_outer_one() -> None:
    saver = InMemorySaver()
    nested(saver, "Old").invoke(ASK, THREAD)
    assert list(review.stranded(nested(saver, "Old"))) == []


def test_the_calls_and_the_question_that_wait_at_a_missing_node_are_listed() -> None:
    class Asks(AgentMiddleware):
        def before_model(self, state: Any, runtime: Any) -> None:
            interrupt("Really?")

    saver = InMemorySaver()
    waiting(saver, human("Old"), interrupt_before=["Old.after_model"])
    (thread,) = review.stranded(desk(saver))
    found = [(call.id, call.kind, call.allowed) for call in thread.calls]
    assert found == [("call_1", "pause", ())]
    other = InMemorySaver()
    desk(other, Asks()).invoke(ASK, THREAD)
    (thread,) = review.stranded(desk(other))
    (call,) = thread.calls
    assert (call.name, call.kind, call.question) == ("Asks.before_model", "question", "Really?")


def test_stranded_refuses_what_has_no_threads() -> None:
    with pytest.raises(review.NoThread, match="must have a checkpointer"):
        list(review.stranded(desk(None)))
    with pytest.raises(TypeError, match=r"must be a list of ids.*Pass \['1'\]"):
        list(review.stranded(desk(InMemorySaver()), "1"))
