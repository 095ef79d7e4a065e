"""A worker in its own process, which tests stop, kill and restart."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from agent_factory.middleware import ModelCallLimitMiddleware, OnceMiddleware, SteeringMiddleware
from processes import Processes, exit_code, wait_for_line
from service.desk import Journal, make_desk
from waiting import until

DEAD_AFTER = 2.0
"""Seconds until a worker is taken for dead: short, so that tests end."""


def main(
    url: str,
    journal: str,
    *,
    fenced: bool = True,
    slots: int = 8,
    agents: Sequence[str] = ("desk",),
    middleware: str = "",
    engine: str | None = None,
    **options: Any,
) -> None:
    """Run jobs until standard input is closed."""
    from agent_factory.service import Pace, Service

    logging.basicConfig(level=logging.WARNING)
    if not fenced:
        leave_the_fence_out()
    stack = [MEMBERS[middleware]()] if middleware else []
    service = Service(url, pace=Pace(dead_after=DEAD_AFTER), engine=engine)
    for agent in agents:
        desk = make_desk(Journal(Path(journal)), middleware=stack, **{"seconds": 0.01, **options})
        service.add(agent, desk)
    service.start(slots=slots)
    print("ready", flush=True)
    sys.stdin.read()
    service.close()


MEMBERS: dict[str, Callable[[], Any]] = {
    "limit": partial(ModelCallLimitMiddleware, run_limit=100),
    "once": partial(OnceMiddleware, {"pay": "fail"}),
    "steering": SteeringMiddleware,
}
"""Members of the stacks of workers."""


def leave_the_fence_out() -> None:
    """What a service would be that asks nobody before it writes."""
    from agent_factory.service import leases

    leases.Lease.check = lambda self, connection: None  # type: ignore[method-assign]


class WorkerProcess:
    """A worker in another process, which the fixture `start_worker` ends.

    It runs a module, with its first arguments, whose agents append lines to the journal.
    """

    def __init__(
        self,
        processes: Processes,
        journal: Path,
        url: str,
        *,
        module: tuple[str, ...] = ("service.worker_process",),
        ready: bool = True,
        **options: Any,
    ) -> None:
        with journal.with_suffix(".log").open("a") as log:
            self.process = processes.fork([*module, url, journal, json.dumps(options)], log)
        if ready:
            self.wait_until_ready()

    def wait_until_ready(self) -> None:
        """Wait until it takes jobs, and signals."""
        wait_for_line(self.process, "ready")

    def send(self, number: int) -> None:
        if self.process.poll() is None:
            os.kill(self.process.pid, number)

    def freeze(self) -> None:
        """Stop each of its threads."""
        self.send(signal.SIGSTOP)
        tasks = Path(f"/proc/{self.process.pid}/task")
        until(lambda: all(" T " in stat.read_text() for stat in tasks.glob("*/stat")))

    def kill(self) -> None:
        """Kill it as a failing machine would."""
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def end(self) -> None:
        """Let it end, after the runs that it has."""
        self.send(signal.SIGCONT)
        self.process.stdin.close()
        exit_code(self.process)
        self.process.stdout.close()

    def __enter__(self) -> WorkerProcess:
        return self

    def __exit__(self, *_: Any) -> None:
        self.end()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], **json.loads(sys.argv[3]))
