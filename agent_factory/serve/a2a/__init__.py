"""A2A: the agents of a service, for agents of other systems."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agent_factory.serve.body import read_json
from agent_factory.serve.errors import require_extra
from agent_factory.serve.exchange import check_agent
from agent_factory.service import Service

CARD_PATH = "/.well-known/agent-card.json"
"""Where A2A looks for the card of an agent, behind the URL of the agent."""


def routes(service: Service) -> list[Route]:
    """The routes of A2A."""

    @cache  # the dispatcher of the SDK serves all requests
    def dispatcher() -> Callable[[Request], Awaitable[Response]]:
        from agent_factory.serve.a2a.endpoint import dispatcher_of

        return dispatcher_of(service)

    def agent_of(request: Request) -> str:
        require_extra("a2a", "A2A")
        names = ", ".join(service.agents)
        agent = request.path_params.get("agent") or request.query_params.get("agent")
        if agent is None:
            # A2A looks for one card on a host: of the only agent.
            if len(service.agents) != 1:
                text = f"Each agent has a card, at {CARD_PATH}?agent=NAME. There are: {names}."
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
        await read_json(request)  # here, where 413 answers a long body
        return await dispatcher()(request)

    return [
        Route(CARD_PATH, card),
        Route(f"/a2a/{{agent}}{CARD_PATH}", card),
        Route("/a2a/{agent}", call, methods=["POST"]),
        # Some clients put a slash behind the URL of a card, and follow no redirect.
        Route("/a2a/{agent}/", call, methods=["POST"], include_in_schema=False),
    ]
