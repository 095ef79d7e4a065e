"""Step to version 2: rows of threads say what is to be done next, in place of the queue of DBOS."""

from __future__ import annotations

import json

from sqlalchemy import Connection, Index, insert, select, text, update

from agent_factory.service.cron import next_time, zone_of
from agent_factory.service.jobs import DecisionJob
from agent_factory.service.migrations.columns import add_column
from agent_factory.service.migrations.dbos import (
    count_jobs,
    pending_jobs,
    refuse_jobs,
    stored_schedules,
)
from agent_factory.service.migrations.schema import Report
from agent_factory.service.tables import (
    assistant_versions,
    assistants,
    clock,
    crons,
    rates,
    refuse_replacements,
    runs,
    schedules,
    threads,
    webhooks,
)

# What a worker has that was killed begins once more, and what that worker writes is refused.
_QUEUE_AGAIN = """UPDATE service_threads
    SET status = 'queued', owner = NULL, epoch = epoch + 1, due = :now, priority = coalesce(
        (SELECT priority FROM service_runs WHERE run_id = service_threads.run), 0)
    WHERE status IN ('queued', 'running')"""

_ROWS_AT_ONCE = 1000


def migrate(connection: Connection, report: Report) -> None:
    """Take jobs and schedules from the tables of DBOS."""
    # This locks service_threads. Processes of older versions write there before they queue a job:
    # they wait until this transaction has ended, and are refused then.
    columns = (threads.c.due, threads.c.priority)
    for column in (*columns, runs.c.decision, runs.c.started_at):
        add_column(connection, column)
    add_column(connection, runs.c.updated_at, default="0")
    connection.execute(text("UPDATE service_runs SET updated_at = created_at WHERE updated_at = 0"))
    indexes: dict[str, Index] = {str(index.name): index for index in threads.indexes | runs.indexes}
    for name in ("service_threads_due", "service_runs_started"):
        indexes[name].create(connection, checkfirst=True)
    for table in (schedules, assistants, assistant_versions, crons, webhooks, rates):
        table.create(connection, checkfirst=True)
    refuse_replacements(connection)
    now = connection.execute(select(clock())).scalar_one()
    connection.execute(text(_QUEUE_AGAIN), {"now": now})

    total = count_jobs(connection)
    for number, job in enumerate(pending_jobs(connection), 1):
        data = json.loads(job.payload)
        # Another job of the run, if there is one, has come after this one was cancelled.
        is_newest = (runs.c.run_id == data["run"], runs.c.job == job.id)
        if data["kind"] == DecisionJob.kind:
            connection.execute(update(runs).where(*is_newest).values(decision=job.payload))
        if job.begins_at is not None:
            of_thread = (threads.c.thread_id == data["thread"], threads.c.status == "queued")
            of_run = select(runs.c.run_id).where(*is_newest).scalar_subquery()
            later = update(threads).where(*of_thread, threads.c.run == of_run)
            connection.execute(later.values(due=job.begins_at))
        if number % _ROWS_AT_ONCE == 0:
            report(number, total)

    for schedule in stored_schedules(connection):
        message = json.loads(schedule.payload)
        name = message.pop("name")
        due = next_time(schedule.cron, zone_of(schedule.timezone), now)
        if schedule.due is not None:
            due = schedule.due.timestamp()
        row = {"name": name, "cron": schedule.cron, "timezone": schedule.timezone, "due": due}
        connection.execute(insert(schedules).values(**row, payload=json.dumps(message)))
    refuse_jobs(connection)
