"""Version 1: the tables of the first release. An empty database gets them without a step."""

from __future__ import annotations

from sqlalchemy import Connection

from agent_factory.service.errors import ServiceError
from agent_factory.service.migrations.schema import Report


def migrate(connection: Connection, report: Report) -> None:
    """Refuse tables without a version: only development versions made them."""
    raise ServiceError(
        "upgrade", "cannot read tables from before the first release.", "Use an empty database."
    )
