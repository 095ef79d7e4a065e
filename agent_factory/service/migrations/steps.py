"""Steps: the migrations, in their order.

A step may run twice over the same tables: it adds what is missing.
"""

from __future__ import annotations

from itertools import groupby

from sqlalchemy import Column, Connection, Table, insert, inspect, text, update
from sqlalchemy.schema import CreateColumn

from agent_factory.service.migrations.dbos import pending_jobs
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
    threads,
    waits,
)

_ENTRIES_AT_ONCE = 1000


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
    for start in range(0, len(entries), _ENTRIES_AT_ONCE):
        connection.execute(insert(audit), entries[start : start + _ENTRIES_AT_ONCE])
        report(start, len(entries))
    connection.execute(text("DROP TABLE service_audit_0"))


def _columns(connection: Connection, table: Table) -> set[str]:
    """The names of the columns that a table of the database has."""
    inspector = inspect(connection)
    if not inspector.has_table(table.name):
        return set()
    return {column["name"] for column in inspector.get_columns(table.name)}


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
]
"""The migrations. A database of the last one's version needs none."""
