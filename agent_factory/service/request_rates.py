"""Rates of requests, counted over all processes that serve one database."""

from __future__ import annotations

import time
from hashlib import sha256
from threading import Lock

from sqlalchemy import case, delete, select

from agent_factory.service.database import Database
from agent_factory.service.tables import rates

WINDOW_SECONDS = 60.0
"""The time that a limit is about."""


class RequestRates:
    """Rates of requests by key, over all processes of a database. A count is one statement."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock, self._forgets_at = Lock(), 0.0

    def take(self, key: str, number: int, per_minute: int) -> float:
        """Count requests, or return the seconds to wait, as `Service.take_requests`."""
        # Rows of those who have made no request for a minute are deleted once a minute.
        with self._lock:
            forgets = time.monotonic() >= self._forgets_at
            if forgets:
                self._forgets_at = time.monotonic() + WINDOW_SECONDS
        database, now = self._database, self._database.now
        needs = number * WINDOW_SECONDS / per_minute
        digest = sha256(key.encode()).hexdigest()
        # The generic cell rate algorithm: a number for each key, and no list of its requests.
        # A time that is too far ahead is of a clock that was set back. A window more, so that a
        # small step back gives nobody more requests.
        counts = rates.c.full_at.between(now, now + 2 * WINDOW_SECONDS)
        full_at = case((counts, rates.c.full_at), else_=now) + needs
        statement = database.insert(rates).values(key=digest, full_at=now + needs)
        upsert = statement.on_conflict_do_update(
            index_elements=[rates.c.key],
            set_={"full_at": full_at},
            where=full_at - now <= WINDOW_SECONDS + 0.001,  # such sums are not exact
        ).returning(rates.c.full_at)
        with database.begin() as connection:
            if forgets:
                connection.execute(delete(rates).where(rates.c.full_at < now))
            if connection.execute(upsert).first() is not None:
                return 0.0
            left = select(rates.c.full_at - now).where(rates.c.key == digest)
            excess = connection.execute(left).scalar_one() + needs - WINDOW_SECONDS
        # Other requests may have become due in between.
        return max(float(excess), 0.001)
