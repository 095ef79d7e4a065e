"""`around_agent`: a flow around a whole run, from its input to its end or to its next pause."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
from collections.abc import Callable
from contextlib import suppress
from io import StringIO
from itertools import product
from threading import Event
from typing import Annotated, Any, NotRequired

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphDrained, GraphRecursionError
from langgraph.graph import StateGraph
from langgraph.runtime import RunControl
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, interrupt
from rich.console import Console
from watching import NESTED_STREAMS, STREAMS, compare

from agent_factory import (
    AgentMiddleware,
    AgentState,
    Decision,
    Invoke,
    PrivateStateAttr,
    RunPaused,
    Sleep,
    SpecError,
    Task,
    TurnError,
    agent_tool,
    create_agent,
    load_topology,
    plan_agent,
    set_reason,
    with_decisions,
)
from agent_factory.cli.show import plan_tree
from agent_factory.runtime.agent import CompiledAgent
from agent_factory.testing import ScriptedChatModel
from agent_factory.testing.fake_model import Reply
from reviews import ask
from samples import THREAD, Answer, BackToModel, Plain, User, texts
from tables import each
from waiting import auntil

ASK: Any = {"messages": [("user", "Go.")]}
Run = Callable[..., Any]


def made(flow: Any, name: str = "Mine", **attributes: Any) -> AgentMiddleware[Any, Any]:
    """A middleware with a flow around the run."""
    members = {"around_agent": flow, **attributes}
    middleware: AgentMiddleware[Any, Any] = type(name, (AgentMiddleware,), members)()
    return middleware


def calls(*names: str, **args: Any) -> list[dict[str, Any]]:
    return [{"name": name, "args": args, "id": f"{n}"} for n, name in enumerate(names)]


def boom() -> str:
    """Fail."""
    raise ValueError("it broke")


def fine() -> str:
    """Work."""
    return "fine"


def agent(
    *stack: Any, script: Any = ("Done.",), tools: Any = (ask, boom, fine), **more: Any
) -> Any:
    return create_agent(ScriptedChatModel([*script]), tools, middleware=stack, **more)


def asking(*stack: Any, **more: Any) -> Any:
    """An agent that asks a person, and then is done."""
    script = [calls("ask", question="ok?"), "Done."]
    return agent(*stack, **{"script": script, "checkpointer": InMemorySaver(), **more})


@pytest.fixture
def log() -> list[Any]:
    return list[Any]()


def passes(self: Any, state: Any) -> Any:
    """A flow that changes nothing."""
    return (yield state)


def says_bye(self: Any, state: Any) -> Any:
    """A flow that adds a message to the result."""
    yield state
    return {"messages": [AIMessage("Bye.")]}


def calling(inner: Any) -> Any:
    """An agent whose tool is the agent `clerk`."""
    clerk = agent_tool(inner, name="clerk", description="Asks.")
    script = [calls("clerk", request="Go."), "All done."]
    return agent(script=script, tools=[clerk], checkpointer=InMemorySaver())


class Watch(AgentMiddleware[Any, Any]):
    """Notes what happens to it."""

    def __init__(self, log: list[Any], name: str = "Watch") -> None:
        super().__init__(name=name)
        self.log = log

    def around_agent(self, state: Any, resumed: bool) -> Any:
        self.log.append(f"{self.name} {'resumed' if resumed else 'started'}")
        try:
            result = yield state
            self.log.append(f"{self.name} ended")
            return result
        except BaseException as error:
            self.log.append(f"{self.name} {type(error).__name__}")
            raise
        finally:
            self.log.append(f"{self.name} closed")


# What it is called with, and what it returns


@each("fused", [True, "turn", False])
@each("saver", [None, InMemorySaver])
def test_it_gets_the_input_and_the_final_state_with_its_private_keys(
    call: Run, fused: Any, saver: Any
) -> None:
    seen = []

    class Counted(AgentState[Any]):
        count: NotRequired[Annotated[int, PrivateStateAttr]]

    def before_agent(self: Any, state: Any, runtime: Any) -> Any:
        return {"count": 3}

    def flow(self: Any, state: Any) -> Any:
        seen.append(texts(state))
        result = yield state
        seen.append([*texts(result), result["count"]])

    middleware = made(flow, before_agent=before_agent, state_schema=Counted)
    built = agent(middleware, fused=fused, checkpointer=saver and saver())
    assert "count" not in call(built, {"messages": "Go."}, THREAD)
    assert seen == [["Go."], ["Go.", "Done.", 3]]


@each("saver", [None, InMemorySaver])
@each("in_place", [False, True])
def test_it_may_pass_on_another_input(call: Run, saver: Any, in_place: bool) -> None:
    def flow(self: Any, state: Any) -> Any:
        messages = [*state["messages"], ("user", "And more.")]
        if in_place:
            state["messages"] = messages
        yield state if in_place else {**state, "messages": messages}

    built = agent(made(flow, "A"), made(flow, "B"), checkpointer=saver and saver())
    assert texts(call(built, ASK, THREAD)) == ["Go.", "And more.", "And more.", "Done."]


def test_a_changed_state_is_written_when_a_run_goes_on(call: Run) -> None:
    def flow(self: Any, state: Any, resumed: bool) -> Any:
        more = [("user", "By the way.")] if resumed else []
        yield {**state, "messages": [*state["messages"], *more]}

    built = asking(made(flow))
    call(built, ASK, THREAD)
    result = call(built, Command(resume="yes"), THREAD)
    assert "By the way." in texts(result)
    assert texts(result)[-1] == "Done."


@each("saver", [None, InMemorySaver])
@each("how", ["whole", "update", "in place"])
def test_what_it_returns_is_written_last(call: Run, saver: Any, how: str) -> None:
    def flow(self: Any, state: Any) -> Any:
        result = yield state
        said = [AIMessage(f"That was {self.name}.")]
        if how == "update":
            return {"messages": said}
        if how == "whole":
            return {**result, "messages": result["messages"] + said}
        result["messages"] = [*result["messages"], *said]
        return result

    built = agent(made(flow, "A"), made(flow, "B"), checkpointer=saver and saver())
    assert texts(call(built, ASK, THREAD)) == ["Go.", "Done.", "That was B.", "That was A."]
    if saver:
        stored = built.get_state(THREAD)
        assert texts(stored.values)[-1] == "That was A."
        assert stored.next == ()


@each("version", ["v1", "v2"])
@each("fused", [True, False])
def test_streams_show_what_it_has_written(collect: Run, version: str, fused: Any) -> None:
    def shown(**options: Any) -> Any:
        part = collect(agent(made(says_bye), fused=fused), ASK, version=version, **options)[-1]
        return part["data"] if version == "v2" else part

    assert texts(shown(stream_mode="values"))[-1] == "Bye."
    assert texts(shown(stream_mode="updates")["Mine.around_agent"]) == ["Bye."]
    message, where = shown(stream_mode="messages")
    assert (message.text, where) == ("Bye.", {"langgraph_node": "Mine.around_agent"})
    assert shown(stream_mode="updates", output_keys=["structured_response"]) == {
        "Mine.around_agent": None
    }
    if version == "v1":
        namespace, mode, update = shown(stream_mode=["updates"], subgraphs=True)
        assert (namespace, mode) == ((), "updates")
        assert texts(update["Mine.around_agent"]) == ["Bye."]
        assert shown(stream_mode="values", output_keys="messages")[-1].text == "Bye."


FORMS = [form for form in [*STREAMS, *NESTED_STREAMS] if form is not None and form.watch]


@each("form", FORMS, ids=str)
@each("saver", [None, InMemorySaver])
def test_a_layer_that_changes_nothing_shows_nothing(form: Any, saver: Any) -> None:
    def shown(*stack: Any) -> Any:
        script = [calls("fine", "fine"), "Done."]
        built = agent(*stack, script=script, checkpointer=saver and saver())
        return list(form.watch(built, ASK, THREAD))

    plain, layered = shown(), shown(made(passes))
    assert not compare(form, plain, layered)


def test_it_may_end_the_run_without_making_it_or_an_answer_of_an_earlier_one(call: Run) -> None:
    def flow(self: Any, state: Any) -> Any:
        if "later" in self.closed:
            return {"messages": [AIMessage("We are closed.")]}
        return (yield state)

    closed: list[str] = []
    script, saver = [[{"name": "Answer", "args": {"number": 1}}]] * 2, InMemorySaver()
    middleware = made(flow, closed=closed)
    built = agent(middleware, script=script, response_format=Answer, checkpointer=saver)
    assert call(built, ASK, THREAD)["structured_response"] == Answer(number=1)
    closed.append("later")
    result = call(built, ASK, THREAD)
    assert texts(result)[-2:] == ["Go.", "We are closed."]
    assert texts(built.get_state(THREAD).values) == texts(result)
    assert result["structured_response"] is None
    closed.clear()
    assert call(built, ASK, THREAD)["structured_response"] == Answer(number=1)


@each(
    "flow, message",
    [
        (lambda self, state: (yield), "must run the agent with a state, got NoneType"),
        (lambda self, state: (yield 3), "must run the agent with a state, got int"),
        (lambda self, state: (yield {**state, "x": 1}), r"AF309.*Mine\.around_agent: wrote 'x'"),
        (lambda self, state: [(yield state), (yield state)], "AF304.*ran the agent a second time"),
        (
            lambda self, state: ((yield state), "Done.")[1],
            "AF304.*must return an update of the state or None",
        ),
        (lambda self, state: ((yield state), {"x": 1})[1], "AF309.*'x'"),
    ],
)
def test_a_state_or_an_update_that_it_may_not_write_is_refused(
    call: Run, flow: Any, message: str
) -> None:
    with pytest.raises(TurnError, match=message):
        call(agent(made(flow)), ASK)


def test_it_gets_the_context_the_store_and_the_config(call: Run) -> None:
    store = InMemoryStore()
    seen: list[Any] = []

    def flow(self: Any, state: Any, *, runtime: Any, store: Any, config: Any) -> Any:
        seen.extend([runtime.context, store is runtime.store, config["configurable"]["thread_id"]])
        runtime.store.put(("runs",), "1", {"begun": True})
        return (yield state)

    built = agent(made(flow), context_schema=User, store=store, checkpointer=InMemorySaver())
    options = {"context": {"name": "Ann"}}
    call(built, ASK, THREAD, **options)
    assert seen == [User("Ann"), True, "1"]
    assert store.get(("runs",), "1") is not None


def test_its_writer_sends_custom_events(collect: Run) -> None:
    def flow(self: Any, state: Any, runtime: Any) -> Any:
        runtime.stream_writer({"begun": 1})
        yield state
        runtime.stream_writer({"ended": 1})

    assert collect(agent(made(flow)), ASK, stream_mode="custom") == [{"begun": 1}, {"ended": 1}]
    assert len(collect(agent(made(flow)), ASK, stream_mode="updates")) == 1


def test_it_may_sleep_and_call_others_without_a_trace_in_the_stream(collect: Run) -> None:
    other = ScriptedChatModel(["A title."])

    def flow(self: Any, state: Any) -> Any:
        yield Sleep(0)
        title = yield Invoke(other, "Give it a title.")
        yield state
        return {"messages": [AIMessage(title.text)]}

    parts = collect(agent(made(flow)), ASK, stream_mode="messages")
    assert [message.text for message, where in parts if where["langgraph_node"] != "model"] == [
        "A title."
    ]


# Errors


@each("fused", [True, "turn", False])
@each("saver", [None, InMemorySaver])
def test_an_error_becomes_a_message(call: Run, fused: Any, saver: Any) -> None:
    def flow(self: Any, state: Any) -> Any:
        try:
            return (yield state)
        except ValueError as error:
            return {"messages": [AIMessage(f"Sorry: {error}.")]}

    script = [calls("boom"), "Done."]
    built = agent(made(flow), script=script, fused=fused, checkpointer=saver and saver())
    assert texts(call(built, ASK, THREAD)) == ["Go.", "", "Sorry: it broke."]
    if saver:
        assert built.get_state(THREAD).next == ()
        again = texts(call(built, ASK, THREAD))
        assert again[-2:] == ["Go.", "Done."]


def test_an_error_that_is_handled_keeps_what_other_tools_did(call: Run) -> None:
    def flow(self: Any, state: Any) -> Any:
        with suppress(ValueError):
            yield state

    is_stored = Event()

    class Saver(InMemorySaver):
        def put_writes(self, config: Any, writes: Any, *more: Any) -> None:
            super().put_writes(config, writes, *more)
            if "text='fine'" in repr(writes) or "content='fine'" in repr(writes):
                is_stored.set()

    def boom() -> str:
        """Fail, once the result of the other one is stored: LangGraph may drop a later one."""
        assert is_stored.wait(60)
        raise ValueError("it broke")

    script = [calls("fine", "boom")]
    built = agent(made(flow), script=script, tools=(fine, boom), checkpointer=Saver(), fused=False)
    result = call(built, ASK, THREAD)
    assert any(isinstance(m, ToolMessage) and m.text == "fine" for m in result["messages"])
    assert built.get_state(THREAD).next == ()


def test_it_sees_the_recursion_limit(call: Run) -> None:
    def flow(self: Any, state: Any) -> Any:
        try:
            return (yield state)
        except GraphRecursionError:
            return {"messages": [AIMessage("It takes too long.")]}

    built = agent(made(flow), BackToModel(), script=["Well"] * 9, checkpointer=InMemorySaver())
    result = call(built, ASK, {**THREAD, "recursion_limit": 3})
    assert texts(result)[-1] == "It takes too long."


# Pauses


def test_a_pause_closes_it_and_an_answer_begins_it_again_with_the_stored_state(
    call: Run, log: list[Any]
) -> None:
    seen: list[Any] = []

    def flow(self: Any, state: Any) -> Any:
        seen.append(texts(state))
        try:
            return (yield state)
        except RunPaused as pause:
            seen.append([interrupt.value for interrupt in pause.interrupts])
            raise

    built = asking(Watch(log, "A"), Watch(log, "B"), made(flow))
    assert call(built, ASK, THREAD)["__interrupt__"][0].value == "ok?"
    assert log == ["A started", "B started", "B RunPaused", "B closed", "A RunPaused", "A closed"]
    log.clear()
    result = call(built, Command(resume="yes"), THREAD)
    assert texts(result) == ["Go.", "", "yes", "Done."]
    assert log == ["A resumed", "B resumed", "B ended", "B closed", "A ended", "A closed"]
    assert seen == [["Go."], ["ok?"], ["Go.", ""]]


@pytest.mark.parametrize("reaction", ["returns", "handles exceptions", "runs again", "raises"])
def test_no_flow_can_suppress_a_pause(
    call: Run, reaction: str, caplog: pytest.LogCaptureFixture
) -> None:
    def flow(self: Any, state: Any) -> Any:
        try:
            return (yield state)
        except RunPaused:
            if reaction == "runs again":
                yield state
            if reaction == "raises":
                raise KeyError("broken") from None
            if reaction == "returns":
                return {"messages": [AIMessage("Never mind.")]}
            raise
        except Exception:
            return {"messages": [AIMessage("Never mind.")]}

    log: list[Any] = []
    built = asking(Watch(log), made(flow))
    with caplog.at_level(logging.ERROR, "agent_factory"):
        result = call(built, ASK, THREAD)
    assert result["__interrupt__"]
    assert "Never mind." not in texts(result)
    assert log[1] == "Watch RunPaused"
    broken = reaction in ("raises", "runs again")
    assert ["Mine.around_agent" in r.getMessage() for r in caplog.records] == [True] * broken
    # An answer is still possible.
    with suppress(TurnError):
        assert texts(call(built, Command(resume="yes"), THREAD))[-1] == "Done."


def test_a_pause_after_the_last_node_is_the_end(call: Run, log: list[Any]) -> None:
    """LangGraph pauses there, and nothing is left to go on with."""
    built = agent(
        Watch(log), made(says_bye), checkpointer=InMemorySaver(), interrupt_after=["model"]
    )
    assert texts(call(built, ASK, THREAD)) == ["Go.", "Done.", "Bye."]
    assert log == ["Watch started", "Watch ended", "Watch closed"]


@each(
    "nested, durability, saw",
    [(False, "async", "RunPaused"), (True, "async", "RunPaused"), (True, "exit", "GeneratorExit")],
)
def test_a_drained_run_is_paused_if_it_is_stored(
    call: Run, nested: bool, durability: Any, saw: str
) -> None:
    """With `durability="exit"`, LangGraph stores nothing of a nested run, and it starts again."""
    log: list[Any] = []
    control = RunControl()

    def drains() -> str:
        """Drain."""
        control.request_drain()
        return "drained"

    script, saver = [calls("drains"), "Done.", "Done."], None if nested else InMemorySaver()
    built = agent(Watch(log), script=script, tools=[drains], checkpointer=saver)
    outer = calling(built) if nested else built
    with pytest.raises(GraphDrained):
        call(outer, ASK, THREAD, control=control, durability=durability)
    assert log == ["Watch started", f"Watch {saw}", "Watch closed"]
    log.clear()
    result = call(outer, None, THREAD, durability=durability)
    assert texts(result)[-1] == ("All done." if nested else "Done.")
    assert log[0] == ("Watch resumed" if saw == "RunPaused" else "Watch started")


@pytest.mark.long
@pytest.mark.usefixtures("quick_gc")
@each("mode", ["values", "updates", ["updates", "messages"]])
@each("version", ["v1", "v2"])
def test_a_caller_that_stops_to_read_at_a_question_has_paused_the_run(
    mode: Any, version: str
) -> None:
    log: list[Any] = []
    built = asking(Watch(log))
    for part in built.stream(ASK, THREAD, stream_mode=mode, version=version):
        if "Interrupt(value='ok?'" in str(part):
            break
    gc.collect()
    assert log == ["Watch started", "Watch RunPaused", "Watch closed"]


def test_inside_of_another_agent_a_pause_is_a_pause(call: Run, log: list[Any]) -> None:
    def flow(self: Any, state: Any) -> Any:
        try:
            return (yield state)
        except Exception:
            log.append("swallowed")

    outer = calling(asking(Watch(log), made(flow), checkpointer=None))
    assert call(outer, ASK, THREAD)["__interrupt__"][0].value == "ok?"
    assert log == ["Watch started", "Watch RunPaused", "Watch closed"]
    log.clear()
    result = call(outer, Command(resume="yes"), THREAD)
    assert texts(result) == ["Go.", "", "Done.", "All done."]
    assert log == ["Watch resumed", "Watch ended", "Watch closed"]


def test_a_handover_to_the_graph_around_it_closes_it(call: Run, log: list[Any]) -> None:
    def leave() -> Any:
        """Hand over."""
        return Command(graph=Command.PARENT, goto="other")

    graph: Any = StateGraph(AgentState)
    inner = agent(Watch(log), script=[calls("leave")], tools=[leave])
    graph.add_node("agent", inner)
    graph.add_node("other", lambda state: {"messages": [AIMessage("I take over.")]})
    graph.set_entry_point("agent")
    assert texts(call(graph.compile(), ASK))[-1] == "I take over."
    assert log == ["Watch started", "Watch GeneratorExit", "Watch closed"]


def test_a_thread_that_waits_at_a_missing_node_begins_no_layer(call: Run, log: list[Any]) -> None:
    class Review(AgentMiddleware):
        def after_model(self, state: Any, runtime: Any) -> None:
            interrupt("Well?")

    saver = InMemorySaver()
    call(agent(Review(), checkpointer=saver), ASK, THREAD)
    with pytest.raises(TurnError, match="AF316"):
        call(agent(Watch(log), checkpointer=saver), Command(resume="yes"), THREAD)
    assert log == []


def test_a_thread_that_has_ended_begins_no_layer(call: Run, log: list[Any]) -> None:
    built = agent(Watch(log), checkpointer=InMemorySaver())
    first = call(built, ASK, THREAD)
    log.clear()
    assert texts(call(built, None, THREAD)) == texts(first)
    assert log == []
    script = ["Done.", "Again."]
    other = agent(Watch(log), script=script, checkpointer=InMemorySaver())
    call(other, ASK, THREAD)
    assert texts(call(other, Command(goto="model"), THREAD))[-1] == "Again."
    assert log.count("Watch started") == 2


def test_a_nested_run_that_has_ended_is_not_made_again(call: Run, log: list[Any]) -> None:
    """A node that called an agent and then asks a person runs again, and gets the same result."""
    inner = agent(Watch(log), made(says_bye))

    def asks(state: Any) -> Any:
        result = inner.invoke(ASK)
        return {"messages": [AIMessage(f"{texts(result)} {interrupt('ok?')}")]}

    graph: Any = StateGraph(AgentState).add_node("node", asks).set_entry_point("node")
    built = graph.compile(checkpointer=InMemorySaver())
    call(built, ASK, THREAD)
    result = call(built, Command(resume="yes"), THREAD)
    assert texts(result) == ["Go.", "['Go.', 'Done.', 'Bye.'] yes"]
    assert log == ["Watch started", "Watch ended", "Watch closed"]


@each("checkpointer, durability", [*product([None], ["sync", "async", "exit"]), (True, "async")])
def test_a_nested_agent_runs_a_task_once_and_may_keep_its_history(
    call: Run, checkpointer: Any, durability: str
) -> None:
    log: list[Any] = []

    def flow(self: Any, state: Any) -> Any:
        with suppress(ValueError):
            yield state
        return {"messages": [AIMessage("Bye.")]}

    script: list[Any] = [calls("ask", question="ok?"), calls("boom")]
    outer = calling(asking(Reserve(log), made(flow), checkpointer=checkpointer, script=script))
    call(outer, ASK, THREAD, durability=durability)
    result = call(outer, Command(resume="yes"), THREAD, durability=durability)
    assert texts(result) == ["Go.", "", "Bye.", "All done."]
    assert log == ["took", "gave back 1"]


# Tasks


class Reserve(AgentMiddleware[Any, Any]):
    """Takes something once in a run, and gives it back at its end."""

    def __init__(self, log: list[Any], **options: Any) -> None:
        super().__init__(**options)
        self.log = log

    def around_agent(self, state: Any) -> Any:
        number = yield Task("take", self.take)
        paused = False
        try:
            return (yield state)
        except RunPaused:
            paused = True
            raise
        finally:
            if not paused:
                self.log.append(f"gave back {number}")

    def take(self) -> int:
        self.log.append("took")
        return sum(entry == "took" for entry in self.log)


@each("name, moved", [("Old", {}), ("New", {"Old": "New"})])
def test_a_task_runs_once_in_a_run_even_of_a_renamed_middleware(
    call: Run, name: str, moved: Any
) -> None:
    saver, log = InMemorySaver(), list[Any]()
    call(asking(Reserve(log, name="Old"), checkpointer=saver), ASK, THREAD)
    assert log == ["took"]
    other = asking(Reserve(log, name=name), checkpointer=saver, script=["Done."], moved=moved)
    call(other, Command(resume="yes"), THREAD)
    assert log == ["took", "gave back 1"]


@each("saver", [InMemorySaver, None])
def test_the_next_run_runs_a_task_again_and_so_does_an_earlier_step(call: Run, saver: Any) -> None:
    log: list[Any] = []
    script = [calls("fine"), "Done.", "Done.", "Done."]
    built = agent(Reserve(log), script=script, checkpointer=saver and saver())
    call(built, ASK, THREAD)
    call(built, ASK, THREAD)
    expected = ["took", "gave back 1", "took", "gave back 2"]
    assert log == expected
    if saver:
        earlier = next(s for s in built.get_state_history(THREAD) if s.next == ("tools",))
        call(built, None, earlier.config)
        assert log == [*expected, "took", "gave back 3"]


def test_a_paused_run_does_not_find_the_tasks_of_an_abandoned_one(call: Run) -> None:
    """The first run of the thread is never resumed; the second one has no task before its pause."""
    results: list[Any] = []

    def flow(self: Any, state: Any, resumed: bool) -> Any:
        if resumed or not results:
            results.append((yield Task("number", lambda: len(results))))
        return (yield state)

    script = [calls("ask", question="ok?"), calls("ask", question="sure?"), "Done."]
    built = agent(made(flow), script=script, checkpointer=InMemorySaver())
    call(built, ASK, THREAD)
    call(built, ASK, THREAD)
    call(built, Command(resume="yes"), THREAD)
    assert results == [0, 1]


def test_a_task_of_the_same_name_is_the_same_task(call: Run) -> None:
    seen: list[Any] = []

    def flow(self: Any, state: Any) -> Any:
        for _ in range(2):
            seen.append((yield Task("number", lambda: len(seen))))
        return (yield state)

    call(agent(made(flow, "A"), made(flow, "B")), ASK)
    assert seen == [0, 0, 2, 2]


def test_a_task_may_be_a_coroutine_function_in_an_async_run() -> None:
    async def number() -> int:
        await asyncio.sleep(0)
        return 7

    seen: list[Any] = []

    def flow(self: Any, state: Any) -> Any:
        seen.append((yield Task("number", number)))
        return (yield state)

    asyncio.run(agent(made(flow)).ainvoke(ASK))
    assert seen == [7]
    with pytest.raises(TurnError, match=r"AF301.*the task 'number', which is asynchronous"):
        agent(made(flow)).invoke(ASK)


def test_an_error_of_a_task_is_raised_in_its_flow(call: Run) -> None:
    attempts: list[Any] = []

    def work() -> str:
        attempts.append(1)
        if len(attempts) == 1:
            raise ConnectionError("down")
        return "up"

    def flow(self: Any, state: Any) -> Any:
        try:
            yield Task("work", work)
        except ConnectionError:
            yield Task("work", work)
        return (yield state)

    assert texts(call(agent(made(flow)), ASK)) == ["Go.", "Done."]
    assert len(attempts) == 2


# Ends that nobody asked for


async def cancelled(*stack: Any) -> None:
    """Cancel a run while its model works."""
    model = ScriptedChatModel([Reply("Done.", delay=30)])
    task = asyncio.create_task(create_agent(model, middleware=stack).ainvoke(ASK))
    await auntil(lambda: model.requests)
    task.cancel()
    await task


@each("swallows", [True, False])
def test_a_cancellation_passes_through(swallows: bool) -> None:
    log: list[Any] = []

    def flow(self: Any, state: Any) -> Any:
        try:
            return (yield state)
        except BaseException:
            yield Sleep(0)  # cleaning up may take a while
            if not swallows:
                raise
            return {"messages": [AIMessage("Never mind.")]}

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled(Watch(log), made(flow)))
    assert log == ["Watch started", "Watch CancelledError", "Watch closed"]


def test_an_error_while_it_is_closed_does_not_hide_the_reason() -> None:
    def flow(self: Any, state: Any) -> Any:
        try:
            yield state
        finally:
            raise KeyError("broken")

    with pytest.raises(asyncio.CancelledError) as raised:
        asyncio.run(cancelled(made(flow)))
    assert raised.value.__notes__ == ["While Mine.around_agent was closed: KeyError('broken')"]


# The plan, the build and the log


def test_the_plan_shows_it() -> None:
    stack = [made(passes, "A"), made(passes, "B")]
    plan = plan_agent(middleware=stack)
    assert plan.render().splitlines()[-2:] == [
        "around the run: A.around_agent",
        "around the run: B.around_agent",
    ]
    assert '(["start<br/>in A.around_agent #gt; B.around_agent"])' in plan.to_mermaid()
    assert "around the run; the first of the list is the outermost" in plan.explain()
    assert load_topology(plan.to_json()) == load_topology(plan.to_snapshot()) == plan
    layer = {"owner": "A", "call": "agent", "method": "around_agent"}
    assert json.loads(plan.to_json())["layers"][0] == layer
    swapped = plan_agent(middleware=stack[::-1])
    assert str(plan.diff(swapped).changes[0]) == (
        "moved layer B.around_agent: now around the run, before A.around_agent"
    )
    assert all(point.verdict == "stands" for point in plan.stopping_points(plan_agent()))


def test_the_command_line_and_pictures_show_it_where_a_run_starts() -> None:
    plan, shown = plan_agent(middleware=[made(passes, "Lock")]), StringIO()
    Console(file=shown, width=80).print(plan_tree("An agent", plan))
    assert [line.strip(" │├└─") for line in shown.getvalue().splitlines()][-2:] == [
        "around the run  outermost first",
        "1. Lock.around_agent",
    ]
    picture = plan.to_svg()
    start = picture[picture.index('<g id="n0"') :].partition("</g></g>")[0]
    assert "Layer 1 of 1, outermost first: Lock.around_agent" in start
    assert "layers around the run" in plan.to_html()


def test_an_agent_without_one_has_no_node_for_writes_and_drawings_never_show_it() -> None:
    class Quiet(Watch):
        unused = ("around_agent",)

    for built in (agent(Plain()), agent(Quiet([]))):
        assert type(built) is CompiledAgent
        assert "__last_write__" not in built.nodes
    assert plan_agent(middleware=[Quiet([])]).layers == ()
    assert [*agent(Watch([])).get_graph().nodes] == [*agent().get_graph().nodes]


def test_copies_of_an_agent_keep_it(call: Run, log: list[Any]) -> None:
    built = agent(Watch(log), script=["Done."] * 3)
    call(built.with_config(tags=["x"]), ASK)
    call(built.copy(update={"name": "other"}), ASK)
    call(with_decisions(built, lambda _: None), ASK)
    assert log.count("Watch ended") == 3


def test_callbacks_see_the_run_once(call: Run) -> None:
    from langchain_core.callbacks import BaseCallbackHandler

    class Count(BaseCallbackHandler):
        starts = 0

        def on_chain_start(self, *_: Any, parent_run_id: Any = None, **__: Any) -> None:
            self.starts += parent_run_id is None

    first, second = Count(), Count()
    built = agent(Watch([])).with_config(callbacks=[first])
    call(built, ASK, {"callbacks": [second]})
    assert (first.starts, second.starts) == (1, 1)


@each(
    "attributes, message",
    [
        ({"around_agent": lambda self, state: None}, "AF107.*must be a generator function"),
        ({"around_agent": lambda self: (yield)}, r"AF106.*called with \(state\)"),
        ({"around_agent": lambda self, state, agent: (yield)}, r"AF106.*called with \(state\)"),
        ({"around_agnet": lambda self, state: (yield)}, "AF105.*Did you mean around_agent"),
    ],
)
def test_a_build_refuses_what_cannot_work(attributes: Any, message: str) -> None:
    middleware: Any = type("Mine", (AgentMiddleware,), attributes)()
    with pytest.raises(SpecError, match=message):
        agent(middleware)


def test_a_flow_on_an_instance_is_refused() -> None:
    middleware: Any = Plain()
    middleware.around_agent = lambda state: (yield state)
    with pytest.raises(SpecError, match=r"AF105.*read from the class.*Define it in the class\."):
        agent(middleware)


def test_the_decision_log_says_what_it_did(call: Run) -> None:
    def log_of(flow: Any, built: Any = agent, *inputs: Any, **more: Any) -> list[str]:
        log: list[Decision] = []
        made_agent = built(made(flow), decisions=log.append, **more)
        for input in inputs or (ASK,):
            with suppress(ValueError):
                call(made_agent, input, THREAD)
        return [str(one) for one in log if one.hook == "around_agent"]

    def writes(self: Any, state: Any) -> Any:
        set_reason("to be polite")
        yield state
        return {"messages": [AIMessage("Bye.")]}

    def handles(self: Any, state: Any) -> Any:
        with suppress(ValueError):
            yield state

    def changes(self: Any, state: Any) -> Any:
        yield {**state, "messages": [*state["messages"]]}

    def skips(self: Any, state: Any) -> Any:
        return {}
        yield

    def raises(self: Any, state: Any) -> Any:
        yield state
        raise ValueError("mine")

    assert log_of(passes) == ["Mine.around_agent passed"]
    assert log_of(writes) == ["Mine.around_agent wrote: messages +1 -0 [to be polite]"]
    assert log_of(changes) == ["Mine.around_agent changed request: messages"]
    assert log_of(skips) == ["Mine.around_agent answered"]
    assert log_of(raises) == ["Mine.around_agent raised: ValueError"]
    assert log_of(handles, script=[calls("boom")]) == ["Mine.around_agent recovered: ValueError"]
    assert log_of(passes, script=[calls("boom")]) == [
        "Mine.around_agent raised: ValueError [from within]"
    ]
    assert log_of(passes, asking, ASK, Command(resume="yes")) == [
        "Mine.around_agent interrupted",
        "Mine.around_agent passed",
    ]


def test_its_decisions_are_in_the_stream_and_belong_to_the_run_and_the_thread(collect: Run) -> None:
    built = agent(Watch([]), decisions=True, checkpointer=InMemorySaver())
    parts = collect(built, ASK, THREAD, stream_mode="custom")
    log = [part["decision"] for part in parts]
    assert log[-1]["hook"] == "around_agent"
    assert {one["hook"] for one in log} >= {"around_agent", "model"}
    assert len({one["run"] for one in log}) == 1
    assert {one["thread"] for one in log} == {"1"}
