"""Signals: who is woken by them, in this process and in others."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from threading import Thread

import pytest
from sqlalchemy import insert

from agent_factory.service import RunCancelled, Service
from agent_factory.service.backend import Backend
from agent_factory.service.database import Database
from agent_factory.service.signals import Moment, Signals
from agent_factory.service.tables import limits
from service.desk import Journal, make_desk
from service.paces import NEVER, paced
from waiting import until

WAIT = 60.0
AT_ONCE = 0.01


def write(database: Database, name: str) -> None:
    with database.begin() as connection:
        connection.execute(insert(limits).values(tenant=name))


def test_the_end_of_a_run_wakes_those_who_wait_for_it(sqlite_url: str) -> None:
    signals = Signals(Database(sqlite_url))
    moments = {run: signals.now("ends", run) for run in ("one", "two")}
    assert moments["one"].place != moments["two"].place
    signals.tell({"ends": ["one"], "events": ["two"]})
    assert signals.wait(moments["one"], 0)
    assert not signals.wait(moments["two"], 0)
    # Threads that wait are woken, and do not look by themselves: at least the first waits by then.
    wait = partial(signals.wait, moments["two"], NEVER)
    threads = [Thread(target=wait, daemon=True) for _ in range(10)]
    for thread in threads:
        thread.start()
    signals.tell({"ends": ()})  # about all
    until(lambda: not any(thread.is_alive() for thread in threads))
    signals.close()


async def test_a_task_is_woken_by_its_run_alone(sqlite_url: str) -> None:
    signals = Signals(Database(sqlite_url))
    tasks = {
        run: asyncio.create_task(signals.await_news(signals.now("ends", run), WAIT))
        for run in ("one", "two")
    }
    await asyncio.sleep(0)
    signals.tell({"ends": ["one"]})
    await tasks["one"]
    assert not tasks["two"].done()
    signals.tell({"ends": ()})
    await tasks["two"]
    assert not signals._tells, "nobody is left"
    signals.close()


@pytest.mark.long
def test_a_notification_is_about_the_run_that_it_names(postgres_url: str) -> None:
    database = Database(postgres_url)
    signals, other = Signals(database), Signals(database)
    begins = [each.now("ends") for each in (signals, other)]
    # To listen begins with a signal about all: what was sent before is not known.
    assert [each.wait(begin, WAIT) for each, begin in zip((signals, other), begins, strict=True)]
    mine, theirs = signals.now("ends", "one"), other.now("ends", "one")
    last, of_another = signals.now("ends", "two"), other.now("ends", "two")
    with database.begin() as connection:
        signals.send(connection, {"ends": ["one"]})
    assert other.wait(theirs, WAIT)
    assert not other.wait(of_another, 0)
    with database.begin() as connection:
        other.send(connection, {"ends": ["two"]})
    # Notifications come in order, so that of "one" has come as well.
    assert signals.wait(last, WAIT)
    assert signals._count(mine.place) == mine.count + 1, "not again by its own notification"
    for each in (signals, other):
        each.close()
    database.close()


def test_a_commit_of_another_process_among_own_ones_is_reported(sqlite_url: str) -> None:
    mine, other = Database(sqlite_url), Database(sqlite_url)
    for database in (mine, other):
        database.set_up()
    signals = Signals(mine)
    begin = signals.now("jobs")
    write(other, "other")
    # At each look of the listener, this process has committed as well.
    for number in range(2000):
        write(mine, f"mine {number}")
        if signals.wait(begin, AT_ONCE):
            break
    assert signals.wait(begin, 0)
    signals.close()
    mine.close()
    other.close()


@paced(wake=NEVER)
def test_those_who_wait_hear_of_a_message_that_is_cancelled_behind_another(
    service: Service, backend: Backend, tmp_path: Path
) -> None:
    """Without looking by themselves: a signal says so."""
    service.add("desk", make_desk(Journal(tmp_path / "journal"), calls=1))
    service.submit("desk", thread="t", message="Pay.")
    behind = service.submit("desk", thread="t", message="Pay.")
    moments = iter(behind._outcomes(None))
    moment = next(moments)
    assert isinstance(moment, Moment)
    behind.cancel()
    assert backend.signals.wait(moment, WAIT)
    with pytest.raises(RunCancelled):
        next(moments)
