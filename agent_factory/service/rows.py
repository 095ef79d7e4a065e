"""Rows: dataclasses and filters by the names of columns, and loops over rows with faults."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Row, Table

from agent_factory.errors import ArgumentError
from agent_factory.service.errors import DatabaseUnavailable, NotFound, ServiceError

_FAILURES: dict[tuple[object, ...], tuple[str, int]] = {}  # of a row, since its last success
T = TypeVar("T")
logger = logging.getLogger("agent_factory.service")


def read_row(kind: type[T], row: Row[Any], **computed: Any) -> T:
    """A dataclass whose fields are columns of a row, by their names, except for computed values."""
    columns = row._mapping
    names = [field.name for field in fields(kind) if field.name not in computed]  # type: ignore[arg-type]
    return kind(**{name: columns[name] for name in names}, **computed)


def having(table: Table, **values: Any) -> list[ColumnElement[bool]]:
    """Conditions that columns of a table have some values; None stands for any value."""
    return [table.c[name] == value for name, value in values.items() if value is not None]


def must_exist(row: Row[Any] | None, subject: str, tenant: str | None = None) -> Row[Any]:
    """A row; NotFound if there is none, or if another tenant has it."""
    # One text for both: a tenant must not learn the ids of other tenants.
    if row is None or (tenant is not None and row.tenant != tenant):
        raise NotFound(subject, "does not exist.")
    return row


@contextmanager
def logged(text: str, *values: object, but: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Log an error as a text with values, and go on behind the block: with the next row of a loop.

    Errors of the classes `but` are raised. The same error of a row is logged ever less often.
    """
    row = (text, *values)
    try:
        yield
        _FAILURES.pop(row, None)
    except but:
        raise
    except (ServiceError, ArgumentError) as error:  # such as of a busy thread: no code is at fault
        passes = isinstance(error, DatabaseUnavailable)
        logger.log(logging.WARNING if passes else logging.ERROR, f"{text} %s", *values, error)
    except Exception as error:
        if len(_FAILURES) >= 1000:  # of rows that are gone, too
            _FAILURES.clear()
        last, times = _FAILURES.get(row, ("", 0))
        times = times + 1 if last == repr(error) else 1  # another error is news
        _FAILURES[row] = repr(error), times
        if times.bit_count() == 1:  # at 1, 2, 4, 8, 16
            logger.exception(text, *values)
