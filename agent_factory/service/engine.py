"""Engine: queues jobs and hands them to workers. The only module that imports DBOS.

The engine drops duplicates, and knows priorities, limits and schedules. It does not make a run
safe: that is the lease of its thread. It does not keep the order of a thread: it has one job of it
at a time.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

from dbos import DBOS, DBOSClient, EnqueueOptions
from sqlalchemy import Connection, make_url

from agent_factory.service.database import Database
from agent_factory.service.errors import ServiceError
from agent_factory.service.sqlite_clock import with_clock

JOB_FORMAT = "1"
"""Version of the form of a job. DBOS leaves jobs of another version to workers of that version."""

QUEUE = "agent_factory"
"""Queue of tenants without limits."""

_PASSED_ON = "~2"  # follows the id of a job in that of its second entry in the engine

_APPLICATION = "agent_factory"
_WORKFLOW = "agent_factory.run_job"
_SCHEDULE_WORKFLOW = "agent_factory.run_schedule"
_POLL_SECONDS = 0.1
_URGENCY = 1001  # the engine's priorities begin at 1, and 1 is the highest

logger = logging.getLogger("dbos")
logger.setLevel(logging.WARNING)
# Without a handler, DBOS prints its log itself, and the application's logging does not get it.
logger.addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True)
class Job:
    """A piece of work on one thread.

    Args:
        id: The same id is the same job: submitted twice, it runs once.
        payload: What a worker reads, as JSON text.
        priority: Higher is earlier; from -1000 to 1000.
        queue: The queue, as `queue_of` names it.
        delay: Seconds until it may run.
    """

    id: str
    payload: str
    priority: int = 0
    queue: str = QUEUE
    delay: float | None = None


def queue_of(tenant: str | None = None, agent: str | None = None) -> str:
    """The name of a queue.

    Args:
        tenant: A tenant with limits; None for all that have none.
        agent: An agent that not all workers have, and whose workers alone listen to the queue.

    >>> queue_of(), queue_of("acme"), queue_of("acme", "desk: new")
    ('agent_factory', 'agent_factory:acme', 'agent_factory/desk%3A%20new:acme')
    """
    of_agent = QUEUE if agent is None else f"{QUEUE}/{quote(agent, safe='')}"
    return of_agent if tenant is None else f"{of_agent}:{tenant}"


class Engine:
    """DBOS on the database of a service; one that runs jobs per process."""

    def __init__(self, database: Database) -> None:
        self._database = database
        database.setups.append(self.create)
        self._own_client: DBOSClient | None = None
        self._dbos: DBOS | None = None
        self._slots: int | None = None

    # Clients

    @property
    def _client(self) -> DBOSClient:
        if self._own_client is None:
            # Calls such as those about schedules begin no transaction of the database before.
            self._database.set_up()
            self._own_client = DBOSClient(
                system_database_engine=self._database.engine,
                application_name=_APPLICATION,
                lazy=True,
                retry_connection_errors=False,
            )
        return self._own_client

    def create(self) -> None:
        """Create the tables of the engine and its queue."""
        url = self._database.direct_url  # migrations prepare statements
        if self._database.is_sqlite:
            url = with_clock(make_url(url)).render_as_string(hide_password=False)
        DBOS.migrate(url)

    def add(self, connection: Connection, job: Job) -> None:
        """Queue a job when the transaction commits; a known id changes nothing."""
        options: EnqueueOptions = {
            "workflow_name": _WORKFLOW,
            "queue_name": job.queue,
            "workflow_id": job.id,
            "app_version": JOB_FORMAT,
            "priority": _URGENCY - job.priority,
        }
        if job.delay is not None:
            options["delay_seconds"] = job.delay
        self._client.enqueue_in_transaction(connection, options, job.payload)

    def cancel(self, job: str) -> None:
        """Take a job from its queue. A job that runs is not stopped by this."""
        self._client.cancel_workflow(job)

    def jobs_of(self, thread_id: str) -> list[str]:
        """The ids of the jobs of a thread that are known."""
        workflows = self._client.list_workflows(
            workflow_id_prefix=f"{thread_id}/", load_input=False, load_output=False
        )
        ids = [workflow.workflow_id for workflow in workflows]
        # The prefix "a/" is also that of the jobs of a thread "a/b".
        return [id for id in ids if id.rpartition("/")[0] == thread_id]

    def forget(self, jobs: list[str]) -> None:
        """Delete what is known about jobs."""
        self._client.delete_workflows(jobs)

    def limit(self, queue: str, *, concurrency: int | None, per_minute: int | None) -> None:
        """Create the queue of a tenant, or change its limits."""
        self._client.register_queue(
            queue,
            global_concurrency=concurrency,
            limiter=None if per_minute is None else {"limit": per_minute, "period": 60.0},
            polling_interval_sec=_POLL_SECONDS,
        )

    def schedule(self, name: str, cron: str, timezone: str | None, payload: str) -> None:
        """Submit the payload at the times of a cron expression, in place of one of this name."""
        self._client.apply_schedules(
            [
                {
                    "schedule_name": name,
                    "workflow_name": _SCHEDULE_WORKFLOW,
                    "schedule": cron,
                    "cron_timezone": timezone,
                    "context": payload,
                }
            ]
        )

    def unschedule(self, name: str) -> None:
        """Delete a schedule."""
        self._client.delete_schedule(name)

    # Workers

    def start(
        self,
        worker: str,
        slots: int,
        run: Callable[[str, str], dict[str, object]],
        submit: Callable[[str, datetime], None],
        agents: Collection[str],
    ) -> None:
        """Begin to run jobs in threads of this process.

        Args:
            worker: A name that no process has had before.
            slots: How many jobs a worker runs at once.
            run: Gets the id and the payload of a job; returns its outcome.
            submit: Gets the payload of a schedule, and when it was due.
            agents: The agents of this worker.
        """
        global _run, _submit, _engine
        if _engine not in (None, self):
            raise ServiceError(
                "start",
                "another service runs in this process; the engine is one for a process.",
                "Stop it first, or add the agents of both to one service.",
            )
        _run, _submit, _engine, self._slots = run, submit, self, slots
        try:
            self._dbos = DBOS(
                config={
                    "name": _APPLICATION,
                    "system_database_url": self._database.url,
                    "system_database_engine": self._database.engine,
                    "application_version": JOB_FORMAT,
                    "executor_id": worker,
                    # `create` has run them, through the direct URL.
                    "run_migrations": False,
                    "use_listen_notify": False,
                    "log_level": "WARNING",
                    "scheduler_polling_interval_sec": 1.0,
                    # No notification is awaited here, but a stop waits for the thread that polls.
                    "notification_listener_polling_interval_sec": _POLL_SECONDS,
                }
            )
            self._client.register_queue(
                QUEUE,
                worker_concurrency=slots,
                polling_interval_sec=_POLL_SECONDS,
            )
            DBOS.listen_queues(self._queues_for(agents))
            DBOS.launch()
        except BaseException:
            # Otherwise no service could start in this process any more.
            self.stop(worker, 0)
            raise

    def listen(self, agents: Collection[str]) -> None:
        """Listen to the queues that were created since, except to those of other agents."""
        assert self._dbos is not None
        # DBOS reads the list each second, and has no public way to change it after the launch.
        self._dbos._listening_queues = self._queues_for(agents)

    def _queues_for(self, agents: Collection[str]) -> list[str]:
        queues = tuple(queue_of(agent=agent) for agent in agents)
        names = {QUEUE, *(queue.name for queue in self._client.list_queues())}
        return [
            name
            for name in names
            if not name.startswith(f"{QUEUE}/") or name.partition(":")[0] in queues
        ]

    def pass_on(self, queue: str, *, concurrency: int | None, per_minute: int | None) -> None:
        """Put the job that this thread runs into another queue, under the same id.

        Args:
            queue: The queue of an agent, which is created.
            concurrency: The most jobs of it at once.
            per_minute: The most that begin within a minute.
        """
        self._client.register_queue(
            queue,
            worker_concurrency=self._slots if concurrency is None else None,
            global_concurrency=concurrency,
            limiter=None if per_minute is None else {"limit": per_minute, "period": 60.0},
            polling_interval_sec=_POLL_SECONDS,
        )
        (job,) = self._client.list_workflows(workflow_ids=[str(DBOS.workflow_id)])
        assert job.input is not None
        # The engine drops a second entry of one id, and has this job already: hence another id.
        options: EnqueueOptions = {
            "workflow_name": job.name,
            "queue_name": queue,
            # One that is repeated, since its worker has died meanwhile, is the same.
            "workflow_id": f"{job.workflow_id}{_PASSED_ON}",
            "app_version": JOB_FORMAT,
            "priority": job.priority or _URGENCY,
        }
        self._client.enqueue(options, *job.input["args"])

    def stop(self, worker: str, seconds: float) -> None:
        """Take no more jobs, and wait for those that run."""
        global _engine

        def runs() -> bool:
            return bool(
                self._client.list_workflows(
                    status="PENDING", executor_id=worker, load_input=False, load_output=False
                )
            )

        running = True
        try:
            # A job whose run has just ended is about to be noted as ended. DBOS itself looks once a
            # second.
            end = time.monotonic() + min(seconds, 1.0)
            while time.monotonic() < end and (running := runs()):
                time.sleep(0.02)
        finally:
            DBOS.destroy(workflow_completion_timeout_sec=int(seconds) if running else 0)
            _engine = None

    def rescue(self, alive: Callable[[], Collection[str]]) -> list[str]:
        """Queue the jobs again that run on workers which are not alive; return their ids."""
        running = self._client.list_workflows(
            status="PENDING",
            name=[_WORKFLOW, _SCHEDULE_WORKFLOW],
            load_input=False,
            load_output=False,
        )
        if not running:
            return []
        living = alive()  # after the list: a worker is known before it takes a job
        ids_by_queue = defaultdict(list)
        for workflow in running:
            if workflow.executor_id not in living:
                ids_by_queue[workflow.queue_name].append(workflow.workflow_id)
        for queue, ids in ids_by_queue.items():
            # Without its queue, a job would leave the limits of its tenant.
            self._client.resume_workflows(ids, queue_name=queue)
        return [id for ids in ids_by_queue.values() for id in ids]

    def close(self) -> None:
        """Release what a client holds."""
        if self._own_client is not None:
            self._own_client.destroy()
            self._own_client = None


# DBOS registers functions once per process, and recovers jobs by their names.

_run: Callable[[str, str], dict[str, object]]
_submit: Callable[[str, datetime], None]
_engine: Engine | None = None


@DBOS.workflow(name=_WORKFLOW, max_recovery_attempts=None)
def _run_job(payload: str) -> dict[str, object]:
    job = DBOS.workflow_id
    assert job is not None
    return _run(job.removesuffix(_PASSED_ON), payload)


@DBOS.workflow(name=_SCHEDULE_WORKFLOW)
def _run_schedule(due: datetime, payload: str) -> None:
    _submit(payload, due)
