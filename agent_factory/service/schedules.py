"""Schedules: messages that are submitted at the times of a cron expression."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from croniter import CroniterError, croniter
from sqlalchemy import delete, select, update

from agent_factory.errors import ArgumentError
from agent_factory.service.database import Database
from agent_factory.service.errors import NotFound
from agent_factory.service.tables import schedules


@dataclass(frozen=True, slots=True)
class Schedule:
    """A message that is submitted again and again.

    Args:
        name: Its name.
        cron: The cron expression.
        timezone: Whose times these are; None is UTC.
        message: What `Service.submit` gets: "agent", "message", "thread" and "tenant".
        due: The next time, in seconds since 1970.
    """

    name: str
    cron: str
    timezone: str | None
    message: Mapping[str, object]
    due: float


class Schedules:
    """The schedules of a service, in its database.

    Args:
        database: The database.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def set(
        self, name: str, cron: str, timezone: str | None, message: Mapping[str, object]
    ) -> None:
        """Store a schedule, in place of one of this name.

        Raises:
            ArgumentError: The cron expression or the time zone cannot be read.
        """
        zone = _zone(timezone)
        with self._database.begin() as connection:
            now = connection.execute(select(self._database.now)).scalar_one()
            values = {
                "cron": cron,
                "timezone": timezone,
                "payload": json.dumps(message),
                "due": _next(cron, zone, now),
            }
            row = self._database.insert(schedules).values(name=name, **values)
            connection.execute(
                row.on_conflict_do_update(index_elements=[schedules.c.name], set_=values)
            )

    def delete(self, name: str) -> None:
        """Delete a schedule.

        Raises:
            NotFound: There is no schedule of this name.
        """
        with self._database.begin() as connection:
            gone = connection.execute(delete(schedules).where(schedules.c.name == name))
            if not gone.rowcount:
                raise NotFound(f"schedule {name!r}", "does not exist.")

    def list(self) -> list[Schedule]:
        """The schedules, by their names."""
        with self._database.read() as connection:
            rows = connection.execute(select(schedules).order_by(schedules.c.name)).all()
        return [
            Schedule(row.name, row.cron, row.timezone, json.loads(row.payload), row.due)
            for row in rows
        ]

    def submit_due(
        self, agents: Collection[str], submit: Callable[[Schedule, datetime], object]
    ) -> None:
        """Submit the messages whose time has come, of these agents; times that were missed once.

        Several processes may do this at once: a message is the same in all of them.

        Args:
            agents: The agents of this process.
            submit: Gets a schedule, and the time that it was due.
        """
        with self._database.read() as connection:
            query = select(schedules.c.name).where(schedules.c.due <= self._database.now)
            names = {*connection.execute(query).scalars()}
        if not names:
            return
        for schedule in self.list():
            if schedule.name not in names or schedule.message["agent"] not in agents:
                continue
            zone = _zone(schedule.timezone)
            # Before the next time is stored: a process that dies between has submitted it, and the
            # one that does it again submits the same message.
            submit(schedule, datetime.fromtimestamp(schedule.due, zone))
            with self._database.begin() as connection:
                now = connection.execute(select(self._database.now)).scalar_one()
                unchanged = (schedules.c.name == schedule.name) & (schedules.c.due == schedule.due)
                following = _next(schedule.cron, zone, now)
                connection.execute(update(schedules).where(unchanged).values(due=following))


def _zone(name: str | None) -> tzinfo:
    try:
        return UTC if name is None else ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        raise ArgumentError(
            "timezone", f"is not known: {name!r}.", "Pass a name such as 'Europe/Berlin'."
        ) from None


def _next(cron: str, zone: tzinfo, now: float) -> float:
    """The first time after now, in seconds since 1970."""
    try:
        times = croniter(cron, datetime.fromtimestamp(now, zone), second_at_beginning=True)
        following: datetime = times.get_next(datetime)
    except (CroniterError, AttributeError, TypeError, ValueError):
        raise ArgumentError(
            "cron", f"is not a cron expression: {cron!r}.", "Pass '0 3 * * *', for example."
        ) from None
    return following.timestamp()
