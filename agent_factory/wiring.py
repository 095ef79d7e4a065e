"""Topology, nodes and routes become a StateGraph. No other file adds a node or an edge."""

from __future__ import annotations

from typing import Any

from langchain_core.runnables import Runnable
from langgraph.graph import StateGraph

from agent_factory.errors import InvalidSchema
from agent_factory.model_call import model_call
from agent_factory.model_node import ModelNode
from agent_factory.nodes import HookNode, Path, WatchedPath
from agent_factory.route_reasons import reason_for
from agent_factory.routing import (
    Choice,
    Rules,
    _make_jump_edge,
    _make_model_to_model_edge,
    _make_model_to_tools_edge,
    _make_tools_to_model_edge,
)
from agent_factory.spec import AgentSpec
from agent_factory.tools_node import ToolsNode
from agent_factory.topology import TOOLS, Edge, Phase, Route
from agent_factory.tracing import policy_of
from agent_factory.updates import Fold
from agent_factory.watching import Watch, watch_of


class AgentGraph(StateGraph[Any, Any, Any, Any]):
    """A StateGraph that knows its plan.

    Args:
        spec: The agent.
        context_schema: The type of the run's context, or None.
    """

    def __init__(self, spec: AgentSpec, context_schema: type[Any] | None) -> None:
        super().__init__(
            spec.schemas.written or spec.schemas.state,
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
    rules = spec.rules
    keys = spec.schemas.state.__annotations__.keys() - graph.managed.keys()
    watch = watch_of(spec.decisions, spec.name)
    for bound in spec.hooks:
        node = HookNode(bound, spec.topology, rules, keys, watch)
        graph.add_node(
            node.name,
            node,
            input_schema=_seen_by(spec, node.name),
            trace_policy=policy_of(bound.owner),
        )
    seen = spec.schemas.state
    model = _model_node(spec, graph, rules, watch)
    graph.add_node(spec.topology.dialect.model, model, input_schema=seen)
    if spec.has_tools:
        graph.add_node(TOOLS, ToolsNode(spec, keys, watch), input_schema=seen)
    for edge in spec.topology.edges:
        _add(graph, edge, rules, watch)
    return graph


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


def _model_node(
    spec: AgentSpec, graph: AgentGraph, rules: Rules, watch: Watch | None
) -> Runnable[Any, Any]:
    return ModelNode(
        spec,
        model_call(spec, watch, asynchronous=False),
        model_call(spec, watch, asynchronous=True),
        Fold(graph.channels),
        rules,
        watch,
    )


def _add(graph: AgentGraph, edge: Edge, rules: Rules, watch: Watch | None) -> None:
    if edge.route is None:
        (target,) = edge.targets
        graph.add_edge(edge.source, target)
    else:
        path = _path(graph.spec, edge, rules, watch)
        graph.add_conditional_edges(edge.source, path, list(edge.targets))


def _path(spec: AgentSpec, edge: Edge, rules: Rules, watch: Watch | None) -> Runnable[Any, Any]:
    choice, name = _choice(spec, edge, rules), str(edge.route)
    if watch is None:
        return Path(choice, name)
    why = reason_for(edge, spec.topology, rules)
    return WatchedPath(watch.route(edge.source, choice, why), name)


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
