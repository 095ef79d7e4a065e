"""Endpoint of Restate: the address at which it calls a process about the jobs of agents."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Iterable
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import restate
import uvicorn
from restate.endpoint import Endpoint

_LOG = logging.getLogger("agent_factory.service")

Attempt = Callable[[restate.Context, list[Any]], Awaitable[str]]
"""Answers a request about a job."""


class RestateEndpoint:
    """Listens at an address from its first agent on.

    Args:
        address: Such as "0.0.0.0:9080". Processes of one machine may share a port.
        attempt: Answers the requests.
        patience: The longest time until an answer, in seconds.
    """

    def __init__(self, address: str, attempt: Attempt, patience: float) -> None:
        self._address, self._attempt = urlsplit(f"//{address}"), attempt
        self._options: dict[str, Any] = {
            "invocation_retry_policy": restate.InvocationRetryPolicy(
                initial_interval=timedelta(seconds=0.1),
                max_interval=timedelta(seconds=3),
                max_attempts=2**31,  # by default Restate pauses a job after 70
            ),
            # A process that is silent for longer is frozen. Restate adds five seconds.
            "abort_timeout": timedelta(seconds=patience + 1),
            # The id of a job that is over can be started again.
            "idempotency_retention": timedelta(0),
            "journal_retention": timedelta(0),
        }
        self._endpoint = Endpoint()  # type: ignore[no-untyped-call]
        self._server: uvicorn.Server | None = None

    @property
    def services(self) -> set[str]:
        """The names of its agents in Restate."""
        return {*self._endpoint.services}

    def add(self, services: Iterable[str]) -> None:
        """Answer requests about more agents.

        Raises:
            OSError: Another program has the address.
        """
        if self._server is None:
            self._listen()
        for name in services:
            service = restate.Service(name, **self._options)
            service.handler("carry_out")(self._attempt)
            self._endpoint.bind(service)

    def _listen(self) -> None:
        host, port = self._address.hostname or "127.0.0.1", self._address.port or 9080
        self._bound = socket.create_server((host, port), reuse_port=hasattr(socket, "SO_REUSEPORT"))
        keys = [key for key in os.environ.get("RESTATE_IDENTITY_KEYS", "").split(",") if key]
        if not keys and not host.startswith(("127.", "localhost")):
            _LOG.warning("All who reach %s can start jobs: set RESTATE_IDENTITY_KEYS.", host)
        self._endpoint.identity_keys = keys
        # Connections that end with their request: balancers of connections share the jobs too.
        options: dict[str, Any] = {"headers": [("connection", "close")], "lifespan": "off"}
        app = self._endpoint.app()  # type: ignore[no-untyped-call]
        config = uvicorn.Config(app, ws="none", log_config=None, proxy_headers=False, **options)
        self._server = uvicorn.Server(config)
        self._serving = asyncio.create_task(self._server.serve([self._bound]))

    async def close(self, running: Iterable[asyncio.Task[Any]], seconds: float) -> None:
        """Take no more requests, wait some seconds for running jobs, and answer their requests."""
        if self._server is not None:
            self._server.should_exit = True
            if tasks := {*running}:
                await asyncio.wait(tasks, timeout=seconds)
            await asyncio.wait({self._serving}, timeout=1)
            self._bound.close()
