"""ThreadQueue: what comes next on a thread. The engine has one job of a thread at a time."""

from __future__ import annotations

import json
from typing import Any, Literal

from sqlalchemy import Connection, Row, insert, select, update

from agent_factory.service.arguments import check_name
from agent_factory.service.audit import append_entry
from agent_factory.service.database import Database
from agent_factory.service.engine import Engine, Job, queue_of
from agent_factory.service.jobs import MessageJob, ThreadJob, UndoJob, read_job
from agent_factory.service.leases import take_lease
from agent_factory.service.tables import limits, runs, threads, waits

BUSY = frozenset({"queued", "running", "waiting"})
"""States of a thread that takes no other message now."""

HIGHEST_PRIORITY = 1000
"""The highest priority of a run, and that of what undoes one."""


def lock_thread(connection: Connection, thread_id: str) -> Row[Any] | None:
    """The row of a thread, which stays as it is until the transaction ends."""
    query = select(threads).where(threads.c.thread_id == thread_id).with_for_update()
    return connection.execute(query).first()


class ThreadQueue:
    """Queues, holds and cancels the work of threads, and keeps the rows of the tables in step.

    Methods that take a connection work in a transaction that has locked the row of the thread.
    Messages of a thread that is busy have no job yet: they are queued one by one, each when the one
    before has ended.
    """

    def __init__(self, database: Database, engine: Engine) -> None:
        self._database, self._engine = database, engine

    def limit(self, tenant: str, *, concurrency: int | None, per_minute: int | None) -> None:
        """Limit the runs of a tenant, over all workers."""
        values = {"concurrency": concurrency, "per_minute": per_minute}
        self._engine.limit(queue_of(tenant), concurrency=concurrency, per_minute=per_minute)
        row = self._database.insert(limits).values(tenant=tenant, **values)
        with self._database.begin() as connection:
            connection.execute(
                row.on_conflict_do_update(index_elements=[limits.c.tenant], set_=values)
            )

    def queue(self, connection: Connection, job: ThreadJob) -> None:
        """Give the engine a job of a run, whose thread is not busy."""
        thread_id, tenant = job.thread, job.tenant
        is_limited = select(limits.c.tenant).where(limits.c.tenant == tenant).exists()
        number, has_limits, now = connection.execute(
            update(threads)
            .where(threads.c.thread_id == thread_id)
            .values(
                jobs=threads.c.jobs + 1,
                run=job.run,
                agent=job.agent,
                status="queued",
                updated_at=self._database.now,
            )
            .returning(threads.c.jobs, is_limited, self._database.now)
        ).one()
        # With leading zeros, since jobs of a thread are compared as text.
        job_id = f"{thread_id}/{number:08d}"
        queue = queue_of(tenant if has_limits else None)
        begins_at = job.begins_at if isinstance(job, MessageJob) else None
        delay = max(0.0, (begins_at or now) - now) or None
        self._engine.add(connection, Job(job_id, job.to_text(), job.priority, queue, delay))
        statement = update(runs).where(runs.c.run_id == job.run).values(job=job_id, status="queued")
        connection.execute(statement)

    def add_run(self, connection: Connection, job: ThreadJob, **values: object) -> None:
        """Write the run of a job, whose turn comes later."""
        connection.execute(
            insert(runs).values(
                run_id=job.run,
                thread_id=job.thread,
                tenant=job.tenant,
                agent=job.agent,
                priority=job.priority,
                payload=job.to_text(),
                status="queued",
                created_at=self._database.now,
                **values,
            )
        )

    def pass_on(self, agent: str, tenant: str) -> None:
        """Give the job that this thread carries out to the workers that have the agent."""
        of_tenant = select(limits).where(limits.c.tenant == tenant)
        with self._database.read() as connection:
            limit = connection.execute(of_tenant).first()
        self._engine.pass_on(
            queue_of(None if limit is None else tenant, agent),
            concurrency=None if limit is None else limit.concurrency,
            per_minute=None if limit is None else limit.per_minute,
        )

    def settle(
        self,
        connection: Connection,
        thread_id: str,
        run_id: str,
        status: Literal["done", "failed", "cancelled"],
        **values: object,
    ) -> None:
        """Write how a run has ended, and queue the next message of its thread."""
        statement = update(runs).where(runs.c.run_id == run_id).values(status=status, **values)
        connection.execute(statement)
        connection.execute(
            update(threads)
            .where(threads.c.thread_id == thread_id)
            .values(
                status="failed" if status == "failed" else "idle",
                error=values.get("error"),
                owner=None,
                updated_at=self._database.now,
            )
        )
        following = self.following(connection, thread_id)
        if following is not None:
            job = read_job(following.payload)
            assert job is not None  # a run that `reindex` has found is not queued
            self.queue(connection, job)

    def following(self, connection: Connection, thread_id: str) -> Row[Any] | None:
        """The run whose message comes next on a busy thread."""
        query = select(runs).where(
            runs.c.thread_id == thread_id, runs.c.job.is_(None), runs.c.status == "queued"
        )
        # What undoes a run comes before the messages behind it.
        first = query.order_by(runs.c.priority != HIGHEST_PRIORITY, runs.c.seq).limit(1)
        return connection.execute(first).first()

    def end_run(
        self, connection: Connection, row: Row[Any], by: str, *, undo: bool = False
    ) -> None:
        """End the run that is queued for a thread, works on it or waits in it.

        What it has written stays. If the engine still has its job, that cannot write any more.

        Args:
            connection: The transaction.
            row: The row of the thread, or of one of its waits.
            by: Who does it, for the audit.
            undo: Whether the effects of the run are undone next.
        """
        self.withdraw(connection, row, by)
        # A worker that runs it can write no more from here on.
        take_lease(connection, row.thread_id)
        self.record(connection, row, by, "cancel")
        if undo:
            job = UndoJob(
                run=f"undo-{row.run}",
                thread=row.thread_id,
                tenant=row.tenant,
                agent=row.agent,
                priority=HIGHEST_PRIORITY,
                of=row.run,
            )
            self.add_run(connection, job)
        self.settle(connection, row.thread_id, row.run, "cancelled")

    def withdraw(self, connection: Connection, row: Row[Any], by: str) -> None:
        """Ask no more what a thread waits for, and say so in the audit."""
        open_waits = connection.execute(
            update(waits)
            .where(waits.c.thread_id == row.thread_id, waits.c.decided_at.is_(None))
            .values(decided_at=self._database.now, decided_by=by, decision='{"type": "cancel"}')
            .returning(waits)
        ).all()
        for wait in open_waits:
            call = {"tool": wait.tool, "args": json.loads(wait.args)}
            self.record(connection, wait, by, "withdraw", call)

    def end_runs(self, connection: Connection, thread: Row[Any], by: str) -> list[Row[Any]]:
        """End the run of a busy thread and those of the messages behind it, and return them."""
        query = select(runs).where(runs.c.thread_id == thread.thread_id, runs.c.status.in_(BUSY))
        rows = [*connection.execute(query.order_by(runs.c.seq)).all()]
        # All at first: `settle` queues the next run of the thread that is not cancelled.
        ids = [run.run_id for run in rows]
        cancelled = update(runs).where(runs.c.run_id.in_(ids)).values(status="cancelled")
        connection.execute(cancelled)
        self.end_run(connection, thread, by)
        return rows

    def record(
        self, connection: Connection, row: Row[Any], who: str, what: str, detail: object = None
    ) -> None:
        """Add an entry to the audit, about the row of a thread or of a wait.

        Raises:
            ArgumentError: `who` is not a name.
        """
        check_name(who)
        append_entry(
            self._database,
            connection,
            tenant=row.tenant,
            thread_id=row.thread_id,
            wait_id=getattr(row, "wait_id", None),
            who=who,
            what=what,
            detail=None if detail is None else json.dumps(detail, default=str),
        )
