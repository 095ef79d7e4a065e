"""Calls that others run: a subagent, whose reviews reach the outer thread, or a client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from threading import Barrier
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import MessagesState, StateGraph
from langgraph.prebuilt import ToolNode as LangGraphToolNode
from langgraph.types import Command
from pydantic import BaseModel
from stack_agents import kept_agent

from agent_factory import (
    ToolNode,
    agent_tool,
    background,
    before_model,
    client_tool,
    create_agent,
    create_react_agent,
    plan_agent,
    tools_condition,
    topology_of,
)
from agent_factory import middleware as m
from agent_factory.errors import ArgumentError, NothingPending, TurnError
from agent_factory.review import DecisionNotAllowed, InvalidAnswer, approve, pending, respond
from agent_factory.testing import ScriptedChatModel, assert_valid_history
from reviews import Till, payments
from samples import THREAD, Killed, add, call_of, last_text, tool_results
from tables import each

Run = Callable[..., Any]

HI: Any = {"messages": [("user", "Pay!")]}


def asks(*requests: str) -> list[dict[str, Any]]:
    return [{"name": "clerk", "args": {"request": r}, "id": f"outer_{r}"} for r in requests]


def clerk_tool(
    till: Till, *script: Any, mode: Any = "batched", max_requests: Any = None, **options: Any
) -> Any:
    clerk = create_agent(
        ScriptedChatModel([*script]),
        [till.pay],
        middleware=[m.HumanInTheLoopMiddleware({"pay": True}, interrupt_mode=mode)],
        **{"name": "clerk", "ignore": ["AF211"], **options},
    )
    return agent_tool(clerk, description="Pays money.", max_requests=max_requests)


def test_the_words_of_a_refusal_are_the_result_of_a_subagent() -> None:
    no = AIMessage("", additional_kwargs={"refusal": "I pay nobody."})
    clerk = create_agent(ScriptedChatModel([no]), name="clerk")
    assert agent_tool(clerk, description="Pays.").invoke({"request": "Pay!"}) == "I pay nobody."


def test_a_structured_answer_is_the_result_as_json(call: Run) -> None:
    class Bill(BaseModel):
        euros: int

    model = ScriptedChatModel([[{"name": "Bill", "args": {"euros": 3}}]])
    tool = agent_tool(create_agent(model, response_format=Bill), name="clerk", description="Bills.")
    result = call(boss(tool, asks("a")), HI, THREAD)
    assert tool_results(result) == [('{"euros":3}', "success")]


@each(
    "agent_name, tool_name, seen",
    [("clerk", None, "clerk"), (None, "clerk", "clerk"), ("Cara", "clerk", "Cara")],
)
def test_the_name_of_the_subagent_is_in_the_metadata_of_its_run(
    call: Run, agent_name: Any, tool_name: Any, seen: str
) -> None:
    model, found = ScriptedChatModel([[{"name": "look"}], "Ann has it."]), list[Any]()

    def look(config: RunnableConfig) -> str:
        """Look."""
        found.append(config["metadata"])
        return "seen"

    clerk = create_agent(model, [look], name=agent_name)
    tool = agent_tool(clerk, name=tool_name, description="Pays money.")
    assert (tool.name, tool.description, list(tool.args)) == ("clerk", "Pays money.", ["request"])
    result = call(boss(tool, asks("Well?")), HI, {**THREAD, "metadata": {"user": "Ann"}})
    assert [m.text for m in model.requests[0].messages] == ["Well?"]  # the request alone
    assert tool_results(result) == [("Ann has it.", "success")]
    assert result["messages"][2].name == "clerk"
    (metadata,) = found
    assert (metadata["lc_agent_name"], metadata["user"]) == (seen, "Ann")


@each("checkpointer", [None, InMemorySaver()])
def test_a_review_in_the_subagent_is_answered_through_the_outer_thread(
    call: Run, mode: Any, fused: Any, checkpointer: Any
) -> None:
    till = Till()
    tool = clerk_tool(till, payments(1), "Paid.", mode=mode, fused=fused, checkpointer=checkpointer)
    agent = boss(tool, asks("a"), fused=fused)
    (asked,) = call(agent, HI, THREAD)["__interrupt__"]
    assert till.paid == []
    approval = {"type": "approve"}
    answer = {"decisions": [approval]} if mode == "batched" else approval
    result = call(agent, Command(resume={asked.id: answer}), THREAD)
    assert till.paid == [1]
    assert tool_results(result) == [("Paid.", "success")]
    assert_valid_history(result["messages"])


def test_reviews_in_one_run_of_the_subagent_are_decided_one_after_the_other(
    act: Run, mode: Any, fused: Any
) -> None:
    till = Till()
    tool = clerk_tool(till, payments(1), payments(200), payments(3), "Paid.", mode=mode)
    agent = boss(tool, asks("a"), fused=fused)
    agent.invoke(HI, THREAD)
    act("approve", agent)
    assert till.paid == [1]
    assert [call.args for call in act("pending", agent).calls] == [{"euros": 200}]
    act("edit", agent, {"euros": 20})
    result = act("reject", agent, "Enough.")
    assert till.paid == [1, 20]
    assert tool_results(result) == [("Paid.", "success")]
    assert last_text(result) == "Done."


def test_an_interrupt_outside_of_a_run_is_refused_with_the_reason() -> None:
    for number, argument in ((None, {"request": "Pay!"}), (9, {"requests": ["1", "2"]})):
        script = [payments(1)] * 2
        tool = clerk_tool(Till(), *script, max_requests=number, checkpointer=InMemorySaver())
        with pytest.raises(TurnError, match=r"clerk: was interrupted, and no outer agent"):
            tool.invoke(argument, {"configurable": {"thread_id": "1"}})


@each(
    "arguments, problem",
    [
        ({"agent": "clerk"}, r"agent must be a compiled agent, got str"),
        ({"name": ""}, r"name must be a non-empty string, got str \(''\)"),
        ({"name": None}, r"name is required: .* has no name"),
        ({"description": " "}, r"description must be a non-empty string"),
        ({"description": None}, r"description must be a non-empty string"),
    ],
)
def test_wrong_arguments_are_refused(arguments: Any, problem: str) -> None:
    given: Any = {"name": "clerk", "description": "Pays.", "agent": None, **arguments}
    agent = given.pop("agent") or create_agent(ScriptedChatModel([]))
    with pytest.raises(ArgumentError, match=problem.replace(" ", r"\W+", 1)):
        agent_tool(agent, **given)


def batch(*requests: str) -> list[dict[str, Any]]:
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
    agent = boss(tool, batch(*requests), fused=fused, checkpointer=saver and saver())
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

    result = call(boss(clerk(step, meet), batch("a", "b", "c", "d")), HI, THREAD)
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

    agent = boss(clerk(step, hand_over), batch("a", "b", "c"), fused=fused)
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
    ((text, status),) = tool_results(call(boss(tool, asked, **options), HI, THREAD))
    assert (reason in text, status) == (True, "error")


@each("in_one_call", [True, False])
def test_each_request_waits_for_its_review_and_is_answered_in_any_order(
    act: Any, mode: Any, fused: Any, in_one_call: bool
) -> None:
    till, numbers = Till(), ("1", "2", "3")
    reviews = m.HumanInTheLoopMiddleware({"pay": True}, interrupt_mode=mode)
    most = 9 if in_one_call else None
    tool = clerk(pays, till.pay, middleware=[reviews], max_requests=most)
    calls = [{"name": "clerk", "args": {"request": number}, "id": number} for number in numbers]
    agent = boss(tool, batch(*numbers) if in_one_call else calls, fused=fused)
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

    reviews = m.HumanInTheLoopMiddleware({"pay": True}, interrupt_mode=mode)
    tool = clerk(step, till.pay, middleware=[reviews])
    agent = boss(tool, batch("1", "2", "3"), fused=fused)
    assert len(call(agent, HI, THREAD)["__interrupt__"]) == 1
    before = len(asked)
    approval: Any = {"type": "approve"}
    answer = {"decisions": [approval]} if mode == "batched" else approval
    result = call(agent, Command(resume=answer), THREAD)
    assert (till.paid, asked[before:]) == ([2], ["paid 2"])
    assert "Request 2 of 3:\nResult: paid 2" in result_of(result)


def test_a_run_that_was_killed_goes_on_where_it_was(call: Any) -> None:
    asked: list[str] = []

    @before_model
    def dies_once(state: Any, runtime: Any) -> None:
        asked.append(state["messages"][0].text)
        if len(asked) == 2:
            raise Killed

    tool = clerk(lambda m: f"{m[0].text} is done.", middleware=[dies_once])
    agent = boss(tool, batch("a", "b"))
    config: Any = {**THREAD, "max_concurrency": 1}
    with pytest.raises(Killed):
        call(agent, HI, config)
    result = call(agent, None, config)
    assert asked in (["a", "b", "b"], ["b", "a", "a"])
    parts = [part.partition("\n")[2] for part in result_of(result).split("\n\n")]
    assert parts == ["a is done.", "b is done."]


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

    ledger = m.Ledger(m.Limits(turns=limit))
    tool = clerk(step, middleware=[m.BudgetMiddleware(ledger=ledger, warn_at=None)])
    agent = boss(tool, *[batch(*"abcdefghi"[:size]) for size in sizes])
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
    model = ScriptedChatModel([batch("Rent", "Gas"), "I wait.", "Done."])
    agent = kept_agent(model, m.BackgroundMiddleware(), tools=[tool])
    messages = agent.invoke(HI, THREAD)["messages"]
    (result,) = [message.text for message in messages if message.name == "background"]
    assert "Request 1 of 2:\nRent is paid.\n\nRequest 2 of 2:\nGas is paid." in result
    assert topology_of(agent).tools[0].max_requests == 9


@pytest.mark.filterwarnings("ignore:The v3 streaming protocol")
def test_a_stream_shows_the_call_as_a_subagent_that_has_one_for_each_request() -> None:
    agent = boss(clerk(lambda m: f"{m[0].text} is paid."), batch("Rent", "Gas"))
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


ASK: Any = {"messages": [("user", "Go")]}
TITLE = client_tool("title", "The title of the page.")
GO = client_tool(
    "go",
    "Go to a page.",
    {"type": "object", "properties": {"page": {"type": "string"}}, "required": ["page"]},
)


def agent_of(steps: list[Any], *tools: Any, saver: Any = None, **options: Any) -> Any:
    saver = saver or InMemorySaver()
    return create_agent(ScriptedChatModel(steps), tools, checkpointer=saver, **options)


def interrupts(result: Any) -> list[dict[str, Any]]:
    """The values of the interrupts of a result."""
    return [interrupt.value for interrupt in result["__interrupt__"]]


def results_of(result: Any) -> dict[str, tuple[Any, str]]:
    """The results of calls, by the ids of the calls."""
    messages = [message for message in result["messages"] if isinstance(message, ToolMessage)]
    return {message.tool_call_id: (message.content, message.status) for message in messages}


@each(
    "answer, content, status",
    [
        ("Orders", "Orders", "success"),
        ("", "", "success"),
        ([{"type": "text", "text": "Orders"}],) * 2 + ("success",),
        ({"error": "No page."}, "No page.", "error"),
        ({"content": "Orders"}, "Orders", "success"),
    ],
)
@each("fused", [True, False])
def test_the_result_of_the_client_is_that_of_the_call(
    call: Any, fused: bool, answer: Any, content: Any, status: str
) -> None:
    agent = agent_of([[call_of("go", page="home")], "There."], GO, fused=fused)
    first = call(agent, ASK, THREAD)
    value = {"type": "client_tool_call", "id": "call_1", "name": "go", "args": {"page": "home"}}
    assert interrupts(first) == [value]
    result = call(agent, Command(resume=answer), THREAD)
    assert results_of(result) == {"call_1": (content, status)}
    assert last_text(result) == "There."


WRONG: Any = [None, 5, {"title": "x"}, [], ["x"], {}, {"content": None}, {"error": 5}]
WRONG += [{"content": "x", "error": "y"}, [{"text": "x"}]]
LAYERS: list[dict[str, Any]] = [
    {"handle_tool_errors": True},
    {"middleware": [m.ToolErrorMiddleware()]},
    {"middleware": [m.ToolRetryMiddleware(max_retries=2, initial_delay=0)]},
]


@each("answer, options", [*((answer, {}) for answer in WRONG), *((5, o) for o in LAYERS)])
def test_another_answer_is_refused_by_no_handler_of_errors_and_can_be_given_again(
    call: Any, answer: Any, options: Any
) -> None:
    agent = agent_of([[call_of("title")], "Done."], TITLE, **options)
    (interrupt,) = call(agent, ASK, THREAD)["__interrupt__"]
    with pytest.raises(InvalidAnswer, match="must be a text, content blocks or an error, got"):
        call(agent, Command(resume={interrupt.id: answer}), THREAD)
    result = call(agent, Command(resume={"error": "No page."}), THREAD)
    assert results_of(result) == {"call_1": ("No page.", "error")}
    assert last_text(result) == "Done."


def react(model: Any, saver: Any) -> Any:
    return create_react_agent(model, [TITLE], checkpointer=saver)


def langgraphs(model: Any, saver: Any, node: Any = LangGraphToolNode) -> Any:
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_node("tools", node([TITLE]))
    graph.set_entry_point("model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile(checkpointer=saver)


@each("build", [react, langgraphs, partial(langgraphs, node=ToolNode)])
def test_other_graphs_with_a_client_tool(call: Any, build: Any) -> None:
    graph = build(ScriptedChatModel([[call_of("title")], "Done."]), InMemorySaver())
    assert interrupts(call(graph, ASK, THREAD))[0]["id"] == "call_1"
    (wait,) = pending(graph, THREAD).calls
    assert (wait.id, wait.kind) == ("call_1", "client")
    result = call(graph, Command(resume="Orders"), THREAD)
    assert results_of(result) == {"call_1": ("Orders", "success")}


@each("fused", [True, False])
def test_calls_with_server_tools_and_reviews(call: Any, fused: bool) -> None:
    calls = [
        call_of("title", 1),
        call_of("add", 2, a=1, b=2),
        call_of("go", 3, page="home"),
        call_of("add", 4, a=5, b=5),
    ]
    review = m.HumanInTheLoopMiddleware({"go": True}, interrupt_mode="per_call")
    layers = [review, m.ToolErrorMiddleware()]
    agent = agent_of([calls, "Done."], TITLE, GO, add, middleware=layers, fused=fused)
    first = call(agent, ASK, THREAD)
    kinds = {call.name: call.kind for call in pending(agent, THREAD).calls}
    assert kinds == {"title": "client", "go": "review"}
    titles = {i.value["name"]: i.id for i in first["__interrupt__"]}
    resume = {titles["title"]: "Orders", titles["go"]: {"type": "approve"}}
    second = call(agent, Command(resume=resume), THREAD)
    assert [value["name"] for value in interrupts(second)] == ["go"]
    result = call(agent, Command(resume={"error": "lost"}), THREAD)
    assert results_of(result) == {
        "call_1": ("Orders", "success"),
        "call_2": ("3", "success"),
        "call_3": ("lost", "error"),
        "call_4": ("10", "success"),
    }


def in_graph(inner: Any) -> Any:
    graph = StateGraph(MessagesState).add_node("inner", inner).set_entry_point("inner")
    return graph.compile(checkpointer=InMemorySaver())


def as_tool(inner: Any) -> Any:
    tool = agent_tool(inner, name="helper", description="Helps.")
    return agent_of([[call_of("helper", 7, request="Help")], "Outer done."], tool)


@each("around", [in_graph, as_tool])
@each("fused", [True, False])
def test_an_agent_inside(call: Any, fused: bool, around: Any) -> None:
    model = ScriptedChatModel([[call_of("title")], "Inner done."])
    outer = around(create_agent(model, [TITLE], name="inner", fused=fused))
    assert [value["id"] for value in interrupts(call(outer, ASK, THREAD))] == ["call_1"]
    (wait,) = pending(outer, THREAD).calls
    assert (wait.id, wait.name, wait.kind) == ("call_1", "title", "client")
    result = call(outer, Command(resume="Orders"), THREAD)
    assert "done." in last_text(result)
    assert "__interrupt__" not in result


def test_a_thread_goes_on_in_another_process(call: Any) -> None:
    saver = InMemorySaver()
    call(agent_of([[call_of("title")]], TITLE, saver=saver), ASK, THREAD)
    agent = agent_of(["Done."], TITLE, saver=saver)
    (wait,) = pending(agent, THREAD).calls
    assert (wait.id, wait.name, wait.args, wait.allowed) == ("call_1", "title", {}, ("respond",))
    with pytest.raises(DecisionNotAllowed, match="The client runs this call"):
        approve(agent, THREAD)
    with pytest.raises(InvalidAnswer, match="must be a text"):
        respond(agent, THREAD, {"x": 1})
    assert results_of(respond(agent, THREAD, "Orders")) == {"call_1": ("Orders", "success")}
    with pytest.raises(NothingPending):
        respond(agent, THREAD, "Orders")
    with pytest.raises(NothingPending):
        call(agent, Command(resume="Orders"), THREAD)


def test_arguments_that_do_not_fit_are_reported_to_the_model(call: Any) -> None:
    agent = agent_of([[call_of("go", page=5)], [call_of("go", 2, page="a")], "Done."], GO)
    first = call(agent, ASK, THREAD)
    assert [value["id"] for value in interrupts(first)] == ["call_2"]
    (content, status) = results_of(first)["call_1"]
    assert "page: 5 is not of type 'string'" in content
    assert status == "error"


def test_a_parameter_may_have_any_name(call: Any) -> None:
    names = ["self", "input", "config", "run_manager", "runtime", "state", "args", "tool_input"]
    properties = {name: {"type": "string"} for name in names}
    tool = client_tool("any", "Takes any.", {"type": "object", "properties": properties})
    args = dict.fromkeys(names, "x")
    agent = agent_of([[{"name": "any", "args": args, "id": "call_1"}], "Done."], tool)
    assert interrupts(call(agent, ASK, THREAD))[0]["args"] == args


class Page(BaseModel):
    page: str


def test_a_schema_may_be_a_model() -> None:
    assert client_tool("go", "Go.", Page).args_schema["required"] == ["page"]
    assert client_tool("go", "Go.").args == {}


@each(
    "arguments, text",
    [
        (("a b", "x"), "name: must have 1 to 64 letters"),
        (("", "x"), "name: must have 1 to 64 letters"),
        (("n" * 65, "x"), "name: must have 1 to 64 letters"),
        ((5, "x"), "name: must have 1 to 64 letters"),
        (("a", None), "description: must be a string, got None"),
        (("a", "x", []), "schema: must be a JSON schema"),
        (("a", "x", {"type": "string"}), "must be of the type 'object'"),
        (("a", "x", {"properties": {"p": {"type": "strin"}}}), "is not a JSON schema"),
        (("a", "x", {"properties": {"p": {"$ref": "http://x"}}}), "is not a JSON schema"),
        (("a", "x", {"description": "x" * 70_000}), "at most 65,536"),
        (("a", "x" * 70_000), "at most 65,536"),
    ],
)
def test_what_cannot_be_a_tool_is_refused(arguments: Any, text: str) -> None:
    with pytest.raises(ArgumentError, match=text):
        client_tool(*arguments)
