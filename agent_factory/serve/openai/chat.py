"""Chat: a request for a completion, and its answer."""

from __future__ import annotations

import asyncio
import json
import time
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
from agent_factory.providers import ending_of, refusal_text
from agent_factory.serve.client_tools import DIGEST, digest_of, is_client_call
from agent_factory.serve.errors import text_of
from agent_factory.serve.exchange import TOKENS, Exchange, last_answer, reviews_of
from agent_factory.serve.json_response import to_json
from agent_factory.serve.openai.requests import (
    ChatRequest,
    Refused,
    StreamOptions,
    check_calls,
    last_results,
    new_messages,
)
from agent_factory.serve.principal import Principal
from agent_factory.serve.wait_texts import inbox_of, waits_text
from agent_factory.service import NotFound, RunCancelled, RunFailed, Service, ThreadBusy, Wait

CODES: dict[type[Exception], str] = {RunFailed: "run_failed", RunCancelled: "run_cancelled"}
"""Codes of the errors of runs."""

_REASONS = {"cut": "length", "refused": "content_filter"}
"""Finish reasons by the kind of the ending."""

_CALL = "call_"
"""Prefix of the id of a call: the id of the wait follows, so that a result finds its thread."""

_TEMPORARY = "temporary_thread"
"""Key in the metadata of a run whose thread is deleted after the answer."""


@dataclass
class Chat:
    """Request and answer."""

    exchange: Exchange
    settings: Mapping[str, object]
    """Settings of the client, see `client_settings`."""
    keeps: bool
    """Whether the thread stays after the answer."""
    new: int = 0
    """Number of submitted messages."""
    remark: str = ""
    """Effect of the message on a thread that waits."""
    id: str = field(default_factory=lambda: f"chatcmpl-{uuid4().hex}")

    @property
    def thread(self) -> str:
        """The id of the thread."""
        return str(self.exchange.thread)

    @classmethod
    def begin(
        cls,
        service: Service,
        request: Request,
        body: ChatRequest,
        messages: Sequence[BaseMessage],
        settings: Mapping[str, object],
    ) -> Chat:
        """Submit new messages, or results of calls.

        Raises:
            Refused: The messages cannot be taken.
        """
        principal: Principal = request.state.principal
        name, key = request.headers.get("x-thread-id"), request.headers.get("idempotency-key")
        thread = name
        if not thread:
            # By the key: a repeated request finds the thread of the first.
            thread = _id_of(principal, body.model, key) if key else str(uuid4())
        results = _results_for(service, principal, last_results(messages))
        if results:
            places = {wait.thread_id for wait, _ in results}
            if places - {name or results[0][0].thread_id}:
                text = "messages have results of calls that another thread waits for."
                raise Refused("messages", text)
            thread = results[0][0].thread_id
        exchange = Exchange(service, request, body.model, thread, "openai")
        chat = cls(exchange, settings, keeps=bool(name or key))
        if key:
            # The same answer has the same id.
            chat.id = f"chatcmpl-{_id_of(principal, body.model, key, thread)}"
        new = new_messages(messages, exchange.before.messages)
        if results:
            chat._answer_calls(results, new)
            return chat
        if not exchange.before.messages:
            check_calls(messages)
        # With an idempotency key, a repeated request is the same run.
        chat._submit(body, new, _id_of(principal, key) if key else uuid4().hex)
        return chat

    def _answer_calls(self, results: Sequence[tuple[Wait, object]], new: object) -> None:
        """Send results of calls of the client."""
        if new:
            text = "messages of a user must come after the answer to the results of tools."
            raise Refused("messages", text)
        wait, _ = results[0]
        if wait.agent != self.exchange.agent:
            raise Refused("model", f"model must be {wait.agent!r}, which waits for the results.")
        run = self.exchange.join(wait.run)
        # Results come without the header: the run notes a temporary thread.
        self.keeps = self.keeps or not run.info.metadata.get(_TEMPORARY)
        decisions: dict[str, dict[str, Any]] = {}
        for wait, result in results:
            known = (wait.decision or {}).get("message")
            # The same result again decides nothing.
            if (known.get("content") if isinstance(known, Mapping) else known) != result:
                decisions[wait.id] = {"type": "respond", "message": result}
        if decisions:
            self.exchange.decide(decisions, settings=self.settings, stream={"messages"})

    def _submit(self, body: ChatRequest, new: Sequence[BaseMessage], message_id: str) -> None:
        """Submit new messages; note their effect on a thread that waits."""
        exchange, service = self.exchange, self.exchange.service
        waits = exchange.before.waits
        reviews = reviews_of(waits)
        # Clients repeat a message to look for progress.
        is_held = bool(reviews) and "\n".join(message.text for message in new) in {
            message.text for message in service.threads.held(self.thread)
        }
        if not waits or (new and not is_held):
            metadata = (body.metadata or {}).items()
            notes = {key: value for key, value in metadata if key not in (DIGEST, _TEMPORARY)}
            user = {} if body.user is None else {"user": body.user}
            temporary = {} if self.keeps else {_TEMPORARY: True}
            # The last message has this id, and may be a result of the client.
            choice = {**self.settings, CLIENT_TOOL_CHOICE_AT: message_id}
            options: dict[str, Any] = {
                # A user who writes on does not wait for calls of the client.
                "waiting": "interrupt" if waits and not reviews else None,
                "stream": {"messages"},
                "config": {"configurable": choice} if self.settings else None,
                "metadata": {**notes, **user, **digest_of(self.settings), **temporary},
            }
            try:
                if new:
                    exchange.send({"messages": new}, message_id=message_id, **options)
                else:
                    exchange.repeat(message_id, **options)
                self.new = len(new)
            # The thread waits, and the agent was added with waiting="reject".
            except ThreadBusy:
                if not waits:
                    raise
        if not (reviews and new):
            return
        if is_held or (exchange.runs and exchange.run.status == "held"):
            self.remark = "Your message is held until then."
            exchange.runs.clear()
        elif not exchange.runs:
            self.remark = "Your message was not taken."
        else:
            inbox = service.inbox(exchange.principal.tenant)
            decisions = [(wait.tool, inbox.get(wait.id).decision or {}) for wait in reviews]
            tools = [tool for tool, decision in decisions if decision.get("type") == "cancel"]
            if tools:
                self.remark = f"Withdrawn by your message, and not run: {', '.join(tools)}."

    # The answer at once

    async def answer(self) -> dict[str, object]:
        """The completion.

        Raises:
            RunFailed: The run has failed.
            RunCancelled: The run was cancelled.
        """
        before = self.exchange.before
        messages, waits = before.messages, before.waits
        text, reason = f"{self._waiting(waits)}\n{self.remark}".strip(), "stop"
        refusal: str | None = None
        if self.exchange.runs:
            try:
                values = await self._result()
            except (RunFailed, RunCancelled):
                await self._delete()
                raise
            outcome = self.exchange.outcome
            assert outcome is not None  # `result` has returned
            messages, waits = values["messages"], outcome.waits
            text, refusal, reason = self._end(values, waits)
            text = f"{self.remark}\n\n{text}" if self.remark else text
        # A refusal has no content in OpenAI's API.
        content = text or None if refusal else text
        message: dict[str, object] = {"role": "assistant", "content": content, "refusal": refusal}
        if calls := _calls(waits, messages):
            text = "\n\n".join(filter(None, (last_answer(messages).text, text)))
            message |= {"content": text or None, "tool_calls": calls}
            reason = "tool_calls"
        completion = {**self._shown("chat.completion"), "usage": await self._usage()}
        await self._delete(messages, waits)
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}
        return {**completion, "choices": [choice]}

    async def _result(self) -> Any:
        """The output of the run, unless the client goes away, which ends the run."""
        result = asyncio.ensure_future(self.exchange.result())
        # Starlette does not stop an endpoint whose client has gone.
        disconnect = asyncio.ensure_future(_has_gone(self.exchange.request))
        await asyncio.wait({result, disconnect}, return_when=asyncio.FIRST_COMPLETED)
        disconnect.cancel()
        if result.done():
            return result.result()
        result.cancel()
        await self.stop()
        # HTTP has no such status; nginx logs 499.
        raise HTTPException(499, "The client has gone.")

    # The answer piece by piece

    async def chunks(self, options: StreamOptions) -> AsyncIterator[dict[str, str]]:
        """The events of a stream."""
        head = self._shown("chat.completion.chunk")

        def chunk(delta: Mapping[str, object], reason: str | None = None) -> dict[str, str]:
            choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
            # OpenAI gives the usage in a last chunk without choices, and null before.
            more = {"usage": None} if options.include_usage else {}
            return {"data": to_json({**head, "choices": [choice], **more})}

        # As in OpenAI's streams: the role comes first, with no text.
        yield chunk({"role": "assistant", "content": ""})
        before = self.exchange.before
        messages, waits = before.messages, before.waits
        try:
            reason = "stop"
            async for field, text in self._pieces():
                if field == "comment":
                    yield {"comment": text}
                elif field == "finish_reason":
                    reason = text
                elif text:
                    yield chunk({field: text})
            if self.exchange.runs:
                now = await run_in_threadpool(self.exchange.now)
                messages, waits = now.messages, now.waits
            if calls := _calls(waits, messages):
                indexed = [{"index": index, **call} for index, call in enumerate(calls)]
                yield chunk({"tool_calls": indexed})
                reason = "tool_calls"
            yield chunk({}, reason)
            if options.include_usage:
                yield {"data": to_json({**head, "choices": [], "usage": await self._usage()})}
        except AgentFactoryError as error:
            # The status was sent before the first piece, so the error is an event.
            failed = {"message": text_of(error), "type": "server_error", "param": None}
            yield {"data": to_json({"error": {**failed, "code": CODES.get(type(error))}})}
        await self._delete(messages, waits)
        # Clients read on until this comes.
        yield {"data": "[DONE]"}

    async def _pieces(self) -> AsyncIterator[tuple[str, str]]:
        """Pieces of the answer with their fields, comments, and last the reason of the end."""
        exchange = self.exchange
        if not exchange.runs:
            yield "content", f"{self._waiting(exchange.before.waits)}\n{self.remark}".strip()
            return
        if self.remark:
            yield "content", f"{self.remark}\n\n"
        # A structured answer is whole, and other texts are not part of the answer.
        is_whole = CLIENT_RESPONSE_FORMAT in self.settings
        message = None
        async for part in exchange.follow():
            if part["type"] == "waiting_for":
                yield "comment", part["data"]["text"]
            elif part["type"] == "messages" and not part["ns"] and not is_whole:
                piece = part["data"][0]
                if not isinstance(piece, AIMessage) or not piece.text:
                    continue
                # Several messages of the model are paragraphs of one answer.
                if message not in (None, piece.id):
                    yield "content", "\n\n"
                message = piece.id
                yield "content", piece.text
        assert exchange.outcome is not None  # `follow` has returned
        waits = exchange.outcome.waits
        values = {} if waits else await exchange.run.aresult()
        # By the thread: a middleware may have asked another model after a refusal in the stream.
        text, refusal, reason = self._end(values, waits)
        if waits:
            yield "content", ("\n\n" if message and text else "") + text
        elif message is None:  # an answer of which there was no stream, or is none any more
            yield "content", text
        yield "refusal", refusal or ""
        yield "finish_reason", reason

    async def stop(self) -> None:
        """End the run of a client that has gone."""
        if self.exchange.runs and self.exchange.outcome is None:
            await self.exchange.cancel()
            await self._delete()

    # Parts of both

    def _waiting(self, waits: Sequence[Wait]) -> str:
        """Describe the reviews and questions of a thread; empty without any."""
        # The calls of client tools are in the answer itself.
        is_free = all(map(is_client_call, waits))
        return "" if is_free else waits_text(waits, inbox_of(self.exchange.request))

    def _shown(self, kind: str) -> dict[str, object]:
        model = self.exchange.agent
        return {"id": self.id, "object": kind, "created": int(time.time()), "model": model}

    def _end(self, values: Mapping[str, Any], waits: Sequence[Wait]) -> tuple[str, str | None, str]:
        """The text at the end of the run, the words of a refusal, and the finish reason."""
        if waits:
            return self._waiting(waits), None, "stop"
        answer = values.get("structured_response")
        if CLIENT_RESPONSE_FORMAT in self.settings and answer is not None:
            return json.dumps(answer, ensure_ascii=False), None, "stop"
        last = last_answer(values["messages"])
        refusal, ending = refusal_text(last) or None, ending_of(last)
        # OpenAI's API ends a refusal in words with "stop", and has no word for other ends.
        if ending is None or ending.sign == "refusal":
            return last.text, refusal, "stop"
        return last.text, refusal, _REASONS.get(ending.kind, "stop")

    async def _usage(self) -> dict[str, object]:
        used = await run_in_threadpool(self.exchange.used)
        input_, output, cached = (
            sum(number for (_, kind), number in used.items() if kind == name) for name in TOKENS
        )
        return {
            "prompt_tokens": input_,
            "completion_tokens": output,
            "total_tokens": input_ + output,
            "prompt_tokens_details": {"cached_tokens": cached},
        }

    async def _delete(
        self, messages: Sequence[BaseMessage] = (), waits: Sequence[Wait] = ()
    ) -> None:
        """Delete a temporary thread, unless its run goes on."""
        exchange = self.exchange
        if self.keeps or not exchange.runs:
            return
        status = await run_in_threadpool(lambda: exchange.run.status)
        if status == "waiting" and not self._is_known(messages, waits):
            return
        self.keeps = True  # nothing is left to delete
        delete = partial(exchange.service.threads.delete, by=exchange.principal.name)
        await run_in_threadpool(delete, self.thread, tenant=exchange.principal.tenant)

    def _is_known(self, messages: Sequence[BaseMessage], waits: Sequence[Wait]) -> bool:
        """Return True if the client has all of a thread that waits for it, and can send all again.

        The run has had one answer of the model, whose calls are all the client's. A client of
        structured answers leaves no thread behind.
        """
        if self.exchange.before.messages or len(messages) != self.new + 1:
            return False
        last = messages[-1]
        calls = {call["id"] for call in last.tool_calls} if isinstance(last, AIMessage) else set()
        return all(map(is_client_call, waits)) and calls == {wait.call_id for wait in waits}


def _results_for(
    service: Service, principal: Principal, results: Mapping[str, object]
) -> list[tuple[Wait, object]]:
    """Results, each with its wait; without results that no thread waits for."""
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
    """The calls for the client, in the order of the model."""
    order = [call["id"] for call in last_answer(messages).tool_calls]
    calls = [wait for wait in waits if is_client_call(wait)]
    # Calls of agents inside come last.
    calls.sort(key=lambda wait: order.index(wait.call_id) if wait.call_id in order else len(order))
    return [
        {
            "id": f"{_CALL}{wait.id}",
            "type": "function",
            "function": {"name": wait.tool, "arguments": json.dumps(wait.args, ensure_ascii=False)},
        }
        for wait in calls
    ]


async def _has_gone(request: Request) -> None:
    """Wait until the client of a request, whose body was read, has gone."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _id_of(principal: Principal, *parts: str) -> str:
    """An id from the parts of a principal, which nobody else can make."""
    name = json.dumps(["agent_factory", principal.tenant, principal.name, *parts])
    return str(uuid5(NAMESPACE_URL, name))
