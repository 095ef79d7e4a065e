"""The graph that create_agent builds: its nodes, the order of a run, its names and its options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, get_overloads

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from langgraph.cache.memory import InMemoryCache
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import MessagesState, StateGraph
from langgraph.stream import StreamTransformer

from agent_factory import (
    AgentMiddleware,
    create_agent,
    hook_config,
    plan_agent,
    topology_of,
    wrap_tool_call,
)
from agent_factory.errors import ArgumentError
from agent_factory.factory.agent import PROJECTIONS, AgentOptions, path_of
from agent_factory.runtime import routing
from agent_factory.structured_output import ToolStrategy
from agent_factory.testing import ScriptedChatModel
from agent_factory.topology import END, START, Call, Hook, Phase, Route, Shape, plan
from samples import THREAD, AsyncHook, Number, Plain, add, texts, tool_texts
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


class SyncAndAsync(Plain, AsyncHook):
    pass


class Heir(Plain):
    pass


@each("kind", [Plain, AsyncHook, SyncAndAsync, Heir, AgentMiddleware])
def test_a_sync_and_an_async_hook_make_one_node(kind: type[AgentMiddleware]) -> None:
    """A4, A5: also where it is inherited from a middleware; none if it is not overridden."""
    agent = create_agent(ScriptedChatModel([]), middleware=[kind()])
    hooks = set() if kind is AgentMiddleware else {f"{kind.__name__}.before_model"}
    assert set(agent.nodes) == {START, *hooks, "model"}


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
    for _ in range(2):
        log.clear()
        call(agent, {"messages": "Go"}, THREAD)
        assert log == expected(stack, rounds)


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
    {"tools": [add], "middleware": [Plain(), Jumper()]},
    {"tools": [add], "response_format": {"title": "Answer", "type": "object"}},
    {"response_format": {"title": "Answer", "type": "object"}},
    {"middleware": [member("A", [*HOOKS, "around_tool"], []), member("B", HOOKS, [])]},
]


@each("arguments", SHAPES)
def test_the_drawing_shows_every_edge_of_the_plan(arguments: dict[str, Any]) -> None:
    """A14, A15, A19, A35: and no other."""
    agent = create_agent(ScriptedChatModel([]), **arguments).with_config(tags=["x"])
    planned = topology_of(agent)
    assert drawn(agent) == {edge.source: set(edge.targets) for edge in planned.edges}
    assert set(agent.nodes) == {START, *planned.nodes}
    assert planned == plan_agent(**arguments) == topology_of(deepcopy(agent))


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


def test_the_signature_is_that_of_langchain() -> None:
    """A37"""
    known = (
        "model tools system_prompt middleware response_format state_schema context_schema "
        "checkpointer store interrupt_before interrupt_after debug name cache transformers"
    )
    assert list(inspect.signature(create_agent).parameters)[:15] == known.split()


def sync_layer() -> AgentMiddleware:
    """A layer without an async form."""

    @wrap_tool_call
    def only_sync(request: Any, handler: Any) -> Any:
        return handler(request)

    return only_sync


@each("stack, path", [([], None), ([AsyncHook()], "async"), ([sync_layer()], "sync")])
def test_the_mode_of_an_agent_is_the_one_that_all_of_its_parts_have(stack: Any, path: Any) -> None:
    assert path_of(create_agent(ScriptedChatModel([]), [add], middleware=stack)) == path


def test_an_agent_whose_agents_have_no_mode_in_common_has_none() -> None:
    inner = create_agent(ScriptedChatModel([]), middleware=[AsyncHook()])
    layered = create_agent(ScriptedChatModel([]), [add], middleware=[sync_layer()])
    graph = StateGraph(MessagesState).add_sequence([("inner", inner), ("layer", layered)])
    with pytest.raises(ArgumentError, match="only_sync is sync only and AsyncHook async"):
        path_of(graph.add_edge(START, "inner").compile())


GO = {"messages": "Go"}
LAYERS = ("wrap_model_call", "wrap_tool_call")


@each("name", [*HOOKS, *LAYERS])
def test_a_hook_or_a_layer_of_this_name_is_sync_and_async(name: str) -> None:
    parameters = ["state", "runtime"] if name in HOOKS else ["request", "handler"]
    for method in (getattr(AgentMiddleware, name), getattr(AgentMiddleware, f"a{name}")):
        assert list(inspect.signature(method).parameters) == ["self", *parameters]


def test_the_topology_names_the_ends_of_the_loop_and_of_the_run() -> None:
    topology = plan(Shape(tuple(Hook("A", phase) for phase in Phase), has_tools=True))
    names = (topology.entry, topology.loop_entry, topology.loop_exit, topology.exit)
    assert names == ("A.before_agent", "A.before_model", "A.after_model", "A.after_agent")


def test_the_edges_of_the_loop_are_made_by_these_functions() -> None:
    assert routing.ROUTES[Route.AFTER_MODEL] is routing._make_model_to_tools_edge
    assert routing.ROUTES[Route.AFTER_TOOLS] is routing._make_tools_to_model_edge


@each("fused", [True, False])
def test_one_tool_node_runs_the_calls_of_all_turns(call: Any, fused: bool) -> None:
    asked = [{"name": "add", "args": {"a": 1, "b": 2}, "id": id} for id in ("1", "2")]
    model = ScriptedChatModel([asked, "Done.", asked, "Done."])
    agent: Any = create_agent(model, [add], fused=fused)
    node = agent.nodes["tools"].bound.node
    for _ in range(2):
        assert tool_texts(call(agent, GO)) == ["3", "3"]
    assert agent.nodes["tools"].bound.node is node


def test_an_output_tool_stands_for_the_structured_answer(call: Any) -> None:
    model = ScriptedChatModel([[{"name": "Number", "args": {"n": 3}, "id": "1"}]])
    agent: Any = create_agent(model, response_format=ToolStrategy(Number))
    assert call(agent, GO)["structured_response"] == Number(n=3)
    assert agent.builder.spec.rules.output == {"Number"}


def agent(*steps: Any, **options: Any) -> Any:
    return create_agent(
        ScriptedChatModel(list(steps)), [add], **{"checkpointer": InMemorySaver(), **options}
    )


def test_a_star_is_every_node_and_a_hook_is_one(call: Any) -> None:
    """D20"""
    waiting = agent(ADD, "Done", middleware=[Plain()], interrupt_before="*")
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


def test_a_cache_is_that_of_the_graph() -> None:
    cache: InMemoryCache[Any] = InMemoryCache()
    assert create_agent(ScriptedChatModel([]), cache=cache).cache is cache


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
    assert {name: parameters[name].annotation for name in options} == options
    assert all(parameters[name].default is not inspect.Parameter.empty for name in options)


def test_a_plan_takes_the_arguments_of_an_agent() -> None:
    own = {*inspect.signature(plan_agent).parameters} - {"settings"}
    assert own == {*inspect.signature(create_agent).parameters}
