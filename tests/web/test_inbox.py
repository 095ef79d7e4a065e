"""The inbox in a browser: decisions by mouse, by keyboard and without JavaScript."""

from __future__ import annotations

from uuid import uuid4

from playwright.sync_api import expect

from web.conftest import Desk, NewPage


def results(desk: Desk, thread: str) -> list[str]:
    """What the tools of a thread have returned, once its run has ended."""
    for run in desk.service.threads.runs(thread):
        run.result(60)
    messages = desk.service.threads.state(thread).values["messages"]
    return [one.text for one in messages if one.type == "tool" and one.name == "refund"]


def test_a_call_is_approved(desk: Desk, thread: str, new_page: NewPage) -> None:
    wait = desk.waiting(thread)
    page = new_page("/inbox")
    page.locator(f"a[href='/inbox/{wait}']").click()
    expect(page.get_by_role("heading", name="desk wants to call refund")).to_be_visible()
    expect(page.locator(".arguments")).to_contain_text("A-1001")
    page.get_by_role("button", name="Approve", exact=True).click()
    expect(page.locator(f"#wait-{wait}")).to_contain_text("Approved by local")
    assert results(desk, thread) == ["Refunded 120.5 euros for A-1001, urgent: False."]


def test_a_call_is_edited(desk: Desk, thread: str, new_page: NewPage) -> None:
    wait = desk.waiting(thread)
    page = new_page(f"/inbox/{wait}")
    page.get_by_text("Change the arguments").click()
    page.get_by_label("euros required").fill("a lot")
    page.get_by_role("button", name="Approve these arguments").click()
    expect(page.locator(".field .problem")).to_have_text("Enter a number, not 'a lot'.")
    assert desk.service.inbox().get(wait).decided_at is None
    page.get_by_label("euros required").fill("60")
    page.get_by_label("urgent").select_option("true")
    page.get_by_role("button", name="Approve these arguments").click()
    expect(page.locator(f"#wait-{wait}")).to_contain_text("Approved with changes by local")
    assert "Refunded 60 euros for A-1001, urgent: True." in results(desk, thread)[0]


def test_a_call_is_rejected_with_a_reason(desk: Desk, thread: str, new_page: NewPage) -> None:
    wait = desk.waiting(thread)
    page = new_page(f"/inbox/{wait}")
    page.get_by_label("Reason for a rejection").fill("Too much <b>money</b>")
    page.get_by_role("button", name="Reject", exact=True).click()
    expect(page.locator(".quote")).to_have_text("Too much <b>money</b>")
    assert "Too much <b>money</b>" in results(desk, thread)[0]


def test_a_question_is_answered(desk: Desk, thread: str, new_page: NewPage) -> None:
    wait = desk.waiting(thread, "ask me")
    page = new_page(f"/inbox/{wait}")
    expect(page.locator(".question")).to_have_text("Which color?")
    page.get_by_role("button", name="Send the answer").click()
    expect(page.get_by_role("alert")).to_have_text("Write the answer first.")
    page.get_by_role("textbox", name="Answer").fill("Green")
    page.get_by_role("button", name="Send the answer").click()
    expect(page.locator(".quote")).to_have_text("Green")


def test_the_keyboard_is_enough(desk: Desk, thread: str, new_page: NewPage) -> None:
    wait = desk.waiting(thread)
    page = new_page(f"/inbox?text={thread}")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/inbox/{wait}")
    page.keyboard.press("r")
    page.keyboard.type("No.")
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Reject", exact=True)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(f"#wait-{wait}")).to_contain_text("Rejected by local")


def test_a_list_that_is_replaced_keeps_the_focus(
    desk: Desk, thread: str, new_page: NewPage
) -> None:
    wait = desk.waiting(thread)
    page = new_page(f"/inbox?text={thread}")
    page.keyboard.press("j")
    page.evaluate("document.querySelector('#waits li').id = 'old'")
    page.evaluate("document.body.dispatchEvent(new Event('changed'))")
    page.locator("#old").wait_for(state="detached")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/inbox/{wait}")


def test_a_decision_needs_no_javascript(desk: Desk, thread: str, new_page: NewPage) -> None:
    wait = desk.waiting(thread)
    page = new_page("/inbox", java_script_enabled=False)
    page.get_by_placeholder("Find in messages").fill(thread)
    page.get_by_role("button", name="Find").click()
    page.locator(".row a").click()
    page.get_by_text("Change the arguments").click()
    page.get_by_label("euros required").fill("many")
    page.get_by_role("button", name="Approve these arguments").click()
    expect(page.locator(".field .problem")).to_have_text("Enter a number, not 'many'.")
    page.get_by_label("euros required").fill("12")
    page.get_by_role("button", name="Approve these arguments").click()
    expect(page.locator(f"#wait-{wait}")).to_contain_text("Approved with changes by local")
    assert "Refunded 12 euros" in results(desk, thread)[0]


def test_two_browsers_at_once(desk: Desk, thread: str, new_page: NewPage) -> None:
    wait = desk.waiting(thread)
    one, other = new_page(f"/inbox/{wait}"), new_page(f"/inbox/{wait}")
    one.get_by_role("button", name="Approve", exact=True).click()
    expect(one.locator(f"#wait-{wait}")).to_contain_text("Approved by local")
    other.get_by_role("button", name="Reject", exact=True).click()
    expect(other.get_by_role("alert")).to_contain_text("was decided before: 'approve' by 'local'")
    assert results(desk, thread) == ["Refunded 120.5 euros for A-1001, urgent: False."]


def test_a_claim_of_another_person(desk: Desk, thread: str, new_page: NewPage) -> None:
    wait = desk.waiting(thread)
    desk.service.inbox().claim(wait, by="ann")
    page = new_page(f"/inbox/{wait}")
    expect(page.get_by_text("claimed by ann")).to_be_visible()
    page.get_by_role("button", name="Approve", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("is claimed by 'ann'")
    desk.service.inbox().release(wait, by="ann")
    page.reload()
    page.get_by_role("button", name="Claim it").click()
    expect(page.get_by_role("button", name="Release it")).to_be_visible()
    assert desk.service.inbox().get(wait).claimed_by == "local"


def test_several_are_decided_together(desk: Desk, new_page: NewPage) -> None:
    mark = uuid4().hex[:6]
    waits = [desk.waiting(f"{mark}-{number}") for number in range(3)]
    page = new_page(f"/inbox?text={mark}", java_script_enabled=False)  # so the list stays
    for box in page.locator(".row input").all():
        box.check()
    page.get_by_role("button", name="Reject chosen").click()
    desk.service.decide(waits[0], "approve", by="ann")  # in the meantime
    page.get_by_label("Reason").fill("Not today.")
    page.get_by_role("button", name="Reject 3 calls of refund").click()
    expect(page.get_by_role("status")).to_contain_text("2 of 3 rejected.")
    expect(page.get_by_role("status")).to_contain_text("was decided before: 'approve' by 'ann'")
    decided = [desk.service.inbox().get(wait) for wait in waits]
    kinds = [one.decision["type"] for one in decided if one.decision]
    assert kinds == ["approve", "reject", "reject"]


def test_all_are_chosen_at_once(desk: Desk, new_page: NewPage) -> None:
    mark = uuid4().hex[:6]
    waits = [desk.waiting(f"{mark}-{number}") for number in range(2)]
    page = new_page(f"/inbox?text={mark}")
    page.get_by_label("all", exact=True).check()
    page.get_by_role("button", name="Approve 2 calls of refund").click()  # lists them
    page.get_by_role("button", name="Approve 2 calls of refund").click()
    expect(page.get_by_role("status")).to_contain_text("2 of 2 approved.")
    assert {desk.service.inbox().get(wait).decided_by for wait in waits} == {"local"}


def test_the_list_is_live(desk: Desk, thread: str, new_page: NewPage) -> None:
    page = new_page(f"/inbox?text={thread}")
    expect(page.locator(".rows .empty")).to_be_visible()
    wait = desk.waiting(thread)
    expect(page.locator(".row")).to_have_count(1)
    page.locator(".row input").check()
    desk.waiting(f"{thread}-again")
    expect(page.locator(".row")).to_have_count(2)
    expect(page.locator(f".row input[value='{wait}']")).to_be_checked()
    desk.service.decide(wait, "approve", by="ann")
    expect(page.locator(".row")).to_have_count(1)


def test_filters(desk: Desk, thread: str, new_page: NewPage) -> None:
    desk.waiting(thread)
    desk.waiting(f"{thread}-ask", "ask me")
    page = new_page("/inbox")
    page.get_by_placeholder("Find in messages").fill(thread)
    expect(page.locator(".row")).to_have_count(2)
    page.get_by_label("Tool").select_option("ask")
    expect(page.locator(".row")).to_have_count(1)
    page.get_by_label("claimed by me").check()
    expect(page.locator(".rows .empty")).to_contain_text("Nothing here matches")


def test_what_is_said_is_only_text(desk: Desk, thread: str, new_page: NewPage) -> None:
    wait = desk.waiting(thread, f"evil {'<script>document.title=1</script>'}")
    for path in ("/inbox", f"/inbox/{wait}", f"/studio/threads/{thread}", "/studio"):
        page = new_page(path)
        page.wait_for_timeout(300)
        assert "hacked" not in page.title()
        assert page.locator("main img[src=x]").count() == 0
    desk.service.decide(wait, "reject", by="<b>ann</b>", message="<script>alert(1)</script>")
    page = new_page("/inbox/audit")
    expect(page.get_by_text("<b>ann</b>").first).to_be_visible()
