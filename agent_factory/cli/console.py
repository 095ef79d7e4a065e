"""Where a command writes: as tables and colours for people, as plain text for everything else."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from agent_factory.cli.error_reports import Trouble

PATIENCE = 2.0
"""Seconds without a bar."""

ItemT = TypeVar("ItemT")


def each(items: Sequence[ItemT], words: str, patience: float = PATIENCE) -> Iterator[ItemT]:
    """The items, one by one, with a bar on the error output when it takes long.

    Args:
        items: What is worked on.
        words: What is done, for the bar.
        patience: Seconds until there is a bar.
    """
    console = Console(file=sys.stderr)
    columns = (TextColumn(words), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    task = bar.add_task("", total=len(items))
    begun = time.monotonic()
    try:
        for item in items:
            yield item
            bar.advance(task)
            if time.monotonic() - begun >= patience:
                bar.start()  # nothing happens where it has begun
    finally:
        bar.stop()


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, with the same keys always.")]


def is_terminal() -> bool:
    """Whether a person reads along."""
    return sys.stdout is not None and sys.stdout.isatty()


def show(renderable: RenderableType) -> None:
    """Print what is made for people."""
    Console().print(renderable)


def indented(text: Text) -> Padding:
    """A paragraph that stands under a heading, however it wraps."""
    return Padding(text, (0, 0, 0, 2))


def write(text: str) -> None:
    """Print plain text as it is, with one line break at its end."""
    print(text.removesuffix("\n"))


def write_json(data: Any) -> None:
    """Print data as JSON."""
    write(json.dumps(data, indent=2, ensure_ascii=False))


def save(text: str, file: Path) -> None:
    """Write a file, and say so where a person reads along.

    Raises:
        Trouble: It cannot be written.
    """
    try:
        file.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise Trouble(f"{file} cannot be written: {error.strerror}.", error) from None
    note(f"Wrote {file} ({len(text.encode())} bytes).")


def note(words: str) -> None:
    """Say something beside the output, where a person reads along."""
    if sys.stderr is not None and sys.stderr.isatty():
        Console(stderr=True, highlight=False, markup=False).print(
            words, style="dim", soft_wrap=True
        )
