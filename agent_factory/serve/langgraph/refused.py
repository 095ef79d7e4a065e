"""Routes of LangGraph's API that are not served, each with what to do instead."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

_ROUTES = [
    ("/threads/{thread}/state", ["PATCH"], "Metadata are noted about threads: PATCH the thread."),
]


def refused_routes() -> list[Route]:
    """Routes that answer 501 and a sentence."""

    def refusing(text: str) -> Callable[[Request], Awaitable[Response]]:
        async def refuse(_: Request) -> Response:
            raise HTTPException(501, f"This server does not offer that. {text}")

        return refuse

    return [Route(path, refusing(text), methods=methods) for path, methods, text in _ROUTES]
