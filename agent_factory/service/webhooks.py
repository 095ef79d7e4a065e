"""Webhooks: requests that a server makes when a run ends or pauses."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import uuid4

from sqlalchemy import delete, func, insert, select, update

from agent_factory.service.deliveries import AT_ONCE, CLAIM_SECONDS, DeliveryQueue
from agent_factory.service.run import Run
from agent_factory.service.tables import runs
from agent_factory.service.tables import webhooks as table


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


class WebhookQueue(DeliveryQueue[Webhook]):
    """Requests that are to be made when runs end or pause, in the database.

    Each is made at least once, by a process that has called `start`: also by another one than that
    which was asked, and after a restart. Once all attempts have failed, the log says so.

    Args:
        backend: The parts of the service.
    """

    name = "webhooks"

    def add(self, run_id: str, url: str) -> None:
        """Make a request once a run has ended, or waits for a decision."""
        now = self._database.now
        row = {"id": str(uuid4()), "run_id": run_id, "url": url, "attempts": 0}
        pending = (table.c.run_id == run_id) & (table.c.url == url)
        with self._database.begin() as connection:
            # A cron that two workers begin at once asks twice for the same.
            if connection.execute(select(table.c.id).where(pending)).first() is None:
                connection.execute(insert(table).values(**row, due=now, created_at=now))

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
            rows = connection.execute(select(table).where(due).order_by(table.c.due).limit(AT_ONCE))
            candidates = rows.all()
        claimed = []
        for row in candidates:
            # Another process may have claimed it since: then the number of attempts is another.
            unchanged = (table.c.id == row.id) & (table.c.attempts == row.attempts)
            # If this process dies while it sends, the webhook is due again after that time.
            values = {"attempts": row.attempts + 1, "due": now + CLAIM_SECONDS}
            of_run = select(runs.c.thread_id).where(runs.c.run_id == row.run_id)
            with self._database.begin() as connection:
                thread = connection.execute(of_run).scalar()
                if thread is None:  # the run was deleted
                    connection.execute(delete(table).where(table.c.id == row.id))
                elif connection.execute(update(table).where(unchanged).values(values)).rowcount:
                    run = Run(self._backend, row.run_id, thread)
                    claimed.append(Webhook(row.id, run, row.url, row.attempts + 1))
        return claimed

    def describe(self, item: Webhook) -> str:
        """Name a request for the log."""
        return f"Webhook {item.url} of run {item.run.id}"

    def repeat(self, item: Webhook, seconds: float) -> None:
        """Make it again in some seconds."""
        this = update(table).where(table.c.id == item.id)
        with self._database.begin() as connection:
            connection.execute(this.values(due=self._database.now + seconds))

    def finish(self, item: Webhook) -> None:
        """Make it no more."""
        with self._database.begin() as connection:
            connection.execute(delete(table).where(table.c.id == item.id))
