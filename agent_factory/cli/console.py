"""The output of commands: tables and styles on a terminal, plain text or JSON elsewhere."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TimeElapsedColumn
from rich.style import Style
from rich.table import Table
from rich.text import Text as RichText

from agent_factory.cli.error_reports import CommandError
from agent_factory.topology.model import printable

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

ItemT = TypeVar("ItemT")
RowT = TypeVar("RowT", bound="DataclassInstance")

Cells = Mapping[str, str | RichText]
"""Cells of a row by the headings of their columns."""

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, always with the same keys.")]


class Text(RichText):
    """Text for a terminal: control characters and line breaks in names are escaped."""

    def __init__(self, text: str = "", style: str | Style = "", **options: Any) -> None:
        super().__init__(printable(text), style, **options)

    def append(self, text: RichText | str, style: str | Style | None = None) -> RichText:
        """Add a part, escaped."""
        return super().append(printable(text) if isinstance(text, str) else text, style)


def progress_bar(*columns: str | ProgressColumn) -> Progress:
    """Progress bar on the error output, hidden unless the output is a terminal."""
    console = Console(file=sys.stderr)
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def with_progress(items: Iterable[ItemT], title: str, delay: float = 2.0) -> Iterator[ItemT]:
    """Yield the items, with a progress bar after `delay` seconds."""
    bar = progress_bar(title, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    task = bar.add_task("", total=len(items) if isinstance(items, Sized) else None)
    start = time.monotonic()
    try:
        for item in items:
            yield item
            bar.advance(task)
            # A bar for a moment would only flicker.
            if time.monotonic() - start >= delay:
                bar.start()  # no effect on a started bar
    finally:
        bar.stop()


def show_rows(
    rows: Sequence[RowT],
    cells: Callable[[RowT], Cells],
    *,
    empty: str,
    json: bool,
) -> None:
    """Print rows: all their fields as JSON, or some cells as a table.

    Args:
        rows: Instances of a dataclass.
        cells: The cells of a row.
        empty: A sentence in place of a table without rows.
        json: Print JSON.
    """
    if json:
        write_json([asdict(row) for row in rows])
    elif rows:
        table = Table(box=None)
        for heading in cells(rows[0]):
            # Other commands take ids: they are not cut in a narrow terminal.
            is_id = heading == "id"
            table.add_column(heading, no_wrap=is_id, min_width=16 if is_id else None)
        for row in rows:
            values = cells(row).values()
            table.add_row(*(v if isinstance(v, RichText) else Text(v) for v in values))
        show(table)
    else:
        write(empty)


def local_time(seconds: float, form: str = "%Y-%m-%d %H:%M") -> str:
    """A moment in seconds since 1970 as local time."""
    return time.strftime(form, time.localtime(seconds))


def is_terminal() -> bool:
    """Return True if the output goes to a terminal."""
    # Without a console, as under pythonw on Windows, the standard streams are None.
    return sys.stdout is not None and sys.stdout.isatty()


def show(renderable: RenderableType) -> None:
    """Print a renderable of rich."""
    Console().print(renderable)


def indented(text: RichText) -> Padding:
    """Paragraph under a heading, with all lines indented."""
    return Padding(text, (0, 0, 0, 2))


def styled_lines(text: str) -> Iterator[RenderableType]:
    """Plain text for a terminal: headings in bold, and the lines below indented."""
    for line in text.splitlines():
        is_item = line.startswith((" ", "- "))
        yield indented(Text(line.lstrip(" "), "cyan")) if is_item else Text(line, "bold")


def counted(number: int, noun: str) -> str:
    """Number and noun: "1 file", "2 files"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def summary(subject: str, *counts: str, default: str) -> str:
    """Report on a single line: the counts above zero, or the default."""
    text = ", ".join(count for count in counts if not count.startswith("0 "))
    return f"{subject}: {text or default}."


def write(text: str) -> None:
    """Print plain text with a line break at the end."""
    print(text.removesuffix("\n"))


def write_json(data: object) -> None:
    """Print data as JSON."""
    write(json.dumps(data, indent=2, ensure_ascii=False))


def report(data: object, text: str, styled: Iterable[RenderableType] = (), *, json: bool) -> None:
    """Print the outcome of a command: data as JSON, a text, or on a terminal its styled form."""
    if json:
        write_json(data)
    elif styled and is_terminal():
        show(Group(*styled))
    else:
        write(text)


def save(content: bytes, file: Path) -> None:
    """Write a file, and report the file on a terminal."""
    try:
        file.write_bytes(content)
    except OSError as error:
        raise CommandError(f"{file} cannot be written: {error.strerror}.", error) from None
    note(f"Wrote {file} ({len(content)} bytes).")


def note(message: str) -> None:
    """Print a remark to the error output of a terminal."""
    if sys.stderr is not None and sys.stderr.isatty():
        Console(stderr=True, highlight=False, markup=False).print(
            message, style="dim", soft_wrap=True
        )
