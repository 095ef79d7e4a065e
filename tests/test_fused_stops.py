"""Fused runs: agents inside agents, hooks that stop in the middle, and what stays as it is."""

from __future__ import annotations

from typing import Any, NotRequired

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_config
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

from agent_factory import (
    AgentMiddleware,
    AgentState,
    Decision,
    Invoke,
    Jump,
    create_agent,
    hook_config,
    topology_of,
)
from agent_factory.errors import MissingNode
from agent_factory.runtime.agent import CompiledAgent
from agent_factory.runtime.step import run_of
from agent_factory.testing import ScriptedChatModel
from busy_agents import ASK, THREAD, Run, busy, find, model, steps
from tables import each


def done(*stack: Any, **options: Any) -> Any:
    """An agent that answers once, and whose runs are fused unless the options say otherwise."""
    options = {"checkpointer": InMemorySaver(), "fused": True, **options}
    return create_agent(ScriptedChatModel(["Done."]), middleware=[*stack], **options)


def found(**options: Any) -> Any:
    """An agent that calls a tool and answers, with hooks that do nothing."""
    options = {"checkpointer": InMemorySaver(), "fused": True, **options}
    return create_agent(model(), [find], middleware=busy(2), **options)


# --- agents inside graphs and tools -------------------------------------------------------------


@each("fused", [True, False])
def test_an_agent_in_a_tool_has_its_own_run(call: Run, fused: bool) -> None:
    """What the tools of the outer agent have yet to do is not done by those of the inner one."""
    runs: list[Any] = []

    def find(query: str) -> str:
        """Find something."""
        runs.append(run_of(get_config()))
        return "found"

    inner = create_agent(model(), [find], fused=fused)

    def ask(query: str) -> str:
        """Ask the other agent."""
        runs.append(run_of(get_config()))
        return str(inner.invoke(ASK)["messages"][-1].text)

    asked = [{"name": "ask", "args": {"query": "it"}}]
    call(create_agent(ScriptedChatModel([asked, "Done."]), [ask]), ASK)
    outer_run, inner_run = runs
    assert outer_run is not None
    assert inner_run is not outer_run
    assert (inner_run is None) is not fused


def nested_in_tool(fused: bool) -> tuple[Any, Any]:
    inner = create_agent(
        ScriptedChatModel(["Inner."]), middleware=busy(3), checkpointer=True, fused=fused
    )

    def find(query: str) -> str:
        """Find something."""
        return str(inner.invoke(ASK)["messages"][-1].text)

    return create_agent(model(), [find], middleware=busy(1), fused=fused), inner


def test_a_stream_with_subgraphs_shows_the_hooks_of_agents_inside(collect: Run) -> None:
    shown = []
    for fused in (False, True):
        agent, _ = nested_in_tool(fused)
        parts = collect(agent, ASK, stream_mode="updates", subgraphs=True)
        shown.append([(len(namespace), list(update)) for namespace, update in parts])
    assert shown[0] == shown[1]
    assert (1, ["busy 2.before_model"]) in shown[1]


def test_an_agent_inside_another_graph_runs_hook_by_hook(collect: Run) -> None:
    inner = create_agent(ScriptedChatModel(["Inner."]), middleware=busy(3), fused=True)
    graph: Any = StateGraph(AgentState)
    graph.add_node("agent", inner)
    graph.add_edge(START, "agent")
    parts = collect(graph.compile(), ASK, stream_mode="updates", subgraphs=True)
    assert ["busy 2.before_model"] in [list(update) for _, update in parts]


def test_an_agent_inside_a_fused_run_is_fused() -> None:
    seen: list[Any] = []

    class Inner(AgentMiddleware):
        def before_model(self, state: Any, runtime: Any) -> Any:
            seen.append(runtime.execution_info.checkpoint_id)

    inner = create_agent(
        ScriptedChatModel(["Inner."]), middleware=[Inner(name="a"), Inner(name="b")], fused=True
    )

    def find(query: str) -> str:
        """Find something."""
        return str(inner.invoke(ASK)["messages"][-1].text)

    create_agent(model(), [find], fused=True).invoke(ASK)
    assert len(seen) == 2
    assert len(set(seen)) == 1  # one step


# --- hooks that stop in the middle --------------------------------------------------------------


class Asking(AgentMiddleware):
    """Counts how often its code runs before it asks."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name)
        self.began = 0

    def before_model(self, state: Any, runtime: Any) -> Any:
        self.began += 1
        return {"messages": [HumanMessage(f"{self.name}: {interrupt('Really?')}")]}


def test_an_interrupt_repeats_no_more_than_in_a_run_hook_by_hook(call: Run) -> None:
    began = []
    for fused in (False, True, "turn"):
        stack: list[Any] = [*busy(1), Asking("first"), Asking("second")]
        agent = done(*stack, fused=fused)
        (asked,) = call(agent, ASK, THREAD)["__interrupt__"]
        assert agent.get_state(THREAD).next == ("first.before_model",)
        (again,) = call(agent, Command(resume={asked.id: "yes"}), THREAD)["__interrupt__"]
        assert agent.get_state(THREAD).next == ("second.before_model",)
        result = call(agent, Command(resume={again.id: "no"}), THREAD)
        texts = [message.text for message in result["messages"]]
        assert texts == ["Well?", "first: yes", "second: no", "Done."]
        began.append([member.began for member in stack[1:]])
    assert began == [[2, 2]] * 3


def test_writes_of_hooks_before_a_failing_one_are_kept(call: Run) -> None:
    class Writing(AgentMiddleware):
        def before_model(self, state: Any, runtime: Any) -> Any:
            return {"messages": [HumanMessage("kept")]}

    class Failing(AgentMiddleware):
        tries = 0

        def before_model(self, state: Any, runtime: Any) -> Any:
            self.tries += 1
            if self.tries == 1:
                raise ValueError("not today")

    failing = Failing()
    agent = done(Writing(), failing)
    with pytest.raises(ValueError, match="not today"):
        call(agent, ASK, THREAD)
    state = agent.get_state(THREAD)
    assert state.next == ("Failing.before_model",)
    assert [message.text for message in state.values["messages"]] == ["Well?", "kept"]
    assert failing.tries == 1
    result = call(agent, None, THREAD)
    assert [message.text for message in result["messages"]] == ["Well?", "kept", "Done."]


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


# --- what stays as it is ------------------------------------------------------------------------


def test_drawings_and_plans_are_those_of_the_agent() -> None:
    plain, quick = found(fused=False), found()
    assert topology_of(quick) == topology_of(plain)
    assert quick.get_graph().draw_mermaid() == plain.get_graph().draw_mermaid()


def test_manual_updates_follow_the_plan() -> None:
    agent = found()
    agent.update_state(THREAD, ASK, as_node="busy 0.before_model")
    assert agent.get_state(THREAD).next == ("busy 1.before_model",)


def test_a_bound_config_and_attributes_set_later_apply_to_fused_runs() -> None:
    agent = found()
    bound: Any = agent.with_config(THREAD)
    assert isinstance(bound, CompiledAgent)
    bound.invoke(ASK)
    assert len(steps(agent)) == 5
    later = found(checkpointer=None)
    later.checkpointer = InMemorySaver()
    later.invoke(ASK, THREAD)
    assert len(steps(later)) == 5


def test_jumps_are_followed_within_a_step(call: Run) -> None:
    seen: list[str] = []

    class Leaving(AgentMiddleware):
        @hook_config(can_jump_to=["end"])
        def before_model(self, state: Any, runtime: Any) -> Any:
            return {"jump_to": "end"}

        def after_agent(self, state: Any, runtime: Any) -> Any:
            seen.append(str(state.get("jump_to")))

    agent = done(Leaving())
    call(agent, ASK, THREAD)
    assert steps(agent)[1:] == [("Leaving.before_model",), ()]
    assert seen == ["end"]


def test_models_of_hooks_are_not_streamed(call: Run) -> None:
    seen: list[Any] = []

    class Ear(BaseCallbackHandler):
        def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None:
            seen.append(kwargs["tags"])

    class Mood(AgentMiddleware):
        def before_model(self, state: Any, runtime: Any) -> Any:
            ScriptedChatModel(["Cheerful."]).invoke("In what mood is the user?")

        def around_model(self, request: Any) -> Any:
            yield Invoke(ScriptedChatModel(["Still."]), "And now?")
            return (yield request)

    results = []
    for fused in (False, True, "turn"):
        agent = done(*busy(1), Mood(), checkpointer=None, fused=fused)
        call(agent, ASK, {"callbacks": [Ear()]})
        results.append([sorted(tag for tag in tags if "seq" not in tag) for tags in seen])
        seen.clear()
    assert results[0] == results[1] == results[2]


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
        agent = create_agent(model(), [find], middleware=[*busy(2), Hasty()], **options)
        call(agent, ASK)
        results.append(
            [(d.middleware, d.hook, d.outcome, d.detail, d.reason, d.changed) for d in decisions]
        )
    assert len(results[0]) > 10
    assert results[0] == results[1] == results[2]


def test_a_thread_of_another_agent_is_continued_as_hook_by_hook(call: Run) -> None:
    """It waits at a node that this agent has not, and has keys that this one does not know."""

    class Noted(AgentState[Any]):
        note: NotRequired[str]

    class Noting(AgentMiddleware):
        state_schema = Noted

        def before_model(self, state: Any, runtime: Any) -> Any:
            return {"note": str(interrupt("Really?"))}

    results = []
    for fused in (False, True, "turn"):
        saver = InMemorySaver()
        other = create_agent(model(), [find], middleware=[Noting()], checkpointer=saver)
        other.invoke(ASK, THREAD)
        agent = found(checkpointer=saver, fused=fused)
        with pytest.raises(MissingNode, match=r"Noting\.before_model"):
            call(agent, None, THREAD)
        outcome = call(agent, ASK, THREAD)
        results.append([message.text for message in outcome["messages"]])
        results[-1].append(str(agent.get_state(THREAD).next))
    assert results[0] == results[1] == results[2]


@each("mode", ["messages", ["messages", "values"]], ids=str)
def test_messages_of_a_hook_after_the_model_are_streamed(collect: Run, mode: Any) -> None:
    """It writes in a separate step, because the answer of the model is stored before."""

    class Adding(AgentMiddleware):
        def after_model(self, state: Any, runtime: Any) -> Any:
            return {"messages": [AIMessage(f"{self.name} adds")]}

    shown = []
    for fused in (True, False):
        agent = done(*busy(1), Adding(name="one"), Adding(name="two"), fused=fused)
        parts = collect(agent, ASK, THREAD, stream_mode=mode)
        events = [part if mode == "messages" else part[1] for part in parts if part[0] != "values"]
        shown.append(
            [(message.text, m["langgraph_node"], m["langgraph_step"]) for message, m in events]
        )
    assert shown[0] == shown[1]
    assert ("one adds", "one.after_model", 5) in shown[0]
