"""Answers to clients of OpenAI's API, in the form of chat completions or another one."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Self
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
from agent_factory.serve.exchange import TOKENS, Exchange, ThreadView, last_answer, reviews_of
from agent_factory.serve.json_response import to_json
from agent_factory.serve.openai.requests import (
    ChatRequest,
    Refused,
    StreamOptions,
    check_calls,
    last_results,
    messages_of,
    new_messages,
    settings_of,
)
from agent_factory.serve.principal import Principal
from agent_factory.serve.wait_texts import inbox_of, waits_text
from agent_factory.service import NotFound, Run, RunCancelled, RunFailed, Service, ThreadBusy, Wait

CODES: dict[type[Exception], str] = {RunFailed: "run_failed", RunCancelled: "run_cancelled"}
"""Codes of the errors of runs."""

_REASONS = {"cut": "length", "refused": "content_filter"}
"""Finish reasons by the kind of the ending."""

_CALL = "call_"
"""Prefix of the id of a call: the id of the wait follows, so that a result finds its thread."""

_TEMPORARY = "temporary_thread"
"""Key in the metadata of a run whose thread is deleted after the answer."""

OWN_NOTES = (DIGEST, _TEMPORARY, CLIENT_RESPONSE_FORMAT)
"""Keys in the metadata of a run that are not of the client."""

End = tuple[str, str | None, str]
"""The text of an answer, the words of a refusal, and the finish reason of chat completions."""


@dataclass
class Answer:
    """Request of a client, and the answer. Each protocol writes it in its own form."""

    names: ClassVar[Mapping[str, str]] = {}
    """Names of fields of the protocol, by those of chat completions."""

    exchange: Exchange
    body: ChatRequest
    settings: Mapping[str, object]
    """Settings of the client, see `client_settings`."""
    keeps: bool
    """Whether the thread stays after the answer."""
    key: str
    """Id of the answer."""
    new: int = 0
    """Number of submitted messages."""
    remark: str = ""
    """Effect of the message on a thread that waits."""
    detached: bool = False
    """Whether the run goes on if the client goes away."""
    view: ThreadView = field(default_factory=ThreadView)
    """The thread, at last at the end."""

    @property
    def thread(self) -> str:
        """The id of the thread."""
        return str(self.exchange.thread)

    @classmethod
    def begin(cls, service: Service, request: Request, body: ChatRequest) -> Self:
        """Submit new messages, or results of calls.

        Raises:
            Refused: The request cannot be taken.
        """
        messages, settings = messages_of(body), settings_of(service, body)
        principal: Principal = request.state.principal
        name, after, keeps = body.place(service, request)
        thread, key = name, request.headers.get("idempotency-key")
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
        # The same answer has the same id.
        id = _id_of(principal, body.model, key, thread) if key else uuid4().hex
        answer = cls(exchange, body, settings, keeps or bool(name or key), id)
        if after is not None:
            answer._go_back_to(after)
        new = new_messages(messages, exchange.before.messages)
        if results:
            answer._answer_calls(results, new)
            return answer
        if not exchange.before.messages:
            check_calls(messages)
        # With an idempotency key, a repeated request is the same run.
        answer._submit(new, _id_of(principal, key) if key else uuid4().hex)
        return answer

    def _go_back_to(self, run: Run) -> None:
        """Let the messages come after a run, if the thread has gone on since."""
        exchange, ids = self.exchange, {run.id, run.info.reader}
        history = exchange.service.threads.history(self.thread, tenant=exchange.principal.tenant)
        # A run that has not begun has no checkpoint: the messages come after it in any case.
        state = next((s for s in history if (s.metadata or {}).get("run_id") in ids), None)
        if state and state.config["configurable"]["checkpoint_id"] != exchange.before.checkpoint:
            exchange.fork_at(state)

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

    def _submit(self, new: Sequence[BaseMessage], message_id: str) -> None:
        """Submit new messages; note their effect on a thread that waits."""
        exchange, service, body = self.exchange, self.exchange.service, self.body
        waits = exchange.before.waits
        reviews = reviews_of(waits)
        # Clients repeat a message to look for progress.
        is_held = bool(reviews) and "\n".join(message.text for message in new) in {
            message.text for message in service.threads.held(self.thread)
        }
        if not waits or (new and not is_held):
            metadata = (body.metadata or {}).items()
            notes = {key: value for key, value in metadata if key not in OWN_NOTES}
            notes |= {} if body.user is None else {"user": body.user}
            notes |= {} if self.keeps else {_TEMPORARY: True}
            notes |= {key: True for key in self.settings if key == CLIENT_RESPONSE_FORMAT}
            # The last message has this id, and may be a result of the client.
            choice = {**self.settings, CLIENT_TOOL_CHOICE_AT: message_id}
            options: dict[str, Any] = {
                # A user who writes on does not wait for calls of the client.
                "waiting": "interrupt" if waits and not reviews else None,
                "stream": {"messages"},
                "config": {"configurable": choice} if self.settings else None,
                "metadata": {**notes, **digest_of(self.settings)},
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

    async def whole(self) -> End:
        """The end of the answer, with the whole text; raises as `Exchange.result` does."""
        self.view = self.exchange.before
        text, refusal, reason = f"{self._waiting()}\n{self.remark}".strip(), None, "stop"
        if self.exchange.runs:
            try:
                values = await self._result()
            except (RunFailed, RunCancelled):
                await self.delete()
                raise
            outcome = self.exchange.outcome
            assert outcome is not None  # `result` has returned
            self.view = ThreadView(values=values, waits=outcome.waits)
            text, refusal, reason = self._end(values)
            text = f"{self.remark}\n\n{text}" if self.remark else text
        if self.calls:
            text = "\n\n".join(filter(None, (last_answer(self.view.messages).text, text)))
            reason = "tool_calls"
        return text, refusal, reason

    async def _result(self) -> Any:
        """The output of the run, unless the client goes away, which ends the run."""
        if self.detached:
            return await self.exchange.result()
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

    async def pieces(self) -> AsyncIterator[tuple[str, str]]:
        """Pieces of the answer with their fields, comments, and last the reason of the end.

        Raises as `Exchange.result` does.
        """
        exchange, self.view = self.exchange, self.exchange.before
        if not exchange.runs:
            yield "content", f"{self._waiting()}\n{self.remark}".strip()
            yield "finish_reason", "tool_calls" if self.calls else "stop"
            return
        if self.remark:
            yield "content", f"{self.remark}\n\n"
        # A structured answer is whole, and other texts are not part of the answer.
        message, is_whole = None, CLIENT_RESPONSE_FORMAT in self.settings
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
        self.view = ThreadView(waits=exchange.outcome.waits)
        values = {} if self.view.waits else await exchange.run.aresult()
        # By the thread: a middleware may have asked another model after a refusal in the stream.
        text, refusal, reason = self._end(values)
        if self.view.waits:
            yield "content", ("\n\n" if message and text else "") + text
        elif message is None:  # an answer of which there was no stream, or is none any more
            yield "content", text
        yield "refusal", refusal or ""
        self.view = await run_in_threadpool(exchange.now)
        yield "finish_reason", "tool_calls" if self.calls else reason

    async def stop(self) -> None:
        """End the run of a client that has gone."""
        if self.exchange.runs and self.exchange.outcome is None and not self.detached:
            await self.exchange.cancel()
            await self.delete()

    # Parts of both

    @property
    def calls(self) -> list[tuple[str, str, str]]:
        """The calls for the client, in the order of the model: id, name, and arguments as JSON."""
        order = [call["id"] for call in last_answer(self.view.messages).tool_calls]
        waits = [wait for wait in self.view.waits if is_client_call(wait)]
        # Calls of agents inside come last.
        waits.sort(key=lambda w: order.index(w.call_id) if w.call_id in order else len(order))
        dumped = partial(json.dumps, ensure_ascii=False)
        return [(f"{_CALL}{wait.id}", wait.tool, dumped(wait.args)) for wait in waits]

    def _waiting(self) -> str:
        """Describe the reviews and questions of a thread; empty without any."""
        # The calls of client tools are in the answer itself.
        waits = self.view.waits
        is_free = all(map(is_client_call, waits))
        return "" if is_free else waits_text(waits, inbox_of(self.exchange.request))

    def _end(self, values: Mapping[str, Any]) -> End:
        """The end of the run."""
        if self.view.waits:
            return self._waiting(), None, "stop"
        answer = values.get("structured_response")
        if CLIENT_RESPONSE_FORMAT in self.settings and answer is not None:
            return json.dumps(answer, ensure_ascii=False), None, "stop"
        last = last_answer(values["messages"])
        refusal, ending = refusal_text(last) or None, ending_of(last)
        # OpenAI's API ends a refusal in words with "stop", and has no word for other ends.
        if ending is None or ending.sign == "refusal":
            return last.text, refusal, "stop"
        return last.text, refusal, _REASONS.get(ending.kind, "stop")

    async def used(self) -> list[int]:
        """Tokens of the model calls: of the input, of the output, and of the input in a cache."""
        used = await run_in_threadpool(self.exchange.used)
        return [sum(n for (_, kind), n in used.items() if kind == name) for name in TOKENS]

    async def delete(self) -> None:
        """Delete a temporary thread, unless its run goes on."""
        exchange = self.exchange
        if self.keeps or not exchange.runs:
            return
        status = await run_in_threadpool(lambda: exchange.run.status)
        if status == "waiting" and not self._is_known():
            return
        self.keeps = True  # nothing is left to delete
        delete = partial(exchange.service.threads.delete, by=exchange.principal.name)
        await run_in_threadpool(delete, self.thread, tenant=exchange.principal.tenant)

    def _is_known(self) -> bool:
        """Return True if the client has all of a thread that waits for it, and can send all again.

        The run has had one answer of the model, whose calls are all the client's. A client of
        structured answers leaves no thread behind.
        """
        messages, waits = self.view.messages, self.view.waits
        if self.exchange.before.messages or len(messages) != self.new + 1:
            return False
        last = messages[-1]
        calls = {call["id"] for call in last.tool_calls} if isinstance(last, AIMessage) else set()
        return all(map(is_client_call, waits)) and calls == {wait.call_id for wait in waits}


class Chat(Answer):
    """Answer in the form of chat completions."""

    def _shown(self, kind: str) -> dict[str, object]:
        created, model = int(time.time()), self.exchange.agent
        return {"id": f"chatcmpl-{self.key}", "object": kind, "created": created, "model": model}

    def _calls(self) -> list[dict[str, object]]:
        functions = [(id, {"name": name, "arguments": args}) for id, name, args in self.calls]
        return [{"id": id, "type": "function", "function": part} for id, part in functions]

    async def _usage(self) -> dict[str, object]:
        input_, output, cached = await self.used()
        return {
            "prompt_tokens": input_,
            "completion_tokens": output,
            "total_tokens": input_ + output,
            "prompt_tokens_details": {"cached_tokens": cached},
        }

    async def content(self) -> dict[str, object]:
        """The completion; raises as `whole` does."""
        text, refusal, reason = await self.whole()
        calls = {"tool_calls": self._calls()} if self.calls else {}
        # A refusal, and a message with calls, may have no content in OpenAI's API.
        content = text or None if refusal or calls else text
        message = {"role": "assistant", "content": content, "refusal": refusal, **calls}
        completion = {**self._shown("chat.completion"), "usage": await self._usage()}
        await self.delete()
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}
        return {**completion, "choices": [choice]}

    async def events(self) -> AsyncIterator[dict[str, str]]:
        """The events of a stream."""
        options = self.body.stream_options or StreamOptions()
        head = self._shown("chat.completion.chunk")

        def chunk(delta: Mapping[str, object], reason: str | None = None) -> dict[str, str]:
            choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
            # OpenAI gives the usage in a last chunk without choices, and null before.
            more = {"usage": None} if options.include_usage else {}
            return {"data": to_json({**head, "choices": [choice], **more})}

        # As in OpenAI's streams: the role comes first, with no text.
        yield chunk({"role": "assistant", "content": ""})
        try:
            async for field, text in self.pieces():
                if field == "comment":
                    yield {"comment": text}
                elif field == "finish_reason":
                    calls = [{"index": at, **call} for at, call in enumerate(self._calls())]
                    if calls:
                        yield chunk({"tool_calls": calls})
                    yield chunk({}, text)
                elif text:
                    yield chunk({field: text})
            if options.include_usage:
                yield {"data": to_json({**head, "choices": [], "usage": await self._usage()})}
        except AgentFactoryError as error:
            # The status was sent before the first piece, so the error is an event.
            failed = {"message": text_of(error), "type": "server_error", "param": None}
            yield {"data": to_json({"error": {**failed, "code": CODES.get(type(error))}})}
        await self.delete()
        # Clients read on until this comes.
        yield {"data": "[DONE]"}


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


async def _has_gone(request: Request) -> None:
    """Wait until the client of a request, whose body was read, has gone."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _id_of(principal: Principal, *parts: str) -> str:
    """An id from the parts of a principal, which nobody else can make."""
    name = json.dumps(["agent_factory", principal.tenant, principal.name, *parts])
    return str(uuid5(NAMESPACE_URL, name))
