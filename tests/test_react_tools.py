"""Tools of create_react_agent: how calls are run, and which results end the run (B16, B47-B54)."""

from __future__ import annotations

import threading
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState
from langgraph.types import Command, Send, interrupt

import samples
from agent_factory import ToolNode, create_react_agent
from agent_factory.errors import UnknownStateKey
from agent_factory.prebuilt import AgentState, AgentStatePydantic
from agent_factory.prebuilt.react_middleware import ReactRules
from agent_factory.topology.model import TOOLS
from react_tools import add, forget, ran  # noqa: F401  forget is a fixture
from samples import scripted, texts
from tables import each

ASK: Any = {"messages": [("user", "2 + 3?")]}
THREAD: Any = {"configurable": {"thread_id": "1"}}


@tool(return_direct=True)
def show(text: str) -> str:
    """Show a text."""
    ran.append("show")
    return f"<{text}>"


fail = tool(return_direct=True)(samples.fail)


@tool
def ask() -> str:
    """Ask a person."""
    ran.append("ask")
    return str(interrupt("May I?"))


def called(name: str, id: str = "", **args: Any) -> dict[str, Any]:
    return {"name": name, "args": args, "id": id or name}


ADD = called("add", a=2, b=3)
SHOW = called("show", text="it")


both = each("version", ["v1", "v2"])


# How calls are run


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


@each("version, expected", [("v1", ["add", "add", "ask", "ask"]), ("v2", ["add", "ask", "ask"])])
def test_a_call_next_to_one_that_asks_is_kept_where_it_is_its_own_task(
    version: Any, expected: list[str], call: Any
) -> None:
    """B48, D29"""
    ran.clear()
    agent = create_react_agent(
        scripted([ADD, called("ask")], "Done."),
        [add, ask],
        version=version,
        checkpointer=InMemorySaver(),
    )
    call(agent, ASK, THREAD)
    result = call(agent, Command(resume="yes"), THREAD)
    assert texts(result)[2:] == ["5", "yes", "Done."]
    assert sorted(ran) == expected


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


# Which results end the run


@both
@each(
    "calls, ends",
    [
        ([SHOW], True),
        ([SHOW, {**SHOW, "id": "2"}], True),
        ([ADD, SHOW], True),
        ([SHOW, ADD], True),
        ([ADD], False),
        ([ADD, {**ADD, "id": "2"}], False),
        ([called("unknown")], False),
        ([called("unknown"), SHOW], True),
    ],
)
def test_one_direct_result_ends_the_run(version: Any, calls: Any, ends: bool, call: Any) -> None:
    """B16, B53, B54, E2: any, and not all."""
    agent = create_react_agent(scripted(calls, "Done."), [add, show], version=version)
    result = call(agent, ASK)
    assert len(result["messages"]) == 2 + len(calls) + (not ends)
    assert (result["messages"][-1].text == "Done.") == (not ends)


@both
def test_a_failed_result_is_the_answer_too(version: Any, call: Any) -> None:
    """B54: what counts is the name."""
    node = ToolNode([fail], handle_tool_errors="It failed.")
    agent = create_react_agent(scripted([called("fail")]), node, version=version)
    assert texts(call(agent, ASK))[-1] == "It failed."


RULES = ReactRules({"add", "show"}, {"show"})


def answered(name: str) -> ToolMessage:
    return ToolMessage("said", tool_call_id=name, name=name)


@each(
    "calls, tail, ends",
    [
        (["add"], ["show"], True),
        (["show"], ["add"], True),
        (["add"], ["add"], False),
        (["add", "show"], ["add"], True),
        ([], ["show", "add"], True),
        (["show"], ["add", "human"], False),
        (["add"], ["show", "human"], False),
        (["add"], ["human", "show"], True),
        (["show"], ["human", "add"], False),
    ],
)
def test_answers_decide_and_then_the_calls(calls: list[str], tail: list[str], ends: bool) -> None:
    """B54: back over the answers to the first message that is none."""
    said = AIMessage("", tool_calls=[called(name) for name in calls])
    after = [HumanMessage("Hm") if name == "human" else answered(name) for name in tail]
    assert RULES.returns(said, after) == ends


def test_each_task_of_a_turn_comes_to_the_same_end() -> None:
    """B54: it sees its own answer alone, and the calls of all."""
    said = AIMessage("", tool_calls=[ADD, SHOW])
    tasks: Any = RULES.sends(said, [], {"messages": [said]})
    assert [(task.node, task.arg["tool_call"]["name"]) for task in tasks] == [
        (TOOLS, "add"),
        (TOOLS, "show"),
    ]
    assert all(task.arg["__type"] == "tool_call_with_context" for task in tasks)
    assert RULES.returns(said, [answered("add")])
    assert RULES.returns(said, [answered("show")])


# Commands of tools


class Noting(AgentState):
    note: str


@both
def test_a_tool_writes_the_state(version: Any, call: Any) -> None:
    """C56-C60"""

    @tool
    def note(id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Write a note."""
        message = ToolMessage("noted", tool_call_id=id)
        return Command(update={"note": "here", "messages": [message]}, goto=END)

    agent = create_react_agent(
        scripted([called("note"), ADD], "Done."), [note, add], version=version, state_schema=Noting
    )
    result = call(agent, ASK)
    assert result["note"] == "here"
    # Its goto leads nowhere: the tools' own edge is taken as well, and goes to the model.
    assert texts(result)[2:] == ["noted", "5", "Done."]


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
    result = call(team(agent), ASK)
    said = texts(result)[1:]
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
