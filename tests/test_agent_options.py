"""Options that LangGraph carries out: pauses, threads, context, store, streams, limits."""

from __future__ import annotations

import inspect
from typing import Any, get_overloads

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.cache.memory import InMemoryCache
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore
from langgraph.stream import StreamTransformer

from agent_factory import AgentMiddleware, Runtime, create_agent, plan_agent
from agent_factory.factory.agent import PROJECTIONS, AgentOptions
from agent_factory.testing import ScriptedChatModel
from samples import Plain, User, add, texts
from tables import each

GO = {"messages": "Go"}
THREAD: RunnableConfig = {"configurable": {"thread_id": "1"}}


def calls(*ids: str, a: int = 1) -> list[dict[str, Any]]:
    return [{"name": "add", "args": {"a": a, "b": 2}, "id": id_} for id_ in ids]


def agent(*steps: Any, **options: Any) -> Any:
    return create_agent(
        ScriptedChatModel(list(steps)), [add], **{"checkpointer": InMemorySaver(), **options}
    )


# Pauses


def test_a_star_is_every_node_and_a_hook_is_one(call: Any) -> None:
    """D20"""
    waiting = agent(calls("1"), "Done", middleware=[Plain()], interrupt_before="*")
    call(waiting, GO, THREAD)
    stops = []
    while (state := waiting.get_state(THREAD)).next:
        stops.append(state.next)
        call(waiting, None, THREAD)
    turn = [("Plain.before_model",), ("model",)]
    assert stops == [*turn, ("tools",), *turn]
    named = agent("Done", middleware=[Plain()], interrupt_before=("Plain.before_model",))
    call(named, GO, THREAD)
    assert named.get_state(THREAD).next == ("Plain.before_model",)


# Threads


def test_a_run_can_continue_from_an_earlier_step(call: Any) -> None:
    """D31, G18: one checkpoint a super-step, newest first; replaying makes a branch."""
    agent_ = agent(calls("1"), "Done", "Done again")
    call(agent_, GO, THREAD)
    history = list(agent_.get_state_history(THREAD))
    nodes = [("model",), ("tools",), ("model",), ("__start__",)]
    assert [state.next for state in history] == [(), *nodes]
    assert texts(call(agent_, None, history[1].config)) == ["Go", "", "3", "Done again"]
    assert len(list(agent_.get_state_history(THREAD))) > len(history)


# Context and store


def test_context_and_store_reach_hooks_and_layers(call: Any) -> None:
    """B6a: a context given as a dict becomes what the schema says."""
    store = InMemoryStore()

    class Greet(AgentMiddleware[Any, User]):
        def before_agent(self, state: Any, runtime: Runtime[User]) -> None:
            assert runtime.store is not None
            runtime.store.put(("seen",), runtime.context.name, {"by": "hook"})

        def around_model(self, request: Any) -> Any:
            known = request.runtime.store.get(("seen",), request.runtime.context.name)
            return (yield request.override(system_prompt=f"Seen by {known.value['by']}"))

    model = ScriptedChatModel(["Hello"])
    greeter = create_agent(model, middleware=[Greet()], context_schema=User, store=store)
    call(greeter, GO, context={"name": "Ada"})
    assert model.requests[0].messages[0].text == "Seen by hook"
    assert store.get(("seen",), "Ada") is not None


def test_a_cache_is_that_of_the_graph() -> None:
    cache: InMemoryCache[Any] = InMemoryCache()
    assert create_agent(ScriptedChatModel([]), cache=cache).cache is cache


# Streams


def test_debug_prints_every_step(call: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """B7"""
    call(agent("Hello"), GO, THREAD)
    assert capsys.readouterr().out == ""
    call(agent("Hello", debug=True), GO, THREAD)
    assert "Hello" in capsys.readouterr().out


def observer(name: str, log: list[str]) -> type[StreamTransformer]:
    class Observer(StreamTransformer):
        required_stream_modes = ("updates",)

        def init(self) -> dict[str, Any]:
            return {}

        def process(self, event: Any) -> bool:
            if event["method"] == "updates":
                log.append(name)
            return True

    return Observer


@pytest.mark.filterwarnings("ignore:The v3 streaming protocol")
def test_transformers_of_middleware_come_before_the_agents() -> None:
    """A37"""
    log: list[str] = []

    class Observed(AgentMiddleware):
        transformers = (observer("middleware", log),)

    watched = agent(
        "Hello", middleware=(m for m in [Observed()]), transformers=[observer("agent", log)]
    )
    assert texts(watched.stream_events(GO, THREAD, version="v3").output) == ["Go", "Hello"]
    assert log == ["middleware", "agent"]


@each("first", PROJECTIONS)
def test_a_projection_that_the_author_names_comes_once_and_last(first: Any) -> None:
    (other,) = {*PROJECTIONS} - {first}
    named = create_agent(ScriptedChatModel(["Hello"]), transformers=[first])
    assert named.stream_transformers == (other, first)


# Limits


def test_a_long_run_needs_no_setting(call: Any) -> None:
    """E8: LangGraph's own limit was 25 for long."""
    result = call(agent(*[calls("1")] * 30, "Done"), GO, THREAD)
    assert len(result["messages"]) == 62


def test_the_signature_of_create_agent_agrees_with_its_overloads() -> None:
    """Type checkers read the overloads and `AgentOptions`; users and `help` the signature."""
    parameters = dict(inspect.signature(create_agent).parameters)
    del parameters["unknown"]  # an unknown argument is refused with a hint
    options = {key: hint.__forward_arg__ for key, hint in AgentOptions.__annotations__.items()}
    overloads = [dict(inspect.signature(one).parameters) for one in get_overloads(create_agent)]
    assert len(overloads) == 2
    for overload in overloads:
        assert overload.pop("options").annotation == "Unpack[AgentOptions]"
        assert {*overload, *options} == {*parameters}
        assert overload.keys().isdisjoint(options)
        for name, parameter in overload.items():
            assert parameter.kind is parameters[name].kind
            if parameter.default is not inspect.Parameter.empty:
                assert parameter.default == parameters[name].default
    annotations = {name: parameters[name].annotation for name in options}
    assert annotations == options
    assert all(parameters[name].default is not inspect.Parameter.empty for name in options)


def test_a_plan_takes_the_arguments_of_an_agent() -> None:
    own = {*inspect.signature(plan_agent).parameters} - {"settings"}
    assert own == {*inspect.signature(create_agent).parameters}
