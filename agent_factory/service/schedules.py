"""Schedules: messages that are submitted at the times of a cron expression.

A schedule has a name that the product chose. A cron is a schedule that a client created: its row
has the name of an assistant, too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Row, delete, select, update

from agent_factory.service.cron import next_time, zone_of
from agent_factory.service.database import Database
from agent_factory.service.errors import NotFound
from agent_factory.service.tables import schedules

CRON_KEY = "cron_id"
"""Key in the metadata of a run: the cron that began the run."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """A message that is submitted again and again.

    Args:
        name: The name; of a cron, its id.
        cron: The cron expression.
        timezone: The time zone of the expression; None is UTC.
        message: Arguments of `Service.submit`: "agent", "message", "thread" and "tenant".
        due: The next time, in seconds since 1970.
    """

    name: str
    cron: str
    timezone: str | None
    message: Mapping[str, object]
    due: float

    @classmethod
    def of(cls, row: Row[Any]) -> Schedule:
        """The schedule of a row."""
        message = {"agent": row.agent, "message": None, "thread": row.thread_id}
        message |= {"tenant": row.tenant, **row.options}
        if row.assistant:
            # Last, so that the metadata of a client cannot name another cron.
            noted = row.options.get("metadata") or {}
            message["metadata"] = {**noted, **row.metadata, CRON_KEY: row.id}
        return cls(row.id, row.schedule, row.timezone, message, row.next_at)


class Schedules:
    """The schedules of a service, in its database.

    Args:
        database: The database.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def set(
        self,
        name: str,
        cron: str,
        timezone: str | None,
        *,
        agent: str,
        thread: str | None,
        tenant: str,
        options: Mapping[str, object],
    ) -> None:
        """Store a schedule, in place of one of this name.

        Raises:
            ArgumentError: The cron expression or the time zone cannot be read.
        """
        with self._database.begin() as connection:
            now = connection.execute(select(self._database.now)).scalar_one()
            values = {
                **_NOT_A_CRON,
                "tenant": tenant,
                "agent": agent,
                "thread_id": thread,
                "schedule": cron,
                "timezone": timezone,
                "next_at": next_time(cron, zone_of(timezone), now),
                "options": options,
                "updated_at": now,
            }
            row = self._database.insert(schedules).values(id=name, created_at=now, **values)
            connection.execute(row.on_conflict_do_update(index_elements=["id"], set_=values))

    def delete(self, name: str) -> None:
        """Delete a schedule.

        Raises:
            NotFound: There is no schedule of this name.
        """
        with self._database.begin() as connection:
            gone = connection.execute(delete(schedules).where(schedules.c.id == name))
            if not gone.rowcount:
                raise NotFound(f"schedule {name!r}", "does not exist.")

    def list(self) -> list[Schedule]:
        """The schedules that have a next time, by their names."""
        query = select(schedules).where(schedules.c.next_at.is_not(None)).order_by(schedules.c.id)
        with self._database.read() as connection:
            return [Schedule.of(row) for row in connection.execute(query)]

    def submit_due(
        self, agents: Collection[str], submit: Callable[[Row[Any], datetime], object]
    ) -> None:
        """Submit the messages whose time has come, of these agents; several missed times once.

        Several processes may do this at once: a message is the same in all of them.

        Args:
            agents: The agents of this process.
            submit: Gets the row of a schedule, and the time at which it was due.
        """
        is_due = (schedules.c.next_at <= self._database.now) & schedules.c.agent.in_([*agents])
        with self._database.read() as connection:
            rows = connection.execute(select(schedules).where(is_due).order_by(schedules.c.id))
            due = rows.all()
        for row in due:
            # Before the next time is stored: a process that dies in between has submitted the
            # message, and the next process submits the same message.
            submit(row, datetime.fromtimestamp(row.next_at, zone_of(row.timezone)))
            unchanged = (schedules.c.id == row.id) & (schedules.c.next_at == row.next_at)
            with self._database.begin() as connection:
                now = connection.execute(select(self._database.now)).scalar_one()
                following = next_run(row.schedule, row.timezone, row.ends_at, now)
                connection.execute(update(schedules).where(unchanged).values(next_at=following))


_NOT_A_CRON: dict[str, object] = {
    "assistant": "",
    "ends_at": None,
    "enabled": True,
    "keeps_threads": True,
    "by": "",
    "request": {},
    "metadata": {},
}
"""Columns of crons alone, in the row of another schedule."""


def next_run(
    schedule: str, timezone: str | None, ends_at: float | None, now: float
) -> float | None:
    """The next time of a schedule, in seconds since 1970; None if it has ended.

    Raises:
        ArgumentError: The cron expression or the time zone cannot be read.
    """
    following = next_time(schedule, zone_of(timezone), now)
    return following if ends_at is None or following < ends_at else None
