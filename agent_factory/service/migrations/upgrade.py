"""Upgrade: from the version of a database to the version of this code."""

from __future__ import annotations

import json
from dataclasses import dataclass

from sqlalchemy import Connection, select, text
from sqlalchemy.sql import ColumnElement

from agent_factory.service.errors import DatabaseVersionError, ServiceError
from agent_factory.service.migrations.schema import Report, version_of, write_version
from agent_factory.service.migrations.steps import MIGRATIONS
from agent_factory.service.tables import metadata, workers

_ALIVE_SECONDS = 30.0
"""Seconds since its last sign of life for which a worker counts as alive: workers that were killed
leave their row."""

_LOCK_TIMEOUT = "5s"
"""How long a step waits for a locked table of Postgres."""


@dataclass(frozen=True, slots=True)
class Upgrade:
    """Upgrade of a database.

    Args:
        before: The version of the tables; None for a database without tables.
        after: The version that this code needs.
        steps: The title of each step, by the version after the step.
    """

    before: int | None
    after: int
    steps: dict[int, str]


def create_tables(connection: Connection, url: str, now: ColumnElement[float]) -> None:
    """Create the tables of an empty database; DatabaseVersionError if the tables do not fit."""
    newest, version = MIGRATIONS[-1], version_of(connection)
    if version is None:
        # In one transaction: a process that is killed here leaves neither tables nor a version.
        metadata.create_all(connection)
        write_version(connection, newest, now)
    elif version.number < newest.version:
        raise DatabaseVersionError(
            url,
            f"has version {version.number}, this version of agent-factory needs {newest.version}.",
            f"Run agent-factory upgrade {url}.",
            version.number,
        )
    elif newest.version < version.oldest:
        raise DatabaseVersionError(
            url,
            f"has version {version.number}, which works with version {version.oldest} or newer, "
            f"this version of agent-factory has {newest.version}.",
            "Install a newer version of agent-factory.",
            version.number,
        )


def upgrade_of(connection: Connection) -> Upgrade:
    """The upgrade that a database needs."""
    version = version_of(connection)
    after = MIGRATIONS[-1].version
    if version is None:
        return Upgrade(None, after, {})
    steps = {step.version: step.title for step in MIGRATIONS if step.version > version.number}
    return Upgrade(version.number, after, steps)


def take_step(
    connection: Connection, number: int, report: Report, now: ColumnElement[float]
) -> None:
    """Take the step to a version, unless another process has taken it; see `Operations.upgrade`."""
    (step,) = [step for step in MIGRATIONS if step.version == number]
    if connection.dialect.name == "postgresql":
        # A backup reads each table for long, and the whole service would wait behind the step.
        connection.execute(text(f"set local lock_timeout = '{_LOCK_TIMEOUT}'"))
    # Again: another process may have taken the step meanwhile.
    version = version_of(connection)
    if version is None or version.number >= number:
        return
    alive = select(workers.c.id, workers.c.detail).where(workers.c.beat > now - _ALIVE_SECONDS)
    older = [
        row.id
        for row in connection.execute(alive.order_by(workers.c.id))
        if json.loads(row.detail)["tables"] < step.oldest
    ]
    if older:
        raise ServiceError(
            "upgrade",
            f"needs all workers of older versions to end before step {step.version} "
            f"({step.title}); alive are {', '.join(older)}.",
            "Run agent-factory drain with their version, or stop them. One that was killed counts "
            f"as alive for {_ALIVE_SECONDS:g} seconds.",
        )
    step.migrate(connection, report)
    write_version(connection, step, now)
