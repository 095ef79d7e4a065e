"""Runner: carries out jobs on threads, so that another worker can continue at any point."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from time import monotonic, sleep
from typing import TypeVar

from sqlalchemy import Connection, update

from agent_factory.errors import MissingNode
from agent_factory.review import ReviewError
from agent_factory.service.attempt import RunAttempt, UndoAttempt
from agent_factory.service.backend import Backend
from agent_factory.service.database import RETRY_SECONDS, attempts
from agent_factory.service.engines.engine import Status
from agent_factory.service.errors import DatabaseLost, LeaseLost
from agent_factory.service.jobs import DecisionJob, UndoJob
from agent_factory.service.leases import take_lease
from agent_factory.service.rows import logger
from agent_factory.service.tables import runs, threads, waits
from agent_factory.service.thread_queue import Claim
from agent_factory.service.usage import UsageHandler
from agent_factory.state import storable_text

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Pause:
    """A step that waits some seconds."""

    seconds: float

    def run(self) -> None:
        """Wait in this thread."""
        sleep(self.seconds)

    async def arun(self) -> None:
        """Wait in this event loop."""
        await asyncio.sleep(self.seconds)


Step = RunAttempt | UndoAttempt | Pause
"""A slow part of a job: a thread or an event loop carries it out."""

Steps = Generator[Step, None, T]


class Runner:
    """Carries out the jobs of one process.

    A job is written once, as steps: a driver for threads and a driver for event loops take steps.
    """

    def __init__(self, backend: Backend, worker: Callable[[], str]) -> None:
        self._backend, self._worker = backend, worker
        self._database, self._queue = backend.database, backend.queue

    def run(self, claim: Claim) -> Status:
        """Carry out a job, or continue a job of an interrupted worker; return its status."""
        steps = self._steps(claim)
        step = _next(steps)
        while not isinstance(step, str):
            error = None
            try:
                step.run()
            except BaseException as raised:
                error = raised
            step = _next(steps, error)
        return step

    async def arun(self, claim: Claim) -> Status:
        """Async variant of `run`; the database is asked in other threads."""
        loop, steps = asyncio.get_running_loop(), self._steps(claim)
        threads = self._database.threads
        step = await loop.run_in_executor(threads, _next, steps)
        while not isinstance(step, str):
            error = None
            try:
                await step.arun()
            except BaseException as raised:
                error = raised
            step = await loop.run_in_executor(threads, _next, steps, error)
        return step

    def _steps(self, claim: Claim) -> Steps[Status]:
        """Run a job and store its outcome."""
        start, usage, run = monotonic(), UsageHandler(), claim.run
        claims = [claim]  # the last one has the lease
        write: Callable[[int], Steps[Status]] | None = None
        try:
            try:
                status = yield from self._repeated(partial(self._attempt, claims, usage))
            except LeaseLost:
                raise
            except (MissingNode, ReviewError) as error:
                logger.exception("Thread %s cannot continue.", run.thread_id)
                text = storable_text(str(error))
                write = partial(self._fail, claims[-1], text, usage)
                if run.decision is not None:
                    what = "stranded" if isinstance(error, MissingNode) else "refused"
                    write = partial(self._take_back, what, claims[-1], text)
            except (Exception, DatabaseLost) as error:
                # DatabaseLost is a BaseException, so that no middleware catches it.
                logger.exception("Run %s of thread %s failed.", run.run_id, run.thread_id)
                text = storable_text(f"{type(error).__name__}: {error}")
                write = partial(self._fail, claims[-1], text, usage)
            if write is not None:
                # Without an end: the thread takes no other message before.
                status = yield from self._repeated(write, math.inf)
        except LeaseLost:
            status = "lost"  # another worker has taken over, or the run was cancelled
        self._backend.metrics.ended(run.agent, status, monotonic() - start)
        return status

    def _repeated(
        self, make: Callable[[int], Steps[Status]], seconds: float = RETRY_SECONDS
    ) -> Steps[Status]:
        """Take steps until their end; begin again while the database is not available."""
        pauses: list[float] = []
        for number, attempt in enumerate(attempts(seconds, pauses.append)):
            while pauses:
                yield Pause(pauses.pop())
            with attempt:
                return (yield from make(number))
        raise AssertionError  # Retrying returns or raises

    def _attempt(self, claims: list[Claim], usage: UsageHandler, number: int) -> Steps[Status]:
        if number:
            claims.append(self._queue.claim_again(claims[-1]))
        claim = claims[-1]
        work = claim.work()
        agent = self._backend.agent(work.agent)
        if claim.plan not in (None, agent.plan):
            text = "The plan of agent %r has changed since thread %s ran. If the thread waits at a "
            text += "node that was renamed, pass create_agent(..., moved=...)."
            logger.warning(text, agent.name, work.thread)
        attempt: RunAttempt | UndoAttempt
        if isinstance(work, UndoJob):
            attempt = UndoAttempt(self._backend, claim, work)
        else:
            attempt = RunAttempt(self._backend, claim, work, usage, self._worker())
        step = attempt.start()
        if step is not None:
            yield step
        return attempt.finish()

    def _take_from_attempt(self, connection: Connection, claim: Claim) -> None:
        """Lock the thread, and refuse later writes of the attempt; LeaseLost as `lock_claim`."""
        self._queue.lock_claim(connection, claim)
        take_lease(connection, claim.lease.thread_id)

    def _fail(self, claim: Claim, text: str, usage: UsageHandler, _: int) -> Steps[Status]:
        yield from ()  # without a slow step
        run, outcome = claim.run, {"status": "failed", "error": text}
        with self._backend.log.ending(claim.job, run.run_id, outcome) as connection:
            self._take_from_attempt(connection, claim)
            of_run = {"error": text, **usage.columns_of(run)}
            self._queue.settle(connection, run.thread_id, run.run_id, "failed", None, **of_run)
        return "failed"

    def _take_back(self, what: str, claim: Claim, text: str, _: int) -> Steps[Status]:
        """Take back decisions that the agent cannot carry out; people can decide again.

        Decisions are stranded without a node for them, and refused by the review: for a tool of an
        agent inside, which is unknown when a person decides.
        """
        yield from ()  # without a slow step
        work, waiting = claim.work(), {"status": "waiting", "error": text}
        assert isinstance(work, DecisionJob)
        of_waits = (waits.c.run == work.run) & waits.c.digest.in_(work.decisions)
        undone = {"decided_at": None, "decided_by": None, "decision": None}
        with self._backend.log.ending(claim.job, work.run, waiting) as connection:
            self._take_from_attempt(connection, claim)
            connection.execute(update(waits).where(of_waits).values(**undone))
            of_thread = update(threads).where(threads.c.thread_id == work.thread)
            connection.execute(of_thread.values(**waiting, owner=None))
            connection.execute(update(runs).where(runs.c.run_id == work.run).values(**waiting))
            self._queue.record(connection, claim.run, "service", what, text)
        return "waiting"


def _next(steps: Steps[Status], error: BaseException | None = None) -> Step | Status:
    """The next step, after a step that has ended or raised; the status at the end."""
    try:
        return steps.send(None) if error is None else steps.throw(error)
    except StopIteration as end:
        status: Status = end.value
        return status
