"""Sessions of MCP before 2026-07-28: a client cancels, answers and resumes at any process."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ElicitResult,
    InitializeRequestParams,
    InputRequest,
)
from mcp_types.version import is_version_at_least
from pydantic import ValidationError
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from agent_factory.serve.errors import refusal_of
from agent_factory.serve.exchange import Exchange
from agent_factory.serve.json_response import JsonResponse, to_json
from agent_factory.serve.mcp.call import begin, decide, error_result, result_of
from agent_factory.serve.mcp.elicitation import forms_for, takes_forms
from agent_factory.serve.mcp.tools import agents_by_tool, progress_of
from agent_factory.service import NotFound, Service

SESSION = "mcp-session-id"
"""Header with the id of a session."""

SESSION_ID = re.compile(r"(forms|plain)-[0-9a-f]{32}")
"""Form of such an id."""

_CALL = "mcp_call"
"""Key in the metadata of a run: the call that has begun the run, for a client that cancels it."""

_CANCELLED = -32800
"""JSON-RPC's code for a cancelled request, as MCP's SDK for Python 2.3 sends it."""

_LOOK_SECONDS = 0.3
"""How often a call that waits for its user looks for the answer."""


def session_id(params: object) -> str:
    """The id of a new session. All that is known of its client is in it, so no process keeps it.

    Args:
        params: The parameters of the first request.
    """
    shows = False
    with suppress(ValidationError):  # which the SDK refuses
        shows = takes_forms(InitializeRequestParams.model_validate(params).capabilities)
    return f"{'forms' if shows else 'plain'}-{uuid4().hex}"


@dataclass(frozen=True)
class Session:
    """Session of a client, in one of its requests."""

    service: Service
    request: Request
    id: str

    async def respond(self, message: Mapping[str, Any]) -> Response | None:
        """The response to a message; None if the SDK responds."""
        method, params = message.get("method"), message.get("params")
        if method is None and "id" in message:
            await run_in_threadpool(self._answer, str(message["id"]), message.get("result"))
        elif method == "notifications/cancelled" and isinstance(params, dict):
            await run_in_threadpool(self._cancel, params.get("requestId"))
        elif method == "tools/call":
            return await self._call(message)
        else:
            return None
        return Response(status_code=202)

    async def _call(self, message: Mapping[str, Any]) -> Response | None:
        service, request, id = self.service, self.request, message.get("id")
        agents = agents_by_tool(service)
        try:
            params = CallToolRequestParams.model_validate(message.get("params"))
        except ValidationError:
            return None
        if params.name not in agents or not isinstance(id, str | int):
            return None
        agent, arguments = agents[params.name], params.arguments or {}
        notes = {_CALL: self._key(id)}
        try:
            exchange = await run_in_threadpool(begin, service, request, agent, arguments, notes)
        except Exception as error:
            return JsonResponse(_response(id, await error_result(request, error, None)))
        token = (message["params"].get("_meta") or {}).get("progressToken")
        return CallStream(exchange, id, token, self.id.startswith("forms")).response()

    def _key(self, id: object) -> str:
        return f"{self.id}/{json.dumps(id)}"

    def _cancel(self, id: object) -> None:
        """End the run that a call has begun; a call that reads the answer of another ends none."""
        principal = self.request.state.principal
        # Where no form is shown, a call that waits has returned: it cannot be cancelled any more.
        waiting = ["waiting"] if self.id.startswith("forms") else []
        active = {"tenant": principal.tenant, "status": ["queued", "running", *waiting]}
        for summary in self.service.threads.search_runs(**active, limit=1000).runs:
            with suppress(NotFound):  # somebody has deleted the run
                run = self.service.run(summary.id)
                if run.info.metadata.get(_CALL) == self._key(id):
                    return run.cancel(by=principal.name)

    def _answer(self, id: str, result: object) -> None:
        """Decide with a form that the user has filled; else note the reason for the call."""
        run_id, _, digest = id.partition(".")
        exchange, reason = Exchange.about(self.service, self.request, None, run_id, "mcp"), ""
        with suppress(ValidationError):  # an error in place of an answer
            answer = ElicitResult.model_validate(result)
            try:
                decide(exchange, {digest: answer})
            except Exception as error:
                reason = refusal_of(self.request, error, str)[1]
            else:
                if answer.action == "accept":
                    return
        notes = {f"mcp_form_{digest}": reason}
        self.service.threads.change(str(exchange.thread), metadata=notes)


@dataclass
class CallStream:
    """The rest of a call: its progress, forms for its user, and its result.

    Args:
        exchange: The exchange with the run.
        id: The id of the client's request.
        token: The token of its progress, if it wants to know.
        shows_forms: Whether the client shows forms.
        steps: How much progress was reported before.
        part: The id of the part of the run's stream that came last.
    """

    exchange: Exchange
    id: str | int
    token: str | int | None
    shows_forms: bool
    steps: int = 0
    part: str | None = None

    @classmethod
    def resumed(cls, service: Service, request: Request) -> CallStream:
        """The stream after the last event that the client has.

        Raises:
            HTTPException: 405 without such an event, since the server begins no conversation. 400
                for an id that no event has.
            NotFound: There is no such run of this tenant.
        """
        event = request.headers.get("last-event-id")
        if event is None:
            text = "The server sends nothing outside of calls. POST a message of MCP."
            raise HTTPException(405, text, headers={"Allow": "POST"})
        try:
            run, *others = json.loads(event)
            return cls(Exchange.about(service, request, None, str(run), "mcp"), *others)
        except (RecursionError, TypeError, ValueError) as error:
            raise HTTPException(
                400, f"Last-Event-ID is not of an event: {event!r:.100}."
            ) from error

    def response(self) -> Response:
        """The response with the events."""
        return EventSourceResponse(self._events(), sep="\n")

    async def _events(self) -> AsyncIterator[ServerSentEvent]:
        version = self.exchange.request.headers.get("mcp-protocol-version", "")
        # So that a client that is cut off before the first event can ask again.
        if self.part is None and is_version_at_least(version, "2025-11-25"):
            yield self._event("")
        async for message in self._messages():
            yield self._event(to_json({"jsonrpc": "2.0", **message}))

    def _event(self, data: str) -> ServerSentEvent:
        run, place = self.exchange.run.id, (self.id, self.token, self.shows_forms, self.steps)
        id = json.dumps([run, *place, self.part])  # in ASCII, as headers are
        return ServerSentEvent(data, event="message", id=id)

    async def _messages(self) -> AsyncIterator[dict[str, Any]]:
        exchange, reason, after = self.exchange, None, self.part
        try:
            while reason is None:
                async for part in exchange.follow(after):
                    for text in progress_of(part):
                        self.steps += 1
                        if self.token is not None:
                            about = {"progressToken": self.token, "progress": self.steps}
                            params = {**about, "message": text}
                            yield {"method": "notifications/progress", "params": params}
                    # The end comes again, for the outcome.
                    if part["type"] != "end":
                        self.part = part["id"] or self.part
                after, forms = None, await run_in_threadpool(self._forms)
                for digest, form in forms.items():
                    message = form.model_dump(mode="json", by_alias=True, exclude_none=True)
                    yield {"id": f"{exchange.run.id}.{digest}", **message}
                reason = await self._answered(forms) if forms else ""
            if exchange.outcome is not None and exchange.outcome.status == "cancelled":
                yield {"id": self.id, "error": {"code": _CANCELLED, "message": "Cancelled"}}
                return
            result = await result_of(exchange)
            if reason:
                result = await error_result(exchange.request, reason, exchange)
        except Exception as error:
            result = await error_result(exchange.request, error, exchange)
        yield _response(self.id, result)

    def _forms(self) -> Mapping[str, InputRequest]:
        """Forms for the user, if the run waits; the notes of earlier answers are deleted."""
        outcome = self.exchange.outcome
        if outcome is None or outcome.status != "waiting" or not self.shows_forms:
            return {}
        forms = forms_for(self.exchange.request, outcome.reviews)
        notes = dict.fromkeys((f"mcp_form_{digest}" for digest in forms), None)
        self.exchange.service.threads.change(str(self.exchange.thread), metadata=notes)
        return forms

    async def _answered(self, forms: Mapping[str, object]) -> str | None:
        """Wait for the user; return None if the run goes on, or the reason if a form ends the call.

        The reason is "" if the user does not answer.
        """
        exchange = self.exchange
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            info = await run_in_threadpool(exchange.service.threads.get, str(exchange.thread))
            if info.status != "waiting" or info.run != exchange.run.id:
                return None
            for digest in forms:
                if (reason := info.metadata.get(f"mcp_form_{digest}")) is not None:
                    return str(reason)


def _response(id: str | int, result: CallToolResult) -> dict[str, Any]:
    # Later versions have more kinds of results, and name this one.
    shown = result.model_dump(
        mode="json", by_alias=True, exclude_none=True, exclude={"result_type"}
    )
    return {"jsonrpc": "2.0", "id": id, "result": shown}
