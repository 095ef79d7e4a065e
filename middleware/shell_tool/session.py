"""Shell sessions: one shell for each run, served by one thread.

The thread starts the shell, runs all its commands in order, and ends it: bubblewrap ends with it.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, TypeVar
from weakref import WeakSet, finalize

from .process import POLL, Cancelled
from .supervisor import ShellError, ShellSettings, ShellSupervisor

T = TypeVar("T")
Work = Callable[[ShellSupervisor, Cancelled], T]

_EXIT_TIMEOUT = 2.0  # seconds that the end of the process waits for each session


class Job(Future[T]):
    """Work for the thread of a session, in the form for `Invoke`."""

    def __init__(self, work: Work[T]) -> None:
        super().__init__()
        self._work = work
        self._stop_requested = False

    def run(self, supervisor: ShellSupervisor, abandoned: Cancelled) -> bool:
        """Do the work, in the session's thread; return whether the session can go on."""
        # False if the job was cancelled before it began.
        if not self.set_running_or_notify_cancel():
            return True
        try:
            self.set_result(self._work(supervisor, lambda: self._stop_requested or abandoned()))
        except BaseException as error:
            self.set_exception(error)
            return False
        return True

    def fail(self) -> None:
        """Fail because the session has ended."""
        if self.set_running_or_notify_cancel():
            self.set_exception(ShellError("it was ended with its run."))

    def cancel(self) -> bool:
        """Do not start the work, or stop it."""
        self._stop_requested = True
        return super().cancel()

    def result(self, timeout: float | None = None) -> T:
        """Wait for the result; cancel the job if that fails or is interrupted."""
        try:
            return super().result(timeout)
        except BaseException:
            self.cancel()
            raise

    def invoke(self, input: None, config: object = None) -> T:
        return self.result()

    async def ainvoke(self, input: None, config: object = None) -> T:
        """Await the result; a cancelled task returns only after the end of its command."""
        waiting = asyncio.wrap_future(self)
        try:
            # Shielded, because the end of the command is awaited after a cancellation, too.
            return await asyncio.shield(waiting)
        except asyncio.CancelledError:
            self.cancel()
            await asyncio.wait([waiting])
            # Retrieve the exception: asyncio logs exceptions that nobody has retrieved.
            waiting.cancelled() or waiting.exception()
            raise


class Session(threading.Thread):
    """Thread that owns a shell; an entry of `sessions` until it ends.

    A session must not hold `Sessions` itself, which would then never be garbage-collected. Jobs are
    queued, and `ended` is read, while `lock` is held.
    """

    def __init__(
        self, key: str, settings: ShellSettings, sessions: dict[str, Session], lock: threading.Lock
    ) -> None:
        super().__init__(name="agent-factory", daemon=True)
        self.jobs: SimpleQueue[Job[Any] | None] = SimpleQueue()  # None: end when all are done
        self._key, self._sessions, self._lock = key, sessions, lock
        self._supervisor = ShellSupervisor(settings)
        self._is_abandoned = False
        self._over = False
        self.start()
        _live_sessions.add(self)

    @property
    def ended(self) -> bool:
        """True if the session takes no more jobs: ended, or a fork has left its thread behind."""
        return self._over or not self.is_alive()

    def abandon(self) -> None:
        """End soon, even during a command."""
        # Without the lock: a finalizer calls this, and may interrupt the thread that holds it.
        self._is_abandoned = True
        self.jobs.put(None)

    def run(self) -> None:
        """Do the jobs, and end the shell."""
        while not self._over:
            job = self._next_job()
            if job is None:
                with self._lock:
                    self._over = self._is_abandoned or self.jobs.empty()
            # A job that raises ends the run, and so the session.
            elif not job.run(self._supervisor, lambda: self._is_abandoned):
                self._is_abandoned = True
            del job  # it holds the state of the run; waiting for the next job may take long
        self._supervisor.kill()
        while not self.jobs.empty():
            if (left := self.jobs.get()) is not None:
                left.fail()
        with self._lock:
            if self._sessions.get(self._key) is self:
                self._sessions.pop(self._key, None)  # `discard`, without the lock, may be first

    def _next_job(self) -> Job[object] | None:
        """Wait for the next job; return None if the session is idle, retired or abandoned."""
        policy = self._supervisor.settings.policy
        deadline = time.monotonic() + policy.idle_timeout
        watching = policy.max_processes is not None
        while not self._is_abandoned and (left := deadline - time.monotonic()) > 0:
            try:
                return self.jobs.get(timeout=min(left, POLL) if watching else left)
            except Empty:
                watching = watching and self._supervisor.check_processes()
        return None


class Sessions:
    """Sessions of one middleware, by the key of their run."""

    def __init__(self, settings: ShellSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._open: dict[str, Session] = {}
        # Not with `self`, which the finalizer would keep alive.
        finalize(self, _abandon_all, self._open.values()).atexit = False

    def submit(self, key: str, work: Work[T]) -> Job[T]:
        """Queue work in the session of a run; create the session if it does not exist."""
        job = Job(work)
        with self._lock:
            session = self._open.get(key)
            if session is None or session.ended:
                session = self._open[key] = Session(key, self._settings, self._open, self._lock)
            session.jobs.put(job)
        return job

    def finish(self, key: str) -> Job[None] | None:
        """Run the shutdown commands and end a session; return None if there is nothing to do."""
        if key not in self._open and not self._settings.shutdown:
            return None
        job = self.submit(key, ShellSupervisor.close)
        if session := self._open.pop(key, None):
            session.jobs.put(None)
        return job

    def discard(self, key: str) -> None:
        """End a session at once, even during a command."""
        if session := self._open.pop(key, None):
            session.abandon()


_live_sessions: WeakSet[Session] = WeakSet()


def _abandon_all(sessions: Iterable[Session]) -> None:
    for session in list(sessions):  # sessions that end remove themselves meanwhile
        session.abandon()


@atexit.register
def _end_all_with_the_process() -> None:
    sessions = list(_live_sessions)
    _abandon_all(sessions)
    for session in sessions:
        session.join(_EXIT_TIMEOUT)
