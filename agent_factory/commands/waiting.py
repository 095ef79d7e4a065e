"""A progress bar for what takes longer than a person likes to wait without one."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

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
