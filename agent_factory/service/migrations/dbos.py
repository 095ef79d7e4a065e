"""Reader of what waits in the tables of DBOS, which queued the jobs of services up to version 1.

It needs no package of DBOS. Its tables stay as they are: other applications may use them, too.
"""

from __future__ import annotations

import pickle
from base64 import b64decode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from io import BytesIO
from typing import Any

from sqlalchemy import Connection, RowMapping, inspect, text

_SCHEMA = {"postgresql": "dbos", "sqlite": None}
_PASSED_ON = "~2"  # follows the id of a job that another worker had passed on

_JOBS = """SELECT s.workflow_uuid AS id, coalesce(i.inputs, s.inputs) AS inputs,
    s.delay_until_epoch_ms AS begins_at
    FROM {status} s LEFT JOIN {input} i ON i.workflow_uuid = s.workflow_uuid
    WHERE s.name = 'agent_factory.run_job' AND s.status IN ('ENQUEUED', 'PENDING', 'DELAYED')
    ORDER BY s.created_at, s.workflow_uuid"""

_SCHEDULES = """SELECT schedule_name AS name, schedule AS cron, cron_timezone AS timezone, context
    FROM {schedules} WHERE workflow_name = 'agent_factory.run_schedule' AND status = 'ACTIVE'
    ORDER BY schedule_name"""

_FIRES = """SELECT workflow_uuid AS id FROM {status}
    WHERE name = 'agent_factory.run_schedule' AND status IN ('ENQUEUED', 'PENDING', 'DELAYED')
    ORDER BY workflow_uuid"""


@dataclass(frozen=True, slots=True)
class PendingJob:
    """Job that no worker has finished.

    Args:
        id: The id of the job: its thread and its number.
        payload: The job, as JSON text.
        begins_at: When it may begin, in seconds since 1970; None for at once.
    """

    id: str
    payload: str
    begins_at: float | None = None


@dataclass(frozen=True, slots=True)
class StoredSchedule:
    """Schedule of messages.

    Args:
        name: Its name.
        cron: The cron expression.
        timezone: Whose times these are; None is UTC.
        payload: What is submitted, as JSON text: the arguments of `Service.submit`, and `name`.
        due: A time that has come, and whose message is not submitted; None if there is none.
    """

    name: str
    cron: str
    timezone: str | None
    payload: str
    due: datetime | None = None


def pending_jobs(connection: Connection) -> Iterator[PendingJob]:
    """The jobs that wait or that a worker has begun, in the order in which they were queued."""
    for row in _rows(connection, _JOBS):
        payload = _value(row["inputs"])["args"][-1]
        begins_at = None if row["begins_at"] is None else row["begins_at"] / 1000
        yield PendingJob(row["id"].removesuffix(_PASSED_ON), payload, begins_at)


def stored_schedules(connection: Connection) -> list[StoredSchedule]:
    """The schedules, by their names."""
    fires = [row["id"].removesuffix(_PASSED_ON) for row in _rows(connection, _FIRES)]
    schedules = []
    for row in _rows(connection, _SCHEDULES):
        due = next(filter(None, (_time_of(fire, row["name"]) for fire in fires)), None)
        place = (row["name"], row["cron"], row["timezone"])
        schedules.append(StoredSchedule(*place, _value(row["context"]), due))
    return schedules


def _time_of(fire: str, schedule: str) -> datetime | None:
    """The time that is in the id of a job of a schedule; None if it is of another schedule."""
    prefix = f"sched-{schedule}-"
    try:
        return (
            datetime.fromisoformat(fire.removeprefix(prefix)) if fire.startswith(prefix) else None
        )
    except ValueError:  # the schedule "a" is not "a-b"
        return None


def _rows(connection: Connection, query: str) -> Iterable[RowMapping]:
    schema = _SCHEMA[connection.dialect.name]
    if not inspect(connection).has_table("workflow_status", schema=schema):
        return []
    prefix = "" if schema is None else f"{schema}."
    names = {"status": "workflow_status", "input": "workflow_input"}
    names |= {"schedules": "workflow_schedules"}
    statement = text(query.format(**{key: f"{prefix}{name}" for key, name in names.items()}))
    # Payloads are as large as messages: not all of them at once.
    return connection.execute(statement, execution_options={"yield_per": 1000}).mappings()


class _Plain(pickle.Unpickler):
    """Reads texts, numbers, tuples and the like; a class or a function in the data is refused."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"{module}.{name} is not a part of a job.")


def _value(stored: str) -> Any:
    return _Plain(BytesIO(b64decode(stored))).load()
