"""The graphs of create_react_agent; its plan is read, drawn and compared like any other."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest

from agent_factory import (
    AgentMiddleware,
    create_agent,
    create_react_agent,
    load_topology,
    topology_of,
)
from agent_factory.testing import ScriptedChatModel
from agent_factory.topology import AgentStyle, Topology
from agent_factory.topology.load import TopologyFileError
from samples import Answer, nothing, show
from samples import add_tool as add
from tables import each

START, END = "__start__", "__end__"
PRE, POST, STRUCTURED = "pre_model_hook", "post_model_hook", "generate_structured_response"


def agent(
    tools: Any = (add,), *, pre: Any = None, post: Any = None, rf: Any = None, **more: Any
) -> Any:
    return create_react_agent(
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


def planned(built: Any) -> dict[str, set[str]]:
    return {edge.source: set(edge.targets) for edge in topology_of(built).edges}


HOOKS = {"pre": nothing, "post": nothing}

TOPOLOGIES: dict[str, tuple[dict[str, Any], dict[str, set[str]]]] = {
    "plain": ({}, {START: {"agent"}, "agent": {"tools", END}, "tools": {"agent"}}),
    "post": (
        {"post": nothing},
        {START: {"agent"}, "agent": {POST}, POST: {END, "agent", "tools"}, "tools": {"agent"}},
    ),
    "rf": (
        {"rf": Answer},
        {START: {"agent"}, "agent": {"tools", STRUCTURED}, "tools": {"agent"}, STRUCTURED: {END}},
    ),
    "rd": ({"tools": [show]}, {START: {"agent"}, "agent": {"tools", END}, "tools": {"agent", END}}),
    "rd+rf": (
        {"tools": [add, show], "rf": Answer},
        {
            START: {"agent"},
            "agent": {"tools", STRUCTURED},
            "tools": {"agent", END},
            STRUCTURED: {END},
        },
    ),
    "pre": (
        {"pre": nothing},
        {START: {PRE}, PRE: {"agent"}, "agent": {"tools", END}, "tools": {PRE}},
    ),
    "pre+post+rf": (
        {**HOOKS, "rf": Answer},
        {
            START: {PRE},
            PRE: {"agent"},
            "agent": {POST},
            POST: {PRE, "tools", STRUCTURED},
            "tools": {PRE},
            STRUCTURED: {END},
        },
    ),
    "no tools": ({"tools": []}, {START: {"agent"}, "agent": {END}}),
    "no tools, pre+post+rf": (
        {"tools": [], **HOOKS, "rf": Answer},
        {START: {PRE}, PRE: {"agent"}, "agent": {POST}, POST: {STRUCTURED}, STRUCTURED: {END}},
    ),
    "provider tools only": (
        {"tools": [{"type": "web_search"}]},
        {START: {"agent"}, "agent": {END}},
    ),
}


@each("name", TOPOLOGIES)
def test_the_graph_is_the_known_one(name: str) -> None:
    """B42, B46, B53, B55-B57, B59, E5; no node stands there for nothing (B55)."""
    arguments, edges = TOPOLOGIES[name]
    built = agent(**arguments)
    assert drawn(built) == planned(built) == edges
    assert set(built.nodes) == {*edges} == {START, *topology_of(built).nodes}


EVERY = [
    (tools, pre, post, rf, version)
    for tools, pre, post, rf, version in product(
        (0, 1, 2), (None, nothing), (None, nothing), (None, Answer), ("v1", "v2")
    )
    if not (post and version == "v1")
]


@each("tools, pre, post, rf, version", EVERY)
def test_a_plan_of_this_style_is_read_back_from_either_file(
    tools: int, pre: Any, post: Any, rf: Any, version: Any
) -> None:
    """B6"""
    plan = topology_of(agent([add, show][:tools], pre=pre, post=post, rf=rf, version=version))
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
    assert [node["kind"] for node in _nodes(plan)] == ["hook", "model", "hook", "tools", "hook"]


def _nodes(plan: Topology) -> list[dict[str, Any]]:
    nodes: list[dict[str, Any]] = json.loads(plan.to_json())["nodes"]
    return nodes


def test_a_picture_is_drawn() -> None:
    pytest.importorskip("pygraphviz", reason="the extra draw is not installed")
    picture = topology_of(agent(**HOOKS, rf=Answer)).to_svg()
    assert "model call" in picture
    assert STRUCTURED in picture


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
