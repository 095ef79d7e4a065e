"""MkDocs hooks and a Griffe extension: what the site needs beyond the pages in docs/.

MkDocs reads only docs/. The hooks add the README and other pages of the repository, one page for
each example, and the reference. They draw Mermaid blocks as SVG, so that the site needs no script
from the network. mkdocs.yml names this file twice, once for each kind of plugin.
"""

from __future__ import annotations

import importlib
import inspect
import posixpath
import re
from pathlib import Path
from typing import Any

import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from pygraphviz import AGraph  # type: ignore[import-untyped]  # it has no py.typed

ROOT = Path(__file__).resolve().parent.parent

PAGES = {
    "README.md": "index.md",
    "docs/index.md": "contents.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "benchmarks/README.md": "project/benchmarks.md",
    "examples/README.md": "examples/index.md",
}
"""Pages of the repository that have another place in the site: the README is its first page."""

REFERENCE = {
    "agent_factory": "agent_factory",
    "agent_factory.middleware": "middleware",
    "agent_factory.structured_output": "structured_output",
    "agent_factory.review": "review",
    "agent_factory.telemetry": "telemetry",
    "agent_factory.service": "service",
    "agent_factory.serve": "serve",
    "agent_factory.testing": "testing",
    "agent_factory.testing.strategies": "testing_strategies",
    "agent_factory.topology": "topology",
    "agent_factory.stack": "stack",
    "agent_factory.errors": "errors",
    "agent_factory.prebuilt": "prebuilt",
    "agent_factory.migrate": "migrate",
    "agent_factory.local_model": "local_model",
}
"""Public modules, and the names of their pages under reference/."""

FENCE = re.compile(r"^```(.*)\n((?:.*\n)*?)```$", flags=re.M)
EXAMPLE = re.compile(r"^>>> .*(?:\n(?!\s*$).*)*", flags=re.M)
LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?:|#)([^)\s#]+)(#[^)\s]*)?\)")


BOOSTS = {
    "reference/": 0.05,
    "project/": 0.05,
    "examples/": 0.3,
    "contents/": 0.5,
    "guarantees/": 0.15,
}
"""How much the words of a page count in a search, by the beginning of its place; 1 for guides.

Words of a query are alternatives, so long pages with many names would hide the guides. The page of
guarantees says "never", "hook" and "run" in each paragraph."""


def examples() -> dict[str, str]:
    """Examples by their path in the repository, with their place in the site."""
    paths = sorted((ROOT / "examples").glob("[!_]*.py"))
    pages = {f"examples/{path.name}": f"examples/{path.stem}.md" for path in paths}
    return {**pages, "examples/product/README.md": "examples/product.md"}


def site_paths() -> dict[str, str]:
    """Every file and folder whose place in the site is not its path below docs/."""
    return {"examples": "examples/index.md", **PAGES, **examples()}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that MkDocs does not find in docs/."""
    generated = {place: (ROOT / path).read_text(encoding="utf-8") for path, place in PAGES.items()}
    generated |= {place: example_page(path) for path, place in examples().items()}
    for module, name in REFERENCE.items():
        generated[f"reference/{name}.md"] = reference_page(module)
    for place, text in generated.items():
        if stale := files.get_file_from_path(place):
            files.remove(stale)
        files.append(File.generated(config, place, content=text))
    return files


def example_page(path: str) -> str:
    """The page of one example; of a folder, its README and then its files."""
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


def reference_page(name: str) -> str:
    """The page of a public module: its docstring, and each of its names."""
    module = importlib.import_module(name)
    names = getattr(module, "__all__", None) or [
        key
        for key, value in vars(module).items()
        if not key.startswith("_") and getattr(value, "__module__", "") == name
    ]
    values = {key: getattr(module, key) for key in sorted(names)}
    members = [key for key, value in values.items() if is_own(value)]
    errors = [key for key in members if is_error(values[key])]
    classes = [key for key in members if inspect.isclass(values[key]) and key not in errors]
    functions = [key for key in members if key not in (*errors, *classes)]
    lines = [f"# {name}", "", f"::: {name}"]
    lines += ["    options: {members: false, show_root_heading: false, show_root_toc_entry: false}"]
    for title, keys in (("Functions", functions), ("Classes", classes), ("Errors", errors)):
        lines += ["", f"## {title}", "", *(f"::: {name}.{key}" for key in keys)] if keys else []
    instances = [key for key, value in values.items() if has_own_docstring(value)]
    lines += ["", "## Decorators"] if instances else []
    for key in instances:
        lines += ["", f"### {key}", "", with_examples(inspect.getdoc(values[key]) or "")]
    return "\n".join(lines) + "\n"


def has_own_docstring(value: Any) -> bool:
    """Return True for an instance of ours with its own docstring, which Griffe cannot see."""
    return is_own(type(value)) and "__doc__" in getattr(value, "__dict__", {})


def is_error(value: Any) -> bool:
    """Return True if a name is an exception or a warning."""
    return inspect.isclass(value) and issubclass(value, BaseException)


def is_own(value: Any) -> bool:
    """Return True for a class or a function of ours, and not one that LangGraph defines."""
    documented = inspect.isclass(value) or inspect.isroutine(value)
    return documented and value.__module__.startswith("agent_factory")


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite what GitHub and MkDocs read differently: fences, diagrams, links out of docs/."""
    place = page.file.src_uri
    boosts = (boost for start, boost in BOOSTS.items() if page.url.startswith(start))
    page.meta["search"] = {"boost": next(boosts, 1)}
    sources = {there: here for here, there in site_paths().items()}
    source = sources.get(place, f"docs/{place}")
    parts, end = [], 0
    for fence in FENCE.finditer(markdown):
        parts.append(with_links(markdown[end : fence.start()], source, place))
        parts.append(block(fence[1].strip(), fence[2], fence[0]))
        end = fence.end()
    return "".join([*parts, with_links(markdown[end:], source, place)])


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Leave signatures out of the search: they repeat the words of a hundred parameters."""
    signature = '<div class="doc-signature'
    return html.replace(signature, signature.replace("<div", "<div data-search-exclude"))


def block(info: str, text: str, whole: str) -> str:
    """A fenced block as MkDocs is to read it."""
    kind = info.partition(" ")[0]
    if kind == "mermaid":
        return f'<div class="diagram">\n{flowchart(text)}\n</div>'
    if kind == "output":
        return f'```text title="Output"\n{text}```'
    if " file: " in info:
        return f'```{kind} title="{info.partition(" file: ")[2]}"\n{text}```'
    return f"```{kind}\n{text}```" if " " in info else whole


def with_links(text: str, source: str, place: str) -> str:
    """Text whose links lead to pages of the site; a link to a mere file becomes its text."""

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


def flowchart(source: str) -> str:
    """A Mermaid flowchart as SVG, drawn by Graphviz: boxes, round boxes, labels and subgraphs.

    Raises:
        ValueError: A line is written in a part of Mermaid that is not drawn here.
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
    """A label of Mermaid as one of Graphviz."""
    return text.strip('"').replace("<br>", "\\n")


class Examples(griffe.Extension):
    """Show the examples of docstrings as code; in Markdown, lines of ``>>>`` are quotations."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called once for each class, function, attribute and module below the root."""
        if obj.docstring is not None and "```" not in obj.docstring.value:
            obj.docstring.value = with_examples(obj.docstring.value)

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Called once for the root."""
        self.on_object(obj=pkg)


def with_examples(text: str) -> str:
    """A docstring with a fence around each run of lines that begins with ``>>>``."""
    return EXAMPLE.sub(lambda match: f"```pycon\n{match[0]}\n```", text)
