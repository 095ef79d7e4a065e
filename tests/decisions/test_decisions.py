"""The decision log: who decided what, where in which run, and that it is not there unless asked."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, NotRequired
from uuid import uuid4

import pytest
from langchain_core.messages import HumanMessage, RemoveMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Command, interrupt

from agent_factory import AgentMiddleware, AgentState, create_agent, hook_config
from agent_factory.decisions import Decision, DecisionList, DecisionLog, Jump, Outcome, set_reason
from agent_factory.errors import SpecError, TurnError
from agent_factory.testing import ScriptedChatModel
from samples import THREAD, Noted, PassingFlows, add
from tables import each
from waiting import cancel

ASK: Any = {"messages": [("user", "2 + 3?")]}


def adding(*ids: str) -> list[Any]:
    return [{"name": "add", "args": {"a": 2, "b": 3}, "id": id} for id in ids]


class Idle(PassingFlows, AgentMiddleware):
    """Has everything, and does nothing."""

    def before_agent(self, state: Any, runtime: Any) -> None:
        return None

    def before_model(self, state: Any, runtime: Any) -> None:
        return None

    def after_model(self, state: Any, runtime: Any) -> None:
        return None


@pytest.fixture
def log() -> list[Decision]:
    return DecisionList()


def logged(log: list[Decision], *steps: Any, middleware: Any = (), **options: Any) -> Any:
    """An agent whose decisions are appended to a log."""
    middleware = middleware or [Idle()]
    options = {"tools": [add], "middleware": middleware, "decisions": log.append, **options}
    return create_agent(ScriptedChatModel([*steps]), **options)


def of(log: list[Decision], hook: str) -> list[Decision]:
    return [decision for decision in log if decision.hook == hook]


def test_every_hook_layer_and_route_is_recorded_in_the_order_of_the_run(
    call: Any, log: list[Decision]
) -> None:
    call(logged(log, adding("1"), "Five."), ASK)
    turn = ["Idle.before_model passed", "Idle.around_model passed", "Idle.after_model passed"]
    assert [str(decision) for decision in log] == [
        "Idle.before_agent passed",
        *turn,
        "Idle.after_model routed: tools (1 task) [pending calls]",
        "Idle.around_tool (add) passed",
        "tools routed: Idle.before_model [tool results]",
        *turn,
        "Idle.after_model routed: __end__ [no calls left]",
    ]
    assert all(decision.seconds >= 0 for decision in log)
    assert sorted(decision.at for decision in log) == [decision.at for decision in log]


def test_a_run_without_an_id_in_its_config_gets_one_and_has_no_thread_without_a_checkpointer(
    call: Any, log: list[Decision]
) -> None:
    agent = logged(log, "a", "b", tools=[])
    call(agent, ASK)
    assert {decision.thread for decision in log} == {None}
    assert [decision.step for decision in log] == [1, 2, 3, 4, 4]
    first = {decision.run for decision in log}
    log.clear()
    call(agent, ASK)
    second = {decision.run for decision in log}
    assert len(first) == len(second) == 1
    assert first != second
    assert "" not in first | second


def test_thread_and_step_are_those_of_the_checkpoints(call: Any, log: list[Decision]) -> None:
    agent = logged(log, adding("1"), "Five.", checkpointer=InMemorySaver(), fused=False)
    call(agent, ASK, THREAD)
    assert {decision.thread for decision in log} == {"1"}
    steps = {
        task.name: snapshot.metadata["step"] + 1
        for snapshot in agent.get_state_history(THREAD)
        if snapshot.metadata
        for task in snapshot.tasks
        if snapshot.metadata["step"] < 5
    }
    recorded = {f"{d.middleware}.{d.hook}": d.step for d in reversed(log)}
    assert recorded["Idle.before_agent"] == steps["Idle.before_agent"] == 1
    assert recorded["Idle.around_model"] == steps["model"] == 3
    assert recorded["Idle.around_tool"] == steps["tools"] == 5


def test_a_resumed_run_is_a_new_run_in_the_same_thread_and_step(
    call: Any, log: list[Decision]
) -> None:
    class Asking(AgentMiddleware):
        def after_model(self, state: Any, runtime: Any) -> Any:
            interrupt("Well?")

    agent = logged(log, "a", middleware=[Asking()], checkpointer=InMemorySaver())
    call(agent, ASK, THREAD)
    asked = log[-1]
    assert asked.outcome is Outcome.INTERRUPTED
    log.clear()
    call(agent, Command(resume="yes"), THREAD)
    answered = log[0]
    assert (answered.hook, answered.outcome) == ("after_model", Outcome.PASSED)
    assert (answered.thread, answered.step) == (asked.thread, asked.step) == ("1", 2)
    assert answered.run != asked.run


def test_a_subagent_has_the_id_of_the_run_its_own_name_and_the_namespace_of_its_stream(
    collect: Any, log: list[Decision]
) -> None:
    helper = logged(log, "in", tools=[], name="helper")

    def ask() -> str:
        """Ask a colleague."""
        return str(helper.invoke(ASK)["messages"][-1].text)

    agent = logged(log, [{"name": "ask", "args": {}}], "out", tools=[ask], name="boss")
    run = uuid4()
    chunks = collect(agent, ASK, {"run_id": run}, stream_mode="updates", subgraphs=True)
    streamed = {namespace for namespace, _ in chunks}
    found = {decision.agent: decision.namespace for decision in log}
    assert found["boss"] == ()
    assert len(found["helper"]) == 1
    assert {found["boss"], found["helper"]} == streamed
    inside = [decision for decision in log if decision.agent == "helper"]
    assert [decision.step for decision in inside] == [1, 2, 3, 4, 4]
    assert {decision.run for decision in log} == {str(run)}


def test_parallel_calls_of_one_tool_have_their_own_ids(call: Any, log: list[Decision]) -> None:
    call(logged(log, adding("1", "2", "3"), "Five."), ASK)
    around = of(log, "around_tool")
    assert sorted(decision.call_id for decision in around) == ["1", "2", "3"]
    assert {(decision.tool, decision.step) for decision in around} == {("add", 5)}
    assert len({decision.run for decision in log}) == 1


class Aside(AgentMiddleware):
    """Calls inward from a bare thread, in which LangGraph's context is lost."""

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        found: list[Any] = []
        thread = threading.Thread(target=lambda: found.append(handler(request)))
        thread.start()
        thread.join()
        return found[0]


def test_in_a_thread_without_context_the_run_is_known_and_the_stream_continues(
    log: list[Decision],
) -> None:
    middleware = [Aside(), Idle()]
    logged(log, "a", middleware=middleware, decisions=[log.append]).invoke(ASK)
    inner = of(log, "around_model")[0]
    assert inner.run == log[0].run
    assert inner.step == of(log, "wrap_model_call")[0].step == 3
    streaming = logged(log, "a", middleware=middleware, decisions=True)
    events = [event["decision"] for event in streaming.stream(ASK, stream_mode="custom")]
    assert "around_model" in [event["hook"] for event in events]


def test_outside_of_a_run_the_fields_of_a_run_are_empty(log: list[Decision]) -> None:
    DecisionLog(log.append).record(Decision("", None, 0, "A", "before_model", Outcome.PASSED), None)
    assert (log[0].run, log[0].thread, log[0].namespace) == ("", None, ())


def hook_of(method: Callable[..., Any], *jumps: Any) -> AgentMiddleware:
    """A middleware whose before_model is this function of the state."""

    class Hook(AgentMiddleware):
        state_schema = Noted

        @hook_config(can_jump_to=list(jumps))
        def before_model(self, state: Any, runtime: Any) -> Any:
            return method(state)

    return Hook()


def decided(call: Any, method: Callable[..., Any], *jumps: Any) -> Decision:
    """What is recorded of a hook; errors of the run are of no interest."""
    log: list[Decision] = []
    middleware = [hook_of(method, *jumps)]
    agent = create_agent(ScriptedChatModel(["a"]), middleware=middleware, decisions=log.append)
    try:
        call(agent, ASK)
    except (TurnError, OSError):
        assert log[-1].outcome is Outcome.RAISED
    return log[0]


def raising(state: Any) -> Any:
    raise OSError("no")


MESSAGE = HumanMessage("Hi", id="1")


@each(
    "method, outcome, detail, changed",
    [
        (lambda state: None, Outcome.PASSED, "", ()),
        (lambda state: {"note": "x"}, Outcome.WROTE, "", ("note",)),
        (lambda state: {"messages": MESSAGE}, Outcome.WROTE, "", ("messages +1 -0",)),
        (
            lambda state: {"messages": [MESSAGE, RemoveMessage(id=state["messages"][0].id)]},
            Outcome.WROTE,
            "",
            ("messages +1 -1",),
        ),
        (
            lambda state: {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), MESSAGE]},
            Outcome.WROTE,
            "",
            ("messages +1 -all",),
        ),
        (lambda state: Command(update={"note": "x"}), Outcome.WROTE, "", ("note",)),
        (lambda state: {"jump_to": "end", "note": "x"}, Outcome.JUMPED, "end", ("note",)),
        (raising, Outcome.RAISED, "OSError", ()),
        (lambda state: "junk", Outcome.RAISED, "BadReturn", ()),
        (lambda state: {"nowhere": 1}, Outcome.RAISED, "UnknownStateKey", ()),
        (lambda state: {"jump_to": "tools"}, Outcome.RAISED, "UndeclaredJump", ()),
        (lambda state: Command(goto="model"), Outcome.RAISED, "CommandNotSupported", ()),
    ],
)
def test_the_outcome_of_a_hook_follows_from_its_result(
    call: Any, method: Any, outcome: Outcome, detail: str, changed: Any
) -> None:
    decision = decided(call, method, "end")
    assert (decision.outcome, decision.detail) == (outcome, detail)
    assert decision.changed == changed


def test_a_hook_that_commands_the_parent_graph_hands_over(call: Any, log: list[Decision]) -> None:
    over = hook_of(lambda state: Command(graph=Command.PARENT, goto="other"))
    agent = logged(log, middleware=[over])
    parent: Any = StateGraph(MessagesState)
    parent.add_node("agent", agent)
    parent.add_node("other", lambda state: {"messages": [("ai", "Mine.")]})
    parent.add_edge(START, "agent")
    assert call(parent.compile(), ASK)["messages"][-1].text == "Mine."
    assert [decision.outcome for decision in log] == [Outcome.HANDED_OVER]


async def test_a_cancelled_hook_is_recorded_and_stays_cancelled(log: list[Decision]) -> None:
    begun = asyncio.Event()

    class Slow(AgentMiddleware):
        async def abefore_model(self, state: Any, runtime: Any) -> None:
            begun.set()
            await asyncio.Event().wait()

    run = asyncio.create_task(logged(log, middleware=[Slow()]).ainvoke(ASK))
    await begun.wait()
    await cancel(run)
    assert [(d.outcome, d.detail) for d in log] == [(Outcome.RAISED, "CancelledError")]


@each(
    "returned",
    [
        {"jump_to": "end", "reason": "closed"},
        Jump("end", reason="closed"),
        Command(update={"jump_to": "end", "reason": "closed"}),
        Command(update=[("jump_to", "end"), ("reason", "closed")]),
    ],
)
@each("kept", [True, False])
def test_a_hook_gives_its_reason_in_its_update_and_it_is_not_written(
    call: Any, returned: Any, kept: bool
) -> None:
    log: list[Decision] = []
    stack = [hook_of(lambda state: returned, "end")]
    done = call(logged(log, middleware=stack, decisions=log.append if kept else None), ASK)
    assert "reason" not in done
    assert [(d.reason, d.changed) for d in log][:1] == ([("closed", ())] if kept else [])


def test_a_state_key_called_reason_is_not_a_reason(call: Any, log: list[Decision]) -> None:
    class Reasoning(AgentState):
        reason: NotRequired[str]

    class Thinks(AgentMiddleware):
        state_schema = Reasoning

        def before_model(self, state: Any, runtime: Any) -> Any:
            return {"reason": "private"}

    assert call(logged(log, "a", middleware=[Thinks()]), ASK)["reason"] == "private"
    assert (log[0].reason, log[0].changed) == ("", ("reason",))


def test_hooks_and_layers_set_reasons_of_their_own_and_the_last_counts(
    call: Any, log: list[Decision]
) -> None:
    class Talks(AgentMiddleware):
        def before_model(self, state: Any, runtime: Any) -> None:
            set_reason("first")
            set_reason("hook")

        def around_model(self, request: Any) -> Any:
            set_reason("layer")
            return (yield request)

        def around_tool(self, request: Any) -> Any:
            response = yield request
            set_reason("tool layer")
            return response

    def chatty() -> str:
        """Say something."""
        set_reason("the tool's words")
        return "done"

    def answer(messages: Any) -> str:
        set_reason("the model's words")
        return "Five."

    steps = ([{"name": "chatty", "args": {}}], answer)
    call(logged(log, *steps, tools=[chatty], middleware=[Talks(), Idle()]), ASK)
    said = {(d.middleware, d.hook): d.reason for d in log if d.middleware}
    assert said["Talks", "before_model"] == "hook"
    assert said["Talks", "around_model"] == "layer"
    assert said["Talks", "around_tool"] == "tool layer"
    assert said["Idle", "around_model"] == said["Idle", "around_tool"] == ""


class Sink:
    async def __call__(self, decision: Decision) -> None: ...


NO_SINKS = [42, "log.jsonl", [print, 42], b"x", {"a": 1}, DecisionLog, object()]


@each(
    "junk, text",
    [*((junk, "") for junk in NO_SINKS), (Sink(), "not be awaited"), (Sink().__call__, "awaited")],
)
def test_an_invalid_sink_is_refused_when_the_agent_is_built(junk: Any, text: str) -> None:
    with pytest.raises(SpecError, match=f"decisions: .*{text}"):
        create_agent(ScriptedChatModel([]), decisions=junk)


def calls_of(run: Callable[[], object]) -> list[str]:
    """The functions of the log that run, and those of dataclasses that it calls."""
    names: list[str] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        file = frame.f_code.co_filename
        if event == "call" and (
            "/agent_factory/decisions/" in file or file.endswith("dataclasses.py")
        ):
            names.append(frame.f_code.co_qualname)

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return names


def wrappers(decisions: Any) -> set[str]:
    """The functions that the recorder has put around the parts of a run."""
    agent = logged([], adding("1"), "Five.", decisions=decisions)
    return {name for name in calls_of(lambda: agent.invoke(ASK)) if "<locals>" in name}


def test_without_a_log_nothing_of_a_run_is_wrapped() -> None:
    assert wrappers(None) == wrappers(False) == wrappers([]) == set()
    parts = ("hook", "layer", "tools", "repairing", "route")
    assert wrappers(lambda _: None) >= {f"Recorder.{part}.<locals>.recorded" for part in parts}


class OneHook(AgentMiddleware):
    def before_model(self, state: Any, runtime: Any) -> None:
        return None

    async def abefore_model(self, state: Any, runtime: Any) -> None:
        return None


def test_the_record_of_an_idle_hook_takes_few_calls(call: Any, log: list[Decision]) -> None:
    stack = [OneHook(name=f"hook{number}") for number in range(16)]
    agent = logged(log, "a", "b", tools=[], middleware=stack)
    call(agent, ASK)  # caches are filled
    log.clear()
    calls = calls_of(lambda: call(agent, ASK))
    assert [decision.outcome for decision in log] == ["passed"] * 16
    assert len(calls) / len(log) < 22
