"""The command `upgrade`, and what other commands say about a database of another version."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from agent_factory.serve import create_app
from agent_factory.service import Service
from agent_factory.service.database import Database
from agent_factory.service.migrations import MIGRATIONS
from commands import run
from service.old_databases import load_sqlite
from tables import each

LOCAL = ("127.0.0.1", 50000)
VERSION = MIGRATIONS[-1].version
STEPS = [{"version": step.version, "title": step.title} for step in MIGRATIONS]
SERVICE = """from agent_factory.service import Service

service = Service("sqlite:///{path}")
"""


@pytest.fixture
def old_url(tmp_path: Path) -> str:
    return load_sqlite("5672936e", tmp_path / "old.db")


@pytest.fixture(params=["url", "service"])
def target(request: pytest.FixtureRequest, old_url: str, tmp_path: Path) -> str:
    """Each way to name a service."""
    if request.param == "url":
        return old_url
    file = tmp_path / "shop_upgrade.py"
    file.write_text(SERVICE.format(path=tmp_path / "old.db"))
    return f"{file}:service"


def version(url: str) -> int | None:
    with closing(Database(url)) as database:
        return database.pending_upgrade().before


def test_the_steps_are_shown_and_taken_once(target: str, old_url: str) -> None:
    steps = [f"  {step.version}  {step.title}." for step in MIGRATIONS]
    shown = run("upgrade", target, "--dry-run")
    first = f"The database has version 0, {VERSION} is needed:"
    assert (shown.exit_code, shown.stdout.splitlines()) == (1, [first, *steps])
    assert version(old_url) == 0
    done = run("upgrade", target)
    last = f"The database has version {VERSION} now."
    assert (done.exit_code, done.stdout.splitlines()) == (0, [first, *steps, last])
    assert version(old_url) == VERSION
    for options in ((), ("--dry-run",)):
        again = run("upgrade", target, *options)
        nothing = f"The database has version {VERSION}: there is nothing to do.\n"
        assert (again.exit_code, again.stdout) == (0, nothing)


def test_json_has_the_same_keys_each_time(old_url: str) -> None:
    results = [run("upgrade", old_url, "--json", *more) for more in (["--dry-run"], [], [])]
    assert [result.exit_code for result in results] == [1, 0, 0]
    data = [json.loads(result.stdout) for result in results]
    assert data == [
        {"before": 0, "after": VERSION, "steps": STEPS, "upgraded": False},
        {"before": 0, "after": VERSION, "steps": STEPS, "upgraded": True},
        {"before": VERSION, "after": VERSION, "steps": [], "upgraded": False},
    ]


def test_an_empty_database_gets_its_tables(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/new.db"
    text = f"The database is empty: it gets the tables of version {VERSION}.\n"
    assert run("upgrade", url, "--dry-run").stdout == text
    assert version(url) is None
    assert run("upgrade", url).stdout == text
    assert version(url) == VERSION


@each("command", ["worker", "inbox", "drain", "reindex", "audit", "approvals"])
def test_other_commands_refuse_an_older_database_by_name(
    command: str, old_url: str, tmp_path: Path
) -> None:
    file = tmp_path / f"shop_{command}.py"
    file.write_text(SERVICE.format(path=tmp_path / "old.db"))
    result = run(command, f"{file}:service")
    assert result.exit_code == 2
    assert f"has version 0, this version of agent-factory needs {VERSION}" in result.stderr
    assert f"Run agent-factory upgrade {old_url}." in " ".join(result.stderr.split())
    assert "a bug in agent-factory" not in result.stderr


def test_a_service_that_cannot_be_used_at_its_import_names_the_url(
    old_url: str, tmp_path: Path
) -> None:
    """It sets a limit: then the URL is given to `upgrade`."""
    file = tmp_path / "shop_limits.py"
    file.write_text(SERVICE.format(path=tmp_path / "old.db") + 'service.limit("acme")\n')
    result = run("upgrade", f"{file}:service")
    assert result.exit_code == 2
    assert f"Run agent-factory upgrade {old_url}." in " ".join(result.stderr.split())


def test_a_server_says_that_it_is_not_available(old_url: str) -> None:
    with closing(Service(old_url)) as service:
        client = TestClient(create_app(service), base_url="http://127.0.0.1", client=LOCAL)
        with client:
            response = client.post("/threads/search", json={})
    assert response.status_code == 503
    assert "version" not in response.text  # the log has the rest, and the URL


def test_a_url_that_names_no_database_is_refused() -> None:
    result = run("upgrade", "mysql://localhost/desk")
    assert result.exit_code == 2
    assert "must be SQLite or Postgres" in result.stderr
