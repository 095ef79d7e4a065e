"""Step to version 3: a message names the run under way that has read it."""

from __future__ import annotations

from sqlalchemy import Connection

from agent_factory.service.migrations.columns import add_column
from agent_factory.service.migrations.schema import Report
from agent_factory.service.tables import runs


def migrate(connection: Connection, report: Report) -> None:
    """Add the column. Workers of version 2 leave it empty: each message is then a run."""
    add_column(connection, runs.c.reader)
