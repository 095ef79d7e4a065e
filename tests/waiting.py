"""Waits of tests: looks at a condition, and a clock that jumps.

A test that waits some seconds fails where the machine is slow. `until` gives up after a number of
looks, which take longer on such a machine. `VirtualLoop` lets an async test pass any time at once.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

LOOKS = 3000
"""Looks before a test gives up."""

PAUSE = 0.02
"""Seconds between two looks: a minute in all on an idle machine, longer on a busy machine."""

T = TypeVar("T")


def until(condition: Callable[[], T]) -> T:
    """The first true value of a condition, which is asked again and again.

    Raises:
        AssertionError: If the condition stays false for `LOOKS` looks.
    """
    for _ in range(LOOKS):
        if value := condition():
            return value
        time.sleep(PAUSE)
    raise AssertionError(f"{condition} stayed false for {LOOKS} looks")


async def auntil(condition: Callable[[], T]) -> T:
    """`until` for async tests: other tasks run between two looks."""
    for _ in range(LOOKS):
        if value := condition():
            return value
        await asyncio.sleep(PAUSE)
    raise AssertionError(f"{condition} stayed false for {LOOKS} looks")


async def cancel(task: asyncio.Task[Any]) -> None:
    """Cancel a task, which must end by it."""
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
        raise AssertionError(f"{task} went on")


class VirtualLoop(asyncio.SelectorEventLoop):
    """Event loop whose clock jumps to the next timer, so that no test waits."""

    def __init__(self) -> None:
        super().__init__(_Jumping(self))
        self.now = 0.0

    def time(self) -> float:
        return self.now


class _Jumping(selectors.DefaultSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        if timeout:
            self._loop.now += timeout
        return super().select(0 if timeout is not None else None)


def run_virtually(main: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run` in a `VirtualLoop`; work in threads does not hold its clock."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
