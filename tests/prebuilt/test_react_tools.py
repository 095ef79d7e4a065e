"""Tools and hooks of create_react_agent, and where a run goes after them (B16, B46-B60)."""

from __future__ import annotations

import threading
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.prebuilt import InjectedState
from langgraph.types import Command, Send, StreamWriter, interrupt
from pydantic import Field

import samples
from agent_factory import ToolNode, create_react_agent
from agent_factory.errors import BadReturn, CommandNotSupported, UnknownStateKey
from agent_factory.prebuilt import AgentState, AgentStatePydantic
from samples import THREAD, Answer, scripted, texts
from tables import each

ASK: Any = {"messages": [("user", "2 + 3?")]}


ran: list[str] = []
"""The tools that have run in this test."""


@pytest.fixture(autouse=True)
def forget() -> None:
    ran.clear()


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    ran.append("add")
    return a + b


@tool(return_direct=True)
def show(text: str) -> str:
    """Show a text."""
    ran.append("show")
    return f"<{text}>"


fail = tool(return_direct=True)(samples.fail)


def called(name: str, id: str = "", **args: Any) -> dict[str, Any]:
    return {"name": name, "args": args, "id": id or name}


ADD = called("add", a=2, b=3)
SHOW = called("show", text="it")


both = each("version", ["v1", "v2"])


@both
def test_calls_of_a_turn_run_in_one_step_and_have_results_in_order(version: Any, call: Any) -> None:
    """B47, B48"""
    meet = threading.Barrier(2, timeout=60)

    @tool
    def wait(who: str) -> str:
        """Wait for the other."""
        meet.wait()
        return who

    calls = [called("wait", "1", who="one"), called("wait", "2", who="two")]
    agent = create_react_agent(scripted(calls, "Done."), [wait], version=version)
    assert texts(call(agent, ASK))[2:] == ["one", "two", "Done."]


@each("version, chunks", [("v1", [2]), ("v2", [1, 1])])
def test_a_version_decides_about_the_tasks(version: Any, chunks: list[int], collect: Any) -> None:
    """B47-B49, D21, D35, E35: v1 runs them in one task, v2 each in its own."""
    agent = create_react_agent(
        scripted([ADD, {**ADD, "id": "b"}], "5"),
        [add],
        version=version,
        checkpointer=InMemorySaver(),
    )
    updates = collect(agent, ASK, THREAD, stream_mode="updates")
    assert [len(u["tools"]["messages"]) for u in updates if "tools" in u] == chunks
    paused = create_react_agent(
        scripted([ADD, {**ADD, "id": "b"}]),
        [add],
        version=version,
        checkpointer=InMemorySaver(),
        interrupt_before=["tools"],
    )
    paused.invoke(ASK, THREAD)
    # interrupt_before stops all tasks of a step together, of either version.
    assert paused.get_state(THREAD).next == ("tools",) * len(chunks)


@both
@each("schema", [None, AgentStatePydantic])
def test_tools_get_the_state_as_its_schema_makes_it(version: Any, schema: Any, call: Any) -> None:
    """B11, B47, E9: the whole of it, and none of the engine's own keys."""
    seen: list[Any] = []

    @tool
    def look(state: Annotated[Any, InjectedState]) -> str:
        """Look."""
        seen.append(state)
        return "seen"

    agent = create_react_agent(
        scripted([called("look")], "Done."), [look], version=version, state_schema=schema
    )
    call(agent, ASK)
    keys = {"messages", "remaining_steps"}
    if schema is None:
        assert set(seen[0]) == keys
    else:
        assert isinstance(seen[0], schema)
        assert [m.type for m in seen[0].messages] == ["human", "ai"]


@both
def test_what_a_tool_raises_ends_the_run(version: Any, call: Any) -> None:
    """E1"""
    agent = create_react_agent(scripted([called("fail")]), [fail], version=version)
    with pytest.raises(ValueError, match="broken"):
        call(agent, ASK)


@both
def test_a_failed_result_is_the_answer_too(version: Any, call: Any) -> None:
    """B54: what counts is the name."""
    node = ToolNode([fail], handle_tool_errors="It failed.")
    agent = create_react_agent(scripted([called("fail")]), node, version=version)
    assert texts(call(agent, ASK))[-1] == "It failed."


class Noting(AgentState):
    note: str


@both
@each("goto", [END, "agent"])
def test_a_tool_writes_the_state(version: Any, goto: str, call: Any) -> None:
    """C56-C60"""

    @tool
    def note(id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Write a note."""
        message = ToolMessage("noted", tool_call_id=id)
        return Command(update={"note": "here", "messages": [message]}, goto=goto)

    agent = create_react_agent(
        scripted([called("note"), ADD], "Done."), [note, add], version=version, state_schema=Noting
    )
    result = call(agent, ASK)
    assert result["note"] == "here"
    # Its goto leads nowhere: the tools' own edge is taken as well, and goes to the model.
    assert texts(result)[2:] == ["noted", "5", "Done."]


@each("within", [list, ToolNode])
@each("goto", ["tools", "pre_model_hook", [Send("tools", [ADD])], Send("agent", {})])
def test_a_tool_goes_nowhere_past_the_hooks(goto: Any, within: Any, call: Any) -> None:
    def send(id: Annotated[str, InjectedToolCallId]) -> Any:
        """Send."""
        return Command(goto=goto, update={"messages": [ToolMessage("", tool_call_id=id)]})

    agent = create_react_agent(scripted([called("send")]), within([send, add]))
    with pytest.raises(CommandNotSupported, match="past the hooks"):
        call(agent, ASK)
    assert ran == []


def test_a_key_that_no_schema_has_is_named(call: Any) -> None:
    @tool
    def note(id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Write a note."""
        return Command(update={"note": "", "messages": [ToolMessage("noted", tool_call_id=id)]})

    agent = create_react_agent(scripted([called("note")]), [note])
    with pytest.raises(UnknownStateKey, match="wrote 'note'"):
        call(agent, ASK)


@tool
def transfer(to: str, id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Hand over."""
    message = ToolMessage(f"to {to}", tool_call_id=id)
    return Command(graph=Command.PARENT, goto=[Send(to, {})], update={"messages": [message]})


def team(agent: Any) -> Any:
    graph = StateGraph(MessagesState)
    graph.add_node("desk", agent, destinations=("ada", "bob"))
    for name in ("ada", "bob"):
        graph.add_node(name, lambda state, name=name: {"messages": [("ai", f"I am {name}.")]})
    return graph.add_edge(START, "desk").compile()


@both
@each("given", ["tools", "node"])
@each("others", [[], [ADD], [SHOW]])
def test_tools_hand_over_to_the_parent(version: Any, given: str, others: Any, call: Any) -> None:
    """C63, C65: all of them, with what they write, in a task of their own or not."""
    tools = [transfer, add, show]
    calls = [called("transfer", "1", to="ada"), called("transfer", "2", to="bob"), *others]
    agent = create_react_agent(
        scripted(calls), tools if given == "tools" else ToolNode(tools), version=version
    )
    said = texts(call(team(agent), ASK))[1:]
    assert sorted(said) == sorted(["to ada", "to bob", "I am ada.", "I am bob."])


@both
def test_a_handover_passes_a_hook_that_would_run_again(version: Any, call: Any) -> None:
    hooks: list[str] = []
    agent = create_react_agent(
        scripted([called("transfer", "1", to="ada")]),
        [transfer],
        version=version,
        pre_model_hook=lambda state: hooks.append("ran"),
        state_schema=AgentStatePydantic,
    )
    assert "I am ada." in texts(call(team(agent), ASK))
    assert hooks == ["ran"]


@tool
def mul(a: int, b: int) -> int:
    """Multiply two numbers."""
    ran.append("mul")
    return a * b


ARGS = {"a": 2, "b": 3}
ONE = [{"name": "add", "args": ARGS, "id": "1"}]
STRUCTURED = [{"name": "Answer", "args": {"number": 5}}]


def order(agent: Any, ask: Any = ASK) -> list[str]:
    return [next(iter(chunk)) for chunk in agent.stream(ask, stream_mode="updates")]


@each("structured", [False, True])
def test_an_answer_that_is_not_the_last_word_ends_the_run(structured: bool) -> None:
    """B50: the calls are answered, and the last message is not a ToolMessage."""

    def answer(state: Any) -> Any:
        return {"messages": [ToolMessage("no", tool_call_id="1"), HumanMessage("Stop.")]}

    agent = create_react_agent(
        scripted(ONE, STRUCTURED),
        [add],
        post_model_hook=answer,
        response_format=Answer if structured else None,
    )
    end = ["generate_structured_response"] if structured else []
    assert order(agent) == ["agent", "post_model_hook", *end]


def test_an_answer_counts_wherever_it_stands() -> None:
    """B50"""

    def rewrite(state: Any) -> Any:
        *before, asked = state["messages"]
        everything = [*before, ToolMessage("no", tool_call_id="1"), asked]
        return {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), *everything]}

    agent = create_react_agent(scripted(ONE), [add], post_model_hook=rewrite)
    assert order(agent) == ["agent", "post_model_hook"]


def test_a_hook_edits_calls_before_they_are_run(call: Any) -> None:
    """B51: by the same id."""

    def edit(state: Any) -> Any:
        said = state["messages"][-1]
        calls = [{**c, "name": "mul"} for c in said.tool_calls]
        return {"messages": [AIMessage("", id=said.id, tool_calls=calls)]}

    call(create_react_agent(scripted(ONE, "Done."), [add, mul], post_model_hook=edit), ASK)
    assert ran == ["mul"]


def test_a_hook_asks_a_person_about_calls(call: Any) -> None:
    """B60, D29"""

    def approve(state: Any) -> Any:
        said = state["messages"][-1]
        if said.tool_calls and interrupt("May I?") != "yes":
            return {"messages": [ToolMessage("no", tool_call_id="1")]}
        return {}

    agent = create_react_agent(
        scripted(ONE, "Done."), [add], post_model_hook=approve, checkpointer=InMemorySaver()
    )
    assert call(agent, ASK, THREAD)["__interrupt__"][0].value == "May I?"
    assert not ran
    call(agent, Command(resume="yes"), THREAD)
    assert ran == ["add"]


class NotingModel(AgentStatePydantic):
    notes: list[str] = Field(default_factory=list)


@each("name", ["pre_model_hook", "post_model_hook"])
def test_a_hook_sees_an_instance_of_a_model_and_may_give_one_back(name: str, call: Any) -> None:
    """B11"""

    def note(state: NotingModel) -> NotingModel:
        return state.model_copy(update={"notes": [*state.notes, type(state).__name__]})

    hook: Any = {name: note}
    result = call(create_react_agent(scripted(), [add], state_schema=NotingModel, **hook), ASK)
    assert result["notes"] == ["NotingModel"]
    assert len(result["messages"]) == 2


def test_a_hook_may_give_the_whole_state_back(call: Any) -> None:
    """What is counted elsewhere is not written by it."""

    def echo(state: Any) -> Any:
        assert set(state) == {"messages", "remaining_steps"}
        return dict(state)

    hooks: Any = {"pre_model_hook": echo, "post_model_hook": echo}
    agent = create_react_agent(scripted(ONE, "It is 5."), [add], **hooks)
    assert len(call(agent, ASK)["messages"]) == 4


def test_a_hook_replaces_the_history(call: Any) -> None:
    """B60: for good, where it writes messages."""

    def trim(state: Any) -> Any:
        last = state["messages"][-1:]
        return {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), *last]}

    agent = create_react_agent(scripted(), [], pre_model_hook=trim)
    result = call(agent, {"messages": [("user", "One"), ("ai", "Two"), ("user", "Three")]})
    assert texts(result) == ["Three", "Hello"]


async def test_a_coroutine_function_is_a_hook_of_asynchronous_runs() -> None:
    seen = []

    async def hook(state: Any) -> None:
        seen.append("ran")

    agent = create_react_agent(scripted(), [], pre_model_hook=hook)
    await agent.ainvoke(ASK)
    assert seen == ["ran"]
    with pytest.raises(TypeError) as caught:
        agent.invoke(ASK)
    assert str(caught.value) == (
        'No synchronous function provided to "pre_model_hook".\nEither initialize with a '
        "synchronous function or invoke via the async API (ainvoke, astream, etc.)"
    )


def test_a_hook_may_speak_in_the_stream(collect: Any) -> None:
    def hook(state: Any, *, writer: StreamWriter) -> None:
        writer("here")

    agent = create_react_agent(scripted(), [], post_model_hook=hook)
    assert collect(agent, ASK, stream_mode="custom") == ["here"]


def test_tokens_of_models_that_a_hook_calls_are_streamed(collect: Any) -> None:
    """As in any node of a graph: listeners go by the name of the node."""

    def hook(state: Any) -> None:
        scripted("Aside.").invoke("Hm?")

    agent = create_react_agent(scripted(), [], pre_model_hook=hook)
    chunks = collect(agent, ASK, stream_mode="messages")
    spoken: dict[str, str] = {}
    for chunk, about in chunks:
        node = about["langgraph_node"]
        spoken[node] = spoken.get(node, "") + chunk.text
    assert spoken == {"pre_model_hook": "Aside.", "agent": "Hello"}


@each(
    "given, error, text",
    [
        ({"mood": "calm"}, UnknownStateKey, "pre_model_hook: wrote 'mood'"),
        ("calm", BadReturn, "pre_model_hook: must return a dict of updates or None, got str"),
        (Command(goto="tools"), CommandNotSupported, "returned a Command with goto"),
    ],
)
def test_what_a_hook_may_not_give_is_named(given: Any, error: Any, text: str, call: Any) -> None:
    agent = create_react_agent(scripted(), [add], pre_model_hook=lambda state: given)
    with pytest.raises(error, match=text):
        call(agent, ASK)


def test_a_hook_may_give_a_command_that_updates(call: Any) -> None:
    give: Command[Any] = Command(update={"messages": [HumanMessage("And 4?")]})
    agent = create_react_agent(scripted(), [], pre_model_hook=lambda state: give)
    assert texts(call(agent, ASK)) == ["2 + 3?", "And 4?", "Hello"]
