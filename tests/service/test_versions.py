"""Versions that a service refuses, since they would break a promise."""

from __future__ import annotations

import re
import sqlite3
import tomllib
from contextlib import closing
from importlib.metadata import PackageNotFoundError
from itertools import product
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from agent_factory.errors import install
from agent_factory.service import Service, ServiceError, versions
from tables import each

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
