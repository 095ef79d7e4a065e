"""Fusion planning: which nodes of a plan a fused run takes in one step."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from langchain_core.runnables import Runnable

from agent_factory.errors import ArgumentError, describe
from agent_factory.fused.state_view import Channel, is_known
from agent_factory.fused.step import FusedNode, FusedStage
from agent_factory.fused.tool_batch import BatchedToolsNode
from agent_factory.runtime.hook_node import HookNode
from agent_factory.runtime.routing import Path
from agent_factory.runtime.spec import AgentSpec
from agent_factory.runtime.tools_node import ToolsNode
from agent_factory.topology.model import TOOLS

Names = Collection[str] | Literal["*"]


@dataclass(frozen=True, slots=True)
class FusionPlan:
    """How far a step of a fused run may go."""

    turn: bool  # a step may go through the call of the model
    before: Names  # nodes before which a run pauses, or "*" for all
    after: Names  # nodes after which a run pauses, or "*" for all
    alone: Collection[str] = ()  # nodes whose policy is for a step of their own

    def begins(self, node: str) -> bool:
        """Whether a step has to begin at a node, because a run can only pause between steps."""
        named = (*self.before, *self.after, *self.alone)
        return "*" in (self.before, self.after) or node in named

    def ends(self, node: str) -> bool:
        """Whether a step has to end with a node."""
        return self.after == "*" or node in (*self.after, *self.alone)


def plan_fusion(
    fused: Any, before: Names | None, after: Names | None, alone: Collection[str] | None
) -> FusionPlan:
    """Return the plan for the argument `fused` of create_agent, which is not False."""
    if fused is True or fused == "turn":
        return FusionPlan(fused == "turn", before or (), after or (), alone or ())
    raise ArgumentError(
        "fused", f"must be True, False or 'turn', got {describe(fused)}.", "Pass fused=True."
    )


def fused_nodes(
    spec: AgentSpec,
    channels: Mapping[str, Channel],
    nodes: Mapping[str, Runnable[Any, Any]],
    paths: Mapping[str, str | Path],
    tools: ToolsNode | None,
    plan: FusionPlan,
) -> dict[str, Runnable[Any, Any]]:
    """Return the nodes of a fused run that choose their successor themselves.

    LangGraph copies every channel before an edge chooses; a fused step has the state at hand.
    """
    if not is_known(channels["messages"]):
        raise ArgumentError(
            "fused",
            "needs messages with a reducer, but the state_schema gives them another channel.",
            "Write Annotated[list[AnyMessage], add_messages], or leave `fused` out.",
        )
    topology = spec.topology
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
            needs_thread=isinstance(node, HookNode) and node.needs_thread,
        )
    # A pause shows the calls of a turn one by one, and a policy is for each of them.
    batches_calls = not plan.before and not plan.after and TOOLS not in plan.alone
    state_keys = None if tools is None else tools.state_keys
    result: dict[str, Runnable[Any, Any]] = {
        name: FusedNode(name, stages, channels, batches_calls, state_keys) for name in order
    }
    if tools is not None:
        stages[TOOLS] = FusedStage(nodes[TOOLS], routes[TOOLS], streams=True)
        # With one of these, an edge has to look at the results, or records where it leads.
        if not (spec.decisions or spec.toolbox.direct or spec.response_format):
            result[TOOLS] = BatchedToolsNode(tools, topology.loop_entry)
    return result
