"""Decisions as people make them: what was typed counts, and nothing else happens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from web.conftest import Desk, NewPage, open_desk
from web.desk import add_others


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with open_desk(f"sqlite:///{tmp_path_factory.mktemp('decisions')}/desk.db") as made:
        add_others(made.service)
        yield made


def undecided(desk: Desk, wait: str) -> bool:
    return desk.service.inbox().get(wait).decided_at is None


def type_over(page: Page, label: str, text: str) -> None:
    """Go to a field by the keyboard alone, and write something else."""
    while not page.get_by_label(label).evaluate("field => field === document.activeElement"):
        page.keyboard.press("Tab")
    page.keyboard.press("Control+a")
    page.keyboard.type(text)


@pytest.mark.parametrize("script", [True, False], ids=["JavaScript", "plain"])
@pytest.mark.parametrize("place", ["/inbox", "/studio/threads/{thread}"])
def test_ten_over_forty_and_enter_pays_ten(
    desk: Desk, thread: str, new_page: NewPage, place: str, script: bool
) -> None:
    wait = desk.waiting(thread)
    page = new_page(place.format(thread=thread), java_script_enabled=script)
    if place == "/inbox":
        page.get_by_placeholder("Find in messages").fill(thread)
        if not script:
            page.get_by_role("button", name="Find").click()
        page.locator(f"a[href='/inbox/{wait}']").click()
        expect(page.get_by_role("heading", name="desk wants to call refund")).to_be_visible()
    if script:
        page.keyboard.press("e")
    else:
        page.get_by_text("Change the arguments").click()
        page.get_by_label("order_id").focus()
    type_over(page, "euros required", "10")
    if script:
        expect(page.locator(".changes.script")).to_have_text("euros 120.5 → 10")
    page.keyboard.press("Enter")
    expect(page.locator(f"#wait-{wait}.decided, .decided-by").first).to_be_visible()
    assert "Refunded 10 euros for A-1001" in desk.refunds(thread)[0]
    (entry,) = desk.service.inbox().audit(thread=thread)
    assert (entry.what, entry.detail["via"]) == ("edit", "page")
    assert entry.detail["runs"]["args"]["euros"] == 10
    page.goto(f"{desk.url}/studio/threads/{thread}")
    expect(page.locator(".decided-by")).to_have_text(
        "changed by local: euros 120.5 → 10, urgent: False"
    )


@pytest.mark.parametrize("script", [True, False], ids=["JavaScript", "plain"])
def test_two_ticks_a_reason_and_enter_approve_nothing(
    desk: Desk, thread: str, new_page: NewPage, script: bool
) -> None:
    waits = [desk.waiting(f"{thread}-{number}") for number in range(2)]
    page = new_page(f"/inbox?text={thread}", java_script_enabled=script)
    for box in page.locator(".row input").all():
        box.check()
    page.locator(".row input").last.press("Enter")  # the first button, if a browser takes one
    page.wait_for_url("**/inbox/decisions?**")
    assert all(undecided(desk, wait) for wait in waits)
    page.go_back()
    for box in page.locator(".row input").all():
        box.check()
    page.get_by_role(
        "button", name="Reject 2 calls of refund" if script else "Reject chosen"
    ).click()
    expect(page.get_by_role("heading", name="Reject 2 calls of refund?")).to_be_visible()
    page.get_by_label("Reason").fill("Fraud: never pay this")
    page.keyboard.press("Enter")
    if not script:  # where Enter begins a new line
        assert all(undecided(desk, wait) for wait in waits)
        page.get_by_role("button", name="Reject 2 calls of refund").click()
    expect(page.get_by_role("status")).to_contain_text("2 of 2 rejected.")
    decided = [desk.service.inbox().get(wait).decision for wait in waits]
    assert [(one or {})["type"] for one in decided] == ["reject", "reject"]
    assert all((one or {})["message"].strip() == "Fraud: never pay this" for one in decided)


@pytest.mark.parametrize(
    ("typed", "pressed"),
    [
        ("change", "Approve"),
        ("change", "Reject"),
        ("change", "Claim it"),
        ("reason", "Approve"),
        ("reason", "Approve these arguments"),
        ("answer", "Approve"),
        ("answer", "Approve this and later calls"),
    ],
)
def test_what_is_typed_and_not_sent_is_not_passed_over(
    desk: Desk, thread: str, new_page: NewPage, typed: str, pressed: str
) -> None:
    wait = desk.waiting(thread)
    page = new_page(f"/inbox/{wait}")
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    page.get_by_label("only in this thread").check()
    label, text, said = {
        "change": ("euros required", "10", "euros 120.5 → 10"),
        "reason": ("Reason for a rejection", "Fraud", "the reason “Fraud”"),
        "answer": ("Answer", "42", "the answer “42”"),
    }[typed]
    page.get_by_label(label).fill(text)
    page.get_by_role("button", name=pressed, exact=True).click()
    expect(page.locator(".unsent")).to_contain_text(f"Nothing is decided: {said} was typed")
    assert undecided(desk, wait)
    expect(page.get_by_label(label)).to_have_value(text)
    page.get_by_role("button", name="Discard it").click()
    expect(page.locator(".unsent")).to_be_hidden()
    page.get_by_role("button", name=pressed, exact=True).click()
    expect(page.locator(f"#wait-{wait}")).to_contain_text("by local")


def test_a_change_outlives_news_of_the_thread(desk: Desk, thread: str, new_page: NewPage) -> None:
    wait = desk.waiting(thread)
    page = new_page(f"/studio/threads/{thread}")
    page.get_by_text("Change the arguments").click()
    page.get_by_label("euros required").fill("10")
    page.get_by_label("Send now").check()
    # As a browser does when somebody comes back to its window.
    with page.expect_response(lambda response: "/parts" in response.url):
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(page.get_by_label("euros required")).to_have_value("10")
    expect(page.get_by_label("Send now")).to_be_checked()
    assert undecided(desk, wait)


def test_approve_and_reject_are_alike(desk: Desk, thread: str, new_page: NewPage) -> None:
    wait = desk.waiting(thread)
    for width, height in ((1440, 900), (390, 800)):
        page = new_page(f"/inbox/{wait}", width=width, height=height)
        boxes: Any = [
            page.get_by_role("button", name=name, exact=True).bounding_box()
            for name in ("Approve", "Reject")
        ]
        approve, reject = boxes
        assert (approve["width"], approve["height"]) == (reject["width"], reject["height"])
        assert approve["y"] == reject["y"]


def test_the_keys_of_lists(desk: Desk, thread: str, new_page: NewPage) -> None:
    desk.waiting(f"{thread}-1")
    desk.waiting(f"{thread}-2")
    for path, rows in (("/studio", "#threads"), ("/inbox", "#waits")):
        page = new_page(f"{path}?text={thread}")
        expect(page.locator(f"{rows} a")).to_have_count(2)
        if path == "/studio":
            page.evaluate("document.activeElement.blur()")
        focused = page.locator(f"{rows} a:focus")
        for key, number in (("j", 0), ("j", 1), ("k", 0)):
            page.keyboard.press(key)
            expect(focused).to_have_attribute(
                "href", str(page.locator(f"{rows} a").nth(number).get_attribute("href"))
            )
        page.keyboard.press("/")
        expect(page.locator("input[type=search]")).to_be_focused()


@pytest.mark.parametrize("place", ["/inbox/{wait}", "/studio/threads/{thread}"])
@pytest.mark.parametrize(
    ("keys", "says"),
    [
        (["a", "Enter"], "Approved by local"),
        (["e", "B", "7", "Enter"], "Approved with changes by local"),
        (["r", "N", "o", "Enter"], "Rejected by local"),
        (["r", "Enter"], "Rejected by local"),
        (["w", "4", "2", "Enter"], "Answered by local"),
        (["w", "4", "Shift+Enter", "2", "Control+Enter"], "Answered by local"),
        (["c", "Enter"], "claimed by local"),
    ],
)
def test_the_keys_of_a_review(
    desk: Desk, thread: str, new_page: NewPage, place: str, keys: list[str], says: str
) -> None:
    wait = desk.waiting(thread)
    page = new_page(place.format(wait=wait, thread=thread))
    for key in keys:
        page.keyboard.press(key)
    if "studio" in place and "claimed" not in says:  # the run goes on, and the review closes
        expect(page.locator(f"#wait-{wait}.open")).to_have_count(0)
        page.goto(f"{desk.url}/inbox/{wait}")
    expect(page.locator(f"#wait-{wait}")).to_contain_text(says)


def test_keys_are_about_the_review_with_focus(desk: Desk, thread: str, new_page: NewPage) -> None:
    desk.waiting(thread, "two, please")
    first, second = desk.service.inbox().waits(thread=thread)
    page = new_page(f"/studio/threads/{thread}")
    page.locator(f"#wait-{second.id} h2").click()
    for key in ("a", "Enter"):
        page.keyboard.press(key)
    expect(page.locator(f"#wait-{second.id}.open")).to_have_count(0)
    assert (undecided(desk, first.id), undecided(desk, second.id)) == (True, False)


def test_the_keys_of_a_message(desk: Desk, thread: str, new_page: NewPage) -> None:
    desk.service.submit("desk", thread=thread, message="talk").result(60)
    page = new_page(f"/studio/threads/{thread}")
    for key in ("m", "t", "a", "l", "k", "Shift+Enter", "n", "o", "w"):
        page.keyboard.press(key)
    expect(page.locator("#text")).to_have_value("talk\nnow")
    page.keyboard.press("Enter")
    expect(page.locator(".message.human").last).to_contain_text("talk\nnow")
    expect(page.locator(".message")).to_have_count(4)


def test_a_form_is_ready_once_it_is_there(desk: Desk, thread: str, new_page: NewPage) -> None:
    """One that htmx has not prepared yet would be sent by the browser, which leaves the page."""
    desk.service.submit("desk", thread=thread, message="talk").result(60)
    page = new_page(f"/studio/threads/{thread}")
    page.evaluate("""
        () => {
          window.unprepared = [];
          new MutationObserver((changes) => {
            for (const { addedNodes } of changes) for (const node of addedNodes) {
              for (const form of node.querySelectorAll?.("form[hx-post]") || []) {
                if (!form["htmx-internal-data"]) unprepared.push(form.action);
              }
            }
          }).observe(document.body, { childList: true, subtree: true });
        }
    """)
    desk.waiting(thread, "Broken.")
    expect(page.locator(".wait.open form[hx-post]").first).to_be_attached()
    assert page.evaluate("unprepared") == []


def test_several_are_listed_before_a_decision(desk: Desk, thread: str, new_page: NewPage) -> None:
    waits = [desk.waiting(f"{thread}-{number}") for number in range(2)]
    question = desk.waiting(f"{thread}-ask", "ask me")
    page = new_page(f"/inbox?text={thread}")
    approve = page.locator(".bulk [data-verb=Approve]")
    expect(approve).to_be_disabled()
    page.get_by_label("all", exact=True).check()
    expect(approve).to_have_text("Approve 2 calls of refund, 1 of ask …")
    approve.click()
    expect(page.get_by_role("heading", name="Approve 2 calls of refund?")).to_be_visible()
    expect(page.locator(".calls dd", has_text="120.5")).to_have_count(2)
    expect(page.locator(".others")).to_contain_text("takes no 'approve', only respond")
    assert all(undecided(desk, wait) for wait in [*waits, question])
    desk.service.decide(waits[0], "reject", by="ann")  # meanwhile
    page.get_by_role("button", name="Approve 2 calls of refund").click()
    report = page.get_by_role("status")
    expect(report).to_contain_text("1 of 2 approved.")
    expect(report.locator("li")).to_contain_text(
        ["was decided before: 'reject' by 'ann'", "approved"]
    )
    assert undecided(desk, question)
