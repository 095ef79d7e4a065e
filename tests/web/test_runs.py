"""The pages of runs in a browser: found by filters, seen as they go, tried again, cancelled."""

from __future__ import annotations

import re
from threading import Event

import pytest
from playwright.sync_api import Route, expect

from web.conftest import Desk, NewPage


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


def test_the_timeline_is_a_table_to_be_read(desk: Desk, thread: str, new_page: NewPage) -> None:
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


def test_a_failed_run_is_tried_again(desk: Desk, thread: str, new_page: NewPage) -> None:
    run = desk.service.submit("desk", thread=thread, message="fail")
    page = new_page(f"/studio/runs/{run.id}")
    expect(page.get_by_role("heading", name="It failed at")).to_have_text(
        "It failed at a call of the model ScriptedChatModel"
    )
    expect(page.locator(".failure")).to_contain_text("the model is out of order")
    page.get_by_role("button", name="Try again from here").click()
    page.wait_for_url(lambda url: not url.endswith(run.id))
    expect(page.get_by_role("link", name="an earlier run")).to_have_attribute(
        "href", f"/studio/runs/{run.id}"
    )
    assert desk.service.threads.count_runs(thread) == 2


def test_a_run_is_cancelled_on_its_page(desk: Desk, thread: str, new_page: NewPage) -> None:
    wait = desk.service.inbox().get(desk.waiting(thread))
    page = new_page(f"/studio/runs/{wait.run}")
    page.get_by_role("button", name="Cancel the run").click()
    expect(page.locator(".facts .status")).to_have_text("cancelled")
    expect(page.locator(".timeline .wait")).to_contain_text("withdrawn by local")
    assert desk.service.threads.get(thread).status == "idle"


def test_a_thread_is_renamed_archived_deleted(desk: Desk, thread: str, new_page: NewPage) -> None:
    desk.service.submit("desk", thread=thread, message="talk").result(60)
    page = new_page(f"/studio/threads/{thread}")
    page.get_by_role("link", name="rename, archive, delete").click()
    page.get_by_label("Title").fill(f"Lamp {thread}")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Title")).to_have_value(f"Lamp {thread}")
    page.get_by_role("button", name="Archive").click()
    expect(page.get_by_role("heading", name="Archived")).to_be_visible()
    page.goto(f"{desk.url}/studio?text={thread}")
    expect(page.locator("#threads .empty")).to_be_visible()
    page.get_by_label("archived threads").check()
    expect(page.locator("#threads .title")).to_have_text(f"Lamp {thread}")
    page.goto(f"{desk.url}/studio/threads/{thread}/settings")
    page.get_by_role("link", name="Delete").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Delete “Lamp {thread}”?")
    page.get_by_role("button", name="Delete the thread").click()
    page.wait_for_url("**/studio")
    assert desk.service.threads.search(text=thread) == []
