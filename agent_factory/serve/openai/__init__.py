"""OpenAI's chat completions: what nearly every chat client speaks. A model is an agent."""

from __future__ import annotations

import time

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agent_factory.serve.json_response import JsonResponse
from agent_factory.serve.openai.endpoint import complete_chat, no_model
from agent_factory.service import Service

# In OpenAI's API a model has a time of its creation; an agent has none.
_START_TIME = int(time.time())


def routes(service: Service) -> list[Route]:
    """The routes of OpenAI's API."""

    async def models(_: Request) -> Response:
        data = [_model(name) for name in service.agents]
        return JsonResponse({"object": "list", "data": data})

    async def model(request: Request) -> Response:
        name = request.path_params["model"]
        return JsonResponse(_model(name)) if name in service.agents else no_model(request, name)

    async def complete(request: Request) -> Response:
        return await complete_chat(service, request)

    return [
        Route("/v1/models", models),
        Route("/v1/models/{model:path}", model),
        Route("/v1/chat/completions", complete, methods=["POST"]),
    ]


def _model(name: str) -> dict[str, object]:
    return {"id": name, "object": "model", "created": _START_TIME, "owned_by": "agent_factory"}
