"""Topology, nodes and routes become a StateGraph. No other file adds a node or an edge."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from langchain_core.runnables import Runnable
from langgraph.graph import StateGraph

from agent_factory.errors import InvalidSchema
from agent_factory.introspect import Bound
from agent_factory.model_call import model_call
from agent_factory.model_node import ModelNode
from agent_factory.nodes import HookNode, Path, WatchedPath
from agent_factory.routing import (
    Choice,
    Rules,
    _make_jump_edge,
    _make_model_to_model_edge,
    _make_model_to_tools_edge,
    _make_tools_to_model_edge,
)
from agent_factory.spec import AgentSpec, output_tools
from agent_factory.tools_node import ToolsNode
from agent_factory.topology import MODEL, TOOLS, Edge, Hook, Phase, Route
from agent_factory.tracing import policy_of
from agent_factory.updates import Fold
from agent_factory.watching import watched_hook, watched_route


class AgentGraph(StateGraph[Any, Any, Any, Any]):
    """A StateGraph that knows its plan.

    Args:
        spec: The agent.
        context_schema: The type of the run's context, or None.
    """

    def __init__(self, spec: AgentSpec, context_schema: type[Any] | None) -> None:
        super().__init__(
            spec.schemas.state,
            context_schema,
            input_schema=spec.schemas.input,
            output_schema=spec.schemas.output,
        )
        self.spec = spec


def wire(spec: AgentSpec, context_schema: type[Any] | None = None) -> AgentGraph:
    """The graph of an agent, ready to compile.

    Raises:
        InvalidSchema: LangGraph cannot make a channel for a key of the state.
    """
    graph = _graph(spec, context_schema)
    rules = Rules(spec.toolbox.client, spec.toolbox.direct, output_tools(spec.response_format))
    for bound in spec.hooks:
        node = HookNode(_watched(bound, spec), spec.topology, rules, graph.channels)
        graph.add_node(
            node.name,
            node,
            input_schema=_seen_by(spec, node.name),
            trace_policy=policy_of(bound.owner),
        )
    graph.add_node(MODEL, _model_node(spec, graph, rules))
    if spec.has_tools:
        graph.add_node(TOOLS, ToolsNode(spec, graph.channels))
    for edge in spec.topology.edges:
        _add(graph, edge, rules)
    return graph


def _watched(bound: Bound[Hook], spec: AgentSpec) -> Bound[Hook]:
    """The hook, recording what it decides where that is wanted."""
    if (log := spec.decisions) is None:
        return bound
    fact = bound.fact
    sync, a = (
        method and watched_hook(log, fact.owner, str(fact.phase), method)
        for method in (bound.sync, bound.a)
    )
    return replace(bound, sync=sync, a=a)


def _graph(spec: AgentSpec, context_schema: type[Any] | None) -> AgentGraph:
    try:
        return AgentGraph(spec, context_schema)
    except (TypeError, ValueError) as error:
        raise InvalidSchema(
            "the state",
            f"LangGraph cannot make its channels: {error}",
            "A reducer is a function of two arguments, the last thing in Annotated[...].",
        ) from error


def _seen_by(spec: AgentSpec, node: str) -> type[Any]:
    """What a hook reads of the state: what tools say of the run is for the loop's entry alone."""
    entered = spec.has_tools and node == spec.topology.loop_entry
    return spec.schemas.state if entered else spec.schemas.hook


def _model_node(spec: AgentSpec, graph: AgentGraph, rules: Rules) -> Runnable[Any, Any]:
    return ModelNode(
        spec,
        model_call(spec, asynchronous=False),
        model_call(spec, asynchronous=True),
        Fold(graph.channels),
        rules,
    )


def _add(graph: AgentGraph, edge: Edge, rules: Rules) -> None:
    if edge.route is None:
        (target,) = edge.targets
        graph.add_edge(edge.source, target)
    else:
        graph.add_conditional_edges(edge.source, _path(graph.spec, edge, rules), list(edge.targets))


def _path(spec: AgentSpec, edge: Edge, rules: Rules) -> Runnable[Any, Any]:
    choice, name = _choice(spec, edge, rules), str(edge.route)
    if spec.decisions is None:
        return Path(choice, name)
    ways = [way for way in spec.topology.ways if way.source == edge.source]
    reasons = {way.target: " or ".join(str(reason.why) for reason in way.reasons) for way in ways}
    return WatchedPath(watched_route(spec.decisions, edge.source, choice, reasons), name)


def _choice(spec: AgentSpec, edge: Edge, rules: Rules) -> Choice:
    plan = spec.topology
    match edge.route:
        case Route.AFTER_MODEL:
            return _make_model_to_tools_edge(edge, plan, rules)
        case Route.AFTER_TOOLS:
            return _make_tools_to_model_edge(plan, rules)
        case Route.RETRY:
            return _make_model_to_model_edge(edge, plan, rules)
        case _:
            phases = {bound.fact.node: bound.fact.phase for bound in spec.hooks}
            leaving = phases[edge.source] is Phase.AFTER_AGENT
            return _make_jump_edge(edge, plan, rules, leaving=leaving)
