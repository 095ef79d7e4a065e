"""The positions of the parts of a picture, computed by Graphviz."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import pairwise
from threading import Lock
from typing import Any

from agent_factory.errors import require
from agent_factory.topology.model import TOOLS
from agent_factory.topology.render.figure import Arrow, Box, Figure, Group
from agent_factory.topology.transitions import TransitionReason

Point = tuple[float, float]
Area = tuple[float, float, float, float]
"""Left, top, right and bottom."""

_INCH = 72
"""Pixels per inch. Graphviz takes sizes in inches; its positions are pixels from the bottom."""

_MANY = 130
"""The most arrows for which Graphviz also shortens long ones, which gives neat lanes. For 180 that
took 13 seconds instead of 2; twelve middleware that all jump everywhere have 120 arrows."""

_GAP = 3
"""Pixels between a label and the frame that takes it in."""

_LOCK = Lock()
"""Graphviz is a C library with global state: it must not run in two threads at once."""


@dataclass(frozen=True, slots=True)
class Route:
    """The curve of an arrow: cubic Bézier points, its tip, and the centre of its label."""

    points: tuple[Point, ...]
    tip: Point
    label: Point | None


@dataclass(frozen=True, slots=True)
class Layout:
    """The position of everything, in pixels from the upper left corner.

    Boxes have centres, and groups left, top, right and bottom. Boxes and routes are by key.
    """

    size: Point
    boxes: Mapping[str, Point]
    routes: Mapping[str, Route]
    groups: tuple[Area, ...]


def lay_out(figure: Figure) -> Layout:
    """Let Graphviz compute the positions."""
    # json0 holds positions alone; json would add drawing operations.
    layout = read_layout(run_graphviz(to_dot(figure), "json0").decode())
    return with_wide_groups(figure, layout)


def run_graphviz(source: str, form: str) -> bytes:
    """The output of Graphviz in one of its formats; MissingExtra if it is not installed."""
    otherwise = "render() and to_mermaid() work without it."
    require("draw", "A picture of a plan", otherwise=otherwise)
    graphviz = import_module("pygraphviz")
    with _LOCK:
        picture: bytes = graphviz.AGraph(string=source).draw(format=form, prog="dot")
    return picture


def sizes(part: Box | Arrow | Group) -> str:
    """The attributes that make room for a part, without any name of the plan."""
    if isinstance(part, Box):
        inches = "width={:.3f} height={:.3f}".format(*(pixels / _INCH for pixels in part.size))
        return f'shape=box fixedsize=true {inches} label=""'
    if isinstance(part, Arrow) and not part.label:
        return ""
    width, height = part.title_size if isinstance(part, Group) else part.label_size
    # Graphviz would measure a text in some font; a blank table has a known size.
    size = f'FIXEDSIZE="TRUE" WIDTH="{width:.0f}" HEIGHT="{height:.0f}"'
    return f'label=<<TABLE BORDER="0" {size}><TR><TD></TD></TR></TABLE>>'


def to_dot(figure: Figure, attributes: Callable[[Box | Arrow | Group], str] = sizes) -> str:
    """The input of Graphviz: keys and groups, with the attributes of each part."""
    lines = ["digraph {", "graph [nodesep=0.4 ranksep=0.5];"]
    lines += (f"{box.key} [{attributes(box)}];" for box in figure.boxes)
    for index, group in enumerate(figure.groups):
        keys = "; ".join(box.key for box in group.boxes)
        label = f"{attributes(group)} labeljust=l labelloc={'b' if group.below else 't'}"
        lines.append(f"subgraph cluster_{index} {{ margin=14 {label} {keys} }}")
    pairs = {(arrow.source.key, arrow.target.key) for arrow in figure.arrows}
    detour = 1 if len(figure.arrows) <= _MANY else 0
    for arrow in figure.arrows:
        # The edge to the next node goes straight down, and so does the first of two between the
        # same nodes: otherwise it winds around the other one. All others may take a detour.
        straight = any(reason.why is TransitionReason.NEXT for reason in arrow.edge.reasons)
        returns = (arrow.target.key, arrow.source.key) in pairs
        weight = 20 if straight else 5 if returns and arrow.target.kind == TOOLS else detour
        options = f'id="{arrow.key}" weight={weight} {attributes(arrow)}'
        lines.append(f"{arrow.source.key} -> {arrow.target.key} [{options}];")
    return "\n".join([*lines, "}"])


def read_layout(text: str) -> Layout:
    """Read the output of Graphviz, with positions counted from the upper left corner."""
    data: dict[str, Any] = json.loads(text)
    _, _, width, height = _numbers(data["bb"])

    def point(text: str) -> Point:
        x, y = _numbers(text)
        return x, height - y

    routes, groups = {}, {}
    for edge in data.get("edges", []):
        # The form is "e,x,y x,y ...": the tip of the arrow, and then the points of its curve.
        tip, *points = edge["pos"].removeprefix("e,").split(" ")
        label = point(edge["lp"]) if "lp" in edge else None
        routes[edge["id"]] = Route(tuple(map(point, points)), point(tip), label)
    objects = data.get("objects", [])
    for item in objects:
        kind, _, index = item["name"].rpartition("_")
        # Graphviz lists clusters among the nodes, and knows them by this prefix.
        if kind == "cluster":
            left, bottom, right, top = _numbers(item["bb"])
            groups[int(index)] = (left, height - top, right, height - bottom)
    return Layout(
        size=(width, height),
        # Clusters have no position but a bounding box.
        boxes={item["name"]: point(item["pos"]) for item in objects if "pos" in item},
        routes=routes,
        groups=tuple(groups[index] for index in sorted(groups)),
    )


def crossed_titles(figure: Figure, layout: Layout) -> list[str]:
    """The titles of groups that an arrow would cross on the left; they stand on the right."""
    titles = []
    for group, (left, top, _, bottom) in zip(figure.groups, layout.groups, strict=True):
        width, height = group.title_size
        middle = bottom - height if group.below else top + height
        title = left, middle - height / 2, left + width / 2, middle + height / 2
        for route in layout.routes.values():
            # The control points enclose a curve, so no arrow that crosses the title is missed.
            for (x, y), (x2, y2) in pairwise([*route.points, route.tip]):
                part = min(x, x2), min(y, y2), max(x, x2), max(y, y2)
                titles += [group.title] if overlap(part, title) else []
    return titles


def with_wide_groups(figure: Figure, layout: Layout) -> Layout:
    """Let the frames of groups take in labels that stand on their lines, where there is room."""
    # Graphviz keeps labels from boxes and from each other, and not from the frames of groups.
    labels = [
        area_of(place, arrow.label_size)
        for arrow in figure.arrows
        if (place := layout.routes[arrow.key].label) is not None
    ]
    groups = list(layout.groups)
    for index, group in enumerate(figure.groups):
        outside = [box for box in figure.boxes if box not in group.boxes]
        others = [area_of(layout.boxes[box.key], box.size) for box in outside]
        others += [area for place, area in enumerate(groups) if place != index]
        for label in labels:
            (left, top, right, bottom), (x, y, x2, y2) = groups[index], label
            corner = min(left, x - _GAP), min(top, y - _GAP)
            wide = *corner, max(right, x2 + _GAP), max(bottom, y2 + _GAP)
            # A box in a frame of another group would be wrong; a label on a line is only ugly.
            if cross(label, groups[index]) and not any(overlap(wide, other) for other in others):
                groups[index] = wide
    return replace(layout, groups=tuple(groups))


def area_of(centre: Point, size: Point) -> Area:
    """Left, top, right and bottom of a rectangle."""
    (x, y), (width, height) = centre, size
    return x - width / 2, y - height / 2, x + width / 2, y + height / 2


def overlap(one: Area, other: Area) -> bool:
    """Return True if two rectangles have a point in common."""
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def cross(area: Area, frame: Area) -> bool:
    """Return True if a rectangle stands on the line of a frame: partly inside, partly outside."""
    left, top, right, bottom = frame
    is_inside = left < area[0] and area[2] < right and top < area[1] and area[3] < bottom
    return overlap(area, frame) and not is_inside


def _numbers(text: str) -> list[float]:
    return [float(part) for part in text.split(",")]
