"""The HTTP application of a service."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agent_factory.errors import AgentFactoryError, ArgumentError
from agent_factory.review import DecisionNotAllowed
from agent_factory.serve import ag_ui, langgraph, openai
from agent_factory.serve.json_response import JsonResponse, error_response
from agent_factory.serve.principal import Authenticate, principal_of
from agent_factory.service import (
    AlreadyDecided,
    ClaimedByOther,
    DatabaseUnavailable,
    NotFound,
    Service,
    ThreadBusy,
)

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
    """An application that serves the agents of a service over HTTP.

    Its clients speak LangGraph's API, AG-UI or OpenAI's chat completions.

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
    ['/ag-ui/{agent}', '/assistants/count']
    """

    def known(route: Route) -> Route:
        """A route whose endpoint knows the principal."""

        async def serve(request: Request) -> Response:
            request.state.principal = await principal_of(request, authenticate)
            response: Response = await route.endpoint(request)
            return response

        return Route(route.path, serve, methods=list(route.methods or ()))

    async def ok(_: Request) -> Response:
        return JsonResponse({"ok": True})

    async def info(_: Request) -> Response:
        return JsonResponse({"version": version("agent-factory"), "flags": {"assistants": True}})

    return Starlette(
        routes=[
            Route("/ok", ok),
            Route("/info", info),
            *map(known, langgraph.routes(service)),
            *map(known, ag_ui.routes(service)),
            *map(known, openai.routes(service)),
        ],
        exception_handlers={AgentFactoryError: _refused, HTTPException: _failed},
    )


async def _refused(request: Request, error: Any) -> Response:
    """A request that the service refuses."""
    status = next((_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS), 500)
    return error_response(request, status, str(error))


async def _failed(request: Request, error: Any) -> Response:
    return error_response(request, error.status_code, error.detail)
