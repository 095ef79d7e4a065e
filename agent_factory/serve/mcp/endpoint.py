"""The endpoint of MCP: streamable HTTP, at any process of a server."""

from __future__ import annotations

from importlib.metadata import version
from itertools import count
from typing import Any

import anyio
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
    Tool,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from agent_factory.serve.body import read_json
from agent_factory.serve.exchange import Exchange
from agent_factory.serve.mcp.call import begin, decide, error_result, result_of
from agent_factory.serve.mcp.elicitation import forms_for, takes_forms
from agent_factory.serve.mcp.session import SESSION, SESSION_ID, CallStream, Session, session_id
from agent_factory.serve.mcp.tools import OUTPUT_SCHEMA, ToolInput, agents_by_tool, progress_of
from agent_factory.service import Service

Context = ServerRequestContext[Any, Request]


async def respond(service: Service, request: Request) -> Response:
    """`POST /mcp`, and `GET /mcp` of a client that was cut off."""
    session = request.headers.get(SESSION)
    if session is not None and not SESSION_ID.fullmatch(session):
        # An id of another server: with this status, as MCP says, a client begins again.
        raise HTTPException(404, f"There is no session {session!r:.100}. Begin with initialize.")
    if request.method == "GET":
        return (await run_in_threadpool(CallStream.resumed, service, request)).response()
    message: Any = await read_json(request)  # here, where 413 answers a long body
    new = None
    if isinstance(message, dict):  # another message is refused by the SDK
        if session is not None:
            response = await Session(service, request, session).respond(message)
            if response is not None:
                return response
        if message.get("method") == "initialize":
            new = session_id(message.get("params"))
    return _McpResponse(_server(service), request, new)


class _McpResponse(Response):
    """Response by the server of the SDK.

    Args:
        session: The id of a session that begins.
    """

    def __init__(self, server: Server[Any], request: Request, session: str | None) -> None:
        super().__init__()
        self._server, self._request, self._session = server, request, session

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        unread = [await self._request.body()]
        # A manager for each request keeps no sessions: each process of a server can
        # answer each request. A common manager needs the lifespan of the application,
        # which does not run in a mounted application.
        manager = StreamableHTTPSessionManager(
            self._server,
            stateless=True,
            # The SDK refuses a limit of 0, which an empty body would set.
            max_request_body_size=max(len(unread[0]), 1),
        )

        async def receive_body_first() -> Message:
            if unread:
                return {"type": "http.request", "body": unread.pop(), "more_body": False}
            message = await receive()
            # A server that shuts down cancels requests, and their runs go on elsewhere.
            self._request.state.has_gone = message["type"] == "http.disconnect"
            return message

        async def send_with_session(message: Message) -> None:
            if self._session is not None and message["type"] == "http.response.start":
                MutableHeaders(raw=message["headers"])[SESSION] = self._session
            await send(message)

        async with manager.run():
            await manager.handle_request(scope, receive_body_first, send_with_session)


def _server(service: Service) -> Server[Any]:
    async def list_tools(_: Context, __: PaginatedRequestParams | None) -> ListToolsResult:
        tools = [
            Tool(
                name=name,
                title=agent,
                description=service.description(agent) or f"Ask the agent {agent!r}.",
                input_schema=ToolInput.model_json_schema(),
                output_schema=OUTPUT_SCHEMA,
            )
            for name, agent in agents_by_tool(service).items()
        ]
        return ListToolsResult(tools=tools)

    async def call_tool(
        context: Context, params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        agents = agents_by_tool(service)
        if params.name not in agents:
            text = f"There is no tool {params.name!r}. There are: {', '.join(agents)}."
            raise MCPError(INVALID_PARAMS, text)
        return await _answer(service, agents[params.name], context, params)

    return Server(
        "agent-factory",
        version=version("agent-factory"),
        instructions="Each tool is an agent. It may wait for a person before it acts.",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


async def _answer(
    service: Service, agent: str, context: Context, params: CallToolRequestParams
) -> CallToolResult | InputRequiredResult:
    """The result of a call; or forms for the user, whose answers come with the same call again."""
    request, arguments = context.request, params.arguments or {}
    assert request is not None  # all requests come over HTTP
    answers = {
        digest: part
        for digest, part in (params.input_responses or {}).items()
        if isinstance(part, ElicitResult)
    }
    exchange: Exchange | None = None
    try:
        # Without a shield, nobody would end the run of a client that goes away just now.
        with anyio.CancelScope(shield=True):
            if (run := params.request_state) is None:
                exchange = await run_in_threadpool(begin, service, request, agent, arguments)
            else:
                about = Exchange.about
                exchange = await run_in_threadpool(about, service, request, agent, run, "mcp")
                await run_in_threadpool(decide, exchange, answers)
        assert exchange is not None  # nothing cancels the scope
        steps = count(1)
        try:
            async for part in exchange.follow():
                for text in progress_of(part):
                    await context.session.report_progress(next(steps), message=text)
        except anyio.get_cancelled_exc_class():
            # Since 2026-07-28, clients end calls so. Readers end nothing.
            is_modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
            begins = params.request_state or arguments.get("message")
            if is_modern and begins and getattr(request.state, "has_gone", False):
                with anyio.CancelScope(shield=True):
                    await exchange.cancel()
            raise
        outcome = exchange.outcome
        if outcome is not None and outcome.status == "waiting":
            # Only since 2026-07-28 does each request say what its client can do.
            asks = takes_forms(context.session.client_capabilities)
            # A user who has not answered is not asked again.
            asks = asks and all(part.action == "accept" for part in answers.values())
            if asks and (forms := await run_in_threadpool(forms_for, request, outcome.reviews)):
                # The state is not signed: the answer is checked as any other request.
                return InputRequiredResult(input_requests=forms, request_state=exchange.run.id)
        return await result_of(exchange)
    except Exception as error:
        return await error_result(request, error, exchange)
