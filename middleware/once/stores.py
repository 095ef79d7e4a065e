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

    Each change is on the disk when the method returns, and outlives a power failure. The file and
    the table `effects` are made at the first use. Nothing deletes old records: delete by the column
    `started_at`, but keep records of threads which may be resumed.

    Args:
        path: The file.
        timeout: Time to wait for writes of other processes, in seconds.

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
        """Insert a record with a new key, or return the existing record."""
        while True:
            with self._lock, closing(self._execute(_INSERT, *astuple(effect))) as cursor:
                # The count is 0 if the key exists: the statement does nothing then.
                if cursor.rowcount == 1:
                    return None
            # Another process may release the record between the two statements.
            if rows := self._select("key = ?", effect.key):
                return rows[0]

    def finish(self, effect: Effect, result: bytes) -> None:
        """Store the result, if the record is still of the same attempt."""
        update = "UPDATE effects SET result = ? WHERE key = ? AND attempt = ?"
        with self._lock:
            self._execute(update, result, effect.key, effect.attempt).close()

    def release(self, effect: Effect) -> None:
        """Delete the record, if still of the same attempt and without a result."""
        delete = "DELETE FROM effects WHERE key = ? AND attempt = ? AND result IS NULL"
        with self._lock:
            self._execute(delete, effect.key, effect.attempt).close()

    def of_run(self, run: str) -> Sequence[Effect]:
        """The records of a run, in the order of insertion."""
        return self._select("run = ? ORDER BY number", run)

    def close(self) -> None:
        """Close the connection; the next call opens a new connection."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def _select(self, condition: str, value: str) -> list[Effect]:
        query = f"SELECT {_COLUMNS} FROM effects WHERE {condition}"
        # The rows are read under the lock: all threads share the connection of a cursor.
        with self._lock, closing(self._execute(query, value)) as rows:
            return [Effect(*row) for row in rows]

    def _execute(self, statement: str, *values: object) -> sqlite3.Cursor:
        # A forked process must not use a connection of the parent process.
        if self._connection is None or self._process != os.getpid():
            self._process = os.getpid()
            # Without an isolation level each statement commits; sqlite3 would begin a transaction
            # before each INSERT and leave the transaction open.
            self._connection = sqlite3.connect(
                # The threads share a connection under a lock.
                self.path,
                timeout=self.timeout,
                isolation_level=None,
                check_same_thread=False,
            )
            # Python 3.13 warns of an open connection at collection. Not at exit, which may be the
            # exit of a fork.
            finalize(self, self._connection.close).atexit = False
            # In this mode, readers in other processes do not block a writer. SQLite does not wait
            # if two processes change the mode at once, and raises "database is locked".
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
    """Effects in the memory of this process: for tests. They end with the process.

    >>> store = InMemoryEffects()
    >>> effect = Effect.start("key-1", "run-1", "refund", b"")
    >>> store.begin(effect)
    >>> store.begin(effect) == effect
    True
    """

    def __init__(self) -> None:
        super().__init__(":memory:")
