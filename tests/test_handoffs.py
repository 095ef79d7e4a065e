"""Agents inside other graphs: commands to the parent, subagents, shared state, concurrency."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, Send

from agent_factory import AgentMiddleware, create_agent
from agent_factory.errors import CommandNotSupported
from agent_factory.testing import ScriptedChatModel
from samples import ask, numbered_calls, texts
from tables import each

GO = {"messages": "Go"}
THREAD: RunnableConfig = {"configurable": {"thread_id": "1"}}
CallId = Annotated[str, InjectedToolCallId]


class Team(MessagesState):
    notes: Annotated[list[str], lambda a, b: [*(a or []), *b]]


def handoff(name: str, goto: Any = "other", **options: Any) -> Any:
    """A tool that leaves for another node of the parent, with a word in both its keys."""

    def leave(tool_call_id: CallId) -> Command[Any]:
        """Hand the conversation over."""
        said = ToolMessage(f"{name} left", tool_call_id=tool_call_id)
        return Command(
            graph=Command.PARENT, goto=goto, update={"messages": [said], "notes": [name]}
        )

    return tool(name, **options)(leave)


def add() -> str:
    """Give a result."""
    return "sum"


def other(state: Any) -> Any:
    """Takes over; a Send gives it its own state."""
    return {"messages": [AIMessage(f"took over {state.get('task', '')}".strip())]}


def team(agent: Any, **options: Any) -> Any:
    graph = StateGraph(Team)
    graph.add_node("agent", agent, destinations=("other",))
    graph.add_node("other", other)
    graph.add_edge(START, "agent")
    return graph.compile(**options)


# Commands to the parent graph


@each("options", [{}, {"return_direct": True}])
@each("goto", ["other", ["other"], [Send("other", {"task": "it"})]])
def test_a_tool_hands_over_to_the_parent(call: Any, goto: Any, options: dict[str, Any]) -> None:
    """C60, C65: its update and its goto arrive, and the model is not asked again."""
    agent = create_agent(ScriptedChatModel([numbered_calls("a")]), [handoff("a", goto, **options)])
    result = call(team(agent), GO)
    sent = not isinstance(goto, str) and not isinstance(goto[0], str)
    assert texts(result) == ["Go", "a left", "took over it" if sent else "took over"]
    assert result["notes"] == ["a"]


@each("options", [{}, {"return_direct": True}])
def test_several_handoffs_of_one_turn_all_arrive(call: Any, options: dict[str, Any]) -> None:
    """C63, E42: their updates too, in the order of the calls."""
    tools = [
        handoff("a", [Send("other", {"task": "first"})], **options),
        handoff("b", [Send("other", {"task": "second"})], **options),
        handoff("c", "other", **options),
    ]
    agent = create_agent(ScriptedChatModel([numbered_calls("a", "b", "c")]), tools)
    result = call(team(agent), GO)
    assert result["notes"] == ["a", "b", "c"]
    assert texts(result)[:4] == ["Go", "a left", "b left", "c left"]
    assert sorted(texts(result)[4:]) == ["took over", "took over first", "took over second"]


@each("names", [["a", "add"], ["add", "a"]])
def test_a_handoff_parallel_to_an_ordinary_tool_leaves(call: Any, names: list[str]) -> None:
    """C63: no hook of the agent runs any more."""
    log: list[str] = []

    class Log(AgentMiddleware):
        def before_model(self, state: Any, runtime: Any) -> None:
            log.append("before_model")

        def after_agent(self, state: Any, runtime: Any) -> None:
            log.append("after_agent")

    model = ScriptedChatModel([numbered_calls(*names)])
    agent = create_agent(model, [handoff("a"), add], middleware=[Log()])
    assert texts(call(team(agent), GO)) == ["Go", "a left", "took over"]
    assert log == ["before_model"]


def test_a_handoff_may_only_update(call: Any) -> None:
    """C60"""
    agent = create_agent(ScriptedChatModel([numbered_calls("a")]), [handoff("a", ())])
    assert texts(call(team(agent), GO)) == ["Go", "a left"]


def test_a_hook_may_hand_over(call: Any) -> None:
    """The keys it updates are the parent's."""

    class Leave(AgentMiddleware):
        def before_model(self, state: Any, runtime: Any) -> Any:
            return Command(graph=Command.PARENT, goto="other", update={"notes": ["hook"]})

    agent = create_agent(ScriptedChatModel([]), middleware=[Leave()])
    result = call(team(agent), GO)
    assert result["notes"] == ["hook"]
    assert texts(result) == ["Go", "took over"]


def test_a_handoff_without_a_parent_is_refused(call: Any) -> None:
    agent = create_agent(ScriptedChatModel([numbered_calls("a")]), [handoff("a")])
    with pytest.raises(CommandNotSupported, match="this agent has no parent"):
        call(agent, GO)


# Agents as nodes and as tools


def test_an_agent_is_a_node_of_another_graph(call: Any) -> None:
    """B6: its thread is its parent's."""
    graph = StateGraph(MessagesState)
    graph.add_node("agent", create_agent(ScriptedChatModel(["One", "Two"])))
    graph.add_edge(START, "agent")
    compiled = graph.compile(checkpointer=InMemorySaver())
    call(compiled, GO, THREAD)
    result = call(compiled, GO, THREAD)
    assert texts(result) == ["Go", "One", "Go", "Two"]


def test_an_agent_in_a_tool_answers_and_interrupts(call: Any) -> None:
    """C48: an interrupt of the inner agent reaches the caller of the outer one."""
    inner = create_agent(ScriptedChatModel([numbered_calls("ask"), "Inner"]), [ask])

    @tool
    def delegate() -> str:
        """Ask the inner agent."""
        return str(inner.invoke({"messages": ["Go"]})["messages"][-1].text)

    outer = create_agent(
        ScriptedChatModel([numbered_calls("delegate"), "Outer"]),
        [delegate],
        checkpointer=InMemorySaver(),
    )
    assert call(outer, GO, THREAD)["__interrupt__"][0].value == "?"
    assert texts(call(outer, Command(resume="yes"), THREAD)) == ["Go", "", "Inner", "Outer"]


# Many runs of one agent


def echo(messages: Any) -> str:
    return f"to {messages[-1].text}"


def test_threads_of_a_process_and_tasks_of_a_loop_do_not_mix() -> None:
    """D33, C19: one agent, many threads, two turns each."""
    agent: Any = create_agent(
        ScriptedChatModel([echo] * 80), [add], checkpointer=InMemorySaver(), name="Ada"
    )

    def turns(name: str) -> list[str]:
        thread = {"configurable": {"thread_id": name}}
        agent.invoke({"messages": f"{name}1"}, thread)
        return texts(agent.invoke({"messages": f"{name}2"}, thread))

    async def aturns(name: str) -> list[str]:
        thread = {"configurable": {"thread_id": name}}
        await agent.ainvoke({"messages": f"{name}1"}, thread)
        return texts(await agent.ainvoke({"messages": f"{name}2"}, thread))

    async def gather() -> list[list[str]]:
        return await asyncio.gather(*map(aturns, names[20:]))

    names = [f"t{index}-" for index in range(40)]
    with ThreadPoolExecutor(8) as pool:
        results = [*pool.map(turns, names[:20]), *asyncio.run(gather())]
    assert results == [[f"{n}1", f"to {n}1", f"{n}2", f"to {n}2"] for n in names]


def test_a_batch_is_several_runs() -> None:
    """B6"""
    agent: Any = create_agent(ScriptedChatModel([echo] * 4))
    inputs = [{"messages": "a"}, {"messages": "b"}]
    assert [texts(r) for r in agent.batch(inputs)] == [["a", "to a"], ["b", "to b"]]
    assert [texts(r) for r in asyncio.run(agent.abatch(inputs))] == [["a", "to a"], ["b", "to b"]]


def test_one_agent_may_be_two_nodes_at_once(call: Any) -> None:
    agent = create_agent(ScriptedChatModel([echo] * 2))
    graph = StateGraph(MessagesState)
    for name in ("left", "right"):
        graph.add_node(name, agent)
        graph.add_edge(START, name)
    assert texts(call(graph.compile(), GO)) == ["Go", "to Go", "to Go"]
