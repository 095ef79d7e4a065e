"""Starts of a service that fail, for whatever cause, and the one after them."""

from __future__ import annotations

import re
import sqlite3
import threading
import tomllib
from importlib.metadata import PackageNotFoundError
from itertools import chain, product
from pathlib import Path
from unittest.mock import Mock

import pytest
import uvicorn
from packaging.requirements import Requirement
from sqlalchemy import delete
from typer.testing import CliRunner

from agent_factory import create_agent
from agent_factory.cli.app import app
from agent_factory.errors import install
from agent_factory.service import DatabaseUnavailable, Service, ServiceError, versions
from agent_factory.service import worker as workers
from agent_factory.service.database import Database
from agent_factory.service.tables import workers as worker_rows
from agent_factory.testing import ScriptedChatModel
from service.paces import QUICK
from service.stored import Tables
from tables import each
from waiting import until


def starts(url: str) -> None:
    """A service starts here, and runs a message."""
    with Service(url) as service:
        service.add("desk", create_agent(ScriptedChatModel(["Hello!"])))
        run = service.submit("desk", message="Hi")
        assert run.result(timeout=60)["messages"][-1].text == "Hello!"
        assert service.worker_id in [worker["id"] for worker in service.workers()]


@pytest.mark.long
@pytest.mark.parametrize("thread", ["jobs", "beat", "upkeep", "async"])
@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_start_that_fails_leaves_nothing(
    thread: str, error: type[BaseException], sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As at the limit of threads, or where somebody stops it."""
    before, start = {*threading.enumerate()}, threading.Thread.start

    def fails(started: threading.Thread) -> None:
        if started.name == f"agent-factory-{thread}":
            raise error
        start(started)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fails)
        service = Service(sqlite_url)
        for _ in range(2):
            with pytest.raises(error):
                service.start()
        assert service.workers() == []
        assert service.worker_id is None
        with pytest.raises(error), service:
            pytest.fail("a service whose start failed was entered")
    new = {*threading.enumerate()} - before
    assert not [one for one in new if one.name.startswith("agent-factory-")]
    starts(sqlite_url)


@pytest.mark.parametrize(
    ("content", "name", "error"),
    [("no database", "service.db", "not a database"), ("", "folder/service.db", "unable to open")],
)
def test_a_start_without_tables_leaves_others_alone(
    tmp_path: Path, sqlite_url: str, content: str, name: str, error: str
) -> None:
    if content:
        (tmp_path / name).write_text(content * 100)
    with pytest.raises(Exception, match=error), Service(f"sqlite:///{tmp_path}/{name}"):
        pytest.fail("a service without tables was entered")
    starts(f"sqlite:///{tmp_path}/another.db")


def test_a_server_whose_port_is_taken_ends_its_service(
    sqlite_url: str, empty_folder: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The name of no other test: the module stays in this process.
    Path("served_desk.py").write_text(
        "from agent_factory.service import Service\n"
        f"service = Service({sqlite_url.replace('service.db', 'served.db')!r})\n"
    )
    # As uvicorn ends then. Its event loop would stay open, for a later test to fail.
    monkeypatch.setattr(uvicorn, "run", Mock(side_effect=SystemExit(1)))
    result = CliRunner().invoke(app, ["serve", "served_desk.py:service"])
    assert result.exit_code == 1
    starts(sqlite_url)


def test_a_worker_that_could_not_begin_again_tries_it_at_the_next_beat(
    url: str, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    enter, failures = workers.Worker.enter, iter([Mock(side_effect=RuntimeError)])
    with Service(url, pace=QUICK) as service:
        # What has begun under the lost id begins again.
        service.add("desk", create_agent(ScriptedChatModel(["Hello!"] * 9)))
        first = service.worker_id
        monkeypatch.setattr(workers.Worker, "enter", lambda worker: next(failures, enter)(worker))
        tables.write(delete(worker_rows))  # as another worker does that has seen no sign of life
        run = service.submit("desk", message="Hi")
        assert run.result(timeout=60)["messages"][-1].text == "Hello!"
        until(lambda: [worker["id"] for worker in service.workers()] == [service.worker_id])
        assert service.worker_id != first
    assert [*failures] == []


def test_a_service_without_its_database_stops(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unavailable(_: Database) -> None:
        raise DatabaseUnavailable("the database", "is gone.")

    with Service(sqlite_url) as service, monkeypatch.context() as patch:
        patch.setattr(Database, "begin", unavailable)
        service.stop()
    assert service.worker_id is None
    starts(sqlite_url)


ROOT = Path(__file__).resolve().parents[2]
POSTGRES = "postgresql://user@localhost/desk"


@each("kind, version", product(["sqlite", "postgres"], ["2.0.11", "3.0.2", "3.1.0", "3.1.1rc1"]))
def test_a_store_that_mixes_tenants_is_refused(
    kind: str, version: str, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "version", lambda package: version)
    package = f"langgraph-checkpoint-{kind}"
    with pytest.raises(ServiceError) as error:
        Service(sqlite_url if kind == "sqlite" else POSTGRES)
    assert str(error.value) == (
        f"[AF360] the store: needs {package} 3.1.1 or newer, got {version}, which returns items of "
        f"one tenant to others. Run pip install '{package}>=3.1.1'."
    )


@each("version", ["3.1.1", "3.2.0", "4.0"])
def test_a_store_that_keeps_tenants_apart_is_used(
    version: str, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "version", lambda package: version)
    Service(sqlite_url).close()


def test_a_store_that_is_missing_is_named(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def version(package: str) -> str:
        raise PackageNotFoundError(package)

    monkeypatch.setattr(versions, "version", version)
    with pytest.raises(ServiceError, match=r"langgraph-checkpoint-sqlite 3\.1\.1 or newer, which"):
        Service(sqlite_url)
    with pytest.raises(ServiceError, match=re.escape(install("postgres"))):
        Service(POSTGRES)


def test_a_sqlite_without_returning_is_refused(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 34, 1))
    monkeypatch.setattr(sqlite3, "sqlite_version", "3.34.1")
    with pytest.raises(ServiceError, match=r"must be 3\.35\.0 or newer, got 3\.34\.1"):
        Service(sqlite_url)


def test_the_bounds_of_the_stores_are_those_that_are_checked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = chain.from_iterable(project["optional-dependencies"].values())
    names = {f"langgraph-checkpoint-{database}" for database in ("sqlite", "postgres")}
    stores = [store for store in map(Requirement, lines) if store.name in names]
    assert {store.name for store in stores} == names
    for store in stores:
        bounds = {part.operator: part.version for part in store.specifier}
        assert bounds[">="] == str(versions.STORES_SINCE), store
