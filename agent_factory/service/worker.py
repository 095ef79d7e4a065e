"""Worker: carries out jobs in this process, and takes over jobs of dead workers."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager, suppress
from functools import partial
from threading import Condition, Event, Thread
from uuid import uuid4

from sqlalchemy import delete, insert, select, update

from agent_factory.service.backend import Backend
from agent_factory.service.background import hand_over, report_lost_jobs, take_lost_jobs
from agent_factory.service.engines.engine import Outcome, Status
from agent_factory.service.errors import DatabaseUnavailable
from agent_factory.service.inbox import Inbox
from agent_factory.service.migrations import MIGRATIONS
from agent_factory.service.reservations import expire_reservations
from agent_factory.service.rows import logged, logger
from agent_factory.service.runner import Runner
from agent_factory.service.tables import threads, workers
from agent_factory.service.thread_queue import Claim, thread_of

_HOUR = 3600.0
_RECONCILE = 30.0  # seconds between two looks for jobs that the engine has forgotten
_PAGE = 1000  # jobs of such a look


class Worker:
    """Carries out the jobs that the engine of the service gives to this process.

    One thread gives signs of life, and one looks after the service, so that slow work in one does
    not delay the other. A job of an async agent is a task of one event loop, and every other job
    has a thread.
    """

    def __init__(self, backend: Backend, submit_due: Callable[[], None], *, slots: int) -> None:
        self.backend, self._slots, self._pace = backend, slots, backend.pace
        self._submit_due = submit_due
        self._runner = Runner(backend, lambda: self.id)
        self._stop, self._drain = Event(), Event()
        self.held: set[Claim] = set()
        """Jobs of this process."""
        self.change = Condition()
        """Change of the held jobs."""
        self._lost: set[str] = set()  # threads whose jobs may be taken, and are not held
        self._beats_seen: dict[str, tuple[float, float]] = {}
        self._is_first = False  # among the living: one worker does what would be done twice
        self._turn = 0  # of the last job that was given out again
        self._signed_at = self._given_out_at = self._forgotten_at = time.monotonic()
        works = {"beat": self._beat, "upkeep": self._look_after}
        self._threads = [
            Thread(target=work, name=f"agent-factory-{name}", daemon=True)
            for name, work in works.items()
        ]
        self.id = ""

    def start(self) -> None:
        """Begin to carry out jobs."""
        self.backend.database.retried(self.enter)
        self._loop = asyncio.new_event_loop()
        self._loop_thread = Thread(target=self._run_loop, name="agent-factory-async", daemon=True)
        try:
            for thread in (self._loop_thread, *self._threads):
                thread.start()
            self._threads += self.backend.engine.serve(self, self._slots)
        except BaseException:  # the limit of threads
            self.stop(0)
            raise

    def stop(self, seconds: float) -> bool:
        """Take no more jobs, and wait for running jobs; return whether all have ended in time.

        Other workers take over jobs that still run: these cannot write any more.
        """
        ends = time.monotonic() + seconds
        self._stop.set()
        self.backend.signals.tell({"jobs": ()})
        self.backend.engine.stop(seconds)
        for thread in self._threads:
            if thread.is_alive():
                # With a timeout: the thread may wait for a lock of the database.
                thread.join(self._pace.stop)
        with self.change:
            self.change.wait_for(lambda: not self.held, max(0.0, ends - time.monotonic()))
            still_running = len(self.held)
        if still_running:
            logger.warning("%d runs did not end in time; other workers go on.", still_running)
        with suppress(DatabaseUnavailable):
            self.backend.queue.give_back(self.id)
            self.leave(self.id)
        if self._loop_thread.is_alive():
            asyncio.run_coroutine_threadsafe(_end_tasks(), self._loop)
            # With a timeout: a run may block the event loop.
            self._loop_thread.join(self._pace.stop)
        else:  # the limit of threads
            self._loop.close()
        return not still_running

    def _run_loop(self) -> None:
        with closing(self._loop):
            self._loop.run_forever()

    @property
    def is_drained(self) -> bool:
        """True if somebody has asked this worker to end."""
        return self._drain.is_set()

    @property
    def is_leaving(self) -> bool:
        """True if this worker begins no more jobs."""
        return self._stop.is_set() or self._drain.is_set()

    @property
    def ended_threads(self) -> list[str]:
        """The names of its threads that have ended by mistake."""
        threads = (self._loop_thread, *self._threads)
        return [thread.name for thread in threads if not thread.is_alive()]

    # Signs of life

    def enter(self) -> None:
        """Begin under a new id: the id of a worker that was given up is never used again."""
        database = self.backend.database
        worker = f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:8]}"
        values = {"id": worker, "beat": database.now, "draining": False, "detail": self._detail}
        database.write(insert(workers).values(values))
        # After the commit: other workers take over the jobs of workers without a row.
        self.id = worker

    def leave(self, worker: str) -> None:
        """Delete the row of an id: other workers take over its jobs."""
        with self.backend.database.begin() as connection:
            hand_over(connection, worker)
            connection.execute(delete(workers).where(workers.c.id == worker))

    @property
    def _detail(self) -> str:
        detail = {"host": socket.gethostname(), "process": os.getpid(), "slots": self._slots}
        # An upgrade compares the version: older workers may have to end first.
        detail["tables"] = MIGRATIONS[-1].version
        detail["session"] = self.backend.database.session
        return json.dumps({**detail, "agents": sorted(self.backend.agents)})

    def _beat(self) -> None:
        while not self._stop.wait(min(self._pace.beat, self._pace.dead_after / 5)):
            with logged("Worker %s could not give a sign of life.", self.id):
                self.give_sign()

    def give_sign(self) -> None:
        """Write a sign of life; begin under a new id if another worker has given this one up."""
        database = self.backend.database
        # With the detail each time, since agents may be added while a worker runs.
        beat = update(workers).where(workers.c.id == self.id)
        beat = beat.values(beat=database.now, detail=self._detail)
        with database.begin() as connection:
            row = connection.execute(beat.returning(workers.c.draining)).first()
        self._signed_at = time.monotonic()
        if row is None and self._stop.is_set():
            return  # `stop` has deleted the row
        if row is None:
            # Another worker has deleted the row after too long without a sign of life. The jobs of
            # this worker have lost their threads.
            logger.warning("Worker %s was given up; it continues under a new id.", self.id)
            self.enter()
        elif row.draining:
            self._drain.set()
            self.backend.signals.tell({"jobs": ()})

    # Jobs

    @property
    def agents(self) -> Collection[str]:
        """The names of the agents in this process."""
        return self.backend.agents

    def carry_out(self, job: str) -> Outcome:
        """Begin a job, or continue it, as `Work.carry_out`."""
        outcome = self.take(job)
        return outcome if isinstance(outcome, Outcome) else outcome.result()

    def take(self, job: str) -> Outcome | Future[Outcome]:
        """Begin a job, or continue it, as `Work.take`."""
        if self.is_leaving:
            return Outcome("later", self._pace.look)
        try:
            claim = self.backend.queue.take(job, self.id, 0.4 * self._pace.dead_after)
        except BaseException:
            self.lose([thread_of(job)])  # the transaction may have committed
            raise
        if isinstance(claim, Outcome):
            return claim
        self.hold(claim)
        if self.backend.agents[claim.run.agent].asynchronous:
            return asyncio.run_coroutine_threadsafe(self._acarry_out(claim), self._loop)
        return self._carry_out(claim)

    def begin(self, claim: Claim, then: Callable[[], None]) -> None:
        """Carry out a job in the event loop or in a thread, and call a function at its end."""
        self.hold(claim)
        try:
            if self.backend.agents[claim.run.agent].asynchronous:
                asyncio.run_coroutine_threadsafe(self._acarry_out(claim, then), self._loop)
                return
            # Not from a pool: Python waits at its end for the threads of pools.
            work = partial(self._carry_out, claim, then)
            Thread(target=work, name=claim.job, daemon=True).start()
        except BaseException:  # the limit of threads
            self._end(claim, then, is_lost=True)
            raise

    def hold(self, claim: Claim) -> None:
        """Note a job that this process has taken."""
        with self.change:
            self.held.add(claim)

    def _carry_out(self, claim: Claim, then: Callable[[], None] = lambda: None) -> Outcome:
        with self._held_until_its_end(claim, then) as outcome:
            outcome.append(self._runner.run(claim))
        return Outcome(outcome[0] if outcome else "lost")

    async def _acarry_out(self, claim: Claim, then: Callable[[], None] = lambda: None) -> Outcome:
        with self._held_until_its_end(claim, then) as outcome:
            outcome.append(await self._runner.arun(claim))
        return Outcome(outcome[0] if outcome else "lost")

    @contextmanager
    def _held_until_its_end(self, claim: Claim, then: Callable[[], None]) -> Iterator[list[Status]]:
        outcome: list[Status] = []
        with logged("Worker %s could not carry out a job.", self.id):
            try:
                yield outcome
            finally:
                # Without an outcome, this worker still owns the thread.
                self._end(claim, then, is_lost=not outcome)

    def _end(self, claim: Claim, then: Callable[[], None], *, is_lost: bool) -> None:
        with self.change:
            self.held.remove(claim)
            self.change.notify_all()
        if is_lost:
            self.lose([claim.lease.thread_id])
        then()

    def lose(self, threads: Collection[str]) -> None:
        """Give jobs back soon that this worker may have taken, and does not hold."""
        with self.change:
            self._lost.update(threads)

    @property
    def has_lost(self) -> bool:
        """True if there are jobs to give back."""
        return bool(self._lost)

    def give_back_lost(self) -> None:
        """Give back jobs that this worker owns, and does not hold."""
        with self.change:
            lost, self._lost = self._lost, set()
            lost -= {claim.lease.thread_id for claim in self.held}
        if lost:
            try:
                self.backend.queue.give_back(self.id, threads.c.thread_id.in_(lost))
            except BaseException:
                self.lose(lost)
                raise

    # Upkeep

    def _look_after(self) -> None:
        while not self._stop.wait(min(self._pace.look, self._pace.dead_after / 5)):
            with logged("Worker %s could not look after the service.", self.id):
                self.look_after()

    def look_after(self) -> None:
        """Take over jobs of dead workers, and carry out deadlines and schedules.

        A fault of one part is logged, and the other parts are carried out.
        """
        backend = self.backend
        late = {name: agent.review_within or 0.0 for name, agent in backend.agents.items()}
        expire = partial(expire_reservations, backend.database, skip_locked=True)
        parts: dict[str, Callable[[], object]] = {
            "take over runs": self._take_over,
            "give back jobs": self.give_back_lost,
            "give out forgotten jobs": self._give_out_again,
            "begin lost jobs again": self._begin_lost_jobs,
            "report lost jobs": partial(report_lost_jobs, backend),
            "end old reservations": expire,
            "submit messages of schedules": self._submit_due,
            "decide at deadlines": partial(Inbox(backend).expire, late, self._stop.is_set),
            "delete old events": self._forget,
        }
        for name, carry_out in parts.items():
            with logged(f"Worker %s could not {name}.", self.id):
                carry_out()

    def _take_over(self) -> None:
        database, dead = self.backend.database, self.dead_workers()
        if dead:
            # A process that was stopped during a sign of life holds the lock of its row.
            free = select(workers.c.id, workers.c.detail).where(workers.c.id.in_(dead))
            with database.begin() as connection:
                rows = connection.execute(free.with_for_update(skip_locked=True)).all()
                of_rows = workers.c.id.in_([row.id for row in rows])
                connection.execute(delete(workers).where(of_rows))
            for row in rows:
                logger.warning("Worker %s gave no sign of life; its runs are taken over.", row.id)
            database.end_sessions([json.loads(row.detail).get("session", "") for row in rows])
        if jobs := self.backend.queue.take_over(dead):
            logger.warning("Took over %d runs of workers that have died.", jobs)
            self.backend.metrics.taken_over(jobs)

    def _give_out_again(self) -> None:
        if self._is_first and time.monotonic() - self._given_out_at > _RECONCILE:
            self._given_out_at = time.monotonic()
            self._turn = self.backend.queue.give_out_again(self._turn, _PAGE)

    def _begin_lost_jobs(self) -> None:
        for job in [] if self.is_leaving else take_lost_jobs(self.backend, self.id, self._slots):
            logger.warning("Job %s of a worker that has ended begins again.", job.call["id"])
            if job.agent.asynchronous:
                self._loop.call_soon_threadsafe(job.begin)
            else:
                job.begin()

    def _forget(self) -> None:
        if time.monotonic() - self._forgotten_at > _HOUR:
            self._forgotten_at = time.monotonic()
            self.backend.log.forget()

    def dead_workers(self) -> list[str]:
        """Workers with an old beat, or with a beat that has not changed for as long."""
        now, query = time.monotonic(), select(workers.c.id, workers.c.beat)
        old = (workers.c.beat < self.backend.database.now - self._pace.dead_after).label("is_old")
        rows = self.backend.database.rows(query.add_columns(old))
        seen, self._beats_seen, dead = self._beats_seen, {}, []
        self._is_first = self.id == min((row.id for row in rows), default="")
        for row in rows:
            beat, since = seen.get(row.id, (None, now))
            since = since if beat == row.beat else now
            self._beats_seen[row.id] = (row.beat, since)
            # After the clock was set, the beat of a living worker looks old until its next beat.
            is_still = row.is_old and beat == row.beat
            if row.id != self.id and (is_still or now - since > self._pace.dead_after):
                dead.append(row.id)
        # A worker that could give no sign itself has no right to judge: the database was away.
        return dead if now - self._signed_at < self._pace.dead_after else []


async def _end_tasks() -> None:
    """Cancel the tasks of this event loop, and stop it once they have ended."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    asyncio.get_running_loop().stop()
