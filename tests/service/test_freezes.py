"""A process that is frozen in a transaction holds up nobody, and its work is taken over."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from agent_factory.service import Service
from service.desk import Journal, check_history
from service.frozen_process import add_agents, approve, submit_all
from service.worker_process import WorkerProcess
from waiting import until

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

FREEZES = (
    "Inbox._decide",
    "ThreadQueue.claim",
    "FencedSaver.flush",
    "RunAttempt.finish",
    "submit",
    "SharedEffects.begin",
    "SharedEffects.finish",
    "EventLog.flush",
    "Inbox._claim",
    "Run._cancel",
    "delete_thread",
    "Service.schedule",
    "Service.unschedule",
    "Worker.enter",
    "Worker.give_sign",
    "ScheduledMessages._carry_out",
)
"""The functions whose transactions a process makes. Engines with a server `take` what they name."""

# Each call of Restate to the frozen process, about half of all, costs eleven seconds.
OF_RESTATE = ("ThreadQueue.claim", "RunAttempt.finish", "Worker.give_sign")
NIGHT = (pytest.mark.night,)
CASES = [
    *(pytest.param("embedded", function) for function in FREEZES),
    *(pytest.param("temporal", function, marks=NIGHT) for function in FREEZES),
    *(
        pytest.param("restate", function, marks=(*NIGHT, pytest.mark.timeout(900)))
        for function in OF_RESTATE
    ),
]

IS_PROOF = os.environ.get("HYPOTHESIS_PROFILE") == "prove"

Start = Callable[..., WorkerProcess]


@pytest.fixture
def start(start_worker: Start, url: str, engine: str) -> Start:
    """Start a process; with `freeze`, it acts until it freezes."""

    def start(**options: Any) -> WorkerProcess:
        return start_worker(url, module=("service.frozen_process",), engine=engine, **options)

    return start


@pytest.fixture
def desk(url: str, engine: str, journal: Journal) -> Iterator[Service]:
    """A service that submits and decides. Each tenant has limits."""
    with closing(Service(url, engine=engine)) as service:
        add_agents(service, journal)
        for tenant in ("a", "b"):
            service.limit(tenant, concurrency=3)
        yield service


@pytest.fixture
def seconds(engine: str) -> float:
    """The promise, for others and the work, by `make prove`. Restate has a longer one."""
    return 300.0 if engine.startswith("restate") else 15.0 if IS_PROOF else 120.0


@pytest.mark.parametrize(("new_engine", "function"), CASES, indirect=["new_engine"])
def test_a_process_is_frozen_in_a_transaction(
    desk: Service, journal: Journal, start: Start, function: str, seconds: float, engine: str
) -> None:
    function = function if engine == "embedded" else function.replace(".claim", ".take")
    with start():
        (early := submit_all(desk, "early", "b")[1]).result(60)
    frozen = start(freeze=function, ready=False)
    until(lambda: journal.lines("frozen"))
    with start():
        if engine.startswith("restate"):
            end_schedules(desk)  # a slow engine would get a run each second
        approve(desk, early).result(seconds)
        for tenant in ("a", "b"):
            plain, asks = submit_all(desk, f"late-{tenant}", tenant)
            assert plain.result(seconds)
            assert approve(desk, asks).result(seconds)
        end_all(desk, seconds)
        before = histories(desk)
        frozen.send(signal.SIGCONT)
        # What it began is over: it goes on with new work alone, or ends where others have decided.
        until(lambda: journal.lines("woke") or frozen.process.poll() is not None)
        frozen.kill()
        end_all(desk, seconds)
        after = histories(desk)
    for name in before.keys() & after.keys():  # it may go on to delete one
        assert after[name][: len(before[name])] == before[name]
    assert max(journal.times("pay").values()) == 1


def end_schedules(service: Service) -> None:
    for schedule in service.schedules():
        service.unschedule(schedule.name)


def end_all(service: Service, seconds: float) -> None:
    """Wait until each thread has ended, and no schedule begins others; approve what waits."""
    end_schedules(service)

    def busy() -> list[Any]:
        found = service.threads.search(limit=1000)
        return [one for one in found if one.status not in ("idle", "failed")]

    while threads := busy():
        for thread in threads:
            run = service.run(str(thread.run))
            if thread.id == "cancelled":  # the process had not come to that
                run.cancel(by="ann")
                continue
            run.result(seconds)
            if run.status == "waiting":
                approve(service, run)


def histories(service: Service) -> dict[str, list[Any]]:
    """The messages of all threads, which are valid."""
    found = {}
    for thread in service.threads.search(limit=1000):
        messages = service.threads.state(thread.id).values.get("messages", [])
        if thread.id.startswith(("early", "late", "frozen")) and messages:
            check_history(messages, ["m-000"])
        found[thread.id] = messages
    return found
