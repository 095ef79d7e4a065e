"""All pages: light and dark, narrow and wide, for those who do not see them, and without a host."""

from __future__ import annotations

import re
from threading import Event
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

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


def test_runs_are_found_and_an_address_says_how(desk: Desk, thread: str, new_page: NewPage) -> None:
    desk.service.submit("desk", thread=thread, message=f"talk {thread}").result(60)
    desk.waiting(f"{thread}-waits", f"{thread} is broken")
    page = new_page("/studio/runs")
    page.keyboard.press("/")
    page.keyboard.type(thread)
    rows = page.locator("#runs tbody tr")
    expect(rows).to_have_count(2)
    page.get_by_label("Status").select_option("waits for a person")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text(f"{thread} is broken")
    page.wait_for_url(f"**/studio/runs?text={thread}&status=waiting")
    page.reload()
    expect(rows).to_have_count(1)
    expect(page.get_by_label("Status")).to_have_value("waiting")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/studio/runs/[0-9a-f]{32}$"))
    expect(page.get_by_role("heading", level=1)).to_have_text(f"{thread} is broken")


@pytest.mark.parametrize(
    ("path", "rows"),
    [
        ("/studio/runs", "/studio/runs/rows"),
        ("/studio", "/studio/threads"),
        ("/inbox", "/inbox/rows"),
    ],
)
def test_a_slow_answer_does_not_undo_a_filter(
    desk: Desk, thread: str, new_page: NewPage, path: str, rows: str
) -> None:
    """A list asks also when something has changed, with the filter of that moment."""
    desk.waiting(thread, f"{thread} is broken")
    page = new_page(path)
    expect(page.locator(".htmx-request")).to_have_count(0)
    late: list[Route] = []
    page.route(f"**{rows}?*", lambda route: late.append(route), times=1)
    with page.expect_request(f"**{rows}?*"):
        page.evaluate("document.body.dispatchEvent(new Event('changed'))")
    page.get_by_role("searchbox").fill("no such words")
    page.wait_for_timeout(1000)  # a list that does not wait has asked again
    with page.expect_response(f"**{rows}?*"):
        late[0].continue_()
    expect(page.locator(".htmx-request")).to_have_count(0)
    expect(page.locator("main .empty, .list .empty")).to_contain_text("match")


def test_the_list_follows_what_happens(desk: Desk, thread: str, new_page: NewPage) -> None:
    page = new_page(f"/studio/runs?text={thread}")
    expect(page.locator("#runs .empty")).to_have_text("No runs match.")
    desk.service.submit("desk", thread=thread, message=f"talk {thread}").result(60)
    expect(page.locator("#runs tbody tr")).to_have_count(1)
    expect(page.locator("#runs .status")).to_have_text("done")


_OUTSIDE = """table => [...table.querySelectorAll("svg")].flatMap(svg => {
    const frame = svg.getBoundingClientRect();
    const boxes = [...svg.querySelectorAll("rect")].map(rect => rect.getBoundingClientRect());
    if (boxes.length === 0) return ["a row without a bar"];
    return boxes.filter(box => box.left < frame.left - 1 || box.right > frame.right + 1);
})"""


def test_the_timeline_is_read_as_a_table(desk: Desk, thread: str, new_page: NewPage) -> None:
    wait = desk.service.inbox().get(desk.waiting(thread))
    desk.service.decide(wait.id, "approve", by="ann").result(60)
    for width in (1440, 360):
        page = new_page(f"/studio/runs/{wait.run}", width=width)
        table = page.get_by_role("table", name="Timeline")
        names = table.get_by_role("rowheader").all_inner_texts()
        kinds = [re.split(r"\s{1,}", name.strip())[0] for name in names]
        # A hook that took long is shown as well.
        kinds = [kind for kind in kinds if kind != "Middleware"]
        assert kinds == ["Queue", "Model", "Tool", "Model", "Wait", "Tool", "Model"]
        row = table.get_by_role("row", name="refund waits for a person")
        expect(row).to_contain_text("approved by ann")
        expect(row.get_by_role("link")).to_have_attribute("href", f"/inbox/{wait.id}")
        # In one call, since the page may replace the table.
        assert table.evaluate(_OUTSIDE) == []


def test_a_run_is_seen_as_it_ends(desk: Desk, thread: str, new_page: NewPage, gate: Event) -> None:
    run = desk.service.submit("desk", thread=thread, message="talk, held")
    page = new_page(f"/studio/runs/{run.id}")
    expect(page.locator(".facts .status")).to_have_text("running")
    # A hook that took long is a step as well.
    expect(page.locator(".timeline .node").last).to_contain_text("model")
    gate.set()
    expect(page.locator(".facts .status")).to_have_text("done")
    expect(page.locator(".timeline .model")).to_have_count(1)
    expect(page.locator(".timeline .node")).to_have_count(0)
