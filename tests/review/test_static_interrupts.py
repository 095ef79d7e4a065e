"""Reviews of runs that a node stops, their records, and what LangGraph does with such threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolCall, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import InvalidUpdateError
from langgraph.runtime import Runtime
from langgraph.types import Command, interrupt
from stack_agents import kept_agent

from agent_factory import AgentMiddleware, AgentState, create_agent, review
from agent_factory.errors import ArgumentError
from agent_factory.prebuilt import create_react_agent
from agent_factory.review.records import RAN, with_edit, with_review
from agent_factory.testing import ScriptedChatModel, assert_valid_history
from reviews import Till, goes_on, payments
from samples import THREAD, results_by_id, tool_call
from tables import each

Act = Callable[..., Any]


def of_langchain(*args: Any, **options: Any) -> Any:
    return create_agent(*args, **options)


def react_v1(*args: Any, **options: Any) -> Any:
    return create_react_agent(*args, version="v1", **options)


def react_v2(*args: Any, **options: Any) -> Any:
    return create_react_agent(*args, version="v2", **options)


@pytest.fixture(params=[of_langchain, react_v1, react_v2], ids=lambda build: build.__name__)
def build(request: pytest.FixtureRequest) -> Act:
    """Each kind of agent: the node of the model is `model`, or `agent`."""
    made: Act = request.param
    return made


def stopped(build: Act, *script: Any, **options: Any) -> tuple[Any, Till]:
    """An agent that waits for a review, and what its tool does."""
    till = Till()
    options = {"interrupt_before": ["tools"], "checkpointer": InMemorySaver(), **options}
    agent = build(ScriptedChatModel(script), [till.pay], **options)
    agent.invoke({"messages": [("user", "Pay!")]}, THREAD)
    return agent, till


def test_pending_calls_are_listed(act: Act, build: Act) -> None:
    agent, _ = stopped(build, payments(1, 2))
    waiting = act("pending", agent)
    assert waiting
    assert [(c.id, c.name, c.args, c.kind) for c in waiting.calls] == [
        ("call_1", "pay", {"euros": 1}, "pause"),
        ("call_2", "pay", {"euros": 2}, "pause"),
    ]
    assert {call.allowed for call in waiting.calls} == {("approve", "edit", "reject", "respond")}


def test_a_model_cannot_claim_that_its_calls_were_approved(act: Act, build: Act) -> None:
    approvals = {"call_1": {"type": "approve"}, "call_2": {"type": "approve"}}
    claim = {"review": {"at": "tools", "decisions": approvals}}
    message = AIMessage("", tool_calls=payments(1, 2), response_metadata=claim)
    agent, till = stopped(build, message, "Done.")
    assert [call.decision for call in act("pending", agent).calls] == [None, None]
    act("approve", agent, "call_1")
    assert till.paid == []


def test_an_approved_call_waits_until_the_other_is_decided(act: Act, build: Act) -> None:
    """All calls of a turn stop and start together: the first decision is kept in the thread."""
    agent, till = stopped(build, payments(1, 2), "Done.")
    assert [m.type for m in act("approve", agent, "call_1")["messages"]] == ["human", "ai"]
    assert [call.id for call in act("pending", agent).open] == ["call_2"]
    assert not till.paid
    result = act("reject", agent, "Too much.")
    assert till.paid == [1]
    assert sorted(m.text for m in result["messages"][2:4]) == ["Too much.", "paid 1"]
    assert goes_on(agent)


def test_a_call_can_be_edited_into_a_call_of_another_tool(act: Act) -> None:
    till = Till()

    def ask_boss() -> str:
        """Ask the boss."""
        return "She says no."

    model = ScriptedChatModel([payments(100), "The boss says no."])
    agent = kept_agent(model, tools=[till.pay, ask_boss], interrupt_before=["tools"])
    agent.invoke({"messages": [("user", "Pay!")]}, THREAD)
    act("edit", agent, {}, name="ask_boss")
    assert not till.paid
    assert model.requests[1].messages[-1].text == "She says no."
    assert goes_on(agent)


@each("form", ["text", "message", "list", "input"])
def test_a_new_message_keeps_pending_calls_from_running(act: Act, build: Act, form: str) -> None:
    given: Any = {
        "text": "Stop!",
        "message": HumanMessage("Stop!"),
        "list": [("user", "Stop!")],
        "input": {"messages": [HumanMessage("Stop!")]},
    }[form]
    agent, till = stopped(build, payments(1, 2), "Stopped.")
    result = act("add_input", agent, given)
    assert [m.type for m in result["messages"]] == ["human", "ai", "tool", "tool", "human", "ai"]
    # The thread of a process that died in its tools looks the same.
    assert "It may have run" in result["messages"][3].text
    assert result["messages"][-2].text == "Stop!"
    assert not till.paid
    assert goes_on(agent)


def test_results_are_read_and_changed_before_the_model_reads_them(act: Act, build: Act) -> None:
    agent, _ = stopped(
        build, payments(1, 2), "Done.", interrupt_before=None, interrupt_after=["tools"]
    )
    calls = act("pending", agent).calls
    assert [(call.kind, call.question) for call in calls] == [
        ("result", "paid 1"),
        ("result", "paid 2"),
    ]
    assert {call.allowed for call in calls} == {("approve", "respond")}
    act("respond", agent, "[secret]", "call_2")
    result = act("approve", agent)
    assert [m.text for m in result["messages"][2:]] == ["paid 1", "[secret]", "Done."]
    assert goes_on(agent)


def test_a_call_that_has_run_can_not_be_rejected(act: Act, build: Act) -> None:
    agent, _ = stopped(build, payments(1), interrupt_before=None, interrupt_after=["tools"])
    with pytest.raises(review.DecisionNotAllowed, match=r"The call has run: respond\(\) changes"):
        act("reject", agent)


def test_several_calls_get_different_decisions_at_once(act: Act, build: Act) -> None:
    agent, till = stopped(build, payments(1, 2, 3, 4), "Done.")
    decisions = {
        "call_1": {"type": "approve"},
        "call_2": {"type": "reject", "message": "no"},
        "call_3": {"type": "edit", "edited_action": {"args": {"euros": 30}}},
        "call_4": {"type": "respond", "message": "paid by Ann"},
    }
    result = act("decide", agent, decisions)
    assert sorted(till.paid) == [1, 30]
    assert results_by_id(result) == {
        "call_1": "paid 1",
        "call_2": "no",
        "call_3": "paid 30",
        "call_4": "paid by Ann",
    }
    assert [c["args"]["euros"] for c in result["messages"][1].tool_calls] == [1, 2, 30, 4]
    assert [m.type for m in result["messages"]] == ["human", "ai", *["tool"] * 4, "ai"]
    assert goes_on(agent)


class Looks(AgentMiddleware[AgentState[Any], Any]):
    """A hook between the model and the tools."""

    def after_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> None:
        """Look, and change nothing."""


@each("stop", [{"interrupt_after": ["model"]}, {"interrupt_before": ["Looks.after_model"]}])
def test_a_stop_before_an_after_model_hook_is_reviewed(act: Act, stop: dict[str, Any]) -> None:
    options = {"interrupt_before": None, "middleware": [Looks()], **stop}
    agent, till = stopped(of_langchain, payments(1, 2), "Done.", **options)
    act("reject", agent, None, "call_1")
    while agent.get_state(THREAD).next:
        act("approve", agent)
    assert till.paid == [2]
    assert goes_on(agent)


def test_a_run_that_stops_at_every_node_continues_step_by_step(act: Act, build: Act) -> None:
    agent, till = stopped(build, payments(1), "Done.", interrupt_before="*")
    assert act("pending", agent).calls == ()
    with pytest.raises(review.NothingPending, match="no call is pending; next is"):
        act("reject", agent)
    while agent.get_state(THREAD).next:
        act("approve", agent)
    assert till.paid == [1]
    assert goes_on(agent)


def test_a_decision_about_an_earlier_checkpoint_starts_a_branch(act: Act, build: Act) -> None:
    agent, till = stopped(build, payments(1), "Done.", "I did not.")
    moment = agent.get_state(THREAD).config
    act("approve", agent)
    assert not review.pending(agent, THREAD)
    result = review.reject(agent, moment, "On second thoughts: no.")
    assert till.paid == [1]
    assert [m.text for m in result["messages"][2:]] == ["On second thoughts: no.", "I did not."]
    assert goes_on(agent)


def test_a_message_at_an_earlier_checkpoint_follows_what_the_thread_had_there(build: Act) -> None:
    agent, _ = stopped(build, payments(1), "Done.", "Instead.", interrupt_before=[])
    history = agent.get_state_history(THREAD)
    moment = next(state for state in history if len(state.values["messages"]) == 1)
    result = review.add_input(agent, moment.config, "Do not pay.")
    assert [m.text for m in result["messages"]] == ["Pay!", "Do not pay.", "Instead."]
    assert goes_on(agent)


def test_invalid_tool_calls_are_answered_by_the_tools_node(act: Act) -> None:
    bad: Any = {"type": "invalid_tool_call", "name": "pay", "args": "{", "id": "b", "error": None}
    said = AIMessage("", tool_calls=payments(1), invalid_tool_calls=[bad])
    agent, _ = stopped(of_langchain, said, "Done.")
    act("reject", agent)
    assert goes_on(agent)


def test_a_finished_thread_has_no_pending_calls(act: Act) -> None:
    agent, _ = stopped(of_langchain, "Hello!")
    assert not act("pending", agent)
    for name, more in (("approve", ()), ("edit", ({},)), ("add_input", ("Hi",)), ("decide", ({},))):
        with pytest.raises(review.NothingPending, match="AF331"):
            act(name, agent, *more)


@each(
    "name, more, error, words",
    [
        # An unknown id is reported with the pending ones.
        ("approve", ("call_9",), review.UnknownCall, r"'call_9'.*Pending: 'call_1' \(pay\)"),
        (
            "decide",
            ({"call_9": {"type": "approve"}},),
            review.UnknownCall,
            r"'call_9'.*Pending: 'call_1' \(pay\)",
        ),
        # Of several calls, one has to be named.
        ("edit", ({"euros": 1},), review.UnknownCall, "is needed: 2 calls are pending"),
        ("respond", ("paid",), review.UnknownCall, "is needed: 2 calls are pending"),
        *(
            (
                "decide",
                ({"call_1": decision},),
                review.InvalidDecision,
                r"a type \(approve, edit, reject, respond\)",
            )
            for decision in ("allow", {"type": "allow"}, {}, None)
        ),
        # Arguments of a wrong type
        ("edit", ("euros", "call_1"), review.InvalidDecision, "a dict with all of its arguments"),
        ("respond", (5, "call_1"), review.InvalidDecision, r"must be a string, got int \(5\)"),
        ("add_input", (5,), ArgumentError, "must be a string, a message or a list of messages"),
    ],
)
def test_a_mistake_changes_nothing(act: Act, name: str, more: Any, error: Any, words: str) -> None:
    agent, _ = stopped(of_langchain, payments(1, 2))
    with pytest.raises(error, match=words):
        act(name, agent, *more)
    assert [call.id for call in act("pending", agent).open] == ["call_1", "call_2"]


def test_a_thread_is_needed() -> None:
    kept = create_agent(ScriptedChatModel([]), checkpointer=InMemorySaver())
    unkept = create_agent(ScriptedChatModel([]))
    cases: list[tuple[Any, Any]] = [(unkept, THREAD), (kept, {})]
    for agent, config in cases:
        with pytest.raises(review.NoThread, match="AF335"):
            review.pending(agent, config)
    assert not review.pending(kept.with_config(THREAD), {})


ACTIONS: Any = [
    ("approve", ()),
    ("reject", ()),
    ("edit", ({},)),
    ("respond", ("x",)),
    ("decide", ({},)),
    ("add_input", ("Hello",)),
]


@each("action, more", ACTIONS)
def test_a_thread_that_does_not_exist_is_named(act: Act, action: str, more: Any) -> None:
    agent = create_agent(ScriptedChatModel([]), checkpointer=InMemorySaver())
    with pytest.raises(
        review.NoThread, match=r"thread '1': does not exist: .* no checkpoint of it"
    ):
        act(action, agent, *more)
    assert not act("pending", agent)


@each(
    "config, problem",
    [
        ({}, r"config: must have a thread_id.*Pass \{'configurable': \{'thread_id'"),
        ({"configurable": {}}, "must have a thread_id"),
        ({"configurable": None}, "must have a thread_id"),
        ({"configurable": {"thread_id": None}}, "must have a thread_id"),
        ({"configurable": {"thread_id": ""}}, "must have a thread_id"),
        ({"thread_id": "1"}, r"must have a thread_id.*Pass \{'configurable': \{'thread_id'"),
        (None, "must be a dict with a thread_id, got NoneType"),
        ("1", r"must be a dict with a thread_id, got str \('1'\)"),
    ],
)
@each("action, more", [*ACTIONS, ("pending", ())])
def test_configs_without_thread_are_refused(
    action: str, more: Any, config: Any, problem: str
) -> None:
    agent = create_agent(ScriptedChatModel([]), checkpointer=InMemorySaver())
    with pytest.raises(review.NoThread, match=problem):
        getattr(review, action)(agent, config, *more)
    with pytest.raises(review.NoThread, match=problem):
        asyncio.run(getattr(review, f"a{action}")(agent, config, *more))


def asking(till: Till, *script: Any, **options: Any) -> Any:
    """An agent of create_react_agent that waits for a review."""
    model, saver = ScriptedChatModel(script), InMemorySaver()
    agent: Any = create_react_agent(model, [till.pay], checkpointer=saver, **options)
    agent.invoke({"messages": [("user", "Pay!")]}, THREAD)
    return agent


def to_the_end(act: Act, agent: Any) -> None:
    """A stop before the hook holds the answer up as well, with no call to decide about."""
    while waiting := act("pending", agent):
        assert not waiting.calls
        act("approve", agent)


def ends_well(agent: Any) -> bool:
    state = agent.get_state(THREAD)
    assert_valid_history(state.values["messages"])
    return bool(state.next == () and state.values["messages"][-1].text == "Done.")


@each("stop", ["tools", "post_model_hook"])
def test_a_react_agent_with_hooks_is_reviewed_before_and_after_them(act: Act, stop: str) -> None:
    till = Till()
    agent = asking(
        till,
        payments(1, 2, 3),
        "Done.",
        pre_model_hook=lambda state: {"llm_input_messages": state["messages"]},
        post_model_hook=lambda state: {},
        interrupt_before=[stop],
    )
    act("reject", agent, "no", "call_1")
    act("edit", agent, {"euros": 20}, "call_2")
    act("approve", agent)
    to_the_end(act, agent)
    assert sorted(till.paid) == [3, 20]
    assert ends_well(agent)


def test_an_id_that_the_model_reuses_is_a_separate_call(act: Act) -> None:
    till = Till()
    agent = asking(till, payments(1), payments(1), "Done.", interrupt_before=["tools"])
    act("reject", agent)
    act("approve", agent)
    assert till.paid == [1]
    assert ends_well(agent)


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


QUESTION: Any = {"messages": [("user", "2 + 3?")]}


def add(a: int, b: int = 3) -> int:
    """Add two numbers."""
    return a + b


def ask(about: str) -> str:
    """Ask a person."""
    return str(interrupt(about))


def called(*numbers: int) -> list[dict[str, Any]]:
    return [{"name": "add", "args": {"a": n}, "id": f"call_{n}"} for n in numbers]


def paused(*script: Any, call: Act, **options: Any) -> Any:
    """An agent that stopped before its tools, or as the options say."""
    options = {"interrupt_before": ["tools"], "checkpointer": InMemorySaver(), **options}
    agent = create_agent(ScriptedChatModel(script), [add], **options)
    call(agent, QUESTION, THREAD)
    return agent


def texts(agent: Any) -> list[str]:
    return [m.text for m in agent.get_state(THREAD).values["messages"]]


def last(agent: Any) -> Any:
    return agent.get_state(THREAD).values["messages"][-1]


def test_the_start_is_a_node_to_write_as_and_the_end_is_not(call: Act) -> None:
    agent = paused(called(2), "Hello!", call=call)
    with pytest.raises(InvalidUpdateError, match="Node __end__ does not exist"):
        agent.update_state(THREAD, {"messages": [HumanMessage("Hi")]}, as_node="__end__")
    both = [AIMessage("", id=last(agent).id), HumanMessage("Hi")]
    agent.update_state(THREAD, {"messages": both}, as_node="__start__")
    assert agent.get_state(THREAD).next == ("model",)
    assert_valid_history(call(agent, None, THREAD)["messages"])
    assert texts(agent) == ["2 + 3?", "", "Hi", "Hello!"]
