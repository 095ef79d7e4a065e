"""OpenAI's chat completions: the protocol of nearly every chat client. A model is an agent."""

from __future__ import annotations

import time
from functools import partial

from pydantic import ValidationError
from sse_starlette import EventSourceResponse
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agent_factory.serve.body import read_body
from agent_factory.serve.client_tools import client_settings
from agent_factory.serve.errors import error_response, text_of
from agent_factory.serve.json_response import JsonResponse
from agent_factory.serve.openai.chat import CODES, Chat
from agent_factory.serve.openai.requests import (
    ChatRequest,
    Refused,
    StreamOptions,
    check_fields,
    choice_of,
    format_of,
    messages_of,
    tools_of,
)
from agent_factory.service import RunCancelled, RunFailed, Service

# In OpenAI's API a model has a time of creation; an agent has none.
_START_TIME = int(time.time())


def routes(service: Service) -> list[Route]:
    """The routes of OpenAI's API."""

    async def models(_: Request) -> Response:
        data = [_model(name) for name in service.agents]
        return JsonResponse({"object": "list", "data": data})

    async def model(request: Request) -> Response:
        name = request.path_params["model"]
        return JsonResponse(_model(name)) if name in service.agents else no_model(request, name)

    return [
        Route("/v1/models", models),
        Route("/v1/models/{model:path}", model),
        Route("/v1/chat/completions", partial(complete_chat, service), methods=["POST"]),
    ]


def _model(name: str) -> dict[str, object]:
    return {"id": name, "object": "model", "created": _START_TIME, "owned_by": "agent_factory"}


def no_model(request: Request, name: str) -> Response:
    """The response for an unknown agent."""
    text = f"There is no agent {name!r}."
    return error_response(request, 404, text, param="model", code="model_not_found")


async def complete_chat(service: Service, request: Request) -> Response:
    """`POST /v1/chat/completions`."""
    try:
        body = await read_body(request, ChatRequest)
        check_fields(body)
        messages, tools = messages_of(body), tools_of(body)
        choice, format_ = choice_of(body), format_of(body)
        if body.model not in service.agents:
            return no_model(request, body.model)
        settings = client_settings(service.agents[body.model], body.model, tools, choice, format_)
        begin = partial(Chat.begin, service, request, body, messages, settings)
        chat = await run_in_threadpool(begin)
    except Refused as error:
        return error_response(request, 400, str(error), param=error.param, code=error.code)
    except HTTPException as error:
        cause = error.__cause__
        place = cause.errors()[0]["loc"] if isinstance(cause, ValidationError) else ()
        # OpenAI answers 400 to an invalid body.
        status = 400 if error.status_code == 422 else error.status_code
        # A text begins with the field.
        field = error.detail.partition(":")[0].partition(" ")[0]
        param = ".".join(map(str, place)) or (field if field in ChatRequest.model_fields else None)
        return error_response(request, status, error.detail, param=param)
    headers = {"x-thread-id": chat.thread}
    if not body.stream:
        try:
            answer = await chat.answer()
        except (RunFailed, RunCancelled) as error:
            # No client repeats a request with status 424, "Failed Dependency", and pays twice. The
            # AI SDK and the router of LiteLLM repeat 409 and 500 in spite of "x-should-retry".
            code = CODES[type(error)]
            return error_response(request, 424, text_of(error), code=code, headers=headers)
        return JsonResponse(answer, headers=headers)

    async def stop(_: object) -> None:
        await chat.stop()

    return EventSourceResponse(
        chat.chunks(body.stream_options or StreamOptions()),
        headers=headers,
        # As in OpenAI's API. Not all clients take "\r\n", the default of sse-starlette.
        sep="\n",
        client_close_handler_callable=stop,
    )
