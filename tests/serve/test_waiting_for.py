"""Clients of each protocol, and pages, hear what a run waits for and what it does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from langchain_core.messages import HumanMessage
from langgraph_sdk import get_sync_client
from sse_starlette import ServerSentEvent

from agent_factory.serve.pages.live import ThreadEvents, version_of
from agent_factory.service import Pace, Service
from serve.agents import add_agents
from serve.langgraph_desk import HI, running_service, said
from serve.protocols import Protocol, ag_ui, langgraph_stream, openai_stream
from servers import served
from waiting import until


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """A service whose worker is not started."""
    made = Service(f"sqlite:///{tmp_path}/chat.db", pace=Pace(notice=0.0))
    add_agents(made)
    yield made
    made.close()


@pytest.mark.parametrize("protocol", [langgraph_stream, ag_ui, openai_stream])
def test_a_stream_says_that_no_worker_runs(service: Service, protocol: Protocol) -> None:
    """As a comment, or as an event that clients do not know; then the answer comes as usual."""
    path, sent = protocol("echo", uuid4().hex, "Hi")
    request: Any = {"json": sent.body, "headers": sent.headers, "timeout": 60}
    with served(service) as url, httpx.stream("POST", url + path, **request) as answer:
        assert answer.status_code == 200
        lines = answer.iter_lines()
        report = next(line for line in lines if "waits for a worker" in line)
        if protocol is ag_ui:
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
            withdrawn = "This call of pay did not run: the user sent a new message instead."
            assert said(values) == ["Hi", "", withdrawn, "Hi", ""]
            what = [(one.who, one.what) for one in service.inbox().audit(thread=thread)]
            assert what == [("local", "cancel"), ("local", "withdraw")]
            assert service.inbox().get(wait.id).decided_by == "local"
            fork = client.threads.get_history(thread)[-1]["checkpoint"]
            values = client.runs.wait(thread, "desk", input=HI, checkpoint=fork)
            assert said(values)[-2:] == ["Hi", ""]
            assert len(service.inbox().waits(thread=thread)) == 1


async def until_settled(events: AsyncIterator[ServerSentEvent]) -> list[tuple[str | None, str]]:
    """Events up to the end of a run: what each one is, and its data."""
    shown = []
    async with asyncio.timeout(60):
        async for event in events:
            shown.append((event.event, str(event.data)))
            if event.event == "settled":
                break
    return shown


async def test_a_run_that_ends_before_the_page_looks_again_is_shown(service: Service) -> None:
    service.start()
    service.submit("echo", thread="t", message="one").result(60)
    events = ThreadEvents(service, "t", "", None).follow(None)
    await until_settled(events)
    second = service.submit("echo", thread="t", message="two")
    await asyncio.to_thread(second.result, 30)
    shown = await until_settled(events)
    assert shown[0][0] == "status"
    assert any(kind == "message" and "You said: two" in data for kind, data in shown)


async def test_a_page_gets_what_it_does_not_show(service: Service) -> None:
    """The plan is lit in both; what the run has said is in a page of now already."""
    service.start()
    threads, before = service.threads, ""
    for message in ("one", "two"):
        service.submit("echo", thread="t", message=message).result(60)
        for shown, is_shown in ((version_of(threads.get("t")), True), (before, False)):
            events = await until_settled(ThreadEvents(service, "t", "", None).follow(None, shown))
            kinds = {kind for kind, _ in events}
            assert {"node", "settled"} <= kinds
            assert ("message" in kinds) is not is_shown
            assert json.loads(events[-1][1])["is_shown"] is is_shown
        before = version_of(threads.get("t"))


async def test_a_state_that_was_edited_is_shown_again(service: Service) -> None:
    service.start()
    service.submit("echo", thread="t", message="one").result(60)
    before = version_of(service.threads.get("t"))
    service.threads.update_state("t", {"messages": [HumanMessage("Edited")]})
    *_, (_, settled) = await until_settled(
        ThreadEvents(service, "t", "", None).follow(None, before)
    )
    assert json.loads(settled)["is_shown"] is False


async def test_a_page_of_a_thread_that_is_deleted_says_so(service: Service) -> None:
    """Also where the run has only just ended."""
    service.start()
    service.submit("echo", thread="t", message="one").result(60)
    events = ThreadEvents(service, "t", "", None).follow(None)
    await until_settled(events)
    service.threads.delete("t")
    assert [event.event async for event in events] == ["gone"]
