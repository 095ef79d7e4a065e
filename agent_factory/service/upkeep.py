"""Upkeep: writes the tables again from the checkpoints, and deletes old threads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from langchain_core.runnables import RunnableConfig
from sqlalchemy import delete, select, update

from agent_factory.review import Reviews
from agent_factory.service.backend import Backend
from agent_factory.service.errors import NotFound
from agent_factory.service.jobs import AGENT_KEY, JOB_KEY, RUN_KEY, TENANT_KEY, ThreadJob
from agent_factory.service.rows import having
from agent_factory.service.saver import FencedSaver
from agent_factory.service.tables import runs, threads, waits
from agent_factory.service.threads import delete_thread, insert_thread, title_of
from agent_factory.service.waits import write_waits


def reindex(backend: Backend) -> Iterator[str]:
    """Write the rows of threads and waits again from the checkpoints; yield the ids of threads.

    Threads of busy workers, of agents that were not added, and of another tenant by now do not
    change.
    """
    latest: dict[str, Mapping[str, object]] = {}
    for checkpoint in FencedSaver(backend.database).list(None):  # the newest first
        place = checkpoint.config["configurable"]
        if not place["checkpoint_ns"] and AGENT_KEY in checkpoint.metadata:
            latest.setdefault(place["thread_id"], checkpoint.metadata)
    for thread, metadata in latest.items():
        if metadata[AGENT_KEY] in backend.agents:
            with suppress(NotFound):
                _index(backend, thread, metadata)
        yield thread


def _index(backend: Backend, thread: str, metadata: Mapping[str, Any]) -> None:
    database, agent = backend.database, backend.agent(metadata[AGENT_KEY])
    tenant, run, job = metadata[TENANT_KEY], metadata[RUN_KEY], metadata[JOB_KEY]
    graph = agent.stored_in(FencedSaver(database))
    config: RunnableConfig = {"configurable": {"thread_id": thread}}
    snapshot = graph.get_state(config)
    pending = Reviews.of(graph).pending_of(snapshot)
    with database.begin() as connection:
        values = {
            "agent": agent.name,
            # The id of a job ends with its number, after which the next one counts.
            "jobs": int(job.rpartition("/")[2]),
            "run": run,
            "title": title_of(snapshot.values.get("messages", ())),
        }
        row = insert_thread(connection, backend, thread, tenant, **values)
        if row.status in ("queued", "running"):
            return
        # The message of the run is only in its state now: `read_job` knows the empty payload.
        place: dict[str, Any] = {"tenant": tenant, "agent": agent.name, "priority": 0}
        facts = {"payload": "{}", "status": "done", "job": job, "created_at": database.now}
        new_run = database.insert(runs).values(run_id=run, thread_id=thread, **place, **facts)
        connection.execute(new_run.on_conflict_do_nothing())
        open_waits = (waits.c.thread_id == thread) & waits.c.decided_at.is_(None)
        if pending:
            # Another version of the agent has asked them, for example before a tool has changed.
            digests = [call.digest for call in pending.calls] or [""]
            connection.execute(delete(waits).where(open_waits, waits.c.digest.not_in(digests)))
            # A job that was asked about something else at once has stored no checkpoint.
            newest = select(runs.c.job).where(runs.c.run_id == run)
            job = connection.execute(newest).scalar_one() or job
            work = ThreadJob(run=run, thread=thread, **place)
            stop = {"job": job, "checkpoint_id": snapshot.config["configurable"]["checkpoint_id"]}
            write_waits(connection, database, agent, work, pending, stop)
            return
        connection.execute(delete(waits).where(open_waits))
        if row.status == "waiting":
            idle = update(threads).where(threads.c.thread_id == thread).values(status="idle")
            connection.execute(idle)


def forget(backend: Backend, older_than: float, tenant: str | None) -> Iterator[str]:
    """Delete threads without waits that have not changed for so long; yield their ids."""
    database = backend.database
    is_over = threads.c.status.in_(("idle", "failed"))
    is_old = threads.c.updated_at <= database.now - older_than
    old = select(threads.c.thread_id).where(is_over, is_old, *having(threads, tenant=tenant))
    for thread in database.values(old):
        if delete_thread(backend, thread, None, "service", even_busy=False):
            yield thread
