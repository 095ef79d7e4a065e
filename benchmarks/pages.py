"""Pages of a service with 10,000 threads: how soon they answer, scroll, and show what happens."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from agent_factory import create_agent
from agent_factory.testing import ScriptedChatModel
from benchmarks.databases import Place, database, places
from benchmarks.efforts import Effort
from benchmarks.harness import Pair, Tally

PATHS = {
    "the studio": "/studio",
    "the last threads": "/studio/threads?offset=9900",
    "a search": "/studio?text=order+777",
    "the inbox": "/inbox",
    "a thread": "/studio/threads/t-00001",
}
CHROMIUM = Path("/usr/bin/chromium")
THREADS, CROWD = 10_000, 100
SERVICE = "service"
FRAME, SHOWN = "ms a frame of a list that scrolls, p90", "ms from an answer to the page, p50"

_SHOWN_AT = """() => {
    const talk = document.getElementById("conversation");
    new MutationObserver(() => {
        if (!talk.querySelector(".message.ai") || document.body.dataset.shown) return;
        document.body.dataset.shown = Date.now() / 1000;
    }).observe(talk, {childList: true, subtree: true});
}"""
_SCROLL = """() => new Promise((done) => {
    const list = document.getElementById("threads"), times = [];
    let last = performance.now();
    function step(now) {
        times.push(now - last);
        last = now;
        list.scrollTop -= 40;
        if (times.length < 60) requestAnimationFrame(step); else done(times);
    }
    requestAnimationFrame(step);
})"""


def pages(effort: Effort) -> Iterator[Tally]:
    """First bytes over HTTP; in Chromium, if it is installed, scrolling and live events."""
    if Place.SQLITE not in places():
        return
    number, crowd = (max(2, round(most * effort.share)) for most in (THREADS, CROWD))
    units = [_first_byte(page) for page in PATHS]
    if CHROMIUM.exists():
        units += [FRAME, SHOWN]
    pairs = [Pair(SERVICE, None, unit=unit) for unit in units]
    items = {SERVICE: partial(_times, number, crowd)}
    yield Tally("pages", f"{Place.SQLITE}, {number:,} threads, {crowd} runs at once", items, pairs)


def _first_byte(page: str) -> str:
    return f"ms to the first byte of {page}, p50"


def _times(number: int, crowd: int) -> dict[str, float]:
    """Milliseconds by unit."""
    import httpx

    found: dict[str, float] = {}
    with _served(number) as (service, address, answers), httpx.Client() as client:
        for page, path in PATHS.items():
            client.get(address + path)
            taken = []
            for _ in range(15):
                begun = time.perf_counter()
                with client.stream("GET", address + path) as response:
                    next(response.iter_raw())
                    taken.append(time.perf_counter() - begun)
            found[_first_byte(page)] = 1000 * median(taken)
        if CHROMIUM.exists():
            found |= _in_chromium(service, address, answers, crowd)
    return found


def _in_chromium(
    service: Any, address: str, answers: dict[str, float], crowd: int
) -> dict[str, float]:
    from playwright.sync_api import sync_playwright

    late = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto(f"{address}/studio")
        frames = page.evaluate(_SCROLL)
        for turn in range(5):
            thread = f"watched-{turn}"
            service.threads.create(thread)
            page.goto(f"{address}/studio/threads/{thread}")
            page.evaluate(_SHOWN_AT)
            with ThreadPoolExecutor(8) as pool:
                submitted = [
                    pool.submit(service.submit, "desk", message="crowd") for _ in range(crowd)
                ]
            watched = service.submit("desk", thread=thread, message=thread)
            shown = page.locator("body[data-shown]").get_attribute("data-shown", timeout=60_000)
            late.append(float(shown or "nan") - answers[thread])
            for run in [*(done.result() for done in submitted), watched]:
                run.result(60)
        browser.close()
    return {FRAME: quantiles(frames, n=10)[-1], SHOWN: 1000 * median(late)}


@contextmanager
def _served(number: int) -> Iterator[tuple[Any, str, dict[str, float]]]:
    """A service with threads, its address, and when the model has answered each text."""
    import uvicorn
    from sqlalchemy import insert

    from agent_factory.serve import create_app
    from agent_factory.service import Service
    from agent_factory.service.tables import threads

    answers: dict[str, float] = {}

    def answer(messages: list[BaseMessage]) -> AIMessage:
        text = str(messages[-1].text)
        time.sleep(3 if text == "crowd" else 0.5)
        answers[text] = time.time()
        return AIMessage(f"Answer to {text}")

    with ExitStack() as stack:
        service = Service(stack.enter_context(database(Place.SQLITE)))
        stack.callback(service.close)
        service.add("desk", create_agent(ScriptedChatModel([answer] * 10_000)))
        service.threads.create("first")
        values = {"tenant": "", "agent": "desk", "status": "idle", "epoch": 0, "jobs": 0}
        rows = [
            {
                **values,
                "thread_id": f"t-{place:05d}",
                "title": f"Where is my order {place}?",
                "metadata": {},
                "created_at": 1_700_000_000 + place,
                "updated_at": 1_700_000_000 + place,
            }
            for place in range(number)
        ]
        with service._backend.database.begin() as connection:
            connection.execute(insert(threads), rows)
        service.start(slots=CROWD + 10)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        settings = uvicorn.Config(create_app(service), port=port, log_level="warning")
        settings.timeout_graceful_shutdown = 1
        server = uvicorn.Server(settings)
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield service, f"http://127.0.0.1:{port}", answers
        server.should_exit = True
        thread.join(10)
