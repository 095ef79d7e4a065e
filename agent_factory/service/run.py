"""Run: a message that was submitted, seen from any process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any, Literal

from sqlalchemy import select, update

from agent_factory.service.backend import Backend
from agent_factory.service.errors import NotFound, RunCancelled, RunFailed
from agent_factory.service.tables import runs
from agent_factory.service.thread_queue import CANCELLED, lock_thread

Status = Literal["queued", "held", "running", "waiting", "done", "failed", "cancelled"]
"""State of a run.

- "queued": no worker has begun with it.
- "held": its thread waits for a review; the message follows the decision.
- "running": a worker works on it.
- "waiting": it is paused and waits for decisions.
- "done", "failed", "cancelled": it has ended.
"""


class Run:
    """What becomes of a message: its events, its result, a way to cancel it.

    Made by `Service.submit` and `Service.run`.

    Args:
        id: The id of the run, the same in all processes.
        thread_id: The thread.
    """

    def __init__(self, backend: Backend, id: str, thread_id: str) -> None:
        self.id, self.thread_id, self._backend = id, thread_id, backend

    @property
    def status(self) -> Status:
        """Where the run is now."""
        return self._look()[0]

    def result(self, timeout: float | None = None) -> Any:
        """What the agent's `invoke` would return, once the run has ended or pauses.

        Args:
            timeout: The longest time to wait, in seconds; None waits without end.

        Returns:
            The output of the agent. If the run waits for decisions, it has the key
            `__interrupt__`, a list of what it waits for.

        Raises:
            RunFailed: The run has ended with an error.
            RunCancelled: The run was cancelled.
            TimeoutError: The run has not ended in time.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            status, outcome = self._look()
            if status in ("done", "waiting", "failed", "cancelled"):
                break
            if until is not None and time.monotonic() > until:
                raise TimeoutError(f"Run {self.id!r} is {status} after {timeout:g} seconds.")
            self._backend.log.wait()
        if status == "failed":
            raise RunFailed(f"run {self.id!r}", f"has failed: {outcome['error']}.")
        if status == "cancelled":
            raise RunCancelled(f"run {self.id!r}", "was cancelled.")
        return self._backend.output(self.thread_id, outcome["checkpoint_id"])

    def stream(
        self, *, after: str | None = None, timeout: float | None = None
    ) -> Iterator[dict[str, Any]]:
        """Events of the run, from its beginning, until it has ended or pauses.

        Parts have the form of LangGraph's streams in version 2 (`type`, `ns`, `data`) and an `id`.
        The last has the type "end"; its data are the outcome. If another worker takes the run over,
        a part of the type "resumed" says so, and parts of the last step may come again.

        Args:
            after: The `id` of the last part that was seen, to continue a stream.
            timeout: The longest time between two parts, in seconds; None waits without end.

        Raises:
            RunCancelled: The run was cancelled.
            TimeoutError: Nothing came in time.
        """
        job, row, part = None, 0, -1
        if after is not None:
            job, *numbers = after.rsplit(":", 2)
            row, part = map(int, numbers)
        log, since = self._backend.log, time.monotonic()
        while True:
            job = job or self._job()
            if job == CANCELLED:
                raise RunCancelled(f"run {self.id!r}", "was cancelled.")
            if job is None:
                if timeout is not None and time.monotonic() - since > timeout:
                    raise TimeoutError(f"Run {self.id!r} is held after {timeout:g} seconds.")
                log.wait()
                continue
            # The row of the last part that was seen may have more parts.
            for number, parts in log.read(job, row - 1, timeout, partial(self._has_left, job)):
                for position, one in enumerate(parts):
                    if (number, position) > (row, part):
                        yield {**one, "id": f"{job}:{number}:{position}"}
                if parts[-1]["type"] == "end":
                    return
            if self._job() == job:  # its events were deleted
                outcome = self._look()[1]
                yield {"type": "end", "ns": (), "data": outcome, "id": f"{job}:0:0"}
                return
            job, row, part = None, 0, -1  # its message was held, and is queued again

    def _has_left(self, job: str) -> bool:
        """Whether no event of a job will come any more."""
        return self._job() != job or self._look()[0] not in ("queued", "running")

    def cancel(self, *, by: str = "api") -> None:
        """End the run: a queued one does not begin, a running one stops at its next step.

        What it has written stays in the thread. Calls that wait for a decision do not run.

        Args:
            by: Who cancels it, for the audit.
        """
        database, engine = self._backend.database, self._backend.engine
        job = self._job()
        known = engine.status([job]).get(job) if job else None
        with database.begin() as connection:
            thread = lock_thread(connection, self.thread_id)
            assert thread is not None
            if thread.run == self.id and thread.status in ("running", "waiting"):
                self._backend.queue.end_run(connection, thread, by)
            elif thread.run != self.id and (known is None or known.state == "queued"):
                connection.execute(
                    update(runs).where(runs.c.run_id == self.id).values(job=CANCELLED)
                )
                self._backend.queue.record(connection, thread, by, "cancel")
        if known is not None:
            engine.cancel([known.id])

    async def aresult(self, timeout: float | None = None) -> Any:
        """Async variant of `result`."""
        return await asyncio.to_thread(self.result, timeout)

    async def astream(
        self, *, after: str | None = None, timeout: float | None = None
    ) -> AsyncIterator[dict[str, Any]]:
        """Async variant of `stream`."""
        parts = self.stream(after=after, timeout=timeout)
        end = object()
        while (part := await asyncio.to_thread(next, parts, end)) is not end:
            yield part  # type: ignore[misc]

    async def acancel(self, *, by: str = "api") -> None:
        """Async variant of `cancel`."""
        await asyncio.to_thread(self.cancel, by=by)

    def __repr__(self) -> str:
        return f"Run({self.id!r}, thread_id={self.thread_id!r})"

    def _job(self) -> str | None:
        """The newest job of this run."""
        found = select(runs.c.job).where(runs.c.run_id == self.id)
        with self._backend.database.read() as connection:
            row = connection.execute(found).first()
        if row is None:
            raise NotFound(f"run {self.id!r}", "does not exist.")
        job: str | None = row.job
        return job

    def _look(self) -> tuple[Status, dict[str, Any]]:
        job = self._job()
        if job is None:
            return "held", {}
        if job == CANCELLED:
            return "cancelled", {}
        known = self._backend.engine.status([job]).get(job)
        if known is None or known.state == "queued":
            return "queued", {}
        if known.state == "error":
            return "failed", {"error": known.error}
        if known.state in ("running", "cancelled") or known.outcome is None:
            return "running", {}  # the engine learns of a cancelled run first
        outcome = known.outcome
        return outcome["status"], outcome
