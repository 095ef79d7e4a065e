"""Background jobs: work that goes on in a worker after the end of the run that began it.

A job has a row from its begin to its end. The transaction with the message of the job deletes the
row, so each job sends one message: its result, or its loss with the worker.

Another worker begins a repeatable job again. The row has the number of the attempt. An earlier
attempt may still work, if its worker was only slow, and its result is dropped.
"""

from __future__ import annotations

import hashlib
import math
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Literal

from langchain_core.messages import HumanMessage
from langgraph.channels import UntrackedValue
from langgraph.runtime import Runtime
from sqlalchemy import ColumnElement, Connection, Row, delete, func, insert, select, update

from agent_factory import background_on_loss
from agent_factory.errors import ArgumentError
from agent_factory.factory import tools_of
from agent_factory.middleware.background import BackgroundCall, lost_message, repeat_job
from agent_factory.service.backend import Backend, RegisteredAgent, config_of
from agent_factory.service.jobs import message_of
from agent_factory.service.leases import Lease, aborting
from agent_factory.service.message_serializer import dump, load
from agent_factory.service.rows import logged, logger
from agent_factory.service.steering import STEER, can_be_steered
from agent_factory.service.store import TenantStore
from agent_factory.service.tables import background_jobs, runs, workers
from agent_factory.service.thread_queue import BUSY, lock_thread
from agent_factory.upstream import coerced_context

MOST_ATTEMPTS = 3
"""Deaths of workers after which a job is reported as lost. Stops do not count."""


class SharedJobs:
    """Store of the background jobs of one run."""

    def __init__(self, backend: Backend, lease: Lease, run: Row[Any], worker: str) -> None:
        self._backend, self._lease, self._run, self._worker = backend, lease, run, worker

    @property
    def thread(self) -> str:
        """The id of the run's thread."""
        return self._lease.thread_id

    @property
    def run(self) -> str:
        """The id of the run."""
        id: str = self._run.run_id
        return id

    def begin(
        self, id: str, lost: HumanMessage, most: int, call: BackgroundCall | None
    ) -> Literal["begun", "known", "full"]:
        """Store a job that begins now, unless a worker has begun the job for this run before.

        If the worker ends first, the message `lost` is sent; with a `call`, another worker may
        begin the job again: ArgumentError if the call cannot be stored. A thread has at most `most`
        jobs. After LeaseLost, the work must not begin.
        """
        of_thread = background_jobs.c.thread_id == self.thread
        row: dict[str, object] = {"id": self._id(id), "thread_id": self.thread, "run": self.run}
        row |= {"worker": self._worker, "lost": dump(lost)}
        if call is not None:
            channels = self._backend.agents[self._run.agent].graph.channels
            row["call"] = _dumped(call, channels)
            seconds = call["job"]["deadline"] - call["job"]["started"]
            row["deadline"] = self._backend.database.now + seconds
        with aborting(), self._backend.database.begin() as connection:
            # Calls of one turn begin at once, and each counts the calls before.
            lock_thread(connection, self.thread)
            self._lease.check(connection)
            jobs = select(background_jobs.c.id, background_jobs.c.worker, background_jobs.c.attempt)
            others = {job.id: job for job in connection.execute(jobs.where(of_thread))}
            if (job := others.get(self._id(id))) is not None:
                # A commit without an answer leaves the row, and the work has not begun.
                return "begun" if (job.worker, job.attempt) == (self._worker, 1) else "known"
            of_message = runs.c.run_id == _message_run(self._id(id))
            if connection.execute(select(runs.c.run_id).where(of_message)).first() is not None:
                return "known"
            if len(others) >= most:
                return "full"
            connection.execute(insert(background_jobs).values(row))
        return "begun"

    def keeps(self, id: str, attempt: int | None = None) -> bool:
        """Return False if a job or its attempt has ended or was dropped: no effects follow."""
        query = select(background_jobs.c.id).where(background_jobs.c.id == self._id(id))
        if attempt is not None:
            query = query.where(background_jobs.c.attempt == attempt)
        with aborting():
            return self._backend.database.row(query) is not None

    def end(self, id: str, message: HumanMessage, attempt: int) -> None:
        """Send the message of an attempt that has ended, if `keeps` is True for the attempt."""
        send = partial(_send, self._backend, self._id(id), self.thread, message, attempt)
        try:
            # Without an end: no other process has the result.
            self._backend.database.retried(send, seconds=math.inf)
        except Exception:
            # After the end of this worker, the job is reported as lost, or begins again.
            logger.exception("The result of job %s of thread %s is not sent.", id, self.thread)

    def drop(self, id: str) -> bool:
        """Forget a job whose result is not needed any more; False if there is no such job."""
        with aborting(), self._backend.database.begin() as connection:
            return drop_jobs(connection, background_jobs.c.id == self._id(id))

    def _id(self, id: str) -> str:
        # In the state of a thread, ids are short.
        return f"{self.thread}/{id}"


def _dumped(call: BackgroundCall, channels: Mapping[str, object]) -> bytes:
    """Serialize the call of a job; ArgumentError names a value that cannot be stored."""
    states = {
        # Untracked values stay out of databases: a resumed thread has none, either.
        name: {k: v for k, v in state.items() if not isinstance(channels.get(k), UntrackedValue)}
        for name, (state, _) in call["runtimes"].items()
    }
    runtimes = {name: (states[name], info) for name, (_, info) in call["runtimes"].items()}
    try:
        return dump({**call, "runtimes": runtimes})
    except Exception as error:  # values of any class
        parts = {f"`{name}`": value for name, value in {**call["call"]["args"], **states}.items()}
        for name, value in [*parts.items()]:
            if isinstance(value, Mapping):
                parts |= {f"{name}, key {key!r}": part for key, part in value.items()}
        place = "the call"
        for name, value in parts.items():
            try:
                dump(value)
            except Exception:
                place = name  # a key comes after its argument
        raise ArgumentError(
            f"background tool {call['job']['tool']!r}",
            f"gets what another worker cannot get: {place} cannot be stored: {error}.",
            'Take only what it needs from the state, InjectedState("key"), or write '
            'background(tool, on_loss="report").',
        ) from error


def drop_jobs(connection: Connection, those: ColumnElement[bool]) -> bool:
    """Forget background jobs, which have no more effects; False if no job matches."""
    statement = delete(background_jobs).where(those).returning(background_jobs.c.id)
    return connection.execute(statement).first() is not None


@dataclass(frozen=True, slots=True)
class LostJob:
    """A job of a worker that has ended, to begin again here within the rest of its time."""

    backend: Backend
    jobs: SharedJobs
    call: BackgroundCall
    run: Row[Any]
    attempt: int
    seconds: float

    @property
    def agent(self) -> RegisteredAgent:
        """The agent with the tool."""
        return self.backend.agents[self.run.agent]

    def begin(self) -> None:
        """Begin the work; for an async agent, as a task of the running event loop."""
        backend = self.backend
        try:
            graph, message = self.agent.graph, message_of(self.run)
            config = config_of(self.run, message, message.trace)
            store = graph.store or TenantStore(backend.database, self.run.tenant, in_run=True)
            repeat_job(
                graph,
                self.jobs,
                self.call,
                attempt=self.attempt,
                timeout=self.seconds,
                config={**config, "callbacks": [*backend.callbacks]},
                runtime=Runtime(
                    context=coerced_context(message.context, graph.context_schema), store=store
                ),
                asynchronous=self.agent.asynchronous,
            )
        except Exception:
            # The row names a living worker, so no other worker would report the job.
            logger.exception("Job %s does not begin again.", self.call["id"])
            lost = lost_message(self.call, self.attempt)
            # In a thread, because the database may make it wait.
            backend.database.threads.submit(self.jobs.end, self.call["id"], lost, self.attempt)


def take_lost_jobs(backend: Backend, worker: str, most: int) -> list[LostJob]:
    """Take repeatable jobs of workers that have ended, to begin the jobs again.

    A job whose thread is locked comes later, as in `ThreadQueue.take_over`. A job whose agent or
    tool is missing here is left to another worker.
    """
    of_job = background_jobs.c.run == runs.c.run_id
    query = select(background_jobs.c.id, background_jobs.c.thread_id, background_jobs.c.attempt)
    query = query.join(runs, of_job).where(runs.c.agent.in_([*backend.agents]))
    query = query.where(_IS_LOST, _may_be_repeated(backend)).order_by(background_jobs.c.deadline)
    # One by one, so that other workers get jobs, too.
    taken = (_take(backend, worker, row) for row in backend.database.rows(query))
    return [*islice(filter(None, taken), most)]


def _take(backend: Backend, worker: str, row: Row[Any]) -> LostJob | None:
    """Take a job for a worker; None if another worker was first, or for a faulty row."""
    of_attempt = background_jobs.c.id == row.id, background_jobs.c.attempt == row.attempt
    seconds = (background_jobs.c.deadline - backend.database.now).label("seconds")
    is_alive = select(workers.c.id).where(workers.c.id == worker)
    fault = logged("Job %s does not begin again.", row.id)
    with fault, backend.database.begin() as connection:
        thread = lock_thread(connection, row.thread_id, skip_locked=True)
        job = connection.execute(select(background_jobs, seconds).where(*of_attempt)).first()
        # A worker without a row has ended: other workers would take the job.
        if thread is None or job is None or connection.execute(is_alive).first() is None:
            return None
        changed = update(background_jobs).where(*of_attempt)
        try:
            call: BackgroundCall = load(job.call)
            name = call["call"]["name"]
        except Exception:
            # Its class is missing, for example. The job is reported as lost.
            logger.exception("The call of job %s cannot be read.", row.id)
            connection.execute(changed.values(call=None))
            return None
        run = connection.execute(select(runs).where(runs.c.run_id == job.run)).first()
        if run is None:
            return None
        tool = tools_of(backend.agents[run.agent].graph).get(name)
        if background_on_loss(tool) != "repeat":
            return None
        attempt = row.attempt + 1
        values = {"worker": worker, "attempt": attempt, "lost": dump(lost_message(call, attempt))}
        # The row may have gone since: `drop` does not lock the thread.
        if connection.execute(changed.values(values).returning(background_jobs.c.id)).first():
            jobs = SharedJobs(backend, Lease(row.thread_id, thread.epoch), run, worker)
            return LostJob(backend, jobs, call, run, attempt, job.seconds)
    return None


def hand_over(connection: Connection, worker: str) -> None:
    """Let other workers begin the jobs of a stopped worker, without the loss of an attempt."""
    # A locked row belongs to a job that ends now. To wait for the row could be a deadlock.
    jobs = select(background_jobs.c.id).where(background_jobs.c.worker == worker)
    free = background_jobs.c.id.in_(jobs.with_for_update(skip_locked=True))
    more = background_jobs.c.handovers + 1
    connection.execute(update(background_jobs).where(free).values(handovers=more))


def report_lost_jobs(backend: Backend) -> int:
    """Report each lost job to its thread, except repeatable jobs; return the number of reports.

    A job whose report fails holds up no other job.
    """
    lost = select(background_jobs).where(_IS_LOST, ~_may_be_repeated(backend))
    number = 0
    for row in backend.database.rows(lost):
        with logged("The loss of job %s is not reported.", row.id):
            message = load(row.lost)
            number += _send(backend, row.id, row.thread_id, message, row.attempt, skip_locked=True)
    if number:
        logger.warning("%d background jobs of workers that have ended are lost.", number)
    return number


_IS_LOST = background_jobs.c.worker.not_in(select(workers.c.id))


def _may_be_repeated(backend: Backend) -> ColumnElement[bool]:
    """Whether a lost job may begin once more; never null."""
    has_time = func.coalesce(background_jobs.c.deadline, 0.0) > backend.database.now
    has_attempts = background_jobs.c.attempt - background_jobs.c.handovers < MOST_ATTEMPTS
    return background_jobs.c.call.is_not(None) & has_attempts & has_time


def _send(
    backend: Backend,
    id: str,
    thread: str,
    message: HumanMessage,
    attempt: int,
    *,
    skip_locked: bool = False,
) -> bool:
    """Send the message of a job to its thread.

    False if the job was dropped, has sent a message, or was begun again after this attempt.
    """
    # In one transaction: a job whose worker is killed here must not be lost and sent, too.
    with backend.database.begin() as connection:
        # First the thread, as everywhere: two orders of locks are a deadlock.
        row = lock_thread(connection, thread, skip_locked=skip_locked)
        if row is None:
            return False
        taken = delete(background_jobs).filter_by(id=id, attempt=attempt)
        run_id = connection.execute(taken.returning(background_jobs.c.run)).scalar()
        run = connection.execute(select(runs).where(runs.c.run_id == run_id)).first()
        # The record of a run can be deleted, and its jobs with it.
        if run is None:
            return False
        # A worker may report jobs of other agents.
        agent = backend.agents.get(run.agent)
        busy = STEER if agent is not None and can_be_steered(agent.graph) else "queue"
        input = b64encode(dump({"messages": [message]})).decode()
        # With the settings of the run.
        job = message_of(run).again(_message_run(id), input, busy=busy, trace=None)
        # A busy thread queues the message when its run ends, unless the run has read the message.
        if row.status in BUSY:
            backend.queue.add_run(connection, job, metadata=run.metadata)
        else:
            backend.queue.queue_new(connection, row, job, metadata=run.metadata)
    return True


def _message_run(id: str) -> str:
    """The id of the run with the message of a job."""
    # Ids of runs are parts of URLs, and ids of threads may have slashes.
    return hashlib.sha256(id.encode()).hexdigest()[:32]
