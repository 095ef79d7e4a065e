"""Front ends of others in Chromium: a person presses each button."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from playwright.sync_api import Browser, Page, expect
from web.chat_desk import HELD, add_chat, bookings, go_on

from agent_factory.service import Service
from processes import owned, wait_for_line
from servers import served

FOLDER = Path(__file__).parent / "front_ends"
pytestmark = [pytest.mark.long, pytest.mark.night, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The origin of the pages."""
    folder = tmp_path_factory.mktemp("front_ends")
    subprocess.run(["npm", "run", "build", "--", f"--outdir={folder}"], cwd=FOLDER, check=True)
    shutil.copy(FOLDER / "index.html", folder)
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(f"sqlite:///{tmp_path_factory.mktemp('chat')}/chat.db") as service:
        add_chat(service)
        go_on.clear()
        yield service
        go_on.set()


@pytest.fixture(scope="module")
def url(service: Service, site: str) -> Iterator[str]:
    with served(service, origins=[site]) as url:
        yield url


@pytest.fixture(scope="module")
def runtime(url: str) -> Iterator[str]:
    """The address of CopilotKit's runtime, whose agent speaks LangGraph's API."""
    with owned() as processes:
        program = FOLDER.parent / "programs" / "copilotkit_server.mjs"
        process = processes.start(["node", program, url, "chat"], stdout=subprocess.PIPE)
        yield wait_for_line(process, "runtime http").split()[1]


class Person:
    """A person at a page."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def say(self, text: str) -> None:
        self.page.get_by_role("textbox").last.fill(text)
        expect(self.page.locator(".busy")).to_have_count(0)
        self.page.keyboard.press("Enter")

    def see(self, text: str) -> None:
        """See a text, and the end of the run: a message is not taken before."""
        expect(self.page.get_by_text(text)).to_be_visible()
        expect(self.page.locator(".busy")).to_have_count(0)

    def press(self, button: str) -> None:
        self.page.get_by_role("button", name=button, exact=True).last.click()

    def edit(self, text: str, now: str) -> None:
        self.page.get_by_text(text, exact=True).hover()  # which shows the button in CopilotKit
        edits = self.page.get_by_role("button", name="Edit", include_hidden=True)
        edits.nth(["Hello", "Again"].index(text)).click()
        self.page.get_by_label("Edited message").fill(now)
        self.press("Save")


@pytest.mark.parametrize(
    ("name", "route"),
    [("assistant_ui", "ag_ui"), ("copilotkit", "ag_ui"), ("copilotkit", "langgraph")],
)
def test_each_button(
    name: str,
    route: str,
    browser: Browser,
    site: str,
    url: str,
    service: Service,
    request: pytest.FixtureRequest,
) -> None:
    bookings.clear()
    place = f"url={url}/ag-ui/chat%3Fmessages=all"
    if route == "langgraph":
        place = f"runtime={request.getfixturevalue('runtime')}"
    page = browser.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(f"{site}/?page={name}&{place}")
    person = Person(page)
    say, see, press = person.say, person.see, person.press
    say("Hello")
    see("Answer 1 to 'Hello'")
    first, count = "Hello", 1
    # Over LangGraph's API, CopilotKit adds to the conversation, and begins no branch.
    if route == "ag_ui":
        say("Again")
        see("Answer 2 to 'Again'")
        press("Regenerate")
        see("Answer 3 to 'Again'")
        person.edit("Again", "Edited")
        see("Answer 4 to 'Edited'")
        first, count = "First", 5
        person.edit("Hello", first)
        see("Answer 5 to 'First'")
    say("book lamp")
    see(f"Answer {count + 2}: Booked lamp.")
    if route == "ag_ui":
        press("Regenerate")
        see("Answer 8: Booked lamp.")
        count += 1
    assert bookings == ["lamp"]
    say("refund")
    expect(page.get_by_label("Review")).to_be_visible()
    page.reload()
    press("Approve")
    see(f"Answer {count + 4}: Refunded 40 euros.")
    say("refund")
    page.get_by_label("Arguments").fill('{"euros": 25}')
    press("Approve with changes")
    see(f"Answer {count + 6}: Refunded 25 euros.")
    say("refund")
    press("Reject")
    see(f"Answer {count + 8}: Too much.")
    say(HELD)
    expect(page.get_by_text("Slowly,")).to_be_visible()
    page.get_by_role("button").last.click()  # stops
    expect(page.locator(".busy")).to_have_count(0)
    say("More")
    see(f"Answer {count + 10} to 'More'")
    messages = service.threads.state(page.url.partition("#")[2]).values["messages"]
    said = [first, "book lamp", *["refund"] * 3, HELD, "More"]
    assert [message.text for message in messages if message.type == "human"] == said
    assert errors == []
    page.close()


def test_a_message_after_an_earlier_answer(
    browser: Browser,
    site: str,
    url: str,
    service: Service,
) -> None:
    page = browser.new_page()
    page.goto(f"{site}/?page=assistant_ui&url={url}/ag-ui/chat%3Fmessages=all")
    person = Person(page)
    person.say("Hello")
    person.see("Answer 1 to 'Hello'")
    person.press("Regenerate")
    person.see("Answer 2 to 'Hello'")
    person.press("Previous")
    person.say("More")
    person.see("Answer 3 to 'More'")
    messages = service.threads.state(page.url.partition("#")[2]).values["messages"]
    assert [message.text.split(" with")[0] for message in messages][:3] == [
        "Hello",
        "Answer 1 to 'Hello'",
        "More",
    ]
    page.close()
