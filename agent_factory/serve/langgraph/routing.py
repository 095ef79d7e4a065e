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


class ApiRoute(Route):
    """Route with its description.

    Args:
        endpoint: A function that answers, in a thread, or an async function. The parameter `body`
            is the content of the request, checked by the type of the parameter: of a GET the query.
            The docstring describes the route.
    """

    def __init__(self, method: str, path: str, endpoint: Callable[..., Any]) -> None:
        # Annotations of modules with `from __future__ import annotations` are texts.
        content: type[BaseModel] | None = get_type_hints(endpoint).get("body")
        self.body = content if method != "GET" else None
        self.query = content if method == "GET" else None
        # `Route.endpoint` is `serve`, which has no docstring to describe the route.
        self.function = endpoint

        async def serve(request: Request) -> Response:
            options: dict[str, Any] = {}
            # Checked before anything is done, also where the endpoint looks into a thread first.
            if self.query is not None:
                options["body"] = read_query(request, self.query)
            elif self.body is not None:
                options["body"] = await read_body(request, self.body)
            if not iscoroutinefunction(endpoint):
                return await run_in_threadpool(endpoint, request, **options)
            response: Response = await endpoint(request, **options)
            return response

        super().__init__(path, serve, methods=[method])
