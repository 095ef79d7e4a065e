"""Nothing waits without a word: for a worker, for one with the agent, or for a decision."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from agent_factory import create_agent
from agent_factory.errors import ArgumentError
from agent_factory.service import MessageHeld, NoWorker, Pace, Run, Service
from agent_factory.service.backend import Backend
from agent_factory.service.progress import what_is_missing
from agent_factory.service.tables import workers
from agent_factory.testing import ScriptedChatModel
from service.desk import Journal, make_desk
from service.stored import Tables
from tables import each

WAIT = 60.0
LIMIT = 0.2  # waits: a caller gives up, and nothing else can happen meanwhile


@pytest.fixture
def service(url: str, tmp_path: Path) -> Iterator[Service]:
    """A service whose worker is not started; callers learn at once what it waits for."""
    with closing(Service(url, pace=Pace(notice=0.0))) as service:
        service.add("desk", make_desk(Journal(tmp_path / "journal"), calls=1, review=True))
        service.add("new", make_desk(Journal(tmp_path / "journal"), calls=1))
        yield service


def lacks_a_worker(service: Service, tables: Tables) -> Run:
    return service.submit("new", thread="t", message="Pay.")


def lists_a_worker(tables: Tables, agents: str, beat: Any) -> None:
    row = {"id": "w", "draining": False, "detail": f'{{"agents": {agents}}}'}
    tables.write(workers.insert().values(beat=beat, **row))


def lacks_a_worker_with_the_agent(service: Service, tables: Tables) -> Run:
    lists_a_worker(tables, '["desk", "sales"]', tables.now)
    return lacks_a_worker(service, tables)


def is_behind_a_run_that_lacks_a_worker(service: Service, tables: Tables) -> Run:
    service.submit("new", thread="t", message="Pay.")
    return service.submit("desk", thread="t", message="Pay.")


def is_held(service: Service, tables: Tables) -> Run:
    service.start()
    service.submit("desk", thread="t", message="Pay.").result(WAIT)
    service.stop()
    return service.submit("new", thread="t", message="Wait!")


def worker_is_dead(service: Service, tables: Tables) -> Run:
    """Its row is still there: no other worker has looked after it."""
    lists_a_worker(tables, '["desk", "new"]', 0.0)
    return lacks_a_worker(service, tables)


NO_WORKER = "waits for a worker: none runs"
OTHER_AGENTS = r"a worker with the agent 'new'; those that run have \['desk', 'sales'\]"
CASES: list[tuple[Callable[[Service, Tables], Run], type[Exception], str]] = [
    (lacks_a_worker, NoWorker, NO_WORKER),
    (lacks_a_worker_with_the_agent, NoWorker, OTHER_AGENTS),
    (is_behind_a_run_that_lacks_a_worker, NoWorker, NO_WORKER),
    (worker_is_dead, NoWorker, NO_WORKER),
    (is_held, MessageHeld, "is held .*waits for a decision about 'pay'"),
]


async def listed(run: Run) -> Any:
    return [part async for part in run.astream(timeout=LIMIT)]


WAYS: list[Callable[[Run], Any]] = [
    lambda run: run.result(LIMIT),
    lambda run: asyncio.run(run.aresult(LIMIT)),
    lambda run: [*run.stream(timeout=LIMIT)],
    lambda run: asyncio.run(listed(run)),
]


@pytest.mark.long
@pytest.mark.parametrize(
    ("submit", "kind", "text"), CASES, ids=[case[0].__name__ for case in CASES]
)
def test_the_log_and_the_error_name_what_is_missing(
    service: Service,
    tables: Tables,
    caplog: pytest.LogCaptureFixture,
    submit: Callable[[Service, Tables], Run],
    kind: type[Exception],
    text: str,
) -> None:
    run = submit(service, tables)
    for way in WAYS:
        caplog.clear()
        with (
            caplog.at_level(logging.WARNING, "agent_factory.service"),
            pytest.raises(TimeoutError, match=text) as raised,
        ):
            way(run)
        assert type(raised.value) is kind
        assert f"after {LIMIT} seconds" in str(raised.value)
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
    service: Service, backend: Backend, caplog: pytest.LogCaptureFixture
) -> None:
    service.start()
    assert [worker["agents"] for worker in service.workers()] == [["desk", "new"]]
    run = service.submit("new", thread="t", message="Pay.")
    with caplog.at_level(logging.WARNING, "agent_factory.service"):
        assert "waiting_for" not in [part["type"] for part in run.stream(timeout=WAIT)]
    assert caplog.records == []
    assert what_is_missing(backend, run.id) is None
    assert what_is_missing(backend, "nothing") is None


@each(
    "times, text",
    [
        ({"beat": -1}, "pace.beat: must be seconds, 0 or more, got -1"),
        ({"look": float("inf")}, "pace.look: must be seconds, 0 or more, got inf"),
        ({"wake": "1s"}, "pace.wake: must be seconds, 0 or more, got '1s'"),
        ({"retries": [1.0]}, r"pace.retries: must be a tuple of seconds, 0 or more, got \[1.0\]"),
        ({"retries": (1.0, -1.0)}, r"pace.retries: must be a tuple of seconds, 0 or more"),
    ],
)
def test_a_time_that_cannot_be_waited_for_is_refused(times: dict[str, Any], text: str) -> None:
    with pytest.raises(ArgumentError, match=text):
        Pace(**times)


@pytest.mark.parametrize(("dead_after", "is_dead"), [(10.0, True), (100.0, False)])
def test_callers_take_a_worker_for_dead_when_workers_do(
    url: str, tables: Tables, dead_after: float, is_dead: bool
) -> None:
    lists_a_worker(tables, '["desk"]', tables.now - 50)
    with closing(Service(url, pace=Pace(dead_after=dead_after))) as service:
        service.add("desk", create_agent(ScriptedChatModel(["Hi."])))
        with pytest.raises(TimeoutError) as error:
            service.submit("desk", message="Hi").result(0)
    assert isinstance(error.value, NoWorker) == is_dead
