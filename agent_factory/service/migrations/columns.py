"""Columns of tables that exist."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, Connection, Table, inspect, text
from sqlalchemy.schema import CreateColumn


def columns_of(connection: Connection, table: Table) -> set[str]:
    """The names of the columns that a table has in the database; none if there is no table."""
    inspector = inspect(connection)
    if not inspector.has_table(table.name):
        return set()
    return {column["name"] for column in inspector.get_columns(table.name)}


def add_column(connection: Connection, column: Column[Any], default: str | None = None) -> bool:
    """Add a column that is missing, and return True if it was.

    Args:
        connection: The transaction.
        column: The column.
        default: What rows have there, as SQL, if the column may not be null and has no default.
            It stays the default: workers of older versions do not write the column.
    """
    # Databases of version 0 differ in what they have: see `version_1`.
    if column.name in columns_of(connection, column.table):
        return False
    specification = CreateColumn(column).compile(dialect=connection.dialect)
    suffix = "" if default is None else f" DEFAULT {default}"
    connection.execute(text(f"ALTER TABLE {column.table.name} ADD COLUMN {specification}{suffix}"))
    return True
