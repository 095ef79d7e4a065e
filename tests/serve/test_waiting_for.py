"""Clients of each protocol hear what a run waits for, and can ignore it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from langgraph_sdk import get_sync_client

from agent_factory.service import Pace, Service
from serve.agents import add_agents
from serve.langgraph_desk import HI, running_service, said
from servers import served
from waiting import until


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """A service whose worker is not started."""
    made = Service(f"sqlite:///{tmp_path}/chat.db", pace=Pace(notice=0.0))
    add_agents(made)
    yield made
    made.close()


def langgraph(thread: str) -> tuple[str, dict[str, Any]]:
    path = f"/threads/{thread}/runs/stream"
    return path, {"assistant_id": "echo", "input": HI, "if_not_exists": "create"}


def ag_ui(thread: str) -> tuple[str, dict[str, Any]]:
    body = {"threadId": thread, "runId": uuid4().hex, "tools": [], "context": [], "state": {}}
    messages = [{"id": "m-1", "role": "user", "content": "Hi"}]
    return "/ag-ui/echo", {**body, "messages": messages, "forwardedProps": {}}


def openai(thread: str) -> tuple[str, dict[str, Any]]:
    messages = [{"role": "user", "content": "Hi"}]
    return "/v1/chat/completions", {"model": "echo", "messages": messages, "stream": True}


@pytest.mark.parametrize("request_of", [langgraph, ag_ui, openai])
def test_a_stream_says_that_no_worker_runs(
    service: Service, request_of: Callable[[str], tuple[str, dict[str, Any]]]
) -> None:
    """As a comment, or as an event that clients do not know; then the answer comes as usual."""
    path, body = request_of(uuid4().hex)
    with served(service) as url, httpx.stream("POST", url + path, json=body, timeout=60) as answer:
        assert answer.status_code == 200
        lines = answer.iter_lines()
        report = next(line for line in lines if "waits for a worker" in line)
        if request_of is ag_ui:
            event = json.loads(report.removeprefix("data: "))
            assert (event["type"], event["name"]) == ("CUSTOM", "waiting_for")
            assert event["value"]["what"] == "a worker"
        else:
            assert report.startswith(":")
        service.start()
        rest = [line for line in lines if line.startswith("data:")]
    assert "said" in "".join(rest)
    assert "waits for" not in "".join(rest)


@pytest.mark.long
def test_a_page_does_not_show_that_a_run_has_begun_which_waits_for_a_worker(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    run = service.submit("echo", thread="t", message="Hi")
    path = "/studio/threads/t/events"
    with served(service) as url, httpx.stream("GET", url + path, timeout=60) as page:
        lines = page.iter_lines()
        events = [next(line for line in lines if line.startswith("event:")) for _ in range(2)]
        until(lambda: "AF370" in caplog.text)
        run.cancel()
        for line in lines:
            if line.startswith("event:"):
                events.append(line)
            if line == "event: settled":
                break
    assert events == ["event: status", "event: message", "event: settled"]


@pytest.mark.long
def test_a_message_of_a_client_of_langgraph_is_answered_while_its_thread_waits(
    tmp_path: Path,
) -> None:
    """On LangGraph's server such a thread is not busy, whatever `multitask_strategy` says."""
    with (
        running_service(f"sqlite:///{tmp_path}/desk.db") as service,
        served(service) as url,
        get_sync_client(url=url) as client,
    ):
        strategies: list[Any] = [None, "enqueue", "interrupt", "rollback", "reject"]
        for strategy in strategies:
            thread = client.threads.create()["thread_id"]
            client.runs.wait(thread, "desk", input=HI)
            (wait,) = service.inbox().waits(thread=thread)
            values = client.runs.wait(thread, "desk", input=HI, multitask_strategy=strategy)
            assert said(values) == [
                "Hi",
                "",
                "This call of pay did not run: the user sent a new message instead.",
                "Hi",
                "",
            ]
            what = [(one.who, one.what) for one in service.inbox().audit(thread=thread)]
            assert what == [("local", "cancel"), ("local", "withdraw")]
            assert service.inbox().get(wait.id).decided_by == "local"
            fork = client.threads.get_history(thread)[-1]["checkpoint"]
            values = client.runs.wait(thread, "desk", input=HI, checkpoint=fork)
            assert said(values)[-2:] == ["Hi", ""]
            assert len(service.inbox().waits(thread=thread)) == 1
