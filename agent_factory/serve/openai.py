"""OpenAI's chat completions: what nearly every chat client speaks. A model is an agent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from uuid import NAMESPACE_URL, uuid4, uuid5

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    convert_to_messages,
)
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from sse_starlette import EventSourceResponse
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agent_factory.errors import AgentFactoryError
from agent_factory.serve.body import read_body
from agent_factory.serve.chat_thread import ChatThread
from agent_factory.serve.errors import error_response
from agent_factory.serve.json_response import JsonResponse, to_json
from agent_factory.serve.principal import Principal
from agent_factory.service import Run, RunCancelled, RunFailed, Service, ThreadBusy, Wait
from agent_factory.service.public_state import INTERRUPT

# In OpenAI's API a model has a time of its creation; an agent has none.
_START_TIME = int(time.time())

_OF_THE_MODEL = {
    "frequency_penalty",
    "max_completion_tokens",
    "max_tokens",
    "parallel_tool_calls",
    "presence_penalty",
    "prompt_cache_key",
    "prompt_cache_retention",
    "reasoning_effort",
    "safety_identifier",
    "seed",
    "service_tier",
    "store",
    "temperature",
    "top_k",
    "top_p",
    "verbosity",
}
"""Settings that chat clients send with each request; the agent has its own, which hold."""

_WITHOUT_EFFECT: dict[str, tuple[object, ...]] = {
    "function_call": ("none", "auto"),
    "functions": ([],),
    "logit_bias": ({},),
    "logprobs": (False,),
    "modalities": (["text"],),
    "n": (1,),
    "response_format": ({"type": "text"},),
    "stop": ([],),
    "tool_choice": ("none", "auto"),
    "tools": ([],),
    "top_logprobs": (0,),
}
"""Values of settings that ask for nothing."""

_ROLES = ("system", "developer", "user", "assistant")

_COMMENT = "comment"  # in place of a reason: a piece that is not part of the answer

_CODES: dict[type[Exception], str] = {RunFailed: "run_failed", RunCancelled: "run_cancelled"}

_CUT = {"length": "length", "max_tokens": "length", "MAX_TOKENS": "length"}
_CUT |= {"content_filter": "content_filter", "refusal": "content_filter"}
"""Why a model has stopped early, in the words of providers."""


class StreamOptions(BaseModel):
    """Additions to the text of a stream."""

    include_usage: bool = False


class ChatRequest(BaseModel):
    """A request for a completion."""

    model_config = ConfigDict(extra="allow")

    model: str
    messages: list[dict[str, object]] = Field(min_length=1)
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    user: str | None = None
    metadata: dict[str, object] | None = None


class _Refused(Exception):
    """A request that is not supported."""

    def __init__(self, param: str, text: str) -> None:
        super().__init__(text)
        self.param = param


def routes(service: Service) -> list[Route]:
    """The routes of OpenAI's API."""

    async def models(_: Request) -> Response:
        data = [_model(name) for name in service.agents]
        return JsonResponse({"object": "list", "data": data})

    async def model(request: Request) -> Response:
        name = request.path_params["model"]
        return JsonResponse(_model(name)) if name in service.agents else _no_model(request, name)

    async def complete(request: Request) -> Response:
        return await complete_chat(service, request)

    return [
        Route("/v1/models", models),
        Route("/v1/models/{model:path}", model),
        Route("/v1/chat/completions", complete, methods=["POST"]),
    ]


def _model(name: str) -> dict[str, object]:
    return {"id": name, "object": "model", "created": _START_TIME, "owned_by": "agent_factory"}


def _no_model(request: Request, name: str) -> Response:
    text = f"There is no agent {name!r}."
    return error_response(request, 404, text, param="model", code="model_not_found")


async def complete_chat(service: Service, request: Request) -> Response:
    """`POST /v1/chat/completions`."""
    try:
        body = await read_body(request, ChatRequest)
        messages = _messages(body)
    except HTTPException as error:
        cause = error.__cause__
        place = cause.errors()[0]["loc"] if isinstance(cause, ValidationError) else ()
        # OpenAI answers 400 to a body that is not valid.
        status = 400 if error.status_code == 422 else error.status_code
        param = ".".join(map(str, place)) or None
        return error_response(request, status, error.detail, param=param)
    except _Refused as error:
        return error_response(request, 400, str(error), param=error.param, code="unsupported")
    if body.model not in service.agents:
        return _no_model(request, body.model)
    chat = await run_in_threadpool(_Chat.begin, service, request, body, messages)
    headers = {"x-thread-id": chat.thread}
    if not body.stream:
        try:
            answer = await chat.answer(request)
        except (RunFailed, RunCancelled) as error:
            # Clients try again by themselves, and would pay for an answer that fails three times.
            headers["x-should-retry"] = "false"
            return error_response(
                request, 500, str(error), code=_CODES[type(error)], headers=headers
            )
        return JsonResponse(answer, headers=headers)

    async def stop(_: object) -> None:
        await chat.stop()

    return EventSourceResponse(
        chat.chunks(body.stream_options or StreamOptions()),
        headers=headers,
        # As OpenAI sends it. The default of sse-starlette is "\r\n", which not all clients take.
        sep="\n",
        client_close_handler_callable=stop,
    )


def _messages(body: ChatRequest) -> list[BaseMessage]:
    """The messages of a request, which must ask for nothing that an agent does not do."""
    for name, value in (body.model_extra or {}).items():
        neutral = value is None or value in _WITHOUT_EFFECT.get(name, ())
        if not neutral and name not in _OF_THE_MODEL:
            text = f"{name} is not supported by this server. The agent decides about it."
            raise _Refused(name, text)
    plain = []
    for message in body.messages:
        role = message.get("role")
        if role not in _ROLES or message.get("tool_calls"):
            roles = ", ".join(_ROLES)
            text = f"messages must be of {roles}, without tool calls, got {role!r}."
            raise _Refused("messages", text)
        plain.append({"role": role, "content": message.get("content") or ""})
        if message.get("name"):
            plain[-1]["name"] = message["name"]
    try:
        return convert_to_messages(plain)
    except ValueError as error:
        text = "messages must have a text or a list of parts as their content."
        raise _Refused("messages", text) from error


def new_messages(
    messages: Sequence[BaseMessage], thread_messages: Sequence[BaseMessage]
) -> list[BaseMessage]:
    """The messages of a request that its thread does not have yet.

    Chat clients send the whole conversation, without ids. New is what follows the last answer in
    it, except messages that the thread has, and has not answered: they are sent again.

    >>> hi, hello, more = HumanMessage("Hi"), AIMessage("Hello"), HumanMessage("More")
    >>> [message.text for message in new_messages([hi, hello, more], [hi, hello])]
    ['More']
    >>> new_messages([hi, hello, more], [hi, hello, more])
    []
    """
    if not thread_messages:
        return [*messages]
    last = max(
        (at for at, message in enumerate(messages) if isinstance(message, AIMessage)), default=-1
    )
    # Clients send their system prompt each time, and the thread needs it once.
    prompts = {message.text for message in thread_messages if isinstance(message, SystemMessage)}
    new = [
        message
        for message in messages[last + 1 :]
        if not (isinstance(message, SystemMessage) and message.text in prompts)
    ]
    open_texts: list[str] = []
    for message in reversed(thread_messages):
        if isinstance(message, AIMessage) and not message.tool_calls:
            break
        if isinstance(message, HumanMessage):
            # Back to the last answer: what was said before it is answered.
            open_texts.insert(0, message.text)
    for text in open_texts:
        if not new or new[0].text != text:
            break
        del new[0]
    return new


@dataclass
class _Chat:
    """A request and its answer."""

    service: Service
    model: str
    thread: str
    principal: Principal
    inbox: str
    """The URL of the inbox."""
    keeps: bool
    """Whether the thread stays after the answer."""
    waits: Sequence[Wait]
    """What the thread has waited for before this request."""
    run: Run | None
    """The run that answers; None if the thread waits."""
    remark: str = ""
    """What the message has led to, if the thread waited."""
    id: str = field(default_factory=lambda: f"chatcmpl-{uuid4().hex}")
    has_ended: bool = False

    @classmethod
    def begin(
        cls,
        service: Service,
        request: Request,
        body: ChatRequest,
        messages: Sequence[BaseMessage],
    ) -> _Chat:
        """Submit what is new."""
        principal: Principal = request.state.principal
        thread, key = request.headers.get("x-thread-id"), request.headers.get("idempotency-key")
        keeps = bool(thread or key)
        if not thread:
            name = f"agent_factory:{principal.tenant}:{body.model}:{key}"
            # By the key, so that a request that is sent again finds the thread of the first.
            thread = str(uuid5(NAMESPACE_URL, name) if key else uuid4())
        chat = ChatThread.read(service, thread, principal)
        waits = chat.waits(service)
        # With an idempotency key, a request that is sent again is the same run.
        message_id = key or uuid4().hex
        user = {} if body.user is None else {"user": body.user}
        new, run, remark = new_messages(messages, chat.messages), None, ""
        # Clients send a message again, to see whether it goes on.
        is_held = waits and "\n".join(message.text for message in new) in {
            message.text for message in service.held(thread)
        }
        if not waits or (new and not is_held):
            try:
                run = chat.submit(
                    service,
                    body.model,
                    {"messages": new},
                    message_id=message_id,
                    again=message_id,
                    principal=principal,
                    stream={"messages"},
                    metadata={**(body.metadata or {}), **user},
                )
            # The thread waits, and the agent was added with waiting="reject".
            except ThreadBusy:
                if not waits:
                    raise
        if waits and new:
            if is_held or (run is not None and run.status == "held"):
                run, remark = None, "Your message is held until then."
            elif run is None:
                remark = "Your message was not taken."
            else:
                decisions = [
                    (wait.tool, service.inbox(principal.tenant).get(wait.id).decision or {})
                    for wait in waits
                ]
                tools = [tool for tool, decision in decisions if decision.get("type") == "cancel"]
                if tools:
                    remark = f"Withdrawn by your message, and not run: {', '.join(tools)}."
        inbox = f"{request.base_url}inbox"
        return cls(service, body.model, thread, principal, inbox, keeps, waits, run, remark)

    # The answer at once

    async def answer(self, request: Request) -> dict[str, object]:
        """The completion.

        Raises:
            RunFailed: The run has failed.
            RunCancelled: The run was cancelled.
        """
        text, reason = f"{self._waiting(self.waits)}\n{self.remark}".rstrip(), "stop"
        while self.run is not None:
            result = asyncio.ensure_future(self.run.aresult())
            # Starlette does not stop an endpoint whose client has gone; clients end requests to
            # stop an answer.
            disconnect = asyncio.ensure_future(_has_gone(request))
            await asyncio.wait({result, disconnect}, return_when=asyncio.FIRST_COMPLETED)
            disconnect.cancel()
            if not result.done():
                result.cancel()
                await self.stop()
                # No status of HTTP says so; nginx logs this one.
                raise HTTPException(499, "The client has gone.")
            try:
                values = result.result()
            except (RunFailed, RunCancelled):
                await self._delete()
                raise
            if INTERRUPT not in values:
                text, reason = _last_answer(values["messages"])
            elif waits := await run_in_threadpool(self._waits):
                text = self._waiting(waits)
            else:
                continue  # somebody has decided meanwhile
            text = f"{self.remark}\n\n{text}" if self.remark else text
            break
        completion = {**self._shown("chat.completion"), "usage": await self._usage()}
        await self._delete()
        message = {"role": "assistant", "content": text, "refusal": None}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}
        return {**completion, "choices": [choice]}

    # The answer piece by piece

    async def chunks(self, options: StreamOptions) -> AsyncIterator[dict[str, str]]:
        """The events of a stream."""
        head = self._shown("chat.completion.chunk")

        def chunk(delta: Mapping[str, object], reason: str | None = None) -> dict[str, str]:
            choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
            # OpenAI gives the usage in a last chunk without choices, and null in those before.
            more = {"usage": None} if options.include_usage else {}
            return {"data": to_json({**head, "choices": [choice], **more})}

        # As in OpenAI's streams: the role comes first, with no text.
        yield chunk({"role": "assistant", "content": ""})
        try:
            reason = "stop"
            async for text, why in self._pieces():
                if why == _COMMENT:
                    yield {"comment": text}
                    continue
                reason = why
                if text:
                    yield chunk({"content": text})
            yield chunk({}, reason)
            if options.include_usage:
                yield {"data": to_json({**head, "choices": [], "usage": await self._usage()})}
        except AgentFactoryError as error:
            # The status was sent before the first piece, so the error is an event.
            failed = {"message": str(error), "type": "server_error", "param": None}
            yield {"data": to_json({"error": {**failed, "code": _CODES.get(type(error))}})}
        await self._delete()
        # Clients read on until this comes.
        yield {"data": "[DONE]"}

    async def _pieces(self) -> AsyncIterator[tuple[str, str]]:
        """Pieces of the answer, each with the reason why it would end there, and remarks."""
        if self.run is not None and self.remark:
            yield f"{self.remark}\n\n", "stop"
        while self.run is not None:
            message, status, error = None, "", ""
            async for part in self.run.astream():
                if part["type"] == "waiting_for":
                    yield part["data"]["text"], _COMMENT
                elif part["type"] == "end":
                    status, error = part["data"]["status"], part["data"].get("error")
                elif part["type"] == "messages" and not part["ns"]:
                    piece = part["data"][0]
                    if not isinstance(piece, AIMessage):
                        continue
                    # Several messages of the model are paragraphs of one answer.
                    if piece.text and message not in (None, piece.id):
                        yield "\n\n", "stop"
                    message = piece.id if piece.text else message
                    yield piece.text, _reason(piece)
            self.has_ended = status in ("done", "failed", "waiting")
            if status == "failed":
                raise RunFailed(f"run {self.run.id!r}", f"has failed: {error}.")
            if status == "done":
                if message is None:  # an answer of which there was no stream, or is none any more
                    yield _last_answer((await self.run.aresult())["messages"])
                return
            if waits := await run_in_threadpool(self._waits):
                yield ("\n\n" if message else "") + self._waiting(waits), "stop"
                return
        yield f"{self._waiting(self.waits)}\n{self.remark}".rstrip(), "stop"

    async def stop(self) -> None:
        """End the run of a client that has gone."""
        if self.run is not None and not self.has_ended:
            self.has_ended = True
            await self.run.acancel(by=self.principal.name)
            await self._delete()

    # Parts of both

    def _shown(self, kind: str) -> dict[str, object]:
        return {"id": self.id, "object": kind, "created": int(time.time()), "model": self.model}

    def _waits(self) -> Sequence[Wait]:
        return ChatThread.read(self.service, self.thread, self.principal).waits(self.service)

    def _waiting(self, waits: Iterable[Wait]) -> str:
        """Describe the waits of the thread, in a line for each."""
        lines = ["This conversation waits for a person, and goes on once they have decided:"]
        for wait in waits:
            asks = "asks a question" if wait.kind == "question" else "waits for a review"
            lines.append(f"- {wait.tool} {asks}: {self.inbox}/{wait.id}")
        return "\n".join(lines)

    async def _usage(self) -> dict[str, object]:
        run = self.run
        lines = () if run is None else await run_in_threadpool(lambda: run.info.usage)
        names = ("input_tokens", "output_tokens", "cached_tokens")
        input_, output, cached = (sum(line[name] for line in lines) for name in names)
        return {
            "prompt_tokens": input_,
            "completion_tokens": output,
            "total_tokens": input_ + output,
            "prompt_tokens_details": {"cached_tokens": cached},
        }

    async def _delete(self) -> None:
        """Delete the thread that was made for one answer, if nobody has to decide in it."""
        run, tenant = self.run, self.principal.tenant
        if self.keeps or run is None or await run_in_threadpool(lambda: run.status) == "waiting":
            return
        self.keeps = True  # nothing is left to delete
        delete = partial(self.service.delete_thread, by=self.principal.name, tenant=tenant)
        await run_in_threadpool(delete, self.thread)


async def _has_gone(request: Request) -> None:
    """Wait until the client of a request, whose body was read, has gone."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _last_answer(messages: Sequence[BaseMessage]) -> tuple[str, str]:
    """The text of the last answer, and why it ends."""
    last = next(
        (message for message in reversed(messages) if isinstance(message, AIMessage)), AIMessage("")
    )
    return last.text, _reason(last)


def _reason(message: AIMessage) -> str:
    """Reason why a message ends, in OpenAI's words."""
    metadata = message.response_metadata
    return _CUT.get(str(metadata.get("finish_reason") or metadata.get("stop_reason")), "stop")
