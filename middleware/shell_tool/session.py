"""Sessions: each is a thread of its own that keeps the shell of a run.

One thread starts the shell, runs all its commands in turn and ends it. So calls of parallel tools
wait for each other, an event loop never waits for a shell, no thread of a shared pool is held, and
bubblewrap, which ends with the thread that started it, ends with the session.

A session ends when it is told to, when nobody holds it any more, when nobody has used it for long,
and with the process.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar
from weakref import WeakSet, finalize

from agent_factory.middleware.shell_tool.process import POLL
from agent_factory.middleware.shell_tool.supervisor import Cancelled, Keeper, Settings, ShellError

T = TypeVar("T")
Work = Callable[[Keeper, Cancelled], T]

_EXIT_PATIENCE = 2.0  # seconds that the end of the process waits for each session

_live: WeakSet[Session] = WeakSet()


class Job(Generic[T]):
    """Something a session is to do; its outcome can be waited for in either colour.

    Args:
        work: What to do, given the keeper and a way to learn that the caller has given up.
    """

    def __init__(self, work: Work[T]) -> None:
        self._work = work
        self._future: Future[T] = Future()
        self._given_up = False

    def do(self, keeper: Keeper, abandoned: Cancelled) -> bool:
        """Do it, in the session's thread; whether the session can go on."""
        if not self._future.set_running_or_notify_cancel():
            return True
        try:
            self._future.set_result(self._work(keeper, lambda: self._given_up or abandoned()))
        except BaseException as error:
            self._future.set_exception(error)
            return False
        return True

    def refuse(self) -> None:
        """Fail, since the session has ended."""
        if self._future.set_running_or_notify_cancel():
            self._future.set_exception(ShellError("it was ended with its run."))

    def cancel(self) -> None:
        """Do not do it, or stop doing it."""
        self._given_up = True
        self._future.cancel()

    def result(self) -> T:
        """Wait for the outcome."""
        try:
            return self._future.result()
        except BaseException:
            self.cancel()
            raise

    async def awaited(self) -> T:
        """As `result`, awaited; cancelled, it returns when the command is dead."""
        waiting = asyncio.wrap_future(self._future)
        try:
            return await asyncio.shield(waiting)
        except asyncio.CancelledError:
            self.cancel()
            await asyncio.wait([waiting])
            waiting.cancelled() or waiting.exception()  # seen: nobody else will ask for it
            raise


class Session:
    """A shell and its thread, which starts with the first job.

    Args:
        keeper: Keeps the shell.
        on_end: Called with the session when it has ended.
    """

    def __init__(self, keeper: Keeper, on_end: Callable[[Session], None]) -> None:
        self._keeper = keeper
        self._on_end = on_end
        self._jobs: SimpleQueue[Job[object] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._abandoned = False
        self._over = False

    @property
    def ended(self) -> bool:
        """Whether it takes no more jobs: it is over, or its thread was left behind by a fork."""
        return self._over or (self._thread is not None and not self._thread.is_alive())

    def submit(self, job: Job[T]) -> bool:
        """Add a job, to be done after those before it; False where the session has ended."""
        with self._lock:
            if self.ended:
                return False
            self._jobs.put(job)  # type: ignore[arg-type]  # a queue of jobs of any type
            if self._thread is None:
                thread = threading.Thread(target=self._serve, name="agent-factory", daemon=True)
                thread.start()
                self._thread = thread  # now that it lives: others look at it without the lock
                _live.add(self)
            return True

    def abandon(self) -> None:
        """End soon, in the middle of a command if need be; never waits, so a finalizer may call.

        It takes no lock: a finalizer may interrupt whoever holds it.
        """
        self._abandoned = True
        self.retire()

    def retire(self) -> None:
        """End when the jobs it has are done."""
        self._jobs.put(None)

    def join(self, seconds: float) -> None:
        """Wait for the end of its thread."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _serve(self) -> None:
        while self._serve_one():
            pass
        self._keeper.kill()
        while not self._jobs.empty():
            if (left := self._jobs.get()) is not None:
                left.refuse()
        self._on_end(self)

    def _serve_one(self) -> bool:
        """Do the next job; whether there may be another. A job that is done is not held on to."""
        job = self._next()
        if job is None:
            return not self._ends()
        # What the model is not told ends the run, and the session with it.
        self._abandoned |= not job.do(self._keeper, lambda: self._abandoned)
        return True

    def _next(self) -> Job[object] | None:
        """The next job; None if there is none for too long, or never will be."""
        deadline = time.monotonic() + self._keeper.settings.policy.idle_timeout
        watched = self._keeper.limited
        while not self._abandoned and (left := deadline - time.monotonic()) > 0:
            try:
                return self._jobs.get(timeout=min(left, POLL) if watched else left)
            except Empty:
                watched = watched and self._keeper.watch()
        return None

    def _ends(self) -> bool:
        with self._lock:
            self._over = self._abandoned or self._jobs.empty()
            return self._over


class Sessions:
    """The sessions of one middleware, by the key of their run.

    Args:
        settings: What their shells have in common.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._open: dict[str, Session] = {}
        self._lock = threading.Lock()
        finalize(self, _abandon_all, self._open).atexit = False

    def submit(self, key: str, work: Work[T]) -> Job[T]:
        """Have a session do something, a new one if need be."""
        job = Job(work)
        while not self._session(str(key)).submit(job):
            pass
        return job

    def finish(self, key: str) -> Job[None] | None:
        """Run the shutdown commands and end a session; None where there is nothing to do."""
        if key not in self._open and not self._settings.shutdown:
            return None
        job = self.submit(key, Keeper.close)
        if session := self._open.pop(key, None):
            session.retire()
        return job

    def discard(self, key: str) -> None:
        """End a session at once, whatever it does."""
        if session := self._open.pop(key, None):
            session.abandon()

    def _session(self, key: str) -> Session:
        with self._lock:
            session = self._open.get(key)
            if session is None or session.ended:
                # What a session holds must not hold `self`, or nobody could ever let go of it.
                forget = _forgetter(self._open, key)
                session = self._open[key] = Session(Keeper(self._settings), forget)
            return session


def _forgetter(sessions: dict[str, Session], key: str) -> Callable[[Session], None]:
    def forget(session: Session) -> None:
        if sessions.get(key) is session:
            sessions.pop(key, None)

    return forget


def _abandon_all(sessions: dict[str, Session]) -> None:
    for session in list(sessions.values()):
        session.abandon()


@atexit.register
def _end_with_the_process() -> None:
    sessions = list(_live)
    for session in sessions:
        session.abandon()
    for session in sessions:
        session.join(_EXIT_PATIENCE)
