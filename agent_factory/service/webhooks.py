"""Webhooks: requests that a server makes when a run ends or pauses."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event, Thread
from uuid import uuid4

from sqlalchemy import delete, func, insert, select, update

from agent_factory.service.backend import Backend
from agent_factory.service.errors import DatabaseUnavailable
from agent_factory.service.run import Run
from agent_factory.service.tables import runs
from agent_factory.service.tables import webhooks as table

WAITS = (5.0, 30.0, 120.0, 600.0)
"""Seconds between the attempts to deliver."""

_LOOK_SECONDS = 1.0
_CLAIM_SECONDS = 60.0
_AT_ONCE = 4
_PAGE = 100

logger = logging.getLogger("agent_factory.service")


@dataclass(frozen=True, slots=True)
class Webhook:
    """A request that is to be made.

    Args:
        id: Its id, the same in each attempt.
        run: The run, which has ended or waits.
        url: Where the request goes.
        attempt: The number of this attempt, from 1.
    """

    id: str
    run: Run
    url: str
    attempt: int


class UndeliverableError(Exception):
    """A request that is not made again."""


class WebhookQueue:
    """Requests that are to be made when runs end or pause, in the database.

    Each is made at least once, by a process that has called `start`: also by another one than that
    which was asked, and after a restart. Once all attempts have failed, the log says so.

    Args:
        backend: The parts of the service.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend, self._database = backend, backend.database
        self._stop = Event()
        self._thread: Thread | None = None
        self._send: Callable[[Webhook], None] | None = None

    def add(self, run_id: str, url: str) -> None:
        """Make a request once a run has ended, or waits for a decision."""
        now = self._database.now
        row = {"id": str(uuid4()), "run_id": run_id, "url": url, "attempts": 0}
        pending = (table.c.run_id == run_id) & (table.c.url == url)
        with self._database.begin() as connection:
            # A cron that two workers begin at once asks twice for the same.
            if connection.execute(select(table.c.id).where(pending)).first() is None:
                connection.execute(insert(table).values(**row, due=now, created_at=now))

    def start(self, send: Callable[[Webhook], None]) -> None:
        """Make requests in a thread of this process, until `stop`.

        Args:
            send: Makes a request. An error means that it is made again later, and
                UndeliverableError that it is not.
        """
        self._send = send  # the newest, where several applications serve one service
        if self._thread is None:
            self._thread = Thread(target=self._run, name="agent-factory-webhooks", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Make no more requests, and wait for those that are being made."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="agent-factory-webhook") as pool:
            while not self._stop.wait(_LOOK_SECONDS):
                try:
                    # To the end, so that the next look claims no more than can be sent.
                    list(pool.map(self._deliver, self.claim_due()))
                except DatabaseUnavailable as error:
                    logger.warning("%s", error)
                except Exception:
                    # The thread goes on: a fault of one look must not end all webhooks.
                    logger.exception("Webhooks could not be sent.")

    def claim_due(self) -> list[Webhook]:
        """Requests whose run has ended or waits: no other process makes them for a minute."""
        now = self._database.now
        # Not by the other statuses: a run that was deleted has none, and its row is removed.
        active = select(runs.c.run_id).where(runs.c.status.in_(("queued", "running")))
        # A run whose message another one has read ends with that one.
        of_reader = select(runs.c.reader).where(runs.c.run_id == table.c.run_id)
        ended = func.coalesce(of_reader.scalar_subquery(), table.c.run_id).not_in(active)
        due = (table.c.due <= now) & ended
        with self._database.read() as connection:
            rows = connection.execute(select(table).where(due).order_by(table.c.due).limit(_PAGE))
            candidates = rows.all()
        claimed = []
        for row in candidates:
            # Another process may have claimed it since: then the number of attempts is another.
            unchanged = (table.c.id == row.id) & (table.c.attempts == row.attempts)
            # If this process dies while it sends, the webhook is due again after that time.
            values = {"attempts": row.attempts + 1, "due": now + _CLAIM_SECONDS}
            of_run = select(runs.c.thread_id).where(runs.c.run_id == row.run_id)
            with self._database.begin() as connection:
                thread = connection.execute(of_run).scalar()
                if thread is None:  # the run was deleted
                    connection.execute(delete(table).where(table.c.id == row.id))
                elif connection.execute(update(table).where(unchanged).values(values)).rowcount:
                    run = Run(self._backend, row.run_id, thread)
                    claimed.append(Webhook(row.id, run, row.url, row.attempts + 1))
        return claimed

    def _deliver(self, webhook: Webhook) -> None:
        """Make a request, and note whether it has to be made again."""
        assert self._send is not None
        try:
            self._send(webhook)
        except Exception as error:
            is_last = webhook.attempt > len(WAITS) or isinstance(error, UndeliverableError)
            logger.log(
                logging.ERROR if is_last else logging.WARNING,
                "Webhook %s of run %s, attempt %d, failed: %s. %s",
                webhook.url,
                webhook.run.id,
                webhook.attempt,
                error,
                "It is not sent again." if is_last else "It is sent again later.",
            )
            if not is_last:
                due = self._database.now + WAITS[webhook.attempt - 1]
                with self._database.begin() as connection:
                    this = update(table).where(table.c.id == webhook.id)
                    connection.execute(this.values(due=due))
                return
        with self._database.begin() as connection:
            connection.execute(delete(table).where(table.c.id == webhook.id))
