"""Fusion planning: which nodes of a plan a fused run takes in one step."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from langchain_core.runnables import Runnable

from agent_factory.errors import ArgumentError, describe
from agent_factory.fused.state_view import is_known
from agent_factory.fused.step import FusedNode, FusedStage
from agent_factory.fused.tool_batch import BatchedToolsNode, resendable
from agent_factory.runtime.hook_node import HookNode
from agent_factory.runtime.routing import Path
from agent_factory.runtime.tools_node import StateCache
from agent_factory.topology.model import TOOLS
from agent_factory.topology.topology import Topology

Names = Collection[str] | Literal["*"]


@dataclass(frozen=True, slots=True)
class FusionPlan:
    """How far a step of a fused run may go.

    Args:
        turn: Whether a step may go through the call of the model.
        before: Nodes before which a run pauses, or "*" for all.
        after: Nodes after which a run pauses, or "*" for all.
    """

    turn: bool = False
    before: Names = ()
    after: Names = ()

    def begins(self, node: str) -> bool:
        """Whether a step has to begin at a node, because a run can only pause between steps."""
        return "*" in (self.before, self.after) or node in (*self.before, *self.after)

    def ends(self, node: str) -> bool:
        """Whether a step has to end with a node."""
        return self.after == "*" or node in self.after

    @property
    def batches_calls(self) -> bool:
        """Whether the tool calls of a turn may go to one task. A pause shows them one by one."""
        return not self.before and not self.after


def plan_fusion(fused: Any, before: Names | None, after: Names | None) -> FusionPlan | None:
    """Return the plan for the argument `fused` of create_agent; None if runs are not fused.

    Raises:
        ArgumentError: It is neither a bool nor "turn".
    """
    if fused is False:
        return None
    if fused is True or fused == "turn":
        return FusionPlan(fused == "turn", before or (), after or ())
    raise ArgumentError(
        "fused", f"must be True, False or 'turn', got {describe(fused)}.", "Pass fused=True."
    )


@dataclass(slots=True)
class AgentParts:
    """The parts of an agent's graph, before they are added to it.

    Args:
        topology: The plan.
        channels: The channels of the state.
        nodes: The nodes, by name.
        paths: Where the edge of each node leads: a node, or a path that chooses one.
        state_cache: The states that calls were sent with; None if tools read the state themselves.
        tools_return: Whether a run always continues from the tools to the loop's entry.
    """

    topology: Topology
    channels: Mapping[str, Any]
    nodes: dict[str, Runnable[Any, Any]]
    paths: dict[str, str | Path]
    state_cache: StateCache | None
    tools_return: bool


def fuse(parts: AgentParts, plan: FusionPlan, *, fused: bool) -> dict[str, Runnable[Any, Any]]:
    """Adapt the parts of an agent to fused runs.

    Args:
        parts: The parts; the tools node is replaced by one that takes the calls of a turn together.
        plan: How far a step may go.
        fused: Whether the parts are for the graph of the fused runs, or for the other one.

    Returns:
        For the graph of the fused runs, the nodes that choose their successor themselves instead
        of through a graph edge. LangGraph copies every channel before an edge chooses; a fused step
        has the state at hand.

    Raises:
        ArgumentError: The channel of the messages is of an unknown kind.
    """
    topology, nodes, paths = parts.topology, parts.nodes, parts.paths
    tools = nodes.get(TOOLS)
    if tools is not None:
        nodes[TOOLS] = BatchedToolsNode(tools)
        paths[TOOLS] = resendable(cast("Path", paths[TOOLS]))
    if not fused:
        return {}
    if not is_known(parts.channels["messages"]):
        raise ArgumentError(
            "fused",
            "needs messages with a reducer, but the state_schema gives them another channel.",
            "Write Annotated[list[AnyMessage], add_messages], or leave `fused` out.",
        )
    model = topology.style.model
    routes = {name: p if isinstance(p, str) else p.choose for name, p in paths.items()}
    own_step = set() if plan.turn else {model}
    order = [name for name in topology.nodes if name != TOOLS]
    fusible = {name for name in order if name not in own_step and not plan.begins(name)}
    sees_signals = {model, topology.loop_entry} if tools is not None else {model}
    stages: dict[str, FusedStage] = {}
    for index, name in enumerate(order):
        node = nodes[name]
        # Only forward: a step that could turn back might never end.
        later = frozenset(() if plan.ends(name) else order[index + 1 :])
        stages[name] = FusedStage(
            node=node,
            route=routes[name],
            next_nodes=frozenset() if name in own_step else later & fusible,
            # A model call is expensive, so what was written before it is stored first.
            next_if_unchanged=frozenset() if plan.begins(model) else later & own_step,
            sees_signals=name in sees_signals,
            streams=name == model,
            batches_calls=plan.batches_calls,
            needs_thread=isinstance(node, HookNode) and node.needs_thread,
        )
    self_routing: dict[str, Runnable[Any, Any]] = {
        name: FusedNode(name, stages, parts.channels) for name in order
    }
    if tools is not None:
        keep = None if parts.state_cache is None else parts.state_cache.put
        stages[TOOLS] = FusedStage(nodes[TOOLS], routes[TOOLS], streams=True, keep=keep)
        if parts.tools_return:
            self_routing[TOOLS] = BatchedToolsNode(tools, topology.loop_entry)
    return self_routing
