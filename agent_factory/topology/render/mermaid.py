"""A plan as a Mermaid flowchart: nodes, edges and their reasons, without styling."""

from __future__ import annotations

from agent_factory.topology.model import END, START, TOOLS, Call, ToolKind, TopologyData, printable
from agent_factory.topology.transitions import transitions_of

# Mermaid writes entities with # where HTML has &.
_ESCAPES = str.maketrans({'"': "#quot;", "<": "#lt;", ">": "#gt;", "#": "#35;"})


def to_mermaid(plan: TopologyData) -> str:
    """The plan as the text of a Mermaid flowchart; a node's box lists its layers and tools."""
    ids = {name: f"n{index}" for index, name in enumerate([START, *plan.nodes, END])}
    lines = ["flowchart TD"]
    for name, key in ids.items():
        texts = [name.strip("_") if name in (START, END) else name]
        # The layers around a run are shown where it starts.
        call = {START: Call.AGENT, plan.style.model: Call.MODEL, TOOLS: Call.TOOL}.get(name)
        if call and (layers := plan.layers_around(call)):
            texts.append(f"in {' > '.join(layer.name for layer in layers)}")
        if call is Call.TOOL:
            tools = (tool for tool in plan.tools if tool.kind is ToolKind.CLIENT)
            texts += (f"{t.name} (return_direct)" if t.return_direct else t.name for t in tools)
        box = "<br/>".join(text.translate(_ESCAPES) for text in texts)
        lines.append(f'    {key}(["{box}"])' if name in (START, END) else f'    {key}["{box}"]')
    for edge in transitions_of(plan):
        label = "; ".join(edge.notes).translate(_ESCAPES)
        arrow = f'-->|"{label}"|' if label else "-->"
        lines.append(f"    {ids[edge.source]} {arrow} {ids[edge.target]}")
    return "\n".join(map(printable, lines))
