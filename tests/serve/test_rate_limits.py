"""Limits of requests: they hold over all processes that serve one database."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Double, literal, select
from starlette.exceptions import HTTPException
from starlette.testclient import TestClient

from agent_factory.errors import ArgumentError
from agent_factory.serve import RateLimit, create_app
from agent_factory.serve.security import RateLimiter, network_of
from agent_factory.service import DatabaseUnavailable, Service
from agent_factory.service.database import Database
from agent_factory.service.request_rates import RequestRates
from agent_factory.service.tables import rates
from processes import Processes, exit_code
from serve.accounts import who
from service.databases import new_postgres
from service.stored import Tables

ANN = {"x-user": "ann@acme"}


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Any) -> str:
    """Each kind of database in turn."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/desk.db"
    return new_postgres(request.getfixturevalue("postgres_server"))


@pytest.fixture
def instances(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., TestClient]]:
    """Clients of applications that share a database, as those of several processes do.

    No time passes: on a slow machine more requests would become due.
    """
    monkeypatch.setattr(Database, "now", at(1e6))
    services = []

    def make(**options: Any) -> TestClient:
        services.append(Service(url))
        app = create_app(services[-1], **{"authenticate": who, **options})
        return TestClient(app, "http://desk.example", headers=ANN)

    yield make
    for service in services:
        service.close()


def statuses(clients: list[TestClient], number: int, **options: Any) -> list[int]:
    """The statuses of requests to one instance after the other."""
    return [
        clients[at % len(clients)].get("/threads/nope", **options).status_code
        for at in range(number)
    ]


@pytest.mark.long
def test_a_principal_who_asks_too_often(instances: Callable[..., TestClient]) -> None:
    clients = [instances(rate_limit=RateLimit(principal=3)) for _ in range(2)]
    assert statuses(clients, 6) == [404, 404, 404, 429, 429, 429]
    answer = clients[0].get("/threads/nope")
    assert answer.json()["detail"] == "These are more than 3 requests a minute. Try again later."
    assert 1 <= int(answer.headers["retry-after"]) <= 20
    for other in ("bob@acme", "ann@globex"):
        assert statuses(clients, 2, headers={"x-user": other}) == [404, 404]


def test_an_address_that_asks_too_often(instances: Callable[..., TestClient]) -> None:
    """Also one that guesses keys. Those of one network count as one."""
    clients = [instances(rate_limit=RateLimit(address=2)) for _ in range(2)]
    assert statuses(clients, 4, headers={"x-user": ""}) == [401, 401, 429, 429]
    assert "retry-after" in clients[0].get("/ok").headers
    other = TestClient(clients[1].app, headers=ANN, client=("10.0.0.7", 1))
    assert other.get("/threads/nope").status_code == 404
    network = [TestClient(clients[0].app, headers=ANN, client=(f"2001:db8::{n}", 1)) for n in "123"]
    assert statuses(network, 3) == [404, 404, 429]
    assert network_of("::ffff:192.0.2.7") == "192.0.2.7"


@pytest.mark.long
def test_a_large_limit_holds_too(instances: Callable[..., TestClient]) -> None:
    """Each instance takes blocks of 4, and single ones near the limit."""
    clients = [instances(rate_limit=RateLimit(address=240)) for _ in range(3)]
    found = statuses(clients, 300, headers={"x-user": ""})
    assert found[:230] == [401] * 230
    assert found.count(401) == 240


def test_applications_with_different_limits_count_apart(
    instances: Callable[..., TestClient],
) -> None:
    """And there may be none."""
    assert statuses([instances(rate_limit=RateLimit(2))], 3) == [404, 404, 429]
    assert statuses([instances(rate_limit=RateLimit(3))], 4) == [404, 404, 404, 429]
    assert statuses([instances(rate_limit=None)], 5) == [404] * 5
    nobody = instances(rate_limit=RateLimit(1, 1), authenticate=None)
    assert {nobody.get("/ok").status_code for _ in range(5)} == {200}


def test_a_limit_below_one() -> None:
    with pytest.raises(ArgumentError, match="must be at least 1, got 0"):
        RateLimit(address=0)


COUNTING = """
import sys
from agent_factory.service import Service
service = Service(sys.argv[1])
print(sum(not service.take_requests("ann", 50) for _ in range(60)))
service.close()
"""


@pytest.mark.long
def test_processes_share_a_limit(url: str, processes: Processes) -> None:
    service = Service(url)
    service.take_requests("other", 1)  # the tables are there
    service.close()
    start = time.monotonic()
    command = [sys.executable, "-c", COUNTING, url]
    counting = [processes.start(command, stdout=subprocess.PIPE) for _ in range(2)]
    assert [exit_code(process) for process in counting] == [0, 0]
    counted = [int(process.communicate()[0]) for process in counting]
    due = (time.monotonic() - start) / 1.2  # one becomes due each 1.2 s
    assert 50 <= sum(counted) <= 50 + due + 1


def test_a_server_lives_without_its_database(tmp_path: Any) -> None:
    service = Service(f"sqlite:///{tmp_path}/nowhere/desk.db")
    client = TestClient(create_app(service, who), headers=ANN)
    assert client.get("/ok").status_code == 200
    service.close()


# The rates themselves


@pytest.fixture(scope="module")
def law_rates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RequestRates]:
    database = Database(f"sqlite:///{tmp_path_factory.mktemp('rates')}/desk.db")
    yield RequestRates(database)
    database.close()


def at(moment: float) -> Any:
    """A database whose clock shows a moment."""
    return property(lambda _: literal(moment, Double))


@given(st.integers(1, 9), st.lists(st.floats(0, 9) | st.just(0.0), min_size=1, max_size=25))
def test_a_limit_holds_for_any_minute(
    law_rates: RequestRates, per_minute: int, waits: list[float]
) -> None:
    """What is counted is what is there at first, and what comes back evenly."""
    now, counted, key = 1e6, [], uuid4().hex
    with pytest.MonkeyPatch.context() as patch:
        for wait in waits:
            now += wait
            patch.setattr(Database, "now", at(now))
            if seconds := law_rates.take(key, 1, per_minute):
                now += seconds + 0.001
                patch.setattr(Database, "now", at(now))
                assert law_rates.take(key, 1, per_minute) == 0.0
            counted.append(now)
    for position, start in enumerate(counted):
        for number, end in enumerate(counted[position:], 1):
            assert number <= per_minute + (end - start) * per_minute / 60 + 0.01


@pytest.mark.long
@given(st.integers(1, 40), st.integers(1, 5), st.floats(1, 1e9))
def test_a_whole_minute_may_come_at_once(
    law_rates: RequestRates, blocks: int, size: int, now: float
) -> None:
    key, per_minute = uuid4().hex, blocks * size
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Database, "now", at(now))
        for _ in range(blocks):
            assert law_rates.take(key, size, per_minute) == 0.0
        assert law_rates.take(key, 1, per_minute) > 0.0


def test_a_clock_that_is_set_back(law_rates: RequestRates, monkeypatch: pytest.MonkeyPatch) -> None:
    """By an hour: nobody waits for an hour. By half a minute: nobody gets more requests."""
    for moment, is_counted in ((1e6, True), (1e6 - 30, False), (1e6 - 3600, True)):
        monkeypatch.setattr(Database, "now", at(moment))
        assert (law_rates.take("ann", 60, 60) == 0.0) is is_counted


def test_rows_of_those_who_are_idle_are_deleted(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(f"sqlite:///{tmp_path}/desk.db")
    for number in range(5):
        RequestRates(database).take(f"key {number}", 60, 60)
    rows = Tables(database).rows(select(rates))
    assert len(rows) == 5
    assert "key 1" not in str(rows)
    monkeypatch.setattr(Database, "now", at(max(row.full_at for row in rows) + 1))
    RequestRates(database).take("another", 1, 60)
    assert len(Tables(database).rows(select(rates))) == 1
    database.close()


# What a process does between two counts


def limiter(per_minute: int, taken: list[int], answers: Any = 0.0) -> RateLimiter:
    """A limiter that notes what it takes."""

    def take(key: str, per_minute: int, *, number: int) -> float:
        taken.append(number)
        result = answers if isinstance(answers, float) else next(answers)
        if isinstance(result, Exception):
            raise result
        return float(result)

    return RateLimiter("test", per_minute, take)


async def test_a_block_is_one_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which expires if it is not spent."""
    taken: list[int] = []
    limit, now = limiter(6000, taken), 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    await asyncio.gather(*(limit.check("ann") for _ in range(250)))
    assert taken == [100, 100, 100]
    now += 61
    await limit.check("ann")
    assert taken == [100] * 4


async def test_a_refusal_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    limit, now = limiter(120, taken, iter([5.0, 3.0, 0.0])), 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    for passed, seconds in ((0.0, "3"), (0.0, "3"), (2.5, "1")):
        now += passed
        with pytest.raises(HTTPException) as error:
            await limit.check("ann")
        assert error.value.headers == {"Retry-After": seconds}
    assert taken == [2, 1]
    now += 1
    await limit.check("ann")
    assert taken == [2, 1, 2]


@pytest.mark.parametrize(
    "lost", [DatabaseUnavailable("the database", "is not available."), OSError("refused")]
)
async def test_requests_pass_while_the_database_is_not_available(
    caplog: pytest.LogCaptureFixture, lost: Exception
) -> None:
    taken: list[int] = []
    limit = limiter(600, taken, iter([lost, 0.0]))
    for _ in range(11):
        await limit.check("ann")
    assert taken == [10, 10]
    assert "Requests are not counted" in caplog.text


async def test_keys_that_are_idle_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    now, limit = 0.0, limiter(6000, [])
    monkeypatch.setattr("time.monotonic", lambda: now)
    for number in range(35_000):
        now += 0.01
        limit._refill(number)
    assert len(limit._left) < 31_000
