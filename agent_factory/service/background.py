"""Background jobs: work that goes on in a worker when the run that has begun it has ended.

Each has a row from its begin to its end. The row is deleted in the transaction that sends its
message, so there is one message for each job: its result, or that it is lost with its worker.
"""

from __future__ import annotations

import hashlib
import logging
import math
from base64 import b64encode
from functools import partial
from typing import Any

from langchain_core.messages import HumanMessage
from sqlalchemy import ColumnElement, Connection, Row, delete, func, insert, select

from agent_factory.service.backend import Backend
from agent_factory.service.events import dump, load
from agent_factory.service.jobs import MessageJob, read_job
from agent_factory.service.leases import Lease, aborting
from agent_factory.service.steering import STEER, can_be_steered
from agent_factory.service.tables import background_jobs, runs, workers
from agent_factory.service.thread_queue import BUSY, lock_thread

logger = logging.getLogger("agent_factory.service")


class SharedJobs:
    """Store of the background jobs of one run.

    Args:
        backend: The parts of the service.
        lease: The lease of the run's thread.
        run: The id of the run.
        worker: The id of the worker that does the work.
    """

    def __init__(self, backend: Backend, lease: Lease, run: str, worker: str) -> None:
        self._backend, self._lease, self._run, self._worker = backend, lease, run, worker

    @property
    def thread(self) -> str:
        """The id of the run's thread."""
        return self._lease.thread_id

    def begin(self, id: str, lost: HumanMessage, most: int) -> bool:
        """Keep a job whose work begins now; False if the thread has as many as it may have.

        Args:
            id: The id of the job.
            lost: The message to send if the worker ends before the job does.
            most: How many jobs the thread may have.

        Raises:
            LeaseLost: The run has lost its thread, so the work must not begin.
        """
        of_thread = background_jobs.c.thread_id == self.thread
        values = {"run": self._run, "worker": self._worker, "lost": dump(lost)}
        with aborting(), self._backend.database.begin() as connection:
            # Calls of one turn begin at once, and each counts those before it.
            lock_thread(connection, self.thread)
            self._lease.check(connection)
            count = select(func.count()).select_from(background_jobs).where(of_thread)
            if connection.execute(count).scalar_one() >= most:
                return False
            row = {"id": self._id(id), "thread_id": self.thread, **values}
            connection.execute(insert(background_jobs).values(row))
        return True

    def keeps(self, id: str) -> bool:
        """Return False if a job has ended or was dropped: it must have no more effects."""
        query = select(background_jobs.c.id).where(background_jobs.c.id == self._id(id))
        with aborting(), self._backend.database.read() as connection:
            return connection.execute(query).first() is not None

    def end(self, id: str, message: HumanMessage) -> None:
        """Send the message of a job that has ended, unless the job was dropped."""
        send = partial(_send, self._backend, self._id(id), self.thread, message)
        try:
            # As long as it takes: nobody else has the result.
            self._backend.database.retried(send, seconds=math.inf)
        except Exception:
            # It is reported as lost when this worker has ended.
            logger.exception("The result of job %s of thread %s is not sent.", id, self.thread)

    def drop(self, id: str) -> bool:
        """Forget a job, whose result is not wanted any more; False if it was not kept."""
        with aborting(), self._backend.database.begin() as connection:
            return drop_jobs(connection, background_jobs.c.id == self._id(id))

    def _id(self, id: str) -> str:
        # In the state of a thread, ids are short.
        return f"{self.thread}/{id}"


def drop_jobs(connection: Connection, those: ColumnElement[bool]) -> bool:
    """Forget background jobs, which have no more effects; False if there were none."""
    statement = delete(background_jobs).where(those).returning(background_jobs.c.id)
    return connection.execute(statement).first() is not None


def report_lost_jobs(backend: Backend) -> int:
    """Send, for each background job whose worker has ended, that it is lost; return how many.

    A job whose thread is locked comes later, as in `ThreadQueue.take_over`.
    """
    lost = background_jobs.c.worker.not_in(select(workers.c.id))
    with backend.database.read() as connection:
        rows = connection.execute(select(background_jobs).where(lost)).all()
    number = 0
    for row in rows:
        number += _send(backend, row.id, row.thread_id, load(row.lost), skip_locked=True)
    return number


def _send(
    backend: Backend, id: str, thread: str, message: HumanMessage, *, skip_locked: bool = False
) -> bool:
    """Send the message of a job to its thread; False if the job was dropped or has sent one."""
    # In one transaction, so that a job whose worker is killed here is not lost and sent, too.
    with backend.database.begin() as connection:
        # First the thread, as all do that write to it: two orders of locks are a deadlock.
        row = lock_thread(connection, thread, skip_locked=skip_locked)
        if row is None:
            return False
        taken = (
            delete(background_jobs)
            .where(background_jobs.c.id == id)
            .returning(background_jobs.c.run)
        )
        run_id = connection.execute(taken).scalar()
        run = connection.execute(select(runs).where(runs.c.run_id == run_id)).first()
        # The record of a run can be deleted, and its jobs with it.
        if run is None:
            return False
        # A worker may report jobs of an agent that it does not have.
        agent = backend.agents.get(run.agent)
        busy = STEER if agent is not None and can_be_steered(agent.graph) else "queue"
        # Ids of runs are parts of URLs, and those of threads may have slashes.
        job = _message_job(run, hashlib.sha256(id.encode()).hexdigest()[:32], message, busy)
        backend.queue.add_run(connection, job, metadata=run.metadata)
        # On a busy thread it is queued when the run before it ends, if that has not read it.
        if row.status not in BUSY:
            backend.queue.queue(connection, job)
    return True


def _message_job(run: Row[Any], id: str, message: HumanMessage, busy: str) -> MessageJob:
    """The message of a job, with the settings of the run that has begun it."""
    names = ("context", "config", "stream", "subgraphs", "interrupt_before", "interrupt_after")
    first = read_job(run.payload)
    return MessageJob(
        run=id,
        thread=run.thread_id,
        tenant=run.tenant,
        agent=run.agent,
        priority=run.priority,
        input=b64encode(dump({"messages": [message]})).decode(),
        busy=busy,
        # A run that `reindex` has found has none.
        **{name: getattr(first, name) for name in names if isinstance(first, MessageJob)},
    )
