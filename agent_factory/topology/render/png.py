"""A plan as a picture for programs that show no SVG: a PNG, drawn by Graphviz."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from agent_factory.topology.model import TopologyData
from agent_factory.topology.render.figure import Arrow, Box, Group, figure_of
from agent_factory.topology.render.figure import shown as cut
from agent_factory.topology.render.layout import crossed_titles, read_layout, run_graphviz, to_dot
from agent_factory.topology.render.svg import DAY, text

_DOTS = 144
"""Dots per inch: two for each pixel of the SVG, for sharp text."""


def to_png(plan: TopologyData) -> bytes:
    """The plan as a PNG file."""
    figure = figure_of(plan)
    # A first run shows which titles the arrows would cross; the second puts them on the right.
    layout = read_layout(run_graphviz(to_dot(figure, _drawn), "json0").decode())
    attributes = partial(_drawn, right=crossed_titles(figure, layout))
    settings = f'graph [dpi={_DOTS} bgcolor="{DAY.paper}" pad=0.2];'
    # The first brace is that of the graph.
    return run_graphviz(to_dot(figure, attributes).replace("{", f"{{{settings}", 1), "png")


def _drawn(part: Box | Arrow | Group, right: Collection[str] = ()) -> str:
    """The attributes that draw a part, with its text; some titles stand on the right."""
    if isinstance(part, Group):
        cells = f"<TD>{_note(part.title)}</TD>", f'<TD WIDTH="{part.title_size[0] / 2:.0f}"></TD>'
        row = "".join(cells[::-1] if part.title in right else cells)
        label = f'<TABLE BORDER="0" CELLPADDING="0"><TR>{row}</TR></TABLE>'
        return f'label=<{label}> style="dotted,rounded" color="{DAY.muted}"'
    if isinstance(part, Arrow):
        color = DAY.jump if part.dashed else DAY.muted
        label = "<BR/>".join(_note(f"  {line}  ", color) for line in part.label)
        style = f'color="{color}" style={"dashed" if part.dashed else "solid"} arrowsize=0.7'
        return f"{style} label=<{label}>" if label else style
    if part.kind == "terminal":
        label = _name(part.title, DAY.paper)
        return f'shape=box style="filled,rounded" fillcolor="{DAY.ink}" label=<{label}> height=0.42'
    tint, border = DAY.kinds.get(part.kind, (DAY.frame, DAY.rim))
    rows = [_note(part.note), f"<B>{_name(cut(part.title))}</B>", *map(_note, part.remarks)]
    _, in_column = part.grid
    for line in range(in_column):
        tools = part.tools[line::in_column]
        rows.append("   ".join(f"{_name(cut(t.name))} {_note(part.mark_of(t))}" for t in tools))
    content = '<BR ALIGN="LEFT"/>'.join(filter(None, rows))
    table = (
        f'<TABLE BORDER="1" COLOR="{border}" BGCOLOR="{tint}" CELLBORDER="0" CELLSPACING="0" '
        f'CELLPADDING="6"><TR><TD ALIGN="LEFT" BALIGN="LEFT">{content}</TD></TR></TABLE>'
    )
    # From the innermost: each frame is a table around the table before.
    for place, frame in reversed(list(enumerate(part.frames, 1))):
        name = f"{_note(str(place))} {_name(cut(frame.layer.owner))}"
        header = "<BR/>".join([name, *map(_note, frame.remarks)])
        table = (
            f'<TABLE BORDER="1" COLOR="{DAY.rim}" BGCOLOR="{DAY.frame}" STYLE="ROUNDED" '
            f'CELLBORDER="0" CELLSPACING="0" CELLPADDING="4"><TR><TD ALIGN="LEFT" '
            f'BALIGN="LEFT">{header}</TD></TR>'
            f"<TR><TD>{table}</TD></TR></TABLE>"
        )
    return f"shape=plain label=<{table}>"


def _note(value: str, color: str = DAY.muted) -> str:
    return _font("sans-serif", 11, color, value)


def _name(value: str, color: str = DAY.ink) -> str:
    return _font("monospace", 13, color, value)


def _font(face: str, size: int, color: str, value: str) -> str:
    font = f'<FONT FACE="{face}" POINT-SIZE="{size}" COLOR="{color}">{text(value)}</FONT>'
    return font if text(value) else ""
