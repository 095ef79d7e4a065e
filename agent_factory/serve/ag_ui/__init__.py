"""AG-UI: what CopilotKit, assistant-ui and other front ends for agents speak."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agent_factory.service import Service


def routes(service: Service) -> list[Route]:
    """The route of AG-UI."""

    async def run(request: Request) -> Response:
        try:  # The types of the protocol are an extra, and take a while to import.
            from agent_factory.serve.ag_ui.endpoint import run_agent
        except ModuleNotFoundError as error:
            if not (error.name or "").startswith("ag_ui"):
                raise
            text = "AG-UI needs a package more: pip install 'agent-factory[ag-ui]'"
            raise HTTPException(501, text) from error
        return await run_agent(service, request)

    return [Route("/ag-ui/{agent}", run, methods=["POST"])]
