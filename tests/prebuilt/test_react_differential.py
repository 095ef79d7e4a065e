"""create_react_agent next to langgraph's own: the same graphs, conversations and errors.

langgraph's is deprecated and says so; that warning alone is ignored, and only where it is built.
"""

from __future__ import annotations

import asyncio
import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Annotated, Any, NotRequired, TypedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import BaseMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.graph.message import add_messages
from langgraph.managed import RemainingSteps
from langgraph.prebuilt import InjectedState
from langgraph.prebuilt import create_react_agent as langgraph_s
from pydantic import BaseModel

from agent_factory import AgentMiddleware, create_agent, create_react_agent, topology_of
from agent_factory.testing import ScriptedChatModel
from agent_factory.topology import AgentStyle, load_topology
from agent_factory.topology.load import TopologyFileError
from samples import Answer, nothing, show
from samples import add_tool as add
from tables import each


@tool
def count(state: Annotated[Any, InjectedState]) -> str:
    """Count the messages."""
    messages = state["messages"] if isinstance(state, dict) else state.messages
    return f"{len(messages)} in a {'dict' if isinstance(state, dict) else 'model'}"


TOOLS = {"add": add, "show": show, "count": count}
CALLS = {
    "add": {"a": 2, "b": 3},
    "show": {"text": "it"},
    "count": {},
    "unknown": {"x": 1},
    "add badly": {"a": "two"},
}


class OwnState(TypedDict):
    messages: Annotated[list[BaseMessage], add_messages]
    remaining_steps: NotRequired[RemainingSteps]
    structured_response: NotRequired[Any]
    mood: NotRequired[str]


class OwnModel(BaseModel):
    messages: Annotated[list[BaseMessage], add_messages]
    remaining_steps: RemainingSteps = 25
    structured_response: Any = None
    mood: str = "calm"


def messages_of(state: Any) -> list[BaseMessage]:
    found: list[BaseMessage] = state["messages"] if isinstance(state, dict) else state.messages
    return found


def mood_prompt(state: Any) -> list[BaseMessage]:
    mood = state.get("mood", "calm") if isinstance(state, dict) else state.mood
    return [SystemMessage(f"You are {mood}."), *messages_of(state)]


def last_two(state: Any) -> dict[str, Any]:
    return {"llm_input_messages": [m for m in messages_of(state) if m.type == "human"]}


def answering(state: Any) -> dict[str, Any]:
    """Answers the first call of the last message in the tools' place."""
    calls = getattr(messages_of(state)[-1], "tool_calls", [])
    return {
        "messages": [
            ToolMessage("by the hook", tool_call_id=call["id"], name=call["name"])
            for call in calls[:1]
        ]
    }


@dataclass(frozen=True)
class Case:
    tools: tuple[str, ...]
    version: str
    pre: Callable[[Any], Any] | None
    post: Callable[[Any], Any] | None
    response_format: Any
    prompt: Any
    state_schema: Any
    script: tuple[Any, ...]

    def build(self, make: Callable[..., Any], model: Any) -> Any:
        return make(
            model,
            [TOOLS[name] for name in self.tools],
            version=self.version,
            pre_model_hook=self.pre,
            post_model_hook=self.post,
            response_format=self.response_format,
            prompt=self.prompt,
            state_schema=self.state_schema,
            name="twin",
        )


def turn(names: list[str]) -> list[dict[str, Any]]:
    return [
        {"name": name.split()[0], "args": CALLS[name], "id": f"{name} {i}"}
        for i, name in enumerate(names)
    ]


TURNS = st.lists(st.sampled_from(list(CALLS)), min_size=1, max_size=3).map(turn)


@st.composite
def cases(draw: Any) -> Case:
    post = draw(st.sampled_from([None, None, nothing, answering]))
    schema = draw(st.sampled_from([None, OwnState, OwnModel]))
    # langgraph's cannot do with a hook that chooses no messages where the state is a model.
    pre = draw(st.sampled_from([None, last_two, *([] if schema is OwnModel else [nothing])]))
    return Case(
        tools=tuple(draw(st.lists(st.sampled_from(list(TOOLS)), unique=True, max_size=3))),
        version="v2" if post else draw(st.sampled_from(["v1", "v2"])),
        pre=pre,
        post=post,
        response_format=draw(st.sampled_from([None, Answer, ("Be exact.", Answer)])),
        prompt=draw(st.sampled_from([None, "Be brief.", SystemMessage("Be kind."), mood_prompt])),
        state_schema=schema,
        script=tuple(draw(st.lists(TURNS, max_size=2))),
    )


def edges(agent: Any) -> set[tuple[str, str, bool]]:
    return {(e.source, e.target, e.conditional) for e in agent.get_graph().edges}


def silently(*args: Any, **kwargs: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return langgraph_s(*args, **kwargs)


def said(messages: Any) -> list[tuple[Any, ...]]:
    """What matters in messages, without the ids that each run draws."""
    return [
        (
            m.type,
            m.content,
            m.name,
            [(c["name"], c["args"], c["id"]) for c in getattr(m, "tool_calls", [])],
            getattr(m, "status", None),
        )
        for m in messages
    ]


def outcome(case: Case, make: Callable[..., Any], *, asynchronous: bool) -> Any:
    """All that a run shows: what the model read, the end, and every step of the stream."""
    structured = [{"name": "Answer", "args": {"number": 5}, "id": "answer"}]
    model = ScriptedChatModel([*case.script, "Done.", structured, structured])
    agent = case.build(make, model)
    steps: list[Any] = []
    error: Any = None

    async def watched() -> None:
        async for update in agent.astream(ASK, stream_mode="updates"):
            steps.append(update)

    try:
        if asynchronous:
            asyncio.run(watched())
        else:
            steps.extend(agent.stream(ASK, stream_mode="updates"))
    except Exception as raised:
        error = str(raised)
    asked = [(said(r.messages), sorted(r.tools)) for r in model.requests]
    return asked, sorted(map(shown, steps), key=str), error


ASK = {"messages": [("user", "2 + 3?")]}


def shown(update: dict[str, Any]) -> list[Any]:
    return [
        (node, said((change or {}).get("messages", [])), (change or {}).get("structured_response"))
        for node, change in update.items()
    ]


@settings.get_profile("costly")
@given(cases())
def test_graphs_have_the_same_nodes_and_edges(case: Case) -> None:
    """B53-B59, and the plan is what LangGraph draws."""
    ours = case.build(create_react_agent, ScriptedChatModel([]))
    theirs = case.build(silently, ScriptedChatModel([]))
    assert edges(ours) == edges(theirs)
    planned = {
        (e.source, target, e.route is not None and len(e.targets) > 1)
        for e in topology_of(ours).edges
        for target in e.targets
    }
    assert planned == edges(ours)


@settings.get_profile("costly")
@given(cases(), st.booleans())
def test_runs_are_alike(case: Case, asynchronous: bool) -> None:
    """B19, B29-B33, B35, B42-B58, D35: what the model sees, each update, the end, the error."""
    ours = outcome(case, create_react_agent, asynchronous=asynchronous)
    theirs = outcome(case, silently, asynchronous=asynchronous)
    assert ours == theirs


START, END = "__start__", "__end__"
PRE, POST, STRUCTURED = "pre_model_hook", "post_model_hook", "generate_structured_response"


def agent(
    tools: Any = (add,),
    *,
    pre: Any = None,
    post: Any = None,
    rf: Any = None,
    make: Any = create_react_agent,
    **more: Any,
) -> Any:
    return make(
        ScriptedChatModel([]),
        tools,
        pre_model_hook=pre,
        post_model_hook=post,
        response_format=rf,
        **more,
    )


def drawn(built: Any) -> dict[str, set[str]]:
    edges: dict[str, set[str]] = {}
    for edge in built.get_graph().edges:
        # Conditional is what leads to more than one node.
        edges.setdefault(edge.source, set()).add(edge.target)
        assert edge.conditional == (len(topology_of(built).edge_from(edge.source).targets) > 1)
    return edges


HOOKS = {"pre": nothing, "post": nothing}


EVERY = [
    (tools, pre, post, rf, version)
    for tools, pre, post, rf, version in product(
        (0, 1, 2), (None, nothing), (None, nothing), (None, Answer), ("v1", "v2")
    )
    if not (post and version == "v1")
]


@each("tools, pre, post, rf, version", EVERY)
def test_a_graph_is_langgraphs_and_its_plan_is_read_back_from_either_file(
    tools: int, pre: Any, post: Any, rf: Any, version: Any
) -> None:
    """B6, B42, B46, B53, B55-B57, B59, E5; no node stands there for nothing (B55)."""
    options: Any = {"pre": pre, "post": post, "rf": rf, "version": version}
    built = agent([add, show][:tools], **options)
    assert edges(built) == edges(agent([add, show][:tools], make=silently, **options))
    plan = topology_of(built)
    assert drawn(built) == {edge.source: set(edge.targets) for edge in plan.edges}
    assert set(built.nodes) == {START, *plan.nodes}
    assert load_topology(plan.to_json()) == plan
    assert load_topology(plan.to_snapshot()) == plan


def test_the_text_gives_the_reasons_of_an_edge() -> None:
    plan = topology_of(agent([add, show], **HOOKS, rf=Answer))
    assert plan.render().splitlines() == [
        "__start__ -> pre_model_hook",
        "pre_model_hook -> agent",
        "agent -> post_model_hook",
        "post_model_hook -> tools  [pending calls]",
        "post_model_hook -> generate_structured_response  [no calls left]",
        "post_model_hook -> pre_model_hook  [calls already answered]",
        "tools -> pre_model_hook  [tool results]",
        "tools -> __end__  [return_direct among the calls: show]",
        "generate_structured_response -> __end__",
        "tool: add",
        "tool: show  [return_direct]",
    ]
    assert "they are run together" in topology_of(agent(version="v1")).explain("agent", "tools")
    assert "is among the calls of the turn" in plan.explain("tools", END)


def test_a_picture_names_the_nodes_and_counts_the_model_as_one() -> None:
    """B6"""
    plan = topology_of(agent(**HOOKS, rf=Answer))
    assert 'n2["agent"]' in plan.to_mermaid()
    assert plan.explain().splitlines()[0].startswith("before_model")
    assert [node["kind"] for node in json.loads(plan.to_json())["nodes"]] == [
        "hook",
        "model",
        "hook",
        "tools",
        "hook",
    ]


def test_plans_of_both_factories_are_compared() -> None:
    ours = topology_of(create_agent(ScriptedChatModel([]), [add]))
    theirs = topology_of(agent())
    assert ours.style is AgentStyle.CREATE_AGENT
    assert theirs.style is AgentStyle.REACT
    assert ours.diff(theirs)
    assert not theirs.diff(topology_of(agent()))


def test_both_factories_are_made_of_the_same_parts() -> None:
    """A second shape, and not a second engine: no class of a node or of an edge is its own."""

    def parts(built: Any) -> set[type[Any]]:
        graph = built.builder
        nodes = {type(node.runnable) for node in graph.nodes.values()}
        paths = {type(b.path) for branches in graph.branches.values() for b in branches.values()}
        return {type(graph), *nodes, *paths}

    class Hooked(AgentMiddleware):
        def before_model(self, state: Any, runtime: Any) -> None:
            """Look on."""

    ours = create_agent(ScriptedChatModel([]), [add], middleware=[Hooked()], fused=False)
    assert parts(agent([add, show], **HOOKS, rf=Answer)) == parts(ours)


def test_a_snapshot_that_was_edited_is_refused() -> None:
    text = topology_of(agent(**HOOKS)).to_snapshot()
    with pytest.raises(TopologyFileError, match="contradicts itself"):
        load_topology(text.replace("tools -> pre_model_hook", "tools -> agent"))
