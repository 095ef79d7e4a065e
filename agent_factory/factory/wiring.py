"""Wiring: turn an AgentSpec into a StateGraph. No other module adds a node or an edge."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Any

from langchain_core.runnables import Runnable
from langgraph.channels import LastValue
from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph

from agent_factory.decisions.recorder import Recorder
from agent_factory.errors import ArgumentError
from agent_factory.fused.agent import FusedAgent
from agent_factory.fused.planning import Fusion, FusionPlan
from agent_factory.fused.state_view import is_ephemeral, is_known, is_persistent
from agent_factory.fused.tool_batch import BatchedToolsNode, capture_results, resendable
from agent_factory.hooks.base import policy_of
from agent_factory.runtime.hook_node import HookNode, StateCopies
from agent_factory.runtime.model_node import ModelNode
from agent_factory.runtime.routing import ROUTES, Choice, Path, reason_for
from agent_factory.runtime.spec import AgentSpec
from agent_factory.runtime.threads import ThreadAgent
from agent_factory.runtime.tools_node import ToolsNode, sending_state
from agent_factory.state.schema import ENGINE_KEYS, LAST_NODE, RETRIES
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
        self.fusion: Fusion | None = None

    def compile(self, *args: Any, **options: Any) -> CompiledStateGraph[Any, Any, Any, Any]:
        """Compile to an agent whose streams and states do not show the reserved keys."""
        agent = super().compile(*args, **options)
        shown = agent.stream_channels_list
        agent.stream_channels = [key for key in shown if key not in ENGINE_KEYS]
        if self.fusion is not None:
            self.fusion.install(agent.nodes)
            return FusedAgent(**compiled_graph_arguments(agent))
        if agent.checkpointer:
            return ThreadAgent(**compiled_graph_arguments(agent))
        return agent


def wire(
    spec: AgentSpec, context_schema: type[Any] | None = None, fusion: FusionPlan | None = None
) -> AgentGraph:
    """Return the graph of an agent, ready to compile; without `fusion`, each node takes a step."""
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
    # With another channel of messages, the state after a node is only known when its step is over.
    fused = fusion is not None and is_known(graph.channels["messages"])
    tools = None
    if TOOLS in plan.nodes:
        around = capture_results if fused else None
        seen = _tool_state_keys(spec, graph, keys)
        tools = ToolsNode(spec, keys, recorder, around, seen, context_schema)
        nodes[TOOLS] = BatchedToolsNode(tools) if fused else tools
    routes: dict[str, str | Choice] = {}  # where the edges in a fused step lead
    for edge in plan.edges:
        if edge.route is None:
            (routes[edge.source],) = edge.targets
            graph.add_edge(edge.source, *edge.targets)
            continue
        choose = ROUTES[edge.route](edge, plan, spec.rules)
        record = partial(recorder.route, edge.source, why=reason_for(edge, plan, spec.rules))
        routes[edge.source] = record(choose)
        if tools is not None and TOOLS in edge.targets and tools.state_keys is not None:
            choose = sending_state(choose, tools.state_keys)
        choose = record(choose)
        if fused and edge.source == TOOLS:
            choose = resendable(choose)
        graph.add_conditional_edges(edge.source, Path(choose, str(edge.route)), list(edge.targets))
    trace_policies = {bound.definition.node: policy_of(bound.owner) for bound in spec.hooks}
    # Only the loop's entry reads the signals of tools.
    reads_signals = {*(nodes if fused else ()), *([plan.loop_entry] if tools else [])}
    for name, node in nodes.items():
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
    if fused and fusion is not None:
        graph.channels[LAST_NODE] = LastValue(str)  # no node reads it
        records = recorder.enabled
        must_choose = bool(records or spec.toolbox.direct or spec.response_format)
        graph.fusion = Fusion(
            fusion, plan, graph.channels, nodes, routes, tools, must_choose, records
        )
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
