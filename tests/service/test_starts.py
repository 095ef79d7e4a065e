"""Starts of a service that fail, for whatever cause, and the one after them."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import uvicorn
from sqlalchemy import delete
from typer.testing import CliRunner

from agent_factory import create_agent
from agent_factory.cli.app import app
from agent_factory.errors import ArgumentError
from agent_factory.service import DatabaseUnavailable, Service
from agent_factory.service import worker as workers
from agent_factory.service.database import Database
from agent_factory.service.tables import workers as worker_rows
from agent_factory.testing import ScriptedChatModel
from service.paces import QUICK
from service.stored import Tables
from waiting import until


def fail(*args: Any, **kwargs: Any) -> None:
    raise RuntimeError("It fails.")


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
    [
        ("no database", "service.db", "not a database"),
        ("", "folder/service.db", "unable to open"),
    ],
)
def test_a_start_without_tables_leaves_others_alone(
    tmp_path: Path, sqlite_url: str, content: str, name: str, error: str
) -> None:
    if content:
        (tmp_path / name).write_text(content * 100)
    with pytest.raises(Exception, match=error), Service(f"sqlite:///{tmp_path}/{name}"):
        pytest.fail("a service without tables was entered")
    with pytest.raises(ArgumentError, match="must be SQLite or Postgres"):
        Service("mysql://user@host/desk")
    starts(f"sqlite:///{tmp_path}/another.db")


def test_two_services_run_in_one_process(sqlite_url: str, tmp_path: Path) -> None:
    with Service(sqlite_url) as service, Service(f"sqlite:///{tmp_path}/other.db") as other:
        for one, text in ((service, "Hello!"), (other, "Salut !")):
            one.add("desk", create_agent(ScriptedChatModel([text])))
        runs = [one.submit("desk", message="Hi") for one in (service, other)]
        texts = [run.result(timeout=60)["messages"][-1].text for run in runs]
    assert texts == ["Hello!", "Salut !"]


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
    enter, failures = workers.Worker.enter, iter([fail])

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
