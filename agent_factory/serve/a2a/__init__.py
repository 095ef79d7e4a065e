"""A2A: the agents of a service, for agents of other systems."""

from __future__ import annotations

from functools import cache
from typing import Any
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agent_factory.serve.errors import require_extra
from agent_factory.serve.exchange import check_agent
from agent_factory.service import Service

CARD_PATH = "/.well-known/agent-card.json"
"""Where A2A looks for the card of an agent, behind the URL of the agent."""


def routes(service: Service) -> list[Route]:
    """The routes of A2A."""

    @cache  # the dispatcher of the SDK serves all requests
    def endpoint() -> Any:
        from agent_factory.serve.a2a.endpoint import endpoint_of

        return endpoint_of(service)

    def agent_of(request: Request) -> str:
        require_extra("a2a", "A2A")
        agent = request.path_params.get("agent") or request.query_params.get("agent")
        if agent is None:
            # A2A looks for one card on a host: of the only agent.
            if len(service.agents) != 1:
                places = ", ".join(
                    f"/a2a/{quote(name, safe='')}{CARD_PATH}" for name in service.agents
                )
                text = f"Each agent has a card: {places}. {CARD_PATH}?agent=NAME finds it, too."
                raise HTTPException(404, text)
            (agent,) = service.agents
        check_agent(service, agent)
        return str(agent)

    async def card(request: Request) -> Response:
        agent = agent_of(request)
        # Here: without the extra, there is nothing to import, and `agent_of` has said so.
        from agent_factory.serve.a2a.endpoint import card_response

        return await card_response(service, request, agent)

    async def call(request: Request) -> Response:
        agent_of(request)
        response: Response = await endpoint()(request)
        return response

    return [
        Route(CARD_PATH, card),
        # Where some clients look whose URL of an agent has no slash at its end.
        Route(f"/a2a{CARD_PATH}", card, include_in_schema=False),
        Route(f"/a2a/{{agent}}{CARD_PATH}", card),
        Route("/a2a/{agent}", call, methods=["POST"]),
        # Some clients put a slash behind the URL of a card, and follow no redirect.
        Route("/a2a/{agent}/", call, methods=["POST"], include_in_schema=False),
    ]
