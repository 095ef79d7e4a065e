"""Fusion: the nodes of a plan that a fused run takes in one step."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from agent_factory.errors import ArgumentError, describe
from agent_factory.runtime.spec import AgentSpec
from agent_factory.runtime.step import Fusion, Successors
from agent_factory.runtime.tools_node import ToolsNode
from agent_factory.state.channels import is_persistent
from agent_factory.state.schema import ENGINE_KEYS
from agent_factory.topology.model import TOOLS
from agent_factory.topology.topology import Topology

Names = Collection[str] | Literal["*"]


@dataclass(frozen=True, slots=True)
class FusionPlan:
    """Nodes at which a step of a fused run has to begin or end."""

    turn: bool  # a step may go through the call of the model
    before: Names  # nodes before which a run pauses, or "*" for all
    after: Names  # nodes after which a run pauses, or "*" for all
    alone: Collection[str] = ()  # nodes whose policy is for a step of their own

    def begins(self, node: str) -> bool:
        """Return True if a step has to begin at a node: a run can only pause between steps."""
        nodes = (*self.before, *self.after, *self.alone)
        return "*" in (self.before, self.after) or node in nodes

    def ends(self, node: str) -> bool:
        """Return True if a step has to end with a node."""
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


def fusion_of(
    plan: FusionPlan,
    spec: AgentSpec,
    channels: Mapping[str, Any],
    tools: ToolsNode | None,
    *,
    records: bool,
) -> Fusion:
    """Return the settings that the stages of an agent share."""
    topology = spec.topology
    # A pause shows the calls of a turn one by one, and a policy is for each call.
    apart = plan.before or plan.after or TOOLS in plan.alone or records
    looks = records or spec.toolbox.direct or spec.response_format
    # Of the hooks, only the entry of the loop reads the signals of tools.
    reading = {topology.style.model, *([topology.loop_entry] if tools is not None else [])}
    reading |= {old for old, now in topology.former_nodes.items() if now in reading}
    keys = spec.schemas.state.__annotations__
    return Fusion(
        channels=channels,
        keys=keys,
        kept={key for key, channel in channels.items() if is_persistent(channel)},
        engine_keys=[key for key in keys if key in ENGINE_KEYS],
        reads_signals=reading,
        records=records,
        batches_calls=not apart,
        state_keys=None if tools is None else tools.state_keys,
        next_after_tools=None if looks else topology.loop_entry,
        plan_successors=partial(successors_of, plan, topology),
    )


def successors_of(plan: FusionPlan, topology: Topology) -> dict[str, Successors]:
    """Return the nodes to which a step may continue from each node."""
    model = topology.style.model
    own_step = set() if plan.turn else {model}
    order = [name for name in topology.nodes if name != TOOLS]
    fusible = {name for name in order if name not in own_step and not plan.begins(name)}
    successors = {TOOLS: Successors()}
    for index, name in enumerate(order):
        # Only forward: a step that could turn back might never end.
        later = frozenset(() if plan.ends(name) else order[index + 1 :])
        # A model call is expensive, so the writes before the call are stored first, and the answer
        # before any other node runs.
        successors[name] = Successors(
            always=frozenset() if name in own_step else later & fusible,
            if_unchanged=frozenset() if plan.begins(model) else later & own_step,
            if_stored=later & fusible if name in own_step else frozenset(),
        )
    return successors | {old: successors[now] for old, now in topology.former_nodes.items()}
