"""Description of the routes in the form of OpenAPI, made from the routes and their bodies."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from typing import Any

from pydantic.json_schema import models_json_schema
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agent_factory.serve.json_response import JsonResponse
from agent_factory.serve.langgraph.routing import ApiRoute
from agent_factory.serve.pages.rendering import page

_REF = "#/components/schemas/{model}"
_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")
_JSON = "application/json"


def routes(api: Sequence[Route]) -> list[Route]:
    """The routes of the description of other routes: as JSON, and as a page."""

    # Once: the forms of all bodies take a while to make.
    @cache
    def whole() -> dict[str, Any]:
        return description(api)

    async def as_json(_: Request) -> Response:
        return JsonResponse(whole())

    async def as_page(request: Request) -> Response:
        return page(request, "reference.html", description=whole())

    return [Route("/openapi.json", as_json), Route("/docs", as_page)]


def description(api: Sequence[Route]) -> dict[str, Any]:
    """The description of routes.

    >>> async def ok(_):
    ...     "Say that the server runs."
    >>> description([Route("/ok", ok)])["paths"]["/ok"]["get"]["summary"]
    'Say that the server runs.'
    """
    bodies = {route.body for route in api if isinstance(route, ApiRoute) and route.body}
    # Sorted, for the same description in each process.
    ordered = sorted(bodies, key=lambda model: model.__name__)
    _, schemas = models_json_schema([(model, "validation") for model in ordered], ref_template=_REF)
    paths: dict[str, dict[str, Any]] = {}
    for route in api:
        if not route.include_in_schema:
            continue
        path = _PARAMETER.sub(r"{\1}", route.path)
        # Starlette adds HEAD to each GET.
        for method in sorted((route.methods or set()) - {"HEAD"}):
            paths.setdefault(path, {})[method.lower()] = _operation(route, method)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Agent Factory", "version": version("agent-factory")},
        "paths": paths,
        "components": {
            "schemas": {
                **schemas.get("$defs", {}),
                "Error": {
                    "type": "object",
                    "properties": {"detail": {"type": "string"}},
                    "required": ["detail"],
                },
            }
        },
    }


def _operation(route: Route, method: str) -> dict[str, Any]:
    """The description of one method of a route."""
    endpoint = route.function if isinstance(route, ApiRoute) else route.endpoint
    words = [method.lower(), *re.findall(r"\w+", _PARAMETER.sub(r"\1", route.path))]
    operation: dict[str, Any] = {
        "operationId": "_".join(words),
        "summary": inspect.cleandoc(endpoint.__doc__ or "").partition("\n\n")[0],
        "tags": [words[1] if len(words) > 1 else "server"],
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in _PARAMETER.findall(route.path)
        ],
        "responses": {
            "default": {"description": "The answer."},
            "4XX": {
                "description": "The request is refused.",
                "content": {_JSON: {"schema": {"$ref": _REF.format(model="Error")}}},
            },
        },
    }
    if isinstance(route, ApiRoute) and route.query is not None:
        fields = route.query.model_json_schema(ref_template=_REF)["properties"].items()
        operation["parameters"] += [
            {"name": name, "in": "query", "required": False, "schema": field}
            for name, field in fields
            # Objects are not sent in a query.
            if "$ref" not in str(field)
        ]
    if isinstance(route, ApiRoute) and route.body is not None:
        schema = {"$ref": _REF.format(model=route.body.__name__)}
        operation["requestBody"] = {"required": True, "content": {_JSON: {"schema": schema}}}
    return operation
