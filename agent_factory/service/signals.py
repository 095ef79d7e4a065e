"""Signals: wake waiting threads, in this process and in other processes.

On Postgres signals are notifications, sent at the commit of a transaction. On SQLite a thread looks
for commits of other connections, which takes microseconds and no transaction. A waiting thread
looks at the tables after a signal, and also from time to time: a signal may be lost. A signal names
its run or job, so that the end of a run wakes only callers of this run.
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
"""Subject of a signal: a job that may begin, events of runs, or the end of a run."""

_CHANNELS: dict[str, Topic] = {f"agent_factory_{topic}": topic for topic in get_args(Topic)}
# For the driver itself: each transaction of a run sends signals, and SQLAlchemy takes longer.
_NOTIFY = "SELECT pg_notify(topic, text) FROM unnest(%s::text[], %s::text[]) AS news(topic, text)"
_VERSION_SECONDS = 0.05
_OWN_COMMITS = 4  # looks with own commits, until hidden commits of other processes are assumed
_PLACES = 1024  # more runs share counters
_RECONNECT_SECONDS = 1.0


Place = tuple[Topic, int | None]
"""Key of a counter of signals; None counts signals about all runs of a topic."""

News = Mapping[Topic, Sequence[str]]
"""Runs that have ended, or jobs with events; an empty sequence means all."""

_ALL: News = dict.fromkeys(get_args(Topic), ())


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment between two signals: the key of their counter, and the number of earlier signals."""

    place: Place
    count: int


class Signals:
    """Signals of a service, in one process."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock, self._news, self._stop = Lock(), Condition(), Event()
        self._counts: Counter[Place] = Counter()
        # Calls that wake event loops.
        self._tells: defaultdict[Place, set[Callable[[], object]]] = defaultdict(set)
        self._listener: Thread | None = None
        # On Postgres, a process gets its own signals as well.
        self._sender = uuid4().hex

    def send(self, connection: Connection, news: News) -> None:
        """Wake waiting threads of all processes, once the transaction has committed."""
        self._database.after_commit(partial(self.tell, news))
        if self._database.is_sqlite:
            return
        channels = [f"agent_factory_{topic}" for topic in news]
        # Postgres limits a payload to 8,000 bytes: several names are sent as all.
        named = [about[0] if len(about) == 1 else "" for about in news.values()]
        payloads = [f"{self._sender} {name}" for name in named]
        driver_connection(connection).execute(_NOTIFY, (channels, payloads))

    def tell(self, news: News) -> None:
        """Wake waiting threads of this process."""
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

        Without a run or a job, only signals about all of them count.
        """
        self._listen()
        return self.moment(topic, about)

    def moment(self, topic: Topic, about: str | None = None) -> Moment:
        """This moment, as `now`, without listening to other processes.

        So a process that never waits needs no connection to listen. Call `now` before a wait.
        """
        place = _place(topic, about)
        with self._news:
            return Moment(place, self._count(place))

    def _count(self, place: Place) -> int:
        of_all = _place(place[0])
        return self._counts[place] + (self._counts[of_all] if place != of_all else 0)

    def wait(self, moment: Moment, seconds: float) -> bool:
        """Wait for a signal after a moment, at most for some seconds; False without a signal."""
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
        """False if the thread that listens has ended by mistake."""
        return self._listener is None or self._listener.is_alive()

    def _listen(self) -> None:
        with self._lock:
            if self._listener is None or not self._listener.is_alive():
                listen = self._look if self._database.is_sqlite else self._hear
                listener = Thread(target=listen, name="agent-factory-listen", daemon=True)
                listener.start()
                # Afterwards: before its start, a thread looks like an ended thread.
                self._listener = listener

    def _look(self) -> None:
        """Report commits of other connections to the file."""
        path = make_url(self._database.url).database
        assert path is not None
        seen, own, looks = None, 0, 0
        # Not from the pool: the user chooses its number of connections.
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            while not self._stop.wait(_VERSION_SECONDS):
                # The file may be locked, or its disk away: waiting threads look from time to time.
                with suppress(sqlite3.Error):
                    (version,) = connection.execute("PRAGMA data_version").fetchone()
                    commits = self._database.commits
                    is_foreign = version != seen and commits == own
                    # Waiting threads know the commits of this process. A commit of another process
                    # may be hidden among these, so they are reported as well, less often.
                    looks = looks + 1 if looks or version != seen else 0
                    if is_foreign or looks == _OWN_COMMITS:
                        looks = 0
                        self.tell(_ALL)
                    seen, own = version, commits

    def _hear(self) -> None:
        # An installation for SQLite alone does not have psycopg.
        import psycopg

        while not self._stop.is_set():
            try:
                # To listen takes a session: PgBouncer in transaction mode would end it.
                url, options = self._database.direct_url, self._database.keepalives
                with psycopg.connect(url, autocommit=True, **options) as connection:
                    for channel in _CHANNELS:
                        connection.execute(f"listen {channel}")
                    # Earlier signals are unknown here.
                    self.tell(_ALL)
                    while not self._stop.is_set():
                        # A call without a timeout would not notice the end of the service.
                        for notice in connection.notifies(timeout=1.0, stop_after=1):
                            sender, _, about = notice.payload.partition(" ")
                            if sender != self._sender:
                                named = [about] if about else []
                                self.tell({_CHANNELS[notice.channel]: named})
            except psycopg.OperationalError:
                # Waiting threads look from time to time.
                self._stop.wait(_RECONNECT_SECONDS)

    def close(self) -> None:
        """End the thread that listens."""
        self._stop.set()
        # With a timeout: the thread may wait for a database.
        if self._listener is not None:
            self._listener.join(timeout=5)


def _place(topic: Topic, about: str | None = None) -> Place:
    """Key of a counter of signals. Names that share a key wake each other, which does no harm."""
    return topic, None if about is None else hash(about) % _PLACES
