"""The plan of an agent: plain values that can be drawn, compared, explained, saved and loaded."""

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
    "AgentStyle",
    "Call",
    "Change",
    "ChangeKind",
    "Edge",
    "Hook",
    "Layer",
    "Move",
    "Phase",
    "Reason",
    "Route",
    "Setting",
    "Shape",
    "StoppingPoint",
    "Tool",
    "ToolKind",
    "Topology",
    "TopologyDiff",
    "TopologyFileError",
    "Transition",
    "TransitionReason",
    "Verdict",
    "jump_targets",
    "load_topology",
    "plan",
]
