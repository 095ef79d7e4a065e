"""Fused runs: the parallel tool calls of one turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

from agent_factory import (
    AgentMiddleware,
    AgentState,
    ToolRuntime,
    create_agent,
    create_react_agent,
    wrap_tool_call,
)
from agent_factory.runtime.tools_node import ToolsNode
from agent_factory.testing import ScriptedChatModel, assert_valid_history
from samples import last_text
from tables import each

Run = Callable[..., Any]
ASK: Any = {"messages": [{"role": "user", "content": "Well?"}]}
THREAD: Any = {"configurable": {"thread_id": "one"}}


class Tools:
    """Tools that count how often they run."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def find(self, query: str) -> str:
        """Find something."""
        self.ran.append(query)
        return f"found {query}"

    def ask(self, query: str) -> str:
        """Ask a person."""
        self.ran.append(f"asked {query}")
        answer = interrupt(query)
        self.ran.append(f"got {answer}")
        return str(answer)

    def fail(self, query: str) -> str:
        """Fail once."""
        self.ran.append(f"failed {query}")
        if self.ran.count(f"failed {query}") == 1:
            raise ConnectionError(query)
        return "at last"


def calls(*names: str) -> list[dict[str, Any]]:
    return [
        {"name": name, "args": {"query": str(number)}, "id": f"call {number}"}
        for number, name in enumerate(names)
    ]


def agent_of(tools: Tools, *names: str, others: Any = (), **options: Any) -> Any:
    model = ScriptedChatModel([calls(*names), "Done."])
    options = {"checkpointer": InMemorySaver(), "fused": True, **options}
    return create_agent(model, [tools.find, tools.ask, tools.fail, *others], **options)


def results(outcome: Any) -> list[str]:
    return [message.text for message in outcome["messages"] if isinstance(message, ToolMessage)]


def test_all_calls_of_a_turn_are_one_task_if_nothing_is_stored(call: Run) -> None:
    tasks: list[Any] = []

    @tool
    def find(query: str, runtime: ToolRuntime) -> str:
        """Find something."""
        tasks.append(runtime.config["configurable"]["checkpoint_ns"])
        return f"found {query}"

    for saver, number in ((None, 1), (InMemorySaver(), 20)):
        model = ScriptedChatModel([calls(*["find"] * 20), "Done."])
        outcome = call(create_agent(model, [find], checkpointer=saver), ASK, THREAD)
        assert results(outcome) == [f"found {number}" for number in range(20)]
        assert len(set(tasks)) == number
        assert_valid_history(outcome["messages"])
        tasks.clear()


def test_calls_that_ask_are_shown_together_if_nothing_is_stored(call: Run) -> None:
    outcome = call(agent_of(Tools(), "ask", "find", "ask", checkpointer=None), ASK)
    assert sorted(asked.value for asked in outcome["__interrupt__"]) == ["0", "2"]
    assert results(outcome) == ["found 1"]


def test_a_call_that_fails_ends_a_run_of_which_nothing_is_stored(call: Run) -> None:
    with pytest.raises(ConnectionError, match="1"):
        call(agent_of(Tools(), "find", "fail", checkpointer=None), ASK)


def test_a_call_that_waits_has_its_own_task_and_the_others_do_not_run_again(call: Run) -> None:
    tools = Tools()
    agent = agent_of(tools, "find", "ask", "find")
    (asked,) = call(agent, ASK, THREAD)["__interrupt__"]
    assert sorted(tools.ran) == ["0", "2", "asked 1"]
    assert agent.get_state(THREAD).next == ("tools",)
    outcome = call(agent, Command(resume={asked.id: "yes"}), THREAD)
    assert results(outcome) == ["found 0", "yes", "found 2"]
    assert sorted(tools.ran) == ["0", "2", "asked 1", "asked 1", "got yes"]
    assert_valid_history(outcome["messages"])


def test_several_calls_may_wait(call: Run) -> None:
    tools = Tools()
    agent = agent_of(tools, "ask", "find", "ask")
    asked = call(agent, ASK, THREAD)["__interrupt__"]
    assert sorted(question.value for question in asked) == ["0", "2"]
    answers = {question.id: f"yes {question.value}" for question in asked}
    outcome = call(agent, Command(resume=answers), THREAD)
    assert results(outcome) == ["yes 0", "found 1", "yes 2"]


def test_an_agent_that_waits_among_parallel_calls_does_not_begin_again(call: Run) -> None:
    """A checkpoint of a graph within a task belongs to that task."""
    inner = Tools()
    asking = create_agent(
        ScriptedChatModel([calls("find"), calls("ask"), "Asked."]), [inner.find, inner.ask]
    )

    @tool
    def ask(query: str) -> Any:
        """Ask an agent."""
        return last_text(asking.invoke(ASK))

    outer = Tools()
    model = ScriptedChatModel([calls("find", "ask"), "Done."])
    agent = create_agent(model, [outer.find, ask], checkpointer=InMemorySaver())
    (asked,) = call(agent, ASK, THREAD)["__interrupt__"]
    assert inner.ran == ["0", "asked 0"]
    outcome = call(agent, Command(resume={asked.id: "yes"}), THREAD)
    assert results(outcome) == ["found 0", "Asked."]
    assert outer.ran == ["0"]
    assert inner.ran == ["0", "asked 0", "asked 0", "got yes"]


def test_a_call_that_fails_runs_again_when_the_run_goes_on(call: Run) -> None:
    tools = Tools()
    agent = agent_of(tools, "find", "fail", "find")
    with pytest.raises(ConnectionError, match="1"):
        call(agent, ASK, THREAD)
    outcome = call(agent, None, THREAD)
    assert results(outcome) == ["found 0", "at last", "found 2"]
    assert tools.ran.count("failed 1") == 2


def test_errors_that_are_handled_are_results(call: Run) -> None:
    tools = Tools()
    agent = agent_of(tools, "find", "fail", "made_up", handle_tool_errors=True)
    outcome = call(agent, ASK, THREAD)
    statuses = [m.status for m in outcome["messages"] if isinstance(m, ToolMessage)]
    assert statuses == ["success", "error", "error"]


def test_a_layer_that_waits_gets_its_own_task(call: Run) -> None:
    tools = Tools()

    @wrap_tool_call
    def approve(request: Any) -> Any:
        if request.tool_call["id"] == "call 0":
            interrupt("May it?")
        return (yield request)

    agent = agent_of(tools, "find", "find", middleware=[approve])
    (asked,) = call(agent, ASK, THREAD)["__interrupt__"]
    assert tools.ran == ["1"]
    outcome = call(agent, Command(resume={asked.id: True}), THREAD)
    assert results(outcome) == ["found 0", "found 1"]
    assert tools.ran == ["1", "0"]


@tool
def stop(query: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Stop the run."""
    update = {"messages": [ToolMessage("stopped", tool_call_id=tool_call_id)]}
    return Command(goto="__end__", update=update)


@tool
def leave(query: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Go to the next agent."""
    update = {"messages": [ToolMessage("left", tool_call_id=tool_call_id)]}
    return Command(graph=Command.PARENT, goto="next", update=update)


@tool(return_direct=True)
def answer(query: str) -> str:
    """Answer at once."""
    return f"answer {query}"


@each("parallel", ["find", "ask"])
def test_a_tool_that_stops_the_run_stops_it_among_parallel_calls(call: Run, parallel: str) -> None:
    """Also where another one has to be asked first."""
    agent = agent_of(Tools(), "stop", parallel, others=[stop])
    outcome = call(agent, ASK, THREAD)
    if parallel == "ask":
        (asked,) = outcome["__interrupt__"]
        outcome = call(agent, Command(resume={asked.id: "yes"}), THREAD)
    assert [message.type for message in outcome["messages"]] == ["human", "ai", "tool", "tool"]
    assert agent.get_state(THREAD).next == ()


def test_parallel_direct_results_are_the_answer_together(call: Run) -> None:
    agent = create_agent(ScriptedChatModel([calls("answer", "answer")] * 2), [answer])
    assert results(call(agent, ASK)) == ["answer 0", "answer 1"]


def test_a_handoff_waits_for_the_parallel_call() -> None:
    agent = agent_of(Tools(), "leave", "ask", others=[leave], checkpointer=None, name="first")
    graph: Any = StateGraph(AgentState)
    graph.add_node("first", agent, destinations=("next",))
    graph.add_node("next", lambda state: {"messages": [("ai", "Here I am.")]})
    graph.add_edge(START, "first")
    whole = graph.compile(checkpointer=InMemorySaver())
    (asked,) = whole.invoke(ASK, THREAD)["__interrupt__"]
    outcome = whole.invoke(Command(resume={asked.id: "yes"}), THREAD)
    assert outcome["messages"][-1].text == "Here I am."


def test_calls_of_one_id_keep_their_tasks(call: Run) -> None:
    tools = Tools()
    twice = [{**made, "id": "same"} for made in calls("find", "find")]
    agent = create_agent(
        ScriptedChatModel([twice, "Done."]), [tools.find], checkpointer=InMemorySaver(), fused=True
    )
    plain = create_agent(ScriptedChatModel([twice, "Done."]), [Tools().find])
    assert results(call(agent, ASK, THREAD)) == results(call(plain, ASK))


def test_a_run_that_pauses_shows_every_call() -> None:
    agent = agent_of(Tools(), "find", "find", interrupt_before=["tools"])
    agent.invoke(ASK, THREAD)
    assert agent.get_state(THREAD).next == ("tools", "tools")


def test_tools_see_the_same_state_as_in_their_own_task(call: Run) -> None:
    seen: list[Any] = []

    class Look(AgentMiddleware):
        def around_tool(self, request: Any) -> Any:
            seen.append([message.type for message in request.state["messages"]])
            return (yield request)

    for fused in (False, True):
        options: Any = {"middleware": [Look()], "checkpointer": None, "fused": fused}
        call(agent_of(Tools(), "find", "find", **options), ASK)
    assert seen == [["human", "ai"]] * 4


@each("fused", [False, True, "turn"])
def test_results_have_their_ids_before_they_are_stored(
    call: Run, monkeypatch: pytest.MonkeyPatch, fused: Any
) -> None:
    given: list[Any] = []
    finish = ToolsNode._finish

    def finished(self: ToolsNode, *args: Any) -> Any:
        output = finish(self, *args)
        for part in output if isinstance(output, list) else [output]:
            update: Any = part.update if isinstance(part, Command) else part
            given.extend((message.text, message.id) for message in update["messages"])
        return output

    @tool
    def note(tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Write it down."""
        return Command(update={"messages": [ToolMessage("noted", tool_call_id=tool_call_id)]})

    monkeypatch.setattr(ToolsNode, "_finish", finished)
    asked: list[dict[str, Any]] = [{"name": "note", "args": {}}]
    model = ScriptedChatModel([calls("find", "find"), asked, asked + calls("find"), "Done."])
    agent = create_agent(model, [Tools().find, note], checkpointer=InMemorySaver(), fused=fused)
    outcome = call(agent, ASK, THREAD)
    kept = [(m.text, m.id) for m in outcome["messages"] if isinstance(m, ToolMessage)]
    assert sorted(given) == sorted(kept)


@each("fused", [False, True, "turn"])
def test_tools_that_wait_with_the_whole_state_are_continued(call: Run, fused: Any) -> None:
    """As those of a `create_react_agent` of version 1 do: one run of the tools has all calls."""
    saver, tools = InMemorySaver(), Tools()
    asks, pause = ScriptedChatModel([calls("find", "find")]), ["tools"]
    before = create_react_agent(
        asks, [tools.find], version="v1", checkpointer=saver, interrupt_before=pause
    )
    call(before, ASK, THREAD)
    model = ScriptedChatModel(["Done."])
    agent = create_agent(model, [tools.find], checkpointer=saver, fused=fused)
    outcome = call(agent, None, THREAD)
    assert results(outcome) == ["found 0", "found 1"]
    assert outcome["messages"][-1].text == "Done."
