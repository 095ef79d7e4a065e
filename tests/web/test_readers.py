"""What readers of the pages notice: a long review, a phone, an old audit, moments in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

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


@pytest.mark.parametrize("width", [360, 1440])
def test_a_long_review_opens_at_its_head(
    desk: Desk, thread: str, new_page: NewPage, width: int
) -> None:
    wait = desk.waiting(thread)
    page = new_page(f"/studio/threads/{thread}", width=width, height=420)
    expect(page.locator(f"#wait-title-{wait}")).to_be_in_viewport()


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


def test_arguments_have_the_width_of_a_phone(desk: Desk, thread: str, new_page: NewPage) -> None:
    page = new_page(f"/inbox/{desk.waiting(thread)}", width=360, height=740)
    name, value = page.locator(".arguments dt").last, page.locator(".arguments dd").last
    box, other = name.bounding_box(), value.bounding_box()
    assert box is not None
    assert other is not None
    assert other["y"] >= box["y"] + box["height"]
    assert other["width"] > 250


def test_the_composer_of_a_phone_does_not_cover_a_review(
    desk: Desk, thread: str, new_page: NewPage
) -> None:
    desk.waiting(thread)
    page = new_page(f"/studio/threads/{thread}", width=360, height=740)
    expect(page.locator(".foot")).to_have_css("position", "static")
    page.get_by_role("button", name="Reject", exact=True).click()
    expect(page.locator(".wait")).to_have_count(0)
    expect(page.locator(".foot")).to_have_css("position", "sticky")


def test_a_phone_has_a_way_to_the_threads(new_page: NewPage) -> None:
    page = new_page("/studio", width=360, height=740)
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


def test_two_moments_of_the_same_second_are_told_apart(
    desk: Desk, thread: str, new_page: NewPage
) -> None:
    desk.service.submit("desk", thread=thread, message="talk").result(60)
    page = new_page(f"/studio/threads/{thread}/history")
    heads: Any = page.locator(".choose-heads")
    expect(heads).to_have_text("from to")
    page.get_by_label("From: you wrote: “talk”").check()
    page.get_by_role("button", name="Compare").click()
    ends = page.locator(".comparison .ends")
    expect(ends).to_contain_text("you wrote: “talk”")
    expect(ends).to_contain_text("desk answered: “Hello!")


def test_a_history_quotes_answers_without_their_markup(
    desk: Desk, thread: str, new_page: NewPage
) -> None:
    desk.service.decide(desk.waiting(thread), "approve", by="ann").result(60)
    page = new_page(f"/studio/threads/{thread}/history")
    expect(page.locator(".moments .by-ai").first).to_contain_text("“Done: Refunded 120.5 euros")


def test_a_review_does_not_say_that_it_is_one(desk: Desk, thread: str, new_page: NewPage) -> None:
    page = new_page(f"/inbox/{desk.waiting(thread)}")
    expect(page.locator(".wait.open")).not_to_contain_text("Tool execution requires approval")


def test_a_thread_that_is_gone_is_not_found_in_words(new_page: NewPage) -> None:
    page = new_page("/studio/threads/gone", allowed="404 (Not Found)")
    expect(page.get_by_role("heading", level=1)).to_have_text("Not found")
    expect(page.get_by_role("alert")).to_have_text("thread 'gone': does not exist.")


def test_many_tools_do_not_fill_a_phone_with_their_names(
    desk: Desk, thread: str, new_page: NewPage
) -> None:
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
