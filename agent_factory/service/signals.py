"""Signals: what wakes the threads that wait, in this process and in others.

On Postgres they come by NOTIFY, when the transaction that sends one commits. On SQLite a thread
looks whether other connections have committed, which takes microseconds and no transaction.
Who waits looks at the tables then, and all the same from time to time: a signal may be lost.
A signal names the run or the job that it is about, so that each end of a run does not wake all who
wait for the ends of others.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from threading import Condition, Event, Lock, Thread
from typing import Literal, get_args
from uuid import uuid4

from sqlalchemy import Connection, make_url

from agent_factory.service.database import Database, driver_connection

Topic = Literal["jobs", "events", "ends"]
"""What a signal is about: a job that may begin, events of runs, or the end of one."""

_CHANNELS: dict[str, Topic] = {f"agent_factory_{topic}": topic for topic in get_args(Topic)}
# For the driver itself: each transaction of a run sends signals, and SQLAlchemy takes longer.
_NOTIFY = "SELECT pg_notify(topic, text) FROM unnest(%s::text[], %s::text[]) AS news(topic, text)"
_VERSION_SECONDS = 0.05
_OWN_COMMITS = 4  # looks until those among which another process may have committed are reported
_PLACES = 1024  # more runs than that share places
_RECONNECT_SECONDS = 1.0


Place = tuple[Topic, int | None]
"""Where signals about the same runs are counted; None stands for those about all of a topic."""

News = Mapping[Topic, Sequence[str]]
"""The runs that have ended, or the jobs that have events; an empty sequence is about all."""

_ALL: News = dict.fromkeys(get_args(Topic), ())


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment between two signals.

    Args:
        place: What they are about.
        count: How many there were before.
    """

    place: Place
    count: int


class Signals:
    """Signals of a service, in one process.

    Args:
        database: The database of the service.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock, self._news, self._stop = Lock(), Condition(), Event()
        self._counts: Counter[Place] = Counter()
        # Of those who wait in event loops.
        self._tells: defaultdict[Place, set[Callable[[], object]]] = defaultdict(set)
        self._listener: Thread | None = None
        # On Postgres, a process gets its own signals as well, of which it knows.
        self._sender = uuid4().hex

    def send(self, connection: Connection, news: News) -> None:
        """Wake those who wait in all processes, once the transaction has committed."""
        self._database.after_commit(partial(self.tell, news))
        if self._database.is_sqlite:
            return
        channels = [f"agent_factory_{topic}" for topic in news]
        # Postgres limits a payload to 8,000 bytes: several are sent as all.
        named = [about[0] if len(about) == 1 else "" for about in news.values()]
        payloads = [f"{self._sender} {name}" for name in named]
        driver_connection(connection).execute(_NOTIFY, (channels, payloads))

    def tell(self, news: News) -> None:
        """Wake those who wait in this process."""
        with self._news:
            for topic, about in news.items():
                places = {_place(topic, name) for name in about} or {_place(topic)}
                self._counts.update(places)
                if not about:
                    places = {place for place in self._tells if place[0] == topic}
                for tell in [tell for place in places for tell in self._tells.get(place, ())]:
                    with suppress(RuntimeError):  # its event loop was closed
                        tell()
            self._news.notify_all()

    def now(self, topic: Topic, about: str | None = None) -> Moment:
        """This moment, for `wait`: a signal that comes before the wait is not missed.

        Args:
            topic: What signals are waited for.
            about: The run or the job. Without it, only those about all of the topic count.
        """
        self._listen()
        return self.moment(topic, about)

    def moment(self, topic: Topic, about: str | None = None) -> Moment:
        """This moment, as `now`, without listening to other processes.

        So a process that never waits needs no connection for it. Who waits calls `now` before.
        """
        place = _place(topic, about)
        with self._news:
            return Moment(place, self._count(place))

    def _count(self, place: Place) -> int:
        of_all = _place(place[0])
        return self._counts[place] + (self._counts[of_all] if place != of_all else 0)

    def wait(self, moment: Moment, seconds: float) -> bool:
        """Wait for a signal after a moment, at most for some seconds; False if none has come."""
        with self._news:
            return self._news.wait_for(lambda: self._count(moment.place) != moment.count, seconds)

    async def await_news(self, moment: Moment, seconds: float) -> None:
        """Async variant of `wait`."""
        loop, news = asyncio.get_running_loop(), asyncio.Event()
        # An event of asyncio can only be set within its loop, and signals come from other threads.
        tell = partial(loop.call_soon_threadsafe, news.set)
        with self._news:
            if self._count(moment.place) != moment.count:
                return
            self._tells[moment.place].add(tell)
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(news.wait(), seconds)
        finally:
            with self._news:
                self._tells[moment.place].discard(tell)
                if not self._tells[moment.place]:
                    del self._tells[moment.place]

    @property
    def is_alive(self) -> bool:
        """False if the thread that listens has ended, though it should run."""
        return self._listener is None or self._listener.is_alive()

    def _listen(self) -> None:
        with self._lock:
            if self._listener is None or not self._listener.is_alive():
                listen = self._look if self._database.is_sqlite else self._hear
                listener = Thread(target=listen, name="agent-factory-listen", daemon=True)
                listener.start()
                # Afterwards: before its start it looks like one that has ended.
                self._listener = listener

    def _look(self) -> None:
        """Report commits of other connections to the file."""
        path = make_url(self._database.url).database
        assert path is not None
        seen, own, looks = None, 0, 0
        # Not one of the pool, whose number of connections is the user's to choose.
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            while not self._stop.wait(_VERSION_SECONDS):
                # The file may be locked, or its disk away: who waits looks by itself meanwhile.
                with suppress(sqlite3.Error):
                    (version,) = connection.execute("PRAGMA data_version").fetchone()
                    commits = self._database.commits
                    is_foreign = version != seen and commits == own
                    # Those who wait know of the commits of this process. One of another process may
                    # be hidden among them, so that they are reported as well, less often.
                    looks = looks + 1 if looks or version != seen else 0
                    if is_foreign or looks == _OWN_COMMITS:
                        looks = 0
                        self.tell(_ALL)
                    seen, own = version, commits

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
                    self.tell(_ALL)
                    while not self._stop.is_set():
                        # A call that waits for ever would not see that the service is closed.
                        for notice in connection.notifies(timeout=1.0, stop_after=1):
                            sender, _, about = notice.payload.partition(" ")
                            if sender != self._sender:
                                named = [about] if about else []
                                self.tell({_CHANNELS[notice.channel]: named})
            except psycopg.OperationalError:
                # Who waits looks again by itself meanwhile.
                self._stop.wait(_RECONNECT_SECONDS)

    def close(self) -> None:
        """End the thread that listens."""
        self._stop.set()
        # Not for ever: it may wait for a database that does not answer.
        if self._listener is not None:
            self._listener.join(timeout=5)


def _place(topic: Topic, about: str | None = None) -> Place:
    """Where signals are counted. Names that share a place wake each other, which does no harm."""
    return topic, None if about is None else hash(about) % _PLACES
