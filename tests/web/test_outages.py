"""A page that watches while things break: a worker dies, a connection is cut."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import expect
from sqlalchemy import select

from agent_factory.service import Service
from agent_factory.service.tables import threads
from processes import Processes
from servers import served
from service.stored import tables_of
from waiting import until
from web.conftest import NewPage
from web.desk import add_desk

SERVICE = """
from pathlib import Path

from langchain_core.messages import ToolMessage

from agent_factory.service import Service
from waiting import until
from web import desk

answer = desk.answer


def answer_once_it_may(messages):
    if isinstance(messages[-1], ToolMessage):
        until(Path("go").exists)
    return answer(messages)


desk.answer = answer_once_it_may
service = Service({url!r})
desk.add_desk(service)
"""
"""Runs of these workers wait after their first tool for the file "go"."""


@pytest.fixture
def service(database: str, tmp_path: Path, processes: Processes) -> Iterator[Service]:
    """A service without a worker in this process, and two workers in others."""
    (tmp_path / "desk_service.py").write_text(SERVICE.format(url=database))
    with closing(Service(database)) as service:
        add_desk(service)
        service.threads.search()  # creates the tables before two workers do
        command = [sys.executable, "-m", "agent_factory.cli", "worker", "desk_service:service"]
        path = os.pathsep.join([str(tmp_path), *sys.path])
        for _ in range(2):
            processes.start(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": path})
        yield service
        processes.end()


@pytest.fixture
def address(service: Service) -> Iterator[str]:
    with served(service) as found:
        yield found


def owner(service: Service, thread: str) -> int:
    """The process that works on a thread, once a worker has taken it."""
    query = select(threads.c.owner).where(threads.c.thread_id == thread)
    return int(until(lambda: next(iter(tables_of(service).values(query)), "")).split("-")[-2])


def test_a_worker_dies_while_a_page_watches(
    service: Service, new_page: NewPage, tmp_path: Path
) -> None:
    service.threads.create("t")
    service.submit("desk", thread="t", message="My parcel is broken.")
    page = new_page("/studio/threads/t")
    expect(page.locator(".message.ai").first).to_contain_text("Let me look.")
    os.kill(owner(service, "t"), signal.SIGKILL)
    expect(page.get_by_text("has taken over")).to_be_visible()
    (tmp_path / "go").touch()
    page.get_by_role("button", name="Approve", exact=True).click()
    expect(page.locator(".message.ai").last).to_contain_text("Done: Refunded")
    expect(page.locator("#head .status")).to_have_text("idle")
    ids = page.eval_on_selector_all(".message", "all => all.map(one => one.id)")
    assert len(ids) == len(set(ids)) == 4


def test_a_cut_connection_comes_back(service: Service, new_page: NewPage, tmp_path: Path) -> None:
    """The cut takes a request with it, and then a proxy answers in place of the server."""
    service.submit("desk", thread="u", message="My parcel is broken.")
    page = new_page("/studio/threads/u", allowed=("htmx:", "net::ERR_FAILED", "502 (Bad Gateway)"))
    expect(page.locator(".message.ai").first).to_be_visible()
    page.route("**/parts*", lambda route: route.abort(), times=1)
    page.route("**/events*", lambda route: route.fulfill(status=502), times=2)
    page.evaluate("window.stop()")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    (tmp_path / "go").touch()
    expect(page.get_by_role("button", name="Approve", exact=True)).to_be_visible()
    ids = page.eval_on_selector_all(".message", "all => all.map(one => one.id)")
    assert len(ids) == len(set(ids)) == 3
