"""Signals: what wakes the threads that wait, in this process and in others.

On Postgres they come by NOTIFY, when the transaction that sends one commits. On SQLite a thread
looks whether other connections have committed, which takes microseconds and no transaction.
Who waits looks at the tables then, and all the same from time to time: a signal may be lost.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from threading import Condition, Event, Lock, Thread
from typing import Literal, get_args

from sqlalchemy import Connection, func, make_url, select

from agent_factory.service.database import Database

Topic = Literal["jobs", "events", "ends"]
"""What a signal is about: a job that may begin, events of runs, or the end of one."""

LOOK_SECONDS = 1.0
"""How often those who wait look by themselves."""

_CHANNELS: dict[str, Topic] = {f"agent_factory_{topic}": topic for topic in get_args(Topic)}
_VERSION_SECONDS = 0.05
_RECONNECT_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment between two signals.

    Args:
        topic: What they are about.
        count: How many there were before.
    """

    topic: Topic
    count: int


class Signals:
    """Signals of a service, in one process.

    Args:
        database: The database of the service.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock, self._news, self._stop = Lock(), Condition(), Event()
        self._counts: dict[Topic, int] = dict.fromkeys(get_args(Topic), 0)
        self._tells: set[Callable[[], object]] = set()  # of those who wait in event loops
        self._listener: Thread | None = None

    def send(self, connection: Connection, *topics: Topic) -> None:
        """Wake those who wait in all processes, once the transaction has committed."""
        self._database.after_commit(partial(self.tell, *topics))
        if self._database.is_sqlite:
            return
        # Without a payload: who is woken reads the table. Postgres limits a payload to 8,000 bytes.
        notices = [func.pg_notify(f"agent_factory_{topic}", "") for topic in topics]
        connection.execute(select(*notices))

    def tell(self, *topics: Topic) -> None:
        """Wake those who wait in this process."""
        with self._news:
            for topic in topics:
                self._counts[topic] += 1
            self._news.notify_all()
            for tell in self._tells:
                with suppress(RuntimeError):  # its event loop was closed
                    tell()

    def now(self, topic: Topic) -> Moment:
        """This moment, for `wait`: a signal that comes before the wait is not missed."""
        self._listen()
        with self._news:
            return Moment(topic, self._counts[topic])

    def wait(self, moment: Moment, seconds: float) -> None:
        """Wait for a signal after a moment, at most for some seconds."""
        with self._news:
            self._news.wait_for(lambda: self._counts[moment.topic] != moment.count, seconds)

    async def await_news(self, moment: Moment, seconds: float) -> None:
        """Async variant of `wait`."""
        loop, news = asyncio.get_running_loop(), asyncio.Event()
        # An event of asyncio can only be set within its loop, and signals come from other threads.
        tell = partial(loop.call_soon_threadsafe, news.set)
        with self._news:
            if self._counts[moment.topic] != moment.count:
                return
            self._tells.add(tell)
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(news.wait(), seconds)
        finally:
            with self._news:
                self._tells.discard(tell)

    @property
    def is_alive(self) -> bool:
        """False if the thread that listens has ended, though it should run."""
        return self._listener is None or self._listener.is_alive()

    def _listen(self) -> None:
        with self._lock:
            if self._listener is None or not self._listener.is_alive():
                listen = self._look if self._database.is_sqlite else self._hear
                self._listener = Thread(target=listen, name="agent-factory-listen", daemon=True)
                self._listener.start()

    def _look(self) -> None:
        """Report commits of other connections to the file."""
        path = make_url(self._database.url).database
        assert path is not None
        seen = None
        # Not one of the pool, whose number of connections is the user's to choose.
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            while not self._stop.wait(_VERSION_SECONDS):
                # The file may be locked, or its disk away: who waits looks by itself meanwhile.
                with suppress(sqlite3.Error):
                    (version,) = connection.execute("PRAGMA data_version").fetchone()
                    if version != seen:
                        seen = version
                        self.tell(*get_args(Topic))

    def _hear(self) -> None:
        """Report notifications of Postgres."""
        # An installation for SQLite alone does not have it.
        import psycopg

        while not self._stop.is_set():
            try:
                # To listen takes a session: PgBouncer in transaction mode would end it.
                with psycopg.connect(self._database.direct_url, autocommit=True) as connection:
                    for channel in _CHANNELS:
                        connection.execute(f"listen {channel}")
                    # What was sent before is not known here.
                    self.tell(*get_args(Topic))
                    while not self._stop.is_set():
                        # A call that waits for ever would not see that the service is closed.
                        for notice in connection.notifies(timeout=1.0, stop_after=1):
                            self.tell(_CHANNELS[notice.channel])
            except psycopg.OperationalError:
                # Who waits looks again by itself meanwhile.
                self._stop.wait(_RECONNECT_SECONDS)

    def close(self) -> None:
        """End the thread that listens."""
        self._stop.set()
        # Not for ever: it may wait for a database that does not answer.
        if self._listener is not None:
            self._listener.join(timeout=5)
