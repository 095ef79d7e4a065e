"""The endpoint of MCP: streamable HTTP, without sessions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any
from uuid import uuid4

import anyio
from langchain_core.messages import HumanMessage
from mcp import MCPError
from mcp.server import Server, ServerRequestContext
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ElicitResult,
    InputRequiredResult,
    ListToolsResult,
    PaginatedRequestParams,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from agent_factory.serve.body import read_json
from agent_factory.serve.errors import refusal_of
from agent_factory.serve.exchange import Exchange
from agent_factory.serve.mcp.elicitation import forms_for, takes_forms, to_decision
from agent_factory.serve.mcp.tools import (
    ToolInput,
    agents_by_tool,
    answer_of,
    error_result,
    progress_of,
    to_tool,
    waiting_result,
)
from agent_factory.serve.mistakes import explained
from agent_factory.serve.wait_texts import inbox_of
from agent_factory.service import RunCancelled, RunFailed, Service, ThreadBusy

Context = ServerRequestContext[Any, Request]


async def respond(service: Service, request: Request) -> Response:
    """`POST /mcp`."""
    await read_json(request)  # here, where 413 answers a long body
    return _McpResponse(_server(service), request, await request.body())


class _McpResponse(Response):
    """Response by the server of the SDK."""

    def __init__(self, server: Server[Any], request: Request, body: bytes) -> None:
        super().__init__()
        self._server, self._request, self._unread = server, request, [body]
        self._size = len(body)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # A manager for each request keeps no sessions: each process of a server can
        # answer each request. A common manager needs the lifespan of the application,
        # which does not run in a mounted application.
        manager = StreamableHTTPSessionManager(
            self._server,
            stateless=True,
            # The SDK refuses a limit of 0, which an empty body would set.
            max_request_body_size=max(self._size, 1),
        )
        async with manager.run():
            await manager.handle_request(scope, self._receive, send)

    async def _receive(self) -> Message:
        """The body, and then messages of the client."""
        if self._unread:
            return {"type": "http.request", "body": self._unread.pop(), "more_body": False}
        message = await self._request.receive()
        # A server that shuts down cancels requests, and their runs go on elsewhere.
        self._request.state.has_gone = message["type"] == "http.disconnect"
        return message


def _server(service: Service) -> Server[Any]:
    async def list_tools(_: Context, __: PaginatedRequestParams | None) -> ListToolsResult:
        agents = agents_by_tool(service)
        return ListToolsResult(tools=[to_tool(service, *names) for names in agents.items()])

    async def call_tool(
        context: Context, params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        agents = agents_by_tool(service)
        if params.name not in agents:
            text = f"There is no tool {params.name!r}. There are: {', '.join(agents)}."
            raise MCPError(INVALID_PARAMS, text)
        assert context.request is not None  # all requests come over HTTP
        call = _Call(service, agents[params.name], context, context.request)
        try:
            return await call.result(params)
        except (RunFailed, RunCancelled) as error:
            return error_result(str(error))
        except Exception as error:
            return error_result(refusal_of(context.request, error, str)[1])

    return Server(
        "agent-factory",
        version=version("agent-factory"),
        instructions="Each tool is an agent. It may wait for a person before it acts.",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


@dataclass
class _Call:
    """Call of a tool, and the run that answers."""

    service: Service
    agent: str
    context: Context
    request: Request
    steps: int = 0
    """How much progress was reported so far."""

    async def result(self, params: CallToolRequestParams) -> CallToolResult | InputRequiredResult:
        """The result; or forms for the user, whose answers come with the same call again."""
        responses = params.input_responses or {}
        answers = {
            digest: part for digest, part in responses.items() if isinstance(part, ElicitResult)
        }
        # Without a shield, nobody would end the run of a client that goes away just now.
        with anyio.CancelScope(shield=True):
            if params.request_state is None:
                exchange = await run_in_threadpool(self._submit, params.arguments or {})
            else:
                exchange = await run_in_threadpool(self._decide, params.request_state, answers)
        try:
            async for part in exchange.follow():
                for text in progress_of(part):
                    self.steps += 1
                    await self.context.session.report_progress(self.steps, message=text)
        except anyio.get_cancelled_exc_class():
            # Since 2026-07-28, clients end calls so. Readers end nothing.
            is_modern = self.context.protocol_version in MODERN_PROTOCOL_VERSIONS
            begins = params.request_state or (params.arguments or {}).get("message")
            if is_modern and begins and getattr(self.request.state, "has_gone", False):
                with anyio.CancelScope(shield=True):
                    await exchange.cancel()
            raise
        run, outcome = exchange.run, exchange.outcome
        if outcome is None or outcome.status != "waiting":
            return answer_of(run, await run.aresult())
        # Only since 2026-07-28 does each request say what its client can do.
        asks = takes_forms(self.context.session.client_capabilities)
        # A user who has not answered is not asked again.
        asks = asks and all(part.action == "accept" for part in answers.values())
        if asks and (forms := await run_in_threadpool(forms_for, self.request, outcome.reviews)):
            # The state is not signed: the answer is checked as any other request.
            return InputRequiredResult(input_requests=forms, request_state=run.id)
        return waiting_result(run, outcome.reviews, inbox_of(self.request))

    def _submit(self, arguments: Mapping[str, Any]) -> Exchange:
        """Submit a message, or join the last run of the thread."""
        try:
            tool_input = ToolInput.model_validate(arguments)
        except ValidationError as error:
            raise HTTPException(422, explained(error, ToolInput, arguments)) from error
        if not tool_input.message and not tool_input.thread:
            raise HTTPException(422, "message is missing.")
        thread = tool_input.thread or str(uuid4())
        exchange = Exchange(self.service, self.request, self.agent, thread, "mcp")
        if not tool_input.message:
            # A call without a message reads an answer, and begins nothing.
            run = exchange.repeat(None)
            # The last run of the thread may belong to another agent.
            return Exchange.about(self.service, self.request, self.agent, run.id, "mcp")
        message = HumanMessage(tool_input.message)
        try:
            exchange.send(message, waiting="reject", stream={"messages"})
        except ThreadBusy as error:
            raise HTTPException(
                409,
                f"Thread {tool_input.thread!r} waits for a person or works on another message, so "
                "this one was not taken. Call the tool without a message to read its answer.",
            ) from error
        return exchange

    def _decide(self, run_id: str, answers: Mapping[str, ElicitResult]) -> Exchange:
        """Decide with forms that the user has filled."""
        exchange = Exchange.about(self.service, self.request, self.agent, run_id, "mcp")
        # By digest, which names the call that the user has seen. What somebody else has decided
        # meanwhile is not here any more.
        waits = {wait.digest: wait for wait in exchange.reviews()}
        decisions = {
            waits[digest].id: to_decision(waits[digest], answer.content or {})
            for digest, answer in answers.items()
            if answer.action == "accept" and digest in waits
        }
        if decisions:
            exchange.decide(decisions)
        return exchange
