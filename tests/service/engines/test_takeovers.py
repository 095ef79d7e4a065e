"""Services over engines that have a server: a worker is killed or frozen, and a review waits.

The laws of tests/service/test_kills.py and test_freezes.py hold over all engines, at night.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from agent_factory.service import Run, Service
from processes import Processes
from service.databases import new_postgres
from service.desk import Journal, check_history, make_desk
from service.engines.servers import SERVERS, Server
from service.worker_process import WorkerProcess
from waiting import until

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]


SLOW: dict[str, Any] = {"calls": 6, "seconds": 0.2, "middleware": "once"}


class Desk:
    """A service of an engine, and its workers."""

    def __init__(self, service: Service, journal: Journal, start: Callable[..., Any]) -> None:
        self.service, self.journal, self.start = service, journal, start
        service.add("desk", make_desk(journal))

    def submit(self, number: int) -> list[Run]:
        """A message, with its number, to each of four threads."""
        message: dict[str, Any] = {"message": "Pay.", "message_id": f"m-{number}"}
        return [self.service.submit("desk", thread=f"t-{at}", **message) for at in range(4)]

    def check(self, runs: list[Run], messages: int) -> None:
        """Wait for runs: each thread has all messages in order, and no effect happened twice."""
        for run in runs:
            run.result(120)
        for at in range(4):
            history = self.service.threads.state(f"t-{at}").values["messages"]
            check_history(history, [f"m-{number}" for number in range(messages)])
        assert max(self.journal.times("pay").values()) == 1


@pytest.fixture
def new_desk(processes: Processes, tmp_path: Path) -> Iterator[Callable[..., Desk]]:
    """Make a service of an engine whose workers write to a file: `new_desk(URL, ENGINE, NAME)`."""
    with ExitStack() as stack:

        def make(url: str, engine: str, name: str = "journal") -> Desk:
            service = stack.enter_context(closing(Service(url, engine=engine)))
            start = partial(WorkerProcess, processes, tmp_path / name, url, engine=engine)
            return Desk(service, Journal(tmp_path / name), start)

        yield make


@pytest.fixture
def desks(
    request: pytest.FixtureRequest, postgres_server: Any, new_desk: Callable[..., Desk]
) -> list[Desk]:
    """A desk for each engine: they wait at the same time."""
    servers = {kind: request.getfixturevalue(f"{kind}_server") for kind in SERVERS}
    return [
        new_desk(new_postgres(postgres_server), server.url(f"t{uuid4().hex[:8]}"), kind)
        for kind, server in servers.items()
    ]


def test_a_review_is_decided_while_no_worker_runs(desks: list[Desk]) -> None:
    workers = [desk.start(review=True, calls=1) for desk in desks]
    runs = [desk.service.submit("desk", thread="t", message="Pay.") for desk in desks]
    for desk, run, worker in zip(desks, runs, workers, strict=True):
        run.result(60)
        worker.end()
        (wait,) = desk.service.inbox().waits()
        desk.service.decide(wait.id, "approve", by="ann")
    workers = [desk.start(review=True, calls=1) for desk in desks]
    for desk, run in zip(desks, runs, strict=True):
        run.result(60)
        assert [*desk.journal.times("pay").values()] == [1]


def test_jobs_of_a_killed_worker_go_to_another(desks: list[Desk]) -> None:
    check_takeover(desks, signal.SIGKILL)


def test_jobs_of_a_frozen_worker_go_to_another(desks: list[Desk]) -> None:
    check_takeover(desks, signal.SIGSTOP)


def check_takeover(desks: list[Desk], sign: signal.Signals) -> None:
    firsts = [desk.start(**SLOW) for desk in desks]
    runs = [desk.submit(0) + desk.submit(1) for desk in desks]
    for desk, first in zip(desks, firsts, strict=True):
        until(partial(desk.journal.has, "pay", 4))
        first.send(sign)
    for desk, ours in zip(desks, runs, strict=True):
        for _ in range(3):  # Restate's requests go to the frozen process, too: one of four
            desk.start(**SLOW)
        desk.check(ours, 2)
    for first in firsts:
        first.send(signal.SIGCONT)
    for desk, ours in zip(desks, runs, strict=True):
        desk.check(ours, 2)


@pytest.mark.night
@pytest.mark.parametrize("kind", SERVERS)
def test_the_server_is_killed_and_wiped(
    own_server: Server, postgres_url: str, new_desk: Callable[..., Desk]
) -> None:
    """Messages that come meanwhile begin, and so do jobs that it has forgotten."""
    own_server.start()
    desk = new_desk(postgres_url, own_server.url("desk"))
    desk.start(**SLOW)
    runs = desk.submit(0) + desk.submit(1)
    until(partial(desk.journal.has, "pay", 4))
    own_server.kill()
    runs += desk.submit(2)
    until(partial(desk.journal.has, "pay", 4 * 6))  # jobs under way need no server
    own_server.wipe()
    own_server.start()
    desk.check(runs, 3)


@pytest.mark.night
@pytest.mark.parametrize("kind", SERVERS)
def test_work_moves_to_an_engine_and_back(
    engine_url: str, postgres_url: str, new_desk: Callable[..., Desk]
) -> None:
    """While workers of both carry out jobs, and those of the former are killed."""
    runs: list[Run] = []
    engines = ("embedded", engine_url, "embedded")
    former: list[WorkerProcess] = []
    for at, engine in enumerate(engines):
        desk = new_desk(postgres_url, engine)
        worker = desk.start(**SLOW)
        runs += desk.submit(at)
        until(partial(desk.journal.has, "pay", 8 * (at + 1)))
        for one in former:
            one.kill()
        former = [worker]
    desk.check(runs, len(engines))
