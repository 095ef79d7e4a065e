"""Agents as tools of MCP, with its official client over HTTP."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from threading import Event
from typing import Any
from uuid import uuid4

import httpx
import httpx2
import pytest
from langchain_core.messages import AIMessage, HumanMessage
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, ElicitRequestFormParams, ElicitResult

from agent_factory import ToolRuntime, create_agent
from agent_factory.service import Service
from agent_factory.testing import ScriptedChatModel
from serve.accounts import SERVER as SERVER
from serve.accounts import Bill, add_gated, statuses
from serve.agents import caller, chat_service, pay
from servers import connections, served
from waiting import auntil, until

LEGACY = "legacy"
"""The protocol before 2026-07-28, which begins with a handshake."""

BOTH = pytest.mark.parametrize("mode", ["auto", LEGACY])


def delegate(runtime: ToolRuntime) -> str:
    """Ask an agent inside, which calls a tool."""
    inner = create_agent(caller("pay", euros=1), [pay])
    answer = inner.invoke({"messages": [HumanMessage("Pay")]}, runtime.config)
    return str(answer["messages"][-1].text)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with chat_service(f"sqlite:///{tmp_path_factory.mktemp('mcp')}/desk.db") as service:
        service.add("described", create_agent(caller("pay", euros=5), [pay]), description="Pays.")
        add_gated(service)
        service.add("manager", create_agent(caller("delegate"), [delegate]))
        service.add("a/b", create_agent(ScriptedChatModel([])))
        service.add("a:b", create_agent(ScriptedChatModel([])))
        bill = AIMessage("", tool_calls=[{"name": "Bill", "args": {"euros": 7}, "id": "b"}])
        service.add("biller", create_agent(ScriptedChatModel([bill] * 9), response_format=Bill))
        yield service


@asynccontextmanager
async def connected(
    url: str, by: str = "ann@acme", role: str = "accounting", **options: Any
) -> AsyncIterator[Client]:
    """A client of somebody."""
    headers = {"x-user": by, "x-role": role}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60, trust_env=False) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http), **options) as client,
    ):
        yield client


async def call(
    url: str,
    tool: str,
    by: str = "ann@acme",
    role: str = "accounting",
    mode: str = "auto",
    answer: Any = None,
    **arguments: Any,
) -> CallToolResult:
    """The result of a tool, in another connection."""
    options = {} if answer is None else {"elicitation_callback": answer}
    async with connected(url, by, role, mode=mode, **options) as client:
        return await client.call_tool(tool, arguments)


async def followed(url: str, agent: str, **options: Any) -> tuple[CallToolResult, list[Any]]:
    """The result of an agent, and the progress that its client saw."""
    seen: list[Any] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, message))

    async with connected(url, **options) as client:
        return await client.call_tool(agent, {"message": "Pay"}, progress_callback=note), seen


def text(result: CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if block.type == "text")


class Person:
    """A user who fills each form in the same way."""

    def __init__(self, action: Any = "accept", **content: Any) -> None:
        self.action, self.content = action, content
        self.forms: list[ElicitRequestFormParams] = []

    async def __call__(self, context: Any, params: Any) -> ElicitResult:
        self.forms.append(params)
        content = self.content if self.action == "accept" else None
        return ElicitResult(action=self.action, content=content)


@BOTH
async def test_each_agent_is_a_tool_and_a_thread_is_a_conversation(
    url: str, service: Service, mode: str
) -> None:
    async with connected(url, mode=mode) as client:
        tools = {tool.title: tool for tool in (await client.list_tools()).tools}
    assert tools.keys() == service.agents.keys()
    assert tools["described"].description == "Pays."
    assert "'echo'" in str(tools["echo"].description)
    assert tools["echo"].input_schema["properties"].keys() == {"message", "thread"}
    names = [tools[agent].name for agent in ("desk now", "a/b", "a:b")]
    assert names == ["desk_now", "a_b", "a_b_2"]
    first = await call(url, "echo", message="Hi", mode=mode)
    assert (text(first), first.is_error) == ("You said: Hi", False)
    content = first.structured_content
    assert (content["status"], content["answer"]) == ("done", "You said: Hi")
    second = await call(url, "echo", message="More", thread=content["thread"], mode=mode)
    assert second.structured_content["thread"] == content["thread"]
    messages = service.threads.state(content["thread"], tenant="acme").values["messages"]
    assert [m.text for m in messages] == ["Hi", "You said: Hi", "More", "You said: More"]


async def test_structured_output_is_structured_content(url: str) -> None:
    """And a private part of the state stays on the server."""
    result = await call(url, "biller", message="Pay")
    assert result.structured_content["structured_response"] == {"euros": 7}
    result = await call(url, "notes", message="Note it")
    assert "hidden" not in result.model_dump_json()


@BOTH
async def test_progress(url: str, mode: str) -> None:
    for agent, tool in (("payer", "pay"), ("manager", "delegate")):
        result, seen = await followed(url, agent, mode=mode)
        assert text(result).startswith("Done: ")
        # The agent inside of the manager reports nothing.
        assert seen == [(1, f"{tool} is called."), (2, f"{tool} has a result.")]


@BOTH
async def test_a_review_is_asked_where_the_client_shows_forms(
    url: str, service: Service, mode: str
) -> None:
    ann = Person(decision="approve", arguments='{"euros": 5}', message="")
    result = await call(url, "desk", message="Pay", answer=ann, mode=mode)
    assert text(result) == "Done: Paid 5."
    (form,) = ann.forms
    assert "pay" in form.message
    assert '"euros":5' in form.message
    fields = form.requested_schema["properties"]
    assert fields["decision"]["enum"] == ["approve", "edit", "reject", "respond"]
    entry, *_ = service.inbox("acme").audit(thread=result.structured_content["thread"])
    assert (entry.who, entry.what, entry.detail["via"]) == ("ann@acme", "approve", "mcp")


@BOTH
async def test_a_question_is_answered_in_a_form(url: str, mode: str) -> None:
    """What is decided about a call, by each way in, is in test_decisions.py."""
    ann = Person(answer="green tea")
    result = await call(url, "asker", message="Go", answer=ann, mode=mode)
    assert text(result) == "Done: They said green tea."
    assert '"about":"tea"' in ann.forms[0].message


@pytest.mark.parametrize("action", ["decline", "cancel"])
@BOTH
async def test_who_does_not_answer_is_asked_once_and_the_thread_waits(
    url: str, service: Service, action: str, mode: str
) -> None:
    ann = Person(action)
    result = await call(url, "desk", message="Pay", answer=ann, mode=mode)
    assert len(ann.forms) == 1
    assert result.structured_content["status"] == "waiting"
    thread = result.structured_content["thread"]
    (wait,) = service.inbox("acme").waits(thread=thread)
    assert f"{url}/inbox/{wait.id}" in text(result)
    # The same call without a message asks again.
    ann = Person(decision="approve")
    later = await call(url, "desk", thread=thread, answer=ann, mode=mode)
    assert text(later) == "Done: Paid 5."


@pytest.mark.long
async def test_a_client_without_forms_reads_where_to_decide(url: str, service: Service) -> None:
    for mode in ("auto", LEGACY):
        result = await call(url, "desk", message="Pay", mode=mode)
        content = result.structured_content
        assert content["status"] == "waiting"
        (wait,) = content["waits"]
        assert (wait["tool"], wait["args"]) == ("pay", {"euros": 5})
        assert wait["url"] == f"{url}/inbox/{wait['id']}"
        assert wait["url"] in text(result)
        refused = await call(url, "desk", message="And?", thread=content["thread"], mode=mode)
        assert refused.is_error
        assert "waits for a person" in text(refused)
        service.decide(wait["id"], "approve", by="bob", tenant="acme")
        later = await call(url, "desk", thread=content["thread"], mode=mode)
        assert text(later) == "Done: Paid 5."


@BOTH
async def test_a_decision_that_is_refused_changes_nothing(
    url: str, service: Service, mode: str
) -> None:
    for form, reason in (
        ({"decision": "edit", "arguments": "five"}, "must be JSON"),
        ({"decision": "edit", "arguments": '{"euro": 5}'}, "did you mean 'euros'?"),
    ):
        result = await call(url, "desk", message="Pay", answer=Person(**form), mode=mode)
        assert result.is_error
        assert reason in text(result)
        # With the thread, which the model can take up again, and its wait.
        content = result.structured_content
        (wait,) = service.inbox("acme").waits(thread=content["thread"])
        assert (content["status"], content["waits"][0]["id"]) == ("waiting", wait.id)


async def test_who_may_not_decide_or_has_not_claimed_it_is_not_asked(
    url: str, service: Service
) -> None:
    ann = Person(decision="approve")
    result = await call(url, "desk", message="Pay", role="intern", answer=ann)
    assert (result.structured_content["status"], ann.forms) == ("waiting", [])
    thread = result.structured_content["thread"]
    (wait,) = service.inbox("acme").waits(thread=thread)
    service.inbox("acme").claim(wait.id, by="bob@acme")
    result = await call(url, "desk", thread=thread, answer=ann)
    assert (result.structured_content["status"], ann.forms) == ("waiting", [])
    bob = Person(decision="approve")
    assert text(await call(url, "desk", "bob@acme", thread=thread, answer=bob)) == "Done: Paid 5."


async def test_answers_of_others_decide_nothing(url: str, service: Service) -> None:
    """What comes back with the answer is sent by the client, and may be made up."""
    result = await call(url, "desk", message="Pay")
    (wait,) = service.inbox("acme").waits(thread=result.structured_content["thread"])
    answers: Any = {wait.digest: ElicitResult(action="accept", content={"decision": "approve"})}

    async def retry(
        tool: str, by: str, role: str = "accounting", forms: Any = answers
    ) -> CallToolResult:
        async with connected(url, by, role) as client:
            return await client.session.call_tool(
                tool, {}, input_responses=forms, request_state=wait.run
            )

    for attempt, reason in (
        (("desk", "eve@other"), "does not exist"),
        (("desk", "eve@other", "accounting", {}), "does not exist"),  # who only reads
        (("echo", "ann@acme"), "is not a run of 'echo'"),
        (("desk", "ann@acme", "intern"), "may not decide"),
    ):
        refused = await retry(*attempt)
        assert refused.is_error
        assert reason in text(refused)
    assert service.inbox("acme").get(wait.id).decided_at is None
    # A client that sends its answer twice has decided once.
    for _ in range(2):
        assert text(await retry("desk", "ann@acme")) == "Done: Paid 5."


@BOTH
async def test_errors_are_results_that_the_model_reads(url: str, mode: str) -> None:
    for arguments, reason in (
        ({}, "message is missing."),
        ({"message": 3}, "message must be a string, got 3."),
        ({"message": "Hi", "thred": "t"}, "thred is not supported by this server. Did you mean"),
        ({"message": "fail"}, "the model is out of order"),
        ({"thread": "t-unknown"}, "messages must have a message of the user"),
    ):
        result = await call(url, "echo", mode=mode, **arguments)
        assert result.is_error, arguments
        assert reason in text(result), arguments
    async with connected(url, mode=mode) as client:
        with pytest.raises(MCPError, match=r"There is no tool 'ech'\. There are: echo, "):
            await client.call_tool("ech", {"message": "Hi"})


@pytest.mark.parametrize(
    ("mode", "begins", "end"),
    [("auto", False, "done"), (LEGACY, False, "done"), (LEGACY, True, "cancelled")],
)
async def test_a_client_that_cancels_ends_its_run_and_none_of_others(
    url: str, service: Service, mode: str, begins: bool, end: str, gate: Event
) -> None:
    """Since 2026-07-28 by closing the connection; before, by a notification."""
    thread, before = uuid4().hex, connections(url)
    arguments = {"message": "Hi"} if begins else {}
    if not begins:
        service.submit("gated", thread=thread, message="Hi", tenant="acme")
    task = asyncio.ensure_future(call(url, "gated", mode=mode, thread=thread, **arguments))
    await auntil(lambda: statuses(service, thread) == ["running"] and connections(url) > before)
    task.cancel()
    await asyncio.wait([task])
    await auntil(lambda: connections(url) <= before)
    if end == "done":
        gate.set()
    await auntil(lambda: statuses(service, thread) == [end])


class OldClient:
    """A client of MCP 2025-11-25 on the wire, whose requests go to one server or another."""

    def __init__(self, *urls: str, session: str | None = None) -> None:
        self.urls, self.thread = itertools.cycle(urls), uuid4().hex
        self.headers = {"x-user": "ann@acme", "x-role": "accounting", "host": "127.0.0.1"}
        self.headers |= {"accept": "application/json, text/event-stream"}
        if session is None:
            client = {"name": "c", "version": "1"}
            able = {"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}}
            with self.send("initialize", {**able, "clientInfo": client}, id=0) as answer:
                session = answer.headers["mcp-session-id"]
        self.headers |= {"mcp-session-id": session, "mcp-protocol-version": "2025-11-25"}

    def send(self, method: str | None, params: Any = None, **more: Any) -> Any:
        message = {"jsonrpc": "2.0", **more}
        message |= {} if method is None else {"method": method, "params": params}
        options: Any = {"json": message, "headers": self.headers, "timeout": 60}
        return httpx.stream("POST", f"{next(self.urls)}/mcp", **options)

    def call(self, agent: str, message: str = "Pay") -> Any:
        arguments = {"message": message, "thread": self.thread}
        meta = {"progressToken": "p"}
        return self.send("tools/call", {"name": agent, "arguments": arguments, "_meta": meta}, id=7)

    def rest(self, after: str) -> Any:
        headers = {**self.headers, "last-event-id": after}
        return httpx.stream("GET", f"{next(self.urls)}/mcp", headers=headers, timeout=60)


def messages(response: Any) -> Iterator[tuple[str, Any]]:
    """The ids and the messages of a stream."""
    assert response.status_code == 200, response.read()
    id = ""
    for line in response.iter_lines():
        id = line[4:] if line.startswith("id: ") else id
        if line.startswith("data: ") and line != "data: ":
            yield id, json.loads(line[6:])
        elif line.startswith("data:"):
            yield id, None


def test_an_old_client_answers_cancels_and_resumes_at_any_server(
    url: str, service: Service, gate: Event
) -> None:
    with served(service, **SERVER) as other:
        client = OldClient(url, other)
        with client.call("desk") as stream:
            (first, _), (_, called), (asked, form) = itertools.islice(messages(stream), 3)
            assert called["params"] == {
                "progressToken": "p", "progress": 1, "message": "pay is called."
            }  # fmt: skip
            assert form["params"]["message"].endswith('pay({"euros":5})')
        # The connection is cut: the client asks again after each event that it has.
        for place in (first, asked):
            with client.rest(place) as stream:
                *_, again = itertools.islice(messages(stream), 2 if place == first else 1)
                assert again[1] == (called if place == first else form)
        content = {"action": "accept", "content": {"decision": "approve"}}
        with client.rest(asked) as stream:
            parts = messages(stream)
            assert next(parts)[1] == form
            with client.send(None, id=form["id"], result=content) as taken:
                assert taken.status_code == 202
            *progress, (_, end) = parts
        assert [one["params"]["progress"] for _, one in progress] == [2]
        assert (end["id"], end["result"]["content"][0]["text"]) == (7, "Done: Paid 5.")
        cancelled = OldClient(url, other)
        with cancelled.call("gated", "Hi") as stream:
            parts = messages(stream)
            assert next(parts)[1] is None
            until(lambda: statuses(service, cancelled.thread) == ["running"])
            with OldClient(url).send("notifications/cancelled", {"requestId": 7}) as taken:
                assert taken.status_code == 202  # another session has cancelled nothing
            with cancelled.send("notifications/cancelled", {"requestId": 7}) as taken:
                assert taken.status_code == 202
            assert [one["error"]["code"] for _, one in parts] == [-32800]
        assert statuses(service, cancelled.thread) == ["cancelled"]


def test_what_no_session_has_is_refused(url: str) -> None:
    client = OldClient(url)
    with OldClient(url, session="other-1").send("ping", {}, id=1) as answer:
        assert (answer.status_code, "no session" in answer.read().decode()) == (404, True)
    for after, status in (("none", 400), ("[1]", 404), ("{}", 400)):
        with client.rest(after) as answer:
            assert answer.status_code == status
    answer = httpx.get(f"{url}/mcp", headers=client.headers)
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    with client.send(None, id="none.form", result={"action": "decline"}) as answer:
        assert answer.status_code == 404
    with client.call("nobody") as stream:
        ((_, refused),) = messages(stream)
    assert "There is no tool 'nobody'" in refused["error"]["message"]
