"""A served desk, and Debian's Chromium in front of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright
from serve.conftest import gate  # noqa: F401  a fixture

from agent_factory.service import Service
from servers import served
from service.databases import new_postgres, new_server
from service.stage import stage  # noqa: F401  a fixture
from web.desk import add_desk

CHROMIUM = "/usr/bin/chromium"
# Without these, Chromium asks hosts of its maker at every start.
OPTIONS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
AXE = Path(__file__).parent / "node_modules" / "axe-core" / "axe.min.js"

# As long as other waits: fifteen seconds were short where the browser shares its cores.
expect.set_options(timeout=60_000)


class Desk:
    """A service with a worker, and its address."""

    def __init__(self, service: Service, url: str) -> None:
        self.service, self.url = service, url

    def waiting(
        self,
        thread: str,
        message: str = "My parcel is broken.",
        agent: str = "desk",
        **options: Any,
    ) -> str:
        """A thread that waits for a decision; the id of what it waits for."""
        self.service.submit(agent, thread=thread, message=message, **options).result(60)
        return self.service.inbox().waits(thread=thread)[0].id

    def refunds(self, thread: str) -> list[str]:
        """What the refunds of a thread have returned, once its runs have ended."""
        for run in self.service.threads.runs(thread):
            if run.status != "cancelled":
                run.result(60)
        messages = self.service.threads.state(thread).values["messages"]
        return [m.text for m in messages if m.type == "tool" and m.name == "refund"]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield made
        made.close()


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def database(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The URL of a new database, on SQLite and on Postgres."""
    folder = tmp_path_factory.mktemp("database")
    if request.param == "sqlite":
        yield f"sqlite:///{folder}/desk.db"
        return
    with new_server(folder) as server:
        yield new_postgres(server)


@pytest.fixture(scope="module")
def desk(database: str) -> Iterator[Desk]:
    with open_desk(database) as made:
        yield made


@contextmanager
def open_desk(url: str, add: Callable[[Service], None] = add_desk) -> Iterator[Desk]:
    """A desk on a database."""
    with Service(url) as service:
        add(service)
        with served(service) as address:
            yield Desk(service, address)


NewPage = Callable[..., Page]


@pytest.fixture
def address(desk: Desk) -> str:
    """Where the windows look; a module with its own server has another one."""
    return desk.url


@pytest.fixture
def new_page(browser: Browser, address: str) -> Iterator[NewPage]:
    """Open a window: `new_page("/inbox", width=360, height=740, dark=True)`.

    At the end, no window has shown an error on its console, but for those with a text of `allowed`,
    or asked another host.
    """
    contexts: list[BrowserContext] = []
    problems: list[str] = []

    def note(message: Any, allowed: tuple[str, ...]) -> None:
        if message.type in ("error", "warning") and not any(x in message.text for x in allowed):
            problems.append(f"{message.type}: {message.text} {message.location}")

    def check(request: Any) -> None:
        if not request.url.startswith((address, "data:")):
            problems.append(f"another host: {request.url}")

    def open(
        path: str,
        *,
        width: int = 1440,
        height: int = 900,
        dark: bool = False,
        allowed: tuple[str, ...] = (),
        **options: Any,
    ) -> Page:
        scheme: Any = "dark" if dark else "light"
        size: Any = {"width": width, "height": height}
        context = browser.new_context(color_scheme=scheme, viewport=size, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("console", lambda message: note(message, allowed))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", check)
        page.goto(address + path)
        return page

    yield open
    for context in contexts:
        context.close()
    assert problems == []
