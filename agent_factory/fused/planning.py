"""Which nodes of a plan a fused run takes in one step."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from langchain_core.runnables import Runnable

from agent_factory.errors import ArgumentError, describe
from agent_factory.fused.state_view import is_known
from agent_factory.fused.step import Destination, FusedNode, FusedStage
from agent_factory.runtime.hook_node import HookNode
from agent_factory.runtime.tools_node import StateCache
from agent_factory.topology.model import TOOLS
from agent_factory.topology.topology import Topology

Names = Collection[str] | Literal["*"]


@dataclass(frozen=True, slots=True)
class FusionPlan:
    """How far a step may go.

    Args:
        turn: Through the call of the model as well.
        before: Nodes before which a run pauses, or "*" for all.
        after: Nodes after which it pauses, or "*" for all.
    """

    turn: bool = False
    before: Names = ()
    after: Names = ()

    def begins(self, node: str) -> bool:
        """Whether a step has to begin at a node: a run pauses between steps alone."""
        return "*" in (self.before, self.after) or node in (*self.before, *self.after)

    @property
    def together(self) -> bool:
        """Whether the tool calls of a turn may go to one task: a run that pauses shows them."""
        return not self.before and not self.after

    def ends(self, node: str) -> bool:
        """Whether a step has to end with a node."""
        return self.after == "*" or node in self.after


def plan_fusion(fused: Any, before: Names | None, after: Names | None) -> FusionPlan | None:
    """What create_agent's argument says.

    Raises:
        ArgumentError: It is neither a bool nor "turn".
    """
    if fused is False:
        return None
    if fused is True or fused == "turn":
        return FusionPlan(fused == "turn", before or (), after or ())
    raise ArgumentError(
        "fused", f"{describe(fused)} is no way to run.", "Give True, False or 'turn'."
    )


def fused_nodes(
    plan: Topology,
    nodes: Mapping[str, Runnable[Any, Any]],
    routes: Mapping[str, Destination],
    channels: Mapping[str, Any],
    how: FusionPlan,
    sent: StateCache | None = None,
) -> dict[str, FusedNode]:
    """The nodes that find their own way.

    LangGraph looks at a copy of every channel where an edge chooses; here the state is at hand.

    Args:
        plan: The agent's plan.
        nodes: Its nodes, by name.
        routes: Where their edges lead.
        channels: The channels of its state.
        how: How far a step may go.
        sent: Knows the state that calls were sent with, or None.

    Raises:
        ArgumentError: What becomes of the messages in a step cannot be foreseen.
    """
    if not is_known(channels["messages"]):
        raise ArgumentError(
            "fused",
            "needs messages whose channel has a reducer, and the state_schema has another.",
            "Write Annotated[list[AnyMessage], add_messages], or leave fused out.",
        )
    stages = _stages(plan, nodes, routes, how)
    if TOOLS in nodes:
        keep = None if sent is None else sent.put
        stages[TOOLS] = FusedStage(node=nodes[TOOLS], route=routes[TOOLS], silent=False, keep=keep)
    return {name: FusedNode(name, stages, channels) for name in stages if name != TOOLS}


def _stages(
    plan: Topology,
    nodes: Mapping[str, Runnable[Any, Any]],
    routes: Mapping[str, Destination],
    how: FusionPlan,
) -> dict[str, FusedStage]:
    model = plan.style.model
    own_step = set() if how.turn else {model}
    order = [name for name in plan.nodes if name != TOOLS]
    together = {name for name in order if name not in own_step and not how.begins(name)}
    sees_all = {model, plan.loop_entry} if TOOLS in nodes else {model}
    stages: dict[str, FusedStage] = {}
    for index, name in enumerate(order):
        node = nodes[name]
        # Only forward: a step that could turn back might never end.
        after = frozenset(() if how.ends(name) else order[index + 1 :])
        stages[name] = FusedStage(
            node=node,
            route=routes[name],
            next_nodes=frozenset() if name in own_step else after & together,
            # A model's answer is kept at once, and what was written before it is asked.
            next_if_unchanged=frozenset() if how.begins(model) else after & own_step,
            engine=name in sees_all,
            silent=name != model,
            together=how.together,
            threaded=isinstance(node, HookNode) and node.threaded,
        )
    return stages
