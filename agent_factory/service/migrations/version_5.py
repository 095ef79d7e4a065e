"""Step to version 5: a run keeps the times of its steps, and a wait the state of its notice."""

from __future__ import annotations

from sqlalchemy import Connection

from agent_factory.service.migrations.columns import add_column
from agent_factory.service.migrations.schema import Report
from agent_factory.service.tables import runs, waits


def migrate(connection: Connection, report: Report) -> None:
    """Add the columns and their indexes.

    Workers of older versions leave the columns empty: their runs have no steps, and their waits no
    notices.
    """
    add_column(connection, runs.c.steps)
    add_column(connection, waits.c.notice_due)
    add_column(connection, waits.c.notice_attempts)
    for index in runs.indexes | waits.indexes:
        if index.name in ("service_runs_newest", "service_waits_notice"):
            index.create(connection, checkfirst=True)
