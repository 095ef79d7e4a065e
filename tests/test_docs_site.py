"""The hooks of the documentation site: links, fences, diagrams, and examples in docstrings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tables import each

pytest.importorskip("mkdocs", reason="the extra docs is not installed")
pytest.importorskip("griffe", reason="the extra docs is not installed")
pytest.importorskip("pygraphviz", reason="the extra docs is not installed")

import docs_site as site
from reference_pages import home_of, public_names, reference_pages, with_examples
from site_pages import with_links

ROOT = Path(__file__).resolve().parent.parent


@each(
    "page, place, link, expected",
    [
        ("docs/react_agent.md", "react_agent.md", "../examples/why.py", "examples/why.md"),
        ("docs/howto/mcp.md", "howto/mcp.md", "../tools.md#errors", "../tools.md#errors"),
        ("docs/faq.md", "faq.md", "../benchmarks/README.md", "project/benchmarks.md"),
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
    page: str, place: str, link: str, expected: str
) -> None:
    assert with_links(f"See [it]({link}).", page, place) == f"See [it]({expected})."


def test_a_link_to_a_mere_file_becomes_text_and_an_unknown_one_stays_for_mkdocs_to_find() -> None:
    text = "[goals](goals.py) and [nothing](nothing.md)"
    page = ("benchmarks/README.md", "project/benchmarks.md")
    assert with_links(text, *page) == "goals and [nothing](nothing.md)"


@each(
    "info, expected",
    [
        ("python no-run: needs a key", "```python\n"),
        ("python file: desk.py", '```python title="desk.py"\n'),
        ("sh run", "```sh\n"),
        ("output", '```text title="Output"\n'),
    ],
)
def test_the_first_line_of_a_block_is_one_that_mkdocs_reads(info: str, expected: str) -> None:
    assert site.block(info, "x\n", "").startswith(expected)


def test_a_flowchart_is_drawn_with_its_labels_and_nothing_from_the_network() -> None:
    svg = site.flowchart("flowchart TD\n  a([start]) --> b[two<br>lines]\n  b -->|again| a\n")
    assert {"start", "two", "lines", "again"} <= set(re.findall(r">([^<>\n]+)</text>", svg))
    assert "href" not in svg
    assert "<script" not in svg


def test_a_flowchart_in_another_part_of_mermaid_is_an_error() -> None:
    with pytest.raises(ValueError, match="not understood"):
        site.flowchart("flowchart TD\n  a -.-> b\n")


def test_examples_in_docstrings_become_code() -> None:
    text = "Add.\n\n>>> add(1,\n...     2)\n3\n\nMore.\n"
    fenced = "Add.\n\n```pycon\n>>> add(1,\n...     2)\n3\n```\n\nMore.\n"
    assert with_examples(text) == fenced


def test_the_reference_has_each_name_once_and_a_link_from_the_page_of_its_module() -> None:
    pages = reference_pages()
    assert "::: agent_factory.create_agent\n" in pages["reference/agent_factory/agents.md"]
    hooks = pages["reference/agent_factory/hooks.md"]
    assert "### before_model {#agent_factory.before_model}\n" in hooks
    overview = pages["reference/agent_factory/index.md"]
    for name, target in {
        "create_agent": "[agent_factory.create_agent]",
        # A heading, and no object that mkdocstrings knows.
        "before_model": "(../agent_factory/hooks.md#agent_factory.before_model)",
        "SpecError": "[agent_factory.errors.SpecError]",  # which documents it
    }.items():
        anchor = f'<a id="agent_factory.{name}"></a>'
        assert f"{anchor}[`{name}`]{target}" in overview
    assert "ToolRuntime" not in "".join(pages.values())  # LangGraph's


def test_a_name_that_a_private_module_defines_is_with_the_middleware_that_exports_it() -> None:
    page = reference_pages()["reference/middleware/pii.md"]
    assert "::: agent_factory.middleware.detect_email\n" in page
    assert "::: agent_factory.middleware.PIIMiddleware\n" in page


def test_each_public_name_of_a_split_module_is_documented_somewhere() -> None:
    text = "\n".join(reference_pages().values())
    for module in ("agent_factory", "agent_factory.middleware", "agent_factory.service"):
        for name in public_names(module):
            home = home_of(module, name).module
            documented = (f"::: {home}.{name}\n", f"{{#{home}.{name}}}\n")
            assert any(form in text for form in documented), name


def test_the_parts_of_a_module_follow_it_in_the_navigation() -> None:
    places = ["reference/errors.md", "reference/service/inbox.md", "reference/service/index.md"]
    service = ["reference/service/index.md", {"inbox": "reference/service/inbox.md"}]
    modules = ["reference/errors.md", {"agent_factory.service": service}]
    expected = [{"Modules": modules}]
    assert site.with_parts([{"Modules": [places[0], places[2]]}], places) == expected


def test_each_example_is_in_the_navigation() -> None:
    pages = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    examples = {path.stem for path in (ROOT / "examples").glob("[!_]*.py")}
    assert {name for name in examples if f"- examples/{name}.md\n" not in pages} == set()


def test_each_page_is_a_file_that_a_builder_reads_without_code(tmp_path: Path) -> None:
    (tmp_path / "docs" / "reference").mkdir(parents=True)
    (tmp_path / "docs" / "reference" / "removed.md").write_text("No longer there.")
    site.write(tmp_path)
    text = (tmp_path / "docs" / "project" / "security.md").read_text(encoding="utf-8")
    assert text.startswith("---\nsearch: {boost: 0.05}\n---\n# Security")
    assert "](../review.md)" in text
    config = site.configuration(versions=False)
    nav = set(re.findall(r"[\w/]+\.md", str(config["nav"])))
    pages = {path.relative_to(tmp_path / "docs").as_posix() for path in tmp_path.rglob("*.md")}
    assert pages == nav
    assert not list(tmp_path.rglob("*.py"))
    # A server builds again whenever a file changes.
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    site.write(tmp_path)
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}


def test_paths_of_the_configuration_hold_in_each_folder_and_versions_have_a_menu() -> None:
    config = site.configuration(versions=False)
    options = config["plugins"][-1]["mkdocstrings"]["handlers"]["python"]
    paths = [*config["hooks"], *options["paths"], *options["options"]["extensions"]]
    assert all(Path(path).is_absolute() and Path(path).exists() for path in paths)
    assert "extra" not in config
    assert site.configuration(versions=True)["extra"] == {"version": {"provider": "mike"}}
