"""Temporal as the engine of a service: a standalone activity for each job, which holds ids alone.

There is no workflow: no code has to be deterministic, and an update breaks no running job.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from datetime import timedelta
from functools import cache
from typing import Any

from agent_factory.errors import require

require("temporal", __name__)

from temporalio import activity, client, common, envconfig, exceptions, runtime, worker  # noqa: E402
from temporalio.service import RPCError, RPCStatusCode  # noqa: E402

from agent_factory.service.engines.engine import JobRef, Outcome  # noqa: E402
from agent_factory.service.engines.remote import RemoteEngine, parts_of  # noqa: E402
from agent_factory.service.engines.temporal_search import SearchAttributes  # noqa: E402

_SECOND, _FOREVER = timedelta(seconds=1), timedelta(days=365)
_DEAD_AFTER = 5 * _SECOND  # without a heartbeat
_RETRIES = common.RetryPolicy(initial_interval=_SECOND / 10, maximum_interval=10 * _SECOND)
_QUIET = exceptions.ApplicationErrorCategory.BENIGN  # nobody has to be warned


class Temporal(RemoteEngine):
    """Engine for `temporal://HOST:PORT?namespace=NAME&prefix=NAME`; server 1.31 or newer.

    Temporal's own environment and profiles (`TEMPORAL_API_KEY`, `TEMPORAL_TLS`) hold where the URL
    says nothing. Services that share a namespace need different prefixes, "agent-factory" by
    default: a job is the activity `PREFIX/THREAD/NUMBER` of the task queue `PREFIX-AGENT`.

    Args:
        url: The address of the server, by default with port 7233.

    Raises:
        ArgumentError: The URL has an unknown parameter.
    """

    name = "temporal"

    def __init__(self, url: str) -> None:
        super().__init__()
        parts, options = parts_of(url, "temporal://HOST:7233?namespace=NAME&prefix=NAME")
        self._prefix = options.pop("prefix", "agent-factory")
        self._settings: Any = {**envconfig.ClientConfig.load_client_connect_config(), **options}
        self._settings.setdefault("target_host", "127.0.0.1:7233")
        if parts.netloc:
            self._settings["target_host"] = parts.netloc + ("" if parts.port else ":7233")

    async def _open(self) -> None:
        self._client: client.Client | None = None
        self._connects, self._searchable, self._abandons = asyncio.Lock(), SearchAttributes(), False
        self._pollers, self._polls = set[worker.Worker](), set[asyncio.Task[None]]()
        await super()._open()

    async def _connected(self) -> client.Client:
        async with self._connects:
            if self._client is None:
                self._client = await client.Client.connect(**self._settings, runtime=_runtime())
                await self._searchable.find(self._client)
            return self._client

    async def _look(self) -> None:
        connected = await self._connected()
        await connected.service_client.check_health(timeout=_DEAD_AFTER)
        await self._searchable.find(connected)

    async def _send(self, job: JobRef, delay: float) -> object:
        # An activity that has ended refuses no start: the database knows which jobs are over.
        return await (await self._connected()).start_activity(
            "carry-out",
            job.id,
            id=f"{self._prefix}/{job.id}",
            task_queue=f"{self._prefix}-{job.agent}",
            id_conflict_policy=common.ActivityIDConflictPolicy.USE_EXISTING,
            start_delay=_SECOND * delay or None,
            start_to_close_timeout=_FOREVER,
            heartbeat_timeout=_DEAD_AFTER,
            retry_policy=_RETRIES,
            priority=common.Priority(priority_key=3 - round(job.priority / 500)),
            search_attributes=self._searchable.of(job),
            summary=f"{job.agent}: thread {job.thread} of {job.tenant}",
        )

    async def _forget(self, job: JobRef) -> None:
        handle = (await self._connected()).get_activity_handle(f"{self._prefix}/{job.id}")
        try:
            await handle.terminate(reason="the run was cancelled")
        except RPCError as error:
            if error.status not in (RPCStatusCode.NOT_FOUND, RPCStatusCode.FAILED_PRECONDITION):
                raise

    async def _take_jobs(self, agents: Collection[str]) -> None:
        self._polls |= {asyncio.create_task(self._poll(agent)) for agent in agents}

    async def _poll(self, agent: str) -> None:
        while not self._leaves:
            try:
                poller = worker.Worker(
                    await self._connected(),
                    task_queue=f"{self._prefix}-{agent}",
                    activities=[self._attempt],
                    max_concurrent_activities=self._slots,
                    # A frozen process receives a job for each of its open polls.
                    activity_task_poller_behavior=worker.PollerBehaviorSimpleMaximum(1),
                    build_id="agent-factory",  # else seconds of CPU for a hash of all loaded code
                    graceful_shutdown_timeout=_FOREVER,
                    max_heartbeat_throttle_interval=_SECOND,
                )
                self._pollers.add(poller)
                self._note(agent, "")
                await poller.run()
            except Exception as error:
                self._note(agent, f"task queue of {agent!r}: {error!r}")
                await asyncio.sleep(1)

    @activity.defn(name="carry-out")
    async def _attempt(self, job: str) -> str:
        task, is_new = self._call(job)
        # The start is a sign of life itself: a short job sends no other.
        while not (await asyncio.wait({task}, timeout=1))[0] and not self._abandons:
            activity.heartbeat()
        outcome = task.result() if is_new and task.done() else Outcome("later")
        if outcome.status == "later":
            pause = _SECOND * max(0.1, outcome.seconds)
            raise exceptions.ApplicationError("later", next_retry_delay=pause, category=_QUIET)
        return outcome.status

    async def _leave(self, seconds: float) -> None:
        ends = {asyncio.create_task(poller.shutdown()) for poller in self._pollers}
        if self._running:
            await asyncio.wait({*self._running.values()}, timeout=seconds)
        self._abandons = True
        if ends:
            await asyncio.wait(ends | self._polls, timeout=2)
            # Temporal's threads use Python for a moment after an answer; an exit in it is an abort.
            await asyncio.sleep(0.2)


@cache
def _runtime() -> runtime.Runtime:
    """Temporal without its own warnings, dozens to standard output while a server is away."""
    logging = runtime.LoggingConfig(filter="error")
    return runtime.Runtime(telemetry=runtime.TelemetryConfig(logging=logging))
