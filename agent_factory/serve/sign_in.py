"""Sign-in: where a client without credentials finds the authorization server."""

from __future__ import annotations

from collections.abc import Collection

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
    place = f"{str(request.base_url).rstrip('/')}{METADATA}{request.scope['path']}"
    return f'Bearer resource_metadata="{place}"'


def sign_in_routes(authorization_servers: Collection[str]) -> list[Route]:
    """The routes of the metadata: of the server, and of each path."""

    async def metadata(request: Request) -> Response:
        resource = f"{request.base_url}{request.path_params.get('path', '')}"
        return JsonResponse(
            {
                "resource": resource,
                "authorization_servers": [*authorization_servers],
                "bearer_methods_supported": ["header"],
            }
        )

    paths = (METADATA, f"{METADATA}/{{path:path}}") if authorization_servers else ()
    return [Route(path, metadata) for path in paths]
