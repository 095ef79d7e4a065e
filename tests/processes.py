"""Processes that tests start, and that their fixture ends."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any

from forks import Fork

from waiting import until

Process = subprocess.Popen[Any] | Fork


class Processes:
    """Starts processes, and knows each that has to be ended."""

    def __init__(self) -> None:
        self._started: list[Process] = []

    def start(
        self, command: Sequence[object], *, ready: str | None = None, **options: Any
    ) -> subprocess.Popen[Any]:
        """Start a command.

        Args:
            command: The program and its arguments.
            ready: Words of the line of its standard output by which the process says that it is
                ready, for signals too. The lines up to there are read.
            options: Those of `subprocess.Popen`; `text` is true unless named.
        """
        if ready is not None:
            options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("text", True)
        process = subprocess.Popen([str(word) for word in command], **options)
        self._started.append(process)
        if ready is not None:
            wait_for_line(process, ready)
        return process

    def fork(self, words: Sequence[object], stderr: IO[Any] | None = None) -> Fork:
        """Start a module of the tests, with its arguments, in a process that has loaded ours."""
        process = Fork([str(word) for word in words], stderr)
        self._started.append(process)
        return process

    def end(self) -> None:
        """Kill each process that runs, wait for all, and close their pipes."""
        for process in self._started:
            if process.poll() is None:
                process.kill()
        for process in self._started:
            process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()
        self._started.clear()


def wait_for_line(process: Process, words: str) -> str:
    """The first line of the standard output that has some words; others before it are read."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if words in line:
            return str(line)
    raise AssertionError(f"the process ended before it wrote {words!r}: {lines}")


def exit_code(process: Process) -> int:
    """The exit code of a process that ends by itself, however slow the machine is."""
    until(lambda: process.poll() is not None)
    assert process.returncode is not None
    return process.returncode


@contextmanager
def owned() -> Iterator[Processes]:
    """Processes that end with a block."""
    processes = Processes()
    try:
        yield processes
    finally:
        processes.end()
