"""Embedded: the engine inside the processes of a service, with the rows of threads as its queue."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import Context
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, cast

from agent_factory.service.engines.engine import Engine, JobRef, Work
from agent_factory.service.rows import logged
from agent_factory.service.tables import threads
from agent_factory.service.thread_queue import Slot

if TYPE_CHECKING:
    from agent_factory.service.worker import Worker

_CONTENDED = 0.05  # until the worker that counts the jobs of a tenant has taken its own
_AT_ONCE = 50  # jobs of one claim: the event loop has other runs meanwhile


class Embedded(Engine):
    """Engine of processes that share a database. It needs no other server.

    The row of a thread names its job, so the transaction of a message gives out the job as well.
    Signals of the database wake the processes, each of which takes jobs in a thread.
    """

    name = "embedded"
    _taker: Taker | None = None

    def start(self, job: JobRef) -> None:
        """Do nothing: the transaction of the job has woken the processes."""

    def serve(self, work: Work, slots: int) -> list[Thread]:
        """Take jobs in a thread of this process."""
        self._taker = Taker(cast("Worker", work), slots)  # it takes jobs in batches
        return [self._taker.start()]

    def stop(self, seconds: float) -> None:
        """Take no more jobs. The worker waits for the running ones."""
        if self._taker is not None:
            self._taker.stop(seconds)


class Taker:
    """Takes jobs for one worker while slots are free: at most so many jobs at once."""

    def __init__(self, worker: Worker, slots: int) -> None:
        self._worker, self._slots, self._backend = worker, slots, worker.backend
        self._pace, self._stop = worker.backend.pace, Event()
        self._reserved: set[Slot] = set()
        self._lock = Lock()  # of the slots
        self._may_be_due = False  # a job is probably due: a claim without a look is faster
        self._needs_room = False  # there may be more jobs than the last claim could take
        self._lost_track = False  # a claim may have committed without an answer
        self._thread = Thread(target=self._take_jobs, name="agent-factory-jobs", daemon=True)

    def start(self) -> Thread:
        """Take jobs in a thread, and for submitted messages at once."""
        self._thread.start()
        self._backend.slot = self.slot
        return self._thread

    def stop(self, seconds: float) -> None:
        """Take no more jobs."""
        self._stop.set()
        self._wake()
        if self._thread.is_alive():
            # With a timeout: the thread may wait for a lock of the database.
            self._thread.join(min(seconds, self._pace.stop))

    def _take_jobs(self) -> None:
        signals = self._backend.signals
        while not self._stop.is_set():
            moment, wait = signals.now("jobs"), self._pace.look
            with logged("Worker %s could not take jobs.", self._worker.id):
                wait = self.take_due()
            if wait > 0:
                self._may_be_due = signals.wait(moment, wait)

    def take_due(self) -> float:
        """Take due jobs; return the seconds until the next look."""
        queue, agents = self._backend.queue, self._worker.agents
        self._worker.give_back_lost()
        self._give_back_unknown()
        if self._worker.is_leaving or not agents:
            return self._pace.look
        wait = 0.0  # another look follows
        # A claim is a transaction that writes; an idle worker only looks.
        if not self._may_be_due:
            is_due, delay = queue.look(agents)
            wait = min(delay, self._pace.look)
            if not is_due:
                self._needs_room = False
                return wait
        with self._lock:
            # Until a look finds nothing. Before the count: a job that ends later wakes this thread.
            self._needs_room = True
            room = min(self._room, _AT_ONCE)
        if room <= 0:
            return self._pace.look
        try:
            claims, needs_room, is_contended = queue.claim(self._worker.id, agents, room)
            for claim in claims:
                self._worker.begin(claim, self._wake_if_needed)
        except BaseException:
            self._lost_track = True
            raise
        self._may_be_due = len(claims) == room
        self._needs_room = needs_room
        if is_contended:
            wait = min(wait, _CONTENDED)
        # The signal may have been about a job that begins later: the next look finds its time. Of
        # due jobs, a job without a lock that was not taken exceeds the limit of its tenant.
        return 0.0 if claims else wait

    def _give_back_unknown(self) -> None:
        """Give back jobs of a claim that has no answer, or whose jobs did not all begin."""
        if self._lost_track:
            # First the slots: their claims are held before the slots are free.
            with self._lock:
                claims = [slot.claim for slot in self._reserved if slot.claim is not None]
            with self._worker.change:
                claims += self._worker.held
            others = threads.c.thread_id.not_in([claim.lease.thread_id for claim in claims])
            self._backend.queue.give_back(self._worker.id, others)
            self._lost_track = False

    @contextmanager
    def slot(self) -> Iterator[Slot | None]:
        """Reserve a slot for a run that is submitted now, and begin the run in the slot.

        None if no slot is free, or if jobs wait for a slot.
        """
        with self._lock:
            is_full = self._needs_room or self._room <= 0
            if is_full or self._stop.is_set() or self._worker.is_leaving:
                slot = None
            else:
                slot = Slot(self._worker.id)
                self._reserved.add(slot)
        if slot is None:
            yield None
            return
        try:
            yield slot
        except BaseException:
            if slot.claim is not None:
                # The transaction may have committed.
                self._worker.lose([slot.claim.lease.thread_id])
            raise
        else:
            if slot.claim is not None:
                with logged("Worker %s could not begin a run.", self._worker.id):
                    # Not in the context of the caller, which may be another run.
                    Context().run(self._worker.begin, slot.claim, self._wake_if_needed)
        finally:
            with self._lock:
                self._reserved.remove(slot)
            self._wake_if_needed()

    @property
    def _room(self) -> int:
        return self._slots - len(self._worker.held) - len(self._reserved)

    def _wake_if_needed(self) -> None:
        if self._needs_room or self._lost_track or self._worker.has_lost:
            self._wake()

    def _wake(self) -> None:
        self._backend.signals.tell({"jobs": ()})
