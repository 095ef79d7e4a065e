"""The colours of a picture, by day and by night, as CSS.

Each kind of node has a tint and a stripe. The stripes differ in lightness, so that they can be told
apart without colours too, and every box says its kind in words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Theme:
    """Colours, each "#rrggbb".

    Args:
        paper: What all lies on.
        ink: Names and lines.
        muted: Notes, and arrows that only lead on.
        frame: The inside of frames.
        rim: The lines of boxes and frames.
        jump: Arrows of jumps.
        mark: What was searched for, or is chosen.
        kinds: The tint and the stripe of each kind of node.
    """

    paper: str
    ink: str
    muted: str
    frame: str
    rim: str
    jump: str
    mark: str
    kinds: Mapping[str, tuple[str, str]]


DAY = Theme(
    paper="#ffffff",
    ink="#1c2128",
    muted="#57606a",
    frame="#f6f8fa",
    rim="#c4ccd4",
    jump="#a8320f",
    mark="#a04e00",
    kinds=MappingProxyType(
        {
            "before_agent": ("#f1f7ff", "#bfdcff"),
            "before_model": ("#e7f1ff", "#3f87e5"),
            "model": ("#e8e8fb", "#232269"),
            "after_model": ("#e4f5ee", "#0d6b49"),
            "tools": ("#fff1dc", "#df9620"),
            "after_agent": ("#f7effd", "#cfa6f0"),
            "terminal": ("#1c2128", "#1c2128"),
        }
    ),
)

NIGHT = Theme(
    paper="#0d1117",
    ink="#e6edf3",
    muted="#9aa5b1",
    frame="#141a22",
    rim="#3d4650",
    jump="#ff9b73",
    mark="#ffb454",
    kinds=MappingProxyType(
        {
            "before_agent": ("#152031", "#d5e8ff"),
            "before_model": ("#14243b", "#4a90ea"),
            "model": ("#21214d", "#ffffff"),
            "after_model": ("#102a22", "#1a7d58"),
            "tools": ("#33260f", "#e6a23c"),
            "after_agent": ("#271b33", "#7646a0"),
            "terminal": ("#e6edf3", "#e6edf3"),
        }
    ),
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
    """The CSS of a picture: by day, and by night where the reader's screen is set so."""
    night = "\n".join(rules(NIGHT))
    return f"{_FORM}{chr(10).join(rules(DAY))}\n@media (prefers-color-scheme: dark) {{\n{night}\n}}"


def rules(theme: Theme, where: str = "") -> Iterator[str]:
    """A theme as CSS rules for all pictures below a selector."""
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
    for kind, (tint, stripe) in theme.kinds.items():
        yield f"{at} .{kind} .core {{ fill: {tint}; }}"
        yield f"{at} .{kind} .stripe {{ fill: {stripe}; }}"
    yield f"{at} .terminal text {{ fill: {theme.paper}; }}"
