"""Reader of what waits in the tables of DBOS, which queued the jobs of services up to version 1.

It needs no package of DBOS. Rows of other applications, which may use its tables, stay as they are.
"""

from __future__ import annotations

import pickle
from base64 import b64decode
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from io import BytesIO
from typing import Any

from sqlalchemy import Connection, RowMapping, inspect, text

_SCHEMA = {"postgresql": "dbos", "sqlite": None}
_PASSED_ON = "~2"  # follows the id of a job that another worker had passed on

_NUMBER = """SELECT count(*) AS number FROM {status} WHERE name = 'agent_factory.run_job'
    AND status IN ('ENQUEUED', 'PENDING', 'DELAYED')"""

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

_END = """UPDATE {table} SET status = 'CANCELLED' WHERE status IN ('ENQUEUED', 'PENDING', 'DELAYED')
    AND name IN ('agent_factory.run_job', 'agent_factory.run_schedule')"""
_IS_JOB = "NEW.name IN ('agent_factory.run_job', 'agent_factory.run_schedule')"
_REFUSAL = "the tables of agent-factory are newer than this process: update and restart it"

_REFUSE = {
    "sqlite": (
        _END,
        f"""CREATE TRIGGER service_refuse_jobs BEFORE INSERT ON {{table}} WHEN {_IS_JOB}
        BEGIN SELECT RAISE(ABORT, '{_REFUSAL}'); END""",
    ),
    "postgresql": (
        _END,
        f"""CREATE FUNCTION service_refuse_jobs() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION '{_REFUSAL}'; END $$""",
        f"""CREATE TRIGGER service_refuse_jobs BEFORE INSERT ON {{table}}
        FOR EACH ROW WHEN ({_IS_JOB}) EXECUTE FUNCTION service_refuse_jobs()""",
    ),
}


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


def count_jobs(connection: Connection) -> int:
    """How many jobs there are."""
    return sum(row["number"] for row in _rows(connection, _NUMBER))


def pending_jobs(connection: Connection) -> Iterator[PendingJob]:
    """The jobs that wait or that a worker has begun, in the order in which they were queued."""
    for row in _rows(connection, _JOBS):
        # The last one: the first commits passed the thread, too.
        payload = _value(row["inputs"])["args"][-1]
        begins_at = None if row["begins_at"] is None else row["begins_at"] / 1000
        yield PendingJob(row["id"].removesuffix(_PASSED_ON), payload, begins_at)


def stored_schedules(connection: Connection) -> list[StoredSchedule]:
    """The schedules, by their names."""
    fires = [row["id"].removesuffix(_PASSED_ON) for row in _rows(connection, _FIRES)]
    schedules = []
    for row in _rows(connection, _SCHEDULES):
        due = None
        # The earliest in the end: a schedule submits all that it has missed as one message.
        for fire in reversed(fires):
            with suppress(ValueError):  # it is of another schedule, and stays as it is
                due = datetime.fromisoformat(fire.removeprefix(f"sched-{row['name']}-"))
        place = (row["name"], row["cron"], row["timezone"])
        schedules.append(StoredSchedule(*place, _value(row["context"]), due))
    return schedules


def refuse_jobs(connection: Connection) -> None:
    """End the jobs, which were read, and refuse new ones: nobody would carry them out.

    A process of an older version gets an error then, and its message is not lost unnoticed.
    """
    table = _table(connection, "workflow_status")
    if table is not None:
        for statement in _REFUSE[connection.dialect.name]:
            connection.execute(text(statement.format(table=table)))


def _rows(connection: Connection, query: str) -> Iterator[RowMapping]:
    names = ("workflow_status", "workflow_input", "workflow_schedules")
    tables = {name.removeprefix("workflow_"): _table(connection, name) for name in names}
    if tables["status"] is None:
        return
    # Payloads are as large as messages: not all of them at once.
    options = {"yield_per": 1000}
    with connection.execute(text(query.format(**tables)), execution_options=options) as rows:
        yield from rows.mappings()


def _table(connection: Connection, name: str) -> str | None:
    """The name of a table with its schema; None if there is no such table."""
    schema = _SCHEMA[connection.dialect.name]
    if not inspect(connection).has_table(name, schema=schema):
        return None
    return name if schema is None else f"{schema}.{name}"


class _Plain(pickle.Unpickler):
    """Reads texts, numbers, tuples and the like; a class or a function in the data is refused."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"{module}.{name} is not a part of a job.")


def _value(stored: str) -> Any:
    return _Plain(BytesIO(b64decode(stored))).load()
