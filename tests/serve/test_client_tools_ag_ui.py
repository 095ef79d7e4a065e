"""Tools that a client of AG-UI brings, on the wire."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import httpx
import pytest
from langgraph.checkpoint.memory import InMemorySaver

from agent_factory import create_agent
from agent_factory.middleware import ClientToolsMiddleware
from agent_factory.service import Service
from agent_factory.testing import ScriptedChatModel
from serve.agents import chat_service
from serve.test_ag_ui import body, refused, run, snapshot, types, user, who
from tables import each

TITLE = {"name": "title", "description": "The title.", "parameters": {"type": "object"}}
SCROLL = {
    "name": "scroll",
    "description": "Scroll to a line.",
    "parameters": {"type": "object", "properties": {"to": {"type": "integer"}}},
}
CLOCK = {"name": "clock", "description": "The time."}


SERVICE = chat_service
# No reviewer may decide here: a client that sends results decides about nothing.
SERVER = {"authenticate": who, "may_decide": lambda principal, wait: False}


def calls_in(events: list[dict[str, Any]]) -> dict[str, str]:
    """The ids of the calls of a snapshot's last message, by the names of the tools."""
    last = [message for message in snapshot(events) if message["role"] == "assistant"][-1]
    return {call["function"]["name"]: call["id"] for call in last["toolCalls"]}


def result(call: str, content: Any = "Orders", **more: Any) -> dict[str, Any]:
    return {"id": uuid4().hex, "role": "tool", "toolCallId": call, "content": content, **more}


def after(asked: dict[str, Any], events: list[dict[str, Any]], *messages: Any) -> dict[str, Any]:
    """The next request of a client."""
    return {**asked, "runId": uuid4().hex, "messages": [*snapshot(events), *messages]}


@pytest.mark.long
@each(
    "more, text",
    [
        ({}, "Orders"),
        ({"content": [{"type": "text", "text": "Orders"}]}, "Orders"),
        ({"content": "", "error": "No page."}, "No page."),
    ],
)
def test_the_client_runs_the_call(url: str, more: Any, text: str) -> None:
    asked = body(user("title"), tools=[TITLE])
    first = run(url, "page", asked)
    assert types(first) == [
        "RUN_STARTED",
        "TOOL_CALL_START",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_END",
        "MESSAGES_SNAPSHOT",
        "RUN_FINISHED",
    ]
    assert first[-1]["outcome"] == {"type": "success"}
    answer = after(asked, first, {**result(calls_in(first)["title"]), **more})
    second = run(url, "page", answer)
    assert snapshot(second)[2]["id"] == answer["messages"][-1]["id"]
    # The client has its result, so it is not sent back.
    assert "TOOL_CALL_RESULT" not in types(second)
    assert snapshot(second)[-1]["content"] == f"Done: title={text}"
    assert [message["role"] for message in snapshot(second)] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    again = run(url, "page", answer)
    assert snapshot(again) == snapshot(second)


def test_calls_of_the_client_beside_those_of_the_agent(url: str) -> None:
    asked = body(user("title pay scroll"), tools=[TITLE, SCROLL])
    first = run(url, "page", asked)
    ids = calls_in(first)
    assert [e["toolCallId"] for e in first if e["type"] == "TOOL_CALL_RESULT"] == [ids["pay"]]
    # One of two results: the run goes on with the other.
    half = run(url, "page", after(asked, first, result(ids["scroll"], "ok")))
    assert half[-1]["outcome"] == {"type": "success"}
    assert "TEXT_MESSAGE_CONTENT" not in types(half)
    # Clients drop what is not in a snapshot.
    assert [message["content"] for message in snapshot(half)[2:]] == ["Paid 5.", "ok"]
    rest = run(url, "page", after(asked, half, result(ids["title"])))
    assert snapshot(rest)[-1]["content"] == "Done: title=Orders, pay=Paid 5., scroll=ok"


def test_a_review_and_a_call_of_the_client(url: str, service: Service) -> None:
    asked = body(user("title refund"), tools=[TITLE])
    first = run(url, "page", asked)
    # The review comes first, since it is about all calls of the turn.
    (interrupt,) = first[-1]["outcome"]["interrupts"]
    service.decide(interrupt["id"], "approve", by="boss").result(timeout=60)
    second = run(url, "page", after(asked, first))
    assert second[-1]["outcome"] == {"type": "success"}
    last = run(url, "page", after(asked, second, result(calls_in(second)["title"])))
    assert snapshot(last)[-1]["content"] == "Done: title=Orders, refund=Refunded 5."


def test_a_reload_loses_nothing(url: str, service: Service) -> None:
    asked = body(user("title"), tools=[TITLE])
    run(url, "page", asked)
    service.stop()
    service.start()
    # Another client reads the thread, sees the call that waits, and sends its result alone.
    other = {**asked, "messages": [], "runId": "r-2"}
    read = run(url, "page", other)
    call = calls_in(read)["title"]
    (wait,) = service.inbox("acme").waits(thread=asked["threadId"])
    assert (wait.kind, wait.tool, wait.call_id, wait.allowed) == (
        "client",
        "title",
        call,
        ("respond",),
    )
    rest = run(url, "page", {**other, "messages": [result(call)], "runId": "r-3"})
    assert snapshot(rest)[-1]["content"] == "Done: title=Orders"


def test_no_reviewer_is_asked(url: str, service: Service) -> None:
    before = service.inbox().count()
    run(url, "page", body(user("scroll"), tools=[SCROLL]))
    assert service.inbox().count() == before
    assert "scroll" not in service.inbox().tools()
    assert not any(wait.tool == "scroll" for wait in service.inbox().waits(limit=1000))


def test_the_studio_shows_the_call_and_can_answer_it(url: str, service: Service) -> None:
    thread = body(user("scroll"), tools=[SCROLL])
    run(url, "page", thread)
    headers = {"x-user": "ann@acme"}
    page = httpx.get(f"{url}/studio/threads/{thread['threadId']}", headers=headers).text
    assert "page waits for its client to run" in page
    assert "Answer in place of the client" in page
    assert "scroll" not in httpx.get(f"{url}/inbox", headers=headers).text
    (wait,) = service.inbox("acme").waits(thread=thread["threadId"])
    service.decide(wait.id, "respond", message="ok", by="operator").result(timeout=60)
    page = httpx.get(f"{url}/studio/threads/{thread['threadId']}", headers=headers).text
    assert "answered by operator" in page


def test_a_user_who_writes_on_withdraws_the_call(url: str) -> None:
    asked = body(user("title"), tools=[TITLE])
    first = run(url, "page", asked)
    second = run(url, "page", after(asked, first, user("Hello")))
    assert snapshot(second)[-1]["content"] == "You said: Hello"
    _, _, withdrawn, *_ = snapshot(second)
    assert "has no result" in withdrawn["content"]


def test_a_result_and_a_message_come_together(url: str) -> None:
    asked = body(user("title"), tools=[TITLE])
    first = run(url, "page", asked)
    second = run(url, "page", after(asked, first, result(calls_in(first)["title"]), user("Hello")))
    texts = [message["content"] for message in snapshot(second) if message.get("content")]
    assert texts == ["title", "Orders", "Done: title=Orders", "Hello", "You said: Hello"]


def test_a_result_of_an_earlier_call_of_the_same_id_answers_nothing() -> None:
    from agent_factory.serve.ag_ui.messages import call_results

    read = _read_messages(
        {"id": "a", "role": "assistant", "toolCalls": [_call("c")]},
        {**result("c", "old"), "id": "x"},
        {"id": "b", "role": "assistant", "toolCalls": [_call("c")]},
    )
    assert call_results(read, []) == {}


def _call(id: str) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": "title", "arguments": "{}"}}


def _read_messages(*messages: Any) -> Any:
    from ag_ui.core import RunAgentInput

    return RunAgentInput.model_validate(
        {"threadId": "t", "runId": "r", "messages": messages}
    ).messages


@pytest.mark.long
def test_the_tools_of_the_newest_request_hold(url: str, service: Service) -> None:
    calls = [[{"name": "title", "id": id}] for id in ("a", "b")]
    model = ScriptedChatModel([*calls, [{"name": "scroll", "id": "c"}], "Done.", "Hello."])
    layers, saver = [ClientToolsMiddleware()], InMemorySaver()
    service.add("changing", create_agent(model, middleware=layers, checkpointer=saver))
    asked = body(user("Go"), tools=[TITLE])
    first = run(url, "changing", asked)
    second = run(url, "changing", after(asked, first, result("a")))
    now = {**asked, "tools": [SCROLL]}
    third = run(url, "changing", after(now, second, result("b")))
    done = run(url, "changing", after(now, third, result("c")))
    run(url, "changing", after({**now, "tools": []}, done, user("More")))
    offered = [request.tools for request in model.requests]
    assert offered == [["title"], ["title"], ["scroll"], ["scroll"], []]
    messages = service.threads.state(asked["threadId"]).values["messages"]
    # Tools that have not changed are not stored again.
    artifacts = [bool(getattr(message, "artifact", None)) for message in messages]
    assert artifacts == [False, False, False, False, True, False, False, False, False, False]


def test_a_tool_that_the_agent_leaves_to_its_client(url: str) -> None:
    for agent in ("own", "page"):
        asked = body(user("clock"), tools=[CLOCK])
        first = run(url, agent, asked)
        rest = run(url, agent, after(asked, first, result(calls_in(first)["clock"], "Noon")))
        assert snapshot(rest)[-1]["content"] == "Done: clock=Noon"


@each(
    "agent, tool, text",
    [
        ("echo", TITLE, "tools: agent 'echo' takes none from its clients, got title. Add Client"),
        ("own", TITLE, "Add ClientToolsMiddleware() to the middleware of the agent."),
        ("page", {**TITLE, "name": "pay"}, "'pay' is the name of a tool of agent 'page'"),
        ("page", {**TITLE, "name": "a b"}, "tools: 'a b': name: must have 1 to 64 letters"),
        ("page", {**TITLE, "parameters": {"type": "x"}}, "must be of the type 'object'"),
        ("page", {**TITLE, "description": "x" * 70_000}, "at most 65,536 are allowed"),
        ("page", TITLE, "65 tools, and at most 64 are allowed"),
    ],
)
def test_tools_that_are_refused(url: str, agent: str, tool: Any, text: str) -> None:
    number = 65 if "65 tools" in text else 1
    tools = [{**tool, "name": tool["name"] + "x" * at} for at in range(number)]
    status, detail = refused(url, agent, body(user("Hi"), tools=tools))
    assert status == 422
    assert text in detail
