"""The pages of the site: sources and Markdown, without a builder of sites.

docs/ has most of them. The README and other pages of the repository, a page for each example, and
the reference have their sources elsewhere.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

PAGES = {
    "README.md": "index.md",
    "docs/index.md": "contents.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "SECURITY.md": "project/security.md",
    "benchmarks/README.md": "project/benchmarks.md",
    "benchmarks/method.md": "project/benchmark_method.md",
    "benchmarks/figures.md": "project/benchmark_figures.md",
    "examples/README.md": "examples/index.md",
}
"""Pages of the repository with another path in the site: the README is the first page."""

FENCE = re.compile(r"^```(.*)\n((?:.*\n)*?)```$", flags=re.M)
LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?:|#)([^)\s#]+)(#[^)\s]*)?\)")


def examples() -> dict[str, str]:
    """Examples by their path in the repository, with their place in the site."""
    paths = sorted((ROOT / "examples").glob("[!_]*.py"))
    pages = {f"examples/{path.name}": f"examples/{path.stem}.md" for path in paths}
    return {**pages, "examples/product/README.md": "examples/product.md"}


def site_paths() -> dict[str, str]:
    """Every file and folder with a path in the site other than the path below docs/."""
    return {"examples": "examples/index.md", **PAGES, **examples()}


def source_of(place: str) -> str:
    """The path of a page in the repository, by the path in the site."""
    return {there: here for here, there in site_paths().items()}.get(place, f"docs/{place}")


def example_page(path: str) -> str:
    """The page of an example; of a folder, the README and then the files."""
    example = ROOT / path
    if example.suffix == ".py":
        return f"# {example.name}\n\n{code_block(example)}"
    readme, folder = example.read_text(encoding="utf-8"), example.parent
    sections = [
        f"## {source.relative_to(folder).as_posix()}\n\n{code_block(source)}"
        for source in sorted(folder.rglob("*.py"))
        if source.name != "__init__.py"
    ]
    return "\n".join([readme, *sections])


def code_block(path: Path) -> str:
    """A source file as a block of a page."""
    return f"```python\n{path.read_text(encoding='utf-8').strip()}\n```\n"


def rewritten(
    markdown: str,
    prose: Callable[[str], str],
    fence: Callable[[re.Match[str]], str] = lambda match: match[0],
) -> str:
    """A page whose text, and whose fenced blocks, were passed to a function each."""
    parts, end = [], 0
    for match in FENCE.finditer(markdown):
        parts += [prose(markdown[end : match.start()]), fence(match)]
        end = match.end()
    return "".join([*parts, prose(markdown[end:])])


def with_links(text: str, source: str, place: str) -> str:
    """Text with links to pages of the site; a link to a mere file becomes plain text."""

    def rewritten(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), link[2]))
        if target in site_paths():
            there = site_paths()[target]
        elif target.startswith("docs/"):
            there = target.removeprefix("docs/")
        else:
            return link[1] if (ROOT / target).exists() else link[0]
        relative = posixpath.relpath(there, posixpath.dirname(place) or ".")
        return f"[{link[1]}]({relative}{link[3] or ''})"

    return LINK.sub(rewritten, text)
