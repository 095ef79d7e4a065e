"""The report of replayed runs in a browser: it opens without a server, and fits on a phone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_factory import create_agent
from agent_factory.testing import ScriptedChatModel, record_agent, replay_folder
from web.conftest import NewPage


def find_order(order: str) -> str:
    """Find an order."""
    return f"{order} arrives on Thursday."


def build(model: Any, **options: Any) -> Any:
    return create_agent(model, [find_order], **options)


@pytest.fixture
def address(tmp_path: Path) -> str:
    """The folder that the report is in."""
    for name, expect in (("passed_before", ""), ("late/" + "long_name_" * 9, "never find_order")):
        call = {"name": "find_order", "args": {"order": "A-1001" * 20}}
        agent = record_agent(
            build(ScriptedChatModel([[call], "On Thursday."])),
            tmp_path / "runs" / f"{name}.jsonl",
            expect=expect,
        )
        agent.invoke({"messages": [("user", "Where is it?")]})
    report = replay_folder(lambda m: build(m, system_prompt="Be kind."), tmp_path / "runs")
    (tmp_path / "report.html").write_text(report.to_html(), encoding="utf-8")
    return f"file://{tmp_path}"


@pytest.mark.parametrize(("width", "dark"), [(1200, False), (1200, True), (360, False)])
def test_the_report_fits_and_opens(new_page: NewPage, width: int, dark: bool) -> None:
    page = new_page("/report.html", width=width, height=740, dark=dark)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, paper.strip("rgb()").split(","))) < 200) == dark
    failed, changed = page.locator("details").all()
    assert failed.locator("mark").inner_text().startswith("> 3  find_order(")
    assert not changed.locator("pre").is_visible()
    changed.locator("summary").click()
    assert "2  model: calls find_order" in changed.locator("pre").inner_text()
