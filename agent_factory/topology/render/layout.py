"""A figure, drawn by Graphviz: shapes for an SVG, or the bytes of a PNG."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import import_module
from itertools import pairwise
from threading import Lock
from typing import NamedTuple
from unicodedata import east_asian_width
from xml.etree import ElementTree

from agent_factory.errors import require
from agent_factory.topology.model import TOOLS
from agent_factory.topology.render.figure import Arrow, Box, Figure, Group, shown
from agent_factory.topology.render.palette import DAY
from agent_factory.topology.transitions import TransitionReason

_MANY = 130
"""The most arrows for which Graphviz also shortens long ones, which gives neat lanes. For 180 that
took 13 seconds instead of 2; twelve middleware that all jump everywhere have 120 arrows."""

_DOTS = 144
"""Dots per inch of a PNG: two for each pixel of the SVG, for sharp text."""

_FONTS = {"name": ("monospace", 13, 7.9), "note": ("sans-serif", 11, 6.3)}
"""Font of each role of a text, its height and the width of its letters in pixels.

A monospaced font has letters of 0.6 of its height on every machine, and a wide sans-serif font has
them for notes. So boxes fit their texts, and Graphviz has no font to measure."""

_BLANK = "#010203"
"""Color of a cell in place of a text: it says where the text stands."""

_LOCK = Lock()
"""Graphviz is a C library with global state: it must not run in two threads at once."""


class Text(NamedTuple):
    """A text of a picture."""

    text: str
    role: str = "note"
    """Class in the SVG, and kind of font."""

    item: int = -1
    """Index of the tool that it belongs to; -1 for all other texts."""

    color: str = DAY.muted
    """Color in a PNG."""


class Mark(NamedTuple):
    """Shape or text with a place."""

    role: str
    """Class in the SVG: "core", "frame", "stripe", "line", "tip", "behind", "group", "name" ..."""

    element: ElementTree.Element
    """What Graphviz has drawn: a shape, or the blank cell of a text."""

    text: Text | None = None


@dataclass(frozen=True, slots=True)
class Layout:
    """Drawing of a figure by Graphviz.

    Args:
        corner: The upper left corner of the picture.
        size: Width and height in pixels.
        parts: The marks of boxes, arrows and groups, by their keys, from back to front.
    """

    corner: tuple[float, float]
    size: tuple[float, float]
    parts: Mapping[str, Sequence[Mark]]


def lay_out(figure: Figure) -> Layout:
    """Let Graphviz draw the shapes of a figure, with blank cells in place of texts."""
    layout = read_layout(Drawing(figure))
    # A second drawing has the titles that arrows cross on the other side.
    right = crossed_titles(figure, layout)
    return read_layout(Drawing(figure, right)) if right else layout


def draw_png(figure: Figure) -> bytes:
    """The figure as a PNG picture."""
    right = crossed_titles(figure, read_layout(Drawing(figure)))
    return run_graphviz(Drawing(figure, right, dots=_DOTS).source, "png")


def run_graphviz(source: str, form: str) -> bytes:
    """The output of Graphviz in a format; MissingExtra without Graphviz."""
    otherwise = "render() and to_mermaid() work without it."
    require("draw", "A picture of a plan", otherwise=otherwise)
    graphviz = import_module("pygraphviz")
    with _LOCK:
        picture: bytes = graphviz.AGraph(string=source).draw(format=form, prog="dot")
    return picture


def markup(value: str) -> str:
    """A text for XML and HTML: escaped, without forbidden characters."""
    # XML allows no control characters, even escaped.
    return escape("".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in value))


def letters(text: str) -> int:
    """The width of a text in letters; letters of East Asia count twice."""
    # W and F are the wide and the full-width letters of Unicode.
    return sum(2 if east_asian_width(letter) in "WF" else 1 for letter in text)


class Drawing:
    """The input of Graphviz, and the texts of each part in the order of their cells.

    Args:
        figure: The figure to draw.
        right: The titles of groups that stand on the right.
        dots: Dots per inch of a picture with its texts; 0 for blank cells in place of texts.
    """

    def __init__(self, figure: Figure, right: Collection[str] = (), dots: int = 0) -> None:
        self._is_blank = not dots
        self.texts: dict[str, list[Text]] = {}
        lines = [
            "digraph {",
            f'graph [nodesep=0.4 ranksep=0.5 pad=0.22 bgcolor="{DAY.paper}" '
            f"outputorder=edgesfirst dpi={dots or 72}];",
            *(
                f"{box.key} [id={box.key} shape=plain label=<{self._box(box)}>];"
                for box in figure.boxes
            ),
            *(self._group(group, is_right=group.title in right) for group in figure.groups),
        ]
        pairs = {(arrow.source.key, arrow.target.key) for arrow in figure.arrows}
        detour = 1 if len(figure.arrows) <= _MANY else 0
        for arrow in figure.arrows:
            # The edge to the next node goes straight down, and so does the first of two between the
            # same nodes, which would wind around the other edge. All other edges may take a detour.
            straight = any(reason.why is TransitionReason.NEXT for reason in arrow.edge.reasons)
            returns = (arrow.target.key, arrow.source.key) in pairs
            weight = 20 if straight else 5 if returns and arrow.target.kind == TOOLS else detour
            options = f"id={arrow.key} weight={weight} {self._arrow(arrow)}"
            lines.append(f"{arrow.source.key} -> {arrow.target.key} [{options}];")
        self.source = "\n".join([*lines, "}"])

    def _cell(self, key: str, text: Text) -> str:
        """A cell with a text of a part, or a blank cell of the same size."""
        if not text.text:
            return "<TD></TD>"
        self.texts.setdefault(key, []).append(text)
        face, height, width = _FONTS[text.role.split()[0]]
        align = "CENTER" if "label" in text.role else "LEFT"
        if self._is_blank:
            size = {"WIDTH": round(letters(text.text) * width), "HEIGHT": height + 3}
            blank = _table("<TD></TD>", FIXEDSIZE="TRUE", BGCOLOR=_BLANK, ALIGN=align, **size)
            return f"<TD>{blank}</TD>"
        # Graphviz reads \N and the like in labels, and two backslashes as one.
        words = markup(text.text).replace("\\", "\\\\")
        words = f"<B>{words}</B>" if "title" in text.role else words
        font = f'FACE="{face}" POINT-SIZE="{height}" COLOR="{text.color}"'
        return f'<TD ALIGN="{align}"><FONT {font}>{words}</FONT></TD>'

    def _rows(self, key: str, *texts: Text) -> list[str]:
        return [self._cell(key, text) for text in texts]

    def _group(self, group: Group, *, is_right: bool) -> str:
        """A frame around boxes: a title in the left or right half, and room for arrows."""
        title = self._cell(group.key, Text(group.title))
        room = f'<TD WIDTH="{len(group.title) * _FONTS["note"][2] + 24:.0f}"></TD>'
        label = f"label=<{_table(f'{room}{title}' if is_right else f'{title}{room}')}>"
        label += f" labeljust=l labelloc={'b' if group.below else 't'}"
        style = f'style="dotted,rounded" color="{DAY.muted}" margin=14 id={group.key}'
        boxes = "; ".join(box.key for box in group.boxes)
        return f"subgraph cluster_{group.key} {{ {style} {label} {boxes} }}"

    def _arrow(self, arrow: Arrow) -> str:
        color = DAY.jump if arrow.dashed else DAY.muted
        style = f'color="{color}" style={"dashed" if arrow.dashed else "solid"} arrowsize=0.7'
        if not arrow.label:
            return style
        rows = self._rows(arrow.key, *(Text(x, "note label", color=color) for x in arrow.label))
        # The space around the cell keeps the background off the arrow.
        cell = f'<TD BGCOLOR="{DAY.paper}">{_table(*rows)}</TD>'
        return f"{style} label=<{_table(cell, CELLSPACING=5)}>"

    def _box(self, box: Box, place: int = 0) -> str:
        """A box from a frame inward."""
        if place < len(box.frames):
            frame = box.frames[place]
            title = Text(f"{place + 1} {shown(frame.layer.owner)}", "name", color=DAY.ink)
            head = _table(*self._rows(box.key, title, *map(Text, frame.remarks)), CELLPADDING=1)
            inside = f"<TD>{self._box(box, place + 1)}</TD>"
            look = {"COLOR": DAY.rim, "BGCOLOR": DAY.frame, "STYLE": "ROUNDED", "BORDER": 1}
            return _table(f'<TD ALIGN="LEFT">{head}</TD>', inside, CELLPADDING=3, **look)
        if box.kind == "terminal":
            cell = self._cell(box.key, Text(box.title, "name title", color=DAY.paper))
            return _table(cell, BGCOLOR=DAY.ink, STYLE="ROUNDED", CELLPADDING=8)
        tint, stripe = DAY.kinds.get(box.kind, (DAY.paper, DAY.rim))
        name = Text(shown(box.title), "name title", color=DAY.ink)
        rows = self._rows(box.key, Text(box.note), name, *map(Text, box.remarks))
        rows += self._tools(box)
        look = {"BGCOLOR": tint, "COLOR": stripe, "BORDER": 5, "SIDES": "L", "CELLPADDING": 2}
        return _table(f"<TD>{_table(*rows, CELLPADDING=1)}</TD>", **look)

    def _tools(self, box: Box) -> Iterator[str]:
        """The row of a box with tools, in columns."""
        _, in_column = box.grid
        rows = []
        for line in range(in_column):
            texts = []
            for index in range(line, len(box.tools), in_column):
                tool = box.tools[index]
                texts.append(Text(shown(tool.name), "name", index, DAY.ink))
                texts.append(Text(box.mark_of(tool), "note", index))
            rows.append("".join(self._rows(box.key, *texts)))
        if rows:
            yield f'<TD ALIGN="LEFT">{_table(*rows, CELLPADDING=2)}</TD>'


def _table(*rows: str, **settings: object) -> str:
    """A table of Graphviz' labels, without lines and spaces unless the settings say otherwise."""
    usual = {"BORDER": 0, "CELLBORDER": 0, "CELLSPACING": 0, "CELLPADDING": 0}
    words = " ".join(f'{name}="{value}"' for name, value in {**usual, **settings}.items())
    return f"<TABLE {words}>{''.join(f'<TR>{row}</TR>' for row in rows)}</TABLE>"


_ROLES = {
    DAY.frame: "frame",
    DAY.paper: "core",
    **{tint: "core" for tint, _ in DAY.kinds.values()},
}
"""Roles of the shapes in a box, by their colors."""


def read_layout(drawing: Drawing) -> Layout:
    """Let Graphviz draw, and read the SVG."""
    svg = run_graphviz(drawing.source, "svg").decode()
    # Without a namespace, tags are plain names.
    root = ElementTree.fromstring(svg.replace(' xmlns="http://www.w3.org/2000/svg"', ""))
    graph = root.find("g")
    assert graph is not None
    x, y = re.findall(r"translate\(([-\d.]+) ([-\d.]+)\)", graph.get("transform", ""))[0]
    parts = {}
    for part in graph.iterfind("g"):
        key, texts = part.get("id", ""), iter(drawing.texts.get(part.get("id", ""), ()))
        marks = []
        for element in part:
            if element.get("fill") == _BLANK:
                text = next(texts)
                marks.append(Mark(text.role, element, text))
            elif role := _role(element, part.get("class", "")):
                marks.append(Mark(role, element))
        parts[key] = marks
    _, _, width, height = map(float, root.get("viewBox", "").split())
    return Layout((-float(x), -float(y)), (width, height), parts)


def _role(shape: ElementTree.Element, kind: str) -> str:
    """The role of a shape; empty for titles, and for lines around shapes, which have a style."""
    fill = shape.get("fill", "")
    if shape.tag == "title":
        return ""
    if kind == "cluster":
        return "group"
    if kind == "edge":
        return "line" if shape.tag == "path" else "behind" if fill == DAY.paper else "tip"
    return "stripe" if shape.tag == "polyline" else _ROLES.get(fill, "")


def crossed_titles(figure: Figure, layout: Layout) -> list[str]:
    """The titles of groups that an arrow crosses where they stand."""
    lines = [
        points_of(mark.element)
        for arrow in figure.arrows
        for mark in layout.parts[arrow.key]
        if mark.role == "line"
    ]
    titles = []
    for group in figure.groups:
        left, top, right, bottom = area_of(layout.parts[group.key][-1].element)
        # The control points enclose a curve, so no arrow that crosses the title is missed.
        titles += [
            group.title
            for points in lines
            for (x, y), (x2, y2) in pairwise(points)
            if min(x, x2) < right and left < max(x, x2)
            if min(y, y2) < bottom and top < max(y, y2)
        ]
    return titles


def points_of(shape: ElementTree.Element) -> list[tuple[float, float]]:
    """The points of a shape of Graphviz."""
    text = shape.get("d") or shape.get("points") or ""
    numbers = [float(number) for number in re.findall(r"-?[\d.]+", text)]
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def area_of(shape: ElementTree.Element) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of a shape."""
    xs, ys = zip(*points_of(shape), strict=True)
    return min(xs), min(ys), max(xs), max(ys)
