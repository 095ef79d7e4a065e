"""The chat screens of examples/screens in Chromium: a person writes, decides and stops."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from clients.bench import ROOT, running, versions, with_packages
from environments import outside

COMMANDS = {
    "chainlit": ("chainlit", "run", "--headless", "--port={port}"),
    "gradio": ("env", "GRADIO_SERVER_PORT={port}", "python"),
    "streamlit": ("streamlit", "run", "--server.headless=true", "--server.port={port}"),
}
PICTURES = os.environ.get("PICTURES")
"""A folder for a picture of each screen while a review waits."""

pytestmark = [pytest.mark.long, pytest.mark.night, pytest.mark.timeout(600)]


class Person:
    """A person at a page."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def say(self, text: str) -> None:
        # Gradio and Chainlit take no message while they answer.
        expect(self.page.locator(".generating, #stop-button")).to_have_count(0)
        self.page.get_by_role("textbox").last.fill(text)
        if self.page.locator("#chat-submit").count():
            self.page.locator("#chat-submit").click()
        else:
            self.page.keyboard.press("Enter")

    def see(self, text: str) -> None:
        expect(self.page.get_by_text(text).last).to_be_visible()

    def press(self, button: str) -> None:
        self.page.get_by_role("button", name=button, exact=True).last.click()

    def stop(self) -> None:
        stop = "#stop-button, button.stop-button, button[aria-label='Stop script']"
        self.page.locator(stop).click()


NewPerson = Callable[[], Person]


@pytest.fixture(scope="module", params=COMMANDS)
def screen(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str]]:
    """The name of a framework, and the URL of its screen."""
    name = request.param
    packages = with_packages({name: versions("screens")[name]})
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needs = [f"--with={requirement}" for requirement in project["dependencies"]]
    program = ROOT / "examples" / "screens" / f"{name}_desk.py"
    variables = {"PYTHONPATH": str(ROOT), "GRADIO_ANALYTICS_ENABLED": "False"}
    command = [*packages, *needs, *COMMANDS[name], program]
    folder = tmp_path_factory.mktemp(name)
    with running(command, folder, outside(**variables), health="/") as url:
        yield name, url


@pytest.fixture
def new_person(screen: tuple[str, str], browser: Browser) -> Iterator[NewPerson]:
    """Open a window for a person; it asks no other host, and shows no error at the end."""
    contexts: list[BrowserContext] = []
    errors: list[str] = []
    url = screen[1]

    def open() -> Person:
        context = browser.new_context(viewport={"width": 900, "height": 760}, color_scheme="light")
        contexts.append(context)
        here = url.removeprefix("http://")
        context.route(lambda asked: here not in asked, lambda route: route.abort())
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(url)
        return Person(page)

    yield open
    for context in contexts:
        context.close()
    assert errors == []


def test_a_person_chats_and_decides(screen: tuple[str, str], new_person: NewPerson) -> None:
    person = new_person()
    say, see, press = person.say, person.see, person.press
    say("Hello")
    see("This is message 1 of our conversation.")
    say("Where is A-1001?")
    see("A-1001: a lamp for 90 euros. It arrives on Thursday.")
    see("find_order")
    say("Pay A-1001 back")
    see("Run refund with {'order_id': 'A-1001', 'euros': 90}?")
    if PICTURES:
        person.page.screenshot(path=Path(PICTURES) / f"{screen[0]}.png")
    press("Approve")
    see("90 euros were paid back for order A-1001.")
    say("Pay B-7 back")
    see("Run refund with {'order_id': 'B-7', 'euros': 90}?")
    press("Reject")
    see("Nothing was paid back.")
    say("Now fail")
    see("The run has failed: The model does not answer.")
    say("Hello")
    see("This is message 6 of our conversation.")
    expect(person.page.get_by_text("90 euros were paid back for order B-7.")).to_have_count(0)


def test_a_stopped_answer_and_another_person(
    screen: tuple[str, str], new_person: NewPerson
) -> None:
    person, other = new_person(), new_person()
    person.say("Please count")
    person.see("1 2 3 4 5")
    other.say("Hello")
    other.see("This is message 1 of our conversation.")
    person.stop()
    person.say("Hello")
    person.see("This is message 2 of our conversation.")
    expect(person.page.get_by_text("997 998 999")).to_have_count(0)
