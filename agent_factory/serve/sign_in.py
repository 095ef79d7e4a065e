"""Sign-in: where a client without credentials finds the authorization server."""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agent_factory.serve.json_response import JsonResponse

METADATA = "/.well-known/oauth-protected-resource"
"""Where OAuth's clients look for the metadata of a resource (RFC 9728)."""


def sign_in(request: Request) -> str:
    """The header `WWW-Authenticate` of a refused request."""
    if not request.app.state.authorization_servers:
        return "Bearer"
    # Quoted: a path may have characters that a header may not have.
    path = quote(request.scope["path"].removeprefix(request.scope.get("root_path", "")))
    return f'Bearer resource_metadata="{str(request.base_url).rstrip("/")}{METADATA}{path}"'


def sign_in_routes(authorization_servers: Collection[str]) -> list[Route]:
    """The routes of the metadata: of the server, and of each path."""

    async def metadata(request: Request) -> Response:
        resource = f"{request.base_url}{request.path_params.get('path', '')}"
        shown = {"resource": resource, "authorization_servers": [*authorization_servers]}
        return JsonResponse({**shown, "bearer_methods_supported": ["header"]})

    paths = (METADATA, f"{METADATA}/{{path:path}}") if authorization_servers else ()
    return [Route(path, metadata) for path in paths]
