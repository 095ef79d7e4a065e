"""Worker: runs jobs in this process, and takes over jobs of dead workers."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from contextvars import Context
from functools import partial
from threading import Condition, Event, Thread
from uuid import uuid4

from sqlalchemy import delete, insert, select, update

from agent_factory.service.backend import Backend
from agent_factory.service.background import hand_over, report_lost_jobs, take_lost_jobs
from agent_factory.service.errors import DatabaseUnavailable
from agent_factory.service.inbox import Inbox
from agent_factory.service.migrations.steps import MIGRATIONS
from agent_factory.service.reservations import expire_reservations
from agent_factory.service.runner import Runner
from agent_factory.service.tables import workers
from agent_factory.service.thread_queue import Claim, Slot

logger = logging.getLogger("agent_factory.service")

_CONTENDED = 0.05  # until the worker that counts the jobs of a tenant has taken its own
_AT_ONCE = 50  # jobs of one claim: the event loop has other runs meanwhile
_HOUR = 3600.0


class Worker:
    """Carries out jobs in this process, at most `slots` at once.

    One thread takes jobs, one gives signs of life, and one looks after the service, so that slow
    work in one does not delay the other two. A job of an async agent is a task of one event loop,
    and every other job has a thread.
    """

    def __init__(self, backend: Backend, submit_due: Callable[[], None], *, slots: int) -> None:
        self._backend, self._slots, self._pace = backend, slots, backend.pace
        self._submit_due = submit_due
        self._runner = Runner(backend, lambda: self.id)
        self._stop, self._drain = Event(), Event()
        self._held: set[Claim | Slot] = set()
        self._change = Condition()  # of the held jobs
        self._may_be_due = False  # a job is probably due: a claim without a look is faster
        self._needs_room = False  # there may be more jobs than the last claim could take
        self._lost_track = False  # a claim may have committed without an answer
        self._beats_seen: dict[str, tuple[float, float]] = {}
        works = {"jobs": self._take_jobs, "beat": self._beat, "upkeep": self._look_after}
        self._threads = [
            Thread(target=work, name=f"agent-factory-{name}", daemon=True)
            for name, work in works.items()
        ]
        self.id = ""

    def start(self) -> None:
        """Begin to carry out jobs."""
        self._backend.database.retried(self.enter)
        self._loop = asyncio.new_event_loop()
        self._loop_thread = Thread(target=self._run_loop, name="agent-factory-async", daemon=True)
        try:
            for thread in (self._loop_thread, *self._threads):
                thread.start()
            self._backend.slot = self.slot
        except BaseException:  # the limit of threads
            self.stop(0)
            raise

    def stop(self, seconds: float) -> bool:
        """Take no more jobs, and wait for running jobs; return whether all have ended in time.

        Other workers take over jobs that still run: these cannot write any more.
        """
        self._stop.set()
        self._backend.signals.tell({"jobs": ()})
        for thread in self._threads:
            if thread.is_alive():
                # With a timeout: the thread may wait for a lock of the database.
                thread.join(self._pace.stop)
        with self._change:
            self._change.wait_for(lambda: not self._held, seconds)
            still_running = len(self._held)
        if still_running:
            logger.warning("%d runs did not end in time; other workers go on.", still_running)
        with suppress(DatabaseUnavailable):
            self._backend.queue.give_back(self.id)
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
    def ended_threads(self) -> list[str]:
        """The names of its threads that have ended by mistake."""
        threads = (self._loop_thread, *self._threads)
        return [thread.name for thread in threads if not thread.is_alive()]

    # Signs of life

    def enter(self) -> None:
        """Begin under a new id: the id of a worker that was given up is never used again."""
        database = self._backend.database
        worker = f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:8]}"
        values = {"id": worker, "beat": database.now, "draining": False, "detail": self._detail}
        with database.begin() as connection:
            connection.execute(insert(workers).values(values))
        # After the commit: other workers take over the jobs of workers without a row.
        self.id = worker

    def leave(self, worker: str) -> None:
        """Delete the row of an id: other workers take over its jobs."""
        with self._backend.database.begin() as connection:
            hand_over(connection, worker)
            connection.execute(delete(workers).where(workers.c.id == worker))

    @property
    def _detail(self) -> str:
        """Description of this worker, as JSON."""
        detail = {"host": socket.gethostname(), "process": os.getpid(), "slots": self._slots}
        # An upgrade compares the version: older workers may have to end first.
        detail["tables"] = MIGRATIONS[-1].version
        return json.dumps({**detail, "agents": sorted(self._backend.agents)})

    def _beat(self) -> None:
        """Give signs of life, and do nothing else."""
        while not self._stop.wait(min(self._pace.beat, self._pace.dead_after / 5)):
            with _logged("Worker %s could not give a sign of life.", self):
                self.give_sign()

    def give_sign(self) -> None:
        """Write a sign of life; begin under a new id if another worker has given this one up."""
        database = self._backend.database
        # With the detail each time, since agents may be added while a worker runs.
        beat = update(workers).where(workers.c.id == self.id)
        beat = beat.values(beat=database.now, detail=self._detail)
        with database.begin() as connection:
            row = connection.execute(beat.returning(workers.c.draining)).first()
        if row is None and self._stop.is_set():
            return  # `stop` has deleted the row
        if row is None:
            # Another worker has deleted the row after too long without a sign of life. The jobs of
            # this worker have lost their threads.
            logger.warning("Worker %s was given up; it continues under a new id.", self.id)
            self.enter()
        elif row.draining:
            self._drain.set()
            self._backend.signals.tell({"jobs": ()})

    # Jobs

    def _take_jobs(self) -> None:
        """Take due jobs, while slots are free."""
        signals = self._backend.signals
        while not self._stop.is_set():
            moment, wait = signals.now("jobs"), self._pace.look
            with _logged("Worker %s could not take jobs.", self):
                wait = self.take_due()
            if wait > 0:
                self._may_be_due = signals.wait(moment, wait)

    def take_due(self) -> float:
        """Take due jobs; return the seconds until the next look."""
        queue, agents = self._backend.queue, self._backend.agents
        self._give_back_lost()
        if self._drain.is_set() or not agents:
            return self._pace.look
        wait = 0.0  # another look follows
        # A claim is a transaction that writes; an idle worker only looks.
        if not self._may_be_due:
            is_due, delay = queue.look(agents)
            wait = min(delay, self._pace.look)
            if not is_due:
                self._needs_room = False
                return wait
        with self._change:
            room = min(self._slots - len(self._held), _AT_ONCE)
            self._needs_room = True  # until the look below finds nothing
        if room <= 0:
            return self._pace.look
        with self._keeping_track():
            claims, needs_room, is_contended = queue.claim(self.id, agents, room)
            self._may_be_due = len(claims) == room
            for claim in claims:
                self._begin(claim)
            self._needs_room = needs_room
        if is_contended:
            wait = min(wait, _CONTENDED)
        # The signal may have been about a job that begins later: the next look finds its time. A
        # due job that was not taken exceeds the limit of its tenant.
        return 0.0 if claims else wait

    def _give_back_lost(self) -> None:
        """Give back jobs that this worker has claimed without knowing."""
        with self._change:
            has_lost_track, self._lost_track = self._lost_track, False
            claims = [one.claim if isinstance(one, Slot) else one for one in self._held]
        if has_lost_track:
            with self._keeping_track():
                held = {claim.lease.thread_id for claim in claims if claim is not None}
                self._backend.queue.give_back(self.id, held)

    @contextmanager
    def _keeping_track(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            # The transaction may have committed.
            self._lost_track = True
            raise

    @contextmanager
    def slot(self) -> Iterator[Slot | None]:
        """Reserve a slot for a run that is submitted now, and begin the run in the slot.

        None if no slot is free, or if jobs wait for a slot.
        """
        slot = None
        with self._change:
            is_full = self._needs_room or len(self._held) >= self._slots
            if not (is_full or self._stop.is_set() or self._drain.is_set()):
                slot = Slot(self.id)
                self._held.add(slot)
        try:
            yield slot
        except BaseException:
            if slot is not None:
                # The transaction may have committed.
                self._end(slot, is_lost=slot.claim is not None)
            raise
        if slot is not None and slot.claim is not None:
            with _logged("Worker %s could not begin a run.", self):
                # Not in the context of the caller, which may be another run.
                Context().run(self._begin, slot.claim, slot)
        elif slot is not None:
            self._end(slot)

    def _begin(self, claim: Claim, slot: Slot | None = None) -> None:
        with self._change:
            self._held.add(claim)
            if slot is not None:
                self._held.remove(slot)
        try:
            if self._backend.agents[claim.run.agent].asynchronous:
                asyncio.run_coroutine_threadsafe(self._acarry_out(claim), self._loop)
                return
            # Not from a pool: Python waits at its end for the threads of pools.
            Thread(target=self._carry_out, args=(claim,), name=claim.job, daemon=True).start()
        except BaseException:  # the limit of threads
            self._end(claim, is_lost=True)
            raise

    def _carry_out(self, claim: Claim) -> None:
        with self._held_until_its_end(claim):
            self._runner.run(claim)

    async def _acarry_out(self, claim: Claim) -> None:
        with self._held_until_its_end(claim):
            await self._runner.arun(claim)

    @contextmanager
    def _held_until_its_end(self, claim: Claim) -> Iterator[None]:
        is_lost = True  # without an outcome, this worker still owns the thread
        with _logged("Worker %s could not carry out a job.", self):
            try:
                yield
                is_lost = False
            finally:
                self._end(claim, is_lost=is_lost)

    def _end(self, held: Claim | Slot, *, is_lost: bool = False) -> None:
        with self._change:
            self._held.remove(held)
            self._lost_track |= is_lost
            self._change.notify_all()
            is_awaited = self._needs_room or self._lost_track
        if is_awaited:
            self._backend.signals.tell({"jobs": ()})

    # Upkeep

    def _look_after(self) -> None:
        forgotten = time.monotonic()
        while not self._stop.wait(min(self._pace.look, self._pace.dead_after / 5)):
            with _logged("Worker %s could not look after the service.", self):
                self.look_after()
                if time.monotonic() - forgotten > _HOUR:
                    forgotten = time.monotonic()
                    self._backend.log.forget()

    def look_after(self) -> None:
        """Take over jobs of dead workers, and carry out deadlines and schedules.

        A fault of one part is logged, and the other parts are carried out.
        """
        late = {name: agent.review_within or 0.0 for name, agent in self._backend.agents.items()}
        parts: dict[str, Callable[[], object]] = {
            "take over runs": self._take_over,
            "begin lost jobs again": self._begin_lost_jobs,
            "report lost jobs": partial(report_lost_jobs, self._backend),
            "end old reservations": partial(
                expire_reservations, self._backend.database, skip_locked=True
            ),
            "submit messages of schedules": self._submit_due,
            "decide at deadlines": partial(Inbox(self._backend).expire, late, self._stop.is_set),
        }
        for name, carry_out in parts.items():
            with _logged(f"Worker %s could not {name}.", self):
                carry_out()

    def _take_over(self) -> None:
        database, dead = self._backend.database, self.dead_workers()
        if dead:
            # A process that was stopped during a sign of life holds the lock of its row.
            free = select(workers.c.id).where(workers.c.id.in_(dead))
            with database.begin() as connection:
                ids = connection.execute(free.with_for_update(skip_locked=True)).scalars().all()
                connection.execute(delete(workers).where(workers.c.id.in_(ids)))
            for worker in ids:
                logger.warning("Worker %s gave no sign of life; its runs are taken over.", worker)
        if jobs := self._backend.queue.take_over(dead):
            logger.warning("Took over %d runs of workers that have died.", jobs)
            self._backend.metrics.taken_over(jobs)

    def _begin_lost_jobs(self) -> None:
        is_leaving = self._stop.is_set() or self._drain.is_set()
        for job in [] if is_leaving else take_lost_jobs(self._backend, self.id, self._slots):
            logger.warning("Job %s of a worker that has ended begins again.", job.call["id"])
            if job.agent.asynchronous:
                self._loop.call_soon_threadsafe(job.begin)
            else:
                job.begin()

    def dead_workers(self) -> list[str]:
        """Workers with an old beat, or with a beat that has not changed for as long."""
        now, query = time.monotonic(), select(workers.c.id, workers.c.beat)
        old = (workers.c.beat < self._backend.database.now - self._pace.dead_after).label("is_old")
        with self._backend.database.read() as connection:
            rows = connection.execute(query.add_columns(old)).all()
        seen, self._beats_seen, dead = self._beats_seen, {}, []
        for row in rows:
            beat, since = seen.get(row.id, (None, now))
            since = since if beat == row.beat else now
            self._beats_seen[row.id] = (row.beat, since)
            # After the clock was set, the beat of a living worker looks old until its next beat.
            is_still = row.is_old and beat == row.beat
            if row.id != self.id and (is_still or now - since > self._pace.dead_after):
                dead.append(row.id)
        return dead


@contextmanager
def _logged(text: str, worker: Worker) -> Iterator[None]:
    """Log errors, so that a thread goes on: the database may come back."""
    try:
        yield
    except DatabaseUnavailable as error:
        logger.warning("%s", error)
    except Exception:
        logger.exception(text, worker.id)


async def _end_tasks() -> None:
    """Cancel the tasks of this event loop, and stop it once they have ended."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    asyncio.get_running_loop().stop()
