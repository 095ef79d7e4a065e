"""The graph of fused runs: the nodes of the plan, and no edge where a step finds its own way."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from langchain_core.runnables import Runnable, RunnableConfig

from agent_factory.errors import ArgumentError, describe
from agent_factory.fused import FusedNode, Stage, Target
from agent_factory.fused_view import is_known
from agent_factory.nodes import HookNode
from agent_factory.spec import AgentSpec
from agent_factory.tools_node import ToolsNode
from agent_factory.topology import TOOLS, Edge
from agent_factory.tracing import policy_of
from agent_factory.watching import watch_of
from agent_factory.wiring import AgentGraph, _add, _graph, _model_node, _path, _seen_by

Names = Collection[str] | Literal["*"]


@dataclass(frozen=True, slots=True)
class Fusing:
    """How far a step may go.

    Args:
        turn: Through the call of the model as well.
        before: Nodes before which a run pauses, or "*" for all.
        after: Nodes after which it pauses, or "*" for all.
    """

    turn: bool = False
    before: Names = ()
    after: Names = ()

    def alone(self, node: str) -> bool:
        """Whether a node needs a step of its own: a run pauses between steps alone."""
        return "*" in (self.before, self.after) or node in (*self.before, *self.after)


def fusing(fused: Any, before: Names | None, after: Names | None) -> Fusing | None:
    """What create_agent's argument says.

    Raises:
        ArgumentError: It is neither a bool nor "turn".
    """
    if fused is False:
        return None
    if fused is True or fused == "turn":
        return Fusing(fused == "turn", before or (), after or ())
    raise ArgumentError(
        "fused", f"{describe(fused)} is no way to run.", "Give True, False or 'turn'."
    )


def wire_fused(spec: AgentSpec, context_schema: type[Any] | None, how: Fusing) -> AgentGraph:
    """The graph of an agent's fused runs, ready to compile.

    Its nodes and channels are those of the plan, so that a thread can be taken up by either graph.

    Raises:
        ArgumentError: What becomes of the messages in a step cannot be foreseen.
    """
    graph = _graph(spec, context_schema)
    if not is_known(graph.channels["messages"]):
        raise ArgumentError(
            "fused",
            "needs messages whose channel has a reducer, and the state_schema has another.",
            "Write Annotated[list[AnyMessage], add_messages], or leave fused out.",
        )
    nodes = _nodes(spec, graph)
    stages = _stages(spec, nodes, how)
    reached = {node for stage in stages.values() for node in stage.onward}
    walked = {name for name, stage in stages.items() if stage.onward or name in reached}
    hooks = {bound.fact.node: bound for bound in spec.hooks}
    for name, node in nodes.items():
        bound = hooks.get(name)
        graph.add_node(
            name,
            FusedNode(name, stages, graph.channels) if name in walked else node,
            input_schema=_seen_by(spec, name) if bound and not how.turn else spec.schemas.state,
            trace_policy=policy_of(bound.owner) if bound else None,
        )
    watch = watch_of(spec.decisions, spec.name)
    for edge in spec.topology.edges:
        if edge.source not in walked:
            _add(graph, edge, spec.rules, watch)
    return graph


def _nodes(spec: AgentSpec, graph: AgentGraph) -> dict[str, Runnable[Any, Any]]:
    keys = spec.schemas.state.__annotations__.keys() - graph.managed.keys()
    watch = watch_of(spec.decisions, spec.name)
    nodes: dict[str, Runnable[Any, Any]] = {
        bound.fact.node: HookNode(bound, spec.topology, spec.rules, keys, watch)
        for bound in spec.hooks
    }
    nodes[spec.topology.dialect.model] = _model_node(spec, graph, spec.rules, watch)
    if spec.has_tools:
        nodes[TOOLS] = ToolsNode(spec, keys, watch)
    return nodes


def _stages(
    spec: AgentSpec, nodes: Mapping[str, Runnable[Any, Any]], how: Fusing
) -> dict[str, Stage]:
    plan = spec.topology
    own_step = {TOOLS} if how.turn else {TOOLS, plan.dialect.model}
    order = [name for name in plan.nodes if name not in own_step]
    together = [name for name in order if not how.alone(name)]
    sees_all = {plan.dialect.model, plan.loop_entry} if spec.has_tools else {plan.dialect.model}
    return {
        name: Stage(
            node=nodes[name],
            route=_route(spec, plan.edge_from(name)),
            # Only forward: a step that could turn back might never end.
            onward=frozenset(order[index + 1 :]).intersection(together),
            engine=name in sees_all,
            silent=name != plan.dialect.model,
        )
        for index, name in enumerate(order)
    }


def _route(
    spec: AgentSpec, edge: Edge
) -> str | Callable[[Mapping[str, Any], RunnableConfig | None], Target]:
    if edge.route is None:
        return edge.targets[0]
    return _path(spec, edge, spec.rules, watch_of(spec.decisions, spec.name)).invoke
