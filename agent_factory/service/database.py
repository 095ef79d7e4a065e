"""The database of a service: SQLite on one machine, Postgres for many workers."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import cached_property, partial
from pathlib import Path
from threading import Event, Lock, local
from time import monotonic
from typing import Any, TypeVar
from uuid import uuid4

from sqlalchemy import (
    Connection,
    Engine,
    Row,
    Table,
    column,
    create_engine,
    event,
    func,
    make_url,
    select,
    table,
)
from sqlalchemy.dialects.postgresql import Insert as PostgresInsert
from sqlalchemy.dialects.postgresql import insert as postgres_insert
from sqlalchemy.dialects.sqlite import Insert as SqliteInsert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.exc import ArgumentError as UrlError
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.sql import ColumnElement
from tenacity import (
    Retrying,
    retry_if_exception,
    retry_if_exception_type,
    stop_after_delay,
    wait_random_exponential,
)
from tenacity.retry import retry_base

from agent_factory.errors import ArgumentError, require
from agent_factory.service.errors import DatabaseLost, DatabaseUnavailable
from agent_factory.service.metadata_search import contains_text
from agent_factory.service.migrations import Report, Upgrade, create_tables, take_step, upgrade_of
from agent_factory.service.rows import logger
from agent_factory.service.tables import clock
from agent_factory.service.versions import check_versions

T = TypeVar("T")

RETRY_SECONDS = 600.0
"""Seconds for which work is repeated while the database is not available: a restart, a failover."""

_LOCK_SECONDS = 30
"""Seconds for which a transaction of SQLite waits for a transaction of another process."""

_WAIT_SECONDS = 5
"""Seconds of such a wait before the process that holds the lock is looked at."""

_WRITER_BYTE = "120"

_MOST_BLOCKS = 32
_TURN_SECONDS = 1.0

_PASSING = ("locked", "busy", "disk I/O", "disk is full")
"""Words of SQLite's errors that pass: another process ends, or the disk comes back."""

_PASSING_KINDS = {
    "psycopg.OperationalError",
    "psycopg.errors.IdleInTransactionSessionTimeout",  # this process was frozen
}

_WRONG_VALUES = {"builtins.OverflowError", "builtins.UnicodeEncodeError", "psycopg.DataError"}

_TOO_MUCH = ("number of parameters must be", "too many SQL variables")
"""Words of errors about a statement with too many values."""

# A transaction that reads first and writes later could find its snapshot outdated.
_WRITES = {"agent_factory_begins": "BEGIN IMMEDIATE"}
_READS = {"agent_factory_begins": "BEGIN"}

# A frozen process keeps its locks as long as its session lives, and a network that is cut lets a
# process wait for hours.
_LIMITS = {
    "idle_in_transaction_session_timeout": 5_000,  # in milliseconds, as the two below
    "lock_timeout": 10_000,
    "tcp_user_timeout": 10_000,  # of a process that does not read its rows
}
_SESSIONS = table("pg_stat_activity", column("pid"), column("application_name"))
_OF_TRANSACTION = "".join(f"SET LOCAL {name} = {value};" for name, value in _LIMITS.items())
_OF_SESSION = _OF_TRANSACTION.replace(" LOCAL", "")
_KEEPALIVES = {
    "connect_timeout": 10,  # in seconds, as the next two
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,  # in milliseconds
}


class Database:
    """Transactions on SQLite or Postgres, through one pool of connections.

    A connection is taken for a transaction and given back, never held for a run.

    Args:
        url: `sqlite:///file.db` or `postgresql://user@host/name`.
        connections: The most connections of this process.
        direct_url: The URL of Postgres itself, if `url` leads to PgBouncer: listening and creating
            tables need a session.

    Raises:
        ArgumentError: The URL names no supported database.
        MissingExtra: The URL is of Postgres, and the extra `postgres` is not installed.
        ServiceError: SQLite, or LangGraph's store for it or for Postgres, is too old.
    """

    now: ColumnElement[float] = clock()
    """The time by the clock of the database, in seconds since 1970."""

    def __init__(self, url: str, *, connections: int = 16, direct_url: str | None = None) -> None:
        self.url, self._direct_url = _checked(url), direct_url
        self.is_sqlite = self.url.startswith("sqlite")
        self.threads = ThreadPoolExecutor(connections, thread_name_prefix="agent-factory-database")
        """Threads in which async runs use the database: their event loop does not wait."""
        self.session = f"agent_factory {uuid4().hex[:12]}"
        """Name of the sessions of this process in Postgres."""
        options: dict[str, int] = {"pool_size": connections, "max_overflow": 0, "pool_timeout": 30}
        check_versions(sqlite=self.is_sqlite)
        if self.is_sqlite:
            # A connection of the pool is used by one thread after the other.
            arguments: dict[str, object] = {"timeout": _WAIT_SECONDS, "check_same_thread": False}
        else:
            arguments = {"application_name": self.session, **self.keepalives}
            if direct_url is not None:
                # PgBouncer in transaction mode loses prepared statements.
                arguments["prepare_threshold"] = None
        self.engine: Engine = create_engine(self.url, connect_args=arguments, **options)
        writes: dict[str, str] = {}
        if self.is_sqlite:
            event.listen(self.engine, "connect", set_up_sqlite)
            writes = _WRITES
        elif direct_url is None:
            event.listen(self.engine, "connect", set_up_postgres)
        else:  # sessions belong to PgBouncer
            writes = {"agent_factory_begins": _OF_TRANSACTION}
        event.listen(self.engine, "begin", begin_by_options)
        # The same pool of connections. Options of a connection cost more than those of an engine.
        writing = self.engine.execution_options(**writes)
        # In Postgres each statement sees earlier commits, also within a transaction: its begin and
        # its end would only cost two more round trips.
        reads = _READS if self.is_sqlite else {"isolation_level": "AUTOCOMMIT"}
        self._reading = self.engine.execution_options(**reads)
        self.writing = SharedTransactions(writing) if self.is_sqlite else writing
        """Begins transactions that may write."""
        self._setup_lock, self._is_set_up = Lock(), False
        self._local = local()
        self.commits = 0
        """Approximate number of ended transactions of this process: threads count at once."""

    @property
    def shown_url(self) -> str:
        """The URL for messages: without the password."""
        return make_url(self.direct_url).render_as_string()

    @property
    def direct_url(self) -> str:
        """The URL for the driver alone."""
        return self._direct_url or self.url.replace("postgresql+psycopg://", "postgresql://", 1)

    @property
    def keepalives(self) -> dict[str, Any]:
        """Arguments of a connection of Postgres that notices a cut network, unless in the URL."""
        chosen = make_url(self.url).query
        return {name: value for name, value in _KEEPALIVES.items() if name not in chosen}

    def set_up(self) -> None:
        """Create missing tables, once, before the first transaction; after an error, again."""
        if self._is_set_up:  # without the lock, since each transaction calls this
            return
        with self._setup_lock:
            if not self._is_set_up:
                # Not `explained`, whose error leads to a retry: a wrong password stays wrong.
                self.create()
                self._is_set_up = True

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """A transaction that may write. A nested transaction can undo a part.

        Raises:
            DatabaseUnavailable: The database is restarting, unreachable or overloaded. The
                transaction is rolled back.
        """
        self.set_up()
        outer = getattr(self._local, "calls", None)
        calls: list[Callable[[], object]] = []
        self._local.calls = calls
        try:
            with explained(), self.writing.begin() as connection:
                yield connection
        finally:
            self._local.calls = outer
            self.commits += 1
        for call in calls:
            call()

    def after_commit(self, call: Callable[[], object]) -> None:
        """Call a function once the transaction of this thread has committed."""
        self._local.calls.append(call)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection that only reads; in SQLite a reader does not wait for writers."""
        self.set_up()
        with explained(), self._reading.connect() as connection:
            yield connection

    def rows(self, query: Any, parameters: Mapping[str, object] | None = None) -> list[Any]:
        """The rows of one query."""
        with self.read() as connection:
            return [*connection.execute(query, parameters)]

    def row(self, query: Any, parameters: Mapping[str, object] | None = None) -> Row[Any] | None:
        """The first row of one query; None without a row."""
        with self.read() as connection:
            return connection.execute(query, parameters).first()

    def values(self, query: Any, parameters: Mapping[str, object] | None = None) -> list[Any]:
        """The first column of the rows of one query."""
        return [row[0] for row in self.rows(query, parameters)]

    def write(self, statement: Any) -> int:
        """Carry out one statement in one transaction; return the number of its rows."""
        with self.begin() as connection:
            return connection.execute(statement).rowcount

    def end_sessions(self, names: Collection[str]) -> None:
        """End the sessions of processes that are taken for dead, and with these their locks.

        A process that was frozen between the statements of a pipeline of psycopg is not idle for
        Postgres, whatever the limits of its session.
        """
        if not self.is_sqlite:
            of_names = _SESSIONS.c.application_name.in_(names)
            self.rows(select(func.pg_terminate_backend(_SESSIONS.c.pid)).where(of_names))

    def create(self) -> None:
        """Create the tables of an empty database: service, checkpoints and store."""
        with self._tables_alone() as driver:
            # Not `begin`, which waits for this.
            with explained(), self.writing.begin() as connection:
                create_tables(connection, self.shown_url, self.now)
            if self.is_sqlite:
                from langgraph.checkpoint.sqlite import SqliteSaver
                from langgraph.store.sqlite import SqliteStore

                SqliteSaver(driver).setup()
                driver.isolation_level = None
                # Of two processes that add a column at once, one fails.
                for attempt in _attempts(retry_if_exception_type(sqlite3.Error)):
                    with attempt:
                        SqliteStore(driver).setup()
                return
            from langgraph.checkpoint.postgres import PostgresSaver
            from langgraph.store.postgres import PostgresStore

            PostgresSaver(driver).setup()
            PostgresStore(driver).setup()

    def upgrade(self, report: Callable[[int, int, int], None] = lambda *_: None) -> Upgrade:
        """Take the steps to the version of this code, as `Operations.upgrade`.

        An empty database gets its tables.
        """
        upgrade = self.pending_upgrade()
        with self._tables_alone(RETRY_SECONDS):  # large tables take their time
            for version in upgrade.steps:
                self.retried(partial(self._take_step, version, partial(report, version)))
        self.set_up()
        return upgrade

    def pending_upgrade(self) -> Upgrade:
        """The steps from the version of the tables to the version of this code."""
        with explained(), self._reading.connect() as connection:
            return upgrade_of(connection)

    def _take_step(self, version: int, report: Report) -> None:
        with explained(), self.writing.begin() as connection:
            take_step(connection, version, report, self.now)

    @contextmanager
    def _tables_alone(self, seconds: float | None = None) -> Iterator[Any]:
        """Hold off other processes that create or upgrade tables, with a connection of the driver.

        The connection commits each statement.
        """
        seconds = _LOCK_SECONDS if seconds is None else seconds
        if self.is_sqlite:
            path = make_url(self.url).database
            assert path is not None
            # Transactions that write are alone.
            with closing(sqlite3.connect(path, timeout=_LOCK_SECONDS)) as plain:
                yield plain
            return
        # An installation for SQLite alone does not have these modules.
        from psycopg import Connection as PsycopgConnection
        from psycopg.rows import dict_row

        # LangGraph creates an index concurrently, which no transaction may contain.
        direct = PsycopgConnection.connect(self.direct_url, autocommit=True, row_factory=dict_row)
        with direct:
            # Two workers that start at once would both create tables. A statement that waits for
            # the lock has a snapshot, for which the index of the other worker would wait: deadlock.
            lock = "select 1 where pg_try_advisory_lock(%s)"
            for attempt in _attempts(retry_if_exception_type(DatabaseUnavailable), seconds):
                with attempt:
                    if direct.execute(lock, (number_of("create"),)).fetchone() is None:
                        reason = f"gets its tables from another process for {seconds:g} s."
                        raise DatabaseUnavailable("the database", reason)
            yield direct

    def insert(self, table: Table) -> SqliteInsert | PostgresInsert:
        """An insert of this database's dialect, with `on_conflict_do_nothing`."""
        return sqlite_insert(table) if self.is_sqlite else postgres_insert(table)

    def retried(self, work: Callable[[], T], *, seconds: float = RETRY_SECONDS) -> T:
        """Return the result of `work`, which is repeated while the database is not available."""
        for attempt in attempts(seconds):
            with attempt:
                return work()
        raise AssertionError  # Retrying returns or raises

    def close(self) -> None:
        """Close all connections."""
        self.threads.shutdown(wait=False)
        # A run that did not end in time returns its connection later, to a pool without a user.
        event.listen(self.engine.pool, "checkin", lambda _, record: record.invalidate())
        self.engine.dispose()


class SharedTransactions:
    """Transactions of SQLite: threads share a transaction when they write at the same time.

    SQLite lets one connection write, and waits for the disk at each commit. Threads take turns,
    each within a savepoint, and the last thread commits for all. A block ends with the commit. An
    error in a block undoes the block; an error of the commit is raised in all blocks.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._turn, self._count = Lock(), Lock()
        self.waiting = 0
        """Number of threads that wait for a turn."""
        self._open: _SharedTransaction | None = None

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """A block whose writes are committed together with the writes of other threads."""
        self._wait_for_turn()
        try:
            if self._open is None:
                self._open = _SharedTransaction(self._engine)
            transaction = self._open
            try:
                with transaction.savepoint() as connection:
                    yield connection
            finally:
                # The last block commits: waiting threads join this transaction.
                if not self.waiting or transaction.is_full or transaction.is_lost:
                    self._commit()
        finally:
            self._turn.release()
        while not transaction.end.wait(_TURN_SECONDS):
            # The thread that was next was interrupted.
            with self._turn:
                if self._open is transaction:
                    self._commit()
        if transaction.error is not None:
            raise transaction.error

    def _wait_for_turn(self) -> None:
        with self._count:
            self.waiting += 1
        try:
            self._turn.acquire()
        finally:
            with self._count:
                self.waiting -= 1

    def _commit(self) -> None:
        transaction, self._open = self._open, None
        assert transaction is not None
        transaction.commit()


class _SharedTransaction:
    """One transaction, and the threads of its blocks."""

    def __init__(self, engine: Engine) -> None:
        self.end = Event()
        self.error: Exception | None = None
        self._stack = ExitStack()
        self._connection = self._stack.enter_context(engine.begin())
        self._driver: sqlite3.Connection = driver_connection(self._connection)
        self._blocks = 0

    @property
    def is_full(self) -> bool:
        """True if the commit must not wait for more threads: other processes wait, too."""
        return self._blocks >= _MOST_BLOCKS

    @property
    def is_lost(self) -> bool:
        """True if SQLite has rolled the transaction back: the disk is full, for example."""
        return not self._driver.in_transaction

    @contextmanager
    def savepoint(self) -> Iterator[Connection]:
        """A block that is undone if it raises."""
        self._blocks += 1
        self._driver.execute("SAVEPOINT block")
        try:
            yield self._connection
        except BaseException:
            # After an error such as a full disk, SQLite ends the whole transaction.
            if not self.is_lost:
                self._driver.execute("ROLLBACK TO block")
            raise
        finally:
            if not self.is_lost:
                self._driver.execute("RELEASE block")

    def commit(self) -> None:
        """End the transaction, and let the waiting threads go on."""
        try:
            with self._stack:
                # An empty commit would succeed now. `explained` knows the words of the error.
                if self.is_lost:
                    raise sqlite3.OperationalError("disk I/O error: all was rolled back")
        except Exception as error:
            self.error = error
        finally:
            self.end.set()


@contextmanager
def explained() -> Iterator[None]:
    """Raise DatabaseUnavailable for passing errors of a driver.

    Raise ArgumentError for values without a form in a database: NUL in a text, huge numbers, or too
    many values.
    """
    try:
        yield
    except Exception as error:
        # A saver works on the connection of the driver, whose errors SQLAlchemy does not wrap.
        cause: BaseException | None = error.orig if isinstance(error, DBAPIError) else error
        # By name, since psycopg need not be installed.
        kinds = {f"{kind.__module__}.{kind.__name__}" for kind in type(cause).__mro__}
        # 54: a limit of Postgres, such as the length of a key. Psycopg has one class for limits and
        # for an unreachable database.
        exceeds = str(getattr(cause, "sqlstate", "")).startswith("54")
        exceeds = exceeds or any(words in str(cause) for words in _TOO_MUCH)
        if exceeds or not kinds.isdisjoint(_WRONG_VALUES):
            raise ArgumentError("a value", f"cannot be stored: {cause}.") from error
        # SQLite has one class for a busy database and for a wrong statement.
        if isinstance(cause, sqlite3.OperationalError):
            passes = any(word in str(cause) for word in _PASSING)
        else:
            passes = isinstance(error, PoolTimeout) or not kinds.isdisjoint(_PASSING_KINDS)
        if not passes:
            raise
        raise DatabaseUnavailable("the database", f"is not available: {error}") from error


class _Attempts(Retrying):
    """Attempts of several threads in turn, as in an async run."""

    @cached_property
    def statistics(self) -> dict[str, Any]:
        """Counts of these attempts. tenacity 9 keeps counts by thread, and fails in another."""
        return {}


def attempts(seconds: float, sleep: Callable[[float], None] = time.sleep) -> Retrying:
    """Attempts at work while the database is not available, with waits from 0.1 to 5 seconds.

    The last attempt begins `seconds` after the first.
    """
    return _Attempts(
        # Within a run, `aborting` raises DatabaseLost in place of DatabaseUnavailable.
        retry=retry_if_exception_type((DatabaseUnavailable, DatabaseLost)),
        stop=stop_after_delay(seconds),
        wait=wait_random_exponential(multiplier=0.1, max=5),
        sleep=sleep,
        reraise=True,
    )


def _checked(url: str) -> str:
    hint = "Pass 'sqlite:///desk.db' or 'postgresql://user@host/name'."
    try:
        parsed = make_url(url)
    except (UrlError, AttributeError, TypeError):
        raise ArgumentError("url", f"must be the URL of a database, got {url!r}.", hint) from None
    if parsed.get_backend_name() == "sqlite":
        if not parsed.database or parsed.database == ":memory:":
            raise ArgumentError("url", "must name a file: other processes open it, too.", hint)
        return str(url)
    if parsed.get_backend_name() in ("postgresql", "postgres"):
        require("postgres", "A service on Postgres")
        # SQLAlchemy before 2.1 takes psycopg2 if no driver is named. It does not know the form
        # "postgres://", which hosts of databases give out.
        return "postgresql+psycopg://" + str(url).partition("://")[2]
    raise ArgumentError("url", f"must be SQLite or Postgres, got {url!r}.", hint)


def set_up_sqlite(connection: sqlite3.Connection, _: object) -> None:
    """Set up a connection of the driver."""
    try:
        # Outside of the engine's transactions, which begin explicitly, the driver begins this way
        # before the first statement that writes.
        connection.isolation_level = "IMMEDIATE"
        # Readers do not wait for the writer then. The first connection changes the file, and SQLite
        # refuses other connections at that moment, without their timeout.
        for attempt in _attempts(retry_if_exception(_is_busy)):
            with attempt:
                connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")  # a commit survives a power failure
        connection.execute("PRAGMA foreign_keys=ON")
        connection.create_function("agent_factory_contains", 2, contains_text, deterministic=True)
    except BaseException:
        connection.close()  # SQLAlchemy leaves it open if a listener fails
        raise


def _is_busy(error: BaseException) -> bool:
    """Return True if another connection holds a lock."""
    busy = sqlite3.SQLITE_BUSY
    return isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode == busy


def _attempts(retry: retry_base, seconds: float = _LOCK_SECONDS) -> Retrying:
    """Attempts at work that fails while another process does the same work."""
    return Retrying(
        retry=retry,
        stop=stop_after_delay(seconds),
        wait=wait_random_exponential(multiplier=0.05, max=1),
        reraise=True,
    )


def set_up_postgres(connection: Any, _: object) -> None:
    """Limit how long a session of the driver holds and awaits locks."""
    connection.execute(_OF_SESSION)
    connection.commit()


def begin_by_options(connection: Connection) -> None:
    """Begin a transaction by its options."""
    begins = connection.get_execution_options().get("agent_factory_begins")
    if begins is None:
        return
    driver = driver_connection(connection)
    waits = monotonic() + _LOCK_SECONDS
    while True:
        try:
            driver.execute(begins)  # by the driver: SQLAlchemy takes longer than SQLite
            return
        except sqlite3.OperationalError as error:
            if not _is_busy(error) or monotonic() > waits:
                raise
            wake_writer(connection.engine.url.database)


def wake_writer(path: str | None) -> None:
    """Let a process go on that was stopped by a signal while it writes to a file of SQLite.

    Only its own end would free the lock of the file. Without /proc, it stays stopped.
    """
    with suppress(OSError):
        file = os.stat(f"{path}-shm").st_ino
        for line in Path("/proc/locks").read_text().splitlines():
            # Such as "7: POSIX ADVISORY WRITE 4711 00:2a:1093 120 120": 120 is SQLite's byte for
            # the writer of a log.
            _, *_, process, place, start, _ = line.split()
            if place.endswith(f":{file}") and start == _WRITER_BYTE and _is_stopped(int(process)):
                logger.warning("Process %s was stopped while it writes; it goes on.", process)
                os.kill(int(process), signal.SIGCONT)


def _is_stopped(process: int) -> bool:
    """True for a process that a signal has stopped; False for other ones, and while debugged."""
    state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    return state == "T"


def number_of(name: str) -> int:
    """The number of an advisory lock."""
    from zlib import crc32

    # The upper half keeps these locks apart from locks of other applications in the database.
    return 0x5EC1CE << 32 | crc32(name.encode())


def driver_connection(connection: Connection) -> Any:
    """The connection of the driver, in the transaction of SQLAlchemy."""
    return connection.connection.driver_connection
