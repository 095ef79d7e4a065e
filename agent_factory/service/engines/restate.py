"""Restate as the engine of a service: a request for each job, which holds ids alone.

Restate calls the processes, and asks again after five seconds about a job that still runs. So any
load balancer shares the jobs of several machines, and a frozen process is noticed soon. Restate
keeps ids and timers, but no journal: no code has to be deterministic, and an update breaks no job.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
from collections.abc import Collection
from typing import Any
from urllib.parse import quote, urlsplit

from agent_factory.errors import require

require("restate", __name__)

import httpx  # noqa: E402
import restate  # noqa: E402

from agent_factory.service.engines.engine import JobRef, Outcome  # noqa: E402
from agent_factory.service.engines.remote import RemoteEngine, parts_of  # noqa: E402
from agent_factory.service.engines.restate_endpoint import RestateEndpoint  # noqa: E402

_PATIENCE = 5.0  # seconds of a request whose job goes on
_WAITING = 100  # requests without a slot: each keeps a connection, and a file descriptor


class Restate(RemoteEngine):
    """Engine for `restate://HOST:PORT/NAME?admin=URL&worker=URL&listen=HOST:PORT`.

    All processes with the same agents need one `worker`, under which Restate reaches each: those of
    one machine share its port, those of several machines stand behind a load balancer. Of several
    URLs, Restate calls the newest alone. With `restate+https://`, calls of Restate are encrypted;
    the environment variable `RESTATE_AUTH_TOKEN` is their token. `RESTATE_IDENTITY_KEYS` are the
    public keys of the server, separated by commas: without, a process trusts each caller.

    Args:
        url: The address of Restate's ingress, by default with port 8080. NAME keeps services apart
            that share a Restate, by default "agent-factory". `admin` is the admin API, by default
            port 9070 of the same host. `worker` is by default port 9080 of this machine. `listen`
            is the address at which this process listens, by default that of `worker`.

    Raises:
        ArgumentError: The URL has an unknown parameter.
    """

    name = "restate"

    def __init__(self, url: str) -> None:
        super().__init__()
        form = "restate://HOST:8080/NAME?admin=URL&worker=URL&listen=HOST:PORT"
        parts, options = parts_of(url, form)
        scheme = "https" if parts.scheme == "restate+https" else "http"
        host, port = parts.hostname or "127.0.0.1", parts.port or 8080
        self._ingress = f"{scheme}://{host}:{port}"
        self._prefix = parts.path.strip("/") or "agent-factory"
        self._admin = options.get("admin", f"{scheme}://{host}:9070").rstrip("/")
        self._worker = options.get("worker") or f"http://{_own_address(host, port)}:9080"
        self._address = options.get("listen") or urlsplit(self._worker).netloc

    async def _open(self) -> None:
        token = os.environ.get("RESTATE_AUTH_TOKEN")
        headers = {"authorization": f"Bearer {token}"} if token else {}
        self._client = httpx.AsyncClient(headers=headers, timeout=10, trust_env=False)
        self._requests, self._known = 0, ""
        self._endpoint = RestateEndpoint(self._address, self._attempt, _PATIENCE)
        await super()._open()

    def _service(self, agent: str) -> str:
        """The name of the agent in Restate."""
        return f"{self._prefix}." + re.sub(r"[^A-Za-z0-9-]", lambda m: f"_{ord(m[0]):x}_", agent)

    async def _ask(self, method: str, url: str, **options: Any) -> Any:
        answer = await self._client.request(method, url, **options)
        if answer.is_error:
            raise ConnectionError(f"{url} answers {answer.status_code}: {answer.text[:300]}")
        return answer.json() if answer.content else None

    async def _look(self) -> None:
        """Tell Restate the URL of this process, also when Restate has forgotten it."""
        if not (ours := self._endpoint.services):
            await self._ask("GET", f"{self._ingress}/restate/health")
            return
        url = f"{self._admin}/deployments"
        found = await self._client.get(f"{url}/{self._known}") if self._known else None
        if found is None or found.status_code == 404:
            body = {"uri": self._worker, "force": True, "use_http_11": True}
            self._known = (await self._ask("POST", url, json=body))["id"]
        elif ours - {s["name"] for s in found.json()["services"]}:
            raise ConnectionError(f"a process with other agents is at {self._worker}, too")

    async def _send(self, job: JobRef, delay: float, turn: int = 0) -> Any:
        """Have Restate call a process about a job, in some seconds."""
        url = f"{self._ingress}/{self._service(job.agent)}/carry_out/send?delay={delay:.3f}s"
        key = {"idempotency-key": f"{turn % 2}/{quote(job.id)}"}
        return await self._ask("POST", url, headers=key, json=[job.agent, job.id, turn])

    async def _forget(self, job: JobRef) -> None:
        for turn in (0, 1):
            # What Restate knows it does not take again, but tells its name.
            sent = await self._send(job, 3600, turn)
            await self._ask("PATCH", f"{self._admin}/invocations/{sent['invocationId']}/kill")

    async def _take_jobs(self, agents: Collection[str]) -> None:
        self._endpoint.add(map(self._service, agents))
        self._known = ""  # Restate does not know these agents yet

    async def _attempt(self, ctx: restate.Context, call: list[Any]) -> str:
        (agent, job, turn), outcome = call, Outcome("later", 0.1)
        self._requests += 1
        try:
            if self._requests > self._slots + _WAITING:
                outcome = Outcome("later", min(60, _PATIENCE / 2 * (turn + 1)))
            else:
                task, is_new = self._call(job)
                await asyncio.wait({task}, timeout=_PATIENCE)
                outcome = task.result() if is_new and task.done() else outcome
            if outcome.status == "later":
                # The key of this call is not free before its end.
                await self._send(JobRef(job, "", "", agent), max(0.1, outcome.seconds), turn + 1)
        except Exception as error:
            # Restate must not see the content of a job.
            raise restate.exceptions.RetryableError(type(error).__name__) from None
        finally:
            self._requests -= 1
        return outcome.status

    async def _leave(self, seconds: float) -> None:
        await self._endpoint.close(self._running.values(), seconds)

    async def _end(self, seconds: float) -> None:
        await super()._end(seconds)
        await self._client.aclose()


def _own_address(host: str, port: int) -> str:
    """The address of this machine on the way to a host: nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, port))
        return str(probe.getsockname()[0])
