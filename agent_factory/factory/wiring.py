"""Wiring: turn an AgentSpec into a StateGraph. No other module adds a node or an edge."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cached_property, partial
from typing import Any
from weakref import WeakKeyDictionary

from langchain_core.runnables import Runnable
from langgraph.channels import BinaryOperatorAggregate, LastValue
from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import TracePolicy

from agent_factory.decisions.recorder import Recorder
from agent_factory.errors import ArgumentError
from agent_factory.factory.fusion import FusionPlan, fusion_of, successors_of
from agent_factory.factory.settings import plan_of
from agent_factory.hooks.flows import identity
from agent_factory.hooks.trace_policy import recorded
from agent_factory.runtime.agent import CompiledAgent
from agent_factory.runtime.guards import Guards
from agent_factory.runtime.hook_node import HookNode, StateCopies
from agent_factory.runtime.model_node import ModelNode
from agent_factory.runtime.routing import ROUTES, Choice, Path, reason_for, unless_held
from agent_factory.runtime.run_layers.thread import LAST_WRITE
from agent_factory.runtime.spec import AgentSpec
from agent_factory.runtime.step import Fusion, Stage, Successors
from agent_factory.runtime.tools_node import LeadFromTools, ToolsNode, sending_state
from agent_factory.runtime.turn import OrderedToolsNode, View
from agent_factory.state.channels import (
    KeyedByName,
    is_ephemeral,
    is_known,
    is_messages,
    is_persistent,
)
from agent_factory.state.schema import ANSWER, ENGINE_KEYS, LAST_NODE, RETRIES, Schemas
from agent_factory.topology.model import TOOLS
from agent_factory.topology.topology import Topology
from agent_factory.upstream import empty_graph, run_in_place

# Weak, because an agent for one request may have schemas of its request.
_empty_graphs: WeakKeyDictionary[Schemas, Callable[[], dict[str, Any]]] = WeakKeyDictionary()
"""Graphs without nodes, by schemas: agents with the same schemas have the same channels."""


class AgentGraph(StateGraph[Any, Any, Any, Any]):
    """StateGraph that knows its AgentSpec."""

    def __init__(self, spec: AgentSpec, context_schema: type[Any] | None) -> None:
        if (attributes := _empty_graphs.get(spec.schemas)) is not None:
            vars(self).update(attributes())
        else:
            try:
                super().__init__(
                    spec.schemas.written or spec.schemas.state,
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
            _empty_graphs[spec.schemas] = empty_graph(self)
        # A request may have made the schema, so it is not shared.
        self.context_schema = context_schema
        self.spec = spec
        guards = [m.message_guard for m in spec.middleware if m.message_guard is not None]
        self.guards = Guards(guards, self.channels) if guards else None
        # Both are None if each node takes a step.
        self.fusion_plan: FusionPlan | None = None
        self.fusion: Fusion | None = None
        self.routes: dict[str, str | Choice] = {}  # where nodes lead within a step
        self.options: dict[str, Any] = {}

    @cached_property
    def plan(self) -> Topology:
        """The plan of the agent."""
        return plan_of(self.spec)

    def compile(self, *args: Any, **options: Any) -> CompiledStateGraph[Any, Any, Any, Any]:
        """Compile to an agent whose streams and states do not show the reserved keys."""
        self.options = options
        agent = super().compile(*args, **options)
        stream_keys = agent.stream_channels_list
        agent.stream_channels = [key for key in stream_keys if key not in ENGINE_KEYS]
        if self.fusion is not None:
            stages: dict[str, Stage] = {}
            for name in self.nodes.keys() & self.routes.keys():
                node, lead = agent.nodes[name], LeadFromTools if name == TOOLS else None
                arguments = name, node.bound, self.routes[name], node, stages, self.fusion, lead
                stages[name] = Stage(*arguments)
                run_in_place(node, stages[name])
        # `compile` has no place for a class. To construct the graph once more takes longer.
        agent.__class__ = CompiledAgent
        return agent


def wire(
    spec: AgentSpec, context_schema: type[Any] | None = None, plan: FusionPlan | None = None
) -> AgentGraph:
    """Return the graph of an agent, ready to compile; without a plan, each node takes a step."""
    graph = AgentGraph(spec, context_schema)
    recorder = Recorder(spec.decisions, spec.name, graph.guards.shown if graph.guards else None)
    if not is_known(graph.channels["messages"]):
        plan = None  # the state after a node is only known after its step
    successors = partial(successors_of, plan, spec.topology) if plan else dict
    nodes = _make_nodes(graph, recorder, successors)
    tools: Any = nodes.get(TOOLS)
    graph.routes = _add_edges(graph, recorder, tools)
    # LangGraph keeps a policy from here on. These policies ask for the middleware's at each run.
    trace_policies = {
        bound.definition.node: TracePolicy(
            process_inputs=partial(recorded, bound.owner, "process_inputs"),
            process_outputs=partial(recorded, bound.owner, "process_outputs"),
        )
        for bound in spec.hooks
    }
    # Of the hooks, only the loop's entry reads the signals of tools.
    reads_signals = {spec.topology.loop_entry} if tools else set()
    policies = spec.nodes["node_policies"] or {}
    former = spec.topology.former_nodes
    nodes |= {old: nodes[now] for old, now in former.items()}
    for stored_as, node in nodes.items():
        name = former.get(stored_as, stored_as)
        is_hook = name in trace_policies and name not in reads_signals
        policy = policies.get(name)
        graph.add_node(
            stored_as,
            node,
            input_schema=spec.schemas.hook if is_hook else spec.schemas.state,
            retry_policy=policy.retry_policy if policy else None,
            cache_policy=policy.cache_policy if policy else None,
            timeout=policy.timeout if policy else None,
            trace_policy=trace_policies.get(name),
        )
    if spec.run_layers:
        graph.add_node(LAST_WRITE, identity, input_schema=spec.schemas.state)
    if new_names := {move.old: move.new for move in spec.topology.moved}:
        for key in {key for member in spec.middleware for key in member.keyed_by_name}:
            if type(channel := graph.channels.get(key)) is BinaryOperatorAggregate:
                graph.channels[key] = KeyedByName(channel, new_names)
    if spec.response_format and type(graph.channels["structured_response"]) is LastValue:
        # With LANGGRAPH_STRICT_MSGPACK, langgraph 1.2 reads classes only of the types of channels.
        schema = spec.response_format.schema
        graph.channels["structured_response"] = LastValue(schema, "structured_response")
    if plan is not None:
        graph.channels[LAST_NODE] = LastValue(str)  # no node reads the channel
        graph.fusion_plan = plan
        graph.fusion = fusion_of(plan, spec, graph.channels, tools, records=recorder.enabled)
    return graph


def _make_nodes(
    graph: AgentGraph, recorder: Recorder, successors: Callable[[], Mapping[str, Successors]]
) -> dict[str, Runnable[Any, Any]]:
    """Return the nodes by their names."""
    spec, plan, context_schema = graph.spec, graph.spec.topology, graph.context_schema
    keys = frozenset(spec.schemas.state.__annotations__.keys() - graph.managed.keys())
    options: Any = {
        "recorder": recorder,
        "copies": StateCopies(),
        "context_schema": context_schema,
        "guards": graph.guards,
    }
    nodes: dict[str, Runnable[Any, Any]] = {
        bound.definition.node: HookNode(
            bound,
            plan,
            spec.rules,
            keys,
            tools=spec.toolbox.client,
            strict=spec.strict,
            merges_by_id=is_messages(graph.channels["messages"]),
            **options,
        )
        for bound in spec.hooks
    }
    nodes[plan.style.model] = ModelNode(spec, graph.channels, successors=successors, **options)
    if TOOLS not in plan.nodes:
        return nodes
    state_keys = _tool_state_keys(graph, keys)
    arguments = spec, keys, recorder, state_keys, context_schema, graph.guards
    if (order := spec.rules.order) is None:
        nodes[TOOLS] = ToolsNode(*arguments)
    else:
        view = View(graph.channels, spec.schemas.state.__annotations__)
        nodes[TOOLS] = OrderedToolsNode(*arguments, order=order, view=view)
    return nodes


def _add_edges(
    graph: AgentGraph, recorder: Recorder, tools: ToolsNode | None
) -> dict[str, str | Choice]:
    """Add the edges, and return the next node of each within a step, or its choice."""
    routes: dict[str, str | Choice] = {}
    plan, rules = graph.spec.topology, graph.spec.rules
    # Threads that were stored under a former name begin at a node of that name. No edge leads
    # there; the ids of tasks and interrupts depend on the name.
    former = plan.former_nodes
    for edge in plan.edges:
        sources = [edge.source, *(old for old, now in former.items() if now == edge.source)]
        if edge.route is None:
            for source in sources:
                (routes[source],) = edge.targets
                graph.add_edge(source, *edge.targets)
            continue
        choose, why = ROUTES[edge.route](edge, plan, rules), reason_for(edge, plan, rules)
        routes |= dict.fromkeys(sources, recorder.route(edge.source, choose, why))
        # A step has the state at hand. An edge sends the state with calls, which would read it
        # again.
        if tools is not None and TOOLS in edge.targets and tools.state_keys is not None:
            choose = sending_state(choose, tools.state_keys)
        choose = recorder.route(edge.source, choose, why)
        if edge.source == TOOLS and rules.order is not None:
            choose = unless_held(choose)
        for source in sources:
            graph.add_conditional_edges(source, Path(choose, str(edge.route)), list(edge.targets))
    return routes


def _tool_state_keys(graph: AgentGraph, keys: Collection[str]) -> Collection[str] | None:
    """Return the keys of the state for tools; None if tools have to read the state themselves."""
    channels = {key: channel for key, channel in graph.channels.items() if key in keys}
    own = {RETRIES, ANSWER}
    persistent = {key for key, channel in channels.items() if is_persistent(channel)} - own
    ephemeral = {key for key, channel in channels.items() if is_ephemeral(channel)}
    # With another kind of channel, or a state that is not a dict, the reads of tools are unknown.
    are_known = persistent | ephemeral | own >= channels.keys()
    return persistent if are_known and graph.spec.schemas.written is None else None
