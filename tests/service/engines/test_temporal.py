"""Behaviour of the engine of Temporal alone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.service import RPCError

from agent_factory.errors import ArgumentError
from agent_factory.service.engines import Temporal
from agent_factory.service.engines.engine import SEARCH_ATTRIBUTES
from service.engines.noted_work import NotedWork, job, serving
from service.engines.servers import TemporalServer
from waiting import until

pytestmark = pytest.mark.parametrize("kind", ["temporal"])


def ask(server: TemporalServer, question: Callable[[Client], Awaitable[Any]]) -> Any:
    """The answer of the server to a question."""

    async def connect() -> Any:
        return await question(await Client.connect(f"127.0.0.1:{server.port}"))

    return asyncio.run(connect())


@pytest.mark.long
def test_a_job_whose_activity_a_person_has_ended_starts_again(
    engine_url: str, work: NotedWork, server: TemporalServer, name: str
) -> None:
    with serving(work, engine_url, slots=0) as submitter:
        submitter.start(job("a"))
        until(lambda: server.known(name))
        ask(server, lambda client: client.get_activity_handle(f"{name}/a").terminate())
        until(lambda: not server.known(name))
        submitter.start(job("a"))
        with serving(work, engine_url):
            work.wait("end", "a")


@pytest.mark.long
def test_a_cancelled_job_holds_its_slot_until_its_thread_ends(
    engine_url: str, work: NotedWork, server: TemporalServer, name: str
) -> None:
    with serving(work, engine_url, slots=1) as engine:
        engine.start(job("held"))
        work.wait("begin", "held")
        engine.cancel(job("held"))
        until(lambda: not server.known(name))
        engine.start(job("next"))
        until(lambda: server.known(name))
        work.release()
        work.wait("end", "next")
    events = [line.split()[:2] for line in work.file.read_text().splitlines()]
    assert events == [[e, name] for name in ("held", "next") for e in ("begin", "end")]


@pytest.mark.long
def test_a_person_finds_a_thread_and_no_content(
    engine_url: str, work: NotedWork, server: TemporalServer, name: str
) -> None:
    with serving(work, engine_url) as engine:
        engine.start(job("t-7/00000001", thread="t-7", priority=1000, delay=600))
        (info,) = until(lambda: server.known(f"{name}/t-7"))
    assert info.ByteSize() < 2000


@pytest.mark.long
def test_a_person_finds_jobs_by_search_attributes(
    own_server: TemporalServer, work: NotedWork, name: str
) -> None:
    """As soon as the namespace has them; without, jobs are carried out as well."""
    own_server.start()
    url = own_server.url(name)
    with serving(work, url) as engine:
        engine.start(job("before"))
        work.wait("end", "before")
        own_server.add_search_attributes(SEARCH_ATTRIBUTES)
        fields = {"thread": "t-7", "tenant": "acme's", "agent": "desk"}

        def is_found() -> bool:
            number = len(work.notes("begin"))
            engine.start(job(f"later-{number}", delay=0.1, **fields))
            work.wait("end", f"later-{number}")
            query = "AgentFactoryThread = 't-7' AND AgentFactoryAgent = 'desk'"
            query += ' AND AgentFactoryTenant = "acme\'s"'
            with suppress(RPCError):  # until the server reads its new attributes
                count = ask(own_server, lambda client: client.count_activities(query)).count
                return bool(count)
            return False

        until(is_found)


def test_a_url_names_the_server(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    with pytest.raises(ArgumentError, match="'tls'"):
        Temporal("temporal://here:2?tls=1")
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
    for url, port in (("temporal://", 1), ("temporal://127.0.0.1:2", 2)):
        engine = Temporal(url)
        engine.start(job("a"))
        assert f"127.0.0.1:{port}" in str(until(engine.fault))
        engine.stop(0)
