"""llms.txt and llms-full.txt: the documentation for language models, in the format of llmstxt.org.

llms.txt lists each page of the navigation with a line about it, llms-full.txt has all of them in
one file. `make docs` writes both into the site, with the Markdown of each page; so does
``python scripts/llms.py FOLDER``. No link needs to know the address of the site.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import signatures
import yaml
from reference_pages import REFERENCE, is_own, public_names
from site_pages import ROOT, example_page, rewritten, source_of, with_links

SUMMARY = (
    "Python library for agents on LangGraph: `create_agent` takes a chat model, tools and a list "
    "of middleware, plans them, checks the plan, and returns a compiled graph."
)

OPTIONAL = "Project"
"""The part of the navigation to leave out for a reader with little room."""

ROW = re.compile(r"^\| \[[^\]]+\]\(([^)#]+)\) \| (.+) \|$", flags=re.M)
"""Row of a table of contents: a page, and its subject."""


@dataclass(frozen=True)
class Page:
    """A page of the navigation: section, title, and path in the site."""

    section: str
    title: str
    place: str

    @property
    def markdown(self) -> str:
        """The Markdown of the page, with links as in the repository."""
        name = self.place.removeprefix("reference/").removesuffix("/index.md").removesuffix(".md")
        if self.place.startswith("reference/") and name in REFERENCE.values():
            return _reference(name)
        source = source_of(self.place)
        if source.startswith("examples/") and self.place != "examples/index.md":
            return example_page(source)
        return (ROOT / source).read_text(encoding="utf-8")

    def seen_from(self, place: str) -> str:
        """The Markdown of the page, with links valid at another path in the site."""
        source = source_of(self.place)
        return rewritten(self.markdown, lambda text: with_links(text, source, place))


def _reference(name: str) -> str:
    """The names of a public module: signatures, and the first paragraphs of docstrings."""
    module = {page: module for module, page in REFERENCE.items()}[name]
    values = public_names(module)
    lines = [f"# {module}", "", signatures.summary(sys.modules[module]), ""]
    for key, value in values.items():
        lines += signatures.lines_of(key, value) if is_own(value) else []
    return "\n".join(lines) + "\n"


def pages(nav: list[Any], section: str = "") -> Iterator[Page]:
    """The pages of a navigation in the form of mkdocs.yml, in order."""
    for item in nav:
        title, target = next(iter(item.items())) if isinstance(item, dict) else ("", item)
        if isinstance(target, list):
            yield from pages(target, f"{section}: {title}" if section else title)
        else:
            page = Page(section or title, title, target)
            heading = re.search(r"^# (.+)$", page.markdown, flags=re.M)
            yield page if title or heading is None else Page(page.section, heading[1], target)


@cache
def descriptions() -> dict[str, str]:
    """The subjects of pages, by path, from the contents of the documentation."""
    contents = Page("", "", "contents.md").seen_from("contents.md")
    return dict(ROW.findall(contents))


def description(page: Page) -> str:
    """The line about a page: from the contents, or else the first sentence of the text."""
    if page.place in (lines := descriptions()):
        return plain(lines[page.place])
    text = page.markdown.partition("\n")[2].strip()
    if docstring := re.match(r'```python\n"""(.+)', text):
        return docstring[1].rstrip('"')
    return plain(re.split(r"(?<=\.)\s|\n\n", text, maxsplit=1)[0]).removesuffix(":")


def plain(text: str) -> str:
    """Markdown in a line, without links."""
    return " ".join(re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", text).split())


def tokens(text: str) -> int:
    """Estimated number of tokens of a text, at four characters each."""
    return len(text) // 4


def index(listed: list[Page], full: str) -> str:
    """The text of llms.txt, from the text of llms-full.txt."""
    parts = [f"# agent_factory\n\n> {SUMMARY}\n"]
    parts.append(
        "Each link leads to a page as Markdown. "
        f"[llms-full.txt](llms-full.txt) has all pages in one file, of {tokens(full):,} tokens.\n"
    )
    for section in dict.fromkeys(page.section for page in listed):
        lines = [
            f"- [{page.title}]({page.place}): {description(page)}"
            for page in listed
            if page.section == section
        ]
        title = "Optional" if section == OPTIONAL else section
        parts.append("\n".join([f"## {title}", "", *lines, ""]))
    return "\n".join(parts)


def whole(listed: list[Page]) -> str:
    """The text of llms-full.txt: all pages, each after a comment with the path."""
    texts = (f"<!-- {page.place} -->\n\n{page.seen_from('llms-full.txt')}" for page in listed)
    return f"<!-- agent_factory: {SUMMARY} -->\n\n" + "\n".join(texts)


def write(folder: Path, nav: list[Any]) -> dict[str, int]:
    """Write all files into the folder of a site; the tokens of the two complete files."""
    listed = list(pages(nav))
    full = whole(listed)
    texts = {page.place: page.seen_from(page.place) for page in listed}
    lists = {"llms.txt": index(listed, full), "llms-full.txt": full}
    for place, text in (texts | lists).items():
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
    return {name: tokens(text) for name, text in lists.items()}


if __name__ == "__main__":
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    for name, count in write(Path(sys.argv[1]), config["nav"]).items():
        print(f"{name}: {count:,} tokens")
