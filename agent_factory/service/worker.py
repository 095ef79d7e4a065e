"""Worker: runs jobs in this process, and takes over those of workers that have died."""

from __future__ import annotations

import json
import logging
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from threading import Event, Thread
from uuid import uuid4

from sqlalchemy import delete, insert, select, update

from agent_factory.service.backend import Backend
from agent_factory.service.database import Database
from agent_factory.service.errors import DatabaseUnavailable
from agent_factory.service.inbox import Inbox
from agent_factory.service.reservations import expire_reservations
from agent_factory.service.runner import Runner
from agent_factory.service.tables import workers

logger = logging.getLogger("agent_factory.service")

BEAT_SECONDS = 1.0
"""How often a worker says that it is alive."""

DEAD_AFTER = 10.0
"""Seconds without a sign of life after which the jobs of a worker are taken over."""

_HOUR = 3600


class Worker:
    """Threads of this process that run jobs.

    Args:
        backend: The parts of the service.
        run_schedule: Gets the payload of a schedule, and when it was due.
        slots: How many jobs run at once; the same for all workers.
        dead_after: Seconds without a sign of life after which another worker is taken for dead.
    """

    def __init__(
        self,
        backend: Backend,
        run_schedule: Callable[[str, datetime], None],
        *,
        slots: int,
        dead_after: float = DEAD_AFTER,
    ) -> None:
        self._backend, self._slots, self._dead_after = backend, slots, dead_after
        self._runner, self._run_schedule = Runner(backend, lambda: self.id), run_schedule
        self._stop, self._drain = Event(), Event()
        self._beats = Thread(target=self.beat, name="agent-factory-beat", daemon=True)
        self.id = ""

    def start(self) -> None:
        """Begin to run jobs."""
        self._backend.database.retried(self._enter)
        try:
            self._beats.start()
        except BaseException:  # the limit of threads
            self._backend.engine.stop(self.id, 0)
            self._leave(self.id)
            raise

    def stop(self, seconds: float) -> None:
        """Take no more jobs, and wait for those that run, at most for some seconds."""
        self._stop.set()
        # First: a beat may let the worker enter once more.
        self._beats.join()
        self._backend.engine.stop(self.id, seconds)
        self._leave(self.id)

    @property
    def is_drained(self) -> bool:
        """True if somebody has asked this worker to end."""
        return self._drain.is_set()

    def _enter(self) -> None:
        """Begin under a new id: that of a worker that was given up is never used again."""
        database = self._backend.database
        self.id = f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:8]}"
        with database.begin() as connection:
            connection.execute(
                # Before the worker takes jobs: `rescue` takes over the jobs of workers without a
                # row.
                insert(workers).values(
                    id=self.id, beat=database.now, draining=False, detail=self._detail
                )
            )
        run, run_schedule = self._runner.run, self._run_schedule
        try:
            self._backend.engine.start(
                self.id, self._slots, run, run_schedule, self._backend.agents
            )
        except BaseException:
            # Without an id: a beat would keep a row alive whose worker runs no jobs.
            failed, self.id = self.id, ""
            self._leave(failed)
            raise

    def _leave(self, worker: str) -> None:
        """Delete the row of an id; if there is no database, another worker does it later."""
        with suppress(DatabaseUnavailable), self._backend.database.begin() as connection:
            connection.execute(delete(workers).where(workers.c.id == worker))

    @property
    def _detail(self) -> str:
        """Description of this worker for others, as JSON."""
        detail = {"host": socket.gethostname(), "process": os.getpid(), "slots": self._slots}
        return json.dumps({**detail, "agents": sorted(self._backend.agents)})

    def beat(self) -> None:
        """Give signs of life, and look after the service, until this worker stops."""
        turn = 0
        while not self._stop.wait(BEAT_SECONDS):
            turn += 1
            try:
                database = self._backend.database
                beat = update(workers).where(workers.c.id == self.id)
                # With the detail each time, since agents may be added while a worker runs.
                beat = beat.values(beat=database.now, detail=self._detail)
                with database.begin() as connection:
                    row = connection.execute(beat.returning(workers.c.draining)).first()
                # Another worker has deleted the row, since it saw no sign of life for too long.
                if row is None:
                    if self.id:  # it has none after a start that failed
                        logger.warning(
                            "Worker %s was given up; it continues under a new id.", self.id
                        )
                    # Its runs have lost their threads, so nothing is waited for.
                    self._backend.engine.stop(self.id, 0)
                    self._enter()
                elif row.draining:
                    self._drain.set()
                self._backend.engine.listen(self._backend.agents)
                if turn % 2 == 0:
                    self.look_after()
                if turn % _HOUR == 0:
                    self._backend.log.forget()
            except DatabaseUnavailable as error:
                logger.warning("%s", error)
            except Exception:
                # The thread goes on: without signs of life, others take over what runs here.
                logger.exception("Worker %s could not look after the service.", self.id)

    def look_after(self) -> None:
        """Take over what dead workers ran, and decide what nobody decided in time."""
        database = self._backend.database

        def living() -> set[str]:
            with database.read() as connection:
                return set(connection.execute(select(workers.c.id)).scalars())

        with database.alone("look after") as is_alone:
            if not is_alone:
                return  # another worker does it now
            with database.begin() as connection:
                dead = delete(workers).where(workers.c.beat < database.now - self._dead_after)
                for worker_id in connection.execute(dead.returning(workers.c.id)).scalars():
                    logger.warning(
                        "Worker %s gave no sign of life; its runs are taken over.", worker_id
                    )
            expire_reservations(database)
            jobs = self._backend.engine.rescue(living)
            if jobs:
                logger.warning("Took over %d runs of workers that have died.", len(jobs))
                self._backend.metrics.taken_over(len(jobs))
            Inbox(self._backend).expire(
                {agent.name: agent.review_within or 0.0 for agent in self._backend.agents.values()}
            )


def known_workers(database: Database) -> list[dict[str, object]]:
    """The workers that are alive."""
    query = select(workers).order_by(workers.c.id)
    with database.read() as connection:
        return [
            {"id": row.id, "draining": row.draining, **json.loads(row.detail)}
            for row in connection.execute(query)
        ]


def drain_workers(database: Database, worker: str | None) -> list[str]:
    """Ask one worker, or all, to end once their runs have ended; return their ids."""
    statement = update(workers).values(draining=True).returning(workers.c.id)
    if worker is not None:
        statement = statement.where(workers.c.id == worker)
    with database.begin() as connection:
        return [*connection.execute(statement).scalars()]
