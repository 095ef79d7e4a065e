"""The palettes of pictures, by day and by night, and their CSS."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass


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
.topology .name {{ font-family: {MONO}; font-size: 13px; }}
.topology .title {{ font-weight: 600; }}
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
    yield f"{at} .core {{ fill: {theme.paper}; stroke: {theme.rim}; }}"
    yield f"{at} .line {{ stroke: {theme.muted}; }}"
    yield f"{at} .tip {{ fill: {theme.muted}; }}"
    yield f"{at} .jump .line {{ stroke: {theme.jump}; }}"
    yield f"{at} .jump .tip, {at} .jump .label {{ fill: {theme.jump}; }}"
    yield f"{at} .path .line, {at} .path > .core {{ stroke: {theme.mark}; stroke-width: 2.8; }}"
    yield f"{at} .path .tip {{ fill: {theme.mark}; }}"
    for kind, (tint, stripe) in theme.kinds.items():
        yield f"{at} .{kind} .core {{ fill: {tint}; }}"
        yield f"{at} .{kind} .stripe {{ fill: {stripe}; stroke: {stripe}; }}"
    yield f"{at} .terminal .core ~ .name {{ fill: {theme.paper}; }}"
