"""Progress of a run for a waiting caller: the missing worker or decision, if nothing comes."""

from __future__ import annotations

import json
import time

from sqlalchemy import select

from agent_factory.service.backend import Backend
from agent_factory.service.errors import MessageHeld, NoWorker
from agent_factory.service.rows import logger
from agent_factory.service.steering import run_row
from agent_factory.service.tables import threads, waits, workers

_START = "Start one: agent-factory worker MODULE:SERVICE, or service.start()."


class Progress:
    """Notices for one caller of a run, who goes on waiting."""

    def __init__(self, backend: Backend, run: str) -> None:
        self._backend, self._run = backend, run
        self._since, self._has_said = time.monotonic(), False

    def news(self) -> None:
        """Note that a part has come."""
        self._since = time.monotonic()

    def notice(self) -> NoWorker | MessageHeld | None:
        """Return the missing worker or decision after a while without news: once, and log it."""
        if self._has_said or time.monotonic() - self._since < self._backend.pace.notice:
            return None
        self._since = time.monotonic()
        missing = self._backend.call(lambda: what_is_missing(self._backend, self._run))
        if missing is not None:
            self._has_said = True
            logger.warning("%s", missing)
        return missing

    def timed_out(self, state: str, seconds: float) -> TimeoutError:
        """The error of a caller after the timeout."""
        since = f" after {seconds:g} seconds"
        missing = self._backend.call(lambda: what_is_missing(self._backend, self._run, since))
        return missing or TimeoutError(f"Run {self._run!r} {state}{since}.")


def what_is_missing(
    backend: Backend, run_id: str, since: str = ""
) -> NoWorker | MessageHeld | None:
    """Return the missing worker or decision for which a run waits, as an error, or None."""
    subject, now = f"run {run_id!r}", backend.database.now
    with backend.database.read() as connection:
        run = run_row(connection, run_id)
        if run is None or run.status not in ("queued", "running"):
            return None
        of_thread = select(threads.c.status, threads.c.agent).filter_by(thread_id=run.thread_id)
        thread = connection.execute(of_thread).one()  # it has a run
        open_waits = select(waits.c.tool).filter_by(thread_id=run.thread_id, decided_at=None)
        tools = connection.execute(open_waits).scalars().all()
        alive = select(workers.c.detail).where(workers.c.beat > now - backend.pace.dead_after)
        details = [json.loads(detail) for detail in connection.execute(alive).scalars()]
    if run.job is None and thread.status == "waiting":
        reason = f"is held{since} and waits for a decision about {', '.join(map(repr, tools))}."
        hint = f"service.inbox().waits(thread={run.thread_id!r}) has it."
        return MessageHeld(subject, reason, hint)
    # The agent of the thread comes first, if this message is queued behind another message.
    agent = run.agent if run.job is not None else thread.agent
    agents = sorted({name for detail in details for name in detail["agents"]})
    if agent in agents:
        return None
    which = (
        f" with the agent {agent!r}; those that run have {agents}." if details else ": none runs."
    )
    return NoWorker(subject, f"is {run.status}{since} and waits for a worker{which}", _START)
