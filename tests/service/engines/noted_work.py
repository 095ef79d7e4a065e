"""Work without a service, which notes each call; and a process that carries it out."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from agent_factory.service.engines import Engine, JobRef, Outcome
from agent_factory.service.engines.engine import engine_of
from waiting import until


class NotedWork:
    """Notes each begin and end of a job in a file that several processes share.

    A job whose id begins with "held" goes on until `release`.

    Args:
        file: The file of the notes.
        agents: The agents of the process.

    Attributes:
        outcomes: The outcomes of calls, before jobs are done: outcomes, or errors to raise.
    """

    def __init__(self, file: Path, agents: Sequence[str] = ("desk",)) -> None:
        self.file, self.agents = file, agents
        self.outcomes: list[Outcome | Exception] = []

    def carry_out(self, job: str) -> Outcome:
        self._note("begin", job)
        if job.startswith("held"):
            until(self.file.with_suffix(".released").exists)
        self._note("end", job)
        outcome = self.outcomes.pop(0) if self.outcomes else Outcome("done")
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    take = carry_out

    def release(self) -> None:
        """Let the held jobs end, in all processes."""
        self.file.with_suffix(".released").touch()

    def _note(self, event: str, job: str) -> None:
        with self.file.open("a") as notes:
            notes.write(f"{event} {job} {os.getpid()}\n")

    def notes(self, event: str, job: str = "") -> list[str]:
        """The notes about a job, or about all."""
        text = self.file.read_text() if self.file.exists() else ""
        return [line for line in text.splitlines() if line.startswith(f"{event} {job}")]

    def wait(self, event: str, job: str = "", times: int = 1) -> None:
        """Wait until an event of a job has been noted some times."""
        until(lambda: len(self.notes(event, job)) >= times)


def job(name: str, **options: object) -> JobRef:
    """A job of the agent "desk", unless options say otherwise."""
    values = {"id": name, "thread": "t-1", "tenant": "acme", "agent": "desk", **options}
    return JobRef(**values)  # type: ignore[arg-type]


@contextmanager
def serving(work: NotedWork, url: str, slots: int = 8) -> Iterator[Engine]:
    """An engine with work, which has stopped after the block; 0 slots: it gives out jobs alone."""
    engine = engine_of(url)
    if slots:
        engine.serve(work, slots)
    try:
        yield engine
    finally:
        engine.stop(0)


def main() -> None:
    """Carry out jobs until standard input is closed."""
    url, file = sys.argv[1:]
    with serving(NotedWork(Path(file)), url):
        print("ready", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
