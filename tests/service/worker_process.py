"""A worker in its own process, which tests stop, kill and restart."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from agent_factory import AgentMiddleware
from agent_factory.middleware import OnceMiddleware, SteeringMiddleware
from service.desk import Journal, make_desk

DEAD_AFTER = 2.0
"""Seconds until a worker is taken for dead: short, so that tests end."""


def main(url: str, journal: str, options: dict[str, Any]) -> None:
    """Run jobs until standard input is closed."""
    from agent_factory.service import Service

    logging.basicConfig(level=logging.WARNING)
    if not options.pop("fenced"):
        leave_the_fence_out()
    slots = options.pop("slots")
    if options.pop("version") == "next":
        options["middleware"] = [Clock()]
    if options.pop("once"):
        options["middleware"] = [OnceMiddleware({"pay": "fail"})]
    if options.pop("steered"):
        options["middleware"] = [SteeringMiddleware()]
    agents = options.pop("agents")
    service = Service(url)
    for agent in agents:
        service.add(agent, make_desk(Journal(Path(journal)), **options))
    service.start(slots=slots, dead_after=DEAD_AFTER)
    print("ready", flush=True)
    sys.stdin.read()
    service.close()


class Clock(AgentMiddleware):
    """What the next version of the code has in its stack."""

    def before_model(self, state: Any, runtime: Any) -> dict[str, Any]:
        return {}


def leave_the_fence_out() -> None:
    """What a service would be that asks nobody before it writes."""
    from agent_factory.service import leases

    leases.Lease.check = lambda self, connection: None  # type: ignore[method-assign]


class WorkerProcess:
    """A worker in another process."""

    MODULE: tuple[str, ...] = ("service.worker_process",)

    def __init__(
        self,
        url: str,
        journal: Path,
        **options: Any,
    ) -> None:
        default: dict[str, Any] = {
            "fenced": True,
            "slots": 8,
            "version": "first",
            "once": False,
            "seconds": 0.01,
        }
        default |= {"agents": ["desk"], "steered": False}
        given = {**default, **options}
        self._log = journal.with_suffix(".log")
        self.process = subprocess.Popen(
            [sys.executable, "-m", *self.MODULE, url, journal, json.dumps(given)],
            cwd=Path(__file__).parent.parent,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(errors := self._log.open("a")),
            text=True,
        )
        errors.close()

    def wait_until_ready(self) -> WorkerProcess:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n", self._log.read_text()
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
    main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))
