"""Workers that have different agents: each job is carried out by one that has its agent."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from sqlalchemy import update

from agent_factory import create_agent
from agent_factory.service import Pace, Run, RunFailed, Service
from agent_factory.service.jobs import DecisionJob, MessageJob, ThreadJob, UndoJob, read_job
from agent_factory.service.tables import runs
from agent_factory.testing import ScriptedChatModel
from service.desk import Journal, check_history, make_desk
from service.stored import Tables
from service.worker_process import WorkerProcess
from tables import each
from waiting import until

WAIT = 60.0
Older = Callable[[], Any]
Start = Callable[..., WorkerProcess]


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "journal"


@pytest.fixture
def service(url: str, journal: Path) -> Iterator[Service]:
    """A service with the agents "desk" and "new"; its worker is the newer one."""
    with closing(Service(url, pace=Pace(beat=0.1))) as with_both:
        for name in ("desk", "new"):
            with_both.add(name, make_desk(Journal(journal), calls=1, review=True))
        with_both.add("plain", make_desk(Journal(journal), calls=1))
        with_both.threads.create("t")  # the tables exist before workers start
        yield with_both


@pytest.fixture
def older_worker(service: Service, url: str, journal: Path) -> Callable[[], Any]:
    """A worker that has the agent "desk" alone, in place of that of the service."""

    @contextmanager
    def older_worker() -> Iterator[None]:
        service.stop()
        with Service(url) as older:
            older.add("desk", make_desk(Journal(journal), calls=1, review=True))
            yield

    return older_worker


def stays_queued(service: Service, run: Run) -> bool:
    """Whether the older worker leaves a run alone, after it has carried out another one."""
    service.submit("desk", message="Pay.").result(WAIT)
    thread = service.threads.get(run.thread_id)
    return run.status in ("queued", "running") and thread.status == "queued"


@pytest.mark.long
def test_messages_decisions_and_undoing_wait_for_a_worker_with_the_agent(
    service: Service, older_worker: Older
) -> None:
    with older_worker():
        run = service.submit("new", thread="t", message="Pay.", message_id="m-1")
        assert stays_queued(service, run)
    service.start()
    assert "__interrupt__" in run.result(WAIT)
    (wait,) = service.inbox().waits(thread="t")
    with older_worker():
        assert stays_queued(service, service.decide(wait.id, "approve", by="ann"))
    service.start()
    check_history(run.result(WAIT)["messages"], ["m-1"])

    again = service.submit("new", thread="t", message="Pay.", message_id="m-2")
    again.result(WAIT)
    with older_worker():
        again.cancel(undo=True)
        undo = service.run(f"undo-{again.id}")
        assert stays_queued(service, undo)
    service.start()
    undo.result(WAIT)
    assert undo.status == "done"


@pytest.mark.long
def test_a_run_of_a_dead_worker_is_taken_over_by_one_with_its_agent(
    service: Service, url: str, journal: Path, start_worker: Start
) -> None:
    """The older worker, which looks after the dead one, works next to them."""
    with start_worker(url, calls=1, review=True):
        newer = start_worker(url, calls=1, agents=["plain"], seconds=0.5)
        run = service.submit("plain", thread="t", message="Pay.", message_id="m-1")
        until(lambda: Journal(journal).lines("start"))
        newer.kill()
        until(lambda: service.threads.get("t").status == "queued")
        assert run.status == "running"
        service.start()
        check_history(run.result(WAIT)["messages"], ["m-1"])


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
def test_a_schedule_of_an_agent_that_a_worker_lacks(service: Service, older_worker: Older) -> None:
    service.schedule("always", "* * * * * *", agent="plain", message="Pay.", thread="cron")
    with older_worker():
        (schedule,) = service.schedules()
        until(lambda: time.time() > schedule.due + 1)
        service.submit("desk", message="Pay.").result(WAIT)
        assert service.threads.search(ids=["cron"]) == []
    service.start()
    until(lambda: [run for run in service.threads.search(ids=["cron"]) if run.status == "idle"])
    service.unschedule("always")


def test_a_job_that_cannot_be_read_fails_and_others_go_on(service: Service, tables: Tables) -> None:
    """A newer version may have stored it."""
    run = service.submit("plain", thread="t", message="Pay.")
    newer = update(runs).where(runs.c.run_id == run.id)
    tables.write(newer.values(payload='{"kind": "dance", "thread": "t"}'))
    service.start()
    with pytest.raises(RunFailed, match="dance"):
        run.result(WAIT)
    again = service.submit("plain", thread="t", message="Pay.", message_id="m-2")
    check_history(again.result(WAIT)["messages"], ["m-2"])


# Jobs as they are stored, which workers of several versions read


PLACE: dict[str, Any] = {
    "run": "r", "thread": "t", "tenant": "acme", "agent": "desk", "priority": 3, "trace": None,
}  # fmt: skip

STORED = {
    "message": {
        **PLACE, "kind": "message", "input": "gA==", "checkpoint": None, "context": None,
        "config": {}, "stream": None, "subgraphs": True, "interrupt_before": None,
        "interrupt_after": None,
    },
    "late message": {
        **PLACE, "kind": "message", "input": "gA==", "checkpoint": "c", "context": {"user": "ann"},
        "config": {"tags": ["a"]}, "stream": ["updates"], "subgraphs": False,
        "interrupt_before": ["tools"], "interrupt_after": "*", "begins_at": 5.5,
        "before": [["r0", "gA==", None]], "rollback": "r1",
    },
    "decision": {
        **PLACE, "kind": "decision", "decisions": {"d": {"type": "approve"}}, "stream": None,
    },
    "undo": {**PLACE, "kind": "undo", "of": "r0"},
}  # fmt: skip
"""Jobs as they are stored."""


@each("name", STORED)
def test_a_job_has_the_form_that_it_was_stored_in(name: str) -> None:
    """A worker of another version reads what this one stores, and the reverse."""
    job = read_job(json.dumps(STORED[name]))
    assert job is not None
    assert type(job) is {"decision": DecisionJob, "undo": UndoJob}.get(name, MessageJob)
    assert json.loads(job.to_text()) == STORED[name]
    # Fields of other versions are left out, or have a default.
    for later in ({}, {"later": "field"}):
        assert read_job(json.dumps({**STORED[name], **later})) == job
    needed = {*PLACE} - {"trace"} | {"kind", "input", "decisions", "of"}
    earlier = {key: value for key, value in STORED[name].items() if key in needed}
    job = read_job(json.dumps(earlier))
    assert isinstance(job, ThreadJob)
    assert job.trace is None
    assert read_job("{}") is None  # the row of a run without its message
