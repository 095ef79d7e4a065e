"""The graph that create_agent builds, and the order in which a run goes through it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import MessagesState, StateGraph

from agent_factory import (
    AgentMiddleware,
    create_agent,
    hook_config,
    plan_agent,
    topology_of,
    wrap_tool_call,
)
from agent_factory.errors import ArgumentError
from agent_factory.factory.agent import path_of
from agent_factory.testing import ScriptedChatModel
from agent_factory.topology import END, START, Call, Phase
from samples import AsyncHook
from samples import add_tool as add
from tables import each

# These hooks jump where a build warns about it; the tests are about the targets.
pytestmark = pytest.mark.filterwarnings("ignore::agent_factory.AgentFactoryWarning")

HOOKS = [phase.value for phase in Phase]


ADD = [{"name": "add", "args": {"a": 2, "b": 3}}]


def hook(log: list[str], name: str) -> Callable[..., Any]:
    def method(self: Any, state: Any, runtime: Any) -> None:
        log.append(f"{self.name}.{name}")

    return method


def layer(log: list[str], name: str) -> Callable[..., Any]:
    def flow(self: Any, request: Any) -> Any:
        log.append(f"{self.name}.{name}>")
        answer = yield request
        log.append(f"{self.name}.{name}<")
        return answer

    return flow


def member(name: str, methods: Sequence[str], log: list[str]) -> AgentMiddleware:
    """A middleware with these methods, each of which only tells that it ran."""
    bodies = {m: (layer if m.startswith("around") else hook)(log, m) for m in methods}
    made: AgentMiddleware = type("Member", (AgentMiddleware,), bodies)(name=name)
    return made


def script(log: list[str], *steps: Any) -> ScriptedChatModel:
    """A model that logs each call."""

    def logged(step: Any) -> Callable[[Any], Any]:
        def tell(messages: Any) -> Any:
            log.append("model")
            return step

        return tell

    return ScriptedChatModel([logged(step) for step in steps])


def drawn(agent: Any) -> dict[str, set[str]]:
    edges: dict[str, set[str]] = {}
    for edge in agent.get_graph().edges:
        edges.setdefault(edge.source, set()).add(edge.target)
    return edges


# Nodes


def test_an_agent_alone_is_one_node_which_answers(call: Any) -> None:
    """A1, A2, A14, A37, E8"""
    agent = create_agent(ScriptedChatModel(["Hello"]))
    assert set(agent.get_graph().nodes) == {START, "model", END}
    assert drawn(agent) == {START: {"model"}, "model": {END}}
    assert call(agent, {"messages": "Hi"})["messages"][-1].text == "Hello"
    assert agent.config is not None
    assert agent.config["recursion_limit"] == 9_999


def test_a_tools_node_exists_only_for_tools_the_agent_runs() -> None:
    """A3: a provider runs its own; a tool layer may run tools that are known later."""
    model = ScriptedChatModel([])
    provided = {"type": "web_search"}
    tool_layer = member("L", ["around_tool"], [])
    assert "tools" in create_agent(model, [add]).nodes
    assert "tools" in create_agent(model, [], middleware=[tool_layer]).nodes
    assert "tools" not in create_agent(model, [provided]).nodes
    assert "tools" not in create_agent(model, []).nodes
    assert "tools" not in create_agent(model, middleware=[member("L", ["around_model"], [])]).nodes


class SyncOnly(AgentMiddleware):
    def before_model(self, state: Any, runtime: Any) -> None:
        """Look."""


class SyncAndAsync(SyncOnly, AsyncHook):
    pass


class Heir(SyncOnly):
    pass


@each("kind", [SyncOnly, AsyncHook, SyncAndAsync, Heir, AgentMiddleware])
def test_a_sync_and_an_async_hook_make_one_node(kind: type[AgentMiddleware]) -> None:
    """A4, A5: also where it is inherited from a middleware; none if it is not overridden."""
    agent = create_agent(ScriptedChatModel([]), middleware=[kind()])
    hooks = set() if kind is AgentMiddleware else {f"{kind.__name__}.before_model"}
    assert set(agent.nodes) == {START, *hooks, "model"}


# Names


def test_instances_of_one_class_can_have_different_names(call: Any) -> None:
    """A7: given, set on the instance, or written in the class."""
    log: list[str] = []
    kind = type(member("first", ["before_model"], log))
    third = kind()
    third.name = "third"
    named = type("Named", (kind,), {"name": "fourth"})
    stack = [kind(name="first"), kind(name="second"), third, named(), kind()]
    call(create_agent(ScriptedChatModel(["Hello"]), middleware=stack), {"messages": "Hi"})
    names = ["first", "second", "third", "fourth", "Member"]
    assert log == [f"{name}.before_model" for name in names]


def test_the_agents_name_is_on_the_graph_and_its_messages(call: Any) -> None:
    """B7"""
    agent = create_agent(ScriptedChatModel([ADD, "It is 5."]), [add], name="Ada")
    messages = call(agent, {"messages": "2 + 3?"})["messages"]
    assert agent.name == "Ada"
    assert [m.name for m in messages] == [None, "Ada", "add", "Ada"]
    assert [m.text for m in messages] == ["2 + 3?", "", "5", "It is 5."]


# The order of a run


@st.composite
def stacks(draw: st.DrawFn) -> list[list[str]]:
    methods = st.lists(st.sampled_from([*HOOKS, "around_model", "around_tool"]), unique=True)
    return draw(st.lists(methods, max_size=4))


def expected(stack: list[list[str]], rounds: int) -> list[str]:
    """A reference model of the order: the log of a run with so many rounds of tools."""

    def having(method: str) -> list[str]:
        return [f"M{i}.{method}" for i, methods in enumerate(stack) if method in methods]

    def around(method: str, inside: str) -> list[str]:
        names = having(method)
        closing = [f"{n}<" for n in reversed(names)]
        return [*(f"{n}>" for n in names), inside, *closing]

    turn = [
        *having("before_model"),
        *around("around_model", "model"),
        *reversed(having("after_model")),
    ]
    tools = around("around_tool", "tool")
    run = [*having("before_agent"), *(turn + tools) * rounds, *turn]
    return [*run, *reversed(having("after_agent"))]


@settings.get_profile("costly")
@given(stack=stacks(), rounds=st.integers(0, 2))
@example(stack=[[*HOOKS, "around_model", "around_tool"]] * 2, rounds=1)
def test_any_stack_runs_in_the_order_of_its_list(
    call: Any, stack: list[list[str]], rounds: int
) -> None:
    """A26, A27, A37: in two turns of one thread."""
    log: list[str] = []

    def note() -> str:
        """Tell that it ran."""
        log.append("tool")
        return "noted"

    steps = [*[[{"name": "note", "args": {}}]] * rounds, "Done"]
    middleware = [member(f"M{i}", methods, log) for i, methods in enumerate(stack)]
    model = script(log, *steps, *steps)
    agent = create_agent(model, [note], middleware=middleware, checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "1"}}
    for _ in range(2):
        log.clear()
        call(agent, {"messages": "Go"}, thread)
        assert log == expected(stack, rounds)


# The plan and the graph agree


class Jumper(AgentMiddleware):
    @hook_config(can_jump_to=["end", "model", "tools"])
    def before_model(self, state: Any, runtime: Any) -> None:
        return None

    @hook_config(can_jump_to=["end"])
    def after_agent(self, state: Any, runtime: Any) -> None:
        return None


SHAPES: list[dict[str, Any]] = [
    {},
    {"tools": [add]},
    {"tools": [add], "middleware": [SyncOnly(), Jumper()]},
    {"tools": [add], "response_format": {"title": "Answer", "type": "object"}},
    {"response_format": {"title": "Answer", "type": "object"}},
    {"middleware": [member("A", [*HOOKS, "around_tool"], []), member("B", HOOKS, [])]},
]


@each("arguments", SHAPES)
def test_the_drawing_shows_every_edge_of_the_plan(arguments: dict[str, Any]) -> None:
    """A14, A15, A19, A35: and no other."""
    agent = create_agent(ScriptedChatModel([]), **arguments)
    planned = topology_of(agent)
    assert drawn(agent) == {edge.source: set(edge.targets) for edge in planned.edges}
    assert set(agent.nodes) == {START, *planned.nodes}
    assert planned == plan_agent(**arguments) == topology_of(agent.with_config({"tags": ["x"]}))


def test_an_object_of_another_kind_has_no_plan() -> None:
    with pytest.raises(ArgumentError) as caught:
        topology_of("agent")  # type: ignore[arg-type]
    assert caught.value.subject == "agent"


@given(stacks(), st.booleans())
def test_any_drawing_shows_its_plan(stack: list[list[str]], with_tools: bool) -> None:
    """A14-A26"""
    middleware = [member(f"M{i}", methods, []) for i, methods in enumerate(stack)]
    agent = create_agent(ScriptedChatModel([]), [add] * with_tools, middleware=middleware)
    planned = topology_of(agent)
    assert drawn(agent) == {edge.source: set(edge.targets) for edge in planned.edges}
    layers = [
        (f"M{i}", call)
        for call in Call
        for i, methods in enumerate(stack)
        if f"around_{call}" in methods
    ]
    assert [(found.owner, found.call) for found in planned.layers] == layers


# The rest of the contract


def test_the_signature_is_that_of_langchain() -> None:
    """A37"""
    known = (
        "model tools system_prompt middleware response_format state_schema context_schema "
        "checkpointer store interrupt_before interrupt_after debug name cache transformers"
    )
    assert list(signature(create_agent).parameters)[:15] == known.split()


def sync_layer() -> AgentMiddleware:
    """A layer without an async form."""

    @wrap_tool_call
    def only_sync(request: Any, handler: Any) -> Any:
        return handler(request)

    return only_sync


@each(
    "stack, path",
    [([], None), ([AsyncHook()], "async"), ([sync_layer()], "sync")],
)
def test_the_mode_of_an_agent_is_the_one_that_all_of_its_parts_have(stack: Any, path: Any) -> None:
    assert path_of(create_agent(ScriptedChatModel([]), [add], middleware=stack)) == path


def test_an_agent_whose_agents_have_no_mode_in_common_has_none() -> None:
    inner = create_agent(ScriptedChatModel([]), middleware=[AsyncHook()])
    layered = create_agent(ScriptedChatModel([]), [add], middleware=[sync_layer()])
    graph = StateGraph(MessagesState).add_sequence([("inner", inner), ("layer", layered)])
    with pytest.raises(ArgumentError, match="only_sync is sync only and AsyncHook async"):
        path_of(graph.add_edge(START, "inner").compile())
