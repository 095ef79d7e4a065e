"""Health of a process, for monitoring: `/ok`, `/live`, `/ready` and `/metrics`."""

from __future__ import annotations

import secrets

from anyio import CapacityLimiter, move_on_after, to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agent_factory.errors import ArgumentError
from agent_factory.serve.errors import logger, refusal, require_extra
from agent_factory.serve.json_response import JsonResponse
from agent_factory.serve.metrics import exposition
from agent_factory.serve.principal import is_local
from agent_factory.service import Service

_READY_WITHIN = 5.0
"""Seconds until a silent database counts as not available."""

_CHECKS_AT_ONCE = 2
"""Most checks at once, so that hanging checks do not take all threads of the server."""


def problems(service: Service) -> list[str]:
    """Return the reasons why the process of a service cannot work now; an empty list without any.

    They name no host, no user and no tenant, since everybody can read them.
    """
    try:
        workers = {worker["id"] for worker in service.workers()}
    # Any error: the first connection creates tables, with errors of the driver.
    except Exception as error:
        logger.warning("Not ready: %s", error)
        return ["The database is not available; the log says why."]
    # Workers delete the rows of workers without a sign of life.
    if service.worker_id is not None and service.worker_id not in workers:
        return ["The worker of this process has given no sign of life for too long."]
    return [f"The thread {name} has ended; the log says why." for name in service.ended_threads]


def health_routes(service: Service, metrics_token: str | None = None) -> list[Route]:
    """Routes for the life, the readiness and the metrics of this process.

    Args:
        metrics_token: Bearer token for the metrics. None lets only requests from this machine
            read them.

    Raises:
        ArgumentError: The token is empty.
    """
    if metrics_token is not None and not metrics_token.strip():
        raise ArgumentError("metrics_token", "must not be empty.", "Leave it out, or set it.")
    at_once = CapacityLimiter(_CHECKS_AT_ONCE)

    async def ok(_: Request) -> Response:
        return JsonResponse({"ok": True})

    async def live(_: Request) -> Response:
        return JsonResponse({"live": True})

    async def ready(_: Request) -> Response:
        reasons = ["The database has not answered in time."]
        with move_on_after(_READY_WITHIN):
            # A thread that hangs is left behind.
            reasons = await to_thread.run_sync(
                problems, service, abandon_on_cancel=True, limiter=at_once
            )
        # Without its server, an engine gives out no jobs, and all else works. Its fault may name
        # a host; the log has it.
        engine = {"name": service.engine.name, "ready": service.engine.fault() is None}
        answer = {"ready": not reasons, "problems": reasons, "engine": engine}
        return JsonResponse(answer, status_code=503 if reasons else 200)

    async def metrics(request: Request) -> Response:
        sent = request.headers.get("authorization", "")
        if metrics_token is None and not is_local(request):
            raise HTTPException(
                403,
                "Metrics are shown to requests from this machine alone. Set a token for others: "
                "AGENT_FACTORY_METRICS_TOKEN.",
            )
        # As bytes, because `compare_digest` takes no text beyond ASCII.
        if metrics_token is not None and not secrets.compare_digest(
            sent.encode(), f"Bearer {metrics_token}".encode()
        ):
            text = "Send the token of the metrics as `Authorization: Bearer ...`."
            raise HTTPException(401, text, {"WWW-Authenticate": "Bearer"})
        require_extra("metrics", "The route /metrics")
        # In a thread: gauges ask the database.
        content, kind = await to_thread.run_sync(exposition)
        return Response(content, headers={"Content-Type": kind})

    endpoints = {"/ok": ok, "/live": live, "/ready": ready, "/metrics": metrics}
    return [Route(path, endpoint) for path, endpoint in endpoints.items()]


def health_app(service: Service, metrics_token: str | None = None) -> Starlette:
    """Application with these routes alone, for a worker; `metrics_token` is as in `create_app`.

    >>> from tempfile import mkdtemp
    >>> from starlette.testclient import TestClient
    >>> service = Service(f"sqlite:///{mkdtemp()}/desk.db")
    >>> TestClient(health_app(service)).get("/ready").json()
    {'ready': True, 'problems': [], 'engine': {'name': 'embedded', 'ready': True}}
    """
    routes = health_routes(service, metrics_token)
    return Starlette(routes=routes, exception_handlers={HTTPException: refusal})
