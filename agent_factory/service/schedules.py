"""Schedules: messages that are submitted at the times of a cron expression.

A schedule has a name that the product chose. A cron is a schedule that a client created: its row
has the name of an assistant, too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, delete, select, update

from agent_factory.service.cron import next_time, zone_of
from agent_factory.service.database import Database
from agent_factory.service.errors import NotFound
from agent_factory.service.rows import read_row
from agent_factory.service.tables import schedules
from agent_factory.state import check_json

CRON_KEY = "cron_id"
"""Key in the metadata of a run: the cron that began the run."""


@dataclass(frozen=True, slots=True)
class Cron:
    """A message that is submitted again and again: a row of the schedules.

    Args:
        id: The id, and the name of the schedule.
        tenant: The tenant.
        agent: The name of the agent.
        assistant: The assistant with the settings of the runs, also the id of an agent. "" for a
            schedule of the product.
        thread_id: The thread of the runs; None if each run gets a new thread.
        schedule: A cron expression.
        timezone: The time zone of the expression; None is UTC.
        ends_at: The end, in seconds since 1970.
        enabled: Whether runs begin.
        keeps_threads: Whether the thread of a run stays when the next run begins.
        by: Who created the cron.
        options: Arguments of `Service.submit`, as JSON: `message`, `config`, `context` and others.
        request: The request of the client, for answers.
        metadata: Notes; the runs have them, too.
        created_at: The time of creation.
        updated_at: The time of the last change.
        next_at: The next time, in seconds since 1970; None at the end, or if disabled.
    """

    id: str
    tenant: str
    agent: str
    assistant: str
    thread_id: str | None
    schedule: str
    timezone: str | None
    ends_at: float | None = None
    enabled: bool = True
    keeps_threads: bool = False
    by: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    request: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    created_at: float = 0.0
    updated_at: float = 0.0
    next_at: float | None = None


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
    def of(cls, cron: Cron) -> Schedule:
        """The schedule of a row, which has a next time."""
        message: dict[str, Any] = {"agent": cron.agent, "message": None, "thread": cron.thread_id}
        message |= {"tenant": cron.tenant, **cron.options}
        if cron.assistant:
            # Last, so that the metadata of a client cannot name another cron.
            metadata = {**(cron.options.get("metadata") or {}), **cron.metadata}
            message["metadata"] = {**metadata, CRON_KEY: cron.id}
        assert cron.next_at is not None
        return cls(cron.id, cron.schedule, cron.timezone, message, cron.next_at)


class Schedules:
    """The schedules of a service, in its database.

    Args:
        database: The database.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def write(self, connection: Connection, cron: Cron) -> Cron:
        """Write a row, in place of a row with its id, and its next time.

        Raises:
            ArgumentError: The cron expression or the time zone cannot be read, or a value is not
                JSON.
        """
        metadata = {**(cron.options.get("metadata") or {}), **cron.metadata}
        texts = {"name": cron.id, "thread": cron.thread_id, "tenant": cron.tenant}
        for argument, value in {**texts, **cron.options, "metadata": metadata}.items():
            check_json(argument, value)
        now = connection.execute(select(self._database.now)).scalar_one()
        cron = replace(
            cron,
            created_at=cron.created_at or now,
            updated_at=now,
            next_at=next_run(cron, now),
        )
        values = asdict(cron)
        row = self._database.insert(schedules).values(values)
        connection.execute(row.on_conflict_do_update(index_elements=["id"], set_=values))
        return cron

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
            return [Schedule.of(read_row(Cron, row)) for row in connection.execute(query)]

    def submit_due(
        self, agents: Collection[str], submit: Callable[[Cron, datetime], object]
    ) -> None:
        """Submit the messages whose time has come, of these agents; several missed times once.

        Several processes may do this at once: a message is the same in all of them.

        Args:
            agents: The agents of this process.
            submit: Gets a row, and the time at which it was due.
        """
        is_due = (schedules.c.next_at <= self._database.now) & schedules.c.agent.in_([*agents])
        with self._database.read() as connection:
            rows = connection.execute(select(schedules).where(is_due).order_by(schedules.c.id))
            crons = [read_row(Cron, row) for row in rows]
        for cron in crons:
            # Before the next time is stored: a process that dies in between has submitted the
            # message, and the next process submits the same message.
            submit(cron, datetime.fromtimestamp(cron.next_at or 0.0, zone_of(cron.timezone)))
            unchanged = (schedules.c.id == cron.id) & (schedules.c.next_at == cron.next_at)
            with self._database.begin() as connection:
                now = connection.execute(select(self._database.now)).scalar_one()
                following = update(schedules).where(unchanged).values(next_at=next_run(cron, now))
                connection.execute(following)


def next_run(cron: Cron, now: float) -> float | None:
    """The next time of a cron after now, in seconds since 1970.

    None if the cron has ended, also at the end itself, or is disabled.

    Raises:
        ArgumentError: The cron expression or the time zone cannot be read.
    """
    following = next_time(cron.schedule, zone_of(cron.timezone), now)
    has_ended = cron.ends_at is not None and following >= cron.ends_at
    return following if cron.enabled and not has_ended else None
