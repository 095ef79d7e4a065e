"""What the pictures share: a ground, a title and a note, in letters for light and dark pages."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

STYLE = """
text { font: 13px system-ui, "Segoe UI", Roboto, "Helvetica Neue", "DejaVu Sans", sans-serif; }
.name { font: 12px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
.title { font-size: 16px; font-weight: 600; }
.ground { fill: #ffffff; } text { fill: #1f2328; } .note { fill: #59636e; }
.bar { fill: #2f7d5b; } .slow { fill: #8a939c; }
.open { fill: none; stroke: #2f7d5b; stroke-width: 2; } .missed { fill: #b35900; }
.peer { stroke: #1f2328; stroke-width: 1.5; } .goal { stroke: #b35900; stroke-width: 2; }
.grid { stroke: #d1d9e0; stroke-width: 1; }
@media (prefers-color-scheme: dark) {
.ground { fill: #0d1117; } text { fill: #e6edf3; } .note { fill: #9198a1; }
.bar { fill: #4fb286; } .slow { fill: #6e7681; }
.open { stroke: #4fb286; } .missed { fill: #f0a35e; }
.peer { stroke: #e6edf3; } .goal { stroke: #f0a35e; } .grid { stroke: #30363d; }
}
"""


def document(width: float, height: float, title: str, note: str, lines: Iterable[str]) -> str:
    """A whole picture: its title and note are at the top, and `lines` are drawn over the ground."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(title)}" '
            f'viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
            f"<title>{escape(title)}</title>",
            f"<style>{STYLE}</style>",
            f'<rect class="ground" width="{width}" height="{height}"/>',
            text(16, 28, title, "title"),
            text(16, 50, note, "note"),
            *lines,
            "</svg>",
            "",
        ]
    )


def text(x: float, y: float, content: str, kind: str = "", anchor: str = "start") -> str:
    """A line of text that begins, ends or has its middle at a place."""
    named = f' class="{kind}"' if kind else ""
    return f'<text{named} x="{x:.1f}" y="{y}" text-anchor="{anchor}">{escape(content)}</text>'


def line(x: float, top: float, bottom: float, kind: str) -> str:
    """A vertical line."""
    return f'<line class="{kind}" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom}"/>'


def bar(x: float, y: float, width: float, height: float, kind: str) -> str:
    """A bar with round corners."""
    return (
        f'<rect class="{kind}" x="{x:.1f}" y="{y}" width="{width:.1f}" height="{height}" rx="2"/>'
    )


def dot(x: float, y: float, kind: str) -> str:
    """A point of a scale."""
    return f'<circle class="{kind}" cx="{x:.1f}" cy="{y}" r="5"/>'
