"""Versions that a service refuses, since they would break a promise; and old SQLite's clock."""

from __future__ import annotations

import re
import sqlite3
import time
import tomllib
from contextlib import closing
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest
from dbos import DBOS
from packaging.requirements import Requirement
from sqlalchemy import create_engine, make_url, text

from agent_factory.errors import install
from agent_factory.service import Service, ServiceError, sqlite_clock, versions
from agent_factory.service.database import Database
from agent_factory.service.sqlite_clock import with_clock

ROOT = Path(__file__).resolve().parents[2]
POSTGRES = "postgresql://user@localhost/desk"


@pytest.mark.parametrize("version", ["2.0.11", "3.0.2", "3.1.0", "3.1.1rc1"])
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
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


@pytest.mark.parametrize("version", ["3.1.1", "3.2.0", "4.0"])
def test_a_store_that_keeps_tenants_apart_is_used(
    version: str, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "version", lambda package: version)
    with closing(Service(sqlite_url)) as service:
        assert service.store("acme").search(()) == []


def test_a_store_that_is_not_installed_is_named(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    extras = project["optional-dependencies"].values()
    requirements = [Requirement(line) for extra in extras for line in extra]
    stores = [
        requirement
        for requirement in requirements
        if requirement.name.startswith("langgraph-checkpoint-")
    ]
    assert {store.name.rpartition("-")[2] for store in stores} == {"sqlite", "postgres"}
    for store in stores:
        bounds = {part.operator: part.version for part in store.specifier}
        assert bounds[">="] == str(versions.STORES_SINCE), store


# The clock. `make newest` and `make oldest` run services on Python 3.12 and newer.


def test_the_database_knows_the_time_in_columns_as_dbos_creates_them(sqlite_url: str) -> None:
    with closing(sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))) as plain:
        plain.execute(
            "create table moments (id integer, at integer not null "
            "default (unixepoch('subsec') * 1000))"
        )
    database = Database(sqlite_url)
    before = time.time()
    with database.begin() as connection:
        connection.execute(text("insert into moments (id) values (1)"))
        at = connection.execute(text("select at from moments")).scalar_one()
    database.close()
    assert before - 0.01 <= at / 1000 <= time.time() + 0.01


def test_engines_of_a_url_with_the_clock_know_the_time(tmp_path: Path) -> None:
    for name in ("desk.db", "my desk.db"):
        url = make_url(f"sqlite:///{tmp_path}/{name}?timeout=7")
        engine = create_engine(with_clock(url).render_as_string())
        with engine.connect() as connection:
            at = connection.execute(text("select unixepoch('subsec')")).scalar_one()
        engine.dispose()
        assert at == pytest.approx(time.time(), abs=60)
        assert (tmp_path / name).exists()


@pytest.mark.parametrize("moment", ["2020-02-29 12:00:00.5", "1969-12-31", "nonsense"])
def test_other_moments_are_those_of_sqlite(moment: str) -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        query = "select cast(strftime('%s', ?) as integer)"
        (expected,) = connection.execute(query, (moment,)).fetchone()
        connection.create_function("unixepoch", 1, sqlite_clock._unixepoch)
        assert connection.execute("select unixepoch(?)", (moment,)).fetchone() == (expected,)


def test_dbos_creates_the_engine_of_a_migration_by_its_url(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Canary: otherwise its migrations would run without the clock."""
    connections: list[Any] = []
    monkeypatch.setattr(sqlite_clock, "set_clock", lambda *args: connections.append(args[0]))
    DBOS.migrate(with_clock(make_url(sqlite_url)).render_as_string())
    assert connections
    assert all(isinstance(connection, sqlite3.Connection) for connection in connections)
