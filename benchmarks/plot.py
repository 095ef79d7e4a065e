"""A picture of the group `watched`: a bar for each way to watch a run, over langchain's time."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from benchmarks.contenders import OURS, PEER
from benchmarks.harness import Figure
from benchmarks.report import Report

LABELS, PANEL, GAP, ROW, TOP, BOTTOM = 300, 250, 56, 22, 88, 52
"""Pixels: the names of the rows, a column of bars, between columns, a row, above and below."""

MOST = 1.25
"""The ratio at the right end of a column. A longer bar is cut off; the number says how long."""

STYLE = """
text { font: 13px system-ui, "Segoe UI", Roboto, "Helvetica Neue", "DejaVu Sans", sans-serif; }
.name { font: 12px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
.title { font-size: 16px; font-weight: 600; }
.ground { fill: #ffffff; } text { fill: #1f2328; } .note { fill: #59636e; }
.bar { fill: #2f7d5b; } .slow { fill: #8a939c; }
.peer { stroke: #1f2328; stroke-width: 1.5; } .goal { stroke: #b35900; stroke-width: 2; }
@media (prefers-color-scheme: dark) {
.ground { fill: #0d1117; } text { fill: #e6edf3; } .note { fill: #9198a1; }
.bar { fill: #4fb286; } .slow { fill: #6e7681; }
.peer { stroke: #e6edf3; } .goal { stroke: #f0a35e; }
}
"""


def plot(report: Report) -> str:
    """The picture as SVG, readable on light and dark pages.

    Args:
        report: What was measured. Bars show the CPU time of our default over langchain's.

    Raises:
        ValueError: It has no figures of the group `watched` over langchain.
    """
    found = {
        (way, saver): figure
        for figure in report.figures
        if (figure.group, figure.of, figure.over) == ("watched", OURS, PEER)
        for way, _, saver in [figure.name.rpartition(", ")]
    }
    if not found:
        raise ValueError(
            f"The report must have figures of the group 'watched' over {PEER}, got none. "
            "Measure them with `--only watched --write-readme`, where the extra `bench` is."
        )
    ways = list(dict.fromkeys(way for way, _ in found))
    savers = list(dict.fromkeys(saver for _, saver in found))
    width = LABELS + len(savers) * (PANEL + GAP)
    height = TOP + len(ways) * ROW + BOTTOM
    title = f"Time of a run with 16 middleware: {PEER} = 1.00, shorter is faster"
    said = f"{report.date}, {PEER} {report.versions.get(PEER, '')}, CPU time, ten tool turns"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(title)}" '
        f'viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
        f"<title>{escape(title)}</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="ground" width="{width}" height="{height}"/>',
        _text(16, 28, title, "title"),
        _text(16, 50, f"{said}. Orange line: the goal. Green bar: the goal is reached.", "note"),
    ]
    for row, way in enumerate(ways):
        y = TOP + row * ROW
        lines.append(_text(LABELS - 12, y + 15, way, "name", "end"))
        for column, saver in enumerate(savers):
            if figure := found.get((way, saver)):
                lines += _bar(LABELS + column * (PANEL + GAP), y, figure)
    for column, saver in enumerate(savers):
        x, bottom = LABELS + column * (PANEL + GAP), TOP + len(ways) * ROW
        lines.append(_text(x, TOP - 12, "no saver" if saver == "no saver" else f"{saver} saver"))
        lines.append(_line(x + PANEL / MOST, TOP - 4, bottom + 4, "peer"))
        lines.append(_text(x + PANEL / MOST, bottom + 20, f"{PEER} = 1.00", "note", "middle"))
    return "\n".join([*lines, "</svg>", ""])


def _bar(x: float, y: float, figure: Figure) -> Iterator[str]:
    ratio = (figure.cpu or figure.value).middle
    limit = figure.aim.reach if figure.aim else None
    long = min(ratio, MOST) * PANEL / MOST
    kind = "bar" if limit is not None and ratio <= limit else "slow"
    yield f'<rect class="{kind}" x="{x}" y="{y + 3}" width="{long:.1f}" height="{ROW - 6}" rx="2"/>'
    if limit is not None:
        yield _line(x + limit * PANEL / MOST, y + 1, y + ROW - 1, "goal")
    yield _text(x + max(long, PANEL / MOST) + 8, y + 15, f"{ratio:.2f}")


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text{named} x="{x:.1f}" y="{y}" text-anchor="{anchor}">{escape(text)}</text>'


def _line(x: float, top: float, bottom: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom}"/>'
