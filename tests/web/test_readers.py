"""What readers of the pages notice: a phone, an old audit, moments in words, local time, a plan."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, expect

from agent_factory.serve.pages import inbox
from web.chat_desk import add_chat
from web.conftest import Desk, NewPage, open_desk


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with open_desk(f"sqlite:///{tmp_path_factory.mktemp('readers')}/desk.db") as desk:
        add_chat(desk.service)
        yield desk


def test_messages_of_a_review_are_copied_and_set_as_in_the_studio(
    desk: Desk, thread: str, new_page: NewPage
) -> None:
    desk.service.submit("chat", thread=thread, message="lamps").result(60)
    page = new_page(f"/inbox/{desk.waiting(thread, 'refund, please', 'chat')}")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    expect(page.locator(".code-block .k").first).not_to_have_css("color", "rgb(29, 33, 39)")
    button = page.get_by_role("button", name="Copy", exact=True).first
    expect(button).to_have_css("border-top-width", "0px")
    button.click()
    assert page.evaluate("navigator.clipboard.readText()") == "lamps"


def test_the_focus_goes_on_after_a_decision(desk: Desk, thread: str, new_page: NewPage) -> None:
    wait = desk.waiting(thread)
    page = new_page(f"/studio/threads/{thread}")
    expect(page.locator(f"#wait-{wait}")).to_be_focused()
    page.keyboard.press("r")
    page.keyboard.press("Enter")
    expect(page.locator("#conversation")).to_be_focused()
    expect(page.locator("#head .status")).to_have_text("idle")
    expect(page.locator("#conversation")).to_be_focused()
    page.keyboard.press("m")
    expect(page.get_by_placeholder("Write to the agent")).to_be_focused()
    wait = desk.waiting(f"{thread}-other")
    page = new_page(f"/inbox/{wait}")
    page.keyboard.press("a")
    page.keyboard.press("Enter")
    expect(page.locator(f"#wait-{wait}.decided")).to_be_focused()


def test_a_review_and_the_way_to_others_fit_on_a_phone(
    desk: Desk, thread: str, new_page: NewPage
) -> None:
    page = new_page(f"/inbox/{desk.waiting(thread)}", width=360, height=740)
    name, value = page.locator(".arguments dt").last, page.locator(".arguments dd").last
    box, other = name.bounding_box(), value.bounding_box()
    assert box is not None
    assert other is not None
    assert other["y"] >= box["y"] + box["height"]
    assert other["width"] > 250
    # The composer covers no review.
    page.goto(f"{desk.url}/studio/threads/{thread}")
    expect(page.locator(".foot")).to_have_css("position", "static")
    page.get_by_role("button", name="Reject", exact=True).click()
    expect(page.locator(".wait")).to_have_count(0)
    expect(page.locator(".foot")).to_have_css("position", "sticky")
    page.goto(f"{desk.url}/studio")
    page.get_by_role("link", name="Threads", exact=True).click()
    expect(page.get_by_label("Find a thread")).to_be_in_viewport()
    wide = new_page("/studio")
    expect(wide.get_by_role("link", name="Threads", exact=True)).to_be_hidden()


def test_an_auditor_reads_on_and_looks_for_a_person(
    desk: Desk, thread: str, new_page: NewPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbox, "ENTRIES", 2)
    person = f"eve-{thread}"
    for number in range(4):
        wait = desk.waiting(f"{thread}-{number}")
        desk.service.decide(wait, "reject", by=person if number else "ann", message=f"{number}.")
    page = new_page("/inbox/audit")
    page.get_by_label("Person").fill(person)
    page.keyboard.press("Enter")
    cells = page.locator("tbody td:nth-child(4)")
    expect(cells).to_have_count(2)
    expect(cells.first).to_contain_text("3.")
    page.get_by_role("link", name="Older entries").click()
    expect(cells).to_have_count(1)
    expect(cells).to_contain_text("1.")
    expect(page.get_by_label("Person")).to_have_value(person)
    expect(page.get_by_role("link", name="Older entries")).to_have_count(0)
    page.get_by_role("link", name="The newest").click()
    expect(cells.first).to_contain_text("3.")


def test_many_tools_do_not_fill_a_phone(desk: Desk, thread: str, new_page: NewPage) -> None:
    # The mark is in the title of each thread.
    mark = thread.replace("t-", "mark ")
    for number, (agent, text) in enumerate(
        [("desk", ""), ("desk", "ask me"), ("chat", "refund"), ("desk", "pause")]
    ):
        stops = {"interrupt_before": ["tools"]} if text == "pause" else {}
        desk.waiting(f"{thread}-{number}", f"{mark} {text}", agent, **stops)
    page = new_page(f"/inbox?text={mark}", width=360, height=740)
    page.get_by_label("all", exact=True).check()
    expect(page.get_by_role("button", name="Approve")).to_have_text("Approve 4 calls of 3 tools …")
    box = page.locator(".bulk").bounding_box()
    assert box is not None
    assert box["height"] < 140


def test_a_history_is_read_and_compared(desk: Desk, thread: str, new_page: NewPage) -> None:
    wait = desk.waiting(thread)
    args = {**desk.service.inbox().get(wait).args, "euros": 10.0}
    desk.service.decide(wait, "edit", args=args, by="ann").result(60)
    page = new_page(f"/studio/threads/{thread}", timezone_id="Asia/Tokyo")
    page.get_by_text("History", exact=True).click()
    decided = page.locator(".moments .decided")
    expect(decided).to_contain_text("ann changed and approved refund euros 120.5 → 10.0")
    step = page.locator(".moments .steps li").first
    expect(step).to_be_hidden()
    page.locator(".moments summary").first.click()
    expect(step).to_contain_text("step ")
    page.get_by_role("link", name="Compare two moments").click()
    expect(page.locator(".choose-heads")).to_have_text("from to")
    page.get_by_label("From: you wrote: “My parcel is broken.”").check()
    page.get_by_role("button", name="Compare").click()
    changes = page.locator(".comparison")
    expect(changes.locator(".ends")).to_contain_text("you wrote: “My parcel is broken.”")
    expect(changes.locator(".ends")).to_contain_text("desk answered: “Done: ")
    expect(changes).to_contain_text("1 message is the same.")
    expect(changes.locator("ins").first).to_contain_text("Let me look.")
    decided.locator("a").click()
    page.wait_for_url(f"**/inbox/{wait}")


@pytest.mark.parametrize("script", [True, False], ids=["JavaScript", "plain"])
def test_times_are_local_and_utc_is_their_title(
    desk: Desk, thread: str, new_page: NewPage, script: bool
) -> None:
    wait = desk.waiting(thread)
    desk.service.decide(wait, "approve", by="ann").result(60)
    path, zone = f"/inbox/audit?thread={thread}", "Asia/Kathmandu"  # 5:45 before UTC
    page = new_page(path, timezone_id=zone, java_script_enabled=script)
    time = page.locator("tbody time")
    utc, text = str(time.get_attribute("title")), str(time.text_content())
    assert re.fullmatch(r"[\d-]+ [\d:]{8} UTC", utc)
    if not script:
        assert text == utc
        return
    hours, minutes, seconds = map(int, text.split(" ")[-1].split(":"))
    of_utc = [int(part) for part in utc.split(" ")[1].split(":")]
    local = (of_utc[0] * 60 + of_utc[1] + 345) % 1440
    assert (hours * 60 + minutes, seconds) == (local, of_utc[2])


def test_times_stay_local_in_a_new_list(desk: Desk, thread: str, new_page: NewPage) -> None:
    for number in range(2):
        desk.service.submit("desk", thread=f"{thread}-{number}", message="talk").result(60)
    page = new_page(f"/studio?text={thread}", timezone_id="Asia/Kathmandu")
    began = page.locator("#threads time[data-local]").first
    expect(began).not_to_contain_text("UTC")
    page.evaluate("document.querySelector('#threads li').id = 'old'")
    page.evaluate("document.body.dispatchEvent(new Event('changed'))")
    page.locator("#old").wait_for(state="detached")
    expect(began).not_to_contain_text("UTC")


@pytest.mark.parametrize("script", [True, False], ids=["JavaScript", "plain"])
def test_a_phone_opens_at_the_review_or_has_a_way_to_it(
    desk: Desk, thread: str, new_page: NewPage, script: bool
) -> None:
    wait = desk.waiting(thread)
    for number in range(12):
        desk.service.submit("desk", thread=thread, message=f"Word {number} " * 40, waiting="queue")
    page = new_page(f"/studio/threads/{thread}", width=360, height=740, java_script_enabled=script)
    approve = page.get_by_role("button", name="Approve", exact=True)
    bar = page.get_by_role("link", name="1 decision waits")
    if script:
        expect(page.locator(f"#wait-{wait}")).to_be_in_viewport()
        expect(bar).to_be_hidden()
        page.evaluate("scrollTo(0, document.body.scrollHeight)")
    expect(bar).to_be_in_viewport()
    bar.click()
    expect(page.locator(f"#wait-title-{wait}")).to_be_in_viewport()
    approve.scroll_into_view_if_needed()
    expect(approve).to_be_in_viewport()
    wide = new_page(f"/studio/threads/{thread}", java_script_enabled=script)
    expect(wide.locator(".waiting-bar")).to_be_hidden()


def test_the_plan_fits_its_panel_and_shows_the_steps_of_the_run_first(
    desk: Desk, thread: str, new_page: NewPage
) -> None:
    desk.waiting(thread)
    page = new_page(f"/studio/threads/{thread}")
    steps = page.locator(".path li")
    expect(steps).to_have_text(
        [
            "before_agent ModelCallLimitMiddleware",
            "before_model ModelCallLimitMiddleware",
            "model",
            "tools",
            "after_model HumanInTheLoopMiddleware",
        ]
    )
    expect(page.locator(".path .waits")).to_have_text("after_model HumanInTheLoopMiddleware")
    plan, picture = page.locator("#plan"), page.locator("#plan svg")

    def width(part: Locator) -> float:
        return float(part.evaluate("part => part.clientWidth"))

    assert width(picture) <= width(plan)
    end = page.locator("#plan .node.terminal").last
    expect(end).to_have_css("opacity", "0.4")
    expect(page.locator("#plan .node.waits")).to_have_css("opacity", "1")
    expect(page.locator("#plan .node.waits")).to_be_in_viewport()
    fitted = width(picture)
    for _ in range(3):
        page.get_by_role("button", name="Larger").click()
    assert width(picture) > 1.5 * fitted
    page.get_by_role("button", name="Fit").click()
    assert width(picture) == fitted
    page.locator(".path button").first.click()
    expect(page.locator("#plan .node.before_model").first).to_be_in_viewport()
    desk.service.decide(desk.service.inbox().waits(thread=thread)[0].id, "approve", by="ann")
    expect(page.locator(".path .waits")).to_have_count(0)
