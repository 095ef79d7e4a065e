"""A bar for people who wait. It is drawn between rounds only: a drawing thread would be timed."""

from __future__ import annotations

import sys
import time
from importlib.util import find_spec
from typing import Any

PATIENCE = 2.0
"""Seconds that pass before a bar is shown."""


class Bar:
    """Counts rounds, and shows it on a terminal once it takes a while.

    Args:
        total: How many rounds there are.
    """

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._start = time.monotonic()
        self._wanted = sys.stderr.isatty() and find_spec("rich") is not None
        self._shown: Any = None

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown is not None:
            self._shown.stop()

    def advance(self) -> None:
        """A round is done."""
        self._done += 1
        if not self._wanted or time.monotonic() - self._start < PATIENCE:
            return
        if self._shown is None:
            self._shown = _begin(self._total)
        self._shown.update(self._shown.task_ids[0], completed=self._done, refresh=True)


def _begin(total: int) -> Any:
    from rich.console import Console
    from rich.progress import Progress

    shown = Progress(console=Console(stderr=True), transient=True, auto_refresh=False)
    shown.add_task("Measuring", total=total)
    shown.start()
    return shown
