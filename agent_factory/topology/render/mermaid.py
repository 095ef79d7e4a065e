"""A plan as a Mermaid flowchart: nodes, edges and their reasons, without styling."""

from __future__ import annotations

from agent_factory.topology.model import END, START, TOOLS, Call, ToolKind, TopologyData
from agent_factory.topology.transitions import transitions_of

_ESCAPES = str.maketrans({'"': "#quot;", "<": "#lt;", ">": "#gt;", "#": "#35;", "\n": " "})


def to_mermaid(plan: TopologyData) -> str:
    """The plan as the text of a Mermaid flowchart; a node's box lists its layers and tools."""
    names = [START, *plan.nodes, END]
    ids = {name: f"n{index}" for index, name in enumerate(names)}
    lines = ["flowchart TD", *(f"    {ids[name]}{_box(plan, name)}" for name in names)]
    for edge in transitions_of(plan):
        label = "; ".join(edge.notes).translate(_ESCAPES)
        arrow = f'-->|"{label}"|' if label else "-->"
        lines.append(f"    {ids[edge.source]} {arrow} {ids[edge.target]}")
    return "\n".join(lines)


def _box(plan: TopologyData, node: str) -> str:
    if node in (START, END):
        return f'(["{node.strip("_")}"])'
    lines = [node]
    call = {plan.style.model: Call.MODEL, TOOLS: Call.TOOL}.get(node)
    if call and (layers := plan.layers_around(call)):
        lines.append(f"in {' > '.join(layer.name for layer in layers)}")
    if call is Call.TOOL:
        tools = (tool for tool in plan.tools if tool.kind is ToolKind.CLIENT)
        lines += (f"{t.name} (return_direct)" if t.return_direct else t.name for t in tools)
    return f'["{"<br/>".join(line.translate(_ESCAPES) for line in lines)}"]'
