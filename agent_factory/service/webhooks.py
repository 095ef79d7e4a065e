"""Webhooks: requests of a server at the end or a pause of a run."""

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
    """A due request.

    Args:
        id: The id, the same in each attempt.
        run: The run, which has ended or waits.
        url: The URL.
        attempt: The number of this attempt, from 1.
    """

    id: str
    run: Run
    url: str
    attempt: int


class WebhookQueue(DeliveryQueue[Webhook]):
    """Requests at the end or a pause of runs, in the database.

    Each request is made at least once, by any process that has called `start`, also after a
    restart. The log names a request whose attempts have all failed.

    Args:
        backend: The parts of the service.
    """

    name = "webhooks"

    def add(self, run_id: str, url: str) -> None:
        """Add a request for the end of a run, or for its wait for a decision."""
        now = self._database.now
        row = {"id": str(uuid4()), "run_id": run_id, "url": url, "attempts": 0}
        pending = (table.c.run_id == run_id) & (table.c.url == url)
        with self._database.begin() as connection:
            # A cron that two workers begin at once adds the same request twice.
            if connection.execute(select(table.c.id).where(pending)).first() is None:
                connection.execute(insert(table).values(**row, due=now, created_at=now))

    def claim_due(self) -> list[Webhook]:
        """Due requests of runs at their end or pause; no other process makes these for a minute."""
        now = self._database.now
        # Not by other statuses: a deleted run has no status, and its row is removed.
        active = select(runs.c.run_id).where(runs.c.status.in_(("queued", "running")))
        # A run whose message another run has read ends with that run.
        of_reader = select(runs.c.reader).where(runs.c.run_id == table.c.run_id)
        ended = func.coalesce(of_reader.scalar_subquery(), table.c.run_id).not_in(active)
        due = (table.c.due <= now) & ended
        with self._database.read() as connection:
            rows = connection.execute(select(table).where(due).order_by(table.c.due).limit(AT_ONCE))
            candidates = rows.all()
        claimed = []
        for row in candidates:
            # Another process may have claimed the request: then the number of attempts differs.
            unchanged = (table.c.id == row.id) & (table.c.attempts == row.attempts)
            # After the death of this process, the request is due again.
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
        """Make a request again in some seconds."""
        this = update(table).where(table.c.id == item.id)
        with self._database.begin() as connection:
            connection.execute(this.values(due=self._database.now + seconds))

    def finish(self, item: Webhook) -> None:
        """Make a request no more."""
        with self._database.begin() as connection:
            connection.execute(delete(table).where(table.c.id == item.id))
