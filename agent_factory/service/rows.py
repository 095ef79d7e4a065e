"""Rows: dataclasses and filters by the names of columns."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Row, Table

T = TypeVar("T")


def read_row(kind: type[T], row: Row[Any], **computed: Any) -> T:
    """A dataclass whose fields are columns of a row, by their names, except for computed values."""
    columns = row._mapping
    names = [field.name for field in fields(kind) if field.name not in computed]  # type: ignore[arg-type]
    return kind(**{name: columns[name] for name in names}, **computed)


def having(table: Table, **values: Any) -> list[ColumnElement[bool]]:
    """Conditions that columns of a table have some values; None stands for any value."""
    return [table.c[name] == value for name, value in values.items() if value is not None]
