"""An example of each route of the server, for the tests that walk all of them.

A new route needs a line here: the bodies that its clients send, or None, or a query such as "?x=1".
`{thread}`, `{run}` and the like stand for ids, in paths and in bodies. The tests walk the routes in
the order of these lines.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.testclient import TestClient

PUBLIC = {
    *("GET /ok", "GET /info", "GET /live", "GET /ready", "GET /static/{name}"),
    "GET /metrics",  # to a token, which belongs to the process
}
"""Routes that answer without a principal."""

ENDLESS = {
    "GET /studio/events",
    "GET /inbox/events",
    "GET /studio/threads/{thread}/events",
    "GET /threads/{thread}/stream",
    "POST /threads/{thread}/stream/events",
}
"""Streams that go on until the client leaves."""


@dataclass(frozen=True)
class Form:
    """Fields of a form, without its token."""

    fields: dict[str, str]


@dataclass(frozen=True)
class Sent:
    """A body in JSON with headers."""

    body: Any
    headers: dict[str, str]


RUN: Any = {"assistant_id": "echo", "input": {"messages": [{"role": "user", "content": "Hi"}]}}
CRON: Any = {**RUN, "schedule": "0 3 * * *"}
ANSWER: Any = {"assistant_id": "desk", "command": {"resume": {"decisions": [{"type": "approve"}]}}}
COMMANDS = [
    {"id": 1, "method": "run.start", "params": RUN},
    {
        "id": 2,
        "method": "input.respond",
        "params": {"interrupt_id": "{interrupt}", "response": ANSWER["command"]["resume"]},
    },
]
FORK = {**RUN, "checkpoint_id": "{checkpoint}"}
ON_THREAD = [{**RUN, "if_not_exists": "create"}, ANSWER, FORK]

USER = {"role": "user", "content": "Hi"}
CHAT = {"model": "echo", "messages": [USER]}
RESPONSE = {"model": "echo", "input": "Hi"}
AG_UI: Any = {
    "threadId": "{thread}",
    "runId": "r-1",
    "state": {},
    "messages": [{"id": "m-1", **USER}],
    "tools": [],
    "context": [],
    "forwardedProps": {},
}
AG_UI_ANSWER = {
    **AG_UI,
    "threadId": "{waiting}",
    "messages": [],
    "resume": [{"interruptId": "{wait}", "status": "resolved", "payload": {"type": "approve"}}],
}


def mcp(method: str, name: str = "echo", **params: Any) -> Sent:
    """A request of MCP, in the version that asks users with its results."""
    version, prefix = "2026-07-28", "io.modelcontextprotocol"
    meta = {
        f"{prefix}/protocolVersion": version,
        f"{prefix}/clientCapabilities": {"elicitation": {"form": {}}},
    }
    headers = {**ACCEPT, "mcp-protocol-version": version, "mcp-method": method}
    if method == "tools/call":
        params["name"] = headers["mcp-name"] = name
    return Sent(rpc(method, _meta=meta, **params), headers)


def a2a(method: str, **params: Any) -> Sent:
    """A request of A2A 1.0."""
    return Sent(rpc(method, **params), {"A2A-Version": "1.0"})


def said(text: str, **places: Any) -> dict[str, Any]:
    """A message of A2A."""
    return {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": text}], **places}


def rpc(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


ACCEPT = {"accept": "application/json, text/event-stream"}
FORMS = {"{digest}": {"action": "accept", "content": {"decision": "approve"}}}

SESSION = {**ACCEPT, "mcp-session-id": f"plain-{'0' * 32}"}
RPC_ANSWER = {"jsonrpc": "2.0", "id": "{waiting_run}.{digest}"}

EXAMPLES: dict[str, list[Any]] = {
    "GET /ok": [None],
    "GET /info": [None],
    "GET /live": [None],
    "GET /ready": [None],
    "GET /metrics": [Sent(None, {"Authorization": "Bearer metrics"})],
    "GET /": [None],
    "GET /static/{name}": [None],
    "GET /studio": [None, "?text=own"],
    "GET /studio/threads": [None],
    "GET /studio/events": [None],
    "GET /studio/agents/{agent}": [None],
    "GET /studio/agents/{agent}/plan.svg": [None],
    "GET /studio/agents/{agent}/policy": [None],
    "POST /studio/threads": [Form({"agent": "echo", "text": "Hi"})],
    "GET /studio/threads/{thread}": [None, "?at={checkpoint}", "?from=0"],
    "GET /studio/threads/{thread}/parts": [None],
    "GET /studio/threads/{thread}/history": [None, "?before={checkpoint}"],
    "GET /studio/threads/{thread}/events": [None],
    "POST /studio/threads/{thread}/messages": [
        Form({"text": "Hi"}),
        Form({"checkpoint": "{checkpoint}"}),
    ],
    "POST /studio/threads/{thread}/answers": [Form({"message": "m-1", "whole": "1"})],
    "POST /studio/threads/{thread}/versions": [Form({"message": "m-1", "text": "Hi"})],
    "GET /studio/threads/{thread}/developer": [None],
    "POST /studio/threads/{thread}/state": [Form({"checkpoint": "{checkpoint}"})],
    "GET /studio/threads/{thread}/settings": [None],
    "POST /studio/threads/{thread}/rename": [Form({"title": "Another title"})],
    "POST /studio/threads/{thread}/archive": [Form({"archived": "1"}), Form({"archived": "0"})],
    "GET /studio/threads/{thread}/delete": [None],
    "GET /studio/runs": [None, "?text=own&status=failed"],
    "GET /studio/runs/rows": [None],
    "GET /studio/runs/{run}": [None],
    "GET /studio/runs/{run}/parts": [None],
    "POST /studio/runs/{run}/retry": [Form({})],
    "GET /studio/threads/{thread}/held": [None],
    "GET /studio/threads/{thread}/missing": [None],
    "GET /inbox": [None, "?text=own"],
    "GET /inbox/rows": [None],
    "GET /inbox/events": [None],
    "GET /inbox/audit": [None, "?thread={thread}"],
    "GET /inbox/approvals": [None, "?ended=1"],
    "POST /inbox/approvals/{approval}/revoke": [Form({})],
    "GET /inbox/decisions": ["?decision=approve&wait={wait}"],
    "GET /inbox/{wait}": [None],
    "GET /inbox/{wait}/held": [None],
    "POST /inbox/{wait}/claim": [Form({})],
    "POST /inbox/{wait}/release": [Form({})],
    "POST /inbox/{wait}/decision": [Form({"decision": "approve"})],
    "POST /inbox/decisions": [
        Form({"decision": "approve", "wait": "{wait}", "digest": "as it was shown"})
    ],
    "POST /ag-ui/{agent}": [AG_UI, AG_UI_ANSWER],
    "GET /v1/models": [None],
    "GET /v1/models/{agent}": [None],
    "POST /v1/chat/completions": [
        CHAT,
        {**CHAT, "stream": True},
        Sent(CHAT, {"X-Thread-Id": "{thread}"}),
        Sent(CHAT, {"X-Thread-Id": "{waiting}"}),
    ],
    "POST /v1/responses": [
        {**RESPONSE, "stream": True},
        {**RESPONSE, "previous_response_id": "{run}"},
        {**RESPONSE, "conversation": "{waiting}"},
    ],
    "GET /v1/responses/{run}": [None],
    "POST /v1/responses/{run}/cancel": [None],
    "GET /openapi.json": [None],
    "GET /docs": [None],
    "POST /assistants": [{"graph_id": "echo", "metadata": {"topic": "own"}}],
    "POST /assistants/search": [{}, {"graph_id": "echo"}, {"metadata": {"topic": "own"}}],
    "POST /assistants/count": [{}],
    "POST /mcp": [
        Sent(rpc("tools/list"), ACCEPT),
        mcp("tools/list"),
        mcp("tools/call", arguments={"message": "Hi"}),
        mcp("tools/call", arguments={"message": "Hi", "thread": "{thread}"}),
        mcp("tools/call", "desk", arguments={"thread": "{waiting}"}),
        mcp("tools/call", "desk", inputResponses=FORMS, requestState="{waiting_run}"),
        Sent(rpc("tools/call", name="desk", arguments={"thread": "{waiting}"}), SESSION),
        Sent(rpc("notifications/cancelled", requestId=1), SESSION),
        Sent({**RPC_ANSWER, "result": FORMS["{digest}"]}, SESSION),
    ],
    "GET /mcp": [Sent(None, {**SESSION, "last-event-id": '["{run}", 1, null, false, 0, null]'})],
    "GET /.well-known/agent-card.json": ["?agent=echo"],
    "GET /a2a/.well-known/agent-card.json": ["?agent=echo"],
    "GET /a2a/{agent}/.well-known/agent-card.json": [None],
    "POST /a2a/{agent}": [
        a2a("SendMessage", message=said("Hi")),
        a2a("SendStreamingMessage", message=said("Hi", contextId="{thread}")),
        a2a("ListTasks", contextId="{thread}"),
        a2a("ListTasks"),
        a2a("GetTask", id="{run}"),
        a2a("SubscribeToTask", id="{run}"),
        a2a("CancelTask", id="{run}"),
    ],
    "POST /a2a/{agent}/": [a2a("GetTask", id="{run}")],
    "POST /a2a/desk": [a2a("SendMessage", message=said("approve", taskId="{waiting_run}"))],
    "GET /assistants/{assistant}": [None],
    "PATCH /assistants/{assistant}": [{"name": "Own"}],
    "POST /assistants/{assistant}/versions": [{}],
    "POST /assistants/{assistant}/latest": [{"version": 1}],
    "GET /assistants/{assistant}/graph": [None],
    "GET /assistants/{assistant}/schemas": [None],
    "GET /assistants/{assistant}/subgraphs": [None],
    "GET /assistants/{assistant}/subgraphs/{namespace}": [None],
    "POST /threads/{thread}/copy": [None],
    "GET /threads/{thread}/stream": [None],
    "POST /threads/{thread}/stream/events": [{"channels": ["values", "lifecycle"]}],
    "POST /threads/{thread}/commands": COMMANDS,
    "POST /runs/batch": [[RUN, {**RUN, "thread_id": "{thread}"}]],
    "GET /runs/{run}/stream": [None],
    "PUT /store/items": [{"namespace": ["a"], "key": "k", "value": {"x": 1}}],
    "GET /store/items": ["?namespace=a&key=k"],
    "POST /store/items/search": [
        {"namespace_prefix": ["a"]},
        {"namespace_prefix": ["a"], "filter": {"x": 1, "y": {"$gt": 0, "$ne": [1]}}},
    ],
    "POST /store/namespaces": [{}],
    "DELETE /store/items": [{"namespace": ["a"], "key": "k"}],
    "GET /threads": [None, "?limit=1", '?metadata={"topic":"own"}'],
    "POST /threads": [
        {},
        {"metadata": {"assistant_id": "{assistant}"}},
        {"thread_id": "{thread}", "if_exists": "do_nothing"},
    ],
    "POST /threads/search": [{}, {"ids": ["{thread}"]}, {"metadata": {"topic": "own", "n": 1}}],
    "POST /threads/count": [{}, {"ids": ["{thread}"]}],
    "GET /threads/{thread}": [None],
    "PATCH /threads/{thread}": [{"metadata": {"topic": "own"}}],
    "GET /threads/{thread}/state": [None],
    "POST /threads/{thread}/state": [
        {"values": {"messages": []}},
        {"values": {"messages": [USER]}, "as_node": "model"},
    ],
    "POST /threads/{thread}/state/checkpoint": [{"checkpoint": {"checkpoint_id": "{checkpoint}"}}],
    "GET /threads/{thread}/state/{checkpoint}": [None],
    "POST /threads/{thread}/history": [{}, {"before": "{checkpoint}"}],
    "GET /threads/{thread}/history": [None, "?limit=1", "?before={checkpoint}"],
    "GET /threads/{thread}/runs": [None],
    "POST /threads/{thread}/runs/crons": [CRON],
    "POST /runs/crons": [CRON, {**CRON, "assistant_id": "{assistant}"}],
    "POST /runs/crons/search": [{}, {"thread_id": "{thread}"}],
    "POST /runs/crons/count": [{}],
    "GET /runs/crons/{cron}": [None],
    "PATCH /runs/crons/{cron}": [{"enabled": False}],
    "DELETE /runs/crons/{cron}": [None],
    "POST /threads/{thread}/runs": [RUN, *ON_THREAD],
    "POST /threads/{thread}/runs/stream": [RUN, *ON_THREAD],
    "POST /threads/{thread}/runs/wait": [RUN, *ON_THREAD],
    "GET /threads/{thread}/runs/{run}": [None],
    "GET /threads/{thread}/runs/{run}/join": [None],
    "GET /threads/{thread}/runs/{run}/stream": [None],
    "POST /threads/{thread}/runs/{run}/cancel": [None],
    "POST /runs": [RUN, {**RUN, "assistant_id": "{assistant}"}],
    "POST /runs/stream": [RUN],
    "POST /runs/wait": [RUN],
    "POST /studio/threads/{thread}/cancel": [Form({})],
    "POST /studio/runs/{run}/cancel": [Form({})],
    "POST /runs/cancel": [{"run_ids": ["{run}"]}, {"status": "all"}],
    "DELETE /threads/{thread}/runs/{run}": [None],
    "DELETE /assistants/{assistant}": [None],
    "POST /studio/threads/{thread}/delete": [Form({})],
    "DELETE /threads/{thread}": [None],
    "POST /threads/prune": [{"thread_ids": ["{waiting}"]}],
}


def examples(app: Starlette) -> Iterator[tuple[str, str, Any]]:
    """The method, the path and the body of each example.

    Raises:
        AssertionError: A route has no example.
    """
    known = set()
    for route in app.routes:
        assert isinstance(route, Route), route
        known |= {f"{method} {route.path}" for method in (route.methods or set()) - {"HEAD"}}
    known -= {"PATCH /threads/{thread}/state"}  # it is refused to everybody
    known = {key.replace("{model:path}", "{agent}") for key in known}
    # A task of A2A belongs to an agent, and this is another one than that of the other examples.
    assert known == EXAMPLES.keys() - {"POST /a2a/desk"}, "Change route_examples.py."
    for key, bodies in EXAMPLES.items():
        method, path = key.split()
        for body in bodies:
            yield method, path, body


def send(
    client: TestClient, method: str, path: str, body: Any, headers: Mapping[str, str] | None = None
) -> Any:
    """The response to an example; of endless streams, the first parts."""
    options: dict[str, Any] = {"headers": headers, "follow_redirects": False}
    if isinstance(body, Sent):
        options["headers"] = {**body.headers, **(headers or {})}
        body = body.body
    if isinstance(body, str):
        path += body
    elif isinstance(body, Form):
        options["data"] = body.fields
    elif body is not None:
        options["json"] = body
    if not re.fullmatch(r"/.*/events|/threads/[^/]+/stream", path.partition("?")[0]):
        return client.request(method, path, **options)
    request = client.build_request(method, path, headers=headers, json=options.get("json"))
    return asyncio.run(first_parts(client.app, request))


def scope_of(request: Any) -> dict[str, Any]:
    """What a server tells an application of a request."""
    return {
        "type": "http",
        "method": request.method,
        "path": request.url.path,
        "query_string": request.url.query,
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "scheme": "http",
        "server": ("testserver", 80),
        "client": ("testclient", 1),
    }


async def first_parts(app: Any, request: Any, until: bytes = b"") -> httpx.Response:
    """The start of a stream: up to some bytes, or what it sends in its first moments."""
    sent: list[Any] = []
    body, enough = asyncio.Event(), asyncio.Event()

    async def receive() -> Any:
        if not body.is_set():
            body.set()
            return {"type": "http.request", "body": request.content}
        with suppress(TimeoutError):
            await asyncio.wait_for(enough.wait(), 30 if until else 0.2)
        return {"type": "http.disconnect"}

    async def collect(message: Any) -> None:
        sent.append(message)
        if until and until in message.get("body", b""):
            enough.set()

    await app(scope_of(request), receive, collect)
    content = b"".join(message.get("body", b"") for message in sent)
    return httpx.Response(sent[0]["status"], headers=sent[0]["headers"], content=content)


def filled(example: Any, ids: Mapping[str, str]) -> Any:
    """An example with ids in place of their names."""
    if isinstance(example, str):
        for name, value in ids.items():
            example = example.replace(f"{{{name}}}", value)
        return example
    if isinstance(example, dict):
        return {filled(key, ids): filled(value, ids) for key, value in example.items()}
    if isinstance(example, Sent):
        return Sent(filled(example.body, ids), filled(example.headers, ids))
    if isinstance(example, Form):
        return Form(filled(example.fields, ids))
    return [filled(one, ids) for one in example] if isinstance(example, list) else example
