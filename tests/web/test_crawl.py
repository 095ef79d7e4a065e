"""Enter in every field of every page, with JavaScript and without: it does what its form says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from playwright.sync_api import Locator, Page, Request

from agent_factory.service import Service
from samples import new_thread
from web.conftest import Desk, NewPage, open_desk
from web.desk import add_others

SAYS = {
    "Approve": "approve",
    "Approve: go on": "approve",
    "Approve this and later calls": "approve",
    "Approve these arguments": "edit",
    "Reject": "reject",
    "Send the answer": "respond",
    "Approve 2 calls of refund": "approve",
    "Reject 2 calls of refund": "reject",
}
"""What buttons say that they decide; all others decide nothing."""

FIELDS = "input:not([type=hidden]), textarea, select"

TYPED = "10"


class Made(NamedTuple):
    """A page, and the waits that can be decided on it."""

    path: str
    waits: list[str]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """A desk on SQLite, with agents that wait in all ways."""
    with open_desk(f"sqlite:///{tmp_path_factory.mktemp('crawl')}/desk.db") as made:
        add_others(made.service)
        yield made


def one(path: str, agent: str = "desk", message: str = "It is broken.", **options: Any) -> Any:
    """A page about a thread that waits."""

    def make(desk: Desk) -> Made:
        thread = new_thread()
        wait = desk.waiting(thread, message, agent, **options)
        if "held" in path:
            desk.service.submit(agent, thread=thread, message="Wait!", waiting="queue")
        if "claimed" in path:
            desk.service.inbox().claim(wait, by="ann" if "ann" in path else "local")
        place = path.partition("#")[0].format(wait=wait, thread=thread)
        return Made(place, [wait])

    return make


def some(path: str) -> Any:
    """A page about two threads that wait."""

    def make(desk: Desk) -> Made:
        mark = new_thread()
        waits = [desk.waiting(f"{mark}-{number}") for number in range(2)]
        chosen = "&".join(f"wait={wait}" for wait in waits)
        return Made(path.format(mark=mark, chosen=chosen), waits)

    return make


def earlier(desk: Desk) -> Made:
    thread = new_thread()
    wait = desk.waiting(thread)
    first = [*desk.service.threads.history(thread)][-2].config["configurable"]["checkpoint_id"]
    return Made(f"/studio/threads/{thread}?at={first}", [wait])


def approvals(desk: Desk) -> Made:
    wait = desk.waiting(new_thread())
    remember = {"seconds": 3600, "thread": True}
    desk.service.decide(wait, "approve", by="ann", remember=remember).result(60)
    return Made("/inbox/approvals", [])


def run(desk: Desk) -> Made:
    wait = desk.service.inbox().get(desk.waiting(new_thread()))
    return Made(f"/studio/runs/{wait.run}", [wait.id])


PAGES: dict[str, Callable[[Desk], Made]] = {
    "studio": one("/studio"),
    "a review in the studio": one("/studio/threads/{thread}"),
    "a message is held": one("/studio/threads/{thread}#held"),
    "an agent that answers now": one("/studio/threads/{thread}", "now"),
    "an earlier moment": earlier,
    "a review": one("/inbox/{wait}"),
    "a claimed review": one("/inbox/{wait}#claimed"),
    "a review that ann has claimed": one("/inbox/{wait}#claimed by ann"),
    "a question": one("/inbox/{wait}", message="ask me"),
    "a question in the studio": one("/studio/threads/{thread}", message="ask me"),
    "a pause": one("/inbox/{wait}", interrupt_before=["tools"]),
    "a result": one("/inbox/{wait}", interrupt_after=["tools"]),
    "a static interrupt": one("/inbox/{wait}", "stops"),
    "a review inside of a tool": one("/inbox/{wait}", "boss"),
    "a review for others": one("/inbox/{wait}", "office"),
    "the inbox": some("/inbox?text={mark}"),
    "approving several": some("/inbox/decisions?decision=approve&{chosen}"),
    "rejecting several": some("/inbox/decisions?decision=reject&{chosen}"),
    "the audit": one("/inbox/audit"),
    "standing approvals": approvals,
    "the runs": some("/studio/runs?text={mark}"),
    "a run": run,
    "the settings of a thread": one("/studio/threads/{thread}/settings"),
    "the end of a thread": one("/studio/threads/{thread}/delete"),
    "a plan": one("/studio/agents/desk"),
    "rules": one("/studio/agents/desk/policy"),
}


def decisions(service: Service, waits: list[str]) -> list[dict[str, Any]]:
    """The decisions that were made; a question that was withdrawn is not decided."""
    found = [service.inbox().get(wait).decision for wait in waits]
    return [dict(one) for one in found if one is not None and one["type"] != "cancel"]


def label_of(field: Locator) -> str | None:
    """What the only button of the field's form says; None without one."""
    form = field.locator("xpath=ancestor::form")
    if not form.count():
        return None
    labels = [text.strip() for text in form.locator("button:not([type=button])").all_inner_texts()]
    deciding = [label for label in labels if label in SAYS]
    assert not deciding or len(labels) == 1, f"one form, several decisions: {labels}"
    return deciding[0] if deciding else None


def quiet(page: Page) -> Callable[[], None]:
    """Wait until all is over that a page has begun from now on."""
    under_way: list[Request] = []

    def begin(request: Request) -> None:
        if request.resource_type != "eventsource" and not request.url.endswith("/events"):
            under_way.append(request)

    def end(request: Request) -> None:
        if request in under_way:
            under_way.remove(request)

    def wait() -> None:
        times = 0
        while times < 2:  # an answer may lead to a navigation
            page.wait_for_timeout(60)
            times = 0 if under_way else times + 1
        page.wait_for_load_state()

    page.on("request", begin)
    page.on("requestfinished", end)
    page.on("requestfailed", end)
    return wait


def type_something(field: Locator) -> None:
    kind = field.evaluate("field => field.type")
    if kind in ("checkbox", "radio"):
        field.check()
    elif kind.startswith("select"):
        field.focus()
    else:
        field.fill(TYPED)


@pytest.mark.parametrize("script", [True, False], ids=["JavaScript", "plain"])
@pytest.mark.parametrize("name", PAGES)
def test_enter_does_what_the_form_says(
    desk: Desk, new_page: NewPage, name: str, script: bool
) -> None:
    pressed: list[tuple[list[str], str | None]] = []  # what a form said about some waits
    made = PAGES[name](desk)
    page = new_page(made.path, java_script_enabled=script, allowed=("409 (Conflict)",))
    wait_until_quiet = quiet(page)
    number, count = 0, 1
    while number < count:
        page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
        wait_until_quiet()
        fields = page.locator(FIELDS)
        # A part of the page may come late, and then counts on the next one.
        count, field = max(count, fields.count()), fields.nth(number)
        number += 1
        if count and field.is_visible() and field.is_enabled():
            pressed.append((made.waits, label_of(field)))
            type_something(field)
            page.keyboard.press("Enter")
            wait_until_quiet()
            made = PAGES[name](desk)  # a message adds fields
            page.goto(desk.url + made.path)
    for waits, label in pressed:
        for decision in decisions(desk.service, waits):
            assert label is not None, decision
            assert decision["type"] == SAYS[label]
            if decision["type"] == "edit":
                edited = decision["edited_action"]["args"].values()
                assert TYPED in [str(value) for value in edited], decision
    if name == "a review" and script:
        kinds = {one["type"] for waits, _ in pressed for one in decisions(desk.service, waits)}
        assert kinds == {"approve", "edit", "reject", "respond"}
