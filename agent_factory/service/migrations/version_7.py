"""Step to version 7: a run keeps what it was asked, so that it can be found by that."""

from __future__ import annotations

from sqlalchemy import Connection

from agent_factory.service.migrations.columns import add_column
from agent_factory.service.migrations.schema import Report
from agent_factory.service.tables import runs


def migrate(connection: Connection, report: Report) -> None:
    """Add the column.

    Runs that are there, and those of workers of older versions, are found by their title alone.
    """
    add_column(connection, runs.c.question)
