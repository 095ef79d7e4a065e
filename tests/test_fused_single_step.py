"""Fused runs that nothing keeps: all of a run in one step, as long as nobody can tell."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Callable
from typing import Annotated, Any, NotRequired

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import RemoveMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.cache.memory import InMemoryCache
from langgraph.channels import EphemeralValue
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.errors import GraphRecursionError
from langgraph.managed import RemainingSteps
from langgraph.prebuilt import InjectedState, ToolRuntime
from langgraph.runtime import RunControl, get_runtime
from langgraph.types import Command, interrupt

from agent_factory import AgentMiddleware, AgentState, OmitFromOutput, create_agent
from agent_factory.testing import ScriptedChatModel
from samples import BackToModel
from tables import each
from waiting import auntil, until

Run = Callable[..., Any]
ASK: Any = {"messages": [{"role": "user", "content": "Well?"}]}
THREAD: Any = {"configurable": {"thread_id": "one"}}


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


def asked(*names: str) -> list[dict[str, Any]]:
    """A turn that calls tools."""
    return [{"name": name, "args": {"query": str(i)}} for i, name in enumerate(names)]


def spied(fused: Any, *steps: Any, **options: Any) -> tuple[Any, Spy]:
    """An agent, and the spy in its middleware and its tools."""
    spy, model = Spy(), ScriptedChatModel([*steps] or [asked("find"), "Done."])
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
    ],
)
def test_a_run_is_one_step(
    call: Run, fused: Any, turns: Any, results: list[str], hooks: int
) -> None:
    agent, spy = spied(fused, *[asked(*names) for names in turns], "Done.")
    assert texts(call(agent, ASK)) == results
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
    inner, spy = spied(fused, asked("find"), "Inner.")

    def ask_inner(query: str) -> str:
        """Ask another agent."""
        return texts(inner.invoke(ASK))[-1]

    model = ScriptedChatModel([asked("ask_inner"), "Done."])
    assert texts(call(create_agent(model, [ask_inner], fused=fused), ASK))[1] == "Inner."
    assert len(set(spy.tasks)) == 1


# --- what it counts -----------------------------------------------------------------------------


@each("limit", range(1, 13))
def test_skipped_steps_count_towards_the_limit(call: Run, fused: Any, limit: int) -> None:
    def ends(saver: Any) -> Any:
        spies = [Spy("a"), Spy("b")]
        model = ScriptedChatModel([asked("find"), asked("find", "find"), "Done."])
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


def test_a_long_run_keeps_its_order(call: Run) -> None:
    turns = 150
    agent, _ = spied(True, *([asked("find")] * turns), "Done.")
    outcome = call(agent, ASK, {"recursion_limit": 1000})
    assert texts(outcome) == [*(["", "found 0"] * turns), "Done."]
    assert len({message.id for message in outcome["messages"]}) == 2 * turns + 2


# --- what tools see and do ----------------------------------------------------------------------


class Noted(AgentState[Any]):
    """Keys that stay, and one that passes."""

    log: NotRequired[Annotated[list[str], operator.add]]
    flash: NotRequired[Annotated[str, EphemeralValue(str), OmitFromOutput]]


class Notes(AgentMiddleware):
    state_schema = Noted

    def after_model(self, state: Any, runtime: Any) -> Any:
        return {"log": ["noted"], "flash": "passes"}


def test_tools_see_what_they_see_hook_by_hook(call: Run, fused: Any) -> None:
    def look(state: Annotated[Any, InjectedState], runtime: ToolRuntime) -> str:
        """Look."""
        same = runtime.state == state
        state["log"].append("mine alone")
        runs = runtime.config["metadata"]["langgraph_node"]
        return f"{sorted(state)} {len(state['messages'])} {state['log']} {same} {runs}"

    def said(fused: Any) -> Any:
        model = ScriptedChatModel([[{"name": "look", "args": {}}]] * 2 + ["Done."])
        agent = create_agent(model, [look], middleware=[Notes()], fused=fused)
        outcome = call(agent, ASK)
        return texts(outcome), outcome["log"]

    assert said(fused) == said(False)
    assert "tools" in said(fused)[0][1]


class Seen(BaseCallbackHandler):
    """Notes the nodes that models and tools are called by."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []

    def on_chat_model_start(self, *_: Any, **known: Any) -> None:
        self.nodes.append(("model", known["metadata"]["langgraph_node"]))

    def on_tool_start(self, *_: Any, **known: Any) -> None:
        self.nodes.append(("tool", known["metadata"]["langgraph_node"]))


def test_models_and_tools_have_the_names_of_their_nodes(call: Run, fused: Any) -> None:
    seen = Seen()
    agent, _ = spied(fused)
    call(agent, ASK, {"callbacks": [seen]})
    assert seen.nodes == [("model", "model"), ("tool", "tools"), ("model", "model")]


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
    agent = create_agent(ScriptedChatModel([asked("fail")]), [fail], **options)
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
    agent = create_agent(ScriptedChatModel([asked("ask")]), [ask], middleware=[spy], fused=fused)

    def ask_inner(query: str) -> str:
        """Ask another agent."""
        ran.append("goes in")
        return str(agent.invoke(ASK))

    model = ScriptedChatModel([asked("ask_inner")])
    outer = create_agent(model, [ask_inner], fused=fused) if nested else agent
    outcome = call(outer, ASK)
    assert [waiting.value for waiting in outcome["__interrupt__"]] == ["0?"]
    assert [message.type for message in outcome["messages"]] == ["human", "ai"]
    assert (ran, len(spy.tasks)) == (["goes in"] * nested + ["0"], 2)


def test_an_invalid_write_is_refused_as_hook_by_hook(call: Run, fused: Any) -> None:
    @tool
    def forget(query: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Forget what was never said."""
        answer = ToolMessage("forgotten", tool_call_id=tool_call_id)
        return Command(update={"messages": [answer, RemoveMessage(id="nobody")]})

    def error(fused: Any) -> Any:
        agent = create_agent(ScriptedChatModel([asked("forget")]), [forget], fused=fused)
        with pytest.raises(ValueError, match="nobody") as caught:
            call(agent, ASK)
        return str(caught.value)

    assert error(fused) == error(False)


def test_custom_events_arrive_during_the_run(fused: Any) -> None:
    seen: list[str] = []

    def tell(query: str) -> str:
        """Say what happens."""
        get_stream_writer()("begins")
        until(lambda: seen)  # the stream is read in another thread
        seen.append("ends")
        return query

    agent = create_agent(ScriptedChatModel([asked("tell"), "Done."]), [tell], fused=fused)
    for event in agent.stream(ASK, stream_mode="custom"):
        seen.append(str(event))
    assert seen == ["begins", "ends"]


def test_parallel_runs_do_not_share_state(fused: Any) -> None:
    waiting: list[str] = []

    async def wait(query: str) -> str:
        """Wait for the other runs."""
        waiting.append(query)
        await auntil(lambda: len(waiting) == 8)
        return f"waited for {query}"

    def turn(messages: Any) -> Any:
        said = messages[-1].text
        return f"Done: {said}" if said.startswith("waited") else [call_of(said)]

    def call_of(query: str) -> Any:
        return {"name": "wait", "args": {"query": query}}

    async def main() -> Any:
        model = ScriptedChatModel([turn] * 16)
        agent: Any = create_agent(model, [wait], middleware=[Spy()], fused=fused)
        asks = ({"messages": [{"role": "user", "content": str(i)}]} for i in range(8))
        return await asyncio.gather(*(agent.ainvoke(ask) for ask in asks))

    outcomes = asyncio.run(main())
    assert [texts(each)[-1] for each in outcomes] == [f"Done: waited for {i}" for i in range(8)]
