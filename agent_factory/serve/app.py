"""The HTTP application of a service."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agent_factory.errors import AgentFactoryError
from agent_factory.serve import ag_ui, langgraph, openai, pages
from agent_factory.serve.errors import error_response, status_of
from agent_factory.serve.json_response import JsonResponse
from agent_factory.serve.principal import Authenticate, principal_of
from agent_factory.service import Service


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
    >>> {"/threads", "/ag-ui/{agent}", "/inbox"} <= {route.path for route in app.routes}
    True
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
            *pages.open_routes(),
            *map(known, langgraph.routes(service)),
            *map(known, ag_ui.routes(service)),
            *map(known, openai.routes(service)),
            *map(known, pages.routes(service)),
        ],
        exception_handlers={AgentFactoryError: _refused, HTTPException: _failed},
    )


async def _refused(request: Request, error: Any) -> Response:
    """A request that the service refuses."""
    return error_response(request, status_of(error), str(error))


async def _failed(request: Request, error: Any) -> Response:
    return error_response(request, error.status_code, error.detail)
