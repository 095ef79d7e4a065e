"""A plan as a page: a single file with picture, style, script and all details."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from importlib.resources import files

from agent_factory.topology.model import TopologyData
from agent_factory.topology.render.details import Details, details_of, overview
from agent_factory.topology.render.figure import Figure, figure_of
from agent_factory.topology.render.layout import lay_out
from agent_factory.topology.render.layout import markup as text
from agent_factory.topology.render.palette import DAY, MONO, NIGHT, SANS, Theme, rules
from agent_factory.topology.render.svg import draw
from agent_factory.topology.transitions import transitions_of


def asset(name: str) -> str:
    """Part of a page: "page.css", the style without a palette, or "page.js", the script."""
    return (files("agent_factory.topology.render") / name).read_text(encoding="utf-8")


def themes() -> str:
    """The palette of a page and its pictures: light or dark."""

    def theme_rules(theme: Theme, where: str, scheme: str) -> str:
        names = ("paper", "ink", "muted", "frame", "rim", "mark")
        values = " ".join(f"--{name}: {getattr(theme, name)};" for name in names)
        return f"{where} {{ color-scheme: {scheme}; {values} }}"

    night = theme_rules(NIGHT, ":root", "dark")
    fonts = f":root {{ --sans: {SANS}; --mono: {MONO}; }}"
    parts = [fonts, theme_rules(DAY, ":root", "light")]
    parts.append(f"@media (prefers-color-scheme: dark) {{ {night} }}")
    for theme, name, scheme in ((DAY, "day", "light"), (NIGHT, "night", "dark")):
        where = f":root[data-theme={name}]"
        parts += [theme_rules(theme, where, scheme), *rules(theme, where)]
    return "\n".join(parts)


_CONTROLS = """<div id="controls" hidden>
<output id="found" aria-live="polite"></output>
<input id="search" type="search" placeholder="Find a middleware" aria-label="Find a middleware"
 list="names" autocomplete="off">
<button id="farther" type="button" aria-label="Zoom out">&#8722;</button>
<button id="closer" type="button" aria-label="Zoom in">+</button>
<button id="fit" type="button">Fit</button>
<output id="scale" aria-label="Zoom"></output>
<button id="theme" type="button">Theme: auto</button>
</div>"""

_KEYS = """<section class="keys"><h3>keys</h3>
<p>Drag or <kbd>&#8592;</kbd> <kbd>&#8593;</kbd> <kbd>&#8594;</kbd> <kbd>&#8595;</kbd> move,
the wheel or <kbd>+</kbd> <kbd>-</kbd> zoom, <kbd>0</kbd> fits, <kbd>/</kbd> searches,
<kbd>Tab</kbd> and <kbd>Enter</kbd> choose, <kbd>Esc</kbd> returns here.</p></section>"""


def to_html(plan: TopologyData) -> str:
    """The plan as a page.

    The page needs nothing from the network, and its policy forbids requests: only the script with
    this hash may run, whatever a name in the plan contains.
    """
    figure = figure_of(plan)
    details = details_of(plan, figure)
    picture = draw(figure, lay_out(figure), details, linked=True)
    script = asset("page.js")
    digest = b64encode(sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            '<head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{text(plan.title)}</title><style>{asset('page.css')}\n{themes()}</style></head>",
            "<body>",
            body(plan, figure, picture, details),
            f"<script>{script}</script>",
            "</body></html>\n",
        ]
    )


def body(
    plan: TopologyData,
    figure: Figure,
    picture: str,
    details: Mapping[str, Details],
    undecided: Sequence[str] = (),
) -> str:
    """Content of a page, without style and script."""
    owners = [hook.owner for hook in plan.hooks] + [layer.owner for layer in plan.layers]
    owners += [tool.owner for tool in plan.tools if tool.owner]
    names = list(dict.fromkeys(owners))
    counts = {
        "middleware": len(names),
        "hook": len(plan.hooks),
        "layer": len(plan.layers),
        "tool": len(plan.tools),
        "edge": len(transitions_of(plan)),
    }
    summary = ", ".join(
        f"{count} {noun}{'' if count == 1 or noun == 'middleware' else 's'}"
        for noun, count in counts.items()
    )
    options = "".join(f'<option value="{text(name)}">' for name in names)
    return "\n".join(
        [
            f"<header><h1>{text(plan.title)}</h1><p>{summary}</p>{_CONTROLS}</header>",
            f'<main id="main"><div id="stage">{picture}</div>',
            f"<aside>{_overview(overview(plan, figure, undecided))}",
            *(
                f'<article id="about-{key}"><h2>{text(part.title)}</h2>'
                f"{_facts(part)}{_lists(part)}</article>"
                for key, part in details.items()
            ),
            "</aside></main>",
            f'<datalist id="names">{options}</datalist>',
        ]
    )


def _overview(whole: Details) -> str:
    box = '<rect class="core" x=".5" y="1.5" width="20" height="13" rx="3"/>'
    box += '<rect class="stripe" x=".5" y="1.5" width="5" height="13" rx="1"/>'
    samples = {kind: f'<g class="{kind}">{box}</g>' for kind in DAY.kinds if kind != "terminal"}
    samples["a jump only"] = '<g class="jump"><path class="line" d="M0,8 L22,8"/></g>'
    # aria-hidden: screen readers read the word next to it.
    picture = '<svg class="topology" width="22" height="16" aria-hidden="true">{}</svg>'
    legend = "".join(f"<li>{picture.format(part)}{word}</li>" for word, part in samples.items())
    return (
        f'<article id="about-all" class="on"><h2 class="plain">{text(whole.title)}</h2>'
        f'{_lists(whole)}{_facts(whole)}<h3>legend</h3><ul class="legend">{legend}</ul>'
        f"{_KEYS}</article>"
    )


def _facts(part: Details) -> str:
    facts = "".join(f"<dt>{text(label)}</dt><dd>{text(value)}</dd>" for label, value in part.facts)
    return f"<dl>{facts}</dl>" if facts else ""


def _lists(part: Details) -> str:
    lines = []
    for listing in part.lists:
        tag = "ol" if listing.ordered else "ul"
        lines.append(f"<h3>{text(listing.heading)}</h3><{tag}>")
        for item in listing.items:
            link = f'<a href="#about-{item.target}">' if item.target else ""
            lines.append(f"<li>{link}{text(item.text)}{'</a>' if link else ''}</li>")
        lines.append(f"</{tag}>")
    return "".join(lines)
