"""The part of an engine that speaks with a server: in the background, so that no caller waits."""

from __future__ import annotations

import asyncio
import atexit
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from concurrent.futures import Future
from contextlib import closing, suppress
from threading import Lock, Thread
from urllib.parse import SplitResult, parse_qsl, urlsplit

from agent_factory.errors import ArgumentError
from agent_factory.service.engines.engine import JobRef, Outcome, Work
from agent_factory.service.rows import logged

_LOG = logging.getLogger("agent_factory.service")
_ORDERS = 10_000  # that wait for the server: the service repeats starts beyond
_PATIENCE = 4.0  # seconds of a wait for a slot, or for orders under way at a stop
_LOOK = 3.0  # seconds between two looks at the server, and after an error of the work


def parts_of(url: str, form: str) -> tuple[SplitResult, dict[str, str]]:
    """The parts of an engine's URL and its parameters, which a form of the URL names.

    Raises:
        ArgumentError: The form does not have a parameter.
    """
    parts, known = urlsplit(url), dict(parse_qsl(urlsplit(form).query))
    options = dict(parse_qsl(parts.query))
    if unknown := options.keys() - known:
        reason = f"has the unknown parameter {min(unknown)!r}."
        raise ArgumentError("engine", reason, f"Write {form}.")
    return parts, options


class RemoteEngine(ABC):
    """An engine whose event loop, in a thread, begins with its first order or with `serve`."""

    name = ""
    _thread = Thread()  # of the event loop; this one has not been started

    def __init__(self) -> None:
        self._faults: dict[str, str] = {}
        self._begins, self._ends = Lock(), Lock()

    @abstractmethod
    async def _look(self) -> None:
        """Raise an error if the server gives out no jobs."""

    @abstractmethod
    async def _send(self, job: JobRef, delay: float) -> object:
        """Start a job at the server. After an error, there is another attempt."""

    @abstractmethod
    async def _forget(self, job: JobRef) -> None:
        """Cancel a job at the server."""

    @abstractmethod
    async def _take_jobs(self, agents: Collection[str]) -> None:
        """Begin to take the jobs of more agents of the work."""

    @abstractmethod
    async def _leave(self, seconds: float) -> None:
        """Take no more jobs, and wait at most some seconds for the running ones."""

    def start(self, job: JobRef) -> None:
        self._order(job, time.monotonic() + job.delay)

    def cancel(self, job: JobRef) -> None:
        self._order(job, None)

    def fault(self) -> str | None:
        return next(iter([*self._faults.values()]), None)

    def serve(self, work: Work, slots: int) -> Sequence[Thread]:
        self._work, self._slots = work, slots
        asyncio.run_coroutine_threadsafe(self._serve(), self._begun()).result()
        return [self._thread]

    def stop(self, seconds: float) -> None:
        with self._ends:
            if self._thread.is_alive():
                end = asyncio.run_coroutine_threadsafe(self._end(seconds), self._loop)
                with suppress(TimeoutError):
                    end.result(seconds + 3 * _PATIENCE)
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._thread.join(_PATIENCE)
            atexit.unregister(self.stop)

    def _begun(self) -> asyncio.AbstractEventLoop:
        with self._begins:
            if not self._thread.is_alive():  # nor is it in a child of a fork
                self._loop = asyncio.new_event_loop()
                self._thread = Thread(target=self._run, daemon=True, name=f"engine-{self.name}")
                self._thread.start()
                asyncio.run_coroutine_threadsafe(self._open(), self._loop).result()
                atexit.register(self.stop, 0)
        return self._loop

    def _run(self) -> None:
        with closing(self._loop):
            self._loop.run_forever()

    async def _open(self) -> None:
        self._orders: dict[tuple[str, bool], asyncio.Task[None]] = {}
        self._running: dict[str, asyncio.Task[Outcome]] = {}
        self._turn, self._free = asyncio.Semaphore(8), asyncio.Semaphore(0)
        self._served: set[str] | None = None  # agents
        self._leaves, self._watcher = False, asyncio.create_task(self._watch())

    async def _serve(self) -> None:
        self._free, self._served = asyncio.Semaphore(self._slots), set()
        await self._take_more_jobs()
        self._watcher.cancel()
        self._watcher = asyncio.create_task(self._watch())  # it looks at once

    async def _take_more_jobs(self) -> None:
        """Take the jobs of agents that were added since the last call."""
        if self._served is not None and not self._leaves:
            more = {*self._work.agents} - self._served
            if more:
                await self._take_jobs(more)
                self._served |= more

    async def _end(self, seconds: float) -> None:
        self._leaves = True
        with logged("The engine %s could not leave its jobs.", self.name):
            await self._leave(seconds)
        ends = time.monotonic() + _PATIENCE
        while self._orders and not self._faults and time.monotonic() < ends:
            await asyncio.wait({*self._orders.values()}, timeout=0.1)
        for task in (tasks := asyncio.all_tasks() - {asyncio.current_task()}):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._faults.clear()

    async def _watch(self) -> None:
        while True:
            try:
                await self._take_more_jobs()
                await self._look()
                self._note("server", "")
            except Exception as error:
                self._note("server", f"{error!r}")
            await asyncio.sleep(_LOOK)

    def _note(self, part: str, fault: str) -> None:
        """Set the fault of a part, or "": people read it once."""
        if fault and part not in self._faults:
            _LOG.warning("The engine %s gives out no jobs: %s", self.name, fault)
        self._faults = {k: v for k, v in {**self._faults, part: fault}.items() if v}

    def _order(self, job: JobRef, due: float | None) -> None:
        def take() -> None:
            key = job.id, due is None
            if key not in self._orders and len(self._orders) < _ORDERS:
                self._orders[key] = self._loop.create_task(self._carry_out_order(job, due))

        with suppress(RuntimeError):  # a stop at the same time, or the end of the interpreter
            self._begun().call_soon_threadsafe(take)

    async def _carry_out_order(self, job: JobRef, due: float | None) -> None:
        part, pause = f"agent {job.agent!r}", 0.5
        while True:
            try:
                async with self._turn:
                    if due is None:
                        await self._forget(job)
                    else:
                        await self._send(job, max(0.0, due - time.monotonic()))
                break
            except Exception as error:
                if pause > 0.5:  # at the first time, a process may be about to serve the agent
                    self._note(part, f"{part}: {error!r}")
            await asyncio.sleep(pause)
            pause = min(8.0, 2 * pause)
        self._note(part, "")
        del self._orders[job.id, due is None]

    def _call(self, job: str) -> tuple[asyncio.Task[Outcome], bool]:
        """Carry out a job, unless an earlier call of the same job still runs in this process."""
        if is_new := job not in self._running:
            task = self._running[job] = asyncio.create_task(self._carry_out(job))
            task.add_done_callback(lambda _: self._running.pop(job))
        return self._running[job], is_new

    async def _carry_out(self, job: str) -> Outcome:
        try:
            # A free slot needs no timer.
            await asyncio.wait_for(self._free.acquire(), _PATIENCE if self._free.locked() else None)
        except TimeoutError:
            return Outcome("later", 1.0)  # others may have a free slot
        future = Future[Outcome | Future[Outcome]]()
        future.set_running_or_notify_cancel()  # nothing stops a job that runs

        def run() -> None:
            outcome: Outcome | Future[Outcome] = Outcome("later", _LOOK)
            try:
                with logged("The job %s begins again.", job):
                    outcome = self._work.take(job)
            finally:
                future.set_result(outcome)

        try:
            if self._leaves:
                return Outcome("later")
            # Not in a pool: its threads would hold up a process that ends.
            Thread(target=run, daemon=True, name=job).start()
            outcome = await asyncio.wrap_future(future)
            return outcome if isinstance(outcome, Outcome) else await asyncio.wrap_future(outcome)
        finally:
            self._free.release()
