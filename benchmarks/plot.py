"""A picture of the group `watched`: a bar for each way to watch a run, over langchain's time."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import svg
from benchmarks.contenders import OURS, PEER
from benchmarks.harness import Figure
from benchmarks.report import Report

LABELS, PANEL, GAP, ROW, TOP, BOTTOM = 300, 250, 56, 22, 88, 52
"""Pixels: the names of the rows, a column of bars, between columns, a row, above and below."""

MOST = 1.25
"""The ratio at the right end of a column. A longer bar is cut off; the number says how long."""


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
    note = f"{said}. Orange line: the goal. Green bar: the goal is reached."
    lines: list[str] = []
    for row, way in enumerate(ways):
        y = TOP + row * ROW
        lines.append(svg.text(LABELS - 12, y + 15, way, "name", "end"))
        for column, saver in enumerate(savers):
            if figure := found.get((way, saver)):
                lines += _bar(LABELS + column * (PANEL + GAP), y, figure)
    for column, saver in enumerate(savers):
        x, bottom = LABELS + column * (PANEL + GAP), TOP + len(ways) * ROW
        lines.append(svg.text(x, TOP - 12, "no saver" if saver == "no saver" else f"{saver} saver"))
        lines.append(svg.line(x + PANEL / MOST, TOP - 4, bottom + 4, "peer"))
        lines.append(svg.text(x + PANEL / MOST, bottom + 20, f"{PEER} = 1.00", "note", "middle"))
    return svg.document(width, height, title, note, lines)


def _bar(x: float, y: float, figure: Figure) -> Iterator[str]:
    ratio = (figure.cpu or figure.value).middle
    limit = figure.aim.reach if figure.aim else None
    long = min(ratio, MOST) * PANEL / MOST
    kind = "bar" if limit is not None and ratio <= limit else "slow"
    yield svg.bar(x, y + 3, long, ROW - 6, kind)
    if limit is not None:
        yield svg.line(x + limit * PANEL / MOST, y + 1, y + ROW - 1, "goal")
    yield svg.text(x + max(long, PANEL / MOST) + 8, y + 15, f"{ratio:.2f}")
