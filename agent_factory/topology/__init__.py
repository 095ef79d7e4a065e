"""The plan of an agent: plain values to draw, compare, explain, save and load."""

from agent_factory.topology.bounds import Bound, Bounds, TokenPrice
from agent_factory.topology.declarations import (
    Access,
    AccessKind,
    GuardAction,
    LimitScope,
    LimitUnit,
    ToolGuard,
    UsageLimit,
)
from agent_factory.topology.diff import Change, ChangeKind, TopologyDiff
from agent_factory.topology.load import TopologyFileError, load_topology
from agent_factory.topology.model import (
    END,
    JUMPS,
    MODEL,
    START,
    TOOLS,
    AgentStyle,
    Call,
    Edge,
    Hook,
    Layer,
    Move,
    Phase,
    Route,
    Setting,
    Shape,
    Tool,
    ToolKind,
)
from agent_factory.topology.planner import jump_targets
from agent_factory.topology.stopping_points import StoppingPoint, Verdict
from agent_factory.topology.topology import Topology, plan
from agent_factory.topology.transitions import Reason, Transition, TransitionReason

__all__ = [
    "END",
    "JUMPS",
    "MODEL",
    "START",
    "TOOLS",
    "Access",
    "AccessKind",
    "AgentStyle",
    "Bound",
    "Bounds",
    "Call",
    "Change",
    "ChangeKind",
    "Edge",
    "GuardAction",
    "Hook",
    "Layer",
    "LimitScope",
    "LimitUnit",
    "Move",
    "Phase",
    "Reason",
    "Route",
    "Setting",
    "Shape",
    "StoppingPoint",
    "TokenPrice",
    "Tool",
    "ToolGuard",
    "ToolKind",
    "Topology",
    "TopologyDiff",
    "TopologyFileError",
    "Transition",
    "TransitionReason",
    "UsageLimit",
    "Verdict",
    "jump_targets",
    "load_topology",
    "plan",
]
