"""Wiring: turn an AgentSpec into a StateGraph. No other module adds a node or an edge."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from langchain_core.runnables import Runnable
from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph

from agent_factory.decisions.recorder import Recorder
from agent_factory.errors import ArgumentError
from agent_factory.fused.planning import FusionPlan, fused_nodes
from agent_factory.fused.state_view import is_ephemeral, is_persistent
from agent_factory.fused.tool_batch import BatchedToolsNode, capture_results, resendable
from agent_factory.hooks.base import policy_of
from agent_factory.runtime.hook_node import HookNode, StateCopies
from agent_factory.runtime.model_node import ModelNode
from agent_factory.runtime.routing import ROUTES, Path, reason_for
from agent_factory.runtime.spec import AgentSpec
from agent_factory.runtime.threads import ThreadAgent
from agent_factory.runtime.tools_node import ToolsNode, sending_state
from agent_factory.state.schema import ENGINE_KEYS, RETRIES
from agent_factory.topology.model import TOOLS
from agent_factory.upstream import compiled_graph_arguments


class AgentGraph(StateGraph[Any, Any, Any, Any]):
    """StateGraph that knows the AgentSpec it was made from."""

    def __init__(self, spec: AgentSpec, context_schema: type[Any] | None) -> None:
        try:
            super().__init__(
                spec.schemas.written or spec.schemas.state,
                context_schema,
                input_schema=spec.schemas.input,
                output_schema=spec.schemas.output,
            )
        except (TypeError, ValueError) as error:
            raise ArgumentError(
                "the state",
                f"LangGraph cannot make its channels: {error}",
                "A reducer is a function of two arguments, the last item of Annotated[...].",
                code="AF114",
            ) from error
        self.spec = spec

    def compile(self, *args: Any, **options: Any) -> CompiledStateGraph[Any, Any, Any, Any]:
        """Compile to an agent whose streams and states do not show the reserved keys."""
        agent = super().compile(*args, **options)
        shown = agent.stream_channels_list
        agent.stream_channels = [key for key in shown if key not in ENGINE_KEYS]
        if agent.checkpointer:
            return ThreadAgent(**compiled_graph_arguments(agent))
        return agent


def wire(
    spec: AgentSpec,
    context_schema: type[Any] | None = None,
    fusion: FusionPlan | None = None,
    *,
    fused: bool = False,
) -> AgentGraph:
    """Return the graph of an agent, ready to compile.

    An agent with fused runs has two of them, made with the same `fusion`. They have the same nodes
    and channels, so that either can continue a thread.
    """
    graph = AgentGraph(spec, context_schema)
    plan, recorder = spec.topology, Recorder(spec.decisions, spec.name)
    keys = spec.schemas.state.__annotations__.keys() - graph.managed.keys()
    shared: Any = {
        "recorder": recorder,
        "copies": StateCopies(),
        "context_schema": context_schema,
    }
    nodes: dict[str, Runnable[Any, Any]] = {
        bound.definition.node: HookNode(bound, plan, spec.rules, keys, **shared)
        for bound in spec.hooks
    }
    nodes[plan.style.model] = ModelNode(spec, graph.channels, **shared)
    tools = None
    if TOOLS in plan.nodes:
        around = None if fusion is None else capture_results
        seen = _tool_state_keys(spec, graph, keys)
        tools = ToolsNode(spec, keys, recorder, around, seen, context_schema)
        nodes[TOOLS] = tools if fusion is None else BatchedToolsNode(tools)
    # The steps of a fused run add the state to calls themselves.
    state_keys = None if tools is None or fused else tools.state_keys
    paths: dict[str, str | Path] = {}  # where each edge leads: a node, or what chooses one
    for edge in plan.edges:
        if edge.route is None:
            (paths[edge.source],) = edge.targets
            continue
        choose = ROUTES[edge.route](edge, plan, spec.rules)
        if state_keys is not None and TOOLS in edge.targets:
            choose = sending_state(choose, state_keys)
        choose = recorder.route(edge.source, choose, reason_for(edge, plan, spec.rules))
        if fusion is not None and edge.source == TOOLS:
            choose = resendable(choose)
        paths[edge.source] = Path(choose, str(edge.route))
    self_routing: dict[str, Runnable[Any, Any]] = {}
    if fusion is not None and fused:
        self_routing = fused_nodes(spec, graph.channels, nodes, paths, tools, fusion)
    trace_policies = {bound.definition.node: policy_of(bound.owner) for bound in spec.hooks}
    # Only the loop's entry reads the signals of tools.
    reads_signals = {*self_routing, *([plan.loop_entry] if tools else [])}
    for name, node in {**nodes, **self_routing}.items():
        is_hook = name in trace_policies and name not in reads_signals
        policy = spec.node_policies.get(name)
        graph.add_node(
            name,
            node,
            input_schema=spec.schemas.hook if is_hook else spec.schemas.state,
            retry_policy=policy.retry_policy if policy else None,
            cache_policy=policy.cache_policy if policy else None,
            timeout=policy.timeout if policy else None,
            trace_policy=trace_policies.get(name),
        )
    for edge in plan.edges:
        path = paths[edge.source]
        if edge.source in self_routing:
            continue
        if isinstance(path, str):
            graph.add_edge(edge.source, path)
        else:
            graph.add_conditional_edges(edge.source, path, list(edge.targets))
    return graph


def _tool_state_keys(
    spec: AgentSpec, graph: AgentGraph, keys: Collection[str]
) -> Collection[str] | None:
    """Return the keys of the state that tools see; None if they have to read it themselves."""
    channels = {key: channel for key, channel in graph.channels.items() if key in keys}
    persistent = {key for key, channel in channels.items() if is_persistent(channel)} - {RETRIES}
    ephemeral = {key for key, channel in channels.items() if is_ephemeral(channel)}
    # With another kind of channel, or a state that is not a dict, what tools read is unknown.
    if (
        spec.schemas.written is not None
        or not persistent | ephemeral | {RETRIES} >= channels.keys()
    ):
        return None
    return persistent
