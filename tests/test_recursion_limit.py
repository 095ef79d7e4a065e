"""A run whose recursion limit is too low for its calls ends with a message, and keeps its work."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphRecursionError
from langgraph.graph import START, MessagesState, StateGraph

from agent_factory import AgentMiddleware, create_agent, hook_config
from agent_factory.middleware import HumanInTheLoopMiddleware
from agent_factory.structured_output import ToolStrategy
from agent_factory.testing import ScriptedChatModel
from samples import Number, add, add_tool, in_memory, tool_messages, tool_texts
from tables import each

GO: Any = {"messages": [("user", "Go")]}
EACH_WAY = each("fused", [False, True, "turn"])


show = tool("show", return_direct=True)(add)


class Hooks(AgentMiddleware):
    """Every hook. Some of them may write."""

    def __init__(self, name: str, *writing: str) -> None:
        super().__init__(name=name)
        self.writing = writing

    def note(self, hook: str) -> Any:
        return {"messages": [HumanMessage("Note.")]} if hook in self.writing else None

    def before_agent(self, state: Any, runtime: Any) -> Any:
        return self.note("before_agent")

    def before_model(self, state: Any, runtime: Any) -> Any:
        return self.note("before_model")

    def after_model(self, state: Any, runtime: Any) -> Any:
        return None

    def after_agent(self, state: Any, runtime: Any) -> Any:
        return self.note("after_agent")


STACKS: dict[str, Any] = {
    "no hooks": lambda: [],
    "hooks": lambda: [Hooks("A")],
    "more hooks": lambda: [Hooks("A"), Hooks("B")],
    "hooks that write": lambda: [Hooks("A", "before_agent", "before_model", "after_agent")],
}
EACH_STACK = each("stack", STACKS)


def restless(name: str = "add", calls: int = 1) -> ScriptedChatModel:
    """A model that calls a tool in each turn."""
    return ScriptedChatModel(
        [
            [{"name": name, "args": {"a": turn, "b": n}, "id": f"{turn}-{n}"} for n in range(calls)]
            for turn in range(30)
        ]
    )


def limit(steps: int, **config: Any) -> Any:
    return {"recursion_limit": steps, **config}


def turns(result: Any) -> int:
    """The number of calls that ran."""
    return sum(message.status == "success" for message in tool_messages(result))


def least(run: Any, steps: int = 1) -> int:
    """The lowest limit with which a run ends."""
    while True:
        try:
            run(steps)
        except GraphRecursionError:
            steps += 1
        else:
            return steps


@settings.get_profile("costly")
@given(
    fused=st.sampled_from([False, True, "turn"]),
    stack=st.sampled_from(sorted(STACKS)),
    saver=st.booleans(),
    streamed=st.booleans(),
    is_async=st.booleans(),
)
def test_every_limit_that_allows_an_answer_ends_with_one(
    fused: Any, stack: str, saver: bool, streamed: bool, is_async: bool
) -> None:
    """From the lowest limit that allows an answer on."""

    def result_of(steps: int) -> Any:
        keeps: Any = {"checkpointer": InMemorySaver()} if saver else {}
        agent: Any = create_agent(
            restless(), [add], middleware=STACKS[stack](), fused=fused, **keeps
        )
        config = limit(steps, configurable={"thread_id": "1"})
        if not streamed:
            return asyncio.run(agent.ainvoke(GO, config)) if is_async else agent.invoke(GO, config)

        async def watch() -> Any:
            return [part async for part in agent.astream(GO, config, stream_mode="values")]

        parts = agent.stream(GO, config, stream_mode="values")
        return (asyncio.run(watch()) if is_async else [*parts])[-1]

    first = least(result_of)
    counts = []
    for steps in range(first, first + 10):
        result = result_of(steps)
        end = next(m for m in reversed(result["messages"]) if isinstance(m, AIMessage))
        assert end.text == (
            f"The run ended: its recursion limit of {steps} leaves too few steps for the calls "
            "of add."
        )
        counts.append(turns(result))
    assert counts == sorted(counts)
    assert (counts[0], counts[-1] > 0) == (0, True)


@EACH_STACK
def test_hook_by_hook_it_ends_as_late_as_possible(call: Any, stack: str) -> None:
    """LangGraph looks once more after the last step: a run of k steps needs a limit of k + 1."""
    number = {"no hooks": 0, "more hooks": 2}.get(stack, 1)
    turn, around = 2 + 2 * number, 2 * number  # hooks around the loop
    answer = 1 + 2 * number
    for steps in range(around + answer + 1, around + answer + 20):
        agent = create_agent(restless(), [add], middleware=STACKS[stack](), fused=False)
        ran = turns(call(agent, GO, limit(steps)))
        assert ran == (steps - 1 - around - answer) // turn


@EACH_WAY
def test_the_work_is_kept_and_the_thread_goes_on(call: Any, fused: Any) -> None:
    saver: Any = InMemorySaver()
    thread: Any = {"configurable": {"thread_id": "1"}}
    calls = [{"name": "add", "args": {"a": 1, "b": n}, "id": f"c{n}"} for n in (1, 2)]
    model = ScriptedChatModel([calls, AIMessage("On it.", tool_calls=[{**calls[0], "id": "c3"}])])
    agent = create_agent(model, [add], checkpointer=saver, fused=fused)
    result = call(agent, GO, {**thread, **limit(4)})
    assert tool_texts(result) == [
        "2",
        "3",
        "Error: the run ended at its recursion limit, so this call did not run.",
    ]
    asked, refused, end = result["messages"][-3:]
    assert (asked.text, refused.tool_call_id, refused.status) == ("On it.", "c3", "error")
    assert end.additional_kwargs == refused.additional_kwargs == {"lc_source": "recursion_limit"}
    assert agent.get_state(thread).next == ()
    # The thread has had its steps: the limit is one of the run.
    again = create_agent(ScriptedChatModel(["Four."]), [add], checkpointer=saver, fused=fused)
    result = call(again, GO, {**thread, **limit(4)})
    assert [m.text for m in result["messages"][-2:]] == ["Go", "Four."]


@EACH_WAY
def test_a_limit_too_low_for_an_end_leaves_the_calls_to_the_next_run(call: Any, fused: Any) -> None:
    model = ScriptedChatModel([[{"name": "add", "args": {"a": 1, "b": 1}, "id": "1"}], "Two."])
    agent = create_agent(model, [add], checkpointer=InMemorySaver(), fused=fused)
    thread: Any = {"configurable": {"thread_id": "1"}}
    with pytest.raises(GraphRecursionError):
        call(agent, GO, {**thread, **limit(1)})
    result = call(agent, None, thread)
    assert (tool_texts(result), result["messages"][-1].text) == (["2"], "Two.")


@EACH_WAY
def test_calls_whose_results_are_the_answer_need_fewer_steps(call: Any, fused: Any) -> None:
    for name, calls, ran in (("show", 1, 1), ("show", 2, 0), ("add", 1, 0)):
        agent = create_agent(restless(name, calls), [add, show], fused=fused)
        assert turns(call(agent, GO, limit(3))) == ran


@EACH_WAY
def test_an_answer_needs_no_more_steps_than_before(call: Any, fused: Any) -> None:
    agent = create_agent(ScriptedChatModel(["Hi"]), [add], fused=fused)
    assert call(agent, GO, limit(2))["messages"][-1].text == "Hi"


@EACH_WAY
def test_nobody_is_asked_about_calls_that_cannot_run(call: Any, fused: Any) -> None:
    agent = create_agent(
        restless(),
        [add],
        middleware=[HumanInTheLoopMiddleware({"add": True})],
        checkpointer=InMemorySaver(),
        fused=fused,
    )
    result = call(agent, GO, limit(3, configurable={"thread_id": "1"}))
    assert "__interrupt__" not in result
    assert turns(result) == 0


@EACH_WAY
def test_calls_with_invalid_json_count_as_well(call: Any, fused: Any) -> None:
    broken = {"name": "add", "args": "{", "id": "1", "error": None, "type": "invalid_tool_call"}
    model = ScriptedChatModel([AIMessage("", invalid_tool_calls=[broken])])
    result = call(create_agent(model, [add], fused=fused), GO, limit(2))
    assert tool_messages(result)[0].text.startswith("Error: the run ended at its recursion limit")


@EACH_WAY
def test_a_structured_answer_that_is_there_is_kept(call: Any, fused: Any) -> None:
    asked = [
        {"name": "add", "args": {"a": 1, "b": 1}, "id": "1"},
        {"name": "Number", "args": {"n": 3}, "id": "2"},
    ]
    agent = create_agent(
        ScriptedChatModel([asked]), [add], response_format=ToolStrategy(Number), fused=fused
    )
    result = call(agent, GO, limit(3))
    assert result["structured_response"] == Number(n=3)


@EACH_WAY
def test_an_agent_in_a_graph_ends_with_an_answer_and_the_graph_goes_on(
    call: Any, fused: Any
) -> None:
    """Each graph counts its own steps, up to the limit of the run."""
    agent = create_agent(restless(), [add], fused=fused)
    graph = StateGraph(MessagesState).add_node("agent", agent)
    graph.add_node("after", lambda state: {"messages": [AIMessage("After.")]})
    graph.add_edge(START, "agent").add_edge("agent", "after")
    result = call(graph.compile(), GO, limit(5))
    assert [m.text for m in result["messages"][-2:]] == [
        "The run ended: its recursion limit of 5 leaves too few steps for the calls of add.",
        "After.",
    ]


@EACH_WAY
def test_an_agent_as_a_tool_reports_it_to_the_agent_around_it(call: Any, fused: Any) -> None:
    inner = create_agent(restless(), [add], fused=fused)

    @tool
    def ask_inner() -> str:
        """Ask the inner agent."""
        return str(inner.invoke(GO, limit(6))["messages"][-1].text)

    model = ScriptedChatModel([[{"name": "ask_inner", "args": {}, "id": "1"}], "Done."])
    result = call(create_agent(model, [ask_inner], fused=fused), GO)
    assert tool_texts(result)[0].startswith("The run ended: its recursion limit of 6")
    assert result["messages"][-1].text == "Done."


@EACH_WAY
def test_a_graph_around_it_still_has_its_own_limit(call: Any, fused: Any) -> None:
    agent = create_agent(ScriptedChatModel(["Hi"] * 30), [add], fused=fused)
    graph = StateGraph(MessagesState).add_node("agent", agent)
    graph.add_edge(START, "agent").add_edge("agent", "agent")
    with pytest.raises(GraphRecursionError):
        call(graph.compile(), GO, limit(5))


@EACH_WAY
def test_a_hook_that_keeps_jumping_still_reaches_langgraphs_limit(call: Any, fused: Any) -> None:
    """No model call is pending: nothing that could be answered ends the loop."""

    class Again(AgentMiddleware):
        @hook_config(can_jump_to=["model"])
        def after_model(self, state: Any, runtime: Any) -> Any:
            return {"jump_to": "model"}

    model = ScriptedChatModel([f"Answer {n}" for n in range(30)])
    agent = create_agent(model, [add], middleware=[Again()], fused=fused)
    with pytest.raises(GraphRecursionError):
        call(agent, GO, limit(9))


@EACH_WAY
def test_the_decision_log_shows_the_end(call: Any, fused: Any) -> None:
    log: list[Any] = []
    agent = create_agent(restless(), [add], decisions=log.append, fused=fused)
    call(agent, GO, limit(3))
    skipped, reported, routed = (one for one in log if one.outcome != "passed")
    assert skipped.reason == "its recursion limit of 3 leaves too few steps for the calls of add"
    assert (reported.tool, reported.call_id, reported.detail) == ("add", "0-0", "recursion limit")
    assert (routed.detail, routed.reason) == ("__end__", "no calls left")


@EACH_WAY
def test_messages_of_the_end_are_streamed(collect: Any, fused: Any) -> None:
    agent = create_agent(restless(), [add], fused=fused)
    parts = collect(agent, GO, limit(3), stream_mode="messages")
    assert [m.text[:13] for m, _ in parts if isinstance(m, AIMessage | ToolMessage)][-2:] == [
        "Error: the ru",
        "The run ended",
    ]


def test_the_default_is_far_from_it(call: Any) -> None:
    assert create_agent(restless(), [add_tool]).config["recursion_limit"] == 9_999  # type: ignore[index]
    assert turns(call(create_agent(ScriptedChatModel(["Hi"]), [add]), GO, in_memory())) == 0
