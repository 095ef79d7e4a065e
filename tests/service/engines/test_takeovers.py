"""Services over engines that have a server: a worker is killed or frozen, and a review waits.

The laws of tests/service/test_kills.py and test_freezes.py hold over all engines, at night.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from agent_factory.service import Service
from processes import Processes
from service.databases import new_postgres
from service.desk import Journal, check_history, make_desk
from service.engines.servers import SERVERS
from service.worker_process import WorkerProcess
from waiting import until

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]


class Desk:
    """A service of an engine, with its own database, and its workers."""

    def __init__(self, service: Service, journal: Journal, start: Callable[..., Any]) -> None:
        self.service, self.journal, self.start = service, journal, start
        service.add("desk", make_desk(journal))


@pytest.fixture
def desks(
    request: pytest.FixtureRequest, postgres_server: Any, processes: Processes, tmp_path: Path
) -> Iterator[list[Desk]]:
    """A desk for each engine: they wait at the same time."""
    with ExitStack() as stack:
        made = []
        for kind in SERVERS:
            engine = request.getfixturevalue(f"{kind}_server").url(f"t{uuid4().hex[:8]}")
            url, path = new_postgres(postgres_server), tmp_path / kind
            start = partial(WorkerProcess, processes, path, url, engine=engine)
            service = Service(url, engine=engine)
            stack.callback(service.close)
            made.append(Desk(service, Journal(path), start))
        yield made


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
    options: dict[str, Any] = {"calls": 6, "seconds": 0.2, "middleware": "once"}
    firsts = [desk.start(**options) for desk in desks]
    runs = [
        [
            desk.service.submit("desk", thread=f"t-{at % 4}", message="Pay.", message_id=f"m-{at}")
            for at in range(8)
        ]
        for desk in desks
    ]
    for desk, first in zip(desks, firsts, strict=True):
        until(partial(desk.journal.has, "pay", 4))
        first.send(sign)
    for desk, ours in zip(desks, runs, strict=True):
        for _ in range(3):  # Restate's requests go to the frozen process, too: one of four
            desk.start(**options)
        for run in ours:
            run.result(120)
    for desk, first in zip(desks, firsts, strict=True):
        first.send(signal.SIGCONT)
        for at in range(4):
            messages = desk.service.threads.state(f"t-{at}").values["messages"]
            check_history(messages, [f"m-{at}", f"m-{at + 4}"])
        assert max(desk.journal.times("pay").values()) == 1
