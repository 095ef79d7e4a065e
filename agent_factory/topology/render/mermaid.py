"""A plan as a Mermaid flowchart: nodes, edges and their reasons, without styling."""

from __future__ import annotations

from agent_factory.topology.model import TopologyData, printable
from agent_factory.topology.render.figure import figure_of

# Mermaid writes entities with # where HTML has &.
_ESCAPES = str.maketrans({'"': "#quot;", "<": "#lt;", ">": "#gt;", "#": "#35;"})


def to_mermaid(plan: TopologyData) -> str:
    """The plan as the text of a Mermaid flowchart; boxes of nodes list layers and tools."""
    figure = figure_of(plan)
    lines = ["flowchart TD"]
    for box in figure.boxes:
        texts = [box.title if box.kind == "terminal" else box.name]
        if box.frames:
            texts.append(f"in {' > '.join(frame.layer.name for frame in box.frames)}")
        for frame in box.frames:
            texts += (f"{frame.layer.owner}: {remark}" for remark in frame.remarks)
        texts += box.remarks
        for tool in box.tools:
            mark = box.mark_of(tool)
            texts.append(f"{tool.name} ({mark})" if mark else tool.name)
        content = "<br/>".join(text.translate(_ESCAPES) for text in texts)
        corners = ('(["', '"])') if box.kind == "terminal" else ('["', '"]')
        lines.append(f"    {box.key}{content.join(corners)}")
    for arrow in figure.arrows:
        label = "; ".join(arrow.edge.notes).translate(_ESCAPES)
        line = f'-->|"{label}"|' if label else "-->"
        lines.append(f"    {arrow.source.key} {line} {arrow.target.key}")
    return "\n".join(map(printable, lines))
