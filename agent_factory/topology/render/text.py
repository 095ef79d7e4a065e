"""A plan as plain text, one fact a line, so that a change is a changed line."""

from __future__ import annotations

from collections.abc import Iterator

from agent_factory.topology.model import Layer, Tool, ToolKind, TopologyData
from agent_factory.topology.transitions import Transition, TransitionReason, transitions_of


def render(plan: TopologyData) -> str:
    """The plan as text: a line for each way, each layer (outermost first) and each tool."""
    return "\n".join(
        [
            *map(way_line, transitions_of(plan)),
            *map(layer_line, plan.layers),
            *map(tool_line, plan.tools),
        ]
    )


def way_line(way: Transition) -> str:
    """A way, with its reasons where it is more than the next step."""
    reasons = [str(reason) for reason in way.reasons if reason.why is not TransitionReason.NEXT]
    why = f"  [{'; '.join(reasons)}]" if reasons else ""
    return f"{way.source} -> {way.target}{why}"


def layer_line(layer: Layer) -> str:
    """A layer, by the call it closes around."""
    return f"around each {layer.call} call: {layer.owner}.{layer.method}"


def tool_line(tool: Tool) -> str:
    """A tool, with what is special about it."""
    return f"tool: {tool.name}{''.join(_notes(tool))}"


def _notes(tool: Tool) -> Iterator[str]:
    notes = []
    if tool.kind is not ToolKind.CLIENT:
        notes.append(str(tool.kind))
    if tool.return_direct:
        notes.append("return_direct")
    if tool.owner:
        notes.append(f"by {tool.owner}")
    if notes:
        yield f"  [{'; '.join(notes)}]"
