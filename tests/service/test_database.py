"""What transactions cost: who waits for whom, and what is committed."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from threading import Barrier, Thread
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy import Connection, event, func, select, text

from agent_factory.service import RunCancelled, Service
from agent_factory.service import database as module
from agent_factory.service.backend import Backend
from agent_factory.service.database import Database, SharedTransactions, attempts, driver_connection
from agent_factory.service.errors import DatabaseLost, DatabaseUnavailable, LeaseLost
from agent_factory.service.events import EventLog
from agent_factory.service.leases import Fence, Lease, take_lease
from agent_factory.service.pace import Pace
from agent_factory.service.signals import Moment, Signals
from agent_factory.service.tables import events, threads
from service.desk import Journal, make_desk
from service.paces import NEVER, paced
from service.stored import insert_thread
from tables import each
from waiting import until


def test_the_check_before_a_tool_call_commits_nothing(database: Database) -> None:
    with database.begin() as connection:
        insert_thread(connection, "t")
        lease = take_lease(connection, "t")
    commits: list[object] = []
    event.listen(database.engine, "commit", commits.append)
    Fence(database, lease).on_tool_start({}, "")
    assert commits == []
    with pytest.raises(LeaseLost):
        Fence(database, Lease("t", lease.epoch - 1)).on_tool_start({}, "")


def write(database: Database, name: str) -> None:
    with database.begin() as connection:
        insert_thread(connection, name)


def stored(database: Database) -> set[str]:
    return {*database.values(select(threads.c.thread_id))}


class Writers:
    """Threads that wait until one has ended its block, and then write within its transaction."""

    def __init__(self, database: Database) -> None:
        self.database, self.pool = database, ThreadPoolExecutor(8)
        assert isinstance(database.writing, SharedTransactions)
        self.turns = database.writing
        self.commits: list[object] = []
        event.listen(database.engine, "commit", self.commits.append)

    def follow(self, *blocks: Callable[[], object]) -> list[Future[object]]:
        """Begin blocks that wait for their turn, from within a block that has it."""
        started: list[Future[object]] = []
        for block in blocks:
            started.append(self.pool.submit(block))
            until(lambda: self.turns.waiting == len(started))
        return started


@pytest.fixture
def writers(sqlite_url: str) -> Iterator[Writers]:
    database = Database(sqlite_url)
    database.set_up()  # whose transactions are not counted
    made = Writers(database)
    yield made
    made.pool.shutdown()
    database.close()


def test_threads_that_write_at_once_share_a_commit(writers: Writers) -> None:
    database = writers.database
    with database.begin() as connection:
        names = ["b", "c", "d"]
        others = writers.follow(*(partial(write, database, name) for name in names))
        insert_thread(connection, "a")
    assert stored(database) == {"a", "b", "c", "d"}
    for other in others:
        other.result(timeout=60)
    assert len(writers.commits) == 1


def test_a_block_that_raises_is_undone_and_the_others_are_not(writers: Writers) -> None:
    database = writers.database

    def fail() -> None:
        with database.begin() as connection:
            insert_thread(connection, "lost")
            raise LookupError("no such thing")

    for first in (True, False):
        with suppress(LookupError), database.begin() as connection:
            others = writers.follow(fail, partial(write, database, f"b-{first}"))
            insert_thread(connection, f"a-{first}")
            if first:
                raise LookupError
        others[1].result(timeout=60)
        with pytest.raises(LookupError, match="no such thing"):
            others[0].result(timeout=60)
    assert stored(database) == {"b-True", "a-False", "b-False"}


def test_all_blocks_know_that_their_commit_has_failed(writers: Writers) -> None:
    database = writers.database

    def refuse(connection: Connection) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    event.listen(database.engine, "commit", refuse)
    with pytest.raises(DatabaseUnavailable), database.begin() as connection:  # noqa: PT012
        others = writers.follow(partial(write, database, "b"))
        insert_thread(connection, "a")
    with pytest.raises(DatabaseUnavailable):
        others[0].result(timeout=60)
    event.remove(database.engine, "commit", refuse)
    assert stored(database) == set()
    write(database, "c")
    assert stored(database) == {"c"}


def test_a_transaction_that_sqlite_has_undone_is_not_taken_for_committed(writers: Writers) -> None:
    database = writers.database
    with pytest.raises(DatabaseUnavailable), database.begin() as connection:  # noqa: PT012
        others = writers.follow(partial(write, database, "b"))
        insert_thread(connection, "a")
        driver_connection(connection).execute("ROLLBACK")  # as it does when the disk is full
    others[0].result(timeout=60)
    assert stored(database) == {"b"}


def test_a_thread_that_was_interrupted_while_it_waited_holds_up_nobody(
    writers: Writers, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = writers.database
    monkeypatch.setattr(module, "_TURN_SECONDS", 0.05)
    with database.begin() as connection:
        writers.turns.waiting += 1  # a thread that waits, and never comes
        insert_thread(connection, "a")
    assert stored(database) == {"a"}


async def _put(service: Service) -> None:
    await service.store("acme").aput(("users",), "ann", {"likes": "tea"})


@each(
    "call",
    [
        lambda service: service.drain(),
        lambda service: service.limit("acme", concurrency=1),
        lambda service: service.inbox().waits(),
        lambda service: service.threads.create(),
        lambda service: [*service.forget(older_than="1d")],
        lambda service: asyncio.run(_put(service)),
    ],
)
def test_any_first_call_creates_the_tables(tmp_path: Path, call: Callable[..., object]) -> None:
    service = Service(f"sqlite:///{tmp_path}/{uuid4()}.db")
    with ThreadPoolExecutor(4) as pool:
        for result in [pool.submit(call, service) for _ in range(4)]:
            result.result(timeout=60)
    assert service.threads.search(tenant="nobody") == []
    service.close()


def test_processes_that_begin_at_once_create_the_tables_together(url: str) -> None:
    together = Barrier(6)

    def begin(_: int) -> set[str]:
        with closing(Database(url)) as database:
            together.wait(60)
            return stored(database)

    with ThreadPoolExecutor(6) as pool:
        assert [*pool.map(begin, range(6))] == [set()] * 6


def test_a_new_sqlite_file_is_waited_for_while_another_process_writes(sqlite_url: str) -> None:
    """SQLite refuses to change the journal of a file at once, and does not wait for its timeout."""

    def begin() -> set[str]:
        with closing(Database(sqlite_url)) as database:
            return stored(database)

    path = sqlite_url.removeprefix("sqlite:///")
    with (
        ThreadPoolExecutor(1) as pool,
        closing(sqlite3.connect(path, isolation_level=None)) as other,
    ):
        other.execute("CREATE TABLE theirs (x)")
        other.execute("BEGIN IMMEDIATE")
        first = pool.submit(begin)
        with pytest.raises(TimeoutError):
            first.result(timeout=0.3)  # waits: it goes on only when the other process ends
        other.execute("COMMIT")
        assert first.result(timeout=60) == set()


def test_no_read_only_file_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LOCK_SECONDS", 10_000)  # longer than a test may take
    with closing(sqlite3.connect(tmp_path / "desk.db", isolation_level=None)) as writer:
        writer.execute("CREATE TABLE theirs (x)")
    uri = f"file:{tmp_path / 'desk.db'}?mode=ro"
    with (
        closing(sqlite3.connect(uri, uri=True)) as reader,
        pytest.raises(sqlite3.OperationalError, match="readonly"),
    ):
        module.set_up_sqlite(reader, None)


@pytest.mark.long
def test_a_worker_that_never_ends_its_tables_is_not_waited_for_without_end(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LOCK_SECONDS", 0)
    database = Database(postgres_url)
    with closing(psycopg.connect(database.direct_url, autocommit=True)) as other:
        other.execute("select pg_advisory_lock(%s)", (module.number_of("create"),))
        with pytest.raises(DatabaseUnavailable, match="gets its tables from another process"):
            stored(database)
        # Postgres notices only later that a connection was closed.
        other.execute("select pg_advisory_unlock(%s)", (module.number_of("create"),))
    assert stored(database) == set()
    database.close()


def test_tables_are_created_by_the_next_transaction_after_an_error(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(sqlite_url)
    attempts, create_tables = [], database.create

    def create() -> None:
        attempts.append(1)
        if len(attempts) == 1:
            raise OSError("out of order")
        create_tables()

    monkeypatch.setattr(database, "create", create)
    with pytest.raises(OSError, match="out of order"), database.read():
        pass
    for _ in range(2):
        with database.begin() as connection:
            assert connection.execute(select(threads)).all() == []
    assert len(attempts) == 2
    database.close()


def test_a_connection_that_comes_back_after_the_end_is_closed(url: str) -> None:
    """A run that did not end in time may still have one when a service is closed."""
    database = Database(url)
    with database.read() as connection:
        driver = driver_connection(connection)
        database.close()
    if database.is_sqlite:
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            driver.execute("select 1")
    else:
        assert driver.closed


def test_attempts_are_taken_by_several_threads_in_turn() -> None:
    """As those at an async run, whose steps are taken by the threads of a pool."""
    pauses: list[float] = []
    tries = iter(attempts(30, pauses.append))
    attempt = next(tries)
    with attempt:
        raise DatabaseLost("the database is restarting")
    with ThreadPoolExecutor(1) as executor:
        assert executor.submit(next, tries).result() is not None
    assert len(pauses) == 1


WAIT = 60.0
AT_ONCE = 0.01


def test_the_end_of_a_run_wakes_those_who_wait_for_it(sqlite_url: str) -> None:
    signals = Signals(Database(sqlite_url))
    one = signals.now("ends", "one")
    name = apart(signals)
    two = signals.now("ends", name)
    signals.tell({"ends": ["one"], "events": [name]})
    assert signals.wait(one, 0)
    assert not signals.wait(two, 0)
    # Threads that wait are woken, and do not look by themselves: at least the first waits by then.
    wait = partial(signals.wait, two, NEVER)
    threads = [Thread(target=wait, daemon=True) for _ in range(10)]
    for thread in threads:
        thread.start()
    signals.tell({"ends": ()})  # about all
    until(lambda: not any(thread.is_alive() for thread in threads))
    signals.close()


def apart(signals: Signals) -> str:
    """A run that shares no counter with "one": of a thousand, one does."""
    place = signals.moment("ends", "one").place
    return next(name for name in "abc" if signals.moment("ends", name).place != place)


@pytest.mark.long
def test_a_notification_is_about_the_run_that_it_names(postgres_url: str) -> None:
    database = Database(postgres_url)
    signals, other = Signals(database), Signals(database)
    # Before both listen: that begins with a signal about all, since earlier ones are not known.
    begin, of_other = signals.moment("ends"), other.moment("ends")
    for listener in (signals, other):
        listener.now("ends")
    assert signals.wait(begin, WAIT)
    assert other.wait(of_other, WAIT)
    mine, theirs = signals.now("ends", "one"), other.now("ends", "one")
    name = apart(signals)
    last, of_another = signals.now("ends", name), other.now("ends", name)
    with database.begin() as connection:
        signals.send(connection, {"ends": ["one"]})
    assert other.wait(theirs, WAIT)
    assert not other.wait(of_another, 0)
    with database.begin() as connection:
        other.send(connection, {"ends": [name]})
    # Notifications come in order, so that of "one" has come as well.
    assert signals.wait(last, WAIT)
    assert signals._count(mine.place) == mine.count + 1, "not again by its own notification"
    for part in (signals, other, database):
        part.close()


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
    for part in (signals, mine, other):
        part.close()


def test_a_job_whose_end_fails_gets_no_row_without_parts(database: Database) -> None:
    log = EventLog(database, Signals(database), Pace())
    with suppress(LeaseLost), log.ending("t/1", "run", {}):
        raise LeaseLost("its run was deleted")
    log.flush()
    assert database.values(select(events.c.data)) == []


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


@pytest.mark.parametrize("is_direct", [True, False], ids=["direct", "behind PgBouncer"])
def test_a_transaction_of_a_frozen_process_ends(postgres_url: str, is_direct: bool) -> None:
    """Its locks would hold up others as long as its session lives."""
    direct_url = None if is_direct else postgres_url
    with closing(Database(postgres_url, direct_url=direct_url)) as database:
        with pytest.raises(DatabaseUnavailable):
            freeze(database)
        with database.begin() as connection:  # the pool has another connection
            assert connection.execute(select(1)).scalar() == 1


def freeze(database: Database) -> None:
    """Do nothing in a transaction, until its session ends."""
    with database.begin() as connection:
        for name in ("idle_in_transaction_session_timeout", "lock_timeout"):
            assert connection.execute(text(f"show {name}")).scalar() in ("5s", "10s")
        connection.execute(text("set local idle_in_transaction_session_timeout = 50"))
        process = connection.execute(select(func.pg_backend_pid())).scalar_one()
        is_alive = text("select 1 from pg_stat_activity where pid = :process")
        with database.read() as other:
            until(lambda: other.execute(is_alive, {"process": process}).first() is None)
        connection.execute(select(1))
