"""Fused runs: how many steps they take, and when they are taken."""

from __future__ import annotations

from contextlib import ExitStack
from operator import add
from typing import Annotated, Any, Required

import pytest
from langchain_core.callbacks import (
    UsageMetadataCallbackHandler,
)
from langchain_core.messages import AnyMessage, HumanMessage
from langgraph.channels import DeltaChannel, NamedBarrierValue
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.config import get_config
from langgraph.graph.message import add_messages
from langgraph.types import Command, Overwrite, interrupt
from stack_agents import kept_agent

from agent_factory import AgentMiddleware, AgentState, create_agent
from agent_factory.errors import ArgumentError
from agent_factory.testing import ScriptedChatModel
from agent_factory.testing.comparison import normalize
from busy_agents import ASK, THREAD, Busy, Run, busy, find, model, steps
from samples import Killed
from tables import each

# --- steps --------------------------------------------------------------------------------------


class Writing(Busy):
    """Writes before the model is asked."""

    def before_model(self, state: Any, runtime: Any) -> Any:
        return {"messages": []}


class Answering(Busy):
    """Writes after the model has answered."""

    def after_model(self, state: Any, runtime: Any) -> Any:
        return {"messages": []}


def agent_of(stack: Any, *script: Any, **options: Any) -> Any:
    """An agent that keeps its threads, and fuses its runs unless the options say otherwise."""
    options = {"middleware": stack, "checkpointer": InMemorySaver(), "fused": True, **options}
    return create_agent(ScriptedChatModel([*script]) if script else model(), [find], **options)


def writing(number: int) -> list[Any]:
    """Middleware of which the last writes before the model is asked."""
    return [*busy(number - 1), Writing(name=f"busy {number - 1}")]


QUIET = "busy 0.before_agent, tools, busy 0.before_model"
LOUD = "busy 0.before_agent, model, tools, busy 0.before_model, model"


@each(
    "stack, options, route",
    [
        *((busy(n), options, QUIET) for n in (1, 3, 8) for options in ({}, {"fused": "turn"})),
        *((writing(n), {}, LOUD) for n in (1, 3, 8)),
        (
            [*busy(2), Answering(name="answering"), *busy(4)[2:]],
            {},
            "busy 0.before_agent, answering.after_model, tools, "
            "busy 0.before_model, answering.after_model",
        ),
        ([], {"fused": "turn"}, "model, tools, model"),
    ],
)
def test_a_turn_takes_two_steps_and_one_more_where_a_hook_writes(
    call: Run, stack: Any, options: Any, route: str
) -> None:
    agent = create_agent(model(), [find], middleware=stack, checkpointer=InMemorySaver(), **options)
    assert call(agent, ASK, THREAD)["messages"][-1].text == "Done."
    (start,), *others, last = steps(agent)
    assert (start, last) == ("__start__", ())
    assert ", ".join(name for (name,) in others) == route


class Counting(AgentMiddleware):
    """Counts how often its hook runs, which writes or not."""

    def __init__(self, update: Any) -> None:
        super().__init__()
        self.update = update
        self.ran = 0

    def before_model(self, state: Any, runtime: Any) -> Any:
        self.ran += 1
        return self.update


@each("fused", [True, False])
@each("mode", [None, "messages", "updates"])
@each("saver", ["memory", "sqlite"])
def test_an_answer_of_the_model_outlives_a_kill_in_a_hook_after_it(
    saver: str, mode: Any, fused: bool
) -> None:
    killed: list[str] = []

    class Deadly(AgentMiddleware):
        def after_model(self, state: Any, runtime: Any) -> None:
            if not killed:
                killed.append(state["messages"][-1].text)
                raise Killed

    with ExitStack() as stack:
        store: Any = InMemorySaver()
        if saver == "sqlite":
            store = stack.enter_context(SqliteSaver.from_conn_string(":memory:"))
        model = ScriptedChatModel(["Done.", "Not asked."])
        middleware = [*busy(1), Deadly(), *busy(3)[1:]]
        agent = create_agent(model, middleware=middleware, checkpointer=store, fused=fused)
        with pytest.raises(Killed):
            list(agent.stream(ASK, THREAD, stream_mode=mode) if mode else agent.invoke(ASK, THREAD))
        assert killed == ["Done."]
        outcome = agent.invoke(None, THREAD)
        assert [message.text for message in outcome["messages"]][-1:] == ["Done."]
        assert len(model.requests) == 1


@each("update", [None, {"messages": []}])
@each("error, again", [(ConnectionError(), False), (Killed(), True)])
def test_hooks_run_again_if_the_model_gave_no_answer(update: Any, error: Any, again: bool) -> None:
    def stop(_: Any) -> Any:
        raise error

    counting = Counting(update)
    agent = agent_of([counting], stop, "Done.")
    with pytest.raises(type(error)):
        agent.invoke(ASK, THREAD)
    assert agent.invoke(None, THREAD)["messages"][-1].text == "Done."
    assert counting.ran == (2 if again and update is None else 1)


@each("fused", [None, 1.5, "all"])
def test_other_values_of_fused_are_refused(fused: Any) -> None:
    with pytest.raises(ArgumentError, match="'turn'"):
        create_agent(model(), [find], fused=fused)


def fold(state: Any, writes: Any) -> Any:
    """A reducer for LangGraph's DeltaChannel, as deepagents has one for messages."""
    for write in writes:
        state = add_messages(state, write)
    return state


def extend(state: Any, writes: Any) -> Any:
    return [*(state or []), *(item for write in writes for item in write)]


class DeltaState(AgentState):
    messages: Required[Annotated[list[AnyMessage], DeltaChannel(fold, list)]]
    notes: Annotated[list[str], DeltaChannel(extend, list)]


class Noting(AgentMiddleware):
    """Writes what it sees to keys with LangGraph's delta channels."""

    state_schema = DeltaState

    def before_model(self, state: Any, runtime: Any) -> Any:
        return {"messages": [HumanMessage(self.name)], "notes": [f"{len(state['messages'])}"]}

    def after_model(self, state: Any, runtime: Any) -> Any:
        return {"notes": Overwrite([*state["notes"], self.name])}


@each("fused", [True, "turn"])
@each("saver", [None, InMemorySaver])
def test_delta_channels_of_others_run_fused(call: Run, fused: Any, saver: Any) -> None:
    def result(fused: Any) -> Any:
        stack = [Noting(name="first"), Noting(name="second")]
        kept = saver and saver()
        agent = agent_of(stack, state_schema=DeltaState, checkpointer=kept, fused=fused)
        result = call(agent, ASK, THREAD)
        if saver:
            assert normalize(agent.get_state(THREAD).values) == normalize(result)
        return normalize(result)

    assert result(fused) == result(False)


def test_with_an_unknown_channel_for_messages_every_node_takes_a_step() -> None:
    class Odd(AgentState[Any]):
        messages: Annotated[list[AnyMessage], NamedBarrierValue(str, {"a"})]

    def takes_many_nodes_in_a_step(agent: Any) -> bool:
        return agent.builder.fusion is not None

    assert not takes_many_nodes_in_a_step(create_agent(model(), state_schema=Odd))
    assert takes_many_nodes_in_a_step(create_agent(model()))
    assert not takes_many_nodes_in_a_step(create_agent(model(), fused=False))


# --- who watches --------------------------------------------------------------------------------


def test_a_callback_that_listens_to_models_does_not_prevent_fusion(call: Run) -> None:
    agent = agent_of(busy(3))
    call(agent, ASK, {**THREAD, "callbacks": [UsageMetadataCallbackHandler()]})
    assert len(steps(agent)) == 5


@each("mode", ["updates", "values", "messages", "custom", ["messages", "updates"]], ids=str)
def test_a_watched_run_takes_few_steps(collect: Run, mode: Any) -> None:
    agent = create_agent(model(), [find], middleware=busy(3), checkpointer=InMemorySaver())
    collect(agent, ASK, THREAD, stream_mode=mode)
    assert ("busy 1.before_agent",) not in steps(agent)


@each(
    "option",
    [
        {"stream_mode": "tasks"},
        {"stream_mode": "debug"},
        {"stream_mode": "checkpoints"},
        {"debug": True},
        {"print_mode": "updates"},
        {"interrupt_before": ["busy 1.before_model"]},
        {"interrupt_after": ["busy 1.before_model"]},
    ],
    ids=str,
)
def test_options_about_steps_get_every_node(call: Run, option: Any) -> None:
    agent = agent_of(busy(3))
    call(agent, ASK, THREAD, **option)
    assert ("busy 1.before_agent",) in steps(agent)


def test_a_graph_that_a_hook_calls_remembers_what_that_hook_said(call: Run) -> None:
    def helper() -> Any:
        return create_agent(ScriptedChatModel(["Noted."] * 4), checkpointer=True)

    class Consults(AgentMiddleware):
        def __init__(self, name: str) -> None:
            super().__init__(name=name)
            self.helper = helper()
            self.questions: list[list[str]] = []

        def before_model(self, state: Any, runtime: Any) -> None:
            result = self.helper.invoke({"messages": [("user", f"{self.name} asks")]})
            self.questions.append([m.text for m in result["messages"] if m.type == "human"])

    saver = InMemorySaver()
    for turn, fused in enumerate((True, False, True)):
        stack = [Consults("one"), Consults("two")]
        agent = create_agent(
            ScriptedChatModel(["Done."]), middleware=stack, checkpointer=saver, fused=fused
        )
        call(agent, {"messages": "Go"}, {"configurable": {"thread_id": "1"}})
        for consults in stack:
            assert consults.questions == [[f"{consults.name} asks"] * (turn + 1)]


# Writes before a node returns, as backends make them that keep files in the state


class Notes(AgentState):
    notes: Annotated[list[str], add]


def send(note: str) -> list[str]:
    """Write a note to the state directly, and return those that the state has then."""
    direct = get_config()["configurable"]
    direct["__pregel_send"]([("notes", [note])])
    notes: list[str] = direct["__pregel_read"]("notes", fresh=True)
    return notes


class Keeper(AgentMiddleware):
    state_schema = Notes

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[list[str]] = []

    def before_model(self, state: Any, runtime: Any) -> Any:
        return {"notes": ["returned"]}

    def around_model(self, request: Any) -> Any:
        response = yield request
        self.seen.append(send("by the layer"))
        return response

    def after_model(self, state: Any, runtime: Any) -> Any:
        self.seen.append([*state["notes"]])
        self.seen.append(send("by the hook"))


class Asker(AgentMiddleware):
    def after_model(self, state: Any, runtime: Any) -> Any:
        send("before it asks")
        return {"notes": [interrupt("Sure?")]}


@each("fused", [True, "turn", False])
@each("checkpoints", ["delta", "full"])
def test_what_a_node_writes_directly_is_kept_and_seen(
    call: Run, fused: Any, checkpoints: Any
) -> None:
    keeper = Keeper()
    agent = agent_of([keeper], "Well.", checkpoints=checkpoints, fused=fused)
    result = call(agent, {**ASK, "notes": ["given"]}, THREAD)
    first = ["given", "returned"]
    assert keeper.seen == [
        [*first, "by the layer"],
        [*first, "by the layer"],
        [*first, "by the layer", "by the hook"],
    ]
    assert result["notes"] == keeper.seen[-1]
    assert agent.get_state(THREAD).values["notes"] == keeper.seen[-1]


@each("fused", [True, "turn", False])
def test_what_a_node_writes_directly_is_kept_once_if_it_asks(call: Run, fused: Any) -> None:
    agent = agent_of([Asker(), Keeper()], "Well.", fused=fused)
    call(agent, {**ASK, "notes": []}, THREAD)
    before = ["returned", "by the layer", "by the hook"]
    assert agent.get_state(THREAD).values["notes"] == before
    result = call(agent, Command(resume="yes"), THREAD)
    assert result["notes"] == [*before, "before it asks", "yes"]


@each("fused", [True, "turn", False])
def test_a_write_without_a_node_continues_after_the_node_that_ended_the_step(fused: Any) -> None:
    agent = kept_agent(model(), *busy(1), tools=[find], fused=fused)
    agent.invoke(ASK, THREAD)
    for state in list(agent.get_state_history(THREAD))[:-1]:
        written = agent.update_state(state.config, {"messages": [HumanMessage("More")]})
        assert agent.get_state(written).next == state.next
