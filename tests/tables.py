"""Tables whose rows one test walks, and reports all that fail."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pytest

Test = TypeVar("Test", bound=Callable[..., Any])


def each(
    names: str, rows: Iterable[Any], ids: Callable[[Any], Any] | None = None
) -> Callable[[Test], Test]:
    """Run a test with each row of a table, as one case.

    It is written like `pytest.mark.parametrize`, and takes rows with ids (`pytest.param`) as well.
    A walk has no fixture for each row but `monkeypatch`, whose changes a row makes alone: a test
    whose rows would see each other's files or servers is parametrized. Rows that take seconds are,
    too, so that processes share them. The test is skipped if each row is.

    Raises:
        BaseExceptionGroup: The errors of all rows that fail, with the row as a note.
    """
    columns = [name.strip() for name in names.split(",")]
    table = [_row(row, columns, ids) for row in rows]
    if not table:
        raise ValueError("Expected a table with rows, got an empty table.")

    def decorate(test: Test) -> Test:
        if inspect.iscoroutinefunction(test):
            raise TypeError(f"{test.__name__} must be sync: no walk awaits its rows.")
        signature = inspect.signature(test)
        others = [p for name, p in signature.parameters.items() if name not in columns]
        if len(others) + len(columns) != len(signature.parameters):
            raise TypeError(f"{test.__name__} has no parameters for the columns {columns}.")

        @functools.wraps(test)
        def walk(**fixtures: Any) -> None:
            errors: list[BaseException] = []
            skipped: list[str] = []
            for label, values in table:
                with pytest.MonkeyPatch.context() as patches:
                    if "monkeypatch" in fixtures:
                        fixtures["monkeypatch"] = patches
                    try:
                        test(**fixtures, **values)
                    except pytest.skip.Exception as error:
                        skipped.append(str(error))
                    except (Exception, pytest.fail.Exception) as error:
                        error.add_note(f"in the row {label}")
                        errors.append(error)
            if errors:
                raise BaseExceptionGroup(f"{len(errors)} of {len(table)} rows fail", errors)
            if len(skipped) == len(table):
                pytest.skip(skipped[0])

        walk.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        del walk.__wrapped__  # pytest would read the signature of the test behind it
        walk.pytestmark = list(getattr(test, "pytestmark", []))  # type: ignore[attr-defined]
        return walk  # type: ignore[return-value]

    return decorate


def _row(
    row: Any, columns: list[str], ids: Callable[[Any], Any] | None
) -> tuple[str, dict[str, Any]]:
    label, values = None, row
    if hasattr(row, "marks"):  # of pytest.param
        if row.marks:
            raise ValueError(f"Expected rows without marks, got {row}. Parametrize that test.")
        label, values = row.id, row.values if len(columns) > 1 else row.values[0]
    cells = tuple(values) if len(columns) > 1 else (values,)
    if len(cells) != len(columns):
        raise ValueError(f"Expected {len(columns)} values for {columns}, got {cells!r}.")
    label = label or "-".join(str(ids(cell) if ids else cell) for cell in cells)
    return label[:200], dict(zip(columns, cells, strict=True))
