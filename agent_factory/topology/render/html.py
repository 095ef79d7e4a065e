"""A plan as a page: one file with its picture, style, script and all details."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Final

from agent_factory.topology.model import TopologyData
from agent_factory.topology.render.details import Details, details_of, overview
from agent_factory.topology.render.figure import Figure, figure_of
from agent_factory.topology.render.layout import lay_out
from agent_factory.topology.render.svg import DAY, MONO, NIGHT, SANS, Theme, draw, rules, text
from agent_factory.topology.transitions import transitions_of

_FORM: Final = f"""
* {{ box-sizing: border-box; }}
body {{ margin: 0; background: var(--paper); color: var(--ink); font: 15px/1.5 {SANS}; }}
header {{ display: flex; flex-wrap: wrap; align-items: center; gap: 8px 16px;
  padding: 10px 16px; border-bottom: 1px solid var(--rim); }}
h1 {{ font-size: 17px; margin: 0; }}
header p {{ margin: 0; color: var(--muted); }}
#controls {{ display: flex; flex-wrap: wrap; gap: 6px; margin-left: auto; align-items: center; }}
[hidden] {{ display: none !important; }}
button, input {{ font: inherit; color: inherit; background: var(--frame); padding: 3px 10px;
  border: 1px solid var(--rim); border-radius: 6px; min-height: 32px; }}
button {{ cursor: pointer; min-width: 34px; }}
button:hover {{ border-color: var(--ink); }}
:focus-visible {{ outline: 2px solid var(--mark); outline-offset: 1px; }}
output {{ color: var(--muted); min-width: 3.6em; font-variant-numeric: tabular-nums; }}
main {{ display: flex; flex-wrap: wrap; }}
#stage {{ flex: 1 1 600px; overflow: auto; padding: 8px; }}
aside {{ flex: 0 1 380px; padding: 4px 20px 24px; border-left: 1px solid var(--rim);
  font-size: 14px; }}
article {{ margin: 14px 0; scroll-margin: 12px; }}
article:target h2 {{ color: var(--mark); }}
h2 {{ font: 600 15px/1.4 {MONO}; margin: 0 0 6px; overflow-wrap: anywhere; }}
h2.plain {{ font-family: {SANS}; }}
.keys p {{ margin: 4px 0; }}
h3 {{ font-size: 12px; margin: 12px 0 2px; color: var(--muted); font-weight: 600; }}
dl {{ margin: 0; }}
dt {{ font-size: 12px; color: var(--muted); font-weight: 600; margin-top: 8px; }}
dd {{ margin: 0; overflow-wrap: anywhere; }}
ul, ol {{ margin: 0; padding-left: 20px; }}
li::marker {{ color: var(--muted); }}
li {{ overflow-wrap: anywhere; }}
aside a {{ color: inherit; text-decoration-color: var(--muted); text-underline-offset: 3px; }}
kbd {{ font: 12px {MONO}; border: 1px solid var(--rim); border-radius: 4px; padding: 0 5px; }}
.legend {{ list-style: none; padding: 0; display: grid; grid-template-columns: 1fr 1fr; }}
.legend svg {{ display: inline-block; margin-right: 7px; vertical-align: -3px; }}
.keys {{ display: none; }}
.topology {{ display: block; max-width: none; }}
#stage a:focus-visible {{ outline: none; }}
#stage a:focus-visible .core, #stage .chosen .core, #stage .found > a > .core,
#stage .found > .frame {{ stroke: var(--mark); stroke-width: 2.5; }}
#stage .near .line {{ stroke: var(--ink); stroke-width: 2.4; }}
#stage .near .tip {{ fill: var(--ink); }}
#stage a:focus-visible .line, #stage .chosen .line {{ stroke: var(--mark); stroke-width: 2.8; }}
#stage a:focus-visible .tip, #stage .chosen .tip {{ fill: var(--mark); }}
#stage .found.item tspan, #stage .found.layer text {{ fill: var(--mark); font-weight: 700; }}
#stage .faint {{ opacity: 0.22; }}
.live, .live body {{ height: 100%; }}
.live body {{ display: flex; flex-direction: column; overflow: hidden; }}
.live main {{ flex: 1; min-height: 0; flex-wrap: nowrap; }}
.live #stage {{ min-width: 0; overflow: hidden; padding: 0; touch-action: none; cursor: grab; }}
.live #stage.held {{ cursor: grabbing; }}
.live #stage svg {{ width: 100%; height: 100%; user-select: none; }}
.live aside {{ overflow-y: auto; flex-shrink: 0; width: 380px; }}
.live article:not(.on) {{ display: none; }}
.live .keys {{ display: block; }}
@media (max-width: 820px) {{
  .live main {{ flex-direction: column; }}
  .live #stage {{ flex: 1 1 0; min-height: 0; }}
  aside {{ border-left: 0; border-top: 1px solid var(--rim); }}
  .live aside {{ width: auto; flex: 0 0 40%; }}
  .live header p {{ display: none; }}
}}
"""

SCRIPT: Final = r"""
"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const root = document.documentElement;
  const stage = byId("stage");
  const svg = stage.querySelector("svg");
  const parts = [...svg.querySelectorAll("g[id]")];
  const { x, y, width, height } = svg.viewBox.baseVal;
  const whole = { x, y, width, height };
  const MOST = 6, LEAST = 0.05, LEGIBLE = 0.7;

  // The view: the point of the picture in the upper left corner of the stage, and the scale.
  let view = { x: 0, y: 0, k: 1 };
  let initial = view;
  let size = { width: 0, height: 0 };
  const within = (low, value, high) => Math.min(high, Math.max(low, value));

  function show(next) {
    view = next;
    const box = [view.x, view.y, size.width / view.k, size.height / view.k];
    svg.setAttribute("viewBox", box.join(" "));
    byId("scale").textContent = `${Math.round(view.k * 100)} %`;
  }

  function at(k, middle, top) {
    const left = middle - size.width / k / 2;
    show({ k, x: left, y: top });
  }

  function fit() {
    const k = within(LEAST, Math.min(size.width / whole.width, size.height / whole.height), 1.6);
    const spare = size.height / k - whole.height;
    at(k, whole.x + whole.width / 2, whole.y - spare / 2);
    return k;
  }

  // The whole picture if it is legible; else its upper end, as wide as the window.
  function begin() {
    if (fit() < LEGIBLE) {
      const k = within(LEGIBLE, size.width / whole.width, 1);
      at(k, whole.x + whole.width / 2, whole.y);
    }
    initial = view;
  }

  function zoom(factor, px = size.width / 2, py = size.height / 2) {
    const k = within(LEAST, view.k * factor, MOST);
    show({ k, x: view.x + px / view.k - px / k, y: view.y + py / view.k - py / k });
  }

  function move(dx, dy) {
    show({ ...view, x: view.x - dx / view.k, y: view.y - dy / view.k });
  }

  function reveal(part) {
    const box = part.getBoundingClientRect(), home = stage.getBoundingClientRect();
    const outside = box.right < home.left + 20 || box.left > home.right - 20 ||
      box.bottom < home.top + 20 || box.top > home.bottom - 20;
    if (outside) {
      move((home.left + home.right - box.left - box.right) / 2,
        (home.top + home.bottom - box.top - box.bottom) / 2);
    }
  }

  // Details of the part under the pointer, else of the chosen part, else of the whole plan.
  let chosen = "";
  function showDetails(key) {
    for (const article of document.querySelectorAll("article")) {
      article.classList.toggle("on", article.id === `about-${key || "all"}`);
    }
    for (const part of parts) {
      part.classList.toggle("chosen", part.id === key);
      part.classList.toggle("near", key !== "" && part.classList.contains(key));
    }
  }

  function choose(key) {
    chosen = parts.some((part) => part.id === key) ? key : "";
    showDetails(chosen);
    if (chosen) reveal(byId(chosen));
    document.querySelector("aside").scrollTop = 0;
  }

  const keyOf = (link) => link.replace(/^.*#about-/, "");
  const partOf = (event) => event.target.closest("g[id]");
  for (const [over, out] of [["pointerover", "pointerout"], ["focusin", "focusout"]]) {
    stage.addEventListener(over, (event) => showDetails(partOf(event)?.id ?? chosen));
    stage.addEventListener(out, () => showDetails(chosen));
  }
  stage.addEventListener("focusin", (event) => {
    if (event.target.matches("a:focus-visible")) reveal(partOf(event));
  });
  window.addEventListener("hashchange", () => choose(keyOf(location.hash)));

  // Panning and zooming: one finger pans, two also zoom. A press that moved is not a click.
  const held = new Map();
  let moved = 0;
  const middle = () => {
    const all = [...held.values()];
    const mean = (axis) => all.reduce((sum, point) => sum + point[axis], 0) / all.length;
    const [a, b = a] = all;
    return { x: mean("x"), y: mean("y"), gap: Math.hypot(a.x - b.x, a.y - b.y) };
  };
  const place = (event) => {
    const home = stage.getBoundingClientRect();
    return { x: event.clientX - home.left, y: event.clientY - home.top };
  };
  stage.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    if (!held.size) moved = 0;
    held.set(event.pointerId, place(event));
  });
  window.addEventListener("pointermove", (event) => {
    if (!held.has(event.pointerId)) return;
    const before = middle();
    held.set(event.pointerId, place(event));
    const after = middle();
    moved += Math.hypot(after.x - before.x, after.y - before.y);
    if (moved < 4 && held.size < 2) return;
    stage.classList.add("held");
    move(after.x - before.x, after.y - before.y);
    if (before.gap && after.gap) zoom(after.gap / before.gap, after.x, after.y);
  });
  for (const end of ["pointerup", "pointercancel"]) {
    window.addEventListener(end, (event) => {
      held.delete(event.pointerId);
      stage.classList.toggle("held", held.size > 0 && moved >= 4);
    });
  }
  stage.addEventListener("dragstart", (event) => event.preventDefault());
  document.addEventListener("click", (event) => {
    const dragged = event.detail > 0 && moved >= 4;
    const link = event.target.closest("a");
    moved = 0;
    if (link) event.preventDefault();
    if (dragged) return;
    if (link) choose(keyOf(link.getAttribute("href")));
    else if (event.target.closest("#stage")) choose("");
  });
  stage.addEventListener("wheel", (event) => {
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 20 : 1;
    const point = place(event);
    zoom(Math.exp(-within(-300, event.deltaY * lines, 300) / 500), point.x, point.y);
  }, { passive: false });

  const STEP = 60;
  const keys = {
    "+": () => zoom(1.25), "=": () => zoom(1.25), "-": () => zoom(0.8), "0": fit, f: fit,
    "/": () => search.focus(), Escape: () => choose(""),
    ArrowLeft: () => move(STEP, 0), ArrowRight: () => move(-STEP, 0),
    ArrowUp: () => move(0, STEP), ArrowDown: () => move(0, -STEP),
  };
  document.addEventListener("keydown", (event) => {
    const scrolls = event.target.closest("aside") && event.key.startsWith("Arrow");
    const busy = event.target === search || scrolls;
    if (busy || event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });

  // The search marks every place of a name: nodes, layers, tools, and edges it is a reason for.
  const search = byId("search"), found = byId("found");
  const places = [...svg.querySelectorAll("[data-words]")];
  let hits = [], turn = 0;
  function runSearch() {
    const words = search.value.trim().toLowerCase();
    for (const item of places) {
      const match = words !== "" && item.dataset.words.toLowerCase().includes(words);
      item.classList.toggle("found", match);
    }
    for (const part of parts) {
      const lit = part.matches(".found") || part.querySelector(".found");
      part.classList.toggle("faint", words !== "" && !lit);
    }
    hits = places.filter((item) => item.matches(".found"));
    turn = 0;
    found.textContent = words && `${hits.length} ${hits.length === 1 ? "place" : "places"}`;
  }
  search.addEventListener("input", runSearch);
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && hits.length) {
      const hit = hits[turn++ % hits.length];
      choose(hit.closest("g[id]").id);
      reveal(hit);
    }
    if (event.key === "Escape") {
      search.value = "";
      runSearch();
      search.blur();
    }
  });

  const themes = ["", "day", "night"];
  byId("theme").addEventListener("click", (event) => {
    const next = themes[(themes.indexOf(root.dataset.theme || "") + 1) % themes.length];
    if (next) root.dataset.theme = next; else delete root.dataset.theme;
    event.currentTarget.textContent = 
      { "": "Theme: auto", day: "Theme: light", night: "Theme: dark" }[next];
  });
  byId("closer").addEventListener("click", () => zoom(1.25));
  byId("farther").addEventListener("click", () => zoom(0.8));
  byId("fit").addEventListener("click", fit);

  root.classList.add("live");
  byId("controls").hidden = false;
  new ResizeObserver(() => {
    const first = !size.width, untouched = view === initial;
    const middle = { x: view.x + size.width / view.k / 2, y: view.y + size.height / view.k / 2 };
    size = { width: stage.clientWidth, height: stage.clientHeight };
    if (untouched) begin();
    else show({ ...view, x: middle.x - size.width / view.k / 2,
      y: middle.y - size.height / view.k / 2 });
    if (first) choose(keyOf(location.hash));
  }).observe(stage);
})();
"""


def css() -> str:
    """The style of a page: light or dark, by the reader's system or by choice."""

    def theme_rules(theme: Theme, where: str, scheme: str) -> str:
        names = ("paper", "ink", "muted", "frame", "rim", "mark")
        values = " ".join(f"--{name}: {getattr(theme, name)};" for name in names)
        return f"{where} {{ color-scheme: {scheme}; {values} }}"

    night = theme_rules(NIGHT, ":root", "dark")
    parts = [_FORM, theme_rules(DAY, ":root", "light")]
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

    Raises:
        ImportError: The extra `draw` is not installed.
    """
    figure = figure_of(plan)
    details = details_of(plan, figure)
    return page(plan, figure, draw(figure, lay_out(figure), details, linked=True), details)


def page(plan: TopologyData, figure: Figure, picture: str, details: Mapping[str, Details]) -> str:
    """The page around a picture.

    It needs nothing from the network, and its policy forbids it: only the script with this hash may
    run, whatever a name in the plan contains.
    """
    digest = b64encode(sha256(SCRIPT.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
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
            "<!doctype html>",
            '<html lang="en">',
            '<head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>The plan of an agent</title><style>{css()}</style></head>",
            "<body>",
            f"<header><h1>The plan of an agent</h1><p>{summary}</p>{_CONTROLS}</header>",
            f'<main><div id="stage">{picture}</div>',
            f"<aside>{_overview(overview(plan, figure))}",
            *(
                f'<article id="about-{key}"><h2>{text(part.title)}</h2>'
                f"{_facts(part)}{_lists(part)}</article>"
                for key, part in details.items()
            ),
            "</aside></main>",
            f'<datalist id="names">{options}</datalist>',
            f"<script>{SCRIPT}</script>",
            "</body></html>\n",
        ]
    )


def _overview(whole: Details) -> str:
    def sample(group: str) -> str:
        return f'<svg class="topology" width="22" height="16" aria-hidden="true">{group}</svg>'

    def legend() -> Iterator[str]:
        for kind in DAY.kinds:
            if kind != "terminal":
                box = '<rect class="core" x=".5" y="1.5" width="20" height="13" rx="3"/>'
                box += '<rect class="stripe" x=".5" y="1.5" width="5" height="13" rx="1"/>'
                group = f'<g class="{kind}">{box}</g>'
                yield f"<li>{sample(group)}{kind}</li>"
        dashes = '<g class="jump"><path class="line" d="M0,8 L22,8"/></g>'
        yield f"<li>{sample(dashes)}a jump only</li>"

    return (
        f'<article id="about-all" class="on"><h2 class="plain">{text(whole.title)}</h2>'
        f'{_lists(whole)}{_facts(whole)}<h3>legend</h3><ul class="legend">{"".join(legend())}</ul>'
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
