"""Databases for the tests of the service: SQLite files, and a Postgres from a wheel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from agent_factory.service import Pace, Service
from agent_factory.service.backend import Backend
from agent_factory.service.database import Database
from agent_factory.service.outputs import Outputs
from processes import Processes
from service.databases import new_postgres, new_server
from service.desk import Journal
from service.engines.servers import SERVERS, Server
from service.stage import stage  # noqa: F401  a fixture
from service.stored import Tables, backend_of
from service.worker_process import WorkerProcess
from waiting import until


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A Postgres for this process of the tests."""
    with new_server(tmp_path_factory.mktemp("runtime")) as server:
        yield server


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    """The work of the agents of a test."""
    return Journal(tmp_path / "journal")


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/service.db"


@pytest.fixture
def postgres_url(postgres_server: Any) -> str:
    return new_postgres(postgres_server)


def _engine_server(kind: str) -> Any:
    @pytest.fixture(scope="session", name=f"{kind}_server")
    def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
        """A server of an engine for this process of the tests."""
        server = SERVERS[kind](tmp_path_factory.mktemp(kind) / "data")
        server.start()
        yield server
        server.kill()

    return server


temporal_server, restate_server = map(_engine_server, SERVERS)


@pytest.fixture(params=["embedded", *(pytest.param(k, marks=pytest.mark.night) for k in SERVERS)])
def new_engine(request: pytest.FixtureRequest) -> Callable[[], str]:
    """Make URLs of each engine in turn, each for the processes of one service."""
    if request.param == "embedded":
        return lambda: "embedded"
    server: Server = request.getfixturevalue(f"{request.param}_server")
    return lambda: server.url(f"t{uuid4().hex[:8]}")


@pytest.fixture
def engine(new_engine: Callable[[], str]) -> str:
    """The URL of each engine in turn, for the processes of one service."""
    return new_engine()


KINDS = ["sqlite", "postgres"]


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest) -> str:
    """Each kind of database in turn."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture(scope="module", params=KINDS)
def module_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Each kind of database in turn, which the tests of a module share."""
    if request.param == "postgres":
        return new_postgres(request.getfixturevalue("postgres_server"))
    return f"sqlite:///{tmp_path_factory.mktemp('service')}/service.db"


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    """A database with its tables."""
    with closing(Database(url)) as database:
        yield database


@pytest.fixture
def tables(database: Database) -> Tables:
    """The rows that the service of a test has stored."""
    return Tables(database)


@pytest.fixture
def pace() -> Pace:
    """The times of `service`; `@paced(look=NEVER)` sets them for a test."""
    return Pace()


@pytest.fixture
def service(request: pytest.FixtureRequest, url: str, pace: Pace) -> Iterator[Service]:
    """A service whose worker a test starts with `service.start()`."""
    engine = request.getfixturevalue("engine") if "engine" in request.fixturenames else None
    with closing(Service(url, pace=pace, engine=engine)) as service:
        yield service


@pytest.fixture
def sqlite_service(sqlite_url: str, pace: Pace) -> Iterator[Service]:
    """A service whose database is a file."""
    with closing(Service(sqlite_url, pace=pace)) as service:
        yield service


@pytest.fixture
def backend(service: Service) -> Backend:
    """The parts of a service, for tests of one of them."""
    return backend_of(service)


@pytest.fixture
def start_worker(processes: Processes, tmp_path: Path) -> Callable[..., WorkerProcess]:
    """Start workers in other processes, whose agents write to `tmp_path / "journal"`."""
    return partial(WorkerProcess, processes, tmp_path / "journal")


@pytest.fixture
def ends_when_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run ends once somebody in its process waits for its output."""
    are_awaited = Outputs.are_awaited

    def wait(outputs: Outputs, run: str) -> bool:
        until(lambda: are_awaited(outputs, run))
        return True

    monkeypatch.setattr(Outputs, "are_awaited", wait)
