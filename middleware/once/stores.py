"""Stores of effects: in memory for tests, in an SQLite file for all processes of a machine."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import astuple
from pathlib import Path
from threading import Lock
from weakref import finalize

from tenacity import Retrying, retry_if_exception_message, stop_after_delay, wait_random

from .effects import Effect

_TABLE = """
CREATE TABLE IF NOT EXISTS effects (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL UNIQUE,
    run TEXT NOT NULL,
    tool TEXT NOT NULL,
    args BLOB NOT NULL,
    attempt TEXT NOT NULL,
    started_at TEXT NOT NULL,
    result BLOB
);
CREATE INDEX IF NOT EXISTS effects_of_run ON effects (run);
"""
_COLUMNS = "key, run, tool, args, attempt, started_at, result"
_INSERT = f"INSERT INTO effects ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"


class SqliteEffects:
    """Effects in an SQLite file, for all processes of one machine at once.

    Each change is on the disk when its method returns, so it outlives a power failure as well. The
    file and its table `effects` are made at the first use. Nothing deletes old records: do that
    by the column `started_at`, and keep those of threads that may be resumed.

    Args:
        path: The file.
        timeout: How long to wait for other processes that write, in seconds.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     store = SqliteEffects(f"{folder}/effects.db")
    ...     store.begin(Effect.start("key-1", "run-1", "refund", b""))
    ...     len(store.of_run("run-1"))
    ...     store.close()
    1
    """

    def __init__(self, path: str | Path, *, timeout: float = 30.0) -> None:
        self.path, self.timeout = path, timeout
        self._lock = Lock()
        self._connection: sqlite3.Connection | None = None
        self._process = 0

    def begin(self, effect: Effect) -> Effect | None:
        """Insert a record if its key is new, or return the existing one."""
        while True:
            with self._lock, closing(self._execute(_INSERT, *astuple(effect))) as cursor:
                # The count is 0 if the key exists: the statement does nothing then.
                if cursor.rowcount == 1:
                    return None
            # Another process may release the record between the two statements.
            if rows := self._select("key = ?", effect.key):
                return rows[0]

    def finish(self, effect: Effect, result: bytes) -> None:
        """Store the result, if the record is still that of the same attempt."""
        update = "UPDATE effects SET result = ? WHERE key = ? AND attempt = ?"
        with self._lock:
            self._execute(update, result, effect.key, effect.attempt).close()

    def release(self, effect: Effect) -> None:
        """Delete the record, if it is still that of the same attempt and has no result."""
        delete = "DELETE FROM effects WHERE key = ? AND attempt = ? AND result IS NULL"
        with self._lock:
            self._execute(delete, effect.key, effect.attempt).close()

    def of_run(self, run: str) -> Sequence[Effect]:
        """The records of a run, in the order in which they were inserted."""
        return self._select("run = ? ORDER BY number", run)

    def close(self) -> None:
        """Close the connection; the next call opens a new one."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def _select(self, condition: str, value: str) -> list[Effect]:
        query = f"SELECT {_COLUMNS} FROM effects WHERE {condition}"
        # The rows are read under the lock: a cursor uses the connection that all threads share.
        with self._lock, closing(self._execute(query, value)) as rows:
            return [Effect(*row) for row in rows]

    def _execute(self, statement: str, *values: object) -> sqlite3.Cursor:
        # A connection must not be used in a process that was forked after it was opened.
        if self._connection is None or self._process != os.getpid():
            self._process = os.getpid()
            # Without an isolation level each statement commits by itself; sqlite3 would begin a
            # transaction before each INSERT and leave it open.
            self._connection = sqlite3.connect(
                # One connection for all threads: the lock lets one at a time use it.
                self.path,
                timeout=self.timeout,
                isolation_level=None,
                check_same_thread=False,
            )
            # Python 3.13 warns of a connection that is collected open. Not at exit, which may be
            # that of a fork.
            finalize(self, self._connection.close).atexit = False
            # In this mode, readers in other processes do not block the one that writes. SQLite does
            # not wait where two processes change to it at once: one gets "database is locked".
            patiently = Retrying(
                retry=retry_if_exception_message(match="database is locked"),
                stop=stop_after_delay(self.timeout),
                wait=wait_random(0, 0.05),
                reraise=True,
            )
            patiently(self._connection.execute, "PRAGMA journal_mode = WAL")
            # With NORMAL, the last commits in WAL mode may be lost at a power failure.
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.executescript(_TABLE)
        return self._connection.execute(statement, values)


class InMemoryEffects(SqliteEffects):
    """Effects in the memory of this process: for tests. They are lost when the process ends.

    >>> store = InMemoryEffects()
    >>> effect = Effect.start("key-1", "run-1", "refund", b"")
    >>> store.begin(effect)
    >>> store.begin(effect) == effect
    True
    """

    def __init__(self) -> None:
        super().__init__(":memory:")
