"""Cards of A2A: what an agent is, and where it is reached."""

from __future__ import annotations

from importlib.metadata import version
from urllib.parse import quote

from a2a.server.routes import create_agent_card_routes
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from a2a.utils.constants import PROTOCOL_VERSION_0_3, PROTOCOL_VERSION_1_0
from starlette.requests import Request
from starlette.responses import Response

from agent_factory.service import Service

_MODES = ("text/plain", "application/json")


def card_of(service: Service, base_url: str, agent: str) -> AgentCard:
    """The card of an agent.

    Args:
        service: The service.
        base_url: The URL of the server, with a slash at its end.
        agent: The name of the agent.
    """
    description = service.description(agent) or f"The agent {agent!r}."
    return AgentCard(
        name=agent,
        description=description,
        version=version("agent-factory"),
        supported_interfaces=[
            AgentInterface(
                url=f"{base_url}a2a/{quote(agent, safe='')}",
                protocol_binding="JSONRPC",
                protocol_version=protocol,
            )
            # The first is preferred. Many clients speak the version before 1.0 still.
            for protocol in (PROTOCOL_VERSION_1_0, PROTOCOL_VERSION_0_3)
        ],
        capabilities=AgentCapabilities(streaming=True, push_notifications=False),
        default_input_modes=_MODES,
        default_output_modes=_MODES,
        skills=[AgentSkill(id=agent, name=agent, description=description, tags=["agent"])],
    )


async def card_response(service: Service, request: Request, agent: str) -> Response:
    """`GET /a2a/{agent}/.well-known/agent-card.json`."""
    (route,) = create_agent_card_routes(card_of(service, str(request.base_url), agent))
    response: Response = await route.endpoint(request)
    # Private, since it may depend on who asks.
    response.headers["Cache-Control"] = "private, max-age=60"
    return response
