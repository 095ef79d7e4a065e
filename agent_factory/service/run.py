"""Run: a message that was submitted, seen from any process."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from langchain_core.messages import BaseMessage
from sqlalchemy import CompoundSelect, Row, delete, select, union, update

from agent_factory.errors import ArgumentError
from agent_factory.service.backend import Backend
from agent_factory.service.background import drop_jobs
from agent_factory.service.errors import MessageHeld, NoWorker, RunCancelled, RunFailed
from agent_factory.service.jobs import MessageJob, load_input, read_job
from agent_factory.service.leases import take_lease
from agent_factory.service.messages import retry
from agent_factory.service.progress import Progress, what_is_missing
from agent_factory.service.rows import must_exist, read_row
from agent_factory.service.run_list import SUMMARIES, RunSummary, Status, summary_of
from agent_factory.service.signals import Moment
from agent_factory.service.steering import run_row
from agent_factory.service.steps import Step, read_steps
from agent_factory.service.tables import background_jobs, effects, events, runs, threads, waits
from agent_factory.service.thread_queue import BUSY, lock_thread
from agent_factory.service.threads import keep_messages, roll_back_thread


@dataclass(frozen=True, slots=True)
class RunInfo:
    """A run.

    Args:
        id: The id.
        thread_id: The thread.
        tenant: The tenant.
        agent: The agent.
        status: The state.
        error: The error of a failed run.
        metadata: Notes from the submission.
        created_at: The time of submission, in seconds since 1970, by the database's clock.
        updated_at: The time of the last change of status or usage.
        job: The id of the newest job; a decision begins a new job. None if the run has no job.
        reader: The run that has read the message of this run, and whose outcome this run has; None
            for most runs. The model calls are in the usage of the reader.
        usage: Usage of the model calls, in a line for each part of the agent and each model:
            "agent", "part", "model", "calls", "input_tokens", "output_tokens", "cached_tokens" and
            "usd". It grows when the run pauses or ends.
    """

    id: str
    thread_id: str
    tenant: str
    agent: str
    status: Status
    error: str | None
    metadata: Mapping[str, Any]
    created_at: float
    updated_at: float
    job: str | None = None
    usage: Sequence[Mapping[str, Any]] = ()
    reader: str | None = None


class Run:
    """Run of a message: its events, its result, a way to cancel it.

    Made by `Service.submit` and `Service.run`. Once another run has read the message, as with
    `busy="steer"`, the status, the events, the result and `cancel` belong to that run.

    Args:
        id: The id of the run, the same in all processes.
        thread_id: The thread.
        before: A moment before the run existed, if the run is new.
    """

    def __init__(
        self, backend: Backend, id: str, thread_id: str, before: Moment | None = None
    ) -> None:
        self.id, self.thread_id, self._backend, self._before = id, thread_id, backend, before

    @property
    def status(self) -> Status:
        """Status of the run now."""
        return self.info.status

    @property
    def info(self) -> RunInfo:
        """Facts about the run now."""
        row = self._look()
        status = row.status
        if status == "queued" and row.job is None:
            # The table has "queued" for both: the thread knows which it is.
            of_thread = select(threads.c.status).where(threads.c.thread_id == self.thread_id)
            if self._backend.database.values(of_thread) == ["waiting"]:
                status = "held"
        return read_row(RunInfo, row, id=self.id, status=status)

    @property
    def jobs(self) -> list[str]:
        """Ids of the jobs of the run: first that of the message, then one for each decision."""
        return sorted(filter(None, self._backend.database.values(_jobs_of(self))))

    @property
    def summary(self) -> RunSummary:
        """Question and costs of the run, as in `ServiceThreads.search_runs`."""
        row = self._backend.database.row(SUMMARIES.where(runs.c.run_id == self.id))
        return summary_of(must_exist(row, f"run {self.id!r}"))

    @property
    def steps(self) -> list[Step]:
        """Model calls, tool calls and decisions of hooks, by the time of their begin.

        The list grows when the run pauses or ends. Decisions are recorded for agents that were
        added with `decisions=True`, except decisions that changed nothing.
        """
        return read_steps(self._look().steps)

    @property
    def missing(self) -> NoWorker | MessageHeld | None:
        """The missing worker or decision for which the run waits, as an error, or None."""
        return self._backend.call(lambda: what_is_missing(self._backend, self.id))

    @property
    def messages(self) -> list[BaseMessage]:
        """The submitted messages; the thread gets them when the run begins."""
        job = read_job(self._look().payload)
        inputs = load_input(job.input) if isinstance(job, MessageJob) else None
        return [] if inputs is None else list(inputs["messages"])

    @property
    def request(self) -> dict[str, Any]:
        """Arguments of the submission.

        The keys are `input`, `config`, `checkpoint`, `stream`, `subgraphs`, `interrupt_before`,
        `interrupt_after`, and `busy`, with the value of the agent as default. Private keys of the
        state, and keys of `configurable` that clients may not set, are left out, and so is the
        context: only code knows its private parts. Empty for a run that `reindex` has found.
        """
        row = self._look()
        job, agent = read_job(row.payload), self._backend.agents.get(row.agent)
        if not isinstance(job, MessageJob):
            return {}
        inputs, config = load_input(job.input), dict[str, Any](job.config)
        if inputs is not None:
            keys = (lambda key: key in agent.public) if agent else {"messages"}.__contains__
            inputs = {key: value for key, value in inputs.items() if keys(key)}
        allowed = agent.configurable if agent else ()
        configurable = config.pop("configurable", {})
        config["configurable"] = {k: configurable[k] for k in configurable if k in allowed}
        stream = job.stream or (agent.stream if agent else ())
        return {
            "input": inputs,
            "config": config,
            "checkpoint": job.checkpoint,
            "stream": [*stream],
            "subgraphs": job.subgraphs,
            "interrupt_before": job.interrupt_before,
            "interrupt_after": job.interrupt_after,
            "busy": job.busy or (agent.busy if agent else "queue"),
        }

    def result(self, timeout: float | None = None) -> Any:
        """Return the output of the agent's `invoke`, once the run has ended or pauses.

        If the run waits for a worker, or its message is held until a decision, the logger
        "agent_factory.service" warns after two seconds, once.

        Args:
            timeout: The longest time to wait, in seconds; None waits without end.

        Returns:
            The output of the agent. If the run waits for decisions, the output has the key
            `__interrupt__`, a list of the interrupts.

        Raises:
            RunFailed: The run has ended with an error.
            RunCancelled: The run was cancelled.
            TimeoutError: The run has not ended in time; NoWorker or MessageHeld if a worker or a
                decision is missing.
        """
        attempts, seconds = self._outcomes(timeout), self._look_seconds(timeout)
        while isinstance(outcome := next(attempts), Moment):
            self._backend.signals.wait(outcome, seconds)
        return outcome[0]

    async def aresult(self, timeout: float | None = None) -> Any:
        """Async variant of `result`."""
        attempts, threads = self._outcomes(timeout), self._backend.database.threads
        loop = asyncio.get_running_loop()
        # Each look in a thread, so that the event loop does not wait for the database.
        while True:
            outcome = await loop.run_in_executor(threads, next, attempts)
            if not isinstance(outcome, Moment):
                return outcome[0]
            await self._backend.signals.await_news(outcome, self._look_seconds(timeout))

    def _outcomes(self, timeout: float | None) -> Iterator[tuple[object] | Moment]:
        """Moments after which the caller has to wait for a signal, and the result at the end."""
        start, progress = time.monotonic(), Progress(self._backend, self.id)
        moment, reader = self._backend.signals.now("ends", self.id), None
        with self._backend.outputs.awaited(self.id):
            if self._before is not None:  # a new run has not ended until a signal comes
                before, self._before = self._before, None
                yield before
            while not (output := self._backend.outputs.of(self.id)):
                row = self._look(whole=False)
                if row.status not in ("queued", "running"):
                    break
                progress.notice()
                if timeout is not None and time.monotonic() - start > timeout:
                    raise progress.timed_out(f"is {self.status}", timeout)
                if row.reader == reader:
                    yield moment
                reader = row.reader
                moment = self._backend.signals.now("ends", reader or self.id)
        if output is not None:
            # In a tuple, since the output of an agent may be falsy.
            yield (output(),)
            return
        if row.status == "failed":
            raise RunFailed(f"run {self.id!r}", f"has failed: {row.error}.")
        if row.status == "cancelled":
            raise RunCancelled(f"run {self.id!r}", "was cancelled.")
        waits = row.status == "waiting"
        place = (row.agent, self.thread_id, row.checkpoint_id)
        read = partial(self._backend.output, *place, waits=waits)
        yield (self._backend.call(read),)

    def stream(
        self, *, after: str | None = None, timeout: float | None = None
    ) -> Iterator[dict[str, Any]]:
        """Events of the run, from its beginning, until it has ended or pauses.

        Parts have the form of LangGraph's streams in version 2 (`type`, `ns`, `data`) and an `id`.
        Private keys of the state are left out. The last part has the type "end"; its data are the
        outcome. After a takeover by another worker, a part of the type "resumed" comes, and parts
        of the last step may come again. Parts recorded for the studio alone have the key `asked`,
        which is False.

        If nothing comes for two seconds because the run waits for a worker, or its message is held
        until a decision, a part of the type "waiting_for" comes, once. Its data have `what`,
        "a worker" or "a decision", and a `text`; its `id` is the id of the part before.

        Args:
            after: The `id` of the last part that the caller has, to continue a stream.
            timeout: The longest time between two parts, in seconds; None waits without end.

        Raises:
            RunCancelled: The run was cancelled.
            TimeoutError: No part came in time, as in `result`.
            ArgumentError: `after` is not the id of a part.
        """
        for part in self._parts(after, timeout):
            if isinstance(part, Moment):
                self._backend.signals.wait(part, self._backend.pace.wake)
            else:
                yield part

    async def astream(
        self, *, after: str | None = None, timeout: float | None = None
    ) -> AsyncIterator[dict[str, Any]]:
        """Async variant of `stream`."""
        parts, threads = self._parts(after, timeout), self._backend.database.threads
        # A future cannot raise StopIteration, so `next` returns a mark at the end.
        loop, end = asyncio.get_running_loop(), {"type": "no part"}
        while (part := await loop.run_in_executor(threads, next, parts, end)) is not end:
            if isinstance(part, Moment):
                await self._backend.signals.await_news(part, self._backend.pace.wake)
            else:
                yield part

    def _parts(self, after: str | None, timeout: float | None) -> Iterator[dict[str, Any] | Moment]:
        """Parts of the stream, and moments after which the caller has to wait for a signal."""
        job, row, part = None, 0, -1
        if after is not None:
            # The id of a part names its job, which must not be one of another tenant's thread.
            digits = r"(\d{1,18})"  # of 64 bits; the number of a job is text
            pattern = rf"({re.escape(self.thread_id)}/\d{{1,30}}):{digits}:{digits}"
            match = re.fullmatch(pattern, after)
            if match is None:
                hint = "Pass the `id` of a part of this run's stream."
                raise ArgumentError("after", f"is not the id of a part: {after!r}.", hint)
            job, row, part = match[1], int(match[2]), int(match[3])
        log, since = self._backend.log, time.monotonic()
        progress = Progress(self._backend, self.id)

        def notice() -> dict[str, object] | None:
            """Return a part about a missing worker or decision, when its time has come."""
            missing = progress.notice()
            if missing is None:
                return None
            data = {"what": missing.waits_for, "text": str(missing)}
            return {"type": "waiting_for", "ns": (), "data": data, "id": after}

        while job is None:
            moment = self._backend.signals.now("jobs")  # it gets one when it is its turn
            run = self._look(whole=False)
            job = run.job
            if run.status == "cancelled":
                raise RunCancelled(f"run {self.id!r}", "was cancelled.")
            if job is None:
                if timeout is not None and time.monotonic() - since > timeout:
                    raise progress.timed_out("is queued", timeout)
                yield notice() or moment

        def has_ended() -> bool:
            run = self._look(whole=False)
            # A decision has begun another job: the stream of this one ends.
            return run.job != job or run.status not in ("queued", "running")

        # The row of the last part that was seen may have more parts.
        for entry in log.read(job, row - 1, has_ended):
            if isinstance(entry, Moment):
                if timeout is not None and time.monotonic() - since > timeout:
                    raise progress.timed_out("has no news", timeout)
                yield notice() or entry
                continue
            since = time.monotonic()
            progress.news()
            number, parts = entry
            for position, event in enumerate(parts):
                if (number, position) > (row, part):
                    after = f"{job}:{number}:{position}"
                    yield {**event, "id": after}
                if event["type"] == "end":
                    return
        run = self._look()
        if run.status == "cancelled":
            raise RunCancelled(f"run {self.id!r}", "was cancelled.")
        # Its events were deleted.
        outcome = {"status": run.status, "checkpoint_id": run.checkpoint_id, "error": run.error}
        yield {"type": "end", "ns": (), "data": outcome, "id": f"{job}:0:0"}

    def cancel(self, *, by: str = "api", undo: bool = False, roll_back: bool = False) -> None:
        """End the run: a queued run does not begin, a running one stops at its next step.

        Its writes stay in the thread. Calls that wait for a decision do not go on.

        Args:
            by: Who cancels the run, for the audit.
            undo: Whether the effects of the run are undone, by the compensations of its
                OnceMiddleware. The audit names undone and unknown effects.
            roll_back: Whether the thread goes back to its state before the run. The history keeps
                the writes of the run. Not together with `undo`.

        Raises:
            ThreadBusy: With `roll_back`: another message came before the thread had gone back.
        """
        if undo and roll_back:
            raise ArgumentError("roll_back", "does not go with undo.", "Pass one of them.")
        # Two calls: the second writes in other transactions, under the lease of the first.
        write = self._backend.call(partial(self._cancel, by, undo, roll_back))
        if write is not None:
            self._backend.call(write)

    def _cancel(self, by: str, undo: bool, goes_back: bool) -> Callable[[], None] | None:
        """End the run; return the write to its thread, unless its next message writes."""
        queue, backend, lease, unread = self._backend.queue, self._backend, None, []
        with self._backend.database.begin() as connection:
            thread = lock_thread(connection, self.thread_id)
            # One whose message was read goes on as the run that has read it.
            run = run_row(connection, self.id)
            if thread is None or run is None or run.status not in BUSY:
                return None
            run_id = run.reader or self.id
            if thread.run == run_id:
                following, job = queue.following(connection, self.thread_id), read_job(run.payload)
                if run.reader is None and isinstance(job, MessageJob):
                    # Of a run in the queue, those of earlier runs; a run that waits has read all.
                    unread = {"running": job.messages, "queued": [*job.before]}.get(run.status, [])
                if (goes_back or unread) and following is not None:
                    # Its message begins before this process could write: it does it itself.
                    job = read_job(following.payload)
                    if isinstance(job, MessageJob):
                        before = [*unread, *job.before]
                        change: Any = {"rollback": run_id} if goes_back else {"before": before}
                        changed = update(runs).where(runs.c.run_id == following.run_id)
                        text = replace(job, **change).to_text()
                        connection.execute(changed.values(payload=text))
                queue.end_run(connection, thread, by, undo=undo)
                # A result would begin another run of the thread.
                drop_jobs(connection, background_jobs.c.run == run_id)
                if (goes_back or unread) and following is None and not undo:
                    lease = take_lease(connection, self.thread_id)
            else:
                this = update(runs).where(runs.c.run_id == self.id)
                connection.execute(this.values(status="cancelled"))
                queue.record(connection, run, by, "cancel")
                queue.send_end(connection)
        if lease is None:
            return None
        if goes_back:
            return partial(roll_back_thread, backend, thread, lease)
        return partial(keep_messages, backend, thread, lease, unread)

    async def acancel(
        self, *, by: str = "api", undo: bool = False, roll_back: bool = False
    ) -> None:
        """Async variant of `cancel`."""
        await asyncio.to_thread(self.cancel, by=by, undo=undo, roll_back=roll_back)

    def retry(self, *, by: str = "api") -> Run:
        """Begin another run of the thread, without a message, where this run has failed.

        The new run begins at the last checkpoint. Tool calls with a result do not run again. Failed
        work runs again, and calls with decisions of people are reviewed again. The new run has the
        context and the settings of this run, and `retry_of` in its metadata. Two calls begin one
        run.

        Args:
            by: Who calls.

        Raises:
            ThreadBusy: The run has not failed, or its thread has gone on since.
        """
        id = self._backend.call(partial(retry, self._backend, self.id, by))
        return Run(self._backend, id, self.thread_id)

    def delete(self, *, by: str = "api") -> None:
        """Delete the run: its record, events, reviews and effects. A running one is cancelled.

        The records of messages that it has read are deleted as well. If another run has read its
        message, that run goes on, and only the record is deleted. The writes stay in the thread,
        and an entry in the audit. The same message with the same `message_id` begins another run.

        Args:
            by: Who deletes the run, for the audit.

        Raises:
            NotFound: The run does not exist.
        """
        if self._look().reader is None:
            self.cancel(by=by)
        self._backend.call(partial(self._delete, by))

    def _delete(self, by: str) -> None:
        of_run, of_thread = runs.c.run_id == self.id, runs.c.thread_id == self.thread_id
        with self._backend.database.begin() as connection:
            thread = lock_thread(connection, self.thread_id)
            run = connection.execute(select(runs).where(of_run)).first()
            if thread is None or run is None:
                return  # somebody else has deleted it
            connection.execute(delete(events).where(events.c.job.in_(_jobs_of(self))))
            for table in (effects, waits):
                connection.execute(delete(table).where(table.c.run == self.id))
            read_by_it = of_thread & (runs.c.reader == self.id)
            connection.execute(delete(runs).where(of_run | read_by_it))
            # A thread must not name a run that is not there: pages look it up.
            newest = select(runs.c.run_id).where(of_thread).order_by(runs.c.seq.desc()).limit(1)
            if thread.run == self.id:
                changed = update(threads).where(threads.c.thread_id == self.thread_id)
                connection.execute(changed.values(run=newest.scalar_subquery()))
            self._backend.queue.record(connection, thread, by, "delete run", {"run": self.id})

    def __repr__(self) -> str:
        return f"Run({self.id!r}, thread_id={self.thread_id!r})"

    def _look(self, *, whole: bool = True) -> Row[Any]:
        """The row of this run, as `run_row` reads it."""

        def read() -> Row[Any] | None:
            with self._backend.database.read() as connection:
                return run_row(connection, self.id, whole=whole)

        return must_exist(self._backend.call(read), f"run {self.id!r}")

    def _look_seconds(self, timeout: float | None) -> float:
        pause = self._backend.pace.wake
        return pause if timeout is None else min(timeout, pause)


def _jobs_of(run: Run) -> CompoundSelect[Any]:
    # Each pause has a wait, which names the job that led there, or the checkpoint that was written.
    is_job = waits.c.job.startswith(f"{run.thread_id}/", autoescape=True)
    of_wait = (waits.c.thread_id == run.thread_id) & (waits.c.run == run.id)
    newest = select(runs.c.job).where(runs.c.run_id == run.id)
    return union(newest, select(waits.c.job).where(of_wait, is_job))
