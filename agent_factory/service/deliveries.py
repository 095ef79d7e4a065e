"""Deliveries: requests and calls that are made at least once, again after an error or a crash."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Thread
from typing import ClassVar, Generic, Protocol, TypeVar

from agent_factory.service.backend import Backend
from agent_factory.service.errors import DatabaseUnavailable

CLAIM_SECONDS = 60.0
"""Seconds of a claim: after the death of its process, a delivery is due again then."""

AT_ONCE = 100
"""The most deliveries that a process claims at once."""

_THREADS = 4

logger = logging.getLogger("agent_factory.service")


class UndeliverableError(Exception):
    """The delivery is not made again."""


class Attempt(Protocol):
    """Attempt to deliver something."""

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""


Item = TypeVar("Item", bound=Attempt)


class DeliveryQueue(ABC, Generic[Item]):
    """Deliveries in the database, which the thread of a process makes."""

    name: ClassVar[str]
    """The subject of the deliveries: the name of the thread."""

    def __init__(self, backend: Backend) -> None:
        self._backend, self._database, self._pace = backend, backend.database, backend.pace
        self._stop = Event()
        self._thread: Thread | None = None
        self._send: Callable[[Item], None] | None = None

    def start(self, send: Callable[[Item], None]) -> None:
        """Deliver in a thread of this process, until `stop`.

        After an error of `send`, the delivery is made again, except after UndeliverableError.
        """
        self._send = send  # the newest, where several applications serve one service
        if self._thread is None:
            # A service may be started again after its stop.
            self._stop.clear()
            self._thread = Thread(target=self._run, name=f"agent-factory-{self.name}", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Begin no more deliveries, and wait for the running ones."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        with ThreadPoolExecutor(_THREADS, thread_name_prefix=f"agent-factory-{self.name}") as pool:
            while not self._stop.wait(self._pace.deliver):
                try:
                    # To the end, so that the next look claims only deliveries that can be sent.
                    list(pool.map(self._deliver, self.claim_due()))
                except DatabaseUnavailable as error:
                    logger.warning("%s", error)
                except Exception:
                    # The thread goes on: a fault of one look must not end all deliveries.
                    logger.exception("%s could not be sent.", self.name.capitalize())

    def _deliver(self, item: Item) -> None:
        """Make a delivery, and note a repeat or the end."""
        assert self._send is not None
        try:
            self._send(item)
        except Exception as error:
            pauses = self._pace.retries
            is_last = item.attempt > len(pauses) or isinstance(error, UndeliverableError)
            logger.log(
                logging.ERROR if is_last else logging.WARNING,
                "%s, attempt %d, failed: %s. %s",
                self.describe(item),
                item.attempt,
                error,
                "It is not sent again." if is_last else "It is sent again later.",
            )
            if not is_last:
                self.repeat(item, pauses[item.attempt - 1])
                return
        self.finish(item)

    @abstractmethod
    def claim_due(self) -> Sequence[Item]:
        """Due deliveries: no other process sends these for a minute."""

    @abstractmethod
    def describe(self, item: Item) -> str:
        """Name a delivery for the log."""

    @abstractmethod
    def repeat(self, item: Item, seconds: float) -> None:
        """Make a delivery due again in some seconds."""

    @abstractmethod
    def finish(self, item: Item) -> None:
        """Note the end of a delivery."""
