"""Responses: a request for a response, and the answer in the form of OpenAI's Responses API."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, ClassVar, Literal, Self

from pydantic import model_validator
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from agent_factory.errors import AgentFactoryError
from agent_factory.middleware.client_tools import CLIENT_RESPONSE_FORMAT
from agent_factory.serve.errors import text_of
from agent_factory.serve.exchange import Exchange
from agent_factory.serve.json_response import to_json
from agent_factory.serve.openai.chat import CODES, OWN_NOTES, Answer
from agent_factory.serve.openai.requests import ChatRequest, Refused
from agent_factory.serve.principal import Principal
from agent_factory.service import NotFound, Run, RunCancelled, RunFailed, Service

_BEFORE_END = {"queued": "queued", "held": "queued", "running": "in_progress"}
"""Status of a response by the status of a run that has not ended."""

_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}
"""Reasons of an incomplete response by the finish reasons of chat completions."""

Events = Iterator[tuple[str, Mapping[str, object]]]
"""Types of events, each with the rest of the data."""


class ResponseRequest(ChatRequest):
    """A request for a response: a request for a completion, and its place in a conversation."""

    background: bool | None = False
    conversation: str | dict[Literal["id"], str] | None = None
    previous_response_id: str | None = None
    store: bool | None = True

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: object) -> object:
        if not isinstance(value, Mapping):
            return value
        body = {**value}
        input_, prompt, text = (body.pop(name, None) for name in ("input", "instructions", "text"))
        text = {} if text is None else text
        if not isinstance(text, Mapping) or text.keys() - {"format", "verbosity"}:
            raise Refused("text", f"text must have a format and a verbosity, got {text!r:.100}.")
        system = [] if prompt is None else [{"role": "system", "content": prompt}]
        body["messages"] = [*system, *_messages(input_)]
        return {**body, "response_format": text.get("format")}

    def place(self, service: Service, request: Request) -> tuple[str | None, Run | None, bool]:
        """The place in a conversation, see `ChatRequest.place`; raises Refused."""
        name, after, id = self.conversation, None, self.previous_response_id
        names = {name.get("id") if isinstance(name, Mapping) else name}
        names.add(request.headers.get("x-thread-id"))
        if id is not None:
            after = run_of(service, request, id, "previous_response_id", 400)
            names.add(after.thread_id)
        if len(names := names - {None, ""}) > 1:
            text = "conversation, previous_response_id and X-Thread-Id must be of one thread."
            raise Refused("conversation", text)
        if self.background and self.store is False:
            raise Refused("background", "background needs store: true, to read the response.")
        return next(iter(names), None), after, self.store is not False


def run_of(
    service: Service, request: Request, id: str, param: str = "response_id", status: int = 404
) -> Run:
    """The run of a response; Refused if the tenant has none."""
    principal: Principal = request.state.principal
    try:
        return service.run(id.removeprefix("resp_").partition("_")[0], tenant=principal.tenant)
    except NotFound as error:
        code = param.replace("_id", "_not_found")
        raise Refused(param, f"There is no response {id!r}.", code, status) from error


def _messages(items: object) -> list[dict[str, Any]]:
    """The messages of an input; raises Refused for an item of another kind."""
    if isinstance(items, str):
        return [{"role": "user", "content": items}]
    if not isinstance(items, list) or not items:
        raise Refused("input", f"input must be a text or a list of items, got {items!r:.100}.")
    messages: list[dict[str, Any]] = []
    for item in items:
        kind = item.get("type", "message") if isinstance(item, Mapping) else item
        if kind == "message":
            messages.append({"role": item.get("role"), "content": _content(item.get("content"))})
        elif kind == "function_call":
            # Calls are part of the message before them.
            if not messages or messages[-1]["role"] != "assistant":
                messages.append({"role": "assistant", "content": ""})
            call = {"id": item.get("call_id"), "type": "function", "function": item}
            messages[-1].setdefault("tool_calls", []).append(call)
        elif kind == "function_call_output":
            result = {"role": "tool", "tool_call_id": item.get("call_id")}
            messages.append({**result, "content": _content(item.get("output"))})
        else:
            kinds = "message, function_call or function_call_output"
            raise Refused("input", f"input must have items of type {kinds}, got {kind!r:.100}.")
    return messages


def _content(content: object) -> object:
    """A content in the form of chat completions."""
    if not isinstance(content, list):
        return content
    parts: list[object] = []
    for part in content:
        match part:
            case {"type": "input_text" | "output_text", "text": text} | {
                "type": "refusal",
                "refusal": text,
            }:
                part = {"type": "text", "text": text}
            case {"type": "input_image", "image_url": url}:
                part = {"type": "image_url", "image_url": {"url": url}}
            case {"type": "input_file", **file}:
                part = {"type": "file", "file": file}
        parts.append(part)
    return parts


class Output:
    """Items of a response, messages with one part and calls, and the events by which they grow."""

    def __init__(self, key: str) -> None:
        self.items: list[dict[str, Any]] = []
        self._key, self._kind = key, ""
        # The object with the text that grows, and the place of this object.
        self._part, self._place = dict[str, Any](), dict[str, object]()

    def add(self, kind: str, text: str, **call: str) -> Events:
        """Add a piece of "output_text" or "refusal", or "function_call_arguments" of a call."""
        key = kind.rpartition("_")[2]  # text, refusal or arguments
        if call or kind != self._kind:
            yield from self.end()
            at, self._kind = len(self.items), kind
            item: dict[str, Any] = {"type": "message", "role": "assistant", "content": []}
            self._part = {"type": kind, key: "", "annotations": []}
            if call:
                self._part = item = {"type": "function_call", key: "", **call}
            item |= {"id": f"item_{self._key}_{at}", "status": "in_progress"}
            self._place = {"item_id": item["id"], "output_index": at}
            yield "response.output_item.added", {"output_index": at, "item": item}
            self.items.append(item)
            if not call:
                self._place |= {"content_index": 0, "logprobs": []}
                yield "response.content_part.added", {**self._place, "part": self._part}
                item["content"] = [self._part]
        self._part[key] += text
        yield f"response.{kind}.delta", {**self._place, "delta": text}

    def end(self) -> Events:
        """End the last item."""
        if not self._kind:
            return
        kind, item, self._kind = self._kind, self.items[-1], ""
        key, item["status"] = kind.rpartition("_")[2], "completed"
        name = {"name": item["name"]} if "name" in item else {}
        yield f"response.{kind}.done", {**self._place, key: self._part[key], **name}
        if self._part is not item:
            yield "response.content_part.done", {**self._place, "part": self._part}
        yield "response.output_item.done", {"output_index": len(self.items) - 1, "item": item}


@dataclass
class Responses(Answer):
    """Answer in the form of OpenAI's Responses API. The id has the id of the run."""

    names: ClassVar[Mapping[str, str]] = {"messages": "input", "response_format": "text.format"}
    run: Run | None = None
    """The run of the response; the thread may have earlier runs that answer."""
    head: dict[str, object] = field(default_factory=dict)
    """Parts of the response that stay."""

    @classmethod
    def begin(cls, service: Service, request: Request, body: ChatRequest) -> Self:
        """Submit new items; raises as `Answer.begin` does."""
        assert isinstance(body, ResponseRequest)
        answer = super().begin(service, request, body)
        answer.detached = bool(body.background)
        # A message that is held has the newest run, which does not answer yet.
        runs = answer.exchange.runs or service.threads.runs(answer.thread, limit=1)
        answer._set_head(runs[-1], f"resp_{runs[-1].id}_{answer.key[:8]}")
        return answer

    @classmethod
    def about(cls, service: Service, request: Request) -> Self:
        """The response in the path; Refused (404) if there is none."""
        id = request.path_params["run"]
        for name in request.query_params:
            raise Refused(name, f"{name} is not supported. Stream a response where it is created.")
        run = run_of(service, request, id)
        info = run.info
        exchange = Exchange(service, request, info.agent, info.thread_id, "openai", [run])
        settings = {key: True for key in info.metadata if key == CLIENT_RESPONSE_FORMAT}
        body = ChatRequest(model=info.agent, messages=[{}])
        answer = cls(exchange, body, settings, keeps=True, key=id, detached=True)
        answer._set_head(run, id)
        return answer

    def _set_head(self, run: Run, id: str) -> None:
        info, self.run = run.info, run
        notes = {key: note for key, note in info.metadata.items() if key not in OWN_NOTES}
        self.head = {
            **{"id": id, "object": "response", "created_at": int(info.created_at)},
            "model": self.exchange.agent,
            "conversation": {"id": self.thread} if self.keeps else None,
            "user": notes.pop("user", None),
            "metadata": notes,
            # Clients require these. Settings of the request are not repeated.
            **{"tools": [], "tool_choice": "auto", "parallel_tool_calls": True},
            **{"error": None, "incomplete_details": None, "usage": None},
        }

    def _shown(self, status: str, **parts: object) -> dict[str, object]:
        return {**self.head, "status": status, "output": [], **parts}

    def _failed(self, error: AgentFactoryError) -> dict[str, object]:
        failure = {"code": CODES.get(type(error), "server_error"), "message": text_of(error)}
        status = "cancelled" if isinstance(error, RunCancelled) else "failed"
        return self._shown(status, error=failure)

    async def _ended(self, reason: str, output: Output) -> dict[str, object]:
        input_, output_tokens, cached = await self.used()
        usage = {
            "input_tokens": input_,
            "input_tokens_details": {"cached_tokens": cached},
            "output_tokens": output_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": input_ + output_tokens,
        }
        shown, cause = {"output": output.items, "usage": usage}, _INCOMPLETE.get(reason)
        if cause is None:
            return self._shown("completed", **shown)
        return self._shown("incomplete", incomplete_details={"reason": cause}, **shown)

    async def content(self) -> dict[str, object]:
        """The response at the end, or now if the run goes on without the client."""
        assert self.run is not None  # a response has a head
        if self.detached:
            status = await run_in_threadpool(lambda run: run.status, self.run)
            if status in _BEFORE_END:
                return self._shown(_BEFORE_END[status])
        try:
            (text, refusal, reason), output = await self.whole(), Output(self.key)
        except (RunFailed, RunCancelled) as error:
            if self.detached:
                return self._failed(error)
            raise
        deque(output.add("output_text", text) if text else ())
        deque(output.add("refusal", refusal) if refusal else ())
        deque(self._last(output))
        response = await self._ended(reason, output)
        await self.delete()
        return response

    def _last(self, output: Output) -> Events:
        """The events of the calls, and of the end of the output."""
        for id, name, arguments in self.calls:
            yield from output.add("function_call_arguments", arguments, call_id=id, name=name)
        yield from output.end()

    async def events(self) -> AsyncIterator[dict[str, str]]:
        """The events of a stream."""
        numbers, output = count(), Output(self.key)

        def event(kind: str, parts: Mapping[str, object]) -> dict[str, str]:
            data = {"type": kind, "sequence_number": next(numbers), **parts}
            return {"event": kind, "data": to_json(data)}

        for kind in ("response.created", "response.in_progress"):
            yield event(kind, {"response": self._shown("in_progress")})
        try:
            async for name, text in self.pieces():
                if name == "comment":
                    yield {"comment": text}
                elif name == "finish_reason":
                    for part in self._last(output):
                        yield event(*part)
                    response = await self._ended(text, output)
                    yield event(f"response.{response['status']}", {"response": response})
                elif text:
                    kind = "output_text" if name == "content" else name
                    for part in output.add(kind, text):
                        yield event(*part)
        except AgentFactoryError as error:
            yield event("response.failed", {"response": self._failed(error)})
        await self.delete()
