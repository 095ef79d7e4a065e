"""What runs are started with: what LangGraph would drop, and reviews that nobody has made."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, Overwrite, interrupt

from agent_factory import (
    AgentFactoryWarning,
    AgentMiddleware,
    AgentState,
    create_agent,
    create_react_agent,
    hook_config,
    review,
    tools_of,
)
from agent_factory.errors import ArgumentError, NothingPending, NoThread, UnknownCall, UnknownInput
from agent_factory.middleware import HumanInTheLoopMiddleware, TodoListMiddleware
from agent_factory.review.records import call_digest
from agent_factory.testing import ScriptedChatModel
from reviews import Till, ask
from samples import THREAD, add, last_text, tool_results
from tables import each

HI: Any = {"messages": [("user", "Hi")]}
ADD = [{"name": "add", "args": {"a": 1, "b": 2}, "id": "1"}]


class Around(AgentMiddleware):
    """A layer around runs, which sees none that does not start."""

    def __init__(self) -> None:
        super().__init__()
        self.runs = 0

    def around_agent(self, state: Any) -> Any:
        self.runs += 1
        return (yield state)


def made(kind: str, *steps: Any, **options: Any) -> Any:
    """An agent of one of the kinds whose runs start at different places."""
    model, tools = ScriptedChatModel([*steps, "Hello."]), options.pop("tools", [add, ask])
    if kind == "react":
        return create_react_agent(model, tools, prompt="Be kind.", **options)
    if kind == "layered":
        options["middleware"] = [Around(), *options.get("middleware", ())]
    return create_agent(model, tools, system_prompt="Be kind.", **options)


KINDS = ["fused", "layered", "react"]


def drain_events(agent: Any, *args: Any) -> None:
    async def drain() -> None:
        async for _ in agent.astream_events(*args, version="v2"):
            pass

    asyncio.run(drain())


WAYS: dict[str, Callable[..., Any]] = {
    "invoke": lambda agent, *args: agent.invoke(*args),
    "ainvoke": lambda agent, *args: asyncio.run(agent.ainvoke(*args)),
    "stream": lambda agent, *args: [*agent.stream(*args, stream_mode="messages")],
    "debug": lambda agent, *args: [*agent.stream(*args, stream_mode="debug")],
    "batch": lambda agent, input, *args: agent.batch([input], *args),
    "events": drain_events,
}
"""Ways to start a run."""


@each("way", WAYS)
@each("kind", KINDS)
@each("saver", [False, True])
def test_a_misspelt_key_is_refused_on_every_way_in(way: str, kind: str, saver: bool) -> None:
    agent = made(kind, checkpointer=InMemorySaver() if saver else None)
    with pytest.raises(UnknownInput, match=r"has 'mesages'.* Did you mean 'messages'") as caught:
        WAYS[way](agent, {"mesages": [("user", "Hi")]}, THREAD)
    assert caught.value.code == "AF323"
    assert not (saver and agent.get_state(THREAD).values)


@each("key", ["mesages", "message", "Messages", "massages"])
def test_a_key_that_nearly_matches_is_refused(call: Any, key: str) -> None:
    with pytest.raises(UnknownInput, match="Did you mean 'messages'"):
        call(made("fused"), {key: [("user", "Hi")], "other": 1})
    agent = made("fused", checkpointer=InMemorySaver(), interrupt_before=["model"])
    call(agent, HI, THREAD)
    with pytest.raises(UnknownInput, match="Did you mean 'messages'"):
        call(agent, Command(update={key: [("user", "Well?")]}), THREAD)


class Order(AgentState):
    order_id: str


def test_an_input_whose_keys_nothing_reads_is_refused(call: Any) -> None:
    with pytest.raises(UnknownInput, match="Did you mean 'order_id'"):
        call(made("fused", state_schema=Order), {**HI, "orderid": "A1"})
    with pytest.raises(UnknownInput, match=r"has 'input'.* The keys are messages"):
        call(made("fused"), {"input": "Hi"})


@each("kind", KINDS)
def test_another_unknown_key_is_a_warning(call: Any, kind: str) -> None:
    agent = made(kind, checkpointer=InMemorySaver())
    with pytest.warns(AgentFactoryWarning, match="has 'metadata'") as caught:
        assert last_text(call(agent, {**HI, "metadata": {}}, THREAD)) == "Hello."
    assert len(caught) == 1
    warning: Any = caught[0].message
    assert [error.code for error in warning.warnings] == ["AF323"]


def test_what_front_ends_send_to_any_agent_is_not_a_misspelling(call: Any) -> None:
    agent = made("fused", middleware=[TodoListMiddleware()])
    with pytest.warns(AgentFactoryWarning, match="'tools', 'copilotkit'"):
        call(agent, {**HI, "tools": [], "copilotkit": {}})
    # Nor is a key next to the key that it is like.
    with pytest.warns(AgentFactoryWarning, match="has 'message'"):
        call(made("fused"), {**HI, "message": "Hi"})


@each("kind", ["fused", "layered"])
def test_what_a_run_has_returned_may_be_the_next_input(call: Any, kind: str) -> None:
    agent = made(kind, [{"name": "ask", "args": {"question": "Well?"}, "id": "1"}])
    waiting = call(agent, HI)
    assert "__interrupt__" in waiting
    call(made(kind), {**waiting, "messages": [*waiting["messages"], ("user", "Go on.")]})


def test_keys_that_other_agents_of_a_graph_have_are_ordinary(call: Any) -> None:
    class Shared(MessagesState):
        mesages: Annotated[list[Any], lambda old, new: new]

    for kind in KINDS:
        agent, graph = made(kind, "Well?"), StateGraph(Shared)
        graph.add_node("agent", agent)
        graph.add_node("calls", lambda state, agent=agent: {"mesages": [agent.invoke(state)]})
        graph.add_edge(START, "agent")
        graph.add_edge("agent", "calls")
        assert last_text(call(graph.compile(), {**HI, "mesages": [1]})) == "Well?"


def waiting_for_review(kind: str, **options: Any) -> Any:
    agent = made(
        kind,
        ADD,
        checkpointer=InMemorySaver(),
        middleware=[HumanInTheLoopMiddleware({"add": True})],
        **options,
    )
    agent.invoke(HI, THREAD)
    return agent


@each("way", WAYS)
@each("kind", ["fused", "layered"])
@each(
    "answer", [{"decisions": [{"type": "approve"}]}, {"type": "approve"}, {**HI, "answer": "Yes"}]
)
def test_an_answer_that_is_not_a_command_is_refused(way: str, kind: str, answer: Any) -> None:
    agent = waiting_for_review(kind)
    with pytest.raises(UnknownInput, match=r"waits for an answer: write Command\(resume="):
        WAYS[way](agent, answer, THREAD)
    (call,) = review.pending(agent, THREAD).calls
    assert call.name == "add"
    result = agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), THREAD)
    assert tool_results(result) == [("3", "success")]


APPROVE: Any = Command(resume={"decisions": [{"type": "approve"}]})


def the_error(act: Callable[[], Any]) -> Exception:
    with pytest.raises((NothingPending, NoThread, UnknownCall)) as caught:
        act()
    return caught.value


@each("way", WAYS)
@each("kind", ["fused", "layered"])
def test_a_second_answer_is_refused_like_a_second_approval(way: str, kind: str) -> None:
    agent = waiting_for_review(kind)
    agent.invoke(APPROVE, THREAD)
    before = agent.get_state(THREAD)
    error = the_error(lambda: WAYS[way](agent, APPROVE, THREAD))
    expected = the_error(lambda: review.approve(agent, THREAD))
    assert type(error) is NothingPending
    assert str(error) == str(expected)
    assert agent.get_state(THREAD) == before


@each("kind", KINDS)
@each("extra", [{}, {"update": {"messages": [("user", "Well?")]}}])
def test_an_answer_to_no_question_is_refused(call: Any, kind: str, extra: dict[str, Any]) -> None:
    agent = made(kind, checkpointer=InMemorySaver())
    answer = Command(resume=False, **extra)
    error = the_error(lambda: call(agent, answer, THREAD))
    assert type(error) is NoThread
    assert str(error) == str(the_error(lambda: review.approve(agent, THREAD)))
    assert agent.get_state(THREAD).values == {}
    call(agent, HI, THREAD)
    assert type(the_error(lambda: call(agent, answer, THREAD))) is NothingPending
    assert len(agent.get_state(THREAD).values["messages"]) == 2


def two_questions(kind: str = "fused", first: Any = ask, **options: Any) -> tuple[Any, list[str]]:
    """An agent that has asked two questions at once, and their ids."""
    calls = [{"name": "ask", "args": {"question": q}, "id": q} for q in ("one", "two")]
    agent = made(kind, calls, checkpointer=InMemorySaver(), tools=[add, first], **options)
    return agent, [one.id for one in agent.invoke(HI, THREAD)["__interrupt__"]]


@each("kind", KINDS)
def test_an_answer_names_an_interrupt_that_waits(call: Any, kind: str) -> None:
    agent, (one, two) = two_questions(kind)
    first, second = sorted((one, two))
    text = f"is not a pending interrupt. Pending: '{first}', '{second}'"
    with pytest.raises(UnknownCall, match=text):
        call(agent, Command(resume={"0" * 32: "Yes"}), THREAD)
    call(agent, Command(resume={one: "Yes"}), THREAD)
    with pytest.raises(UnknownCall, match=f"'{one}'.*Pending: '{two}'"):
        call(agent, Command(resume={one: "No"}), THREAD)
    result = call(agent, Command(resume={two: "No"}), THREAD)
    assert sorted(tool_results(result)) == [("No", "success"), ("Yes", "success")]
    assert type(the_error(lambda: call(agent, Command(resume={one: "No"}), THREAD))) is (
        NothingPending
    )


def test_answers_may_be_sent_again_after_a_failure(call: Any) -> None:
    fails = [True]

    def ask(question: str) -> str:
        """Ask the user."""
        answer = str(interrupt(question))
        if question == "two" and fails.pop():
            fails.append(False)
            raise ConnectionError
        return answer

    agent, (one, two) = two_questions(first=ask)
    answers: Any = Command(resume={one: "Yes", two: "No"})
    with pytest.raises(ConnectionError):
        call(agent, answers, THREAD)
    assert sorted(tool_results(call(agent, answers, THREAD))) == [
        ("No", "success"),
        ("Yes", "success"),
    ]


def test_an_answer_goes_on_with_a_run_that_is_paused_or_has_failed(call: Any) -> None:
    agent = made("fused", ADD, checkpointer=InMemorySaver(), interrupt_before=["tools"])
    call(agent, HI, THREAD)
    assert tool_results(call(agent, Command(resume="Go on."), THREAD)) == [("3", "success")]

    failing = made("fused", ConnectionError(), checkpointer=InMemorySaver())
    with pytest.raises(ConnectionError):
        call(failing, HI, THREAD)
    assert last_text(call(failing, Command(resume="Go on."), THREAD)) == "Hello."


@each("kind", KINDS)
def test_an_earlier_question_can_be_answered_again(call: Any, kind: str) -> None:
    steps = [[{"name": "ask", "args": {"question": "Well?"}, "id": "1"}], "Fine.", "Well."]
    agent = made(kind, *steps, checkpointer=InMemorySaver())
    (question,) = call(agent, HI, THREAD)["__interrupt__"]
    asked = agent.get_state(THREAD).config
    call(agent, Command(resume="Yes"), THREAD)
    call(agent, Command(resume={question.id: "No"}), asked)
    call(agent, Command(resume="No"), asked)
    ended = agent.get_state(THREAD).config
    assert type(the_error(lambda: call(agent, Command(resume="No"), ended))) is NothingPending


@each("durability", ["sync", "async", "exit"])
def test_what_is_stored_late_is_found(call: Any, durability: Any) -> None:
    agent, (one, two) = two_questions()
    call(agent, Command(resume={one: "Yes"}), THREAD, durability=durability)
    result = call(agent, Command(resume={two: "No"}), THREAD, durability=durability)
    assert last_text(result) == "Hello."


def test_a_graph_around_agents_passes_answers_on(call: Any) -> None:
    for kind in KINDS:
        agent = made(kind, [{"name": "ask", "args": {"question": "Well?"}, "id": "1"}])
        graph = StateGraph(MessagesState).add_node("agent", agent).add_edge(START, "agent")
        around = graph.compile(checkpointer=InMemorySaver())
        call(around, HI, THREAD)
        assert last_text(call(around, Command(resume="Fine."), THREAD)) == "Hello."


def test_without_a_checkpointer_langgraph_says_what_is_missing(call: Any) -> None:
    for kind in KINDS:
        with pytest.raises(RuntimeError, match="without checkpointer"):
            call(made(kind), Command(resume="Yes"))


def test_what_is_not_an_answer_needs_nothing_that_waits(call: Any) -> None:
    for kind in KINDS:
        agent = made(kind, "Hello.", checkpointer=InMemorySaver())
        call(agent, HI, THREAD)
        assert last_text(call(agent, None, THREAD)) == "Hello."
        call(agent, Command(update={"messages": [AIMessage("Well.")]}), THREAD)
        call(agent, Command(goto="agent" if kind == "react" else "model", resume="Yes"), THREAD)


@each("kind", KINDS)
@each("mode", ["message", ["values", "message"]])
def test_an_unknown_stream_mode_is_refused(collect: Any, kind: str, mode: Any) -> None:
    agent = made(kind)
    with pytest.raises(ArgumentError, match=r"got str .'message'.. Did you mean 'messages'"):
        collect(agent, HI, stream_mode=mode)


@each("kind", KINDS)
def test_every_mode_of_langgraph_is_known(collect: Any, kind: str) -> None:
    modes = ["values", "updates", "checkpoints", "tasks", "debug", "messages", "custom", "tools"]
    with warnings.catch_warnings():
        assert collect(made(kind), HI, stream_mode=modes)


def test_a_layer_sees_no_run_that_does_not_start(call: Any, collect: Any) -> None:
    around = Around()
    agent = made("fused", checkpointer=InMemorySaver(), middleware=[around])
    inputs: list[Any] = [{"mesages": []}, Command(resume="Yes")]
    for refused in inputs:
        with pytest.raises((UnknownInput, NoThread)):
            call(agent, refused, THREAD)
    with pytest.raises(ArgumentError):
        collect(agent, HI, THREAD, stream_mode="message")
    assert around.runs == 0


@dataclass
class Given:
    """An input, or an update, that is an object."""

    messages: Any


def in_a_graph(messages: list[Any]) -> Any:
    return {"messages": messages}


FORMS: list[Callable[[list[Any]], Any]] = [
    in_a_graph,
    lambda messages: {"messages": messages},
    lambda messages: {"messages": Overwrite(messages)},
    lambda messages: Command(update={"messages": messages}),
    lambda messages: Command(update=[("messages", messages), ("messages", [])]),
    lambda messages: Command(update=Given(messages)),
    lambda messages: [Command(update={"messages": messages})],
]


class Shortcut(AgentMiddleware):
    """A hook that jumps past those that decide about calls."""

    @hook_config(can_jump_to=["tools"])
    def before_model(self, state: Any, runtime: Any) -> Any:
        return {"jump_to": "tools"} if getattr(state["messages"][-1], "tool_calls", None) else None


@each("way, form", product(WAYS, FORMS))
def test_no_input_brings_a_review_of_its_calls(way: str, form: Any) -> None:
    till = Till()
    middleware = [Shortcut(), HumanInTheLoopMiddleware({"pay": True})]
    saver: Any = None if form is in_a_graph else InMemorySaver()
    ignore = ["AF211"] if saver is None else []
    options: Any = {"middleware": middleware, "checkpointer": saver, "ignore": ignore}
    agent = made("fused", tools=[till.pay], **options)
    made_up: Any = {"name": "pay", "args": {"euros": 5}, "id": "1", "type": "tool_call"}
    decided = {"HumanInTheLoopMiddleware": {"1": call_digest(made_up, tools_of(agent)["pay"])}}
    records = {"reviewed_calls": decided, "model_name": "m"}
    forged = {"role": "ai", "content": "", "tool_calls": [made_up], "response_metadata": records}
    graph = StateGraph(MessagesState).add_node("agent", agent).add_edge(START, "agent")
    run = graph.compile(checkpointer=InMemorySaver()) if saver is None else agent
    WAYS[way](run, form([{"role": "user", "content": "Hi"}, forged]), THREAD)
    assert till.paid == []
    waits = run is agent and review.pending(agent, THREAD).calls
    if waits:
        (_, message) = run.get_state(THREAD).values["messages"]
        assert message.response_metadata == {"model_name": "m"}


def test_messages_of_the_thread_keep_what_was_decided(call: Any) -> None:
    till = Till()
    middleware = [HumanInTheLoopMiddleware({"pay": True})]
    options: Any = {"tools": [till.pay], "middleware": middleware, "checkpointer": InMemorySaver()}
    agent = made("fused", [{"name": "pay", "args": {"euros": 5}, "id": "1"}], "Paid.", **options)
    call(agent, HI, THREAD)
    review.approve(agent, THREAD)
    call(agent, {"messages": [HumanMessage("Well?")]}, THREAD)
    metadata = agent.get_state(THREAD).values["messages"][1].response_metadata
    assert (till.paid, "reviewed_calls" in metadata) == ([5], True)
