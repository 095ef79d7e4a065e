"""Schedules: messages that are submitted at the times of a cron expression.

A schedule has a name that the product chose. A cron is a schedule that a client created: its row
has the name of an assistant, too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from croniter import CroniterBadDateError, croniter
from sqlalchemy import Connection, select

from agent_factory.errors import ArgumentError
from agent_factory.service.database import Database
from agent_factory.service.tables import schedules
from agent_factory.state import check_json

CRON_KEY = "cron_id"
"""Key in the metadata of a run: the cron that began the run."""

_HINT = "Take '0 3 * * *', for example: at three every night."


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
        """The schedule of a row."""
        message: dict[str, Any] = {"agent": cron.agent, "message": None, "thread": cron.thread_id}
        message |= {"tenant": cron.tenant, **cron.options}
        if cron.assistant:
            # Last, so that the metadata of a client cannot name another cron.
            metadata = {**(cron.options.get("metadata") or {}), **cron.metadata}
            message["metadata"] = {**metadata, CRON_KEY: cron.id}
        return cls(cron.id, cron.schedule, cron.timezone, message, cron.next_at or 0.0)


def write_cron(database: Database, connection: Connection, cron: Cron) -> Cron:
    """Write a row, in place of a row with its id; ArgumentError without a next time."""
    metadata = {**(cron.options.get("metadata") or {}), **cron.metadata}
    texts = {"name": cron.id, "thread": cron.thread_id, "tenant": cron.tenant}
    for argument, value in {**texts, **cron.options, "metadata": metadata}.items():
        check_json(argument, value)
    now = connection.execute(select(database.now)).scalar_one()
    if cron.enabled and next_time(cron.schedule, zone_of(cron.timezone), now) is None:
        reason = "has no next time."
        raise ArgumentError(f"the cron expression {cron.schedule!r}", reason, _HINT)
    created_at, next_at = cron.created_at or now, next_run(cron, now)
    cron = replace(cron, created_at=created_at, updated_at=now, next_at=next_at)
    row = database.insert(schedules).values(asdict(cron))
    connection.execute(row.on_conflict_do_update(index_elements=["id"], set_=asdict(cron)))
    return cron


def zone_of(name: str | None) -> tzinfo:
    """The time zone of a name; UTC for None; ArgumentError for an unknown name.

    >>> zone_of(None) is UTC, str(zone_of("Europe/Berlin"))
    (True, 'Europe/Berlin')
    """
    try:
        return UTC if name is None else ZoneInfo(name)
    # OSError: of files, where the name is that of a folder, or too long for one.
    except (ZoneInfoNotFoundError, ValueError, TypeError, AttributeError, OSError):
        raise ArgumentError(
            f"the time zone {name!r}", "is not known.", "Take 'Europe/Berlin', for example."
        ) from None


def next_time(cron: str, zone: tzinfo, now: float) -> float | None:
    """The first time of a cron expression after now, in seconds since 1970; None without a time.

    An expression can name a last year, or a day such as February 30. Another text is an
    ArgumentError.

    >>> next_time("0 3 * * *", UTC, 0.0) / 3600
    3.0
    >>> print(next_time("0 3 30 2 *", UTC, 0.0))
    None
    """
    try:
        times = croniter(cron, datetime.fromtimestamp(now, zone), second_at_beginning=True)
        following: datetime = times.get_next(datetime)
        return following.timestamp()
    except CroniterBadDateError:
        return None
    except Exception:  # its class depends on the wrong part of the expression
        raise ArgumentError(f"the cron expression {cron!r}", "cannot be read.", _HINT) from None


def next_run(cron: Cron, now: float) -> float | None:
    """The next time of a cron after now; None at its end or later, or if it is disabled."""
    following = next_time(cron.schedule, zone_of(cron.timezone), now)
    ends_at = math.inf if cron.ends_at is None else cron.ends_at
    return following if cron.enabled and following is not None and following < ends_at else None
