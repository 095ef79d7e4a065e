"""Workers that have different agents: each job is carried out by one that has its agent."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from sqlalchemy import update

from agent_factory import create_agent
from agent_factory.service import Run, RunFailed, Service
from agent_factory.service.tables import runs
from agent_factory.testing import ScriptedChatModel
from service.desk import Journal, check_history, make_desk
from service.worker_process import DEAD_AFTER, WorkerProcess

Until = Callable[..., None]
WAIT = 30.0


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "journal"


@pytest.fixture
def service(url: str, journal: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """A service with the agents "desk" and "new"; its worker is the newer one."""
    monkeypatch.setattr("agent_factory.service.worker.BEAT_SECONDS", 0.1)
    with_both = Service(url)
    for name in ("desk", "new"):
        with_both.add(name, make_desk(Journal(journal), calls=1, review=True))
    with_both.add("plain", make_desk(Journal(journal), calls=1))
    with_both.threads.create("t")  # the tables exist before workers start
    yield with_both
    with_both.close()


@contextmanager
def older_worker(service: Service, journal: Path) -> Iterator[None]:
    """A worker that has the agent "desk" alone, in place of that of the service."""
    service.stop()
    with Service(service._backend.database.url) as older:
        older.add("desk", make_desk(Journal(journal), calls=1, review=True))
        yield


def stays_queued(service: Service, run: Run) -> bool:
    """Whether the older worker leaves a run alone, after it has carried out another one."""
    service.submit("desk", message="Pay.").result(WAIT)
    return (
        run.status in ("queued", "running")
        and service.threads.get(run.thread_id).status == "queued"
    )


@pytest.mark.long
def test_messages_decisions_and_undoing_wait_for_a_worker_with_the_agent(
    service: Service, journal: Path, until: Until
) -> None:
    with older_worker(service, journal):
        run = service.submit("new", thread="t", message="Pay.", message_id="m-1")
        assert stays_queued(service, run)
    service.start()
    assert "__interrupt__" in run.result(WAIT)
    (wait,) = service.inbox().waits(thread="t")
    with older_worker(service, journal):
        assert stays_queued(service, service.decide(wait.id, "approve", by="ann"))
    service.start()
    check_history(run.result(WAIT)["messages"], ["m-1"])

    again = service.submit("new", thread="t", message="Pay.", message_id="m-2")
    again.result(WAIT)
    with older_worker(service, journal):
        again.cancel(undo=True)
        undo = service.run(f"undo-{again.id}")
        assert stays_queued(service, undo)
    service.start()
    undo.result(WAIT)
    assert undo.status == "done"


def test_a_stream_follows_a_job_that_waits_for_its_worker(service: Service, journal: Path) -> None:
    with older_worker(service, journal):
        run = service.submit("plain", thread="t", message="Pay.")
        parts = run.stream(timeout=WAIT)
        assert stays_queued(service, run)
    service.start()
    assert [part["data"]["status"] for part in parts if part["type"] == "end"] == ["done"]


@pytest.mark.long
def test_a_run_of_a_dead_worker_is_taken_over_by_one_with_its_agent(
    service: Service, url: str, journal: Path, until: Until
) -> None:
    """The older worker, which looks after the dead one, works next to them."""
    notes = Journal(journal)
    with WorkerProcess(url, journal, calls=1, review=True).wait_until_ready():
        with WorkerProcess(url, journal, calls=1, agents=["plain"], seconds=0.5) as newer:
            newer.wait_until_ready()
            run = service.submit("plain", thread="t", message="Pay.", message_id="m-1")
            until(lambda: notes.lines("start"))
            newer.kill()
        until(lambda: service.threads.get("t").status == "queued", WAIT + DEAD_AFTER)
        assert run.status == "running"
        service.start()
        check_history(run.result(WAIT)["messages"], ["m-1"])


@pytest.mark.long
def test_old_and_new_workers_side_by_side(service: Service, url: str, journal: Path) -> None:
    with WorkerProcess(url, journal, calls=1, review=True).wait_until_ready():
        service.start()
        runs = [
            service.submit(agent, message="Pay.") for _ in range(10) for agent in ("new", "desk")
        ]
        assert all("__interrupt__" in run.result(WAIT) for run in runs)


@pytest.mark.long
def test_limits_of_a_tenant_hold_for_jobs_that_wait_for_their_worker(
    service: Service, journal: Path
) -> None:
    at_once = [0, 0]

    def slow(messages: list[Any]) -> str:
        at_once[0] += 1
        at_once[1] = max(at_once)
        time.sleep(0.05)
        at_once[0] -= 1
        return "Done."

    model = ScriptedChatModel([slow] * 100)
    service.add("slow", create_agent(model, checkpointer=InMemorySaver()))
    service.limit("acme", concurrency=1)
    with older_worker(service, journal):
        runs = [
            service.submit("slow", thread=f"a-{at}", message="Hi", tenant="acme") for at in range(4)
        ]
        assert all(stays_queued(service, run) for run in runs)
    service.start()
    for run in runs:
        run.result(WAIT)
    assert at_once[1] == 1


def test_a_tenant_is_limited_and_an_agent_is_added_while_a_worker_runs(service: Service) -> None:
    service.start()
    service.limit("acme", concurrency=1)
    model = ScriptedChatModel(["Hello!"])
    assert service.submit("plain", message="Hi", tenant="acme").result(WAIT)
    service.add("late", create_agent(model, checkpointer=InMemorySaver()))
    values = service.submit("late", message="Hi").result(WAIT)
    assert values["messages"][-1].text == "Hello!"
    (worker,) = service.workers()
    assert "plain" in worker["agents"]


@pytest.mark.long
def test_a_schedule_of_an_agent_that_its_worker_lacks(
    service: Service, journal: Path, until: Until
) -> None:
    service.schedule("always", "* * * * * *", agent="plain", message="Pay.", thread="cron")
    with older_worker(service, journal):
        (schedule,) = service.schedules()
        until(lambda: time.time() > schedule.due + 1)
        service.submit("desk", message="Pay.").result(WAIT)
        assert service.threads.search(ids=["cron"]) == []
    service.start()
    until(lambda: [run for run in service.threads.search(ids=["cron"]) if run.status == "idle"])
    service.unschedule("always")


def test_a_job_that_cannot_be_read_fails_and_others_go_on(service: Service) -> None:
    """A newer version may have stored it."""
    run = service.submit("plain", thread="t", message="Pay.")
    with service._backend.database.begin() as connection:
        newer = update(runs).where(runs.c.run_id == run.id)
        connection.execute(newer.values(payload='{"kind": "dance", "thread": "t"}'))
    service.start()
    with pytest.raises(RunFailed, match="dance"):
        run.result(WAIT)
    again = service.submit("plain", thread="t", message="Pay.", message_id="m-2")
    check_history(again.result(WAIT)["messages"], ["m-2"])
