"""Pages of runs, and those that rename, archive and delete a thread, as plain HTTP."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from threading import Event
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from sqlalchemy import update
from stack_agents import kept_agent
from starlette.requests import Request
from starlette.testclient import TestClient

from agent_factory.middleware import HumanInTheLoopMiddleware
from agent_factory.serve import Principal, create_app
from agent_factory.serve.pages.failure import failure_of
from agent_factory.serve.pages.timeline import WIDTH, Axis, timeline_of
from agent_factory.service import NotFound, RunFailed, Service, Step, Wait
from agent_factory.service.tables import runs
from agent_factory.testing import ScriptedChatModel
from samples import call_of, new_thread, pay
from serve.accounts import add_gated
from service.stored import tables_of
from tables import each
from waiting import until

WAIT = 60
TOKENS: Any = {"input_tokens": 1200, "output_tokens": 80, "total_tokens": 1280}
OFF: list[bool] = []
"""Whether the printer is off."""


def label(order: str) -> str:
    """Print a label."""
    if OFF:
        raise ConnectionError(f"{OFF.pop()} <b>off</b>")
    return "printed"


def answer(messages: list[BaseMessage]) -> AIMessage:
    text = messages[-1].text
    if not isinstance(messages[-1], HumanMessage) or "talk" in text:
        return AIMessage("Done.", usage_metadata=TOKENS)
    call = call_of("label", order="A") if "label" in text else call_of("pay", euros=5)
    return AIMessage("", tool_calls=[call], usage_metadata=TOKENS)


def who(request: Request) -> Principal:
    name = request.headers["x-user"]
    return Principal("other" if name == "eve" else "acme", name)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(f"sqlite:///{tmp_path_factory.mktemp('runs')}/desk.db") as made:
        asks = [HumanInTheLoopMiddleware({"pay": True})]
        agent = kept_agent(ScriptedChatModel([answer] * 1000), *asks, tools=[pay, label])
        made.add("desk", agent)
        add_gated(made)
        yield made


class Pages:
    """The pages of a tenant that a person sees, and a thread of it."""

    def __init__(self, service: Service, user: str = "ann") -> None:
        self.service, self.thread = service, new_thread()
        self.client = TestClient(create_app(service, who), headers={"x-user": user})
        self.place = f"/studio/threads/{self.thread}"

    def start(self, message: str, agent: str = "desk", thread: str = "") -> Any:
        thread = thread or self.thread
        return self.service.submit(agent, message=message, thread=thread, tenant="acme")

    def failed(self, thread: str = "") -> Any:
        """A run whose printer is off."""
        OFF.append(True)
        run = self.start("Print the label", thread=thread)
        with pytest.raises(RunFailed):
            run.result(WAIT)
        return run

    def asked(self) -> tuple[Any, Wait]:
        """A run that waits for a decision, and the wait."""
        run = self.start("Pay it")
        run.result(WAIT)
        (wait,) = self.service.inbox("acme").waits(run=run.id)
        return run, wait

    def get(self, path: str) -> str:
        return self.client.get(path).text

    def status(self, path: str) -> int:
        return self.client.get(path).status_code


@pytest.fixture
def pages(service: Service) -> Pages:
    return Pages(service)


def words(text: str) -> str:
    """The words of a page, without its tags."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", text)).split())


def test_the_list_has_what_was_asked_by_whom_and_how_it_went(pages: Pages) -> None:
    pages.start("talk to <Ann>").result(WAIT)
    shown = pages.get(f"/studio/runs?text={pages.thread}")
    assert "talk to &lt;Ann&gt;" in shown
    row = words(shown.partition("<tbody")[2].partition("</tbody")[0])
    assert re.search(r"desk done \d{4}-\d\d-\d\d .* UTC [\d.]+ m?s 1,200 in 80 out \S$", row), row
    moment = re.search(r'<time datetime="[^"]+" title="[^"]+ UTC" data-local>', shown)
    assert moment is not None


def test_filters_are_in_the_address_and_in_the_form(pages: Pages) -> None:
    pages.start("talk").result(WAIT)
    run = pages.failed(f"{pages.thread}-bad")
    query = f"status=failed&agent=desk&within=1h&text={pages.thread}"
    shown = pages.get(f"/studio/runs?{query}")
    assert re.findall(r'href="/studio/runs/(\w{32})"', shown) == [run.id]
    for choice in ('value="failed" selected', "<option selected>desk", 'value="1h" selected'):
        assert choice in shown
    assert f'name="text" value="{pages.thread}"' in shown
    assert "No runs match." in pages.get(f"/studio/runs?status=done&text={pages.thread}-bad")
    for query in ("status=strange", "within=2h"):
        assert pages.status(f"/studio/runs?{query}") == 422


def test_the_list_has_pages(pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_factory.serve.pages.runs.PAGE", 2)
    runs = [pages.start("talk") for _ in range(3)]
    runs[-1].result(WAIT)
    first = pages.get(f"/studio/runs?text={pages.thread}")
    (older,) = re.findall(r'href="(/studio/runs\?[^"]*before=\d+)"', first)
    second = pages.get(unescape(older))
    ids = [re.findall(r'href="/studio/runs/(\w{32})"', shown) for shown in (first, second)]
    assert ids == [[runs[2].id, runs[1].id], [runs[0].id]]
    assert "The newest" in second
    assert "Older runs" not in second


def test_another_tenant_changes_nothing(pages: Pages) -> None:
    run, eve = pages.failed(), Pages(pages.service, "eve")
    assert run.id not in eve.get("/studio/runs")
    for path in (f"/studio/runs/{run.id}", f"{pages.place}/settings", f"{pages.place}/delete"):
        assert eve.status(path) == 404
    places = [f"/studio/runs/{run.id}/{verb}" for verb in ("retry", "cancel")]
    places += [f"{pages.place}/{verb}" for verb in ("rename", "archive", "delete")]
    fields = {"title": "Mine", "archived": "1"}
    for place in places:
        assert eve.client.post(place, data=fields).status_code == 404
    info = pages.service.threads.get(pages.thread)
    assert (info.title, info.metadata, info.status) == ("Print the label", {}, "failed")
    assert pages.service.threads.count_runs(pages.thread) == 1


def test_a_timeline_is_a_table_with_calls_waits_and_tokens(pages: Pages) -> None:
    run, wait = pages.asked()
    shown = words(pages.get(f"/studio/runs/{run.id}"))
    assert "Wait pay waits for a person euros=5" in shown
    assert "so far" in shown
    pages.service.decide(wait.id, "approve", by="bob").result(WAIT)
    page = pages.get(f"/studio/runs/{run.id}")
    before, _, table = words(page).partition("Took Tokens Cost Queue")
    assert re.findall(r"(Queue|Model call|Tool|Wait) (\S+)", before) == []
    assert "1,200 in 80 out Wait pay waits for a person approved by bob: euros=5" in table
    assert table.index("Model call") < table.index("Wait pay") < table.index("Tool pay")
    assert f'href="/inbox/{wait.id}"' in page
    assert page.count("<svg") == page.count('aria-hidden="true" focusable="false"')
    assert " style=" not in page  # the policy of pages allows none
    decisions: list[tuple[str, dict[str, Any], str]] = [
        ("edit", {"args": {"euros": 3}}, "changed by bob: euros 5 → 3"),
        ("reject", {"message": "Not now."}, "rejected by bob: 'Not now.'"),
    ]
    for kind, options, text in decisions:
        run, wait = pages.asked()
        pages.service.decide(wait.id, kind, by="bob", **options).result(WAIT)
        assert text in words(pages.get(f"/studio/runs/{run.id}"))


def test_a_run_that_failed_says_where_and_why_and_what_helps(pages: Pages) -> None:
    run = pages.failed()
    shown = words(pages.get(f"/studio/runs/{run.id}"))
    assert "It failed at a call of the tool label A server could not be reached." in shown
    assert "ConnectionError True <b>off</b>" in shown
    assert "What helps: Check that it runs" in shown
    assert "Calls of tools that have a result do not run again." in shown
    assert "Cancel the run" not in shown
    thread_page = pages.get(pages.place)
    assert f'<a href="/studio/runs/{run.id}">What helps, and try again</a>' in thread_page


def test_a_run_is_tried_again_by_its_page(pages: Pages) -> None:
    run = pages.failed()
    answer = pages.client.post(f"/studio/runs/{run.id}/retry")
    assert answer.status_code == 200
    new = answer.url.path.rpartition("/")[2]
    assert new != run.id
    pages.service.run(new).result(WAIT)
    shown = pages.get(f"/studio/runs/{new}")
    assert f'href="/studio/runs/{run.id}">an earlier run</a>' in shown
    assert pages.client.post(f"/studio/runs/{run.id}/retry").url.path == f"/studio/runs/{new}"
    old = pages.get(f"/studio/runs/{run.id}")
    assert "Try again from here" not in old
    assert "The thread has gone on since." in old
    pages.start("talk").result(WAIT)
    assert pages.client.post(f"/studio/runs/{run.id}/retry").status_code == 409


def test_a_run_under_way_shows_its_step_and_is_cancelled(pages: Pages, gate: Event) -> None:
    run = pages.start("Hello", "gated")

    def shown() -> str:
        return words(pages.get(f"/studio/runs/{run.id}"))

    until(lambda: "Step model" in shown())
    assert run.status == "running"
    assert "running" in shown()
    assert "until then, the steps of the agent are" in shown()
    answer = pages.client.post(f"/studio/runs/{run.id}/cancel")
    assert "cancelled" in words(answer.text)
    assert "Cancel the run" not in answer.text
    (entry, *_) = pages.service.inbox("acme").audit(thread=pages.thread)
    assert (entry.what, entry.who) == ("cancel", "ann")


def test_a_message_that_another_run_has_read_leads_there(pages: Pages) -> None:
    first, second = pages.start("talk"), pages.start("talk more")
    second.result(WAIT)
    of_second = update(runs).where(runs.c.run_id == second.id)
    tables_of(pages.service).write(of_second.values(reader=first.id))
    shown = pages.get(f"/studio/runs/{second.id}")
    assert f'href="/studio/runs/{first.id}">the run that worked then</a>' in shown
    assert "Timeline" not in shown


@each(
    "error, sentence, code",
    [
        ("APITimeoutError: slow", "Something did not answer", ""),
        ("RateLimitError", "The provider has refused more", ""),
        ("[AF360] thread 't': is odd.", "", "AF360"),
        ("TurnError: [AF301] x: y", "", "AF301"),
        ("a text: of a person", "", ""),
    ],
)
def test_errors_are_explained(error: str, sentence: str, code: str) -> None:
    failure = failure_of(error, [], [])
    assert (failure.where, failure.code) == ("a step that is not recorded", code)
    assert failure.sentence.startswith(sentence)
    assert bool(failure.hint) == bool(sentence)
    assert error.endswith(failure.text)


def test_the_step_whose_error_ended_the_run_is_named() -> None:
    steps = [
        Step(kind="tool", name="first", at=1.0, seconds=1.0, error="ValueError: a"),
        Step(kind="model", name="gpt", at=1.0, seconds=1.0, error="ValueError: b"),
    ]
    assert failure_of("ValueError: b", steps, ["model"]).where == "a call of the model gpt"
    failure = failure_of("ValueError: c", steps, ["Guard.before_model"])
    assert failure.where == "the step Guard.before_model"


def test_waits_take_a_part_of_the_axis() -> None:
    axis = Axis(0.0, 110.0, [(0.0, 5.0), (50.0, 100.0), (60.0, 105.0)])
    places = [axis.place(moment) for moment in (-1.0, 0.0, 5.0, 50.0, 105.0, 110.0, 200.0)]
    assert places == sorted(places)
    assert (places[0], places[-1]) == (0.0, WIDTH)
    assert places[4] - places[3] == pytest.approx(WIDTH * 17.5 / (5 + 45 + 17.5 + 5))
    assert axis.is_cut
    assert not Axis(0.0, 10.0, [(0.0, 1.0)]).is_cut
    only_waits = Axis(0.0, 10.0, [(0.0, 10.0)])
    assert (only_waits.place(5.0), only_waits.is_cut) == (WIDTH / 2, False)
    assert Axis(3.0, 3.0, []).place(3.0) in (0.0, WIDTH)


def test_bars_stay_on_the_axis_if_clocks_differ(pages: Pages) -> None:
    run = pages.start("talk")
    run.result(WAIT)
    summary = run.summary
    steps = [
        Step(kind="model", name="early", at=summary.created_at - 50, seconds=1.0),
        Step(kind="tool", name="late", at=summary.created_at + 50, seconds=1e9),
    ]
    no_waits: list[Wait] = []
    for bar in timeline_of(summary, steps, no_waits, [], summary.created_at).bars:
        assert 0 <= bar.x < bar.x + bar.width <= WIDTH + 5
        assert bar.offset >= 0
        assert bar.seconds >= 0


def test_a_thread_is_renamed_and_an_archived_thread_leaves_the_list(pages: Pages) -> None:
    pages.start("talk").result(WAIT)
    place = pages.place
    answer = pages.client.post(f"{place}/rename", data={"title": "The <lamp>"})
    assert 'value="The &lt;lamp&gt;"' in answer.text
    answer = pages.client.post(f"{place}/rename", data={"title": " "})
    assert answer.status_code == 422
    assert "The title must have 1 to 200 characters" in answer.text
    assert pages.service.threads.get(pages.thread).title == "The <lamp>"
    link, listed = f'href="{place}"', f"/studio?text={pages.thread}"
    assert link in pages.get(listed)
    answer = pages.client.post(f"{place}/archive", data={"archived": "1"})
    assert "Put it back into the list" in answer.text
    assert link not in pages.get(listed)
    assert link in pages.get(f"{listed}&archived=1")
    # It works as before.
    pages.start("talk").result(WAIT)
    assert pages.status(place) == 200
    pages.client.post(f"{place}/archive", data={"archived": "0"})
    assert link in pages.get(listed)


def test_a_thread_is_deleted_after_a_second_question(pages: Pages) -> None:
    run = pages.start("Pay it")
    run.result(WAIT)
    place = pages.place
    shown = words(pages.get(f"{place}/delete"))
    assert "This cannot be undone." in shown
    assert "its run, with the timeline and the cost" in shown
    assert "It is cancelled, and what waits for a decision is withdrawn." in shown
    assert pages.service.threads.get(pages.thread).status == "waiting"
    answer = pages.client.post(f"{place}/delete")
    assert answer.url.path == "/studio"
    with pytest.raises(NotFound):
        pages.service.threads.get(pages.thread)
    assert pages.status(f"/studio/runs/{run.id}") == 404
    entry = pages.service.inbox("acme").audit(thread=pages.thread)[0]
    assert (entry.what, entry.who) == ("delete", "ann")
