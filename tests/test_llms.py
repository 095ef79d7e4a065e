"""llms.txt and llms-full.txt: each page of the site, as Markdown whose links lead somewhere."""

from __future__ import annotations

import posixpath
import re
import subprocess
import sys
from pathlib import Path

import llms
import pytest
import yaml
from site_pages import FENCE, LINK, ROOT

from tables import each

NAV = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
PAGES = list(llms.pages(NAV))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    llms.write(folder, NAV)
    return folder


def text(site: Path, place: str) -> str:
    return (site / place).read_text(encoding="utf-8")


@pytest.mark.long
def test_each_page_of_the_navigation_is_listed_and_written(site: Path) -> None:
    places = re.findall(r"[\w/]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    listed = re.findall(r"^- \[.+\]\((.+)\): \S", text(site, "llms.txt"), flags=re.M)
    assert sorted(listed) == sorted(places)
    assert re.findall(r"^<!-- (\S+\.md) -->$", text(site, "llms-full.txt"), flags=re.M) == places
    assert {path.relative_to(site).as_posix() for path in site.rglob("*.md")} == set(places)


def test_the_list_has_the_form_of_llmstxt_org(site: Path) -> None:
    title, summary, remark, *sections = text(site, "llms.txt").split("\n\n")
    assert title == "# agent_factory"
    assert summary.startswith("> Python library")
    assert "llms-full.txt" in remark
    for heading, links in zip(sections[::2], sections[1::2], strict=True):
        assert re.fullmatch(r"## .+", heading)
        for line in links.strip().splitlines():
            assert re.fullmatch(r"- \[[^\]]+\]\([\w/]+\.md\): .+", line)
            assert line[-1] not in ":,", line
    assert sections[-2] == "## Optional"


@each("page", [*PAGES, "llms.txt", "llms-full.txt"])
def test_each_link_leads_to_a_file_of_the_site(site: Path, page: llms.Page | str) -> None:
    place = page if isinstance(page, str) else page.place
    for link in LINK.finditer(FENCE.sub("", text(site, place))):
        target = posixpath.normpath(posixpath.join(posixpath.dirname(place), link[2]))
        assert (site / target).is_file() or (ROOT / "docs" / target).is_file(), link[0]


@each("page", PAGES)
def test_a_page_is_plain_markdown_that_begins_with_its_title(site: Path, page: llms.Page) -> None:
    markdown = text(site, page.place)
    assert markdown.startswith("# ")
    prose = re.sub(r"`[^`\n]+`", "", FENCE.sub("", markdown))
    assert not re.search(r"<(?!code>|/code>|br>|https?:)/?[a-z]|^:::|\{[:.#]", prose, flags=re.M)
    assert markdown.strip() in text(site, "llms-full.txt") or LINK.search(prose)


def test_the_reference_has_signatures_and_what_they_do(site: Path) -> None:
    assert re.search(
        r"^- `create_agent\(model: .+, tools: .+\)`: .+",
        text(site, "reference/agent_factory/index.md"),
        re.M,
    )
    assert "  - `submit(" in text(site, "reference/service/index.md")
    assert "= <" not in text(site, "reference/middleware/index.md")


@pytest.mark.long
def test_it_runs_alone_and_prints_sizes_that_a_model_can_read(tmp_path: Path) -> None:
    command = [sys.executable, "scripts/llms.py", str(tmp_path)]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    sizes = dict(re.findall(r"^(\S+): ([\d,]+) tokens$", output, flags=re.M))
    listed, full = (int(sizes[name].replace(",", "")) for name in ("llms.txt", "llms-full.txt"))
    assert listed < 6_000
    assert full < 400_000
    assert f"of {full:,} tokens" in (tmp_path / "llms.txt").read_text()
