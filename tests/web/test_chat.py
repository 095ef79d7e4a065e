"""The chat of the studio in a browser: versions, copies, files, tokens, the focus, the state."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from playwright.sync_api import Page, expect

from web.chat_desk import HELD, MARKDOWN, add_chat, bookings, go_on
from web.conftest import Desk, NewPage, open_desk
from web.test_pages import SIZES, violations

PNG = b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
    "gg=="
)
FILE: Any = {"name": "lamp.png", "mimeType": "image/png", "buffer": PNG}
STAYS = "window.setTimeout = () => {}"
"""Lets "Copied" stay, however slow the machine is."""

TRANSFER = """([kind, content, type]) => {
    const bytes = Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0));
    const files = new DataTransfer();
    files.items.add(new File([bytes], "dropped.png", { type }));
    const options = { bubbles: true, cancelable: true };
    const event = kind === "paste"
        ? new ClipboardEvent(kind, { ...options, clipboardData: files })
        : new DragEvent(kind, { ...options, dataTransfer: files });
    document.getElementById("text").dispatchEvent(event);
}"""


@pytest.fixture(scope="module")
def desk(database: str) -> Iterator[Desk]:
    with open_desk(database, add_chat) as desk:
        yield desk


@pytest.fixture(autouse=True)
def hold() -> Iterator[None]:
    """Models and tools wait where they are asked to, and no longer than the test."""
    go_on.clear()
    yield
    go_on.set()


Chat = Callable[..., Page]


@pytest.fixture
def chat(desk: Desk, thread: str, new_page: NewPage) -> Chat:
    """Say something in a thread, and open its page: `chat("Hello", width=360)`."""

    def open(*messages: str, agent: str = "chat", **options: Any) -> Page:
        for message in messages:
            desk.service.submit(agent, thread=thread, message=message).result(60)
        return new_page(f"/studio/threads/{thread}", **options)

    return open


def write(page: Page, text: str) -> None:
    page.get_by_label("Message", exact=True).fill(text)
    page.keyboard.press("Enter")


def test_an_answer_is_regenerated_and_both_versions_are_reached(thread: str, chat: Chat) -> None:
    page = chat("Hello")
    page.get_by_label("Message", exact=True).fill("A draft")
    page.get_by_role("button", name="Regenerate").click()
    answer, versions = page.locator(".message.ai .text"), page.locator(".versions")
    expect(answer).to_have_text(["Answer 2 to 'Hello' with text"])
    expect(versions).to_contain_text("2/2")
    expect(page.get_by_label("Message", exact=True)).to_have_value("A draft")
    page.get_by_label("The version before").click()
    expect(answer).to_have_text(["Answer 1 to 'Hello' with text"])
    expect(versions).to_contain_text("1/2")
    page.get_by_label("The version after").click()
    page.wait_for_url(f"**/studio/threads/{thread}")
    expect(answer).to_have_text(["Answer 2 to 'Hello' with text"])
    page.get_by_label("The version before").click()
    page.get_by_placeholder("Write in this branch").fill("And?")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/studio/threads/{thread}")
    expect(answer).to_have_text(["Answer 1 to 'Hello' with text", "Answer 3 to 'And?' with text"])
    expect(versions).to_contain_text("1/2")


def test_an_answer_with_calls_says_first_what_runs_again(thread: str, chat: Chat) -> None:
    page = chat(f"book {thread}")
    page.get_by_label("Regenerate this answer").click()
    whole = page.locator(".fork form", has_text="Answer the question again")
    expect(whole.locator(".again")).to_have_text(f"book lamp='{thread}'")
    assert bookings.count(thread) == 1
    page.get_by_role("button", name="Write this message again").click()
    expect(page.locator(".message.ai .text").last).to_have_text(f"Answer 3: Booked {thread}.")
    assert bookings.count(thread) == 1
    page.get_by_label("Regenerate this answer").click()
    whole.get_by_role("button").click()
    expect(page.locator(".message.ai .text").last).to_have_text(f"Answer 5: Booked {thread}.")
    assert bookings.count(thread) == 2


def test_a_message_is_edited_and_sent_again(chat: Chat) -> None:
    page = chat("one", "two")
    page.get_by_label("Edit and send again").first.click()
    field = page.get_by_label("New text").first
    expect(field).to_be_focused()
    page.keyboard.type(" more")
    page.keyboard.press("Enter")
    expect(page.locator(".message .text")).to_have_text(
        ["one more", "Answer 3 to 'one more' with text"]
    )
    expect(page.locator(".message.human .versions")).to_contain_text("2/2")
    page.get_by_label("The version before").click()
    expect(page.locator(".message.human .text")).to_have_text(["one", "two"])


def test_another_window_shows_the_branch_while_it_is_written(chat: Chat) -> None:
    page, other = chat("Hello", HELD[:2]), chat()
    page.get_by_label("Edit and send again").last.click()
    page.get_by_label("New text").last.fill(HELD)
    page.locator(".fork[open] .primary").click()
    for window in (page, other):
        expect(window.locator(".message.human .text")).to_have_text(["Hello", HELD])
        expect(window.locator(".message.writing .text")).to_have_text("Slowly, ")
    go_on.set()
    for window in (page, other):
        expect(window.locator(".message.ai .text").last).to_have_text("Slowly, answer 3")


def test_a_message_and_its_code_are_copied_which_is_seen_after_a_change_too(
    desk: Desk, thread: str, chat: Chat
) -> None:
    page = chat("Which lamps?", permissions=["clipboard-read", "clipboard-write"])
    page.evaluate(STAYS)
    code = MARKDOWN.partition("```python\n")[2].partition("```")[0]
    for place, text in (
        (".code-block [data-copy-code]", code),
        (".message.ai > .actions [data-copy]", MARKDOWN),
        (".message.human > .actions [data-copy]", "Which lamps?"),
    ):
        page.locator(place).click()
        expect(page.locator(place)).to_have_text("Copied")
        assert page.evaluate("navigator.clipboard.readText()") == text
    with page.expect_response("**/parts*"):
        desk.service.threads.update_state(thread, {"scores": [1]})
    expect(page.locator(".htmx-request")).to_have_count(0)
    buttons = page.locator("#conversation [data-copy], #conversation [data-copy-code]")
    expect(buttons).to_have_text(["Copied"] * 3)


def test_a_page_that_is_new_is_not_drawn_again(desk: Desk, thread: str, chat: Chat) -> None:
    """Who has begun to read, to mark or to write in it goes on."""
    page = chat("Which lamps?")
    page.goto(f"{desk.url}/studio")
    marks = "() => { document.documentElement.dataset.settled = ''; }"
    page.add_init_script(f"document.addEventListener('run:settled', {marks}, true)")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{desk.url}/studio/threads/{thread}")
    expect(page.locator("html[data-settled]")).to_be_attached()
    expect(page.locator("#plan .lit").first).to_be_visible()
    assert not [url for url in asked if "/parts" in url]


def test_code_is_copied_without_a_clipboard(chat: Chat) -> None:
    """Over http, other machines than this one have none."""
    page = chat("Which lamps?")
    page.evaluate(STAYS)
    page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    page.evaluate("document.addEventListener('copy', () => { copied = String(getSelection()); })")
    page.evaluate("window.copied = ''")
    page.get_by_role("button", name="Copy code").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert "def total(prices)" in page.evaluate("copied")


@pytest.mark.parametrize("way", ["picker", "paste", "drop"])
def test_a_picture_is_attached_and_shown(chat: Chat, way: str) -> None:
    page = chat("Hello")
    if way == "picker":
        page.set_input_files("#files", FILE)
    else:
        page.evaluate(TRANSFER, [way, b64encode(PNG).decode(), "image/png"])
    expect(page.locator(".attached li")).to_contain_text("png, 70 bytes")
    page.get_by_label("Message", exact=True).press("Enter")  # a picture needs no words
    picture = page.locator(".message.human .picture img")
    expect(picture).to_be_visible()
    assert picture.evaluate("picture => picture.naturalWidth") == 1
    expect(page.locator(".message.ai .text").last).to_have_text("Answer 2 to '' with image")
    expect(page.locator(".attached li")).to_have_count(0)
    expect(page.locator(".message.human .picture img")).to_be_visible()


def test_a_file_that_is_too_large_or_of_another_kind_is_not_attached(chat: Chat) -> None:
    page = chat("Hello")
    alert = page.locator(".attach .problem")
    large: Any = {**FILE, "buffer": PNG + bytes(5_000_000)}
    page.set_input_files("#files", large)
    expect(alert).to_contain_text("5,000,070 bytes together, and 5,000,000 bytes is the most")
    page.evaluate(TRANSFER, ["drop", b64encode(b"<svg/>").decode(), "image/svg+xml"])
    expect(alert).to_contain_text("got image/svg+xml")
    expect(page.locator(".attached li")).to_have_count(0)
    page.set_input_files("#files", [FILE, {**FILE, "name": "beam.png"}])
    expect(page.locator(".attached li")).to_have_count(2)
    page.get_by_label("Remove beam.png").click()
    expect(page.locator(".attached li")).to_have_count(1)
    expect(page.get_by_label("Message", exact=True)).to_be_focused()


def test_files_are_offered_for_agents_that_take_them(new_page: NewPage, chat: Chat) -> None:
    assert chat("Hello", agent="plain").get_by_text("Attach a file").count() == 0
    page = new_page("/studio")
    offer = page.get_by_text("Attach a file")
    page.locator("#agent").select_option("plain")
    expect(offer).to_be_hidden()
    page.locator("#agent").select_option("chat")
    expect(offer).to_be_visible()
    page.set_input_files("#files", FILE)
    page.get_by_role("button", name="Send").click()
    page.wait_for_url("**/studio/threads/*")
    expect(page.locator(".message.human .picture img")).to_be_visible()


def test_tokens_are_shown_as_they_come_until_the_run_ends_or_is_stopped(chat: Chat) -> None:
    page = chat("Hello")
    write(page, HELD)
    expect(page.locator(".message.writing .text")).to_have_text("Slowly, ")
    expect(page.locator("#doing")).to_have_text("writing")
    go_on.set()
    expect(page.locator(".message.ai strong")).to_have_text("answer 2")
    expect(page.locator("#doing")).to_have_count(0)
    go_on.clear()
    write(page, f"{HELD} again")
    expect(page.locator(".message.writing")).to_be_visible()
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("#head .status")).to_have_text("idle")
    expect(page.get_by_role("button", name="Stop")).to_have_count(0)
    expect(page.locator(".message.writing")).to_have_count(0)
    expect(page.locator(".message.human .text").last).to_have_text(f"{HELD} again")


def test_a_page_says_what_the_run_does(desk: Desk, thread: str, chat: Chat) -> None:
    page = chat("Hello")
    doing = page.locator("#doing")
    write(page, f"book {HELD}")
    expect(doing).to_have_text("calling book")
    page.reload()
    expect(doing).to_have_text("calling book")
    go_on.set()
    expect(doing).to_have_count(0)
    write(page, "refund it")
    expect(doing).to_have_text("waiting for a decision")
    wait = desk.service.inbox().waits(thread=thread)[0]
    desk.service.inbox().claim(wait.id, by="ann")
    page.reload()
    expect(doing).to_have_text("waiting for ann")


def test_who_reads_further_up_keeps_the_place(thread: str, chat: Chat) -> None:
    page = chat("Which lamps?", "More lamps?", f"book {thread}")
    call = page.locator(".call > details").first
    call.locator("summary").click()
    write(page, HELD)
    expect(page.locator(".message.writing .text")).to_have_text("Slowly, ")
    page.locator("#scroll").evaluate("part => { part.scrollTop = 200; }")
    where = "document.querySelector('.message.ai').getBoundingClientRect().top"
    before = page.evaluate(where)
    go_on.set()
    expect(page.locator(".message.ai strong").last).to_have_text("answer 5")
    expect(page.locator("#head .status")).to_have_text("idle")
    expect(page.get_by_label("Edit and send again")).to_have_count(4)
    assert page.evaluate(where) == before
    assert call.evaluate("part => part.open")


def test_who_is_at_the_end_stays_there(chat: Chat) -> None:
    for width in (1440, 360):
        page = chat("Which lamps?", "More lamps?", width=width, height=740)
        expect(page.get_by_role("button", name="Regenerate")).to_be_in_viewport()
        go_on.clear()
        write(page, HELD)
        expect(page.locator(".message.writing .text")).to_be_in_viewport()
        go_on.set()
        expect(page.locator("#head .status")).to_have_text("idle")
        expect(page.get_by_role("button", name="Regenerate")).to_be_in_viewport()


def test_the_focus_is_where_one_goes_on(chat: Chat) -> None:
    page = chat("Hello")
    composer = page.get_by_label("Message", exact=True)
    write(page, "Hello again")
    expect(page.locator(".message.ai")).to_have_count(2)
    expect(composer).to_be_focused()
    write(page, "refund it")
    expect(page.locator(".wait.open")).to_be_focused()


def test_keys_of_a_review_are_letters_in_a_message_and_nothing_outside_of_both(
    desk: Desk, thread: str, chat: Chat
) -> None:
    page = chat("refund it")
    composer = page.get_by_label("Message", exact=True)
    composer.click()
    page.keyboard.type("aerwc")
    expect(composer).to_have_value("aerwc")
    page.locator("#head h1").click()
    for key in ("a", "Enter", "e", "r", "w"):
        page.keyboard.press(key)
    assert page.locator(".choice[open]").count() == 0
    expect(composer).to_have_value("aerwc")
    page.locator(".wait h2").click()
    page.keyboard.press("e")
    expect(page.locator(".choice[open]")).to_have_count(1)
    (wait,) = desk.service.inbox().waits(thread=thread)
    assert wait.decided_at is None


def test_a_message_that_somebody_writes_keeps_the_focus_also_when_it_is_emptied(
    desk: Desk, thread: str, chat: Chat
) -> None:
    page = chat("Hello")
    composer = page.get_by_label("Message", exact=True)
    composer.click()
    page.keyboard.type("x")
    page.keyboard.press("Backspace")
    desk.service.submit("chat", thread=thread, message="refund it").result(60)
    expect(page.locator(".wait.open")).to_be_visible()
    expect(page.locator("#doing")).to_have_text("waiting for a decision")
    page.keyboard.type("a")
    expect(composer).to_have_value("a")


def test_a_developer_edits_the_state_which_outlives_a_run(
    desk: Desk, thread: str, chat: Chat
) -> None:
    page = chat("Hello")
    page.get_by_text("Developer").click()
    button = page.get_by_role("button", name="Write to the state")
    page.get_by_label("scores").fill("[1, 'two']")
    button.click()
    expect(page.get_by_text("scores is not JSON")).to_be_visible()
    expect(page.get_by_label("scores")).to_have_value("[1, 'two']")
    page.get_by_label("scores").fill("[1, 2]")
    button.click()
    expect(page.get_by_text("Written: scores.")).to_be_visible()
    assert desk.service.threads.state(thread).values["scores"] == [1, 2]
    desk.service.threads.update_state(thread, {"messages": [HumanMessage("Written elsewhere.")]})
    expect(page.locator(".message.human .text").last).to_have_text("Written elsewhere.")
    expect(page.get_by_text("Written: scores.")).to_be_visible()
    page.get_by_label("note").fill('"half')
    write(page, "Hello again")
    expect(page.locator(".message.ai")).to_have_count(2)
    expect(page.locator("#head .status")).to_have_text("idle")
    expect(page.get_by_label("note")).to_have_value('"half')
    page.get_by_label("note").fill('"whole"')
    button.click()
    expect(page.get_by_text("The state has changed since it was shown")).to_be_visible()


def test_a_breakpoint_is_for_the_next_run(thread: str, chat: Chat) -> None:
    page = chat("Hello")
    page.get_by_text("Developer").click()
    page.get_by_label("Stop before tools").check()
    expect(page.get_by_text("The next run stops before tools.")).to_be_visible()
    write(page, f"book {thread}")
    expect(page.locator(".wait.open")).to_contain_text("stopped before")
    expect(page.get_by_label("Stop before tools")).not_to_be_checked()
    assert thread not in bookings
    page.get_by_role("button", name="Approve").click()
    expect(page.locator(".message.ai .text").last).to_have_text(f"Answer 3: Booked {thread}.")
    write(page, f"book {thread}")
    expect(page.locator(".message.ai .text").last).to_have_text(f"Answer 5: Booked {thread}.")


@pytest.mark.parametrize(
    ("size", "dark"), [("phone", True), ("tablet", False), ("desktop", True), ("wall", False)]
)
def test_everybody_can_use_the_chat(thread: str, chat: Chat, size: str, dark: bool) -> None:
    options: Any = {"dark": dark, "bypass_csp": True}
    width, height = SIZES[size]
    words = ("Which lamps?", "search", f"book {thread}")
    page = chat(*words, width=width, height=height, **options)
    page.set_input_files("#files", FILE)
    page.evaluate("document.querySelectorAll('details').forEach(part => { part.open = true; })")
    expect(page.get_by_label("Stop before tools")).to_be_visible()
    expect(page.get_by_label("Sources")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert violations(page) == []
    write(page, HELD)
    expect(page.locator(".message.writing")).to_be_visible()
    assert violations(page) == []


def test_a_message_needs_no_javascript(desk: Desk, thread: str, chat: Chat) -> None:
    page = chat("Hello", java_script_enabled=False)
    page.get_by_role("button", name="Regenerate").click()
    page.wait_for_url(f"**/studio/threads/{thread}")
    page.goto(page.url)
    desk.service.run(str(desk.service.threads.get(thread).run)).result(60)
    page.goto(page.url)
    expect(page.locator(".message.ai .text")).to_have_text(["Answer 2 to 'Hello' with text"])
    page.get_by_label("Edit and send again").click()
    page.get_by_label("New text").fill("Good day")
    page.locator(".fork .primary").click()
    page.wait_for_url(f"**/studio/threads/{thread}")
    expect(page.locator(".message.human .text")).to_have_text("Good day")
