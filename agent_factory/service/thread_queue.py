"""ThreadQueue: how messages and decisions become jobs of the engine, in the order of their thread.

All functions work in a transaction that has locked the row of the thread.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Row, case, insert, literal, select, update

from agent_factory.service.database import Database
from agent_factory.service.engine import QUEUE, Engine, Job
from agent_factory.service.leases import take_lease
from agent_factory.service.tables import audit, limits, runs, threads, waits

CANCELLED = "cancelled"
"""Stands for the job of a run that was cancelled: no attempt continues it."""


def lock_thread(connection: Connection, thread_id: str) -> Row[Any] | None:
    """The row of a thread, which stays as it is until the transaction ends."""
    locked = select(threads).where(threads.c.thread_id == thread_id).with_for_update()
    return connection.execute(locked).first()


class ThreadQueue:
    """Queues, holds and cancels the work of threads, and keeps the rows of the tables in step.

    All methods work in a transaction that has locked the row of the thread.
    """

    def __init__(self, database: Database, engine: Engine) -> None:
        self._database, self._engine = database, engine

    def queue(self, connection: Connection, run_id: str, payload: Mapping[str, Any]) -> str:
        """Queue a job of a run, and return its id."""
        run = connection.execute(select(runs).where(runs.c.run_id == run_id)).one()
        number = connection.execute(
            update(threads)
            .where(threads.c.thread_id == run.thread_id)
            .values(jobs=threads.c.jobs + 1, updated_at=self._database.now)
            .returning(threads.c.jobs)
        ).scalar_one()
        # The engine orders jobs by the time of their creation, in SQLite by the second, and then
        # by their ids.
        job = f"{run.thread_id}/{number:08d}"
        limited = select(limits.c.tenant).where(limits.c.tenant == run.tenant)
        queue = QUEUE if connection.execute(limited).first() is None else queue_of(run.tenant)
        self._engine.add(
            connection, Job(job, run.thread_id, json.dumps(payload), run.priority, queue)
        )
        connection.execute(update(runs).where(runs.c.run_id == run_id).values(job=job))
        return job

    def hold(self, connection: Connection, run_id: str) -> None:
        """Keep a message until the review that its thread waits for is decided."""
        connection.execute(update(runs).where(runs.c.run_id == run_id).values(job=None))

    def settle(
        self,
        connection: Connection,
        thread_id: str,
        status: str,
        *,
        job: str | None = None,
        error: str | None = None,
    ) -> None:
        """Write that a job has ended, and queue the messages that the thread held.

        The thread gets the status if no other job follows the one that has ended.
        """
        held = select(runs.c.run_id, runs.c.payload).where(
            runs.c.thread_id == thread_id, runs.c.job.is_(None)
        )
        released = connection.execute(held.order_by(runs.c.seq)).all()
        for run_id, payload in released:
            self.queue(connection, run_id, json.loads(payload))
        is_last: Any = literal(not released)
        if job is not None:
            is_last = threads.c.jobs == int(job.rpartition("/")[2])
        connection.execute(
            update(threads)
            .where(threads.c.thread_id == thread_id)
            .values(
                status=case((is_last, status), else_="queued"),
                error=error,
                owner=None,
                updated_at=self._database.now,
            )
        )

    def end_runs(self, connection: Connection, thread: Row[Any], by: str) -> list[Row[Any]]:
        """End the run of a thread, and withdraw the messages behind it; return their runs."""
        behind = (runs.c.thread_id == thread.thread_id) & (runs.c.job != CANCELLED)
        if thread.job is not None:  # the numbers of jobs have as many digits
            behind &= runs.c.job > thread.job
        found = select(runs).where(
            behind
            | ((runs.c.thread_id == thread.thread_id) & runs.c.job.is_(None))
            | ((runs.c.run_id == thread.run) & literal(thread.status in ("running", "waiting")))
        )
        ended = [*connection.execute(found.order_by(runs.c.seq)).all()]
        ids = [run.run_id for run in ended]
        connection.execute(update(runs).where(runs.c.run_id.in_(ids)).values(job=CANCELLED))
        if thread.status in ("running", "waiting"):
            self.end_run(connection, thread, by)
        return ended

    def end_run(self, connection: Connection, thread: Row[Any], by: str) -> None:
        """End the run that works on a thread, or that waits in it.

        What it has written stays. The engine still has its job, which cannot write any more.
        """
        if thread.status == "waiting":
            self.cancel_waits(connection, thread, by)
            return
        take_lease(connection, thread.thread_id)
        connection.execute(update(runs).where(runs.c.run_id == thread.run).values(job=CANCELLED))
        self.record(connection, thread, by, "cancel")
        self.settle(connection, thread.thread_id, "idle")

    def cancel_waits(self, connection: Connection, row: Row[Any], by: str) -> None:
        """Close what a thread waits for; its calls do not run.

        Args:
            connection: The transaction.
            row: The row of the thread, or of one of its waits.
            by: Who does it, for the audit.
        """
        connection.execute(
            update(waits)
            .where(waits.c.thread_id == row.thread_id, waits.c.decided_at.is_(None))
            .values(decided_at=self._database.now, decided_by=by, decision='{"type": "cancel"}')
        )
        connection.execute(update(runs).where(runs.c.run_id == row.run).values(job=CANCELLED))
        self.record(connection, row, by, "cancel")
        self.settle(connection, row.thread_id, "idle")

    def record(
        self, connection: Connection, row: Row[Any], who: str, what: str, detail: Any = None
    ) -> None:
        """Add an entry to the audit, about the row of a thread or of a wait."""
        connection.execute(
            insert(audit).values(
                at=self._database.now,
                tenant=row.tenant,
                thread_id=row.thread_id,
                wait_id=getattr(row, "wait_id", None),
                who=who,
                what=what,
                detail=None if detail is None else json.dumps(detail, default=str),
            )
        )


def queue_of(tenant: str) -> str:
    """The name of the queue of a tenant with limits."""
    return f"{QUEUE}:{tenant}"
