"""The hooks of the documentation site: links, fences, diagrams, and examples in docstrings."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mkdocs", reason="the extra docs is not installed")
pytest.importorskip("griffe", reason="the extra docs is not installed")
pytest.importorskip("pygraphviz", reason="the extra docs is not installed")

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def site() -> Any:
    spec = importlib.util.spec_from_file_location("docs_site", ROOT / "scripts" / "docs_site.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("page", "place", "link", "expected"),
    [
        ("docs/react_agent.md", "react_agent.md", "../examples/why.py", "examples/why.md"),
        ("docs/howto/mcp.md", "howto/mcp.md", "../tools.md#errors", "../tools.md#errors"),
        (
            "docs/performance.md",
            "performance.md",
            "../benchmarks/README.md",
            "project/benchmarks.md",
        ),
        ("docs/index.md", "contents.md", "../README.md", "index.md"),
        ("docs/index.md", "contents.md", "../examples", "examples/index.md"),
        ("README.md", "index.md", "examples/README.md", "examples/index.md"),
        ("examples/README.md", "examples/index.md", "loops.py", "loops.md"),
        ("examples/README.md", "examples/index.md", "product/README.md", "product.md"),
        ("README.md", "index.md", "docs/index.md", "contents.md"),
        ("README.md", "index.md", "docs/pictures/topology.png", "pictures/topology.png"),
        ("CONTRIBUTING.md", "project/contributing.md", "docs/order.md", "../order.md"),
    ],
)
def test_links_of_the_repository_lead_to_pages_of_the_site(
    site: Any, page: str, place: str, link: str, expected: str
) -> None:
    assert site.with_links(f"See [it]({link}).", page, place) == f"See [it]({expected})."


def test_a_link_to_a_mere_file_becomes_text_and_an_unknown_one_stays_for_mkdocs_to_find(
    site: Any,
) -> None:
    text = "[goals](goals.py) and [nothing](nothing.md)"
    page = ("benchmarks/README.md", "project/benchmarks.md")
    assert site.with_links(text, *page) == "goals and [nothing](nothing.md)"


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        ("python no-run: needs a key", "```python\n"),
        ("python file: desk.py", '```python title="desk.py"\n'),
        ("sh run", "```sh\n"),
        ("output", '```text title="Output"\n'),
    ],
)
def test_the_first_line_of_a_block_is_one_that_mkdocs_reads(
    site: Any, info: str, expected: str
) -> None:
    assert site.block(info, "x\n", "").startswith(expected)


def test_a_flowchart_is_drawn_with_its_labels_and_nothing_from_the_network(site: Any) -> None:
    svg = site.flowchart("flowchart TD\n  a([start]) --> b[two<br>lines]\n  b -->|again| a\n")
    assert {"start", "two", "lines", "again"} <= set(re.findall(r">([^<>\n]+)</text>", svg))
    assert "href" not in svg
    assert "<script" not in svg


def test_a_flowchart_in_another_part_of_mermaid_is_an_error(site: Any) -> None:
    with pytest.raises(ValueError, match="not understood"):
        site.flowchart("flowchart TD\n  a -.-> b\n")


def test_examples_in_docstrings_become_code(site: Any) -> None:
    text = "Add.\n\n>>> add(1,\n...     2)\n3\n\nMore.\n"
    fenced = "Add.\n\n```pycon\n>>> add(1,\n...     2)\n3\n```\n\nMore.\n"
    assert site.with_examples(text) == fenced


def test_the_reference_has_every_class_function_and_decorator(site: Any) -> None:
    page = site.reference_page("agent_factory")
    assert "::: agent_factory.create_agent\n" in page
    assert "::: agent_factory.SpecError\n" in page
    assert "### before_model\n" in page
    assert "agent_factory.ToolRuntime" not in page  # LangGraph's


def test_each_example_is_in_the_navigation() -> None:
    pages = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    examples = {path.stem for path in (ROOT / "examples").glob("[!_]*.py")}
    assert {name for name in examples if f"- examples/{name}.md\n" not in pages} == set()
