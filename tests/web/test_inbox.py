"""The inbox in a browser: decisions by mouse, by keyboard and without JavaScript."""

from __future__ import annotations

from playwright.sync_api import expect

from web.conftest import Desk, NewPage
from web.desk import EVIL


def test_a_list_that_is_replaced_keeps_focus(desk: Desk, thread: str, new_page: NewPage) -> None:
    wait = desk.waiting(thread)
    page = new_page(f"/inbox?text={thread}")
    page.keyboard.press("j")
    page.evaluate("document.querySelector('#waits li').id = 'old'")
    page.evaluate("document.body.dispatchEvent(new Event('changed'))")
    page.locator("#old").wait_for(state="detached")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/inbox/{wait}")


def test_two_browsers_at_once(desk: Desk, thread: str, new_page: NewPage) -> None:
    wait = desk.waiting(thread)
    one, other = new_page(f"/inbox/{wait}"), new_page(f"/inbox/{wait}")
    one.get_by_role("button", name="Approve", exact=True).click()
    expect(one.locator(f"#wait-{wait}")).to_contain_text("Approved by local")
    other.get_by_role("button", name="Reject", exact=True).click()
    expect(other.get_by_role("alert")).to_contain_text("was decided before: 'approve' by 'local'")
    assert desk.refunds(thread) == ["Refunded 120.5 euros for A-1001, urgent: False."]


def test_the_list_is_live(desk: Desk, thread: str, new_page: NewPage) -> None:
    page = new_page(f"/inbox?text={thread}")
    expect(page.locator(".rows .empty")).to_be_visible()
    expect(page.locator(".bulk")).to_be_hidden()
    wait = desk.waiting(thread)
    expect(page.locator(".row")).to_have_count(1)
    expect(page.locator(".bulk")).to_be_visible()
    page.locator(".row input").check()
    desk.waiting(f"{thread}-again")
    expect(page.locator(".row")).to_have_count(2)
    expect(page.locator(f".row input[value='{wait}']")).to_be_checked()
    desk.service.decide(wait, "approve", by="ann")
    expect(page.locator(".row")).to_have_count(1)


def test_what_is_said_is_only_text(desk: Desk, thread: str, new_page: NewPage) -> None:
    wait = desk.waiting(thread, f"evil {EVIL}")
    for path in ("/inbox", f"/inbox/{wait}", f"/studio/threads/{thread}", "/studio"):
        page = new_page(path)
        page.wait_for_timeout(300)
        assert page.title() != "hacked"
        assert page.locator("main img[src=x]").count() == 0
    desk.service.decide(wait, "reject", by="<b>ann</b>", message="<script>alert(1)</script>")
    page = new_page("/inbox/audit")
    expect(page.get_by_text("<b>ann</b>").first).to_be_visible()
