"""A process of the service: a worker that is started and stopped, or a reader of streams."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

from agent_factory.service import Service
from benchmarks.contenders import OURS
from benchmarks.service_load import Load, new_agent


def main(role: str, url: str, calls: str, seconds: str, slots: str) -> None:
    """Do what each line of standard input asks for, and answer each with a line.

    Args:
        role: "worker" takes the lines "start" and "stop". "reader" takes the ids of runs, and
            answers with the seconds that a custom event of each was on its way.
        url: The database.
        calls: Tool calls of the agent.
        seconds: How long its model takes.
        slots: How many runs a worker has at once.
    """
    service = Service(url)
    service.add(OURS, new_agent(Load(int(calls), float(seconds), 0)))
    print("ready", flush=True)
    for line in sys.stdin:
        if role == "reader":
            print(_way_of_an_event(service, line.strip()), flush=True)
        elif line == "start\n":
            service.start(slots=int(slots))
            print("started", flush=True)
        else:
            service.stop()
            print("stopped", flush=True)
    service.close()


def _way_of_an_event(service: Service, run: str) -> float:
    """Seconds from the writing of a run's last custom event to here."""
    passed = 0.0
    for part in service.run(run).stream(timeout=60):
        if part["type"] == "custom":
            passed = time.time() - part["data"]["at"]
    return passed


class ServiceProcess:
    """Such a process, seen from the one that measures."""

    def __init__(self, role: str, url: str, load: Load, slots: int = 0) -> None:
        given = [role, url, str(load.calls), str(load.seconds), str(slots)]
        self._process: Any = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.service_process", *given],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def send(self, line: str) -> None:
        """Ask for something."""
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def answer(self) -> str:
        """Its next line.

        Raises:
            RuntimeError: It has ended.
        """
        line: str = self._process.stdout.readline()
        if not line:
            raise RuntimeError("A process of the service has ended.")
        return line.strip()

    def close(self) -> None:
        """Let it end."""
        self._process.stdin.close()
        try:
            self._process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
