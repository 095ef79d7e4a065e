"""Webhooks: requests of a server at the end or a pause of a run."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from sqlalchemy import Row, Select, delete, func, insert, not_, select

from agent_factory.service.deliveries import DeliveryQueue
from agent_factory.service.run import Run
from agent_factory.service.tables import runs
from agent_factory.service.tables import webhooks as table

OF_HOST = 4
"""The most requests to a host at once: a slow receiver leaves threads to the others."""


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

    name, end = "webhooks", delete(table)
    columns = (table.c.id, table.c.due, table.c.attempts)

    def add(self, run_id: str, url: str) -> None:
        """Add a request for the end of a run, or for its wait for a decision."""
        now = self._database.now
        row = {"id": str(uuid4()), "run_id": run_id, "url": url, "attempts": 0}
        pending = (table.c.run_id == run_id) & (table.c.url == url)
        with self._database.begin() as connection:
            # A cron that two workers begin at once adds the same request twice.
            if connection.execute(select(table.c.id).where(pending)).first() is None:
                connection.execute(insert(table).values(**row, due=now, created_at=now))

    def select(self, running: Sequence[Webhook]) -> Select[Any]:
        """Requests of runs at their end or pause, without the hosts that have many running."""
        # Not by other statuses: a deleted run has no status, and its row is removed.
        active = select(runs.c.run_id).where(runs.c.status.in_(("queued", "running")))
        # A run whose message another run has read ends with that run.
        ended = func.coalesce(runs.c.reader, table.c.run_id).not_in(active.correlate(None))
        url = func.lower(table.c.url).concat("/")
        hosts = Counter(_host(item.url) for item in running)
        full = [host for host, number in hosts.items() if number >= OF_HOST]
        is_full = [url.startswith(host + end, autoescape=True) for host in full for end in "/?#"]
        of_run = table.outerjoin(runs, runs.c.run_id == table.c.run_id)
        query = select(table, runs.c.thread_id).select_from(of_run)
        return query.where(ended, *map(not_, is_full))

    def spread(self, rows: Sequence[Row[Any]], running: Sequence[Webhook]) -> Sequence[Row[Any]]:
        """The due requests: not too many of a host."""
        hosts = Counter(_host(item.url) for item in running)
        chosen = []
        for row in rows:
            hosts[_host(row.url)] += 1
            if hosts[_host(row.url)] <= OF_HOST:
                chosen.append(row)
        return chosen

    def item(self, row: Row[Any], attempt: int) -> Webhook | None:
        """The request of a claimed row, or None if its run was deleted."""
        if row.thread_id is None:
            return None
        return Webhook(row.id, Run(self._backend, row.run_id, row.thread_id), row.url, attempt)

    def describe(self, item: Webhook) -> str:
        """Name a request for the log."""
        return f"Webhook {item.url} of run {item.run.id}"


def _host(url: str) -> str:
    return re.sub(r"(?s)(//[^/?#]*).*", r"\1", url.lower())
