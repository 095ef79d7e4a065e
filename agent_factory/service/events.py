"""Events of runs: written by workers, read by any process that streams a run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from threading import Event, Lock, Thread
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, select, text

from agent_factory.errors import ArgumentError
from agent_factory.service.database import Database
from agent_factory.service.errors import DatabaseLost, DatabaseUnavailable, LeaseLost
from agent_factory.service.message_serializer import dump, load
from agent_factory.service.pace import Pace
from agent_factory.service.rows import logger
from agent_factory.service.signals import Moment, News, Signals
from agent_factory.service.tables import events

KEEP_SECONDS = 3600.0
"""Seconds for which events are kept, so that a caller can join a stream again."""

_PAGE = 1000


def dump_part(part: Mapping[str, object]) -> bytes:
    """Serialize a part of a stream; ArgumentError if it cannot be stored."""
    try:
        return dump(dict(part))
    except (TypeError, ValueError, OverflowError) as error:
        what = f"an event of the mode {part['type']!r}"
        hint = "Send what JSON can hold, and integers of at most 64 bits."
        raise ArgumentError(what, f"cannot be stored: {error}.", hint) from error


class EventLog:
    """Events of runs in the database.

    One thread writes the events of all runs: the events of `Pace.gather` seconds in one
    transaction. The last events of a run are written in the transaction with its outcome.
    """

    def __init__(self, database: Database, signals: Signals, pace: Pace) -> None:
        self._database, self.signals, self._pace = database, signals, pace
        self._lock, self._order = Lock(), Lock()
        self._waiting: dict[str, list[bytes]] = {}
        self._calls: list[Callable[[], None]] = []
        self._stop, self._arrival = Event(), Event()
        self._writer: Thread | None = None
        self._insert = insert(events).inline().values(at=database.now)
        self._read = (
            select(events.c.id, events.c.data)
            .where(events.c.job == bindparam("its_job"), events.c.id > bindparam("after"))
            .order_by(events.c.id)
            .limit(_PAGE)
        )

    # Writing

    def add(self, job: str, part: Mapping[str, object]) -> None:
        """Write a part of a job's stream, soon; ArgumentError if the part cannot be stored."""
        # Here and not in the thread that writes: there, an error would concern all runs.
        data = dump_part(part)
        with self._lock:
            self._waiting.setdefault(job, []).append(data)
        self._wake_writer()

    def soon(self, call: Callable[[], None]) -> None:
        """Call a function at the next write of events, in the thread that writes."""
        with self._lock:
            self._calls.append(call)
        self._wake_writer()

    def _wake_writer(self) -> None:
        with self._lock:
            if self._writer is None or not self._writer.is_alive():
                writer = Thread(target=self._write_all, name="agent-factory-events", daemon=True)
                writer.start()
                # Afterwards: before its start, a thread looks like an ended thread.
                self._writer = writer
        self._arrival.set()

    def _write(
        self, connection: Connection, parts: Mapping[str, Sequence[bytes]], news: News | None = None
    ) -> None:
        """Write parts by their jobs, and wake readers after the commit, also for further news."""
        rows = [{"job": job, "data": dump(of_job)} for job, of_job in parts.items()]
        connection.execute(self._insert, rows)
        self.signals.send(connection, {"events": [*parts], **(news or {})})

    @contextmanager
    def ending(
        self,
        job: str,
        run: str,
        outcome: Mapping[str, object],
        last_parts: Sequence[Mapping[str, object]] = (),
    ) -> Iterator[Connection]:
        """A transaction that ends a job, with its last events, and wakes the callers of the run."""
        # `_order` waits for parts that are written now.
        with self._order, self._lock:
            parts = self._waiting.pop(job, [])
        end = [*map(dump_part, last_parts), dump({"type": "end", "ns": (), "data": outcome})]
        try:
            with self._database.begin() as connection:
                yield connection
                self._write(connection, {job: [*parts, *end]}, {"ends": [run]})
        except BaseException:
            with self._lock:
                if parts:  # else the next flush would write a row without parts
                    self._waiting[job] = [*parts, *self._waiting.get(job, [])]
            raise

    def flush(self) -> None:
        """Write gathered events. Events are dropped if the database is not available."""
        with self._lock:
            calls, self._calls = self._calls, []
        for call in calls:
            # The run gets the error at its next write; other runs must not.
            with suppress(Exception, LeaseLost, DatabaseLost):
                call()
        with self._order:  # two writers could swap the parts of a run
            with self._lock:
                waiting, self._waiting = self._waiting, {}
            if not waiting:
                return
            with suppress(DatabaseUnavailable), self._database.begin() as connection:
                if not self._database.is_sqlite:
                    # Losing the last events in a crash is better than waiting for the disk.
                    connection.execute(text("set local synchronous_commit = off"))
                self._write(connection, waiting)

    def _write_all(self) -> None:
        while not self._stop.is_set():
            self._arrival.wait()
            self._stop.wait(self._pace.gather_first)
            # Before the flush: what arrives during it sets the event again.
            self._arrival.clear()
            try:
                self.flush()
            except Exception:
                # The thread goes on: it writes the events of all runs.
                logger.exception("Events of runs could not be written.")
            self._stop.wait(self._pace.gather - self._pace.gather_first)

    @property
    def is_alive(self) -> bool:
        """False if the thread that writes has ended by mistake."""
        return self._writer is None or self._writer.is_alive()

    def forget(self) -> None:
        """Delete events after an hour."""
        old = events.c.at < self._database.now - KEEP_SECONDS
        self._database.write(delete(events).where(old))

    # Reading

    def read(
        self, job: str, after: int, has_ended: Callable[[], bool]
    ) -> Iterator[tuple[int, list[dict[str, Any]]] | Moment]:
        """Rows of a job after a row: their numbers and their parts.

        A moment stands for no news: the caller waits for the next signal. Once in `Pace.wake`,
        `has_ended` is asked whether the job writes no more rows.
        """
        checked_at, is_last = time.monotonic(), False
        while True:
            moment = self.signals.now("events", job)
            rows: Sequence[Any] = ()
            # A stream waits for a database that restarts, and goes on.
            with suppress(DatabaseUnavailable):
                rows = self._database.rows(self._read, {"its_job": job, "after": after})
                if is_last and not rows:
                    return
            is_last = False
            for row in rows:
                after = row.id
                yield row.id, [load(part) for part in load(row.data)]
            if not rows and time.monotonic() - checked_at > self._pace.wake:
                # Another look follows: the last rows may have come since this look.
                is_last, checked_at = has_ended(), time.monotonic()
            if not (rows or is_last):  # there may be more rows than one page
                yield moment

    def close(self) -> None:
        """Write gathered events, and end the thread."""
        self._stop.set()
        self._arrival.set()
        with suppress(DatabaseUnavailable):
            self.flush()
        # With a timeout: the thread may wait for a database that does not answer.
        if self._writer is not None:
            self._writer.join(timeout=5)
