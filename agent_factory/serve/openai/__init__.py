"""OpenAI's chat completions and responses, for nearly every chat client. A model is an agent."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial

from pydantic import ValidationError
from sse_starlette import EventSourceResponse
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agent_factory.serve.body import read_body
from agent_factory.serve.errors import error_response, text_of
from agent_factory.serve.json_response import JsonResponse
from agent_factory.serve.openai.chat import CODES, Chat
from agent_factory.serve.openai.requests import ChatRequest, Refused, no_model
from agent_factory.serve.openai.responses import ResponseRequest, Responses
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
        if name in service.agents:
            return JsonResponse(_model(name))
        return refused(request, no_model(name), {})

    async def response(request: Request) -> Response:
        try:
            answer = await run_in_threadpool(Responses.about, service, request)
        except Refused as error:
            return refused(request, error, {})
        if request.method == "POST":
            await answer.exchange.cancel()
        return JsonResponse(await answer.content())

    complete = partial(respond, service, Chat, ChatRequest)
    return [
        Route("/v1/models", models),
        Route("/v1/models/{model:path}", model),
        Route("/v1/chat/completions", complete, methods=["POST"]),
        Route(
            "/v1/responses", partial(respond, service, Responses, ResponseRequest), methods=["POST"]
        ),
        Route("/v1/responses/{run}", response),
        Route("/v1/responses/{run}/cancel", response, methods=["POST"]),
    ]


def _model(name: str) -> dict[str, object]:
    return {"id": name, "object": "model", "created": _START_TIME, "owned_by": "agent_factory"}


async def respond(
    service: Service,
    kind: type[Chat] | type[Responses],
    body_kind: type[ChatRequest],
    request: Request,
) -> Response:
    """The answer to a request, whole or as a stream, in the form of a protocol."""
    try:
        body = await read_body(request, body_kind)
        begin = partial(kind.begin, service, request, body)
        answer: Chat | Responses = await run_in_threadpool(begin)
    except Refused as error:
        return refused(request, error, kind.names)
    except HTTPException as error:
        cause = error.__cause__
        place = cause.errors()[0]["loc"] if isinstance(cause, ValidationError) else ()
        # OpenAI answers 400 to an invalid body.
        status = 400 if error.status_code == 422 else error.status_code
        # A text begins with the field.
        field = error.detail.partition(":")[0].partition(" ")[0]
        param = ".".join(map(str, place)) or (field if field in ChatRequest.model_fields else "")
        return refused(request, Refused(param, error.detail, None, status), kind.names)
    headers = {"x-thread-id": answer.thread}
    if not body.stream:
        try:
            return JsonResponse(await answer.content(), headers=headers)
        except (RunFailed, RunCancelled) as error:
            # No client repeats a request with status 424, "Failed Dependency", and pays twice. The
            # AI SDK and the router of LiteLLM repeat 409 and 500 in spite of "x-should-retry".
            code = CODES[type(error)]
            return error_response(request, 424, text_of(error), code=code, headers=headers)

    async def stop(_: object) -> None:
        await answer.stop()

    return EventSourceResponse(
        answer.events(),
        headers=headers,
        # As in OpenAI's API. Not all clients take "\r\n", the default of sse-starlette.
        sep="\n",
        client_close_handler_callable=stop,
    )


def refused(request: Request, error: Refused, names: Mapping[str, str]) -> Response:
    """The response to a refused request, with the names of fields in a protocol."""
    param = names.get(error.param, error.param)
    text = str(error).replace(error.param, param)
    return error_response(request, error.status, text, param=param or None, code=error.code)
