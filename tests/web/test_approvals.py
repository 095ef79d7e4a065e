"""Standing approvals and rules in a browser."""

from __future__ import annotations

from uuid import uuid4

from playwright.sync_api import expect

from web.conftest import Desk, NewPage


def test_later_calls_are_approved_and_revoked(desk: Desk, new_page: NewPage) -> None:
    thread = f"t-{uuid4().hex[:8]}"
    wait = desk.waiting(thread)
    page = new_page(f"/inbox/{wait}")
    page.get_by_text("Approve later calls, too").click()
    page.get_by_label("For", exact=True).select_option("a day")
    page.get_by_label("Calls of refund").select_option("with any arguments")
    page.get_by_role("button", name="Approve this and later calls").click()
    expect(page.locator(f"#wait-{wait}")).to_contain_text("Approved by local")
    for run in desk.service.threads.runs(thread):
        run.result(60)
    again = desk.service.submit("desk", thread=thread, message="Another parcel is broken.")
    assert "Refunded" in again.result(60)["messages"][-1].text
    page.get_by_role("link", name="Approvals").click()
    row = page.locator("tbody tr")
    expect(row).to_contain_text("any arguments")
    expect(row).to_contain_text("in 23 h")
    expect(row.locator("td").nth(5)).to_have_text("1 time")
    page.get_by_role("button", name="Revoke the approval of refund by local").click()
    expect(page.get_by_text("There are none.")).to_be_visible()
    page.get_by_role("link", name="Ended ones, too").click()
    expect(page.get_by_text("revoked by local")).to_be_visible()
    desk.waiting(thread)  # it asks again


def test_a_call_that_has_changed_is_not_approved(desk: Desk, new_page: NewPage) -> None:
    wait = desk.waiting(f"t-{uuid4().hex[:8]}")
    page = new_page(f"/inbox/{wait}")
    page.locator("form.approve input[name=digest]").evaluate("one => { one.value = 'another'; }")
    page.get_by_role("button", name="Approve", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("another")
    assert desk.service.inbox().get(wait).decided_at is None


def test_the_rules_of_an_agent(new_page: NewPage) -> None:
    page = new_page("/studio")
    page.get_by_role("link", name="the rules of its tools").click()
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(4)
    expect(rows.nth(1)).to_contain_text("euros > 5000")
    expect(rows.nth(1)).to_contain_text("The office does that.")
