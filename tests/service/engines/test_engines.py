"""A service over an engine of a product: the promises of `Engine` and `Work`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from threading import Barrier, Thread

import pytest
from sqlalchemy import insert, update

from agent_factory.errors import ArgumentError
from agent_factory.service import Service
from agent_factory.service import worker as module
from agent_factory.service.engines import Embedded, Engine, JobRef
from agent_factory.service.rows import logged
from agent_factory.service.tables import threads, workers
from service.desk import Journal, check_history, make_desk, waiting
from service.engines.own_engine import OwnEngine
from service.paces import QUICK
from service.stored import Tables, tables_of
from waiting import until

WAIT = 60.0


@pytest.fixture
def engine() -> OwnEngine:
    return OwnEngine()


@pytest.fixture
def desk(url: str, engine: OwnEngine, journal: Journal) -> Iterator[Service]:
    """A service with this engine, which a test starts."""
    with closing(Service(url, engine=engine, pace=QUICK)) as service:
        service.add("desk", make_desk(journal, review=True, calls=1))
        yield service


@pytest.mark.parametrize("asynchronous", [False, True])
def test_messages_reviews_and_their_order(
    url: str, engine: OwnEngine, journal: Journal, asynchronous: bool
) -> None:
    with Service(url, engine=engine, pace=QUICK) as service:
        agent = make_desk(journal, review=True, calls=1)
        service.add("desk", agent, asynchronous=asynchronous)
        wait = waiting(service, "t")
        later = service.submit("desk", thread="t", message="Pay.", message_id="m-2")
        service.decide(wait.id, "approve", by="ann").result(WAIT)
        until(lambda: later.status == "waiting")
        (wait,) = service.inbox().waits(thread="t")
        service.decide(wait.id, "approve", by="ann").result(WAIT)
        check_history(service.threads.state("t").values["messages"], ["m-1", "m-2"])
        assert [job.thread for job in engine.started] == ["t"] * 4
        assert len({job.id for job in engine.started}) == 4
        until(lambda: len(engine.outcomes) == 4)
        assert engine.outcomes == ["waiting", "done"] * 2


def test_a_job_that_is_carried_out_again_changes_nothing(desk: Service, engine: OwnEngine) -> None:
    desk.start()
    waiting(desk, "t")
    (job,) = engine.started
    assert desk.carry_out(job.id).status == "lost"
    assert desk.carry_out("t/00000000").status == "lost"
    assert desk.carry_out("nowhere").status == "lost"


def test_of_two_calls_at_once_the_later_comes_again(
    desk: Service, engine: OwnEngine, journal: Journal
) -> None:
    run = desk.submit("desk", thread="t", message="Pay.", message_id="m-1")
    desk.start()
    barrier, outcomes = Barrier(2), list[str]()

    def carry_out() -> None:
        barrier.wait(WAIT)
        outcomes.append(desk.carry_out(engine.started[0].id).status)

    both = [Thread(target=carry_out) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join(WAIT)
    assert run.result(WAIT)
    assert sorted(outcomes) in (["later", "waiting"], ["lost", "waiting"])
    assert len(journal.lines("model")) == 1


def test_a_job_waits_for_its_time_and_for_the_limit_of_its_tenant(
    desk: Service, engine: OwnEngine
) -> None:
    desk.limit("acme", concurrency=1)
    desk.start()
    one, two = (
        desk.submit("desk", thread=f"t-{at}", tenant="acme", message="Pay.", delay=0.2)
        for at in range(2)
    )
    assert one.result(WAIT)
    assert two.result(WAIT)  # a thread that waits for a decision does not count
    assert all(0 < job.delay < 0.3 for job in engine.started)


class Queue(Engine):
    """A queue of a product: `start` puts ids into it, and short processes take them out."""

    name = "queue"

    def __init__(self) -> None:
        self.jobs: list[str] = []

    def start(self, job: JobRef) -> None:
        self.jobs.append(job.id)


def test_consumers_that_live_for_one_job(url: str, journal: Journal) -> None:
    queue = Queue()

    def take(job: str) -> str:
        """A process: a lambda, or a task of Celery."""
        with Service(url, engine=queue, pace=QUICK) as service:
            service.add("desk", make_desk(journal, review=True, calls=1))
            return service.carry_out(job).status

    with closing(Service(url, engine=queue)) as web:
        web.add("desk", make_desk(journal, review=True, calls=1))
        web.limit("", concurrency=1)
        for at in range(2):
            web.submit("desk", thread=f"t-{at}", message="Pay.", message_id="m-1")
        statuses = []
        while queue.jobs:
            statuses.append(take(job := queue.jobs.pop(0)))
            for wait in web.inbox().waits():
                web.decide(wait.id, "approve", by="ann")
            assert take(job) == "lost"  # a queue that delivers twice
        assert statuses == ["waiting", "waiting", "done", "done"]
        for at in range(2):
            check_history(web.threads.state(f"t-{at}").values["messages"], ["m-1"])
    assert set(journal.times("pay").values()) == {1}


def test_jobs_that_an_engine_has_forgotten_are_started_again(
    desk: Service, engine: OwnEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_RECONCILE", 0.1)
    monkeypatch.setattr(module, "_PAGE", 2)
    runs = [desk.submit("desk", message="Pay.") for _ in range(5)]
    desk.start()
    for run in runs:
        assert run.result(WAIT)


def test_jobs_of_a_dead_process_are_started_again(desk: Service, engine: OwnEngine) -> None:
    run = desk.submit("desk", thread="t", message="Pay.")
    dead = {"status": "running", "owner": "dead"}
    tables_of(desk).write(update(threads).values(dead))
    desk.start()
    assert run.result(WAIT)


def test_a_job_is_taken_over_once_its_process_is_silent(
    desk: Service, engine: OwnEngine, tables: Tables
) -> None:
    """The engine has noticed its death, and calls again."""
    run = desk.submit("desk", thread="t", message="Pay.")
    row = {"id": "dead", "beat": tables.now, "draining": False, "detail": '{"agents": []}'}
    tables.write(insert(workers).values(row))
    tables.write(update(threads).values(status="running", owner="dead"))
    desk.start()
    (job,) = engine.started
    assert desk.carry_out(job.id).status == "later"
    tables.write(update(workers).where(workers.c.id == "dead").values(beat=tables.now - 5))
    assert desk.carry_out(job.id).status == "waiting"
    assert run.status == "waiting"


def test_an_engine_forgets_what_was_cancelled(desk: Service, engine: OwnEngine) -> None:
    desk.start()
    run = desk.submit("desk", thread="t", message="Pay.", delay=600)
    run.cancel(by="ann")
    assert [job.id for job in engine.cancelled] == [job.id for job in engine.started]


def test_work_moves_from_one_engine_to_another(desk: Service, url: str, journal: Journal) -> None:
    """Both serve for some time, and each job is carried out once."""
    with Service(url, pace=QUICK) as embedded:
        embedded.add("desk", make_desk(journal, review=True, calls=1))
        desk.start()
        runs = [
            (desk if at % 2 else embedded).submit("desk", thread=f"t-{at}", message="Pay.")
            for at in range(20)
        ]
        for run in runs:
            run.result(WAIT)
    assert set(journal.times("model").values()) == {1}
    assert len(journal.lines("model")) == 20


def test_an_engine_is_chosen_by_its_url(sqlite_url: str) -> None:
    with closing(Service(sqlite_url, engine="embedded")) as service:
        assert isinstance(service.engine, Embedded)
        for url in ("celery://x", "embedded://x", "", "temporal://x:port", "restate://x:port"):
            with pytest.raises(ArgumentError, match=r"must be the URL|cannot be reached by"):
                service.use(url)
        with pytest.raises(ArgumentError, match="has not been started"):
            service.carry_out("t/1")
        service.start()
        with pytest.raises(ArgumentError, match="has been started"):
            service.use("embedded")


def test_a_process_names_its_engine(desk: Service) -> None:
    from starlette.testclient import TestClient

    from agent_factory.serve.health import health_app

    engine = TestClient(health_app(desk)).get("/ready").json()["engine"]
    assert engine == {"name": "own", "ready": False}


def test_a_job_that_fails_each_time_is_logged_ever_less_often(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for fails in [*[True] * 10, False, True]:
        with logged("The job %s begins again.", "t-1/00000001"):
            assert not fails
    assert len(caplog.records) == 5  # 1, 2, 4 and 8, and once after a success
