"""The HTTP application of a service."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib.metadata import version
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agent_factory.errors import AgentFactoryError, ArgumentError
from agent_factory.review import DecisionNotAllowed
from agent_factory.serve.agents import Agents
from agent_factory.serve.json_response import JsonResponse
from agent_factory.serve.principal import Authenticate, principal_of
from agent_factory.serve.runs import Runs
from agent_factory.serve.threads import Threads
from agent_factory.service import (
    AlreadyDecided,
    ClaimedByOther,
    DatabaseUnavailable,
    NotFound,
    Service,
    ThreadBusy,
)

Endpoint = Callable[[Request], Awaitable[Response]]

_STATUS: dict[type[Exception], int] = {
    NotFound: 404,
    ThreadBusy: 409,
    AlreadyDecided: 409,
    ClaimedByOther: 409,
    DecisionNotAllowed: 422,
    ArgumentError: 422,
    DatabaseUnavailable: 503,
}


def create_app(service: Service, authenticate: Authenticate | None = None) -> Starlette:
    """An application that serves the agents of a service to clients of LangGraph's API.

    It starts no worker: call `service.start()`, or run workers elsewhere.

    Args:
        service: The service.
        authenticate: Says who makes a request, and for which tenant: a function, or an async one,
            that takes the request and returns a `Principal`, or None to refuse it. Without it,
            only requests from this machine are served.

    Returns:
        A Starlette application, for uvicorn or any other ASGI server.

    >>> from tempfile import mkdtemp
    >>> from agent_factory.service import Service
    >>> app = create_app(Service(f"sqlite:///{mkdtemp()}/desk.db"))
    >>> sorted({route.path for route in app.routes})[:2]
    ['/assistants/count', '/assistants/search']
    """
    agents = Agents(service)
    threads, runs = Threads(service), Runs(service, agents)

    def known(path: str, method: str, endpoint: Endpoint) -> Route:
        """A route whose endpoint knows the principal."""

        async def serve(request: Request) -> Response:
            request.state.principal = await principal_of(request, authenticate)
            return await endpoint(request)

        return Route(path, serve, methods=[method])

    async def ok(_: Request) -> Response:
        return JsonResponse({"ok": True})

    async def info(_: Request) -> Response:
        return JsonResponse({"version": version("agent-factory"), "flags": {"assistants": True}})

    thread, run = "/threads/{thread}", "/threads/{thread}/runs/{run}"
    agent = "/assistants/{assistant}"
    return Starlette(
        routes=[
            Route("/ok", ok),
            Route("/info", info),
            known("/assistants/search", "POST", agents.search),
            known("/assistants/count", "POST", agents.count),
            known(agent, "GET", agents.get),
            known(f"{agent}/graph", "GET", agents.graph),
            known(f"{agent}/schemas", "GET", agents.schemas),
            known("/threads", "POST", threads.create),
            known("/threads/search", "POST", threads.search),
            known("/threads/count", "POST", threads.count),
            known(thread, "GET", threads.get),
            known(thread, "PATCH", threads.change),
            known(thread, "DELETE", threads.delete),
            known(f"{thread}/state", "GET", threads.state),
            known(f"{thread}/state", "POST", threads.change_state),
            known(f"{thread}/state/checkpoint", "POST", threads.state_at),
            known(f"{thread}/state/{{checkpoint}}", "GET", threads.state),
            known(f"{thread}/history", "POST", threads.history),
            known(f"{thread}/runs", "GET", runs.search),
            known(f"{thread}/runs", "POST", runs.create),
            known(f"{thread}/runs/stream", "POST", runs.stream),
            known(f"{thread}/runs/wait", "POST", runs.wait),
            known(run, "GET", runs.get),
            known(f"{run}/join", "GET", runs.join),
            known(f"{run}/stream", "GET", runs.join_stream),
            known(f"{run}/cancel", "POST", runs.cancel),
            known("/runs", "POST", runs.create),
            known("/runs/stream", "POST", runs.stream),
            known("/runs/wait", "POST", runs.wait),
        ],
        exception_handlers={AgentFactoryError: _refused, HTTPException: _failed},
    )


async def _refused(_: Request, error: Any) -> Response:
    """A request that the service refuses."""
    status = next((_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS), 500)
    return JsonResponse({"detail": str(error)}, status_code=status)


async def _failed(_: Request, error: Any) -> Response:
    return JsonResponse({"detail": error.detail}, status_code=error.status_code)
