"""A plan as plain text, one fact a line, so that a change is a changed line."""

from __future__ import annotations

from collections.abc import Sequence

from agent_factory.topology.model import TopologyData
from agent_factory.topology.transitions import Transition, transitions_of


def render(plan: TopologyData) -> str:
    """The plan as text: a line for each edge, each layer (outermost first) and each tool."""
    return "\n".join(
        [
            *map(edge_line, transitions_of(plan)),
            *(f"around each {layer.call} call: {layer.name}" for layer in plan.layers),
            *(f"tool: {tool.name}{_bracketed(tool.notes)}" for tool in plan.tools),
        ]
    )


def edge_line(edge: Transition) -> str:
    """An edge, with its reasons unless its target is simply the next node."""
    return f"{edge.name}{_bracketed(edge.notes)}"


def _bracketed(notes: Sequence[str]) -> str:
    return f"  [{'; '.join(notes)}]" if notes else ""
