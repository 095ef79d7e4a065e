"""Version of the tables in a database, and steps from one version to the next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, Connection, Float, Integer, MetaData, Table, inspect, select, text
from sqlalchemy.schema import CreateColumn
from sqlalchemy.sql import ColumnElement

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
class Version:
    """Version of the tables of a database.

    Args:
        number: The version; 0 for tables of a development version, which has no number.
        oldest: The version of the oldest code that works with the tables.
    """

    number: int
    oldest: int


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


def version_of(connection: Connection) -> Version | None:
    """The version of the tables of a database; None without tables of the service."""
    inspector = inspect(connection)
    if inspector.has_table(schema.name):
        newest = select(schema.c.version, schema.c.oldest).order_by(schema.c.version.desc())
        row = connection.execute(newest.limit(1)).first()
        if row is not None:
            return Version(row.version, row.oldest)
    return Version(0, 0) if inspector.has_table("service_threads") else None


def write_version(connection: Connection, migration: Migration, now: ColumnElement[float]) -> None:
    """Write the version of a migration."""
    schema.create(connection, checkfirst=True)
    row = {"version": migration.version, "oldest": migration.oldest, "at": now}
    connection.execute(schema.insert().values(row))


def add_column(connection: Connection, column: Column[Any]) -> None:
    """Add a column to a table with rows: the column may be null, or has a `server_default`."""
    specification = CreateColumn(column).compile(dialect=connection.dialect)
    connection.execute(text(f"ALTER TABLE {column.table.name} ADD COLUMN {specification}"))
