"""Topology, nodes and routes become a StateGraph. No other file adds a node or an edge."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, cast

from langchain_core.runnables import Runnable
from langgraph.graph import StateGraph

from agent_factory.decisions.recorder import DecisionRecorder, recorder_for
from agent_factory.errors import InvalidSchema
from agent_factory.fused.planning import FusionPlan, fused_nodes
from agent_factory.fused.state_view import is_ephemeral, is_persistent
from agent_factory.fused.step import Destination
from agent_factory.fused.tool_batch import BatchedToolsEdge, BatchedToolsNode, held
from agent_factory.runtime.composition import Handler, policy_of
from agent_factory.runtime.hook_node import HookNode
from agent_factory.runtime.model_call import model_call
from agent_factory.runtime.model_node import ModelNode
from agent_factory.runtime.routing import (
    Choice,
    Path,
    Rules,
    WatchedPath,
    _make_jump_edge,
    _make_model_to_model_edge,
    _make_model_to_tools_edge,
    _make_tools_to_model_edge,
    reason_for,
)
from agent_factory.runtime.spec import AgentSpec
from agent_factory.runtime.tools_node import StateCache, ToolsNode
from agent_factory.state.schema import RETRIES
from agent_factory.state.updates import Fold
from agent_factory.topology.model import TOOLS, Edge, Phase, Route


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


def wire(
    spec: AgentSpec,
    context_schema: type[Any] | None = None,
    how: FusionPlan | None = None,
    *,
    quick: bool = False,
) -> AgentGraph:
    """The graph of an agent, ready to compile.

    Args:
        spec: The agent.
        context_schema: The type of the run's context, or None.
        how: For both graphs of an agent that can be fused: how far a step may go.
        quick: For the graph of its fused runs. It has the nodes and channels of the other one, so
            that either can take up a thread, and no edge where a step finds its own way.

    Raises:
        InvalidSchema: LangGraph cannot make a channel for a key of the state.
        ArgumentError: The agent cannot be fused.
    """
    graph = _graph(spec, context_schema)
    recorder = recorder_for(spec.decisions, spec.name)
    nodes = _nodes(spec, graph, recorder)
    tools = _tools(spec, graph, recorder, held if how else None) if spec.has_tools else None
    sent = None if tools is None else tools.sent
    # The steps of a fused run keep what they send themselves.
    kept = None if quick else sent
    paths = {edge.source: _path(spec, edge, recorder, kept) for edge in spec.topology.edges}
    if tools is not None:
        nodes[TOOLS] = tools if how is None else BatchedToolsNode(tools)
    if tools is not None and how is not None:
        paths[TOOLS] = BatchedToolsEdge(cast("Runnable[Any, Any]", paths[TOOLS]))
    own_way: dict[str, Runnable[Any, Any]] = {}
    if how is not None and quick:
        own_way |= fused_nodes(spec.topology, nodes, _routes(paths), graph.channels, how, sent)
        own_way |= _returning(spec, tools)
    _add_nodes(graph, {**nodes, **own_way}, own_way)
    for edge in spec.topology.edges:
        if edge.source not in own_way:
            _add(graph, edge, paths[edge.source])
    return graph


def _returning(spec: AgentSpec, tools: ToolsNode | None) -> dict[str, Runnable[Any, Any]]:
    """The tools of fused runs, where they need no edge."""
    if tools is None or not _always_returns(spec):
        return {}
    return {TOOLS: BatchedToolsNode(tools, spec.topology.loop_entry)}


def _always_returns(spec: AgentSpec) -> bool:
    """Whether a run always goes from the tools to the loop's entry, which sees what they said."""
    return spec.decisions is None and not spec.toolbox.direct and spec.response_format is None


def _add_nodes(
    graph: AgentGraph, nodes: Mapping[str, Runnable[Any, Any]], see_all: Collection[str]
) -> None:
    spec = graph.spec
    hooks = {bound.definition.node: bound for bound in spec.hooks}
    for name, node in nodes.items():
        bound = hooks.get(name)
        graph.add_node(
            name,
            node,
            input_schema=_input_schema_for(spec, name)
            if bound and name not in see_all
            else spec.schemas.state,
            trace_policy=policy_of(bound.owner) if bound else None,
        )


def _keys(spec: AgentSpec, graph: AgentGraph) -> set[str]:
    return spec.schemas.state.__annotations__.keys() - graph.managed.keys()


def _nodes(
    spec: AgentSpec, graph: AgentGraph, recorder: DecisionRecorder | None
) -> dict[str, Runnable[Any, Any]]:
    keys = _keys(spec, graph)
    nodes: dict[str, Runnable[Any, Any]] = {
        bound.definition.node: HookNode(bound, spec.topology, spec.rules, keys, recorder)
        for bound in spec.hooks
    }
    nodes[spec.topology.style.model] = _model_node(spec, graph, spec.rules, recorder)
    return nodes


def _tools(
    spec: AgentSpec,
    graph: AgentGraph,
    recorder: DecisionRecorder | None,
    around: Callable[[Handler], Handler] | None,
) -> ToolsNode:
    keys = _keys(spec, graph)
    channels = {key: channel for key, channel in graph.channels.items() if key in keys}
    lasting = {key for key, channel in channels.items() if is_persistent(channel)} - {RETRIES}
    passing = {key for key, channel in channels.items() if is_ephemeral(channel)}
    # Who cannot say what tools would read, or where the state is no dict, lets them read it.
    plain = spec.schemas.written is None and lasting | passing | {RETRIES} >= channels.keys()
    return ToolsNode(spec, keys, recorder, around, StateCache(lasting) if plain else None)


def _graph(spec: AgentSpec, context_schema: type[Any] | None) -> AgentGraph:
    try:
        return AgentGraph(spec, context_schema)
    except (TypeError, ValueError) as error:
        raise InvalidSchema(
            "the state",
            f"LangGraph cannot make its channels: {error}",
            "A reducer is a function of two arguments, the last thing in Annotated[...].",
        ) from error


def _input_schema_for(spec: AgentSpec, node: str) -> type[Any]:
    """What a hook reads of the state: what tools say of the run is for the loop's entry alone."""
    entered = spec.has_tools and node == spec.topology.loop_entry
    return spec.schemas.state if entered else spec.schemas.hook


def _model_node(
    spec: AgentSpec, graph: AgentGraph, rules: Rules, recorder: DecisionRecorder | None
) -> Runnable[Any, Any]:
    return ModelNode(
        spec,
        model_call(spec, recorder, asynchronous=False),
        model_call(spec, recorder, asynchronous=True),
        Fold(graph.channels),
        rules,
        recorder,
    )


def _add(graph: AgentGraph, edge: Edge, path: str | Runnable[Any, Any]) -> None:
    if isinstance(path, str):
        graph.add_edge(edge.source, path)
    else:
        graph.add_conditional_edges(edge.source, path, list(edge.targets))


def _path(
    spec: AgentSpec, edge: Edge, recorder: DecisionRecorder | None, sent: StateCache | None
) -> str | Runnable[Any, Any]:
    """How an edge chooses; the one node it leads to where there is nothing to choose."""
    if edge.route is None:
        (target,) = edge.targets
        return target
    choice, name = _choice(spec, edge, spec.rules), str(edge.route)
    if sent is not None and TOOLS in edge.targets:
        choice = sent.caching(choice)
    if recorder is None:
        return Path(choice, name)
    why = reason_for(edge, spec.topology, spec.rules)
    return WatchedPath(recorder.route(edge.source, choice, why), name)


def _routes(paths: Mapping[str, str | Runnable[Any, Any]]) -> dict[str, Destination]:
    return {
        source: path if isinstance(path, str) else path.invoke for source, path in paths.items()
    }


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
            phases = {bound.definition.node: bound.definition.phase for bound in spec.hooks}
            leaving = phases[edge.source] is Phase.AFTER_AGENT
            return _make_jump_edge(edge, plan, rules, leaving=leaving)
