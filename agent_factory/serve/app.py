"""The HTTP application of a service."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from functools import partial
from importlib.metadata import version
from inspect import isawaitable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agent_factory.errors import AgentFactoryError, ArgumentError
from agent_factory.serve import a2a, ag_ui, langgraph, mcp, openai, openapi, pages
from agent_factory.serve.errors import logger, refusal
from agent_factory.serve.health import health_routes
from agent_factory.serve.json_response import JsonResponse
from agent_factory.serve.principal import Authenticate, MayDecide, local_principal
from agent_factory.serve.security import RateLimit, RateLimiter, RequestGuard, SecurityHeaders
from agent_factory.serve.sign_in import sign_in, sign_in_routes
from agent_factory.serve.webhooks import Webhooks
from agent_factory.service import Service

_ORIGIN = re.compile(r"\w+://[^/*]+")

DOORS = ("langgraph", "ag-ui", "openai", "mcp", "a2a", "inbox", "studio")
"""Parts of the server that may be served alone: protocols, and pages."""

_HEADERS = (
    "Content-Location", "Location", "Mcp-Session-Id", "Retry-After", "WWW-Authenticate",
    "X-Pagination-Next", "X-Pagination-Total", "X-Thread-Id",
)  # fmt: skip
"""Headers for pages of other origins, to which a browser shows few others."""


def create_app(
    service: Service,
    authenticate: Authenticate | None = None,
    *,
    may_decide: MayDecide | None = None,
    rate_limit: RateLimit | None = RateLimit(),  # noqa: B008  a constant
    body_limit: int = 10_000_000,
    origins: Collection[str] = (),
    webhooks: Webhooks | Collection[str] = (),
    metrics_token: str | None = None,
    only: Collection[str] | None = None,
    authorization_servers: Collection[str] = (),
) -> Starlette:
    """An application that serves the agents of a service over HTTP.

    Clients speak LangGraph's API, AG-UI, OpenAI's chat completions, MCP or A2A.

    The application starts no worker: call `service.start()`, or run workers elsewhere.

    Args:
        service: The service.
        authenticate: Says who makes a request, and for which tenant: a function, or an async one,
            that takes the request and returns a `Principal`, or None to refuse the request. A
            response in place of a principal, such as a redirect to a login page, is sent as such.
            The function may raise Starlette's HTTPException. Without `authenticate`, only requests
            from this machine are served.
        may_decide: Says whether a principal may claim a wait and decide: a function that takes a
            `Principal` and a `Wait`. None lets each principal decide within their tenant.
        rate_limit: The most requests a minute, over all processes; None sets no limit. Requests
            from this machine are not limited if there is no `authenticate`.
        body_limit: The most bytes of a request's body.
        origins: Origins of other servers whose pages may make requests in a browser, such as
            "https://chat.example.com".
        webhooks: The servers to which the outcome of a run may be sent, such as
            "https://hooks.example.com"; or `Webhooks`, which also signs requests.
        metrics_token: Bearer token for `/metrics`. None lets only requests from this machine read
            them.
        only: The parts to serve, of "langgraph", "ag-ui", "openai", "mcp", "a2a", "inbox" and
            "studio", which has the inbox; None serves all.
        authorization_servers: The URLs of OAuth servers whose tokens `authenticate` takes. Clients
            of MCP find them by a refusal, and begin a sign-in there.

    Returns:
        A Starlette application, for uvicorn or any other ASGI server.

    Raises:
        ArgumentError: `origins` or `webhooks` is not a list of origins, the token is empty, or
            `only` names no part.

    >>> from tempfile import mkdtemp
    >>> from agent_factory.service import Service
    >>> app = create_app(Service(f"sqlite:///{mkdtemp()}/desk.db"))
    >>> {"/threads", "/ag-ui/{agent}", "/inbox"} <= {route.path for route in app.routes}
    True
    """
    # A string is a list of letters.
    if isinstance(origins, str) or not all(map(_ORIGIN.fullmatch, origins)):
        reason = f"must be a list of origins, got {origins!r}."
        raise ArgumentError("origins", reason, "Pass origins=['https://chat.example.com'].")
    parts = _parts_of(DOORS if only is None else only)
    hooks = webhooks if isinstance(webhooks, Webhooks) else Webhooks(webhooks)
    if hooks.origins:
        service.webhooks.start(hooks.sender(langgraph.outcome))
    if authenticate is None:
        authenticate, rate_limit = local_principal, None
        logger.warning(
            "Nobody is authenticated, so only requests from this machine are served. Pass "
            "authenticate= to create_app before others can reach it, also by a proxy."
        )
    principals, addresses = (
        RateLimiter(kind, getattr(rate_limit, kind, None), service.take_requests)
        for kind in ("principal", "address")
    )

    named = partial(
        _with_principal, authenticate=authenticate, limiter=principals, may_decide=may_decide
    )
    open_api = [*health_routes(service, metrics_token), Route("/info", _info)]
    doors: dict[str, Callable[[Service], list[Route]]] = {
        "langgraph": partial(langgraph.routes, webhooks=hooks),
        "ag-ui": ag_ui.routes,
        "openai": openai.routes,
        "mcp": mcp.routes,
        "a2a": a2a.routes,
    }
    api = [route for door, routes in doors.items() if door in parts for route in routes(service)]
    has = {True: "inbox" in parts, False: "studio" in parts}
    shown = [route for route in pages.routes(service) if has[route.path.startswith("/inbox")]]
    app = Starlette(
        routes=[
            *open_api,
            pages.static_files(),
            *map(named, api),
            *map(named, openapi.routes([*open_api, *api])),
            *map(named, shown),
            *sign_in_routes(authorization_servers),
        ],
        # The outermost first.
        middleware=[
            # Refusals of the other two get the headers as well.
            Middleware(SecurityHeaders),
            # Around the guard: a page reads a refusal by these headers.
            Middleware(
                CORSMiddleware,
                allow_origins=origins,
                allow_methods=["*"],
                allow_headers=["*"],
                expose_headers=_HEADERS,
            ),
            Middleware(RequestGuard, addresses=addresses, body_limit=body_limit, origins=origins),
        ],
        exception_handlers={AgentFactoryError: refusal, HTTPException: refusal},
    )
    app.state.doors, app.state.authorization_servers = parts, [*authorization_servers]
    return app


def _parts_of(only: Collection[str]) -> frozenset[str]:
    """The parts to serve; the studio has the inbox."""
    parts = frozenset(only)
    if isinstance(only, str) or not parts or not parts <= {*DOORS}:
        reason = f"must be some of {', '.join(DOORS)}, got {only!r}."
        raise ArgumentError("only", reason, "Pass only=['langgraph', 'inbox'].")
    return parts | {"inbox"} if "studio" in parts else parts


def _with_principal(
    route: Route, authenticate: Authenticate, limiter: RateLimiter, may_decide: MayDecide | None
) -> Route:
    """A route whose endpoint knows the principal, and whether they may decide about a wait."""

    async def serve(request: Request) -> Response:
        answer = authenticate(request)
        principal = await answer if isawaitable(answer) else answer
        if principal is None:
            text = "Who makes this request is not known."
            raise HTTPException(401, text, {"WWW-Authenticate": sign_in(request)})
        if isinstance(principal, Response):
            return principal
        # Requests without a name are limited by their address.
        await limiter.check((principal.tenant, principal.name))
        request.state.principal = principal
        # None stays None, with which everybody of the tenant may decide.
        request.state.may_decide = may_decide and partial(may_decide, principal)
        response: Response = await route.endpoint(request)
        return response

    # Without methods, Starlette would let a function answer GET alone.
    return Route(route.path, serve, methods=list(route.methods or ()))


async def _info(_: Request) -> Response:
    """Say which version it has, and what it offers."""
    return JsonResponse(
        {"version": version("agent-factory"), "flags": {"assistants": True, "crons": True}}
    )
