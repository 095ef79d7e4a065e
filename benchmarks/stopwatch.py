"""Stopwatches: the CPU time that parts of a run take, where they are called.

A stopwatch takes a few microseconds itself, most of them outside of what it measures. So only those
that are asked for run, and a run with a single one shows one part nearly as it is without.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import wraps
from statistics import median
from typing import Any


class Stopwatches:
    """A stopwatch for each part. None runs before `running` is entered.

    Each thread has its own clock, so a part in another thread, such as a saver's, counts where it
    runs, and waiting counts nowhere. A part that runs inside another one is not counted again.
    """

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._running: Collection[str] = ()
        self._local = threading.local()
        self._lock = threading.Lock()
        clock = time.thread_time
        self._own = median(-(clock() - clock()) for _ in range(1_000))

    @contextmanager
    def running(self, parts: Collection[str]) -> Iterator[None]:
        """Let those of these parts run."""
        self._running = parts
        try:
            yield
        finally:
            self._running = ()

    def wrap(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with a stopwatch that counts it as this part."""
        clock, local = time.thread_time, self._local

        @wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            if part not in self._running or getattr(local, "inside", False):
                return function(*args, **kwargs)
            local.inside = True
            start = clock()
            try:
                return function(*args, **kwargs)
            finally:
                taken = clock() - start
                local.inside = False
                with self._lock:
                    self.seconds[part] += taken - self._own

        return timed

    @contextmanager
    def patched(self, part: str, owner: Any, name: str) -> Iterator[None]:
        """Put a stopwatch around a method of a class or a function of a module."""
        inherited, found = name not in vars(owner), vars(owner).get(name)
        setattr(owner, name, self.wrap(part, getattr(owner, name)))
        try:
            yield
        finally:
            if inherited:
                delattr(owner, name)
            else:
                setattr(owner, name, found)
