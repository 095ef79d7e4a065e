"""Chat: a request for a completion, and its answer."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import NAMESPACE_URL, uuid4, uuid5

from langchain_core.messages import AIMessage, BaseMessage
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request

from agent_factory.errors import AgentFactoryError
from agent_factory.middleware.client_tools import CLIENT_RESPONSE_FORMAT, CLIENT_TOOL_CHOICE_AT
from agent_factory.serve.chat_thread import ChatThread
from agent_factory.serve.client_tools import (
    DIGEST,
    digest_of,
    is_client_call,
    takes_client_tools,
    with_settings,
)
from agent_factory.serve.json_response import to_json
from agent_factory.serve.open_waits import waits_text
from agent_factory.serve.openai.requests import (
    ChatRequest,
    Refused,
    StreamOptions,
    check_calls,
    last_results,
    new_messages,
)
from agent_factory.serve.principal import Principal
from agent_factory.service import NotFound, Run, RunCancelled, RunFailed, Service, ThreadBusy, Wait
from agent_factory.upstream import INTERRUPT

CODES: dict[type[Exception], str] = {RunFailed: "run_failed", RunCancelled: "run_cancelled"}
"""Codes of the errors of runs."""

_CUT = {"length": "length", "max_tokens": "length", "MAX_TOKENS": "length"}
_CUT |= {"content_filter": "content_filter", "refusal": "content_filter"}
"""Why a model has stopped early, in the words of providers."""

_COMMENT = "comment"  # in place of a reason: a piece that is not part of the answer

_CALL = "call_"
"""Beginning of the id of a call: the id of its wait follows, so that a result finds its thread."""

_TEMPORARY = "temporary_thread"
"""Key in the metadata of a run whose thread is deleted after the answer."""

_USAGE = ("input_tokens", "output_tokens", "cached_tokens")


@dataclass
class Chat:
    """A request and its answer."""

    service: Service
    model: str
    principal: Principal
    inbox: str
    """The URL of the inbox."""
    settings: Mapping[str, object]
    """What the client asks for, as `client_settings` makes it."""
    before: ChatThread
    """The thread before this request."""
    keeps: bool
    """Whether the thread stays after the answer."""
    waits: Sequence[Wait] = ()
    """What the thread has waited for before this request."""
    run: Run | None = None
    """The run that answers; None if the thread waits."""
    new: int = 0
    """The number of messages that were submitted."""
    remark: str = ""
    """What the message has led to, if the thread waited."""
    id: str = field(default_factory=lambda: f"chatcmpl-{uuid4().hex}")
    usage_before: Counter[str] = field(default_factory=Counter)
    has_ended: bool = False

    @property
    def thread(self) -> str:
        """The id of the thread."""
        return self.before.thread

    @classmethod
    def begin(
        cls,
        service: Service,
        request: Request,
        body: ChatRequest,
        messages: Sequence[BaseMessage],
        settings: Mapping[str, object],
    ) -> Chat:
        """Submit what is new, or the results of calls that a thread waits for.

        Raises:
            Refused: The messages cannot be taken.
        """
        principal: Principal = request.state.principal
        name, key = request.headers.get("x-thread-id"), request.headers.get("idempotency-key")
        thread = name
        if not thread:
            # By the key, so that a request that is sent again finds the thread of the first.
            thread = _id_of(principal, body.model, key) if key else str(uuid4())
        results = _results_for(service, principal, last_results(messages))
        if results:
            places = {wait.thread_id for wait, _ in results}
            if places - {name or results[0][0].thread_id}:
                text = "messages have results of calls that another thread waits for."
                raise Refused("messages", text)
            thread = results[0][0].thread_id
        chat = cls(
            service,
            body.model,
            principal,
            f"{request.base_url}inbox",
            settings,
            ChatThread.read(service, thread, principal),
            keeps=bool(name or key),
        )
        if key:
            # The same answer has the same id.
            chat.id = f"chatcmpl-{_id_of(principal, body.model, key, thread)}"
        new = new_messages(messages, chat.before.messages)
        if results:
            chat._answer_calls(results, new)
            return chat
        if not chat.before.messages:
            check_calls(messages)
        # With an idempotency key, a request that is sent again is the same run.
        chat._submit(body, new, _id_of(principal, key) if key else uuid4().hex)
        return chat

    def _answer_calls(self, results: Sequence[tuple[Wait, object]], new: object) -> None:
        """Send the results of calls that the client has run."""
        service, principal = self.service, self.principal
        if new:
            text = "messages of a user must come after the answer to the results of tools."
            raise Refused("messages", text)
        wait, _ = results[0]
        if wait.agent != self.model:
            raise Refused("model", f"model must be {wait.agent!r}, which waits for the results.")
        self.run = run = service.run(wait.run, tenant=principal.tenant)
        # Results come without the header: the run knows whether its thread is temporary.
        self.keeps = self.keeps or not run.info.metadata.get(_TEMPORARY)
        self.usage_before = _usage_of(run)
        decisions: dict[str, dict[str, Any]] = {}
        for wait, result in results:
            known = (wait.decision or {}).get("message")
            # The same result again decides nothing, whatever has come with it.
            if (known.get("content") if isinstance(known, Mapping) else known) != result:
                decisions[wait.id] = {"type": "respond", "message": result}
        if takes_client_tools(service.agents[self.model]):
            messages = self.before.messages
            decisions = with_settings(decisions, self.settings, run, messages)
        if decisions:
            service.inbox(principal.tenant).decide_together(
                decisions,
                by=principal.name,
                roles=principal.roles,
                stream={"messages"},
                via="openai",
            )

    def _submit(self, body: ChatRequest, new: Sequence[BaseMessage], message_id: str) -> None:
        """Submit new messages; if the thread waits, note what becomes of them."""
        service, thread, tenant = self.service, self.thread, self.principal.tenant
        self.waits = waits = self.before.waits(service)
        reviews = [wait for wait in waits if not is_client_call(wait)]
        # Clients send a message again, to see whether it goes on.
        is_held = reviews and "\n".join(message.text for message in new) in {
            message.text for message in service.threads.held(thread)
        }
        if not waits or (new and not is_held):
            notes = {
                k: v for k, v in (body.metadata or {}).items() if k not in (DIGEST, _TEMPORARY)
            }
            user = {} if body.user is None else {"user": body.user}
            temporary = {} if self.keeps else {_TEMPORARY: True}
            # The last message has this id, and may be a result that the client has run.
            choice = {**self.settings, CLIENT_TOOL_CHOICE_AT: message_id}
            try:
                self.run = self.before.submit(
                    service,
                    self.model,
                    {"messages": new},
                    message_id=message_id,
                    again=message_id,
                    principal=self.principal,
                    # A user who writes on does not wait for what the client has not done.
                    waiting="interrupt" if waits and not reviews else None,
                    stream={"messages"},
                    config={"configurable": choice} if self.settings else None,
                    metadata={**notes, **user, **digest_of(self.settings), **temporary},
                )
                self.new = len(new)
            # The thread waits, and the agent was added with waiting="reject".
            except ThreadBusy:
                if not waits:
                    raise
        if not (reviews and new):
            return
        if is_held or (self.run is not None and self.run.status == "held"):
            self.run, self.remark = None, "Your message is held until then."
        elif self.run is None:
            self.remark = "Your message was not taken."
        else:
            decisions = [
                (wait.tool, service.inbox(tenant).get(wait.id).decision or {}) for wait in reviews
            ]
            tools = [tool for tool, decision in decisions if decision.get("type") == "cancel"]
            if tools:
                self.remark = f"Withdrawn by your message, and not run: {', '.join(tools)}."

    # The answer at once

    async def answer(self, request: Request) -> dict[str, object]:
        """The completion.

        Raises:
            RunFailed: The run has failed.
            RunCancelled: The run was cancelled.
        """
        messages, waits = self.before.messages, self.waits
        text, reason = f"{_waiting(waits, self.inbox)}\n{self.remark}".strip(), "stop"
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
            messages, waits = values["messages"], ()
            if INTERRUPT not in values:
                text, reason = self._last_answer(values)
            elif waits := await run_in_threadpool(self._waits):
                text = _waiting(waits, self.inbox)
            else:
                continue  # somebody has decided meanwhile
            text = f"{self.remark}\n\n{text}" if self.remark else text
            break
        message: dict[str, object] = {"role": "assistant", "content": text, "refusal": None}
        if calls := _calls(waits, messages):
            spoken, _ = _last_text(messages)
            text = "\n\n".join(filter(None, (spoken, text)))
            message |= {"content": text or None, "tool_calls": calls}
            reason = "tool_calls"
        completion = {**self._shown("chat.completion"), "usage": await self._usage()}
        await self._delete(messages, waits)
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
        messages, waits = self.before.messages, self.waits
        try:
            reason = "stop"
            async for text, why in self._pieces():
                if why == _COMMENT:
                    yield {"comment": text}
                    continue
                reason = why
                if text:
                    yield chunk({"content": text})
            if self.run is not None:
                messages, waits = await run_in_threadpool(self._now)
            if calls := _calls(waits, messages):
                indexed = [{"index": index, **call} for index, call in enumerate(calls)]
                yield chunk({"tool_calls": indexed})
                reason = "tool_calls"
            yield chunk({}, reason)
            if options.include_usage:
                yield {"data": to_json({**head, "choices": [], "usage": await self._usage()})}
        except AgentFactoryError as error:
            # The status was sent before the first piece, so the error is an event.
            failed = {"message": str(error), "type": "server_error", "param": None}
            yield {"data": to_json({"error": {**failed, "code": CODES.get(type(error))}})}
        await self._delete(messages, waits)
        # Clients read on until this comes.
        yield {"data": "[DONE]"}

    async def _pieces(self) -> AsyncIterator[tuple[str, str]]:
        """Pieces of the text, each with the reason why it would end there, and remarks."""
        if self.run is not None and self.remark:
            yield f"{self.remark}\n\n", "stop"
        # A structured answer is whole, or it is not one; what is said before it is not part of it.
        is_whole = CLIENT_RESPONSE_FORMAT in self.settings
        while self.run is not None:
            message, status, error = None, "", ""
            async for part in self.run.astream():
                if part["type"] == "waiting_for":
                    yield part["data"]["text"], _COMMENT
                elif part["type"] == "end":
                    status, error = part["data"]["status"], part["data"].get("error")
                elif part["type"] == "messages" and not part["ns"] and not is_whole:
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
                    yield self._last_answer(await self.run.aresult())
                return
            if waits := await run_in_threadpool(self._waits):
                text = _waiting(waits, self.inbox)
                yield ("\n\n" if message and text else "") + text, "stop"
                return
        yield f"{_waiting(self.waits, self.inbox)}\n{self.remark}".strip(), "stop"

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
        return self._now()[1]

    def _now(self) -> tuple[Sequence[BaseMessage], Sequence[Wait]]:
        """The messages of the thread, and what it waits for."""
        now = ChatThread.read(self.service, self.thread, self.principal)
        return now.messages, now.waits(self.service)

    def _last_answer(self, values: Mapping[str, Any]) -> tuple[str, str]:
        """The text of the last answer, and why it ends."""
        answer = values.get("structured_response")
        if CLIENT_RESPONSE_FORMAT in self.settings and answer is not None:
            return json.dumps(answer, ensure_ascii=False), "stop"
        return _last_text(values["messages"])

    async def _usage(self) -> dict[str, object]:
        used = Counter() if self.run is None else await run_in_threadpool(_usage_of, self.run)
        input_, output, cached = (used[name] - self.usage_before[name] for name in _USAGE)
        return {
            "prompt_tokens": input_,
            "completion_tokens": output,
            "total_tokens": input_ + output,
            "prompt_tokens_details": {"cached_tokens": cached},
        }

    async def _delete(
        self, messages: Sequence[BaseMessage] = (), waits: Sequence[Wait] = ()
    ) -> None:
        """Delete the thread that was made for one answer, unless its run goes on in it.

        Args:
            messages: The messages of the thread.
            waits: What it waits for.
        """
        run, tenant = self.run, self.principal.tenant
        if self.keeps or run is None:
            return
        if await run_in_threadpool(lambda: run.status) == "waiting" and not self._is_known(
            messages, waits
        ):
            return
        self.keeps = True  # nothing is left to delete
        delete = partial(self.service.threads.delete, by=self.principal.name, tenant=tenant)
        await run_in_threadpool(delete, self.thread)

    def _is_known(self, messages: Sequence[BaseMessage], waits: Sequence[Wait]) -> bool:
        """Return True if the client has all of a thread that waits for it, and can send it again.

        The run has had one answer of the model, whose calls are all the client's. A client that
        wants the calls alone, as for a structured answer, leaves no thread behind.
        """
        if self.before.messages or len(messages) != self.new + 1:
            return False
        last = messages[-1]
        calls = {call["id"] for call in last.tool_calls} if isinstance(last, AIMessage) else set()
        return all(map(is_client_call, waits)) and calls == {wait.call_id for wait in waits}


def _results_for(
    service: Service, principal: Principal, results: Mapping[str, object]
) -> list[tuple[Wait, object]]:
    """Results, each with the wait that it is for; without those that no thread waits for."""
    inbox, found = service.inbox(principal.tenant), []
    for id, result in results.items():
        try:
            wait = inbox.get(id.removeprefix(_CALL))
        except NotFound:
            continue
        if is_client_call(wait):
            found.append((wait, result))
    return found


def _calls(waits: Iterable[Wait], messages: Sequence[BaseMessage]) -> list[dict[str, object]]:
    """The calls that the client has to run, in the order of the model."""
    last = next((message for message in reversed(messages) if isinstance(message, AIMessage)), None)
    order = [call["id"] for call in last.tool_calls] if last is not None else []
    calls = [wait for wait in waits if is_client_call(wait)]
    # Calls of agents inside come last.
    calls.sort(key=lambda wait: order.index(wait.call_id) if wait.call_id in order else len(order))
    return [
        {
            "id": f"{_CALL}{wait.id}",
            "type": "function",
            "function": {
                "name": wait.tool,
                "arguments": json.dumps(wait.args, ensure_ascii=False),
            },
        }
        for wait in calls
    ]


def _waiting(waits: Sequence[Wait], inbox: str) -> str:
    """Describe the reviews and questions of a thread; empty without one."""
    # The calls of client tools are in the answer itself.
    return "" if all(map(is_client_call, waits)) else waits_text(waits, inbox)


def _usage_of(run: Run) -> Counter[str]:
    """The tokens that a run has used, by kind."""
    used: Counter[str] = Counter()
    for line in run.info.usage:
        used.update({name: line[name] for name in _USAGE})
    return used


async def _has_gone(request: Request) -> None:
    """Wait until the client of a request, whose body was read, has gone."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _last_text(messages: Sequence[BaseMessage]) -> tuple[str, str]:
    """The text of the last message of the model, and why it ends."""
    last = next(
        (message for message in reversed(messages) if isinstance(message, AIMessage)), AIMessage("")
    )
    return last.text, _reason(last)


def _reason(message: AIMessage) -> str:
    """Reason why a message ends, in OpenAI's words."""
    metadata = message.response_metadata
    return _CUT.get(str(metadata.get("finish_reason") or metadata.get("stop_reason")), "stop")


def _id_of(principal: Principal, *parts: str) -> str:
    """An id that a principal's own parts lead to, and nobody else's."""
    name = json.dumps(["agent_factory", principal.tenant, principal.name, *parts])
    return str(uuid5(NAMESPACE_URL, name))
