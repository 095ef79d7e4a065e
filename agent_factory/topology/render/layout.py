"""Where the parts of a picture go. Graphviz decides; what it is asked and says is plain text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from threading import Lock
from typing import Any

from agent_factory.topology.render.figure import Arrow, Figure, Group
from agent_factory.topology.transitions import TransitionReason

Point = tuple[float, float]

_INCH = 72
"""Pixels to Graphviz's inch: its unit for sizes. For places it has pixels, from the bottom up."""

_MANY = 130
"""Arrows up to which Graphviz shall keep the long ones short, too: so they run in neat lanes. With
180 that took 13 seconds instead of 2; twelve middleware that all jump everywhere have 120."""

_LOCK = Lock()
"""Graphviz is a C library with a state of its own, and no friend of threads."""


@dataclass(frozen=True, slots=True)
class Route:
    """The curve of an arrow: cubic Bézier points, its tip, and the middle of its label."""

    points: tuple[Point, ...]
    tip: Point
    label: Point | None


@dataclass(frozen=True, slots=True)
class Layout:
    """Where everything is, in pixels from the upper left corner.

    Args:
        size: Width and height.
        boxes: The middle of each box, by key.
        routes: The curve of each arrow, by key.
        groups: Left, top, right and bottom of each group, in their order.
    """

    size: Point
    boxes: Mapping[str, Point]
    routes: Mapping[str, Route]
    groups: tuple[tuple[float, float, float, float], ...]


def lay_out(figure: Figure) -> Layout:
    """Have Graphviz find a place for everything.

    Raises:
        ImportError: The extra `draw` is not installed.
    """
    return read_layout(_run_dot(to_dot(figure)))


def to_dot(figure: Figure) -> str:
    """What Graphviz is asked: keys, sizes and groups, and none of the names."""
    around = 1 if len(figure.arrows) <= _MANY else 0
    return "\n".join(
        [
            "digraph {",
            "graph [nodesep=0.4 ranksep=0.36];",
            'node [shape=box fixedsize=true label=""];',
            *(f"{box.key} [width={_inches(box.size[0])} height={_inches(box.size[1])}];"
              for box in figure.boxes),
            *(_cluster(index, group) for index, group in enumerate(figure.groups)),
            *(_edge(arrow, around) for arrow in figure.arrows),
            "}",
        ]
    )  # fmt: skip


def _inches(pixels: float) -> str:
    return f"{pixels / _INCH:.3f}"


def _cluster(index: int, group: Group) -> str:
    keys = "; ".join(box.key for box in group.boxes)
    place = "b" if group.below else "t"
    label = f"label={_blank(*group.title_size)} labeljust=l labelloc={place}"
    return f"subgraph cluster_{index} {{ margin=14 {label} {keys} }}"


def _edge(arrow: Arrow, around: int) -> str:
    # What comes next goes straight down; everything else finds its way around.
    straight = any(reason.why is TransitionReason.NEXT for reason in arrow.way.reasons)
    options = [f'id="{arrow.key}"', f"weight={20 if straight else around}"]
    if arrow.label:
        options.append(f"label={_blank(*arrow.label_size)}")
    return f"{arrow.source.key} -> {arrow.target.key} [{' '.join(options)}];"


def _blank(width: float, height: float) -> str:
    """Room for a text of known size: its letters would be measured in some font otherwise."""
    size = f'FIXEDSIZE="TRUE" WIDTH="{width:.0f}" HEIGHT="{height:.0f}"'
    return f'<<TABLE BORDER="0" {size}><TR><TD></TD></TR></TABLE>>'


def _run_dot(source: str) -> str:
    try:
        graphviz = import_module("pygraphviz")
    except ImportError as error:
        raise ImportError(
            "A picture of a plan needs Graphviz, which comes with: "
            "pip install 'agent-factory[draw]'. render() and to_mermaid() do without."
        ) from error
    with _LOCK:
        drawn: bytes = graphviz.AGraph(string=source).draw(format="json0", prog="dot")
    return drawn.decode()


def read_layout(text: str) -> Layout:
    """What Graphviz answered, with places counted from the upper left corner."""
    data = json.loads(text)
    _, _, width, height = _numbers(data["bb"])
    objects = data.get("objects", [])
    return Layout(
        size=(width, height),
        boxes={o["name"]: _point(o["pos"], height) for o in objects if "pos" in o},
        routes={edge["id"]: _route(edge, height) for edge in data.get("edges", [])},
        groups=tuple(_sides(o["bb"], height) for o in _clusters(objects)),
    )


def _clusters(objects: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    found = [o for o in objects if o["name"].startswith("cluster_")]
    yield from sorted(found, key=lambda o: int(o["name"].removeprefix("cluster_")))


def _sides(text: str, height: float) -> tuple[float, float, float, float]:
    left, bottom, right, top = _numbers(text)
    return left, height - top, right, height - bottom


def _route(edge: dict[str, Any], height: float) -> Route:
    end, *points = edge["pos"].removeprefix("e,").split(" ")
    label = _point(edge["lp"], height) if "lp" in edge else None
    return Route(tuple(_point(p, height) for p in points), _point(end, height), label)


def _point(text: str, height: float) -> Point:
    x, y = _numbers(text)
    return x, height - y


def _numbers(text: str) -> list[float]:
    return [float(part) for part in text.split(",")]
