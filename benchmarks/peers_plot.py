"""A picture of the group `peers`: a column for each library, a bar for each row."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import svg
from benchmarks.peers import NAMES
from benchmarks.peers_page import Row, is_of_servers, rows_of
from benchmarks.report import Report
from benchmarks.servers import PINS

LABELS, COLUMN, GAP, ROW, TOP, BOTTOM = 370, 120, 16, 26, 92, 50
"""Pixels: the names of the rows, a column, between columns, a row, above and below."""

NUMBER = 46
"""Pixels that a number takes next to its bar."""


def peers_plot(report: Report) -> str:
    """The picture as SVG, readable on light and dark pages.

    Args:
        report: What was measured. Bars are as long as amounts, in shares of the row's largest.

    Raises:
        ValueError: It has no figures of the group `peers`.
    """
    rows = [row for row in rows_of(report) if not row.is_counted and not is_of_servers(row)]
    if not rows:
        raise ValueError(
            "The report must have figures of the group 'peers', got none. "
            "Measure them with `make bench-peers`."
        )
    title = "Libraries for agents: CPU time and memory, shorter is better"
    cores = f" on {report.cores} cores" if report.cores else ""
    note = (
        f"{report.date}{cores}. Ten tool turns, no model time. Green: the best of the row. "
        "Bars of a row share a scale."
    )
    lines = [svg.text(_left(column), TOP - 12, name) for column, name in enumerate(NAMES)]
    for number, row in enumerate(rows):
        lines += _drawn(row, TOP + number * ROW)
    bottom = TOP + len(rows) * ROW
    packages = ", ".join(
        f"{name} {version}" for name, version in report.versions.items() if name not in PINS
    )
    lines.append(svg.text(16, bottom + 28, packages, "note"))
    return svg.document(_left(len(NAMES)), bottom + BOTTOM, title, note, lines)


def _left(column: int) -> int:
    return LABELS + column * (COLUMN + GAP)


def _drawn(row: Row, y: int) -> Iterator[str]:
    amounts = {name: row.amount(name) for name in NAMES}
    most = max((amount for amount in amounts.values() if amount is not None), default=1.0)
    best = row.best(NAMES)
    yield svg.text(LABELS - 12, y + 17, row.title, "name", "end")
    for column, (name, amount) in enumerate(amounts.items()):
        x = _left(column)
        if amount is None:
            yield svg.text(x, y + 17, row.reason(name), "note")
            continue
        long = max(2.0, (COLUMN - NUMBER) * amount / most)
        yield svg.bar(x, y + 5, long, ROW - 10, "bar" if name in best else "slow")
        yield svg.text(x + long + 6, y + 17, f"{amount:.3g}")
