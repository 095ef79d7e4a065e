"""Databases for the tests of the service: SQLite files, and a Postgres from a wheel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_factory.service import Service
from agent_factory.service.backend import Backend
from agent_factory.service.database import Database
from service.databases import new_postgres, new_server
from service.stage import stage  # noqa: F401  a fixture


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A Postgres for this process of the tests."""
    with new_server(tmp_path_factory.mktemp("runtime")) as server:
        yield server


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/service.db"


@pytest.fixture
def postgres_url(postgres_server: Any) -> str:
    return new_postgres(postgres_server)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.long)])
def url(request: pytest.FixtureRequest) -> str:
    """Each kind of database in turn."""
    found: str = request.getfixturevalue(f"{request.param}_url")
    return found


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    """A database with its tables."""
    made = Database(url)
    yield made
    made.close()


@pytest.fixture
def backend(url: str) -> Iterator[Backend]:
    """The parts of a service without a worker."""
    made = Backend(Database(url))
    yield made
    made.close()


@pytest.fixture
def service(url: str) -> Iterator[Service]:
    """A service whose worker a test starts with `service.start()`."""
    made = Service(url)
    yield made
    made.close()


@pytest.fixture
def until() -> Callable[..., None]:
    """Wait until a condition holds, at most for some seconds."""
    import time

    def wait(condition: Callable[[], object], seconds: float = 60.0) -> None:
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, "the condition did not hold in time"
            time.sleep(0.02)

    return wait


@pytest.fixture
def ends_when_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run ends once somebody in its process waits for its output."""
    import time

    from agent_factory.service.outputs import Outputs

    are_awaited = Outputs.are_awaited

    def wait(outputs: Outputs, run: str) -> bool:
        end = time.monotonic() + 30.0
        while not are_awaited(outputs, run) and time.monotonic() < end:
            time.sleep(0.001)
        return are_awaited(outputs, run)

    monkeypatch.setattr(Outputs, "are_awaited", wait)


@pytest.fixture
def sqlite_service(sqlite_url: str) -> Iterator[Service]:
    """A service whose database is a file."""
    made = Service(sqlite_url)
    yield made
    made.close()
