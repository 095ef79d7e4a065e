"""Search by metadata, compared as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping

from sqlalchemy import Boolean, ColumnElement, Text, cast, func, literal, true
from sqlalchemy.dialects.postgresql import JSONB


def contains(value: object, part: object) -> bool:
    """Return True if a value of JSON contains another, as `@>` does in Postgres.

    An object contains an object with some of its keys, and a list contains a list with some of its
    items, in any order. Other values are equal in type and value; 1 equals 1.0, and not true.

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


def contains_text(text: str, part: str) -> bool:
    """`contains` for SQLite, whose own functions for JSON take neither each key nor each number."""
    return contains(json.loads(text), json.loads(part))


def has_metadata(
    column: ColumnElement[object], metadata: Mapping[str, object], *, sqlite: bool
) -> ColumnElement[bool]:
    """Condition that a column with metadata contains JSON, as `contains` defines it."""
    part = json.dumps(dict(metadata))
    if sqlite:
        return func.agent_factory_contains(cast(column, Text), part, type_=Boolean) == true()
    return cast(column, JSONB).contains(cast(literal(part), JSONB))
