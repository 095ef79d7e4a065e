"""A plan as a picture: a self-contained SVG, or a PNG."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise

from agent_factory.topology.model import TopologyData
from agent_factory.topology.render.details import Details, details_of
from agent_factory.topology.render.figure import Box, Figure, figure_of
from agent_factory.topology.render.layout import Layout, Mark, area_of, draw_png, lay_out
from agent_factory.topology.render.layout import markup as text
from agent_factory.topology.render.palette import style
from agent_factory.topology.transitions import Transition


def to_svg(plan: TopologyData, path: Sequence[Transition] = ()) -> str:
    """The plan as an SVG file, with the steps of a path in another color."""
    figure = figure_of(plan)
    return draw(figure, lay_out(figure), details_of(plan, figure), path=path)


def to_png(plan: TopologyData) -> bytes:
    """The plan as a PNG file."""
    return draw_png(figure_of(plan))


def draw(
    figure: Figure,
    layout: Layout,
    details: Mapping[str, Details],
    *,
    linked: bool = False,
    styled: bool = True,
    path: Sequence[Transition] = (),
) -> str:
    """The SVG of a figure, with the arrows and boxes of a path in another color.

    Linked, each part links to its details, `#about-<key>`, on a page. Styled, the style is in the
    picture, and not in a file of a page.
    """
    steps = {(step.source, step.target) for step in path}
    ends = {name for step in steps for name in step}
    (left, top), (width, height) = layout.corner, layout.size
    nodes = [box.name for box in figure.boxes if box.kind != "terminal"]
    layers = sum(len(box.frames) for box in figure.boxes)
    edges = ", ".join(f"{a.source.title} to {a.target.title}" for a in figure.arrows)
    summary = f"{len(nodes)} nodes: {', '.join(nodes)}. Layers: {layers}. Edges: {edges}."
    sides = f'width="{width:g}" height="{height:g}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="topology" role="graphics-document" '
        f'aria-labelledby="topology-title" aria-describedby="topology-desc" '
        f'viewBox="{left:g} {top:g} {width:g} {height:g}" {sides}>',
        f'<title id="topology-title">{text(figure.title)}</title>',
        f'<desc id="topology-desc">{text(summary)}</desc>',
        *([f"<style>{style()}</style>"] if styled else []),
        f'<rect class="paper" x="{left:g}" y="{top:g}" {sides}/>',
    ]

    def part(key: str, kind: str, name: str, shapes: Iterator[str]) -> Iterator[str]:
        link = f'<a href="#about-{key}" aria-label="{text(name)}">' if linked else ""
        yield f'<g id="{key}" class="{kind}" data-words="{text(details[key].words)}">{link}'
        yield f"<title>{text(details[key].as_text())}</title>"
        yield from shapes
        yield "</a></g>" if linked else "</g>"

    # In SVG, later elements cover earlier elements: groups come first, and boxes last.
    for group in figure.groups:
        lines += map(_shape, layout.parts[group.key])
    for arrow in figure.arrows:
        kind = f"edge {arrow.source.key} {arrow.target.key}{' jump' if arrow.dashed else ''}"
        kind += " path" if (arrow.source.name, arrow.target.name) in steps else ""
        name = " ".join([details[arrow.key].title, *arrow.label])
        lines += part(arrow.key, kind, name, _arrow(layout.parts[arrow.key]))
    for box in figure.boxes:
        marks = layout.parts[box.key]
        kind = f"node {box.kind}{' path' if box.name in ends else ''}"
        name = " ".join(mark.text.text for mark in marks if mark.text)
        lines += part(box.key, kind, " ".join(name.split()), _box(box, marks))
    return "\n".join([*lines, "</svg>"]) + "\n"


def _arrow(marks: Iterable[Mark]) -> Iterator[str]:
    for mark in marks:
        if mark.role == "line":
            # A wide and transparent line makes a thin line easy to point at.
            yield _shape(mark, "reach")
        yield _shape(mark)


def _box(box: Box, marks: Sequence[Mark]) -> Iterator[str]:
    """The shapes and texts of a box, with a group for each layer and for each tool."""
    shapes = [i for i, mark in enumerate(marks) if mark.role in ("frame", "core")]
    # Each frame comes with the texts of its header, before the shapes inside.
    for place, (frame, ends) in enumerate(zip(box.frames, pairwise(shapes), strict=True), 1):
        layer = frame.layer
        title = f"Layer {place} of {len(box.frames)}, outermost first: {layer.name}"
        yield f'<g class="layer" data-words="{text(layer.owner)}"><title>{text(title)}</title>'
        yield from map(_shape, marks[slice(*ends)])
        yield "</g>"
    for item, inside in groupby(
        marks[shapes[-1] :], key=lambda mark: mark.text.item if mark.text else -1
    ):
        if item < 0:
            yield from map(_shape, inside)
            continue
        tool = box.tools[item]
        guards = {guard.owner for guard in box.guards if guard.covers(tool.name)}
        words = " ".join(filter(None, [tool.name, tool.owner, *sorted(guards)]))
        yield f'<g class="item" data-words="{text(words)}">'
        yield from map(_shape, inside)
        yield "</g>"


def _shape(mark: Mark, role: str = "") -> str:
    """A shape or a text, with a class in place of colors and fonts."""
    element, kind = mark.element, role or mark.role
    if mark.text is None:
        names = ("d", "points", "stroke-width")
        values = " ".join(f'{name}="{element.get(name)}"' for name in names if element.get(name))
        return f'<{element.tag} class="{kind}" {values}/>'
    left, top, right, bottom = area_of(element)
    x = (left + right) / 2 if "label" in kind else left
    # The line on which letters stand is a quarter of their height above the bottom.
    y = bottom - (bottom - top) / 4
    return f'<text class="{kind}" x="{x:g}" y="{y:g}">{text(mark.text.text)}</text>'
