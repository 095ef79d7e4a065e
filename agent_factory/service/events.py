"""Events of runs: written by workers, read by any process that streams a run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from threading import Condition, Event, Lock, Thread
from typing import Any

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from sqlalchemy import delete, func, insert, select, text

from agent_factory.service.database import Database
from agent_factory.service.errors import DatabaseUnavailable
from agent_factory.service.tables import events

GATHER_SECONDS = 0.05
"""How long tokens are gathered before they are written."""

KEEP_SECONDS = 3600.0
"""How long events are kept, so that a stream can be joined again."""

_CHANNEL = "agent_factory_events"
_POLL_SECONDS = 0.1
_PAGE = 1000

_serializer = JsonPlusSerializer()


def dump(value: object) -> bytes:
    """Serialize a value as LangGraph does, with its format in front."""
    kind, data = _serializer.dumps_typed(value)
    return kind.encode() + b" " + data


def load(data: bytes) -> Any:
    """Read what `dump` wrote."""
    kind, _, rest = bytes(data).partition(b" ")
    return _serializer.loads_typed((kind.decode(), rest))


class EventLog:
    """Events of runs in the database.

    Many runs write through one thread: a first event at once, and what comes within the 50 ms after
    it in one more transaction.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock, self._order = Lock(), Lock()
        self._waiting: dict[str, list[object]] = {}
        self._stop, self._arrival = Event(), Event()
        self._writer: Thread | None = None
        self._news = Condition()
        self._tells: set[Callable[[], object]] = set()  # of those who wait in event loops
        self._listener: Thread | None = None

    # Writing

    def add(self, job: str, part: Mapping[str, object], *, last: bool = False) -> None:
        """Write a part of a job's stream, soon; the last one at once."""
        with self._lock:
            self._waiting.setdefault(job, []).append(dict(part))
            if self._writer is None:
                self._writer = Thread(
                    target=self._write_all, name="agent-factory-events", daemon=True
                )
                self._writer.start()
        self._arrival.set()
        if last:
            self.flush()

    def flush(self) -> None:
        """Write what was gathered. Events are dropped if the database is not available."""
        now, is_sqlite = self._database.now, self._database.is_sqlite
        with self._order:  # two writers could swap the parts of a run
            with self._lock:
                waiting, self._waiting = self._waiting, {}
            if not waiting:
                return
            rows = [{"job": job, "data": dump(parts)} for job, parts in waiting.items()]
            with suppress(DatabaseUnavailable), self._database.begin() as connection:
                if not is_sqlite:
                    # Losing the last events in a crash is better than waiting for the disk.
                    connection.execute(text("set local synchronous_commit = off"))
                connection.execute(insert(events).values(at=now), rows)
                if not is_sqlite:
                    # Without a payload: who is woken reads the table. Postgres limits a payload to
                    # 8,000 bytes.
                    connection.execute(select(func.pg_notify(_CHANNEL, "")))
        self._tell()

    def _write_all(self) -> None:
        while not self._stop.is_set():
            self._arrival.wait()
            # Before the flush: what arrives during it sets the event again.
            self._arrival.clear()
            self.flush()
            self._stop.wait(GATHER_SECONDS)

    def forget(self) -> None:
        """Delete events that are older than an hour."""
        with self._database.begin() as connection:
            connection.execute(
                delete(events).where(events.c.at < self._database.now - KEEP_SECONDS)
            )

    # Reading

    def read(
        self, job: str, after: int, has_ended: Callable[[], bool]
    ) -> Iterator[tuple[int, list[dict[str, object]]] | None]:
        """Rows of a job after one of them: their numbers and their parts.

        None says that nothing new is there: the caller waits, by `wait` or `await_news`.

        Args:
            job: The job.
            after: The number of a row; 0 for all.
            has_ended: Is asked once a second whether nothing more will come.
        """
        checked_at = time.monotonic()
        while True:
            query = select(events.c.id, events.c.data).where(
                events.c.job == job, events.c.id > after
            )
            rows: Sequence[Any] = ()
            # A stream waits for a database that restarts, and goes on.
            with suppress(DatabaseUnavailable), self._database.read() as connection:
                rows = connection.execute(query.order_by(events.c.id).limit(_PAGE)).all()
            for row in rows:
                after = row.id
                yield row.id, load(row.data)
            now = time.monotonic()
            # There may be more than one page.
            if rows:
                continue
            if now - checked_at > 1.0:
                if has_ended():
                    return
                checked_at = now
            yield None

    def wait(self) -> None:
        """Wait for events of any run, also of other processes; at most a tenth of a second."""
        self._listen()
        with self._news:
            self._news.wait(_POLL_SECONDS)

    async def await_news(self) -> None:
        """Async variant of `wait`."""
        self._listen()
        loop, news = asyncio.get_running_loop(), asyncio.Event()
        # An event of asyncio can only be set within its loop, and news come from other threads.
        tell = partial(loop.call_soon_threadsafe, news.set)
        with self._news:
            self._tells.add(tell)
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(news.wait(), _POLL_SECONDS)
        finally:
            with self._news:
                self._tells.discard(tell)

    def _tell(self) -> None:
        """Wake those who wait for events."""
        with self._news:
            self._news.notify_all()
            for tell in self._tells:
                with suppress(RuntimeError):  # its event loop was closed
                    tell()

    def _listen(self) -> None:
        with self._lock:
            # SQLite has no notifications: readers look ten times a second.
            if self._listener is None and not self._database.is_sqlite:
                self._listener = Thread(target=self._wake, name="agent-factory-listen", daemon=True)
                self._listener.start()

    def _wake(self) -> None:
        # An installation for SQLite alone does not have it.
        import psycopg

        while not self._stop.is_set():
            try:
                # To listen takes a session: PgBouncer in transaction mode would end it.
                with psycopg.connect(self._database.direct_url, autocommit=True) as connection:
                    connection.execute(f"listen {_CHANNEL}")
                    while not self._stop.is_set():
                        # A call that waits for ever would not see that the service is closed.
                        for _ in connection.notifies(timeout=1.0, stop_after=1):
                            self._tell()
            except psycopg.OperationalError:
                # Readers look again by themselves meanwhile.
                self._stop.wait(1.0)

    def close(self) -> None:
        """Write what was gathered, and end the threads."""
        self._stop.set()
        self._arrival.set()
        self.flush()
        # Not for ever: a thread may wait for a database that does not answer.
        for thread in (self._writer, self._listener):
            if thread is not None:
                thread.join(timeout=5)
