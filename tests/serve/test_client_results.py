"""Results of calls that a client runs: who may send one, by each way in."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any
from uuid import uuid4

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.testclient import TestClient

from agent_factory.serve import Principal, create_app
from agent_factory.service import Run, Service, Wait
from serve.agents import chat_service
from tables import each

CALL = {"name": "clock", "arguments": "{}"}


def who(request: Request) -> Principal:
    """A reader may look at all, and send nothing."""
    name, _, tenant = request.headers["x-user"].partition("@")
    if name == "reader" and request.method != "GET":
        raise HTTPException(403, "You may only read.")
    return Principal(tenant, name)


SERVICE = chat_service


@pytest.fixture(scope="module")
def client_of(service: Service) -> Callable[[str], TestClient]:
    # No reviewer may decide here: a client that sends results decides about nothing.
    app = create_app(service, who, may_decide=lambda principal, wait: False)
    return lambda user: TestClient(app, headers={"x-user": user})


def waiting(service: Service) -> tuple[Run, Wait]:
    """A run of Ann's that waits for her client."""
    run = service.submit("own", message="clock", tenant="acme", by="ann")
    run.result(timeout=60)
    return run, wait_of(service, run)


def by_resume(client: TestClient, wait: Wait) -> Any:
    body = {"assistant_id": "own", "command": {"resume": "Noon"}}
    return client.post(f"/threads/{wait.thread_id}/runs/wait", json=body)


def by_protocol(client: TestClient, wait: Wait) -> Any:
    state = client.get(f"/threads/{wait.thread_id}/state").json()
    asked = [asked["id"] for task in state.get("tasks", ()) for asked in task["interrupts"]]
    params = {"interrupt_id": (asked or ["none"])[0], "response": "Noon"}
    command = {"id": 1, "method": "input.respond", "params": params}
    return client.post(f"/threads/{wait.thread_id}/commands", json=command)


def by_ag_ui(client: TestClient, wait: Wait) -> Any:
    call = {"id": wait.call_id, "type": "function", "function": CALL}
    messages = [
        {"id": "m-1", "role": "user", "content": "clock"},
        {"id": "m-2", "role": "assistant", "toolCalls": [call]},
        {"id": "m-3", "role": "tool", "toolCallId": wait.call_id, "content": "Noon"},
    ]
    body = {"threadId": wait.thread_id, "runId": uuid4().hex, "messages": messages}
    return client.post("/ag-ui/own", json=body)


def by_openai(client: TestClient, wait: Wait) -> Any:
    id = f"call_{wait.id}"
    call = {"id": id, "type": "function", "function": CALL}
    messages: list[Any] = [
        {"role": "user", "content": "clock"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": id, "content": "Noon"},
    ]
    headers = {"x-thread-id": wait.thread_id}
    body = {"model": "own", "messages": messages}
    return client.post("/v1/chat/completions", json=body, headers=headers)


def by_page(client: TestClient, wait: Wait) -> Any:
    form = {"decision": "respond", "message": "Noon"}
    return client.post(f"/inbox/{wait.id}/decision", data=form)


WAYS = [by_resume, by_protocol, by_ag_ui, by_openai, by_page]
Way = Callable[[TestClient, Wait], Any]


def wait_of(service: Service, run: Run) -> Wait:
    (wait,) = service.inbox().waits(thread=run.thread_id)
    return wait


@each("way, user", product(WAYS, ["ann@acme", "bob@acme"]))
def test_those_who_may_write_to_a_thread_send_results(
    service: Service, client_of: Callable[[str], TestClient], way: Way, user: str
) -> None:
    run, wait = waiting(service)
    answer = way(client_of(user), wait)
    assert answer.status_code == 200, answer.text
    assert run.result(timeout=60)["messages"][-1].text == "Done: clock=Noon"
    (entry,) = service.inbox("acme").audit(thread=run.thread_id)
    assert entry.who == user.partition("@")[0]


@each("way, user", product(WAYS, ["reader@acme", "eve@other"]))
def test_others_send_none(
    service: Service, client_of: Callable[[str], TestClient], way: Way, user: str
) -> None:
    """Those who may only read the thread, and those of another tenant."""
    run, wait = waiting(service)
    answer = way(client_of(user), wait)
    assert answer.status_code in (403, 404), answer.text
    assert wait_of(service, run) == wait
    assert service.inbox("acme").audit(thread=run.thread_id) == []


def test_a_client_of_mcp_or_a2a_is_not_asked(
    service: Service, client_of: Callable[[str], TestClient]
) -> None:
    """It is another client than the one that has the tool."""
    run, _ = waiting(service)
    said = {"messageId": "m", "taskId": run.id, "role": "ROLE_USER", "parts": [{"text": "Noon"}]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": said}}
    answer = client_of("ann@acme").post("/a2a/own", json=body, headers={"a2a-version": "1.0"})
    assert "waits for the results of calls that another client runs" in answer.text
    assert run.status == "waiting"
