"""Nothing waits without a word: for a worker, for one with the agent, or for a decision."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from agent_factory.service import MessageHeld, NoWorker, Run, Service
from agent_factory.service.progress import what_is_missing
from agent_factory.service.tables import workers
from samples import combinations
from service.desk import Journal, make_desk

WAIT = 30.0


@pytest.fixture
def service(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """A service whose worker is not started; callers learn at once what it waits for."""
    monkeypatch.setattr("agent_factory.service.progress.SAY_AFTER", 0.0)
    made = Service(url)
    made.add("desk", make_desk(Journal(tmp_path / "journal"), calls=1, review=True))
    made.add("new", make_desk(Journal(tmp_path / "journal"), calls=1))
    yield made
    made.close()


def lacks_a_worker(service: Service) -> Run:
    return service.submit("new", thread="t", message="Pay.")


def lacks_a_worker_with_the_agent(service: Service) -> Run:
    """The database lists a worker that has other agents."""
    run = service.submit("new", thread="t", message="Pay.")
    database = service._backend.database
    with database.begin() as connection:
        row = {"id": "w", "draining": False, "detail": '{"agents": ["desk", "sales"]}'}
        connection.execute(workers.insert().values(beat=database.now, **row))
    return run


def is_behind_a_run_that_lacks_a_worker(service: Service) -> Run:
    service.submit("new", thread="t", message="Pay.")
    return service.submit("desk", thread="t", message="Pay.")


def is_held(service: Service) -> Run:
    service.start()
    service.submit("desk", thread="t", message="Pay.").result(WAIT)
    service.stop()
    return service.submit("new", thread="t", message="Wait!")


def worker_is_dead(service: Service) -> Run:
    """Its row is still there: no other worker has looked after it."""
    with service._backend.database.begin() as connection:
        row = {"id": "w", "draining": False, "detail": '{"agents": ["desk", "new"]}'}
        connection.execute(workers.insert().values(beat=0.0, **row))
    return service.submit("new", thread="t", message="Pay.")


@dataclass(frozen=True)
class Case:
    """A run that waits, and the error that says for what."""

    submit: Callable[[Service], Run]
    kind: type[Exception]
    text: str

    @property
    def name(self) -> str:
        return self.submit.__name__


NO_WORKER = "waits for a worker: none runs"
OTHER_AGENTS = r"a worker with the agent 'new'; those that run have \['desk', 'sales'\]"
CASES = [
    Case(lacks_a_worker, NoWorker, NO_WORKER),
    Case(lacks_a_worker_with_the_agent, NoWorker, OTHER_AGENTS),
    Case(is_behind_a_run_that_lacks_a_worker, NoWorker, NO_WORKER),
    Case(worker_is_dead, NoWorker, NO_WORKER),
    Case(is_held, MessageHeld, "is held .*waits for a decision about 'pay'"),
]


def result(run: Run) -> Any:
    return run.result(0.2)


def aresult(run: Run) -> Any:
    async def wait() -> Any:
        return await run.aresult(0.2)

    return asyncio.run(wait())


def stream(run: Run) -> Any:
    return [*run.stream(timeout=0.2)]


def astream(run: Run) -> Any:
    async def wait() -> Any:
        return [part async for part in run.astream(timeout=0.2)]

    return asyncio.run(wait())


WAYS: list[Callable[[Run], Any]] = [result, aresult, stream, astream]


@pytest.mark.long
@pytest.mark.parametrize(("case", "way"), combinations(CASES, WAYS, every=3))
def test_the_log_and_the_error_name_what_is_missing(
    service: Service, caplog: pytest.LogCaptureFixture, case: Case, way: Callable[[Run], Any]
) -> None:
    service.threads.create("t")
    run = case.submit(service)
    with (
        caplog.at_level(logging.WARNING, "agent_factory.service"),
        pytest.raises(TimeoutError, match=case.text) as raised,
    ):
        way(run)
    assert type(raised.value) is case.kind
    assert "after 0.2 seconds" in str(raised.value)
    (record,) = [record for record in caplog.records if "waits for" in record.message]
    assert "seconds" not in record.message


@pytest.mark.parametrize("is_async", [False, True])
def test_a_stream_says_what_the_run_waits_for_and_goes_on(service: Service, is_async: bool) -> None:
    run = service.submit("desk", thread="t", message="Pay.")
    seen: list[dict[str, Any]] = []

    def follow() -> None:
        seen.extend(run.stream(timeout=WAIT))

    async def afollow() -> None:
        async for part in run.astream(timeout=WAIT):
            seen.append(part)

    reader = Thread(target=(lambda: asyncio.run(afollow())) if is_async else follow)
    report = run.stream(timeout=WAIT)
    first = next(report)
    assert (first["type"], first["ns"], first["id"]) == ("waiting_for", (), None)
    assert first["data"]["what"] == "a worker"
    assert "[AF370]" in first["data"]["text"]
    reader.start()
    service.start()
    rest = [*report]
    reader.join(WAIT)
    assert rest[-1]["data"]["status"] == "waiting"
    assert not [part for part in rest if part["type"] == "waiting_for"]
    assert [part for part in seen if part["type"] != "waiting_for"] == rest
    # A message that comes now is held.
    held = service.submit("desk", thread="t", message="And?").stream(timeout=WAIT)
    assert next(held)["data"]["what"] == "a decision"
    # One who has seen some parts goes on behind them.
    again = [*run.stream(after=rest[0]["id"], timeout=WAIT)]
    assert [part for part in again if part["type"] != "waiting_for"] == rest[1:]


def test_nothing_is_missing_while_a_worker_works(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    service.start()
    run = service.submit("new", thread="t", message="Pay.")
    with caplog.at_level(logging.WARNING, "agent_factory.service"):
        assert "waiting_for" not in [part["type"] for part in run.stream(timeout=WAIT)]
    assert caplog.records == []
    assert what_is_missing(service._backend, run.id) is None
    assert what_is_missing(service._backend, "nothing") is None


def test_workers_say_which_agents_they_have(service: Service) -> None:
    service.start()
    assert [worker["agents"] for worker in service.workers()] == [["desk", "new"]]
