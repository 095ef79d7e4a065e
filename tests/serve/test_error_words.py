"""Errors over HTTP: in words of HTTP and JSON, since who reads them does not write Python."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from agent_factory.serve import create_app
from agent_factory.service import Service
from serve.langgraph_desk import HI, running_service
from serve.refund_desk import MISTAKES
from serve.route_examples import Form, Sent, examples, filled, send

PYTHON = re.compile(
    r"\[AF\d+\]"
    r"|\b(?:None|True|False|NoneType|dict|str|int|kwargs|asyncio)\b"
    r"|\w+\([^)]*=|\bservice\.\w+|\bcreate_app\b|\b(?:busy|waiting|thread|configurable)="
    r"|\bliteral\b|Input should|Field required|Traceback"
)
"""Words of Python, of the library's own calls, and of Pydantic."""

WRONG_BODIES: list[Any] = [
    [],
    {"nonsense": 1},
    {"assistant_id": 3, "input": "x", "limit": "x", "metadata": [], "namespace": 1},
    {"assistant_id": "nobody", "graph_id": "nobody", "input": HI, "schedule": "0 3 * * *"},
    {"assistant_id": "echo", "graph_id": "echo", "input": {"messages": None}, "schedule": "x"},
    {"assistant_id": "echo", "input": HI, "config": {"configurable": {"__pregel_x": 1}}},
    {"assistant_id": "echo", "input": HI, "config": {"configurable": {"tier": 1}}},
    {"assistant_id": "echo", "input": HI, "config": {"callbacks": 1, "tags": None}},
    {"assistant_id": "echo", "input": HI, "interrupt_before": ["nowhere"]},
    {"assistant_id": "echo", "input": HI, "checkpoint_id": "nowhere"},
    {"assistant_id": "echo", "input": HI, "multitask_strategy": "x", "stream_mode": True},
    {"assistant_id": "echo", "input": HI, "stream_mode": ["x", 1], "webhook": "x"},
    {"assistant_id": "desk", "command": {"resume": None}},
    {"assistant_id": "desk", "command": {"resume": [1]}},
    {"values": {"messages": 3}, "as_node": "nowhere"},
    {"values": None, "as_node": "nowhere", "checkpoint_id": "x"},
    {"metadata": {"graph_id": "nobody"}, "name": None, "version": 99, "enabled": None},
]


SERVICE = running_service


@pytest.fixture(scope="module")
def http(service: Service) -> TestClient:
    return TestClient(
        create_app(service),
        base_url="http://127.0.0.1:1",
        client=("127.0.0.1", 1),
        cookies={"agent_factory_csrf": "token"},
    )


@pytest.fixture(scope="module")
def ids(service: Service) -> dict[str, str]:
    """Ids of a thread that waits, and of what belongs to it."""
    run = service.submit("desk", message="Hi")
    run.result(60)
    return {
        "thread": run.thread_id,
        "waiting": run.thread_id,
        "run": run.id,
        "agent": "echo",
        "assistant": service.assistants().create("echo").id,
        "cron": service.crons()
        .create("0 3 * * *", agent="echo", assistant="echo", options={}, by="ann")
        .id,
    }


def check(answer: Any, context: object) -> bool:
    """True if an answer is an error; its words are checked."""
    if answer.status_code < 400:
        return False
    assert answer.status_code < 500 or answer.status_code == 501, (context, answer.text)
    body = answer.json()
    # OpenAI's errors have theirs inside.
    text = body.get("detail") or body.get("message") or body["error"]["message"]
    # What the client has sent is shown as it is.
    shown = re.sub(r"\bgot .{0,110}?(?=\. |\.$)", "", text)
    assert not PYTHON.search(shown), (context, text)
    return True


def api_examples(http: TestClient) -> Iterator[tuple[str, str, Any]]:
    app: Any = http.app
    for method, path, body in examples(app):
        is_page = isinstance(body, Form) or re.match(r"/$|/(studio|inbox|static|docs)", path)
        # The words of MCP and A2A are those of their own packages.
        is_rpc = path.startswith(("/mcp", "/a2a"))
        if not is_page and not is_rpc and not path.endswith(("/stream", "/stream/events")):
            yield method, path, body.body if isinstance(body, Sent) else body


@pytest.mark.long
def test_what_is_not_there(http: TestClient) -> None:
    errors = 0
    for method, path, body in api_examples(http):
        places = re.findall(r"\{(\w+)\}", f"{path} {body}")
        nowhere = dict.fromkeys(places, "nowhere")
        answer = send(http, method, filled(path, nowhere), filled(body, nowhere))
        errors += check(answer, (method, path, body))
    assert errors > 25


@pytest.mark.long
def test_what_is_wrong(http: TestClient, ids: dict[str, str]) -> None:
    errors = 0
    paths = {(method, path) for method, path, body in api_examples(http) if method != "GET"}
    for method, path in sorted(paths - {("DELETE", "/threads/{thread}")}):
        for body in WRONG_BODIES:
            # Not created by chance: the bodies are wrong, or name what is not there.
            answer = http.request(method, filled(path, ids), json=body)
            errors += check(answer, (method, path, body))
    assert errors > 200


@pytest.mark.long
def test_decisions(http: TestClient, service: Service) -> None:
    errors = 0
    for mistake in MISTAKES:
        run = service.submit("desk", message="Hi")
        run.result(60)
        body = {"assistant_id": "desk", "command": {"resume": {"decisions": [mistake.decision]}}}
        answer = http.post(f"/threads/{run.thread_id}/runs/wait", json=body)
        errors += check(answer, mistake.name)  # this desk takes some of them
    assert errors > 10


def test_threads_that_are_busy(http: TestClient, service: Service) -> None:
    run = service.submit("echo", message="Hi", delay=60)
    place = f"/threads/{run.thread_id}"
    body = {"assistant_id": "echo", "input": HI, "multitask_strategy": "reject"}
    for path, sent in (
        ("/runs/wait", body),
        ("/state", {"values": {"messages": []}}),
        ("/copy", None),
    ):
        answer = http.post(place + path, json=sent)
        assert answer.status_code == 409
        assert check(answer, path)


def test_a_mistake_is_told_once(http: TestClient) -> None:
    """Pydantic has one for each member of a union."""
    for mode in ("all", ["all"], 3, {"a": 1}):
        body = {"assistant_id": "echo", "input": HI, "stream_mode": mode}
        detail = http.post("/runs", json=body).json()["detail"]
        assert detail.count("stream_mode") == 1, detail
        assert detail.startswith("stream_mode must be 'values', ")
