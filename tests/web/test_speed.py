"""What pages cost with 10,000 threads and runs, in steps: `make bench` has the milliseconds."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Barrier, Event
from typing import Any

import httpx
import pytest
from langchain_core.messages import AIMessage
from playwright.sync_api import Request, expect
from sqlalchemy import delete, event, insert, update

from agent_factory import create_agent
from agent_factory.service import Service
from agent_factory.service.tables import runs, threads, waits
from agent_factory.testing import ScriptedChatModel
from servers import served
from service.stored import backend_of, tables_of
from web.conftest import NewPage

THREADS = 10_000
CROWD = 100

TOGETHER = Barrier(CROWD + 1)
"""Where the model waits until it answers all of the crowd, and what is watched."""

SEEN = Event()
"""Whether the page has shown the answer that is watched."""


def answer(messages: Any) -> AIMessage:
    """Answer while all others are being answered; the crowd once the page has shown the other."""
    text = str(messages[-1].text)
    TOGETHER.wait(60)
    if text == "crowd":
        assert SEEN.wait(60)
    return AIMessage(f"Answer to {text}")


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, str]]:
    """A service on SQLite with 10,000 threads, and room for 100 runs at once."""
    folder: Path = tmp_path_factory.mktemp("crowded")
    service = Service(f"sqlite:///{folder}/desk.db")
    service.add("desk", create_agent(ScriptedChatModel([answer] * 10_000)))
    service.threads.create("first")
    common = {"tenant": "", "agent": "desk"}
    of_thread = {"status": "idle", "epoch": 0, "jobs": 0, "metadata": {}}
    of_run = {"status": "done", "priority": 0, "payload": "{}"}
    rows, of_runs = list[dict[str, Any]](), list[dict[str, Any]]()
    for number in range(THREADS):
        at = 1_700_000_000 + number
        place = {**common, "thread_id": f"t-{number:05d}", "created_at": at, "updated_at": at}
        rows.append({**place, **of_thread, "title": f"Where is my order {number}?"})
        of_runs.append({**place, **of_run, "run_id": f"r-t-{number:05d}", "started_at": at})
    with backend_of(service).database.begin() as connection:
        connection.execute(insert(threads), rows)
        connection.execute(insert(runs), of_runs)
    with served(service) as address:
        yield service, address
    service.close()


@pytest.fixture
def address(crowded: tuple[Service, str]) -> str:
    return crowded[1]


@contextmanager
def steps(service: Service) -> Iterator[dict[str, int]]:
    """Queries, and thousands of instructions that SQLite carries out for them."""
    engine, counts = backend_of(service).database.engine, {"queries": 0, "thousands": 0}

    def count(name: str) -> None:
        counts[name] += 1

    def query(*_: Any) -> None:
        count("queries")

    def watch(connection: Any, *_: Any) -> None:
        connection.set_progress_handler(lambda: count("thousands"), 1000)

    event.listen(engine, "before_cursor_execute", query)
    event.listen(engine, "checkout", watch)
    yield counts
    event.remove(engine, "before_cursor_execute", query)
    event.remove(engine, "checkout", watch)


@pytest.mark.parametrize(
    ("path", "queries", "thousands"),
    [
        ("/studio", 5, 10),
        ("/studio/threads?offset=9900", 5, 1000),
        ("/studio?text=order+777", 5, 1000),
        ("/studio?archived=1", 5, 1000),
        ("/inbox", 8, 10),
        ("/studio/runs", 5, 10),
        ("/studio/runs?before=5000", 5, 10),
        # One search looks at 5,000 runs, and says so if there are more.
        ("/studio/runs?text=order+777", 5, 1000),
        ("/studio/runs?status=failed&within=1d&agent=desk", 5, 500),
        ("/studio/runs/r-t-00001", 25, 100),
        ("/studio/threads/t-00001", 25, 100),
    ],
)
def test_a_page_costs_little_with_10_000_threads(
    crowded: tuple[Service, str], path: str, queries: int, thousands: int
) -> None:
    """The limits are several times what it took when they were set."""
    costs_at_most(crowded, path, queries, thousands)


def costs_at_most(crowded: tuple[Service, str], path: str, queries: int, thousands: int) -> None:
    service, address = crowded
    httpx.get(address + path)
    with steps(service) as counts:
        assert httpx.get(address + path).status_code == 200
    assert counts["queries"] <= queries, counts
    assert counts["thousands"] <= thousands, counts


@pytest.fixture
def asked(crowded: tuple[Service, str]) -> Iterator[None]:
    """20 of the threads wait for a decision."""
    tables = tables_of(crowded[0])
    of_wait: dict[str, Any] = {"tenant": "", "agent": "desk", "run": "r", "job": "j", "priority": 0}
    of_wait |= {"tool": "refund", "kind": "review", "args": '{"euros": 5}', "allowed": "approve"}
    of_wait |= {"late": "reject", "digest": "", "call_id": "", "created_at": 1_700_000_000}
    ids = [f"t-{number:05d}" for number in range(THREADS - 20, THREADS)]
    of_ids = threads.c.thread_id.in_(ids)
    rows = [{**of_wait, "wait_id": f"w-{id}", "thread_id": id} for id in ids]
    # With the time that they have, so that they keep their places in the list.
    kept = update(threads).where(of_ids).values(updated_at=threads.c.updated_at)
    tables.write(insert(waits).values(rows), kept.values(status="waiting"))
    yield
    tables.write(delete(waits), kept.values(status="idle"))


@pytest.mark.usefixtures("asked")
def test_what_waits_costs_little_and_no_query_for_each_row(crowded: tuple[Service, str]) -> None:
    """Twenty rows that wait cost as many queries as one."""
    service, address = crowded
    for path in ("/studio", "/inbox", "/inbox/w-t-09990", "/inbox/audit"):
        costs_at_most(crowded, path, queries=8, thousands=20)

    def queries(path: str, rows: int) -> int:
        httpx.get(address + path)
        with steps(service) as counts:
            text = httpx.get(address + path).text
        assert text.count("<code>refund</code>") == rows
        return counts["queries"]

    for path in ("/studio/threads", "/inbox/rows"):
        assert queries(path, 20) == queries(f"{path}?text=t-09980", 1)
    assert queries("/studio/threads?text=t-00001", 0) == queries("/studio/threads", 20) - 1


def test_a_list_is_scrolled_without_work(new_page: NewPage) -> None:
    """Rows come 50 at a time; what was loaded is neither asked for nor built again."""
    page = new_page("/studio")
    offsets: list[str] = []
    answered: list[str] = []

    def note(places: list[str], request: Request) -> None:
        _, found, rest = request.url.partition("/studio/threads?offset=")
        if found:
            places.append(rest.partition("&")[0])

    page.on("request", partial(note, offsets))
    page.on("requestfinished", partial(note, answered))
    for expected in (51, 101, 151, 201):
        page.locator("#threads").evaluate("one => one.scrollTo(0, one.scrollHeight)")
        page.locator("#threads li").nth(expected - 1).wait_for(state="attached")
    assert offsets[:3] == ["50", "100", "150"]
    # What was asked for last may still arrive, and then the list grows once more.
    while len(answered) < len(offsets):
        page.wait_for_timeout(20)
    page.evaluate(
        """() => new Promise((done) => {
            const list = document.getElementById("threads");
            let length = -1, frames = 0;
            function step() {
                frames = list.childElementCount === length ? frames + 1 : 0;
                length = list.childElementCount;
                if (frames < 30) requestAnimationFrame(step); else done();
            }
            requestAnimationFrame(step);
        })"""
    )
    built: int = page.evaluate(
        """() => new Promise((done) => {
            const list = document.getElementById("threads");
            let frames = 0, built = 0;
            new MutationObserver((changes) => { built += changes.length; })
                .observe(list, {childList: true});
            function step() {
                list.scrollTop -= 40;
                frames += 1;
                if (frames < 60) requestAnimationFrame(step); else done(built);
            }
            requestAnimationFrame(step);
        })"""
    )
    assert built == 0
    assert len(offsets) == len(set(offsets)) <= 4
    hidden = "getComputedStyle(document.querySelector('#threads li')).contentVisibility"
    assert page.evaluate(hidden) == "auto"  # the browser draws only the rows that are seen


def test_an_event_arrives_among_100_runs(crowded: tuple[Service, str], new_page: NewPage) -> None:
    """The page shows the answer although none of the others has ended, and asks for nothing."""
    service = crowded[0]
    service.threads.create("watched")
    page = new_page("/studio/threads/watched")
    service.start(slots=CROWD + 10)
    with ThreadPoolExecutor(8) as pool:
        runs = [pool.submit(service.submit, "desk", message="crowd") for _ in range(CROWD)]
    watched = service.submit("desk", thread="watched", message="Where?")
    expect(page.locator(".message.ai .text")).to_have_text("Answer to Where?", timeout=60_000)
    assert {run.result().status for run in runs} == {"running"}
    SEEN.set()
    for run in [*(one.result() for one in runs), watched]:
        run.result(60)
