"""A plan as a Mermaid flowchart: nodes, ways and their reasons, and no styling."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from agent_factory.topology.model import END, START, TOOLS, Call, TopologyData
from agent_factory.topology.transitions import Transition, TransitionReason, transitions_of

_ESCAPES = str.maketrans({'"': "#quot;", "<": "#lt;", ">": "#gt;", "#": "#35;", "\n": " "})


def to_mermaid(plan: TopologyData) -> str:
    """The plan as the text of a Mermaid flowchart; layers and tools stand in their nodes."""
    names = [START, *plan.nodes, END]
    ids = {name: f"n{index}" for index, name in enumerate(names)}
    return "\n".join(
        [
            "flowchart TD",
            *(f"    {ids[name]}{_box(plan, name)}" for name in names),
            *(f"    {_arrow(way, ids)}" for way in transitions_of(plan)),
        ]
    )


def _box(plan: TopologyData, name: str) -> str:
    if name in (START, END):
        return f'(["{name.strip("_")}"])'
    text = "<br/>".join(line.translate(_ESCAPES) for line in _lines(plan, name))
    return f'["{text}"]'


def _lines(plan: TopologyData, name: str) -> Iterator[str]:
    """What stands in a node: its name, the layers outside first, and the tools."""
    yield name
    call = {plan.style.model: Call.MODEL, TOOLS: Call.TOOL}.get(name)
    layers = [f"{layer.owner}.{layer.method}" for layer in plan.layers if layer.call is call]
    if layers:
        yield f"in {' > '.join(layers)}"
    if name == TOOLS:
        yield from (_tool(tool.name, tool.return_direct) for tool in plan.tools if _runs(tool.kind))


def _runs(kind: str) -> bool:
    return kind == "client"


def _tool(name: str, return_direct: bool) -> str:
    return f"{name} (return_direct)" if return_direct else name


def _arrow(way: Transition, ids: Mapping[str, str]) -> str:
    reasons = [str(reason) for reason in way.reasons if reason.why is not TransitionReason.NEXT]
    label = "; ".join(reasons).translate(_ESCAPES)
    line = f'-->|"{label}"|' if label else "-->"
    return f"{ids[way.source]} {line} {ids[way.target]}"
