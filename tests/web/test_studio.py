"""The studio in a browser: what a run does is seen as it happens."""

from __future__ import annotations

from playwright.sync_api import Route, expect

from web.conftest import Desk, NewPage


def test_a_thread_from_its_first_message_to_its_end(new_page: NewPage) -> None:
    page = new_page("/studio")
    page.get_by_label("Message").fill("A parcel of mine is broken.")
    page.get_by_role("button", name="Send").click()
    page.wait_for_url("**/studio/threads/*")
    expect(page.locator(".message.human .text")).to_have_text("A parcel of mine is broken.")
    expect(page.locator(".message.ai").first).to_contain_text("Let me look.")
    expect(page.locator("#n2.lit, #n3.lit").first).to_be_visible()
    expect(page.locator(".result").first).to_contain_text("A-1001")
    page.get_by_role("button", name="Approve", exact=True).click()
    expect(page.locator(".message.ai").last).to_contain_text("Done: Refunded 120.5 euros")
    assert page.locator(".message.ai strong").count() == 1
    expect(page.locator("#head .status")).to_have_text("idle")
    expect(page.locator(".list .rows a[aria-current] .status")).to_have_text("idle")
    expect(page.locator("#cost tbody tr")).to_contain_text(["model"])
    expect(page.locator(".decisions li").last).to_contain_text("end: no calls left")
    assert page.locator(".plan .now").count() == 0


def test_the_plan_shows_guards_and_limits(desk: Desk, thread: str, new_page: NewPage) -> None:
    desk.waiting(thread)
    page = new_page(f"/studio/threads/{thread}")
    expect(page.locator("#plan .node.tools")).to_contain_text("refund denied at times, asked")
    expect(page.locator("#plan")).to_contain_text("denies refund (at times)")
    page = new_page("/studio/agents/desk")
    page.locator("#stage .node.tools a").first.click()
    expect(page.locator("article.on")).to_contain_text("a person decides about refund")


def test_an_error_is_seen_in_the_thread(desk: Desk, thread: str, new_page: NewPage) -> None:
    desk.service.submit("desk", thread=thread, message="talk").result(60)
    page = new_page(f"/studio/threads/{thread}")
    expect(page.locator(".message")).to_have_count(2)
    page.get_by_placeholder("Write to the agent").fill("fail")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("the model is out of order")
    expect(page.locator("#head .status")).to_have_text("failed")
    assert page.locator("#text").input_value() == ""


def test_a_list_catches_up_with_what_has_changed_since_the_page_was_made(
    desk: Desk, thread: str, new_page: NewPage
) -> None:
    page = new_page("/studio")

    def answer_late(route: Route) -> None:
        desk.service.submit("desk", thread=thread, message="talk").result(60)
        route.continue_()

    page.route("**/studio/events", answer_late)
    page.reload(wait_until="commit")
    row = page.locator(f".rows a[href='/studio/threads/{thread}']")
    expect(row.locator(".status")).to_have_text("idle")


def test_a_stream_opens_once_its_page_can_hear_it(desk: Desk, new_page: NewPage) -> None:
    page = new_page("/studio")
    page.add_init_script("""
        window.opened = [];
        document.addEventListener("DOMContentLoaded", () => opened.push("ready"));
        EventSource = class extends EventSource {
            constructor(...options) { super(...options); opened.push("open"); }
        };
    """)
    page.reload()
    assert page.evaluate("opened") == ["ready", "open"]


def test_a_fork_from_an_earlier_moment(desk: Desk, thread: str, new_page: NewPage) -> None:
    wait = desk.waiting(thread)
    desk.service.decide(wait, "approve", by="ann").result(60)
    page = new_page(f"/studio/threads/{thread}")
    page.locator("#history").evaluate("part => { part.open = true; }")
    moments = page.locator(".moments .what > a")
    expect(moments.first).to_contain_text("desk answered: “Done: Refunded 120.5 euros")
    count = moments.count()
    moments.filter(has_text="desk called search_orders").click()
    expect(page.get_by_text("You see an earlier moment")).to_be_visible()
    expect(page.locator(".message")).to_have_count(2)
    page.get_by_placeholder("a fork").fill("talk instead")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/studio/threads/{thread}")
    expect(page.locator(".message.ai").last).to_contain_text("Hello!")
    expect(page.locator(".message")).to_have_count(4)
    # It is open already if the run of the fork had not ended when the page was loaded.
    page.locator("#history").evaluate("part => { part.open = true; }")
    expect(page.locator(".moments .branch").first).to_be_visible()
    assert moments.count() > count


def test_a_run_again_from_an_earlier_moment(desk: Desk, thread: str, new_page: NewPage) -> None:
    desk.service.submit("desk", thread=thread, message="talk").result(60)
    page = new_page(f"/studio/threads/{thread}")
    page.locator("#history").evaluate("part => { part.open = true; }")
    page.locator(".moments .what > a").filter(has_text="you wrote: “talk”").click()
    page.get_by_role("button", name="Run again from here").click()
    page.wait_for_url(f"**/studio/threads/{thread}")
    expect(page.locator(".message")).to_have_count(2)
    assert len(desk.service.threads.runs(thread)) == 2


def test_the_list_of_threads(desk: Desk, thread: str, new_page: NewPage) -> None:
    for number in range(60):
        desk.service.threads.create(f"{thread}-{number:02d}")
    page = new_page(f"/studio?text={thread}")
    expect(page.locator("#threads li a")).to_have_count(51)
    # Rows below the view are taller than they seem, so the end moves away from who jumps to it.
    to_end = "one => one.scrollTo(0, one.scrollHeight - one.clientHeight - 60)"
    page.locator("#threads").evaluate(to_end)
    expect(page.locator("#threads li a")).to_have_count(60)
    # Another thread does not take the list away from somebody who reads further down.
    with page.expect_response(lambda response: "/studio/threads?" in response.url):
        desk.service.threads.create(f"{thread}-60")
    page.wait_for_timeout(200)
    expect(page.locator("#threads li a")).to_have_count(60)
    page.locator("#threads").evaluate("one => one.scrollTo(0, 0)")
    expect(page.locator(f"#threads a[href$='{thread}-60']")).to_be_visible()
    page.get_by_placeholder("Find a thread").fill(f"{thread}-07")
    expect(page.locator("#threads li a")).to_have_count(1)
    page.get_by_placeholder("Find a thread").fill("nothing has this")
    expect(page.locator("#threads .empty")).to_have_text("No threads match.")


def test_a_long_thread_shows_its_end(desk: Desk, thread: str, new_page: NewPage) -> None:
    from langchain_core.messages import AIMessage, HumanMessage

    history = [m for n in range(80) for m in (HumanMessage(f"Q{n}"), AIMessage(f"A{n}"))]
    desk.service.submit("desk", thread=thread, message=[*history, HumanMessage("talk")]).result(60)
    page = new_page(f"/studio/threads/{thread}")
    expect(page.locator(".message")).to_have_count(100)
    page.get_by_role("link", name="62 earlier messages").click()
    expect(page.locator(".message").first).to_contain_text("Q0")
