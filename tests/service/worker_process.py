"""A worker in a process of its own, which tests stop, kill and restart."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from service.desk import Journal, make_desk

DEAD_AFTER = 2.0
"""Seconds until a worker is taken for dead: short, so that tests end."""


def main(url: str, journal: str, calls: int, seconds: float, fenced: bool, slots: int) -> None:
    """Run jobs until standard input is closed."""
    from agent_factory.service import Service

    logging.basicConfig(level=logging.WARNING)
    if not fenced:
        leave_the_fence_out()
    service = Service(url)
    service.add("desk", make_desk(Journal(Path(journal)), calls=calls, seconds=seconds))
    service.start(slots=slots, dead_after=DEAD_AFTER)
    print("ready", flush=True)
    sys.stdin.read()
    service.close()


def leave_the_fence_out() -> None:
    """What a service would be that asks nobody before it writes."""
    from agent_factory.service import leases

    leases.Lease.check = lambda self, connection: None  # type: ignore[method-assign]


class WorkerProcess:
    """A worker in another process."""

    def __init__(
        self,
        url: str,
        journal: Path,
        *,
        calls: int = 2,
        seconds: float = 0.01,
        fenced: bool = True,
        slots: int = 8,
    ) -> None:
        given = (url, journal, calls, seconds, fenced, slots)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "service.worker_process", *map(str, given)],
            cwd=Path(__file__).parent.parent,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def wait_until_ready(self) -> WorkerProcess:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"
        return self

    def send(self, number: int) -> None:
        os.kill(self.process.pid, number)

    def kill(self) -> None:
        """Kill it as a failing machine would."""
        self.process.kill()
        self._close()

    def end(self) -> None:
        """Let it end, after the runs that it has."""
        if self.process.poll() is None:
            self.send(signal.SIGCONT)
            assert self.process.stdin is not None
            self.process.stdin.close()
            try:
                self.process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self._close()

    def _close(self) -> None:
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()

    def __enter__(self) -> WorkerProcess:
        return self

    def __exit__(self, *_: Any) -> None:
        self.end()


if __name__ == "__main__":
    url_, journal_, calls_, seconds_, fenced_, slots_ = sys.argv[1:]
    main(url_, journal_, int(calls_), float(seconds_), fenced_ == "True", int(slots_))
