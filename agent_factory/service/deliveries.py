"""Deliveries: requests and calls that are made at least once, again after an error or a crash."""

from __future__ import annotations

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import Event, Lock, Thread
from time import monotonic
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from sqlalchemy import Column, Delete, Row, Select, Update, or_, update

from agent_factory.service.backend import Backend
from agent_factory.service.errors import DatabaseUnavailable
from agent_factory.service.rows import logger

CLAIM_SECONDS = 60.0
"""Seconds of a claim: after the death of its process, a delivery is due again then."""

THREADS = 16
"""The most deliveries of a process at once; a delivery counts for CLAIM_SECONDS at most."""

AT_ONCE = 100
"""The most threads of a process, also if calls hang: no deadline can end a sync function."""


class UndeliverableError(Exception):
    """The delivery is not made again."""


class Attempt(Protocol):
    """Attempt to deliver something."""

    @property
    def id(self) -> str:
        """The id, the same in each attempt."""

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""


Item = TypeVar("Item", bound=Attempt)


@dataclass(slots=True, eq=False)
class _Delivery(Generic[Item]):
    """A running delivery. The lock keeps a longer claim from being written after the outcome."""

    item: Item
    begun: float = field(default_factory=lambda: monotonic())
    extensions: int = 0
    lock: Lock = field(default_factory=Lock)
    is_sent: bool = False
    end: Event = field(default_factory=Event)


class DeliveryQueue(ABC, Generic[Item]):
    """Deliveries in the database, which threads of a process make.

    A process extends the claims of its running deliveries, so that each is made once at a time.
    """

    name: ClassVar[str]
    """The subject of the deliveries: the name of the threads."""

    columns: ClassVar[tuple[Column[Any], Column[Any], Column[Any]]]
    """The columns of the id, of the time when a delivery is due, and of the number of attempts."""

    end: ClassVar[Update | Delete]
    """The statement that ends deliveries."""

    def __init__(self, backend: Backend) -> None:
        self._backend, self._database, self._pace = backend, backend.database, backend.pace
        self._stop, self._news = Event(), Event()
        self._thread: Thread | None = None
        self._send: Callable[[Item], None] | None = None
        self._running: dict[str, _Delivery[Item]] = {}

    def start(self, send: Callable[[Item], None]) -> None:
        """Deliver in threads of this process, until `stop`.

        After an error of `send`, the delivery is made again, except after UndeliverableError.
        """
        self._send = send  # the newest, where several applications serve one service
        if self._thread is None:
            # A service may be started again after its stop, which a thread may have outlasted.
            stop = self._stop = Event()
            self._thread = self._new_thread(self._run, stop)
            self._thread.start()

    def _new_thread(self, target: Callable[[Any], None], argument: object) -> Thread:
        name = f"agent-factory-{self.name}"
        return Thread(target=target, args=(argument,), name=name, daemon=True)

    def stop(self) -> None:
        """Begin no more deliveries, and wait for the running ones, at most `Pace.stop` in all.

        A delivery that still runs is made again once its claim has run out.
        """
        self._stop.set()
        self._news.set()
        thread, self._thread = self._thread, None
        if thread is not None:
            end = monotonic() + self._pace.stop
            thread.join(self._pace.stop)
            for delivery in [*self._running.values()]:
                delivery.end.wait(max(0.0, end - monotonic()))
            if self._running:
                logger.warning("%d %s did not end in time.", len(self._running), self.name)

    def _run(self, stop: Event) -> None:
        while not stop.is_set():
            # The end of a delivery is news: its thread takes the next one at once.
            pause = min(self._pace.deliver, CLAIM_SECONDS / 3 if self._running else math.inf)
            self._news.wait(pause)
            self._news.clear()
            try:
                if not stop.is_set():
                    self._extend_claims()
                    self._begin_due()
            except DatabaseUnavailable as error:
                logger.warning("%s", error)
            except Exception:
                # The thread goes on: a fault of one look must not end all deliveries.
                logger.exception("%s could not be sent.", self.name.capitalize())

    def _extend_claims(self) -> None:
        for delivery in [*self._running.values()]:
            if monotonic() < delivery.begun + CLAIM_SECONDS / 3 * (delivery.extensions + 1):
                continue
            with delivery.lock:
                if not delivery.is_sent:
                    self.repeat(delivery.item, CLAIM_SECONDS)
            delivery.extensions += 1
            if delivery.extensions == 3:
                text = "%s has no end after %d seconds; another delivery takes its place."
                logger.warning(text, self.describe(delivery.item), CLAIM_SECONDS)

    def _begin_due(self) -> None:
        """Begin due deliveries, while threads are free."""
        running = [*self._running.values()]
        hung = sum(monotonic() >= delivery.begun + CLAIM_SECONDS for delivery in running)
        room = min(THREADS + hung, AT_ONCE) - len(running)
        items = [delivery.item for delivery in running]
        for item in self.claim_due(room, items) if room > 0 else ():
            delivery = self._running[item.id] = _Delivery(item)
            try:
                # Not from a pool: Python waits at its end for the threads of pools.
                self._new_thread(self._deliver, delivery).start()
            except BaseException:  # the limit of threads
                del self._running[item.id]
                raise

    def _deliver(self, delivery: _Delivery[Item]) -> None:
        """Make a delivery, and note a repeat or the end."""
        item, note = delivery.item, partial(self.finish, delivery.item)
        assert self._send is not None
        try:
            try:
                self._send(item)
            except Exception as error:
                pauses = self._pace.retries
                is_last = item.attempt > len(pauses) or isinstance(error, UndeliverableError)
                level = logging.ERROR if is_last else logging.WARNING
                then = "It is not sent again." if is_last else "It is sent again later."
                text = "%s, attempt %d, failed: %s. %s"
                logger.log(level, text, self.describe(item), item.attempt, error, then)
                if not is_last:
                    note = partial(self.repeat, item, pauses[item.attempt - 1])
            with delivery.lock:
                delivery.is_sent = True
            self._database.retried(note)
        except Exception:
            logger.exception("The outcome of %s could not be noted.", self.describe(item))
        finally:
            del self._running[item.id]
            delivery.end.set()
            self._news.set()

    def claim_due(self, most: int = AT_ONCE, running: Sequence[Item] = ()) -> list[Item]:
        """Due deliveries: no other process makes these for a minute.

        Args:
            most: The most deliveries.
            running: Deliveries that this process makes: these are not due.
        """
        (id, due, attempts), now = self.columns, self._database.now
        # A later time is of a clock that was set back; clocks may differ by a minute.
        latest = now + max((CLAIM_SECONDS, *self._pace.retries)) + CLAIM_SECONDS
        is_due, others = or_(due <= now, due > latest), id.not_in([item.id for item in running])
        query = self.select(running).where(is_due, others)
        rows = self._database.rows(query.order_by(due).limit(AT_ONCE))
        claimed: list[Item] = []
        for row in self.spread(rows, running)[:most]:
            key, attempt = row._mapping[id], row._mapping[attempts] + 1
            # Another process may have claimed the delivery: then the number of attempts differs.
            this = update(id.table).where(id == key, attempts == attempt - 1)
            # After the death of this process, the delivery is due again.
            this = this.values({attempts: attempt, due: now + CLAIM_SECONDS})
            is_ours = self._database.write(this)
            if is_ours and (item := self.item(row, attempt)) is not None:
                claimed.append(item)
            elif is_ours:
                self._write(self.end, key, attempt)
        return claimed

    def repeat(self, item: Item, seconds: float) -> None:
        """Make a delivery due again in some seconds, unless a later attempt has begun."""
        id, due, _ = self.columns
        later = update(id.table).values({due: self._database.now + seconds})
        self._write(later, item.id, item.attempt)

    def finish(self, item: Item) -> None:
        """Note the end of a delivery, unless a later attempt has begun."""
        self._write(self.end, item.id, item.attempt)

    def _write(self, statement: Update | Delete, key: str, attempt: int) -> None:
        id, _, attempts = self.columns
        self._database.write(statement.where(id == key, attempts == attempt))

    def spread(self, rows: Sequence[Row[Any]], running: Sequence[Item]) -> Sequence[Row[Any]]:
        """The due rows that may begin next to the running deliveries."""
        return rows

    @abstractmethod
    def select(self, running: Sequence[Item]) -> Select[Any]:
        """The rows that may be due."""

    @abstractmethod
    def item(self, row: Row[Any], attempt: int) -> Item | None:
        """The delivery of a claimed row, or None if it has become needless."""

    @abstractmethod
    def describe(self, item: Item) -> str:
        """Name a delivery for the log."""
