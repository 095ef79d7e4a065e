"""AG-UI: the protocol of CopilotKit, assistant-ui and other front ends for agents."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agent_factory.serve.errors import require_extra
from agent_factory.service import Service


def routes(service: Service) -> list[Route]:
    """The route of AG-UI."""

    async def run(request: Request) -> Response:
        require_extra("ag-ui", "AG-UI")
        # The types of the protocol take a while to import.
        from agent_factory.serve.ag_ui.endpoint import run_agent

        return await run_agent(service, request)

    return [Route("/ag-ui/{agent}", run, methods=["POST"])]
