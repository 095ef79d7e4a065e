"""MCP: the agents of a service as tools, for applications that models work in."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agent_factory.errors import MissingExtra, require
from agent_factory.service import Service


def routes(service: Service) -> list[Route]:
    """The route of MCP."""

    async def serve(request: Request) -> Response:
        try:
            require("mcp", "MCP")
        except MissingExtra as error:
            raise HTTPException(501, str(error)) from error
        # The types of the protocol take a while to import.
        from agent_factory.serve.mcp.endpoint import respond

        return await respond(service, request)

    return [Route("/mcp", serve, methods=["POST"])]
