"""Live: the events that the page of a thread gets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from langchain_core.messages import HumanMessage
from sse_starlette import ServerSentEvent

from agent_factory.serve.pages.live import ThreadEvents, version_of
from agent_factory.service import Service
from serve.agents import add_agents


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with Service(f"sqlite:///{tmp_path}/chat.db") as made:
        add_agents(made)
        yield made


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
    service.submit("echo", thread="t", message="one").result(60)
    before = version_of(service.threads.get("t"))
    service.threads.update_state("t", {"messages": [HumanMessage("Edited")]})
    *_, (_, settled) = await until_settled(
        ThreadEvents(service, "t", "", None).follow(None, before)
    )
    assert json.loads(settled)["is_shown"] is False
