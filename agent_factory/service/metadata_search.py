"""Search by metadata: what a thread's metadata must contain, compared as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping

from sqlalchemy import (
    Boolean,
    ColumnElement,
    Connection,
    Text,
    case,
    cast,
    func,
    literal,
    null,
    true,
    type_coerce,
)
from sqlalchemy.dialects.postgresql import JSONB

from agent_factory.service.database import driver_connection


def contains(value: object, part: object) -> bool:
    """Return True if a value of JSON contains another, as `@>` does in Postgres.

    An object contains one with some of its keys, and a list one with some of its items, in any
    order. Other values are the same in type and value; 1 and 1.0 are, and 1 and true are not.

    >>> contains({"topic": "refund", "n": 1, "tags": ["a", "b"]}, {"n": 1.0, "tags": ["b"]})
    True
    >>> contains({"n": 1}, {"n": True}), contains({"n": "1"}, {"n": 1})
    (False, False)
    """
    if isinstance(part, dict):
        return isinstance(value, dict) and all(
            key in value and contains(value[key], inner) for key, inner in part.items()
        )
    if isinstance(part, list):
        return isinstance(value, list) and all(
            any(contains(item, inner) for item in value) for inner in part
        )
    return isinstance(value, bool) == isinstance(part, bool) and value == part


def has_metadata(
    connection: Connection, column: ColumnElement[object], metadata: Mapping[str, object]
) -> ColumnElement[bool]:
    """Condition that a column with metadata contains some.

    Rows whose metadata a database cannot read fulfil none: earlier versions have stored NUL in
    Postgres, and NaN in SQLite.

    Args:
        connection: The connection that the query uses.
        column: The column.
        metadata: What it must contain.
    """
    part = json.dumps(dict(metadata))
    if connection.dialect.name == "sqlite":
        # By Python: SQLite's own functions for JSON take neither each key nor each number.
        driver_connection(connection).create_function(
            "agent_factory_contains", 2, _contains, deterministic=True
        )
        return func.agent_factory_contains(cast(column, Text), part, type_=Boolean) == true()
    text = cast(column, Text)
    # An escaped backslash is not the beginning of an escape; two halves are one character.
    escapes = func.regexp_replace(text, r"\\\\", "", "g")
    pair = r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    halves = func.regexp_replace(escapes, pair, "", "g")
    is_bad = halves.regexp_match(r"\\u(0000|[dD][89a-fA-F])")
    readable = type_coerce(case((is_bad, null()), else_=cast(column, JSONB)), JSONB)
    return readable.contains(cast(literal(part), JSONB))


def _contains(text: str | None, part: str) -> bool:
    try:
        return contains(json.loads(text or "{}"), json.loads(part))
    except (ValueError, RecursionError):
        return False
