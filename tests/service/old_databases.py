"""Databases as older versions have left them, with traffic in them: schemas/README.md."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
from sqlalchemy import Connection, inspect

SCHEMAS = Path(__file__).parent / "schemas"

COMMITS = sorted({path.name.partition(".")[0] for path in SCHEMAS.glob("*.sqlite.sql")})
"""The commits whose code has left a database."""

NEWEST = "5672936e"
"""The last one without a version in its database."""


def load_sqlite(commit: str, path: Path) -> str:
    """The URL of a copy of the database of a commit."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript((SCHEMAS / f"{commit}.sqlite.sql").read_text())
    return f"sqlite:///{path}"


def load_postgres(commit: str, url: str) -> str:
    """Load the database of a commit into an empty one."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute((SCHEMAS / f"{commit}.postgres.sql").read_bytes())
    return url


def shape(connection: Connection) -> dict[tuple[str, str], object]:
    """The columns, indexes and keys of the tables of the service."""
    inspector = inspect(connection)
    parts: dict[tuple[str, str], object] = {}
    for table in inspector.get_table_names():
        if not table.startswith("service_"):
            continue
        for column in inspector.get_columns(table):
            kind = (str(column["type"]), column["nullable"])
            parts[table, f"column {column['name']}"] = kind
        for index in inspector.get_indexes(table):
            options = {name: str(text) for name, text in index.get("dialect_options", {}).items()}
            place = (index["column_names"], index["unique"], options)
            parts[table, f"index {index['name']}"] = place
        for unique in inspector.get_unique_constraints(table):
            parts[table, f"unique {unique['column_names']}"] = True
        parts[table, "key"] = inspector.get_pk_constraint(table)["constrained_columns"]
    return parts
