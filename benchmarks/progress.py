"""A bar for people who wait. It is drawn between rounds only: a drawing thread would be timed."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from benchmarks.harness import Work

PATIENCE = 2.0
"""Seconds that pass before a bar is shown."""


class Bar:
    """Counts rounds; shows on a terminal what is measured, and elsewhere a line for each group.

    Args:
        work: What will be measured.
    """

    def __init__(self, work: Sequence[Work]) -> None:
        self._total = sum(each.rounds for each in work)
        self._done = 0
        self._start = time.monotonic()
        self._doing = ""
        self._group = ""
        self._wanted = sys.stderr.isatty() and find_spec("rich") is not None
        self._shown: Any = None

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown is not None:
            self._shown.stop()

    def begin(self, work: Work) -> None:
        """This is measured next."""
        self._doing = f"{work.group}: {work.name}"
        if not self._wanted and work.group != self._group:
            passed = time.monotonic() - self._start
            line = f"{passed:6.0f} s  {self._done} of {self._total} rounds  {work.group}"
            print(line, file=sys.stderr, flush=True)
        self._group = work.group
        self._draw()

    def advance(self) -> None:
        """A round is done."""
        self._done += 1
        self._draw()

    def _draw(self) -> None:
        if not self._wanted or time.monotonic() - self._start < PATIENCE:
            return
        if self._shown is None:
            self._shown = _begun(self._total)
        task = self._shown.task_ids[0]
        self._shown.update(task, completed=self._done, description=self._doing, refresh=True)


def _begun(total: int) -> Any:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    shown = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        auto_refresh=False,
    )
    shown.add_task("", total=total)
    shown.start()
    return shown
