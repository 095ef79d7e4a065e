"""Fused runs: one step if nothing is stored, agents inside, and parallel calls."""

from __future__ import annotations

import asyncio
from copy import deepcopy
from typing import Annotated, Any, NotRequired

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.cache.memory import InMemoryCache
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphRecursionError
from langgraph.graph import START, StateGraph
from langgraph.managed import RemainingSteps
from langgraph.prebuilt import ToolRuntime
from langgraph.runtime import RunControl, get_runtime
from langgraph.types import Command, interrupt
from stack_agents import kept_agent

from agent_factory import AgentMiddleware, AgentState, create_agent, hook_config, wrap_tool_call
from agent_factory.decisions import Decision, Jump
from agent_factory.prebuilt import create_react_agent
from agent_factory.runtime.agent import CompiledAgent
from agent_factory.runtime.tools_node import ToolsNode
from agent_factory.testing import ScriptedChatModel, assert_valid_history
from busy_agents import ASK, THREAD, Run, busy, find, model, steps
from samples import BackToModel, last_text, tool_texts
from tables import each
from waiting import auntil


def task() -> str:
    """The task this is called in."""
    info = get_runtime().execution_info
    assert info is not None
    return info.checkpoint_id


class Spy(AgentMiddleware):
    """Notes the tasks in which its hooks and its tool run."""

    def __init__(self, name: str = "spy") -> None:
        super().__init__(name=name)
        self.tasks: list[str] = []

    def before_model(self, state: Any, runtime: Any) -> None:
        self.tasks.append(task())

    def after_model(self, state: Any, runtime: Any) -> None:
        self.tasks.append(task())

    def find(self, query: str) -> str:
        """Find something."""
        self.tasks.append(task())
        return f"found {query}"


def spied(fused: Any, *steps: Any, **options: Any) -> tuple[Any, Spy]:
    """An agent, and the spy in its middleware and its tools."""
    spy, model = Spy(), ScriptedChatModel([*steps] or [calls("find"), "Done."])
    return create_agent(model, [spy.find], middleware=[spy], fused=fused, **options), spy


def texts(outcome: Any) -> list[str]:
    return [message.text for message in outcome["messages"][1:]]


@pytest.fixture(params=[True, "turn"])
def fused(request: pytest.FixtureRequest) -> Any:
    """Either way, which count their steps differently."""
    return request.param


# --- when it is one step ------------------------------------------------------------------------


@each(
    "turns, results, hooks",
    [
        ([["find"], ["find"]], ["", "found 0", "", "found 0", "Done."], 8),
        # Parallel calls are sent, and the run continues after them.
        ([["find"] * 2, ["find"]], ["", "found 0", "found 1", "", "found 0", "Done."], 9),
        ([["find"]] * 150, [*(["", "found 0"] * 150), "Done."], 452),
    ],
)
def test_a_run_is_one_step(
    call: Run, fused: Any, turns: Any, results: list[str], hooks: int
) -> None:
    agent, spy = spied(fused, *[calls(*names) for names in turns], "Done.")
    assert texts(call(agent, ASK, {"recursion_limit": 1000})) == results
    assert len(spy.tasks) == hooks
    assert len(set(spy.tasks)) == 1 or turns[0] == ["find"] * 2


class Counted(AgentState[Any]):
    """A state that says how many steps are left."""

    left: NotRequired[RemainingSteps]


@each(
    "options, attributes, known",
    [
        ({"checkpointer": InMemorySaver()}, {}, {}),
        ({"cache": InMemoryCache()}, {}, {}),
        ({"state_schema": Counted}, {}, {}),
        ({}, {"step_timeout": 60}, {}),
        ({}, {"checkpointer": InMemorySaver()}, {}),
        ({}, {"interrupt_after_nodes": ["tools"]}, {}),
        ({}, {}, {"control": RunControl()}),
    ],
)
def test_services_that_store_count_or_stop_at_steps_get_them(
    call: Run, fused: Any, options: Any, attributes: Any, known: Any
) -> None:
    agent, spy = spied(fused, **options)
    for name, value in attributes.items():
        setattr(agent, name, value)
    call(agent, ASK, THREAD, **known)
    assert len(set(spy.tasks)) > 1


def test_an_agent_inside_takes_one_step_as_well(call: Run, fused: Any) -> None:
    inner, spy = spied(fused, calls("find"), "Inner.")

    def ask_inner(query: str) -> str:
        """Ask another agent."""
        return texts(inner.invoke(ASK))[-1]

    model = ScriptedChatModel([calls("ask_inner"), "Done."])
    assert texts(call(create_agent(model, [ask_inner], fused=fused), ASK))[1] == "Inner."
    assert len(set(spy.tasks)) == 1


# --- what it counts -----------------------------------------------------------------------------


@each("limit", range(1, 13))
def test_skipped_steps_count_towards_the_limit(call: Run, fused: Any, limit: int) -> None:
    def ends(saver: Any) -> Any:
        spies = [Spy("a"), Spy("b")]
        model = ScriptedChatModel([calls("find"), calls("find", "find"), "Done."])
        agent = create_agent(
            model, [spies[0].find], middleware=spies, fused=fused, checkpointer=saver
        )
        try:
            result = texts(call(agent, ASK, {**THREAD, "recursion_limit": limit}))
        except GraphRecursionError as error:
            result = [str(error).partition(",")[0].partition(" without")[0]]
        return result, len(spies[0].tasks), len(spies[1].tasks)

    assert ends(None) == ends(InMemorySaver())


def test_an_endless_loop_gets_an_error_with_a_hint(fused: Any) -> None:
    model = ScriptedChatModel([f"Answer {n}" for n in range(20)])
    agent = create_agent(model, [Spy().find], middleware=[BackToModel()], fused=fused)
    with pytest.raises(GraphRecursionError, match=r"limit of 7 reached.*`recursion_limit`"):
        agent.invoke(ASK, {"recursion_limit": 7})
    assert len(model.requests) == (4 if fused is True else 7)


# --- what tools see and do ----------------------------------------------------------------------


@each("saver", [None, InMemorySaver()])
def test_an_exception_of_a_tool_comes_from_the_tools_node_and_it_runs_once(
    call: Run, fused: Any, saver: Any
) -> None:
    ran = []

    def fail(query: str) -> str:
        """Fail."""
        ran.append(query)
        raise ConnectionError(query)

    spy = Spy()
    options: Any = {"middleware": [spy], "fused": fused, "checkpointer": saver}
    agent = create_agent(ScriptedChatModel([calls("fail")]), [fail], **options)
    with pytest.raises(ConnectionError) as caught:
        call(agent, ASK, {"configurable": {"thread_id": f"{call} {fused}"}})
    assert "name 'tools'" in "".join(caught.value.__notes__)
    assert (ran, len(spy.tasks)) == (["0"], 2)


@each("nested", [False, True])
def test_an_interrupt_is_returned_and_nothing_runs_twice(
    call: Run, fused: Any, nested: bool
) -> None:
    ran = []

    def ask(query: str) -> str:
        """Ask a person."""
        ran.append(query)
        return str(interrupt(f"{query}?"))

    spy = Spy()
    agent = create_agent(ScriptedChatModel([calls("ask")]), [ask], middleware=[spy], fused=fused)

    def ask_inner(query: str) -> str:
        """Ask another agent."""
        ran.append("goes in")
        return str(agent.invoke(ASK))

    model = ScriptedChatModel([calls("ask_inner")])
    outer = create_agent(model, [ask_inner], fused=fused) if nested else agent
    outcome = call(outer, ASK)
    assert [waiting.value for waiting in outcome["__interrupt__"]] == ["0?"]
    assert [message.type for message in outcome["messages"]] == ["human", "ai"]
    assert (ran, len(spy.tasks)) == (["goes in"] * nested + ["0"], 2)


def test_parallel_runs_do_not_share_state(fused: Any) -> None:
    waiting: list[str] = []

    async def wait(query: str) -> str:
        """Wait for the other runs."""
        waiting.append(query)
        await auntil(lambda: len(waiting) == 8)
        return f"waited for {query}"

    def turn(messages: Any) -> Any:
        said = messages[-1].text
        return said if said.startswith("waited") else [{"name": "wait", "args": {"query": said}}]

    async def main() -> Any:
        agent: Any = create_agent(
            ScriptedChatModel([turn] * 16), [wait], middleware=[Spy()], fused=fused
        )
        return await asyncio.gather(*(agent.ainvoke({"messages": str(i)}) for i in range(8)))

    assert [texts(run)[-1] for run in asyncio.run(main())] == [f"waited for {i}" for i in range(8)]


def done(*stack: Any, **options: Any) -> Any:
    """An agent that answers once, and whose runs are fused unless the options say otherwise."""
    options = {"checkpointer": InMemorySaver(), "fused": True, **options}
    return create_agent(ScriptedChatModel(["Done."]), middleware=[*stack], **options)


def found(**options: Any) -> Any:
    """An agent that calls a tool and answers, with hooks that do nothing."""
    options = {"checkpointer": InMemorySaver(), "fused": True, **options}
    return create_agent(model(), [find], middleware=busy(2), **options)


# --- graphs inside hooks, and models of hooks ---------------------------------------------------


def test_a_graph_inside_a_hook_may_interrupt() -> None:
    inner: Any = StateGraph(AgentState)
    inner.add_node("ask", lambda state: {"messages": [AIMessage(str(interrupt("Really?")))]})
    inner.add_edge(START, "ask")
    asks = inner.compile()

    class Consulting(AgentMiddleware):
        def before_model(self, state: Any, runtime: Any) -> Any:
            return {"messages": [asks.invoke({"messages": []})["messages"][-1]]}

    agent = done(*busy(2), Consulting())
    (asked,) = agent.invoke(ASK, THREAD)["__interrupt__"]
    assert agent.get_state(THREAD).next == ("Consulting.before_model",)
    result = agent.invoke(Command(resume={asked.id: "yes"}), THREAD)
    assert [message.text for message in result["messages"]] == ["Well?", "yes", "Done."]


@each("fused, count", [(True, 5), (False, 17)])
def test_a_bound_config_applies_to_a_deep_copy_which_has_the_saver(fused: bool, count: int) -> None:
    """A deep copy of another graph of langgraph 1.2 does not run."""
    agent = found(fused=fused)
    bound: Any = deepcopy(agent).with_config(THREAD)
    assert isinstance(bound, CompiledAgent)
    bound.invoke(ASK)
    assert len(steps(agent)) == count


class Hasty(AgentMiddleware):
    """Leaves the run with its second turn."""

    @hook_config(can_jump_to=["end"])
    def before_model(self, state: Any, runtime: Any) -> Any:
        if len(state["messages"]) > 1:
            return Jump("end", reason="It is late.")


def test_the_decision_log_is_that_of_a_run_hook_by_hook(call: Run) -> None:
    results = []
    for fused in (False, True, "turn"):
        decisions: list[Decision] = []
        options: Any = {"decisions": decisions.append, "fused": fused}
        call(create_agent(model(), [find], middleware=[*busy(2), Hasty()], **options), ASK)
        results.append(
            [(d.middleware, d.hook, d.outcome, d.detail, d.reason, d.changed) for d in decisions]
        )
    assert len(results[0]) > 10
    assert results[0] == results[1] == results[2]


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
        assert tool_texts(outcome) == [f"found {number}" for number in range(20)]
        assert len(set(tasks)) == number
        assert_valid_history(outcome["messages"])
        tasks.clear()


def test_a_call_that_waits_has_its_own_task_and_the_others_do_not_run_again(call: Run) -> None:
    tools = Tools()
    agent = agent_of(tools, "find", "ask", "find")
    (asked,) = call(agent, ASK, THREAD)["__interrupt__"]
    assert sorted(tools.ran) == ["0", "2", "asked 1"]
    assert agent.get_state(THREAD).next == ("tools",)
    outcome = call(agent, Command(resume={asked.id: "yes"}), THREAD)
    assert tool_texts(outcome) == ["found 0", "yes", "found 2"]
    assert sorted(tools.ran) == ["0", "2", "asked 1", "asked 1", "got yes"]
    assert_valid_history(outcome["messages"])


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
    agent = kept_agent([calls("find", "ask"), "Done."], tools=[outer.find, ask])
    (asked,) = call(agent, ASK, THREAD)["__interrupt__"]
    assert inner.ran == ["0", "asked 0"]
    outcome = call(agent, Command(resume={asked.id: "yes"}), THREAD)
    assert tool_texts(outcome) == ["found 0", "Asked."]
    assert outer.ran == ["0"]
    assert inner.ran == ["0", "asked 0", "asked 0", "got yes"]


def test_a_call_that_fails_runs_again_when_the_run_goes_on(call: Run) -> None:
    tools = Tools()
    agent = agent_of(tools, "find", "fail", "find")
    with pytest.raises(ConnectionError, match="1"):
        call(agent, ASK, THREAD)
    assert tool_texts(call(agent, None, THREAD)) == ["found 0", "at last", "found 2"]
    assert tools.ran.count("failed 1") == 2


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
    assert tool_texts(outcome) == ["found 0", "found 1"]
    assert tools.ran == ["1", "0"]


def test_calls_of_one_id_keep_their_tasks(call: Run) -> None:
    tools = Tools()
    twice = [{**made, "id": "same"} for made in calls("find", "find")]
    agent = kept_agent([twice, "Done."], tools=[tools.find], fused=True)
    plain = create_agent(ScriptedChatModel([twice, "Done."]), [Tools().find])
    assert tool_texts(call(agent, ASK, THREAD)) == tool_texts(call(plain, ASK))


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
    assert tool_texts(outcome) == ["found 0", "found 1"]
    assert outcome["messages"][-1].text == "Done."
