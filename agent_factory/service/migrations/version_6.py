"""Step to version 6: a background job counts the workers that were stopped, and have not died."""

from __future__ import annotations

from sqlalchemy import Connection

from agent_factory.service.migrations.columns import add_column
from agent_factory.service.migrations.schema import Report
from agent_factory.service.tables import background_jobs


def migrate(connection: Connection, report: Report) -> None:
    """Add the column.

    Workers of earlier versions leave it as it is: each of their attempts counts.
    """
    add_column(connection, background_jobs.c.handovers)
