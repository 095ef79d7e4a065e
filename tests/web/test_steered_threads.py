"""The composer of a thread whose run works, in a browser: it says what happens with a message."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, Response, expect

from agent_factory.middleware import HumanInTheLoopMiddleware
from service.stage import Stage
from web.conftest import Desk, NewPage, open_desk


@pytest.fixture
def desk(tmp_path: Path, stage: Stage) -> Iterator[Desk]:
    """A desk with agents that can be steered, and one that cannot."""
    with open_desk(f"sqlite:///{tmp_path}/desk.db") as new_desk:
        new_desk.service.add("steered", stage.agent(), busy="steer", decisions=True)
        new_desk.service.add("careful", stage.agent())
        new_desk.service.add("plain", stage.agent(steered=False))
        yield new_desk
        stage.go_on(1000)  # the worker ends with its tools


def at_work(desk: Desk, stage: Stage, new_page: NewPage, agent: str, **options: int) -> Page:
    """The page of a thread whose run works."""
    desk.service.submit(agent, thread="t", message="work for the customer")
    stage.wait_until_it_works()
    return new_page("/studio/threads/t", **options)


def send(page: Page, text: str) -> None:
    page.get_by_placeholder("Write to the agent").fill(text)
    page.get_by_role("button", name="Send", exact=True).click()


def test_a_message_is_read_at_the_next_step(desk: Desk, stage: Stage, new_page: NewPage) -> None:
    page = at_work(desk, stage, new_page, "steered")
    choice = page.locator("#choice")
    expect(choice).to_contain_text("read at its next step")
    expect(page.get_by_label("Send to the run")).to_be_checked()
    send(page, "In euros, please.")
    behind = page.locator("#held")
    expect(behind).to_contain_text("is read at the next step of the run")
    expect(behind).to_contain_text("In euros, please.")
    stage.go_on()
    expect(page.locator(".message.ai").last).to_contain_text("In euros, please.")
    expect(page.locator("#conversation .message.human")).to_have_count(2)
    expect(behind.locator("article")).to_have_count(0)
    expect(choice).to_have_text("")
    (message, run) = desk.service.threads.runs("t")
    assert message.info.reader == run.id


def test_a_message_that_was_read_leaves_the_list_while_the_run_works(
    desk: Desk, stage: Stage, new_page: NewPage
) -> None:
    page = at_work(desk, stage, new_page, "steered")
    looks: list[str] = []

    def note(answer: Response) -> None:
        if answer.url.endswith("/held"):
            looks.append(answer.url)

    page.on("response", note)
    send(page, "work once more")
    expect(page.locator("#held article")).to_have_count(1)
    while len(looks) < 2:  # the news of the sending
        page.wait_for_event("response")
    stage.go_on()
    stage.wait_until_it_works()
    expect(page.locator("#conversation .message.human")).to_have_count(2)
    expect(page.locator("#held article")).to_have_count(0)


def test_a_message_can_wait_for_its_turn(desk: Desk, stage: Stage, new_page: NewPage) -> None:
    page = at_work(desk, stage, new_page, "steered")
    page.get_by_label("Send after the run").check()
    send(page, "Later.")
    expect(page.locator("#held")).to_contain_text("waits for its turn")
    stage.go_on()
    expect(page.locator(".message.ai").last).to_contain_text("Later.")
    assert [run.info.reader for run in desk.service.threads.runs("t")] == [None, None]


def test_the_default_is_that_of_the_agent_if_it_can_be_steered(
    desk: Desk, stage: Stage, new_page: NewPage
) -> None:
    page = at_work(desk, stage, new_page, "careful")
    expect(page.get_by_label("Send after the run")).to_be_checked()
    expect(page.get_by_label("Send to the run")).to_be_visible()
    desk.service.submit("plain", thread="plain", message="work")
    stage.wait_until_it_works()
    page = new_page("/studio/threads/plain")
    expect(page.locator("#choice")).to_have_text("The message waits for its turn.")
    expect(page.locator("#choice input")).to_have_count(0)


def test_a_choice_outlives_the_news_of_the_run(desk: Desk, stage: Stage, new_page: NewPage) -> None:
    """A page whose run begins gets its head again, with the choice in it."""
    page = at_work(desk, stage, new_page, "steered")
    page.get_by_label("Send after the run").check()
    page.evaluate("document.querySelector('#head h1').id = 'old'")
    # As the page does with the news of a run.
    page.evaluate("htmx.ajax('GET', '/studio/threads/t/parts?only=head', {swap: 'none'})")
    expect(page.locator("#old")).to_have_count(0)
    expect(page.get_by_label("Send after the run")).to_be_checked()


def test_the_choice_changes_when_the_run_asks(desk: Desk, stage: Stage, new_page: NewPage) -> None:
    review = HumanInTheLoopMiddleware({"work": True})
    desk.service.add("asks", stage.agent(review), busy="steer")
    stage.at_answer.append(stage.work)
    desk.service.submit("asks", thread="t", message="hello")
    stage.wait_until_it_works()
    page = new_page("/studio/threads/t")
    page.get_by_label("Send after the run").check()
    send(page, "work, please")
    stage.go_on()
    expect(page.get_by_label("Send after the decision")).to_be_checked()
    expect(page.get_by_label("Send to the run")).to_have_count(0)


@pytest.mark.parametrize("width", [360, 1440])
def test_the_choice_fits_into_the_window(
    desk: Desk, stage: Stage, new_page: NewPage, width: int
) -> None:
    page = at_work(desk, stage, new_page, "steered", width=width, height=740)
    for label in page.locator("#choice label").all():
        box = label.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
    assert page.evaluate("document.documentElement.scrollWidth") <= width
