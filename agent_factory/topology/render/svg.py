"""A plan as a picture: a self-contained SVG, drawn from a figure and its layout."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from agent_factory.topology.model import TopologyData
from agent_factory.topology.render.details import Details, details_of
from agent_factory.topology.render.figure import (
    HEAD,
    INSET,
    LABEL_ROW,
    PAD,
    ROW,
    SMALL_LETTER,
    STRIPE,
    Arrow,
    Box,
    Figure,
    figure_of,
    shown,
)
from agent_factory.topology.render.layout import Layout, Point, Route, crossed_titles, lay_out
from agent_factory.topology.transitions import Transition


@dataclass(frozen=True, slots=True)
class Theme:
    """The palette of a picture, each value "#rrggbb"."""

    paper: str
    ink: str
    muted: str
    frame: str
    rim: str  # the lines of boxes and frames
    jump: str
    mark: str  # parts that are found or selected
    kinds: Mapping[str, tuple[str, str]]  # the tint and the stripe of each kind of node


# By day, and by night.
_PALETTE = {
    "paper": ("#ffffff", "#0d1117"),
    "ink": ("#1c2128", "#e6edf3"),
    "muted": ("#57606a", "#9aa5b1"),
    "frame": ("#f6f8fa", "#141a22"),
    "rim": ("#c4ccd4", "#3d4650"),
    "jump": ("#a8320f", "#ff9b73"),
    "mark": ("#a04e00", "#ffb454"),
}
_KINDS = {
    "before_agent": (("#f1f7ff", "#bfdcff"), ("#152031", "#d5e8ff")),
    "before_model": (("#e7f1ff", "#3f87e5"), ("#14243b", "#4a90ea")),
    "model": (("#e8e8fb", "#232269"), ("#21214d", "#ffffff")),
    "after_model": (("#e4f5ee", "#0d6b49"), ("#102a22", "#1a7d58")),
    "tools": (("#fff1dc", "#df9620"), ("#33260f", "#e6a23c")),
    "after_agent": (("#f7effd", "#cfa6f0"), ("#271b33", "#7646a0")),
    "terminal": (("#1c2128", "#1c2128"), ("#e6edf3", "#e6edf3")),
}

DAY, NIGHT = (
    Theme(
        **{name: values[time] for name, values in _PALETTE.items()},
        kinds={kind: values[time] for kind, values in _KINDS.items()},
    )
    for time in (0, 1)
)

SANS = 'system-ui, "Segoe UI", Roboto, "Helvetica Neue", "DejaVu Sans", sans-serif'
MONO = 'ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace'

_FORM = f"""
.topology text {{ font-family: {SANS}; font-size: 11px; }}
.topology .name {{ font-family: {MONO}; font-size: 13px; font-weight: 600; }}
.topology .item, .topology .header {{ font-weight: 400; }}
.topology .label {{ text-anchor: middle; }}
.topology .group {{ stroke-dasharray: 2 4; }}
.topology .line {{ fill: none; stroke-width: 1.4; }}
.topology .jump .line {{ stroke-dasharray: 6 4; }}
.topology .reach {{ fill: none; stroke: transparent; stroke-width: 14; }}
.topology a {{ text-decoration: none; }}
"""


def style() -> str:
    """The CSS of a picture: light, and dark if the reader's system prefers it."""
    night = "\n".join(rules(NIGHT))
    return f"{_FORM}{chr(10).join(rules(DAY))}\n@media (prefers-color-scheme: dark) {{\n{night}\n}}"


def rules(theme: Theme, where: str = "") -> Iterator[str]:
    """The CSS rules of a theme, for all pictures below a selector."""
    at = f"{where} .topology".lstrip()
    yield f"{at} .paper, {at} .behind {{ fill: {theme.paper}; }}"
    yield f"{at} text {{ fill: {theme.ink}; }}"
    yield f"{at} .note {{ fill: {theme.muted}; }}"
    yield f"{at} .group {{ fill: none; stroke: {theme.muted}; }}"
    yield f"{at} .frame {{ fill: {theme.frame}; stroke: {theme.rim}; }}"
    yield f"{at} .core {{ stroke: {theme.rim}; }}"
    yield f"{at} .line {{ stroke: {theme.muted}; }}"
    yield f"{at} .tip {{ fill: {theme.muted}; }}"
    yield f"{at} .jump .line {{ stroke: {theme.jump}; }}"
    yield f"{at} .jump .tip, {at} .jump .label {{ fill: {theme.jump}; }}"
    yield f"{at} .path .line, {at} .path > .core {{ stroke: {theme.mark}; stroke-width: 2.8; }}"
    yield f"{at} .path .tip {{ fill: {theme.mark}; }}"
    for kind, (tint, stripe) in theme.kinds.items():
        yield f"{at} .{kind} .core {{ fill: {tint}; }}"
        yield f"{at} .{kind} .stripe {{ fill: {stripe}; }}"
    yield f"{at} .terminal .label {{ fill: {theme.paper}; }}"


MARGIN = 16
"""Pixels around the whole picture."""
_TIP, _HALF = 8, 3.5
"""The length of an arrow's tip, and half of its width."""


def to_svg(plan: TopologyData, path: Sequence[Transition] = ()) -> str:
    """The plan as an SVG file, with the steps of a path in another color."""
    figure = figure_of(plan)
    return draw(figure, lay_out(figure), details_of(plan, figure), path=path)


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
    width, height = layout.size[0] + 2 * MARGIN, layout.size[1] + 2 * MARGIN
    nodes = [box.name for box in figure.boxes if box.kind != "terminal"]
    layers = sum(len(box.frames) for box in figure.boxes)
    edges = ", ".join(f"{a.source.title} to {a.target.title}" for a in figure.arrows)
    summary = f"{len(nodes)} nodes: {', '.join(nodes)}. Layers: {layers}. Edges: {edges}."
    sides = f'width="{_n(width)}" height="{_n(height)}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="topology" role="graphics-document" '
        f'aria-labelledby="topology-title" aria-describedby="topology-desc" '
        f'viewBox="{-MARGIN} {-MARGIN} {_n(width)} {_n(height)}" {sides}>',
        f'<title id="topology-title">{text(figure.title)}</title>',
        f'<desc id="topology-desc">{text(summary)}</desc>',
        *([f"<style>{style()}</style>"] if styled else []),
        f'<rect class="paper" x="{-MARGIN}" y="{-MARGIN}" {sides}/>',
    ]
    # In SVG, later elements cover earlier ones: frames of groups come first.
    for left, top, right, bottom in layout.groups:
        lines.append(_rect("group", left, top, right - left, bottom - top, 10))

    def part(key: str, kind: str, name: str, shapes: Iterator[str]) -> Iterator[str]:
        link = f'<a href="#about-{key}" aria-label="{text(name)}">' if linked else ""
        yield f'<g id="{key}" class="{kind}" data-words="{text(details[key].words)}">{link}'
        yield f"<title>{text(details[key].as_text())}</title>"
        yield from shapes
        yield "</a></g>" if linked else "</g>"

    for arrow in figure.arrows:
        kind = f"edge {arrow.source.key} {arrow.target.key}{' jump' if arrow.dashed else ''}"
        kind += " path" if (arrow.source.name, arrow.target.name) in steps else ""
        name = " ".join([details[arrow.key].title, *arrow.label])
        lines += part(arrow.key, kind, name, _arrow(arrow, layout.routes[arrow.key]))
    # Titles of groups cover the arrows that still cross them, and boxes cover both.
    right_titles = crossed_titles(figure, layout)
    for group, (left, top, right, bottom) in zip(figure.groups, layout.groups, strict=True):
        y = bottom - 10 if group.below else top + 18
        width = len(group.title) * SMALL_LETTER
        x = right - PAD - width if group.title in right_titles else left + PAD
        lines.append(_rect("behind", x, y - 11, width, LABEL_ROW, 4))
        lines.append(_text("note", x, y, group.title))
    for box in figure.boxes:
        shapes = _box(box, layout.boxes[box.key])
        kind = f"node {box.kind}{' path' if box.name in ends else ''}"
        lines += part(box.key, kind, " ".join(_words(box)), shapes)
    return "\n".join([*lines, "</svg>"]) + "\n"


def text(value: str) -> str:
    """A text for XML and HTML: escaped, and without characters that neither allows."""
    # XML allows no control characters, even escaped.
    return escape("".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in value))


def _words(box: Box) -> Iterator[str]:
    """Words in a box. Screen readers read them as its name."""
    for place, frame in enumerate(box.frames, 1):
        yield " ".join([f"{place} {shown(frame.layer.owner)}", *frame.remarks])
    if box.kind != "terminal":
        yield box.note
    yield shown(box.title)
    yield from box.remarks
    for tool in box.tools:
        yield f"{shown(tool.name)} {box.mark_of(tool)}".rstrip()


def _box(box: Box, centre: Point) -> Iterator[str]:
    width, height = box.size
    left, top = centre[0] - width / 2, centre[1] - height / 2
    for place, frame in enumerate(box.frames, 1):
        layer = frame.layer
        title = f"Layer {place} of {len(box.frames)}, outermost first: {layer.name}"
        yield (
            f'<g class="layer" data-words="{text(layer.owner)}"><title>{text(title)}</title>'
            f"{_rect('frame', left, top, width, height, 8)}"
            f'<text class="name header" x="{_n(left + PAD)}" y="{_n(top + 15)}">'
            f'<tspan class="note">{place}</tspan> {text(shown(layer.owner))}</text>'
        )
        yield from _remarks(frame.remarks, left + PAD, top + 15)
        yield "</g>"
        left, top, width = left + INSET, top + frame.header, width - 2 * INSET
        height -= frame.header + INSET
    if box.kind == "terminal":
        yield _rect("core", left, top, width, height, height / 2)
        yield _text("name label", left + width / 2, top + 20, box.title)
        return
    yield _rect("core", left, top, width, height, 6)
    yield _rect("stripe", left, top, STRIPE, height, 2)
    left += STRIPE + PAD
    yield _text("note", left, top + 16, box.note)
    yield _text("name", left, top + 33, shown(box.title))
    yield from _remarks(box.remarks, left, top + 33)
    top += HEAD
    for index, tool in enumerate(box.tools):
        column, line = divmod(index, box.grid[1])
        x, y = left + column * box.column_width, top + line * ROW + 12
        mark = text(box.mark_of(tool))
        # The space separates the words for screen readers.
        note = f' <tspan class="note" dx="4">{mark}</tspan>' if mark else ""
        guards = {guard.owner for guard in box.guards if guard.covers(tool.name)}
        words = text(" ".join(filter(None, [tool.name, tool.owner, *sorted(guards)])))
        yield (
            f'<text class="item" data-words="{words}" x="{_n(x)}" y="{_n(y)}">'
            f'<tspan class="name item">{text(shown(tool.name))}</tspan>{note}</text>'
        )


def _remarks(remarks: tuple[str, ...], x: float, y: float) -> Iterator[str]:
    """Lines below a name."""
    for row, remark in enumerate(remarks, 1):
        yield _text("note", x, y + row * LABEL_ROW, remark)


def _arrow(arrow: Arrow, route: Route) -> Iterator[str]:
    first, *rest = (complex(*point) for point in route.points)
    tip = complex(*route.tip)
    # Points may coincide: then there is no direction, and must be no division by zero.
    along = (tip - rest[-1]) / (abs(tip - rest[-1]) or 1)
    base, side = tip - along * _TIP, along * 1j * _HALF
    # The line ends where the tip begins: it is wider than the tip is at its point.
    curve = f"M{_p(first)} C{' '.join(map(_p, rest))} L{_p(base)}"
    # The first path is wide and transparent: it makes a thin line easy to point at.
    yield f'<path class="reach" d="{curve}"/><path class="line" d="{curve}"/>'
    corners = " ".join(map(_p, (tip, base + side, base - side)))
    yield f'<polygon class="tip" points="{corners}"/>'
    if route.label is None:
        return
    width, height = arrow.label_size
    left, top = route.label[0] - width / 2, route.label[1] - height / 2
    yield _rect("behind", left + 6, top, width - 12, height, 4)
    for index, line in enumerate(arrow.label):
        yield _text("note label", route.label[0], top + index * LABEL_ROW + 11.5, line)


def _rect(kind: str, x: float, y: float, width: float, height: float, radius: float) -> str:
    return (
        f'<rect class="{kind}" x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" '
        f'height="{_n(height)}" rx="{_n(radius)}"/>'
    )


def _text(kind: str, x: float, y: float, value: str) -> str:
    return f'<text class="{kind}" x="{_n(x)}" y="{_n(y)}">{text(value)}</text>'


def _p(point: complex) -> str:
    return f"{_n(point.real)},{_n(point.imag)}"


def _n(number: float) -> str:
    """A number, rounded to a tenth of a pixel."""
    # Adding 0 turns -0.0 into 0.0.
    return f"{round(number, 1) + 0:.1f}".removesuffix(".0")
