"""Operations: run the workers of a service, and keep its tables in order."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Self

from sqlalchemy import select, update

from agent_factory.errors import ArgumentError
from agent_factory.service.arguments import seconds_of
from agent_factory.service.audit import verify_entries
from agent_factory.service.backend import Backend
from agent_factory.service.engines.engine import Engine, Outcome, engine_of
from agent_factory.service.migrations import Upgrade
from agent_factory.service.notices import NoticeQueue, OnWait, sender
from agent_factory.service.rows import having
from agent_factory.service.scheduled_messages import ScheduledMessages
from agent_factory.service.tables import workers
from agent_factory.service.upkeep import forget, reindex
from agent_factory.service.webhooks import WebhookQueue
from agent_factory.service.worker import Worker


class Operations:
    """Part of a `Service` for those who operate it: workers, and the upkeep of the tables.

    >>> from tempfile import mkdtemp
    >>> from agent_factory.service import Service
    >>> with Service(f"sqlite:///{mkdtemp()}/desk.db") as service:
    ...     [worker["draining"] for worker in service.workers()]
    [False]
    """

    _scheduled_messages: ScheduledMessages

    def __init__(self, backend: Backend, on_wait: OnWait | None) -> None:
        self._backend = backend
        self._worker: Worker | None = None
        self._on_wait, self._notices = on_wait, NoticeQueue(backend)
        self.webhooks = WebhookQueue(backend)
        """Requests that a server makes when runs end or pause."""

    # Workers

    def start(self, *, slots: int = 8) -> None:
        """Run jobs in this process.

        Args:
            slots: The most runs at once. Runs of async agents share one thread.
        """
        if self._worker is not None:
            raise ArgumentError("start", "this service has been started.", "Call stop() first.")
        worker = Worker(self._backend, self._scheduled_messages.submit_due, slots=slots)
        worker.start()
        self._worker = worker
        if self._on_wait is not None:
            self._notices.start(sender(self._on_wait))

    def stop(self, *, seconds: float = 30.0) -> bool:
        """Take no more jobs in this process, and wait for running jobs.

        Args:
            seconds: The longest time to wait. Other workers take over jobs that still run.

        Returns:
            Whether all jobs have ended. Python waits at its end for threads of other jobs; a
            process that has to end now calls `os._exit`.
        """
        if self._worker is None:
            return True
        try:
            self._notices.stop()
            return self._worker.stop(seconds)
        finally:
            self._worker = None

    @property
    def worker_id(self) -> str | None:
        """The id of the worker in this process, if it was started."""
        return None if self._worker is None else self._worker.id

    @property
    def ended_threads(self) -> list[str]:
        """The names of threads of this process that have ended by mistake."""
        log, signals, worker = self._backend.log, self._backend.signals, self._worker
        alive = {"agent-factory-events": log.is_alive, "agent-factory-listen": signals.is_alive}
        ended = [name for name, is_alive in alive.items() if not is_alive]
        return ended if worker is None else [*ended, *worker.ended_threads]

    @property
    def engine(self) -> Engine:
        """The engine, which gives out the jobs."""
        return self._backend.engine

    def use(self, engine: Engine | str) -> None:
        """Let another engine give out the jobs, as `Service(engine=...)`, before `start`.

        Raises:
            ArgumentError: The text is not the URL of an engine, or the service has been started.
        """
        if self._worker is not None:
            raise ArgumentError("use", "this service has been started.", "Call stop() first.")
        self._backend.use(engine_of(engine))

    def carry_out(self, job: str) -> Outcome:
        """Begin a job, or continue it, in this thread: for an `Engine` of your own.

        The service has to be started. The promise is that of `Work.carry_out`.

        Args:
            job: The id of the job, as `Engine.start` gets it.

        Raises:
            ArgumentError: The service has not been started.
        """
        if self._worker is None:
            raise ArgumentError("carry_out", "this service has not been started.", "Call start().")
        return self._worker.carry_out(job)

    @property
    def is_drained(self) -> bool:
        """True if the worker in this process was asked to end."""
        return self._worker is not None and self._worker.is_drained

    def workers(self) -> list[dict[str, Any]]:
        """The living workers.

        Returns:
            For each worker its `id`, `host`, `process`, `slots` and `agents`, whether it is
            `draining`, and the version of its `tables`.
        """
        rows = self._backend.database.rows(select(workers).order_by(workers.c.id))
        return [{"id": row.id, "draining": row.draining, **json.loads(row.detail)} for row in rows]

    def drain(self, worker: str | None = None) -> list[str]:
        """Ask workers to end after their runs; return the ids of the workers.

        Args:
            worker: The id of a worker; None means all.
        """
        statement = update(workers).values(draining=True).where(*having(workers, id=worker))
        with self._backend.database.begin() as connection:
            return [*connection.execute(statement.returning(workers.c.id)).scalars()]

    # Upkeep

    def pending_upgrade(self) -> Upgrade:
        """The steps from the version of the database's tables to the version of this code."""
        return self._backend.database.pending_upgrade()

    def upgrade(self, report: Callable[[int, int, int], None] | None = None) -> Upgrade:
        """Upgrade the tables of an older version to this version; all rows stay.

        An interrupted step leaves nothing, and may be taken again. Two processes that upgrade at
        once take each step once.

        Args:
            report: Gets the progress of a step: its version, the done part, and the whole.

        Returns:
            The taken steps.

        Raises:
            ServiceError: Running workers do not work with the new tables.
            DatabaseVersionError: The tables are newer than this code.

        >>> from tempfile import mkdtemp
        >>> from agent_factory.service import Service
        >>> Service(f"sqlite:///{mkdtemp()}/desk.db").upgrade().steps
        {}
        """
        return self._backend.database.upgrade(report or (lambda *_: None))

    def reindex(self) -> Iterator[str]:
        """Write the tables of threads and waits again, from the checkpoints.

        Needed after a restore of checkpoints from a backup, or after rows were deleted by hand. Add
        the agents before.

        Returns:
            An iterator over the ids of the threads; reading an id writes its thread.
        """
        return reindex(self._backend)

    def forget(self, *, older_than: str | float, tenant: str | None = None) -> Iterator[str]:
        """Delete threads that wait for nothing and have not changed for some time.

        Args:
            older_than: The time since the last change, in seconds or as "30d".
            tenant: The tenant of the threads; None takes all.

        Returns:
            An iterator over the ids of the threads; reading an id deletes its thread.
        """
        seconds = seconds_of("older_than", older_than)
        assert seconds is not None
        return forget(self._backend, seconds, tenant)

    def verify_audit(self, *, head: str | None = None) -> str:
        """Check the audit, and return its head: the newest number, and a hash over all entries.

        Args:
            head: An earlier head, stored elsewhere. Only an earlier head shows that the newest
                entries of a thread were removed, or that all hashes were written again.

        Raises:
            AuditTampered: Entries were changed, removed, inserted or moved.
            ArgumentError: `head` is not a head.
            DatabaseUnavailable: A transaction with an entry stays open for 30 seconds.
        """
        return verify_entries(self._backend.database, head)

    def close(self) -> None:
        """Stop, and close all connections."""
        try:
            self.webhooks.stop()
            self.stop()
        finally:
            self._backend.close()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:  # then Python does not call `__exit__`
            self._backend.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
