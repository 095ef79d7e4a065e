"""Migrations of the tables of a service: numbered steps from one version to the next.

An empty database gets all tables at once. An older database is refused until `agent-factory
upgrade` has taken the missing steps. A newer database is used if its newest step allows it: most
steps only add tables and columns, so that workers of two versions can work at the same time.

A released version never changes. The next change of a table is a function of a step, a line in
`MIGRATIONS`, and a file in `tests/service/schemas/`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, Connection, Float, Integer, MetaData, Table, inspect, select, text
from sqlalchemy.schema import CreateColumn
from sqlalchemy.sql import ColumnElement

from agent_factory.service.errors import DatabaseVersionError, ServiceError
from agent_factory.service.tables import metadata, workers

_ALIVE_SECONDS = 30.0
"""Seconds since its last sign of life for which a worker counts as alive: workers that were killed
leave their row."""

_LOCK_TIMEOUT = "5s"
"""How long a step waits for a locked table of Postgres."""

Report = Callable[[int, int], None]
"""Gets the progress of a step: the done part, and the whole."""

schema = Table(  # a row for each step, the newest is the version
    "service_schema",
    MetaData(),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("oldest", Integer, nullable=False),  # the oldest code that works with these tables
    Column("at", Float, nullable=False),
)


@dataclass(frozen=True, slots=True)
class Migration:
    """Step from a version to the next, in one transaction.

    Old workers may run during the step and afterwards if `oldest` is their version or lower. Such a
    step only adds tables, indexes, and columns that have a default or may be null.

    Args:
        version: The version after the step.
        oldest: The version of the oldest code that works with the tables after the step.
        title: A sentence in the imperative, without its full stop.
        migrate: Changes the tables in a transaction, and reports its progress.
    """

    version: int
    oldest: int
    title: str
    migrate: Callable[[Connection, Report], None]


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


def add_column(connection: Connection, column: Column[Any]) -> None:
    """Add a column to a table with rows: the column may be null, or has a `server_default`."""
    specification = CreateColumn(column).compile(dialect=connection.dialect)
    connection.execute(text(f"ALTER TABLE {column.table.name} ADD COLUMN {specification}"))


def _refuse(connection: Connection, report: Report) -> None:
    """Refuse tables without a version: only development versions made them."""
    reason = "cannot read tables from before the first release."
    raise ServiceError("upgrade", reason, "Use an empty database.")


MIGRATIONS: list[Migration] = [Migration(1, 1, "Create the first tables", _refuse)]
"""The migrations. A database of the last one's version needs none."""


def _version_of(connection: Connection) -> tuple[int, int] | None:
    """The version of the tables, and of the oldest code that works with the tables.

    None without tables of the service, and 0 for tables of a development version.
    """
    inspector = inspect(connection)
    if inspector.has_table(schema.name):
        newest = select(schema.c.version, schema.c.oldest).order_by(schema.c.version.desc())
        row = connection.execute(newest.limit(1)).first()
        if row is not None:
            return row.version, row.oldest
    return (0, 0) if inspector.has_table("service_threads") else None


def _write_version(connection: Connection, step: Migration, now: ColumnElement[float]) -> None:
    schema.create(connection, checkfirst=True)
    row = {"version": step.version, "oldest": step.oldest, "at": now}
    connection.execute(schema.insert().values(row))


def create_tables(connection: Connection, url: str, now: ColumnElement[float]) -> None:
    """Create the tables of an empty database; DatabaseVersionError if the tables do not fit."""
    newest, found = MIGRATIONS[-1], _version_of(connection)
    if found is None:
        # In one transaction: a process that is killed here leaves neither tables nor a version.
        metadata.create_all(connection)
        _write_version(connection, newest, now)
        return
    version, oldest = found
    if version < newest.version:
        raise DatabaseVersionError(
            url,
            f"has version {version}, this version of agent-factory needs {newest.version}.",
            f"Run agent-factory upgrade {url}.",
            version,
        )
    if newest.version < oldest:
        raise DatabaseVersionError(
            url,
            f"has version {version}, which works with version {oldest} or newer, "
            f"this version of agent-factory has {newest.version}.",
            "Install a newer version of agent-factory.",
            version,
        )


def upgrade_of(connection: Connection) -> Upgrade:
    """The upgrade that a database needs."""
    found, after = _version_of(connection), MIGRATIONS[-1].version
    if found is None:
        return Upgrade(None, after, {})
    steps = {step.version: step.title for step in MIGRATIONS if step.version > found[0]}
    return Upgrade(found[0], after, steps)


def take_step(
    connection: Connection, number: int, report: Report, now: ColumnElement[float]
) -> None:
    """Take the step to a version, unless another process has taken it; see `Operations.upgrade`."""
    (step,) = [step for step in MIGRATIONS if step.version == number]
    if connection.dialect.name == "postgresql":
        # A backup reads each table for long, and the whole service would wait behind the step.
        connection.execute(text(f"set local lock_timeout = '{_LOCK_TIMEOUT}'"))
    # Again: another process may have taken the step meanwhile.
    found = _version_of(connection)
    if found is None or found[0] >= number:
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
    _write_version(connection, step, now)
