"""The forms in which notebooks display values: tables and texts, with every name escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agent_factory.topology.render.layout import markup as text

MOST_ROWS = 500
"""The most rows of a table; its last line has the number of the others."""


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table as HTML.

    >>> table(["part", "name"], [["tool", "<script>"]])[-49:]
    '<td>tool</td><td>&lt;script&gt;</td></tr></table>'
    """
    lines = [_row("th", columns), *(_row("td", row) for row in rows[:MOST_ROWS])]
    left = len(rows) - MOST_ROWS
    more = f"<p>and {left} more</p>" if left > 0 else ""
    # Notebooks align cells to the right.
    return f'<table style="text-align: left">{"".join(lines)}</table>{more}'


def _row(cell: str, values: Iterable[str]) -> str:
    cells = (f"<{cell}>{text(value)}</{cell}>" for value in values)
    return f"<tr>{''.join(cells)}</tr>"


def paragraphs(lines: Iterable[str]) -> str:
    """Lines as HTML, each a paragraph."""
    return "".join(f"<p>{text(line)}</p>" for line in lines)
