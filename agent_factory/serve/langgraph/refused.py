"""Routes of LangGraph's API that are not served, each with what to do instead."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

_AGENTS = "Agents are added in code: service.add(name, agent)."
_SCHEDULES = "Schedules are made in code: service.schedule(name, cron, agent=..., message=...)."

_ROUTES = [
    ("/assistants", ["POST"], _AGENTS),
    ("/assistants/{assistant}", ["PATCH", "DELETE"], _AGENTS),
    ("/assistants/{assistant}/versions", ["POST"], _AGENTS),
    ("/assistants/{assistant}/latest", ["POST"], _AGENTS),
    ("/threads/{thread}/state", ["PATCH"], "Metadata are noted about threads: PATCH the thread."),
    ("/threads/{thread}/runs/{run}", ["DELETE"], "A run is deleted with its thread."),
    ("/threads/{thread}/runs/crons", ["POST"], _SCHEDULES),
    ("/runs/crons", ["POST"], _SCHEDULES),
    ("/runs/crons/search", ["POST"], _SCHEDULES),
    ("/runs/crons/count", ["POST"], _SCHEDULES),
    ("/runs/crons/{cron}", ["PATCH", "DELETE"], _SCHEDULES),
]


def refused_routes() -> list[Route]:
    """Routes that answer 501 and a sentence."""

    def refusing(text: str) -> Callable[[Request], Awaitable[Response]]:
        async def refuse(_: Request) -> Response:
            raise HTTPException(501, f"This server does not offer that. {text}")

        return refuse

    return [Route(path, refusing(text), methods=methods) for path, methods, text in _ROUTES]
