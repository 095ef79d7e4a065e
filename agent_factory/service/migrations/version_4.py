"""Step to version 4: a background job keeps the call from which another worker begins it again."""

from __future__ import annotations

from sqlalchemy import Connection

from agent_factory.service.migrations.columns import add_column
from agent_factory.service.migrations.schema import Report
from agent_factory.service.tables import background_jobs


def migrate(connection: Connection, report: Report) -> None:
    """Add the columns.

    Workers of earlier versions leave them empty, and report the jobs of all workers as lost.
    """
    for column in (background_jobs.c.call, background_jobs.c.attempt, background_jobs.c.deadline):
        add_column(connection, column)
