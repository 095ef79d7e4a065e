"""An engine as a product writes it for its own queue: here, threads of the process."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Thread, Timer

from agent_factory.service.engines import JobRef, Work


class OwnEngine:
    """Gives each job to a thread, after `serve`."""

    name = "own"

    def __init__(self) -> None:
        self.started: list[JobRef] = []
        self.cancelled: list[JobRef] = []
        self.outcomes: list[str] = []
        self._work: Work | None = None

    def start(self, job: JobRef) -> None:
        self.started.append(job)
        self._after(job.delay, job.id)

    def cancel(self, job: JobRef) -> None:
        self.cancelled.append(job)

    def serve(self, work: Work, slots: int) -> Sequence[Thread]:
        self._work, self._pool = work, ThreadPoolExecutor(slots)
        return []

    def stop(self, seconds: float) -> None:
        if self._work is not None:
            self._work = None
            self._pool.shutdown(wait=True)

    def fault(self) -> str | None:
        return None if self._work else "It was not started."

    def _after(self, seconds: float, job: str) -> None:
        if self._work is None:
            raise ConnectionError("nobody serves")
        timer = Timer(seconds, lambda: self._work and self._pool.submit(self._take, job))
        timer.daemon = True
        timer.start()

    def _take(self, job: str) -> None:
        assert self._work is not None
        outcome = self._work.carry_out(job)
        self.outcomes.append(outcome.status)
        if outcome.status == "later":
            self._after(outcome.seconds, job)
