"""Ctrl-C, with the model and the terminal in different threads."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress

STOPPED = 128 + signal.SIGINT
"""The exit code of a process that Ctrl-C stopped, as in shells."""


class CtrlC(KeyboardInterrupt):
    """A Ctrl-C of the user, unlike a KeyboardInterrupt raised by code."""


def end_on_ctrl_c() -> None:
    """Make the first Ctrl-C raise KeyboardInterrupt and the second end the process.

    After the first Ctrl-C the model finishes a sentence and the run cleans up, which another
    KeyboardInterrupt would break. An ignored Ctrl-C stays ignored.
    """

    def stop(*_: object) -> None:
        # os._exit ends the process while the model still runs in another thread.
        signal.signal(signal.SIGINT, lambda *_: os._exit(STOPPED))
        with suppress(OSError):  # unbuffered, because the handler may interrupt a print
            os.write(2, b"\nStopping; press Ctrl-C again to end at once.")
        raise CtrlC

    # Another handler belongs to a program around this one. Ctrl-C may also be ignored, as in a
    # background job of a shell script.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, stop)


@contextmanager
def left_to_child() -> Iterator[None]:
    """Leave Ctrl-C to a child process, like a shell."""
    # Not SIG_IGN, which a child process inherits: the child would never get the Ctrl-C.
    ours = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, ours)
