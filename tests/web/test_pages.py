"""All pages: light and dark, narrow and wide, for those who do not see them, and without a host."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page

from web.conftest import AXE, Desk, NewPage

SIZES = {"phone": (360, 740), "tablet": (900, 700), "desktop": (1440, 900), "wall": (3840, 2160)}
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@pytest.fixture(scope="module")
def paths(desk: Desk) -> list[str]:
    """An address of each kind of page."""
    first, second = desk.waiting("seen-1"), desk.waiting("seen-2", "ask me")
    desk.service.submit("desk", thread="seen-1", message="Wait, do not refund", waiting="queue")
    desk.service.inbox().claim(second, by="ann")
    desk.service.submit("desk", thread="seen-3", message="fail")
    archived = desk.service.threads.create("seen-5")
    desk.service.threads.change(archived.id, title="An old one", archived=True)
    done = desk.waiting("seen-4")
    desk.service.decide(done, "reject", by="ann", message="No.").result(60)
    at = [
        one.config["configurable"]["checkpoint_id"]
        for one in desk.service.threads.history("seen-4")
    ]
    runs = {
        name: desk.service.threads.runs(f"seen-{number}")[-1].id
        for number, name in ((1, "waits"), (3, "failed"), (4, "done"))
    }
    return [
        "/studio",
        "/studio?archived=1",
        "/studio/runs",
        "/studio/runs?text=nothing+has+this",
        *(f"/studio/runs/{run}" for run in runs.values()),
        "/studio/threads/seen-1/settings",
        "/studio/threads/seen-1/delete",
        "/studio/threads/seen-1",
        "/studio/threads/seen-3",
        f"/studio/threads/seen-4?at={at[3]}",
        "/studio/threads/seen-4/history",
        f"/studio/threads/seen-4/history?from={at[4]}&to={at[0]}",
        "/studio/agents/desk",
        "/inbox",
        f"/inbox/decisions?decision=approve&wait={first}&wait={second}",
        f"/inbox/decisions?decision=reject&wait={first}&wait={second}",
        f"/inbox/{first}",
        f"/inbox/{second}",
        f"/inbox/{done}",
        "/inbox/approvals",
        "/inbox/audit",
        "/studio/agents/desk/policy",
    ]


def violations(page: Page) -> list[str]:
    """What axe finds."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found: Any = page.evaluate(f"axe.run(document, {{runOnly: {RULES}}})")
    return [
        f"{one['id']}: {node['html'][:200]} {node.get('failureSummary', '')}"
        for one in found["violations"]
        for node in one["nodes"]
    ]


@pytest.mark.parametrize(
    ("size", "dark"),
    [("phone", False), ("tablet", True), ("desktop", False), ("desktop", True), ("wall", False)],
)
def test_all_can_use_all_pages(paths: list[str], new_page: NewPage, size: str, dark: bool) -> None:
    width, height = SIZES[size]
    # The script of axe is not a script of the page, whose policy would refuse it.
    page = new_page("/studio", width=width, height=height, dark=dark, bypass_csp=True)
    origin = page.url.removesuffix("/studio")
    for path in paths:
        page.goto(origin + path)
        page.wait_for_timeout(250)
        # Only tables and pictures may be wider than the window, in a frame of their own.
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
        page.wait_for_timeout(250)
        assert violations(page) == [], path


def test_the_theme_is_kept(new_page: NewPage) -> None:
    page = new_page("/studio")
    button = page.get_by_role("button", name="Theme")
    colors = []
    for theme in ("auto", "light", "dark"):
        assert button.text_content() == f"Theme: {theme}"
        colors.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        if theme != "dark":
            button.click()
    assert colors[0] == colors[1] != colors[2]
    page.reload()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == colors[2]


def test_all_pages_need_no_javascript(paths: list[str], address: str, new_page: NewPage) -> None:
    page = new_page("/studio", java_script_enabled=False)
    for path in paths:
        response = page.goto(address + path)
        assert response is not None
        assert response.ok
    page.goto(f"{address}/studio")
    page.get_by_label("Message").fill("talk")
    page.get_by_role("button", name="Send").click()
    assert "/studio/threads/" in page.url
