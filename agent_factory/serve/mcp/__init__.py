"""MCP: the agents of a service as tools, for applications with models."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agent_factory.serve.errors import require_extra
from agent_factory.service import Service


def routes(service: Service) -> list[Route]:
    """The route of MCP."""

    async def serve(request: Request) -> Response:
        require_extra("mcp", "MCP")
        # The types of the protocol take a while to import.
        from agent_factory.serve.mcp.endpoint import respond

        return await respond(service, request)

    return [Route("/mcp", serve, methods=["GET", "POST"])]
