"""One message as a request of each protocol."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

from serve.route_examples import AG_UI, USER, Sent, a2a, mcp, said

Asked = tuple[str, Sent]
"""The path of a request, with its body and its headers."""

Protocol = Callable[..., Asked]
"""Makes a request of the agent, the thread, a text, and perhaps the id of the message."""


def langgraph(
    agent: str, thread: str, text: str, id: str | None = None, end: str = "wait"
) -> Asked:
    inputs = {"messages": [{**USER, "content": text, "id": id}]}
    body = {"assistant_id": agent, "input": inputs, "if_not_exists": "create"}
    return f"/threads/{thread}/runs/{end}", Sent({**body, "on_disconnect": "cancel"}, {})


def langgraph_stream(agent: str, thread: str, text: str) -> Asked:
    return langgraph(agent, thread, text, end="stream")


def ag_ui(agent: str, thread: str, text: str, id: str | None = None) -> Asked:
    messages = [{"id": id or uuid4().hex, **USER, "content": text}]
    return f"/ag-ui/{agent}", Sent({**AG_UI, "threadId": thread, "messages": messages}, {})


def openai(agent: str, thread: str, text: str, id: str | None = None) -> Asked:
    body: dict[str, Any] = {"model": agent, "messages": [{**USER, "content": text}]}
    return "/v1/chat/completions", Sent(body, {"x-thread-id": thread})


def openai_stream(agent: str, thread: str, text: str) -> Asked:
    path, sent = openai(agent, thread, text)
    return path, Sent({**sent.body, "stream": True}, sent.headers)


def by_mcp(agent: str, thread: str, text: str, id: str | None = None) -> Asked:
    return "/mcp", mcp("tools/call", agent, arguments={"message": text, "thread": thread})


def by_a2a(agent: str, thread: str, text: str, id: str | None = None) -> Asked:
    message = {**said(text, contextId=thread), "messageId": id or uuid4().hex}
    return f"/a2a/{agent}", a2a("SendMessage", message=message)


def a2a_stream(agent: str, thread: str, text: str) -> Asked:
    path, sent = by_a2a(agent, thread, text)
    return path, Sent({**sent.body, "method": "SendStreamingMessage"}, sent.headers)
