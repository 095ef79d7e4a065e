"""Source of the documentation site: every page as a file, and the configuration of the build.

`make docs` runs ``python scripts/docs_site.py build/site`` and then a builder, which needs no code
for pages: docs/ of that folder has the pages of docs/, the README and other pages of the
repository, one page for each example, and the reference. Links, fences and diagrams are as a
builder reads them; Mermaid is drawn as SVG, so that the site needs no script from the network.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from pygraphviz import AGraph  # type: ignore[import-untyped]  # it has no py.typed
from reference_pages import reference_pages
from site_pages import PAGES, ROOT, example_page, examples, rewritten, source_of, with_links

BOOSTS = {
    "reference/": 0.05,
    "project/": 0.05,
    "examples/": 0.3,
    "contents/": 0.5,
    "faq/": 0.6,
    "guarantees/": 0.3,
}
"""Weight of the words of a page in a search, by the beginning of the path; 1 for guides.

Words of a query are alternatives, so long pages with many names would hide the guides. The page of
guarantees says "never", "hook" and "run" in each paragraph."""


def write(folder: Path) -> None:
    """Write `docs/` into a folder, and remove obsolete files.

    Unchanged files are left alone, so a server of the site does not build again.
    """
    files = {folder / "docs" / place: data for place, data in documents()}
    for path, data in files.items():
        if not path.is_file() or path.read_bytes() != data:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    for path in (folder / "docs").rglob("*"):
        if path.is_file() and path not in files:
            path.unlink()


def configuration(*, versions: bool) -> dict[str, Any]:
    """The configuration of mkdocs.yml, for another folder, with the parts of the reference.

    With `versions`, pages have the menu of versions that mike fills.
    """
    config: dict[str, Any] = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    config["nav"] = with_parts(config["nav"], sorted(reference_pages()))
    config["hooks"] = [str(ROOT / path) for path in config["hooks"]]
    python = config["plugins"][-1]["mkdocstrings"]["handlers"]["python"]
    python["paths"] = [str(ROOT)]
    python["options"]["extensions"] = [str(ROOT / path) for path in python["options"]["extensions"]]
    if versions:
        config["extra"] = {"version": {"provider": "mike"}}
    return config


def documents() -> Iterator[tuple[str, bytes]]:
    """Every file of the site: path and bytes."""
    pages = {place: (ROOT / path).read_text(encoding="utf-8") for path, place in PAGES.items()}
    pages |= {place: example_page(path) for path, place in examples().items()}
    pages |= reference_pages()
    for path in sorted((ROOT / "docs").rglob("*")):
        place = path.relative_to(ROOT / "docs").as_posix()
        if path.suffix == ".md":
            pages.setdefault(place, path.read_text(encoding="utf-8"))
        elif path.is_file() and path.suffix not in (".py", ".pyc"):
            yield place, path.read_bytes()
    for place, text in pages.items():
        yield place, page(place, text).encode()


def page(place: str, markdown: str) -> str:
    """A page as a builder reads it: fences, diagrams, links out of docs/, and the weight."""
    url = place.removesuffix("index.md").removesuffix(".md") + "/"
    boosts = (boost for start, boost in BOOSTS.items() if url.startswith(start))
    source = source_of(place)
    text = rewritten(
        markdown,
        prose=lambda text: with_links(text, source, place),
        fence=lambda match: block(match[1].strip(), match[2], match[0]),
    )
    return f"---\nsearch: {{boost: {next(boosts, 1)}}}\n---\n{text}"


def with_parts(nav: Any, places: list[str]) -> Any:
    """The navigation, or a part, where a folder of `places` has the pages below its index."""
    if isinstance(nav, list):
        return [with_parts(entry, places) for entry in nav]
    if isinstance(nav, dict):
        return {title: with_parts(entry, places) for title, entry in nav.items()}
    if nav not in places or not nav.endswith("/index.md"):
        return nav
    folder = nav.removesuffix("index.md")
    module = reference_pages()[nav].partition("\n")[0].removeprefix("# ")
    parts = (place for place in places if place.startswith(folder) and place != nav)
    titled = ({part[len(folder) : -len(".md")].replace("_", " "): part} for part in parts)
    return {module: [nav, *titled]}


def block(info: str, text: str, whole: str) -> str:
    """A fenced block in the form for MkDocs."""
    kind = info.partition(" ")[0]
    if kind == "mermaid":
        return f'<div class="diagram">\n{flowchart(text)}\n</div>'
    if kind == "output":
        return f'```text title="Output"\n{text}```'
    if " file: " in info:
        return f'```{kind} title="{info.partition(" file: ")[2]}"\n{text}```'
    return f"```{kind}\n{text}```" if " " in info else whole


def flowchart(source: str) -> str:
    """A Mermaid flowchart as SVG, drawn by Graphviz: boxes, round boxes, labels and subgraphs.

    Raises:
        ValueError: A line uses a part of Mermaid without support.
    """
    head, *lines = (line.strip() for line in source.strip().splitlines())
    graph = AGraph(
        directed=True, rankdir=head.split()[1].replace("TD", "TB"), bgcolor="none", ranksep="0.3"
    )
    graph.node_attr.update(shape="box", style="rounded", fontname="sans-serif", fontsize="13")
    graph.edge_attr.update(fontname="sans-serif", fontsize="11")
    clusters = [graph]
    node = r"(\w+)(?:\(\[(.+?)\]\)|\[(.+?)\])?"
    for line in filter(None, lines):
        if line == "end":
            clusters.pop()
        elif match := re.fullmatch(r"subgraph (\w+)\[(.+)\]", line):
            inner = clusters[-1].add_subgraph(name=f"cluster_{match[1]}", label=label(match[2]))
            clusters.append(inner)
        elif match := re.fullmatch(rf"{node}(?: -->(?:\|(.+?)\|)? {node})?", line):
            ends = [match.group(1, 2, 3), match.group(5, 6, 7)]
            for name, stadium, box in (end for end in ends if end[0]):
                if stadium or box:
                    shape = {"shape": "ellipse"} if stadium else {}
                    clusters[-1].add_node(name, label=label(stadium or box), **shape)
            if match[5]:
                graph.add_edge(match[1], match[5], label=label(match[4] or ""))
        else:
            raise ValueError(f"this line of a Mermaid block is not understood: {line!r}")
    svg: str = graph.draw(format="svg", prog="dot").decode()
    return re.sub(r"<title>.*?</title>\n?|<!--.*?-->\n?", "", svg[svg.index("<svg") :], flags=re.S)


def label(text: str) -> str:
    """A label of Mermaid as a label of Graphviz."""
    return text.strip('"').replace("<br>", "\\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("folder", type=Path, help="where the source of the site is written")
    parser.add_argument("--versions", action="store_true", help="with the menu of versions")
    options = parser.parse_args()
    write(options.folder)
    text = yaml.safe_dump(
        configuration(versions=options.versions), sort_keys=False, allow_unicode=True
    )
    (options.folder / "mkdocs.yml").write_text(text, encoding="utf-8")
