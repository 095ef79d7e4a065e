"""Live: the events that the page of a thread gets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from sse_starlette import ServerSentEvent

from agent_factory.serve.pages.live import ThreadEvents
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
    async with asyncio.timeout(30):
        async for event in events:
            shown.append((event.event, str(event.data)))
            if event.event == "settled":
                break
    return shown


async def test_a_run_that_ends_before_the_page_looks_again_is_shown(service: Service) -> None:
    service.submit("echo", thread="t", message="one").result(30)
    events = ThreadEvents(service, "t", "", None).follow(None)
    await until_settled(events)
    second = service.submit("echo", thread="t", message="two")
    await asyncio.to_thread(second.result, 30)
    shown = await until_settled(events)
    assert shown[0][0] == "status"
    assert any(kind == "message" and "You said: two" in data for kind, data in shown)
