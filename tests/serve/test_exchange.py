"""One promise of five protocols: the same message leads to the same thread, waits and outcome."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import product
from threading import Event
from types import ModuleType
from unittest.mock import Mock
from uuid import uuid4

import httpx
import pytest

from agent_factory.serve import exchange
from agent_factory.serve.a2a import tasks
from agent_factory.service import Service
from serve.accounts import SERVER as SERVER
from serve.accounts import add_gated, decided_meanwhile, statuses
from serve.agents import chat_service
from serve.protocols import (
    Protocol,
    a2a_stream,
    ag_ui,
    by_a2a,
    by_mcp,
    langgraph,
    langgraph_stream,
    openai,
    openai_stream,
)
from tables import each
from waiting import until

PROTOCOLS = [langgraph, langgraph_stream, ag_ui, openai, openai_stream, by_mcp, by_a2a, a2a_stream]


@contextmanager
def SERVICE(url: str) -> Iterator[Service]:
    with chat_service(url) as service:
        add_gated(service)
        yield service


def ask(
    url: str, protocol: Protocol, agent: str, thread: str, text: str, by: str = "ann@acme"
) -> httpx.Response:
    path, sent = protocol(agent, thread, text)
    headers = {**sent.headers, "x-user": by}
    return httpx.post(url + path, json=sent.body, headers=headers, timeout=60)


@each("protocol", PROTOCOLS)
def test_a_message_is_answered_in_its_thread(
    url: str, service: Service, protocol: Protocol
) -> None:
    thread = uuid4().hex
    answers = [ask(url, protocol, "payer", thread, text).text for text in ("Pay", "More")]
    messages = service.threads.state(thread, tenant="acme").values["messages"]
    texts = [message.text for message in messages]
    turn = ["Let me see.", "Paid 5.", "Done: Paid 5."]
    assert texts == ["Pay", *turn, "More", *turn]
    # The words of a stream come one by one.
    assert all("Done:" in answer for answer in answers)
    assert statuses(service, thread) == ["done", "done"]


@each("protocol", PROTOCOLS)
def test_a_review_is_named_and_its_decision_continues_the_run(
    url: str, service: Service, protocol: Protocol
) -> None:
    thread = uuid4().hex
    answer = ask(url, protocol, "desk", thread, "Pay")
    (wait,) = service.inbox("acme").waits(thread=thread)
    assert (wait.tool, wait.args) == ("pay", {"euros": 5})
    # A client of LangGraph reads the interrupt; the others read the address of the wait or its id.
    is_langgraph = protocol in (langgraph, langgraph_stream)
    named = '"pay"' if is_langgraph else wait.digest if protocol is by_mcp else wait.id
    assert named in answer.text
    service.decide(wait.id, "approve", by="bob", tenant="acme").result(60)
    assert statuses(service, thread) == ["done"]


@each(
    "reader, protocol",
    [
        *product([exchange], [ag_ui, openai, openai_stream, by_mcp, by_a2a, a2a_stream]),
        (tasks, a2a_stream),  # after the last part of the stream
    ],
)
def test_a_run_that_somebody_decides_about_meanwhile_is_followed(
    url: str, reader: ModuleType, protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "open_waits", decided_meanwhile())
    # The words of a stream come one by one.
    assert "Done:" in ask(url, protocol, "desk", uuid4().hex, "Pay").text


@each("protocol", [by_mcp, by_a2a, a2a_stream])
def test_who_runs_no_calls_is_told_that_another_client_does(
    url: str, service: Service, protocol: Protocol
) -> None:
    thread = uuid4().hex
    answer = ask(url, protocol, "own", thread, "clock")
    assert "waits for the results of calls" in answer.text
    assert statuses(service, thread) == ["waiting"]


@each("protocol", PROTOCOLS)
def test_a_failure_of_a_run_is_shown(url: str, service: Service, protocol: Protocol) -> None:
    thread = uuid4().hex
    assert "the model is out of order" in ask(url, protocol, "echo", thread, "fail").text
    assert statuses(service, thread) == ["failed"]


@each("protocol", [langgraph, langgraph_stream, ag_ui])
def test_a_failure_that_is_told_without_a_class_is_told_whole(url: str, protocol: Protocol) -> None:
    answer = ask(url, protocol, "echo", uuid4().hex, "An unknown order").text
    assert "RunFailed" in answer
    assert "order 7: is unknown. Ask again." in answer


@each("protocol", PROTOCOLS)
def test_a_failure_of_the_server_keeps_its_details(
    url: str,
    service: Service,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    protocol: Protocol,
) -> None:
    caplog.clear()
    monkeypatch.setattr(service, "submit", Mock(side_effect=RuntimeError("secret of the server")))
    answer = ask(url, protocol, "echo", uuid4().hex, "Hi")
    assert "The server has failed. Its log says why" in answer.text
    assert "secret" not in answer.text
    assert "secret of the server" in caplog.text


@each("protocol", PROTOCOLS)
def test_the_answer_of_a_deleted_run_ends_with_a_reason(
    url: str, service: Service, protocol: Protocol, gate: Event
) -> None:
    gate.clear()
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(ask, url, protocol, "echo", thread := uuid4().hex, "held")
        working = partial(service.threads.runs, agent="echo", status=["running"])
        run = until(lambda: next((run for run in working() if run.thread_id == thread), None))
        assert run is not None
        run.delete()  # which cancels first: its follower sees the run cancelled, or no run
        gate.set()
        assert re.search("does not exist|CANCELED|cancelled", answer.result(60).text)


@each("protocol", PROTOCOLS)
def test_a_thread_of_another_tenant_is_not_written_to(
    url: str, service: Service, protocol: Protocol
) -> None:
    thread = service.submit("echo", message="Hi", tenant="acme").thread_id
    answer = ask(url, protocol, "echo", thread, "Mine", by="eve@other")
    # JSON-RPC has its own error, and so has MCP.
    is_rpc = protocol in (by_mcp, by_a2a, a2a_stream)
    assert answer.status_code == (200 if is_rpc else 404)
    assert thread in answer.text
    assert "does not exist" in answer.text or "belongs to another tenant" in answer.text
    assert len(statuses(service, thread)) == 1


@pytest.mark.usefixtures("gate")
@each("protocol", [langgraph, langgraph_stream, ag_ui, openai, openai_stream, by_mcp])
def test_a_client_that_goes_away_ends_its_run(
    url: str, service: Service, protocol: Protocol
) -> None:
    thread = uuid4().hex
    path, sent = protocol("gated", thread, "Hi")
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(
            url + path,
            json=sent.body,
            headers=sent.headers,
            timeout=httpx.Timeout(60, read=0.5),  # waits: the client gives up
        )
    until(lambda: statuses(service, thread) == ["cancelled"])
