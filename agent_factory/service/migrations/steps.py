"""Steps: the migrations, in their order."""

from __future__ import annotations

from sqlalchemy import Connection

from agent_factory.service.errors import ServiceError
from agent_factory.service.migrations.schema import Migration, Report


def _refuse(connection: Connection, report: Report) -> None:
    """Refuse tables without a version: only development versions made them."""
    reason = "cannot read tables from before the first release."
    raise ServiceError("upgrade", reason, "Use an empty database.")


MIGRATIONS: list[Migration] = [Migration(1, 1, "Create the first tables", _refuse)]
"""The migrations. A database of the last one's version needs none."""
