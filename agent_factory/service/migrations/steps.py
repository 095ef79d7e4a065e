"""Steps: the migrations, in their order.

A step may run twice over the same tables: it adds what is missing.
"""

from __future__ import annotations

import json
from itertools import groupby

from sqlalchemy import Column, Connection, Table, insert, inspect, select, text, update
from sqlalchemy.schema import CreateColumn

from agent_factory.service.jobs import DecisionJob
from agent_factory.service.migrations.dbos import (
    PendingJob,
    count_jobs,
    pending_jobs,
    refuse_jobs,
    stored_schedules,
)
from agent_factory.service.migrations.schema import Migration, Report
from agent_factory.service.tables import (
    approvals,
    audit,
    breakdown,
    effects,
    ledger,
    questions,
    reservations,
    runs,
    schedules,
    threads,
    waits,
)

_ROWS_AT_ONCE = 1000


def _to_1(connection: Connection, report: Report) -> None:
    """Tables from before there was a version: as the commits of November 2026 have made them."""
    _drop_first_forms(connection)
    for table in (effects, ledger, reservations, breakdown, approvals, questions):
        table.create(connection, checkfirst=True)
    if _add_column(connection, runs.c.status, default="'done'"):
        connection.execute(text(_STATUS_OF_RUNS))
        _order_jobs(connection)
    for column in (runs.c.checkpoint_id, runs.c.error, threads.c.title, waits.c.remember):
        _add_column(connection, column)
    for column in (threads.c.metadata, runs.c.metadata):
        _add_column(connection, column, default="'{}'")
    for column in (runs.c.usage, waits.c.reviewers):
        _add_column(connection, column, default="'[]'")
    _add_column(connection, waits.c.call_digest)
    if _add_column(connection, threads.c.created_at, default="0"):
        connection.execute(text("UPDATE service_threads SET created_at = updated_at"))
    if _add_column(connection, waits.c.job, default="''"):
        connection.execute(text(_JOB_OF_WAITS))
    if "hash" not in _columns(connection, audit):
        _chain_audit(connection, report)


_STATUS_OF_RUNS = """UPDATE service_runs SET status = CASE
    WHEN job IS NULL THEN 'queued'
    ELSE coalesce((
        SELECT CASE status WHEN 'idle' THEN 'done' ELSE status END FROM service_threads
        WHERE thread_id = service_runs.thread_id AND run = service_runs.run_id
    ), 'done') END"""

_JOB_OF_WAITS = """UPDATE service_waits SET job = coalesce(
    (SELECT job FROM service_runs WHERE run_id = service_waits.run), '')"""


def _to_2(connection: Connection, report: Report) -> None:
    """Rows of threads say what is to be done next, and no tables of a queue."""
    columns = (threads.c.due, threads.c.priority)
    for column in (*columns, runs.c.decision, runs.c.started_at, runs.c.ended_at):
        _add_column(connection, column)
    for table, index in ((threads, "service_threads_due"), (runs, "service_runs_started")):
        _add_index(connection, table, index)
    schedules.create(connection, checkfirst=True)
    now = connection.execute(text(_NOW[connection.dialect.name])).scalar_one()
    connection.execute(text(_QUEUE_AGAIN), {"now": now})
    total = count_jobs(connection)
    for number, job in enumerate(pending_jobs(connection), 1):
        _take_job(connection, job)
        if number % _ROWS_AT_ONCE == 0:
            report(number, total)
    _take_schedules(connection, now)
    refuse_jobs(connection)


_NOW = {
    "sqlite": "SELECT (julianday('now') - 2440587.5) * 86400.0",
    "postgresql": "SELECT CAST(extract(epoch FROM clock_timestamp()) AS double precision)",
}

# What a worker has that was killed begins once more, and what that worker writes is refused.
_QUEUE_AGAIN = """UPDATE service_threads
    SET status = 'queued', owner = NULL, epoch = epoch + 1, due = :now, priority = coalesce(
        (SELECT priority FROM service_runs WHERE run_id = service_threads.run), 0)
    WHERE status IN ('queued', 'running')"""


def _take_job(connection: Connection, job: PendingJob) -> None:
    """Write what a job has that is not in the rows of its run and of its thread."""
    data = json.loads(job.payload)
    # Another job, if there is one, has come after this one was cancelled.
    is_newest = (runs.c.run_id == data["run"], runs.c.job == job.id)
    if data["kind"] == DecisionJob.kind:
        connection.execute(update(runs).where(*is_newest).values(decision=job.payload))
    if job.begins_at is not None:
        of_thread = (threads.c.thread_id == data["thread"], threads.c.status == "queued")
        of_run = select(runs.c.run_id).where(*is_newest).scalar_subquery()
        delayed = update(threads).where(*of_thread, threads.c.run == of_run)
        connection.execute(delayed.values(due=job.begins_at))


def _take_schedules(connection: Connection, now: float) -> None:
    # Not at the top: schedules need the database, which needs the migrations.
    from agent_factory.service.schedules import next_time, zone_of

    for schedule in stored_schedules(connection):
        message = json.loads(schedule.payload)
        name = message.pop("name")
        due = next_time(schedule.cron, zone_of(schedule.timezone), now)
        if schedule.due is not None:
            due = schedule.due.timestamp()
        row = {"name": name, "cron": schedule.cron, "timezone": schedule.timezone, "due": due}
        connection.execute(insert(schedules).values(**row, payload=json.dumps(message)))


def _order_jobs(connection: Connection) -> None:
    """Leave each thread its first job that is pending. The runs of others come after it."""
    of_threads = groupby(
        sorted(job.id for job in pending_jobs(connection)),
        key=lambda job: job.rpartition("/")[0],
    )
    for thread, (first, *later) in of_threads:
        run = (
            update(runs).where(runs.c.job == first).values(status="queued").returning(runs.c.run_id)
        )
        name = connection.execute(run).scalar()
        if name is not None:  # it was not cancelled
            place = update(threads).where(threads.c.thread_id == thread)
            connection.execute(place.values(run=name))
        behind = update(runs).where(runs.c.job.in_(later))
        connection.execute(behind.values(status="queued", job=None))


def _drop_first_forms(connection: Connection) -> None:
    """Drop tables in forms that no version has ever written to."""
    if "state" in _columns(connection, effects):
        effects.drop(connection)
    if "amount" in _columns(connection, ledger):
        ledger.drop(connection)
        reservations.drop(connection)


def _chain_audit(connection: Connection, report: Report) -> None:
    """Write the entries of the audit again, with numbers without a gap and with hashes."""
    # Not at the top: the audit needs the database, which needs the migrations.
    from agent_factory.service.audit import NO_ENTRY, entry_hash

    for index in audit.indexes:
        index.drop(connection)
    connection.execute(text("ALTER TABLE service_audit RENAME TO service_audit_0"))
    if connection.dialect.name == "postgresql":  # the new table has an index of this name
        connection.execute(text("ALTER INDEX service_audit_pkey RENAME TO service_audit_0_pkey"))
    audit.create(connection)
    names = [column.name for column in audit.columns if column.name not in ("id", "hash")]
    rows = connection.execute(
        text(f"SELECT {', '.join(names)} FROM service_audit_0 ORDER BY id")
    ).all()
    before, entries = NO_ENTRY, []
    for number, row in enumerate(rows, 1):
        entry = {**row._mapping, "id": number}
        before = entry_hash(before, entry)
        entries.append({**entry, "hash": before})
    for start in range(0, len(entries), _ROWS_AT_ONCE):
        connection.execute(insert(audit), entries[start : start + _ROWS_AT_ONCE])
        report(start, len(entries))
    connection.execute(text("DROP TABLE service_audit_0"))


def _columns(connection: Connection, table: Table) -> set[str]:
    """The names of the columns that a table of the database has."""
    inspector = inspect(connection)
    if not inspector.has_table(table.name):
        return set()
    return {column["name"] for column in inspector.get_columns(table.name)}


def _add_index(connection: Connection, table: Table, name: str) -> None:
    (index,) = (index for index in table.indexes if index.name == name)
    index.create(connection, checkfirst=True)


def _add_column(connection: Connection, column: Column[object], default: str | None = None) -> bool:
    """Add a column that is missing, and return True if it was.

    Args:
        connection: The transaction.
        column: The column.
        default: What rows have there, as SQL, if the column may not be null and has no default.
            It stays the default: workers of older versions do not write the column.
    """
    if column.name in _columns(connection, column.table):
        return False
    specification = CreateColumn(column).compile(dialect=connection.dialect)
    suffix = "" if default is None else f" DEFAULT {default}"
    connection.execute(text(f"ALTER TABLE {column.table.name} ADD COLUMN {specification}{suffix}"))
    return True


MIGRATIONS: list[Migration] = [
    Migration(1, 1, "Bring tables from before there was a version into their form", _to_1),
    Migration(2, 2, "Take jobs and schedules from the tables of DBOS", _to_2),
]
"""The migrations. A database of the last one's version needs none."""
