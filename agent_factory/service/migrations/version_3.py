"""Step to version 3: a message names the run that has read it, and background jobs are kept."""

from __future__ import annotations

from sqlalchemy import Connection

from agent_factory.service.migrations.columns import add_column
from agent_factory.service.migrations.schema import Report
from agent_factory.service.tables import background_jobs, runs


def migrate(connection: Connection, report: Report) -> None:
    """Add the column and the table.

    Workers of version 2 leave the column empty: each message is then a run.
    """
    add_column(connection, runs.c.reader)
    background_jobs.create(connection, checkfirst=True)
