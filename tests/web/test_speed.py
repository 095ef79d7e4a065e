"""How soon pages answer, and how soon they show what happens."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from threading import Event
from typing import Any

import httpx
import pytest
from langchain_core.messages import AIMessage
from sqlalchemy import insert

from agent_factory import create_agent
from agent_factory.service import Service
from agent_factory.service.tables import threads
from agent_factory.testing import ScriptedChatModel
from web.conftest import NewPage, served

THREADS = 10_000
CROWD = 140
"""More than 100, because some have ended when the answer comes that is watched."""

RUNNING: list[str] = []
"""What the model is answering."""

WATCHED = Event()
"""Whether the model has begun with the answer that is watched."""

WRITTEN: dict[str, tuple[float, int]] = {}
"""When the model has answered, in seconds since 1970, and how many answers it was making."""


def answer(messages: Any) -> AIMessage:
    """Answer and note when: the crowd in the three seconds around the answer that is watched."""
    text = str(messages[-1].text)
    who, place = text.split()
    RUNNING.append(text)
    if who == "crowd":
        WATCHED.wait(30)
        time.sleep(3 * int(place) / CROWD)
    else:
        WATCHED.set()
        time.sleep(0.5)
    WRITTEN[text] = time.time(), len(RUNNING)
    RUNNING.remove(text)
    return AIMessage(f"Answer to {text}")


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, str]]:
    """A service on SQLite with 10,000 threads, and room for 100 runs at once."""
    folder: Path = tmp_path_factory.mktemp("crowded")
    service = Service(f"sqlite:///{folder}/desk.db")
    service.add("desk", create_agent(ScriptedChatModel([answer] * 10_000)))
    service.create_thread("first")
    values = {"tenant": "", "agent": "desk", "status": "idle", "epoch": 0, "jobs": 0}
    rows = [
        {
            **values,
            "thread_id": f"t-{number:05d}",
            "title": f"Where is my order {number}?",
            "metadata": {},
            "created_at": 1_700_000_000 + number,
            "updated_at": 1_700_000_000 + number,
        }
        for number in range(THREADS)
    ]
    with service._backend.database.begin() as connection:
        connection.execute(insert(threads), rows)
    service.start(slots=CROWD + 10)
    with served(service) as address:
        yield service, address
    service.close()


@pytest.fixture
def address(crowded: tuple[Service, str]) -> str:
    return crowded[1]


@pytest.mark.parametrize(
    "path",
    [
        "/studio",
        "/studio/threads?offset=9900",
        "/studio?text=order+777",
        "/inbox",
        "/studio/threads/t-00001",
    ],
)
def test_the_first_byte_comes_within_50_ms(address: str, path: str) -> None:
    took = []
    with httpx.Client() as client:
        client.get(address + path)
        for _ in range(15):
            begun = time.perf_counter()
            with client.stream("GET", address + path) as response:
                next(response.iter_raw())
                took.append(time.perf_counter() - begun)
            assert response.status_code == 200
    assert median(took) < 0.05


def test_10_000_threads_scroll_without_a_stutter(new_page: NewPage) -> None:
    page = new_page("/studio")
    for expected in (51, 101, 151, 201):
        page.locator("#threads").evaluate("one => one.scrollTo(0, one.scrollHeight)")
        page.locator("#threads li").nth(expected - 1).wait_for(state="attached")
    longest: float = page.evaluate(
        """() => new Promise((done) => {
            const list = document.getElementById("threads"), times = [];
            let last = performance.now();
            function step(now) {
                times.push(now - last);
                last = now;
                list.scrollTop -= 40;
                if (times.length < 60) requestAnimationFrame(step);
                else done(times.sort((a, b) => a - b)[Math.floor(times.length * 0.9)]);
            }
            requestAnimationFrame(step);
        })"""
    )
    assert longest < 50  # milliseconds between frames, in nine of ten


SEEN = """() => {
    const talk = document.getElementById("conversation");
    new MutationObserver(() => {
        if (!talk.querySelector(".message.ai") || document.body.dataset.shown) return;
        document.body.dataset.shown = Date.now() / 1000;
    }).observe(talk, {childList: true, subtree: true});
}"""


def test_an_event_reaches_the_page_within_100_ms(
    crowded: tuple[Service, str], new_page: NewPage
) -> None:
    """With 100 runs at once: from the model's answer to the page that shows it."""
    service, address = crowded
    page = new_page("/inbox")
    late = []
    for number in range(9):
        WATCHED.clear()
        text, thread = f"watched {number}", f"watched-{number}"
        service.create_thread(thread)
        page.goto(f"{address}/studio/threads/{thread}")
        page.evaluate(SEEN)
        with ThreadPoolExecutor(8) as pool:
            runs = [
                pool.submit(
                    service.submit, "desk", thread=f"c-{number}-{one}", message=f"crowd {one}"
                )
                for one in range(1, CROWD)
            ]
        watched = service.submit("desk", thread=thread, message=text)
        shown = page.locator("body[data-shown]").get_attribute("data-shown", timeout=60_000)
        written, running = WRITTEN[text]
        assert running >= 100
        late.append(float(shown or "nan") - written)
        for run in [*(one.result() for one in runs), watched]:
            run.result(60)
    print("seconds:", sorted(late))
    assert median(late) < 0.1
