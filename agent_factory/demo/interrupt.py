"""Ctrl-C, while a model speaks in one thread and the terminal is served in another."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

STOPPED = 128 + signal.SIGINT
"""The exit code of a process that Ctrl-C stopped, as shells have it."""


def end_on_ctrl_c() -> None:
    """From now on, Ctrl-C raises KeyboardInterrupt once; a second one ends the process at once.

    Between the two lies the end of the model's sentence, and a clean-up that a second
    KeyboardInterrupt would break into. Where Ctrl-C is ignored, it stays so.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _stop)


def _stop(*_: Any) -> None:
    signal.signal(signal.SIGINT, _leave)
    with suppress(OSError):  # unbuffered: the handler may break into a print
        os.write(2, b"\nStopping; Ctrl-C again ends at once.")
    raise KeyboardInterrupt


def _leave(*_: Any) -> None:
    os._exit(STOPPED)


@contextmanager
def left_to_child() -> Iterator[None]:
    """Ctrl-C is for the process that is waited for, as in a shell."""
    ours = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, ours)
