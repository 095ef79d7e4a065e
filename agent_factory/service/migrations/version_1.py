"""Step to version 1: tables from before there was a version, as the commits of November 2026 made
them. It adds what is missing, since branches of that time have some changes and lack others."""

from __future__ import annotations

from itertools import groupby

from sqlalchemy import Connection, insert, text, update

from agent_factory.service.hash_chain import NO_ENTRY, entry_hash
from agent_factory.service.migrations.columns import add_column, columns_of
from agent_factory.service.migrations.dbos import pending_jobs
from agent_factory.service.migrations.schema import Report
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

_ROWS_AT_ONCE = 1000

_STATUS_OF_RUNS = """UPDATE service_runs SET status = CASE
    WHEN job IS NULL THEN 'queued'
    ELSE coalesce((
        SELECT CASE status WHEN 'idle' THEN 'done' ELSE status END FROM service_threads
        WHERE thread_id = service_runs.thread_id AND run = service_runs.run_id
    ), 'done') END"""

_JOB_OF_WAITS = """UPDATE service_waits SET job = coalesce(
    (SELECT job FROM service_runs WHERE run_id = service_waits.run), '')"""


def migrate(connection: Connection, report: Report) -> None:
    """Bring the tables into the form of version 1."""
    # In these forms, no version has ever written to them.
    if "state" in columns_of(connection, effects):
        effects.drop(connection)
    if "amount" in columns_of(connection, ledger):
        ledger.drop(connection)
        reservations.drop(connection)
    for table in (effects, ledger, reservations, breakdown, approvals, questions):
        table.create(connection, checkfirst=True)
    # Statements that change a run set it, also here.
    add_column(connection, runs.c.updated_at, default="0")
    if add_column(connection, runs.c.status, default="'done'"):
        connection.execute(text(_STATUS_OF_RUNS))
        _order_jobs(connection)
    for column in (runs.c.checkpoint_id, runs.c.error, threads.c.title, waits.c.remember):
        add_column(connection, column)
    for column in (threads.c.metadata, runs.c.metadata):
        add_column(connection, column, default="'{}'")
    for column in (runs.c.usage, waits.c.reviewers):
        add_column(connection, column, default="'[]'")
    add_column(connection, waits.c.call_digest)
    if add_column(connection, threads.c.created_at, default="0"):
        connection.execute(text("UPDATE service_threads SET created_at = updated_at"))
    if add_column(connection, waits.c.job, default="''"):
        connection.execute(text(_JOB_OF_WAITS))
    if "hash" not in columns_of(connection, audit):
        _chain_audit(connection, report)


def _order_jobs(connection: Connection) -> None:
    """Leave each thread its first job that is pending. The runs of others come after it."""
    of_threads = groupby(
        # By thread and number: an id ends with its number, which has zeros in front.
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


def _chain_audit(connection: Connection, report: Report) -> None:
    """Write the entries of the audit again, with numbers without a gap and with hashes."""
    # An index keeps its name when its table is renamed, and the new table needs that name.
    for index in audit.indexes:
        index.drop(connection)
    connection.execute(text("ALTER TABLE service_audit RENAME TO service_audit_0"))
    if connection.dialect.name == "postgresql":
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
