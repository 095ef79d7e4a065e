"""Routes whose endpoints say which body or query they take."""

from __future__ import annotations

from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import Any, get_type_hints

from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agent_factory.serve.body import read_body
from agent_factory.serve.langgraph.requests import read_query

Endpoint = Callable[..., Any]


class ApiRoute(Route):
    """Route with its description.

    Args:
        method: The method.
        path: The path.
        endpoint: A function that answers, in a thread, or an async function. The parameter `body`
            or `query` is the content of the request, checked by the type of the parameter. The
            docstring describes the route.
    """

    def __init__(self, method: str, path: str, endpoint: Endpoint) -> None:
        # Annotations of modules with `from __future__ import annotations` are texts.
        hints = get_type_hints(endpoint)
        self.body: type[BaseModel] | None = hints.get("body")
        self.query: type[BaseModel] | None = hints.get("query")
        # `Route.endpoint` is `serve`, which has no docstring to describe the route.
        self.described = endpoint

        async def serve(request: Request) -> Response:
            options: dict[str, Any] = {}
            if self.body is not None:
                options["body"] = await read_body(request, self.body)
            # Checked before anything is done, also where the endpoint looks into a thread first.
            if self.query is not None:
                options["query"] = read_query(request, self.query)
            if not iscoroutinefunction(endpoint):
                return await run_in_threadpool(endpoint, request, **options)
            response: Response = await endpoint(request, **options)
            return response

        super().__init__(path, serve, methods=[method])
