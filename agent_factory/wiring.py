"""Topology, nodes and routes become a StateGraph. No other file adds a node or an edge."""

from __future__ import annotations

from typing import Any

from langchain_core.runnables import Runnable
from langgraph.channels import LastValue
from langgraph.graph import StateGraph

from agent_factory.model_call import model_call
from agent_factory.nodes import HookNode, ModelNode, Path
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
from agent_factory.topology import MODEL, TOOLS, Edge, Phase, Route
from agent_factory.tracing import policy_of


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
    """The graph of an agent, ready to compile."""
    graph = AgentGraph(spec, context_schema)
    for bound in spec.hooks:
        node = HookNode(bound, graph.channels, routed=_routed(spec, bound.fact.node))
        graph.add_node(bound.fact.node, node, trace_policy=policy_of(bound.owner))
    graph.add_node(MODEL, _model_node(spec, graph))
    if spec.has_tools:
        graph.add_node(TOOLS, ToolsNode(spec))
    for edge in spec.topology.edges:
        _add(graph, edge)
    return graph


def _routed(spec: AgentSpec, node: str) -> bool:
    return spec.topology.edge_from(node).route is not None


def _model_node(spec: AgentSpec, graph: AgentGraph) -> Runnable[Any, Any]:
    single = [key for key, channel in graph.channels.items() if isinstance(channel, LastValue)]
    return ModelNode(
        spec,
        model_call(spec, asynchronous=False),
        model_call(spec, asynchronous=True),
        single,
        routed=_routed(spec, MODEL),
    )


def _add(graph: AgentGraph, edge: Edge) -> None:
    if edge.route is None:
        (target,) = edge.targets
        graph.add_edge(edge.source, target)
    else:
        choice = _choice(graph.spec, edge)
        graph.add_conditional_edges(edge.source, Path(choice, edge.route), list(edge.targets))


def _choice(spec: AgentSpec, edge: Edge) -> Choice:
    plan = spec.topology
    rules = Rules(spec.toolbox.client, spec.toolbox.direct, output_tools(spec.response_format))
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
