"""A plan as a page: one file that holds its picture, its style, its script and every detail."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from typing import TYPE_CHECKING

from agent_factory.render.about import About, Item, Listing, about_all, about_parts
from agent_factory.render.figure import Figure, figure_of
from agent_factory.render.layout import lay_out
from agent_factory.render.page import SCRIPT, css
from agent_factory.render.palette import DAY
from agent_factory.render.svg import draw, text

if TYPE_CHECKING:
    from agent_factory.topology import Topology

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
<kbd>Tab</kbd> and <kbd>Enter</kbd> choose, <kbd>Esc</kbd> comes back here.</p></section>"""


def to_html(plan: Topology) -> str:
    """The plan as a page.

    Raises:
        ImportError: The extra `draw` is not installed.
    """
    figure = figure_of(plan)
    abouts = about_parts(plan, figure)
    return page(plan, figure, draw(figure, lay_out(figure), abouts, linked=True), abouts)


def page(plan: Topology, figure: Figure, picture: str, abouts: Mapping[str, About]) -> str:
    """The page around a picture.

    It asks nothing of the network, and its policy would forbid it: only the one script that is
    known by its hash may run, whatever a name in the plan holds.
    """
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src '{_hash(SCRIPT)}'"
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            '<head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>The plan of an agent</title><style>{css()}</style></head>",
            "<body>",
            f"<header><h1>The plan of an agent</h1><p>{_sum(plan)}</p>{_CONTROLS}</header>",
            f'<main><div id="stage">{picture}</div>',
            f"<aside>{_overview(about_all(plan, figure))}",
            *(_article(key, found) for key, found in abouts.items()),
            "</aside></main>",
            _names(plan),
            f"<script>{SCRIPT}</script>",
            "</body></html>\n",
        ]
    )


def _hash(script: str) -> str:
    return f"sha256-{b64encode(sha256(script.encode()).digest()).decode()}"


def _sum(plan: Topology) -> str:
    counts = {
        "middleware": len(_owners(plan)),
        "hook": len(plan.hooks),
        "layer": len(plan.layers),
        "tool": len(plan.tools),
        "way": len(plan.ways),
    }
    return ", ".join(
        f"{count} {noun}{'' if count == 1 or noun == 'middleware' else 's'}"
        for noun, count in counts.items()
    )


def _overview(whole: About) -> str:
    kinds = "".join(f"<li>{_swatch(kind)}{kind}</li>" for kind in DAY.kinds if kind != "terminal")
    legend = f'<h3>colours</h3><ul class="legend">{kinds}<li>{_DASHES}a jump only</li></ul>'
    return (
        f'<article id="about-all" class="on"><h2 class="plain">{text(whole.title)}</h2>'
        f"{_lists(whole)}{_facts(whole)}{legend}{_KEYS}</article>"
    )


def _swatch(kind: str) -> str:
    return (
        f'<svg class="topology" width="22" height="16" aria-hidden="true"><g class="{kind}">'
        '<rect class="core" x=".5" y="1.5" width="20" height="13" rx="3"/>'
        '<rect class="stripe" x=".5" y="1.5" width="5" height="13" rx="1"/></g></svg>'
    )


_DASHES = (
    '<svg class="topology" width="22" height="16" aria-hidden="true"><g class="jump">'
    '<path class="line" d="M0,8 L22,8"/></g></svg>'
)


def _article(key: str, found: About) -> str:
    body = _facts(found) + _lists(found)
    return f'<article id="about-{key}"><h2>{text(found.title)}</h2>{body}</article>'


def _facts(found: About) -> str:
    facts = "".join(f"<dt>{text(label)}</dt><dd>{text(said)}</dd>" for label, said in found.facts)
    return f"<dl>{facts}</dl>" if facts else ""


def _lists(found: About) -> str:
    return "".join(map(_list, found.lists))


def _list(listing: Listing) -> str:
    lines = "".join(f"<li>{_item(item)}</li>" for item in listing.items)
    tag = "ol" if listing.ordered else "ul"
    return f"<h3>{text(listing.heading)}</h3><{tag}>{lines}</{tag}>"


def _item(item: Item) -> str:
    said = text(item.text)
    return f'<a href="#about-{item.leads_to}">{said}</a>' if item.leads_to else said


def _names(plan: Topology) -> str:
    """What the search proposes."""
    options = "".join(f'<option value="{text(owner)}">' for owner in _owners(plan))
    return f'<datalist id="names">{options}</datalist>'


def _owners(plan: Topology) -> list[str]:
    """Every middleware that has a part in the plan, once."""
    hooks = [hook.owner for hook in plan.hooks]
    layers = [layer.owner for layer in plan.layers]
    tools = [tool.owner for tool in plan.tools if tool.owner]
    return list(dict.fromkeys([*hooks, *layers, *tools]))
