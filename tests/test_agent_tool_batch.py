"""A subagent with several requests in one call: at once, each by itself, under one budget."""

from __future__ import annotations

import asyncio
from threading import Barrier
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from agent_factory import (
    agent_tool,
    background,
    before_model,
    create_agent,
    plan_agent,
    topology_of,
)
from agent_factory.errors import ArgumentError, TurnError
from agent_factory.middleware import (
    BackgroundMiddleware,
    BudgetMiddleware,
    HumanInTheLoopMiddleware,
    Ledger,
    Limits,
)
from agent_factory.testing import ScriptedChatModel, assert_valid_history
from reviews import THREAD, Till, payments
from samples import last_text, tool_results
from tables import each

HI: Any = {"messages": [("user", "Pay!")]}


def asks(*requests: str) -> list[dict[str, Any]]:
    return [{"name": "clerk", "args": {"requests": list(requests)}, "id": "outer"}]


def pays(messages: Any) -> Any:
    """Pays the euros that the request names, and says what the till answers."""
    last = messages[-1]
    return payments(int(last.text)) if last.type == "human" else f"Result: {last.text}"


def clerk(step: Any, *tools: Any, max_requests: int | None = 9, **options: Any) -> Any:
    """The tool of a clerk that answers any number of times by a function of its messages."""
    model = ScriptedChatModel([step] * 500)
    agent = create_agent(model, tools, **{"name": "clerk", "ignore": ["AF211"], **options})
    return agent_tool(agent, description="Pays money.", max_requests=max_requests)


def boss(tool: Any, *script: Any, **options: Any) -> Any:
    model = ScriptedChatModel([*script, "Done."])
    return create_agent(model, [tool], **{"checkpointer": InMemorySaver(), **options})


def result_of(result: Any) -> str:
    ((text, status),) = tool_results(result)
    assert status == "success"
    return str(text)


@each("saver", [None, InMemorySaver])
def test_the_answers_are_one_result_in_the_order_of_the_requests(
    call: Any, fused: Any, saver: Any
) -> None:
    tool = clerk(lambda messages: f"{messages[0].text} is paid.")
    requests = ("Rent", "Gas", "Tax")
    agent = boss(tool, asks(*requests), fused=fused, checkpointer=saver and saver())
    result = call(agent, HI, THREAD)
    parts = [f"Request {n} of 3:\n{what} is paid." for n, what in enumerate(requests, 1)]
    assert result_of(result).split("\n\n") == parts
    assert last_text(result) == "Done."


def test_all_requests_are_under_way_at_once(call: Any) -> None:
    meeting = Barrier(4)

    def meet() -> str:
        """Meet the others."""
        meeting.wait(60)  # passes when four wait here
        return "met"

    def step(messages: Any) -> Any:
        return [{"name": "meet"}] if messages[-1].type == "human" else "We have met."

    result = call(boss(clerk(step, meet), asks("a", "b", "c", "d")), HI, THREAD)
    assert result_of(result).count("We have met.") == 4


def fails_at(*words: str) -> Any:
    def step(messages: Any) -> str:
        if messages[0].text in words:
            raise ConnectionError("the line is dead")
        return "Fine."

    return step


def test_a_request_that_fails_or_hands_over_costs_only_itself(call: Any, fused: Any) -> None:
    def hand_over() -> Command[Any]:
        """Hand over."""
        return Command(graph=Command.PARENT, goto="billing")

    def step(messages: Any) -> Any:
        word = messages[0].text
        return [{"name": "hand_over"}] if word == "a" else fails_at("b")(messages)

    agent = boss(clerk(step, hand_over), asks("a", "b", "c"), fused=fused)
    assert result_of(call(agent, HI, THREAD)).split("\n\n") == [
        "Request 1 of 3 failed:\nIt handed over to another agent, which one of several cannot.",
        "Request 2 of 3 failed:\nConnectionError: the line is dead",
        "Request 3 of 3:\nFine.",
    ]


@each("requests", [["a", "b"], [], ["a"] * 10, "a", [3]])
def test_a_call_whose_requests_all_fail_or_are_no_list_of_this_size_has_failed(
    call: Any, requests: Any
) -> None:
    asked = [{"name": "clerk", "args": {"requests": requests}, "id": "outer"}]
    tool, reason = clerk(fails_at("a", "b")), "requests"
    if requests == ["a", "b"]:
        reason = "the line is dead"
        with pytest.raises(
            TurnError, match=rf"clerk: failed for each .* ConnectionError: {reason}"
        ):
            call(boss(tool, asked), HI, THREAD)
    options = {"handle_tool_errors": True} if requests == ["a", "b"] else {}
    result = call(boss(tool, asked, **options), HI, THREAD)
    ((text, status),) = tool_results(result)
    assert (reason in text, status) == (True, "error")


# Reviews


@each("in_one_call", [True, False])
def test_each_request_waits_for_its_review_and_is_answered_in_any_order(
    act: Any, mode: Any, fused: Any, in_one_call: bool
) -> None:
    till, numbers = Till(), ("1", "2", "3")
    reviews = HumanInTheLoopMiddleware({"pay": True}, interrupt_mode=mode)
    most = 9 if in_one_call else None
    tool = clerk(pays, till.pay, middleware=[reviews], max_requests=most)
    calls = [{"name": "clerk", "args": {"request": number}, "id": number} for number in numbers]
    agent = boss(tool, asks(*numbers) if in_one_call else calls, fused=fused)
    agent.invoke(HI, THREAD)
    waiting = {call.args["euros"]: call for call in act("pending", agent).calls}
    assert sorted(waiting) == [1, 2, 3]
    act("reject", agent, "No.", waiting[2].digest)
    act("approve", agent, waiting[3].digest)
    assert till.paid == [3]
    (left,) = act("pending", agent).calls
    assert left.digest == waiting[1].digest
    result = act("approve", agent)
    assert till.paid == [3, 1]
    answers = ["Result: paid 1", "Result: No.", "Result: paid 3"]
    if in_one_call:
        parts = [f"Request {n} of 3:\n{answer}" for n, answer in enumerate(answers, 1)]
        answers = ["\n\n".join(parts)]
    assert tool_results(result) == [(answer, "success") for answer in answers]
    assert_valid_history(result["messages"])


def test_one_that_waits_alone_takes_a_plain_resume_and_the_others_do_not_run_again(
    call: Any, mode: Any, fused: Any
) -> None:
    till, asked = Till(), []

    def step(messages: Any) -> Any:
        asked.append(messages[-1].text)
        return pays(messages) if messages[0].text == "2" else "Nothing to pay."

    reviews = HumanInTheLoopMiddleware({"pay": True}, interrupt_mode=mode)
    tool = clerk(step, till.pay, middleware=[reviews])
    agent = boss(tool, asks("1", "2", "3"), fused=fused)
    assert len(call(agent, HI, THREAD)["__interrupt__"]) == 1
    before = len(asked)
    approval: Any = {"type": "approve"}
    answer = {"decisions": [approval]} if mode == "batched" else approval
    result = call(agent, Command(resume=answer), THREAD)
    assert (till.paid, asked[before:]) == ([2], ["paid 2"])
    assert "Request 2 of 3:\nResult: paid 2" in result_of(result)


def test_a_run_that_was_killed_goes_on_where_it_was(call: Any) -> None:
    class Killed(BaseException):
        """Nothing catches it, as nothing catches the end of a process."""

    asked: list[str] = []

    @before_model
    def dies_once(state: Any, runtime: Any) -> None:
        asked.append(state["messages"][0].text)
        if len(asked) == 2:
            raise Killed

    tool = clerk(lambda m: f"{m[0].text} is done.", middleware=[dies_once])
    agent = boss(tool, asks("a", "b"))
    config: Any = {**THREAD, "max_concurrency": 1}
    with pytest.raises(Killed):
        call(agent, HI, config)
    result = call(agent, None, config)
    assert asked in (["a", "b", "b"], ["b", "a", "a"])
    parts = [part.partition("\n")[2] for part in result_of(result).split("\n\n")]
    assert parts == ["a is done.", "b is done."]


# Limits and the plan


@pytest.mark.long
@pytest.mark.law
@pytest.mark.timeout(1800)
@given(
    limit=st.integers(0, 30),
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    asynchronous=st.booleans(),
)
def test_one_ledger_holds_for_all_requests_and_is_never_passed(
    limit: int, sizes: list[int], asynchronous: bool
) -> None:
    calls: list[int] = []

    def step(messages: Any) -> str:
        calls.append(1)
        return "Fine."

    ledger = Ledger(Limits(turns=limit))
    budget = BudgetMiddleware(ledger=ledger, warn_at=None)
    tool = clerk(step, middleware=[budget])
    agent = boss(tool, *[asks(*"abcdefghi"[:size]) for size in sizes])
    invoked = asyncio.run(agent.ainvoke(HI, THREAD)) if asynchronous else None
    result = invoked or agent.invoke(HI, THREAD)
    assert len(calls) == min(limit, sum(sizes))
    assert ledger.spent.turns == len(calls)
    assert last_text(result) == "Done."


def test_the_plan_shows_the_batch_and_another_one_is_a_change() -> None:
    few, many, one = (plan_agent(tools=[clerk(pays, max_requests=n)]) for n in (5, 500, None))
    assert "up to 5 requests a call" in few.render()
    assert "requests" not in one.render()
    assert len({few.digest, many.digest, one.digest}) == 3
    assert "changed tool clerk: was up to 5 requests a call" in str(few.diff(many))


def test_a_background_call_with_several_requests_is_one_job() -> None:
    tool = background(clerk(lambda m: f"{m[0].text} is paid.", checkpointer=InMemorySaver()))
    model = ScriptedChatModel([asks("Rent", "Gas"), "I wait.", "Done."])
    agent = create_agent(
        model, [tool], middleware=[BackgroundMiddleware()], checkpointer=InMemorySaver()
    )
    messages = agent.invoke(HI, THREAD)["messages"]
    (result,) = [message.text for message in messages if message.name == "background"]
    assert "Request 1 of 2:\nRent is paid.\n\nRequest 2 of 2:\nGas is paid." in result
    assert topology_of(agent).tools[0].max_requests == 9


@pytest.mark.filterwarnings("ignore:The v3 streaming protocol")
def test_a_stream_shows_the_call_as_a_subagent_that_has_one_for_each_request() -> None:
    agent = boss(clerk(lambda m: f"{m[0].text} is paid."), asks("Rent", "Gas"))
    stream: Any = agent.stream_events(HI, THREAD, version="v3")
    shown = [
        (batch.name, [(each.name, each.output["messages"][-1].text) for each in batch.subagents])
        for batch in stream.subagents
    ]
    ((name, answers),) = shown
    assert name == "clerk"
    assert sorted(answers) == [("clerk", "Gas is paid."), ("clerk", "Rent is paid.")]


@each("max_requests", [0, -1, True, 2.0, "5"])
def test_another_number_of_requests_is_refused(max_requests: Any) -> None:
    with pytest.raises(ArgumentError, match=r"max_requests: must be a positive number of req"):
        clerk(pays, max_requests=max_requests)
