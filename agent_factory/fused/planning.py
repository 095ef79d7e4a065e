"""Fusion planning: which nodes of a plan a fused run takes in one step."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from langchain_core.runnables import Runnable

from agent_factory.errors import ArgumentError, describe
from agent_factory.fused.state_view import Channel, ViewedChannel
from agent_factory.runtime.hook_node import HookNode
from agent_factory.runtime.routing import Choice
from agent_factory.runtime.spec import AgentSpec
from agent_factory.runtime.tools_node import ToolsNode
from agent_factory.state.schema import RETRIES, TOOL_SIGNALS
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


@dataclass(frozen=True, slots=True)
class Stage:
    """A node as a part of a step, and what may follow it in the same step."""

    name: str
    node: Runnable[Any, Any]
    route: str | Choice  # the next node, or the function that chooses one
    next_nodes: frozenset[str] = frozenset()  # nodes this step may continue to from it
    next_if_unchanged: frozenset[str] = frozenset()  # the same, if no node has written state so far
    next_if_stored: frozenset[str] = frozenset()  # the same, once what it wrote is stored
    sees_signals: bool = False  # sees the keys for signals of tools and for retries
    streams: bool = False  # the tokens of models that it calls are streamed
    needs_thread: bool = False  # runs in a thread in an asynchronous run

    def visible(self, state: dict[str, Any]) -> dict[str, Any]:
        """Return what the node sees of the state."""
        if self.sees_signals or (TOOL_SIGNALS not in state and RETRIES not in state):
            return state
        return {key: state[key] for key in state if key not in (TOOL_SIGNALS, RETRIES)}


@dataclass(frozen=True)
class Fusion:
    """What the steps of an agent are made of."""

    plan: FusionPlan
    spec: AgentSpec
    channels: Mapping[str, Channel]
    nodes: Mapping[str, Runnable[Any, Any]]
    routes: Mapping[str, str | Choice]
    tools: ToolsNode | None
    records: bool  # decisions of nodes are recorded, with the step and the call that they belong to

    @property
    def keys(self) -> Mapping[str, Any]:
        """The keys of the state, in the order in which LangGraph reads them."""
        return self.spec.schemas.state.__annotations__

    @cached_property
    def viewed(self) -> Mapping[str, ViewedChannel]:
        """The channels as the view of a step asks them."""
        return {key: ViewedChannel.of(channel) for key, channel in self.channels.items()}

    @cached_property
    def engine_keys(self) -> list[str]:
        """The keys of the state that only the engine sees."""
        return [key for key in (TOOL_SIGNALS, RETRIES) if key in self.channels]

    @property
    def batches_calls(self) -> bool:
        """Whether the tool calls of a turn may go to one task."""
        # A pause shows the calls of a turn one by one, and a policy is for each of them.
        plan = self.plan
        apart = plan.before or plan.after or TOOLS in plan.alone or self.records
        return not apart

    @property
    def state_keys(self) -> Collection[str] | None:
        """The keys of the state that calls are sent with; None if tools read the state."""
        return None if self.tools is None else self.tools.state_keys

    @property
    def next_after_tools(self) -> str | None:
        """The node that follows the tools; None if an edge looks at their results to choose it."""
        spec = self.spec
        looks = self.records or spec.toolbox.direct or spec.response_format
        return None if looks else spec.topology.loop_entry

    @cached_property
    def stages(self) -> dict[str, Stage]:
        """The nodes as parts of steps. Many agents are built that never run."""
        plan, topology = self.plan, self.spec.topology
        model = topology.style.model
        own_step = set() if plan.turn else {model}
        order = [name for name in topology.nodes if name != TOOLS]
        fusible = {name for name in order if name not in own_step and not plan.begins(name)}
        sees_signals = {model, topology.loop_entry} if self.tools is not None else {model}
        stages: dict[str, Stage] = {}
        for index, name in enumerate(order):
            node = self.nodes[name]
            # Only forward: a step that could turn back might never end.
            later = frozenset(() if plan.ends(name) else order[index + 1 :])
            stages[name] = Stage(
                name,
                node,
                self.routes[name],
                next_nodes=frozenset() if name in own_step else later & fusible,
                # A model call is expensive, so what was written before it is stored first, and what
                # it has answered before anything else runs.
                next_if_unchanged=frozenset() if plan.begins(model) else later & own_step,
                next_if_stored=later & fusible if name in own_step else frozenset(),
                sees_signals=name in sees_signals,
                streams=name == model,
                needs_thread=isinstance(node, HookNode) and node.needs_thread,
            )
        if self.tools is not None:
            stages[TOOLS] = Stage(TOOLS, self.nodes[TOOLS], self.routes[TOOLS], streams=True)
        for old, now in topology.former_nodes.items():
            stages[old] = replace(stages[now], name=old)
        return stages
