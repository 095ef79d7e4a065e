"""`on_wait`: somebody learns of each wait, once, also after an error or a crash."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from threading import Event
from types import ModuleType
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from receivers import receiving
from sqlalchemy import select, update
from stack_agents import kept_agent
from test_docs import ROOT, blocks, run_block

from agent_factory import client_tool
from agent_factory.middleware import HumanInTheLoopMiddleware
from agent_factory.service import Pace, Service, UndeliverableError, Wait, deliveries, notices
from agent_factory.service.backend import Backend
from agent_factory.service.notices import NoticeQueue, OnWait
from agent_factory.service.tables import waits
from agent_factory.testing import ScriptedChatModel
from samples import call_of, pay
from service.paces import NEVER, QUICK
from service.stored import Tables
from waiting import until

WAIT = 60.0
SENDS_NOTHING = Pace(deliver=NEVER)


TITLE = client_tool("title", "The title of the page.")


def answer(messages: list[BaseMessage]) -> AIMessage:
    if not isinstance(messages[-1], HumanMessage):
        return AIMessage("Done.")
    call = call_of("title") if "open" in messages[-1].text else call_of("pay", euros=5)
    return AIMessage("", tool_calls=[call])


@contextmanager
def noticing(url: str, on_wait: OnWait | None, pace: Pace = QUICK) -> Iterator[Service]:
    with closing(Service(url, on_wait=on_wait, pace=pace)) as service:
        asks = [HumanInTheLoopMiddleware({"pay": True})]
        agent = kept_agent(ScriptedChatModel([answer] * 100), *asks, tools=[pay, TITLE])
        service.add("desk", agent)
        service.start()
        yield service


def ask(service: Service, thread: str, message: str = "Pay it") -> Any:
    """A run that waits."""
    run = service.submit("desk", thread=thread, message=message)
    run.result(WAIT)
    return run


def due(tables: Tables) -> list[str]:
    """The waits that still have a notice to send."""
    query = waits.select().where(waits.c.notice_due.is_not(None))
    return [row.wait_id for row in tables.rows(query)]


@pytest.mark.parametrize("is_async", [False, True])
def test_each_wait_has_one_notice(url: str, tables: Tables, thread: str, is_async: bool) -> None:
    sent: list[Wait] = []

    async def note(wait: Wait) -> None:
        sent.append(wait)

    with noticing(url, note if is_async else sent.append) as service:
        ask(service, thread)
        until(lambda: sent and not due(tables))
        (wait,) = service.inbox().waits(thread=thread)
        (notice,) = sent
        assert (notice.id, notice.tool, notice.args) == (wait.id, "pay", {"euros": 5})
        service.decide(wait.id, "approve", by="ann").result(WAIT)
        ask(service, thread)
        until(lambda: len(sent) == 2 and not due(tables))
        assert len({notice.id for notice in sent}) == 2


def test_a_notice_that_fails_is_sent_again_within_a_limit_if_it_can_be_sent(
    url: str, tables: Tables, thread: str, caplog: pytest.LogCaptureFixture
) -> None:
    attempts: list[str] = []

    def fail(wait: Wait) -> None:
        attempts.append(wait.id)
        raise ConnectionError("the mail server is off")

    def refuse(wait: Wait) -> None:
        attempts.append(wait.id)
        raise UndeliverableError("nobody reads this address")

    with caplog.at_level(logging.WARNING, "agent_factory.service"), noticing(url, fail) as service:
        run = ask(service, thread)
        until(lambda: attempts and not due(tables))
        assert run.status == "waiting"
    assert len(attempts) == 3
    lines = [record.getMessage() for record in caplog.records if "Notice" in record.getMessage()]
    assert [line.endswith("It is sent again later.") for line in lines] == [True, True, False]
    failed = f"Notice of wait {attempts[0]} of thread {thread}, attempt 3, failed: the mail"
    assert failed in lines[2]
    attempts.clear()
    with noticing(url, refuse) as service:
        ask(service, f"{thread} again")
        until(lambda: attempts and not due(tables))
    assert len(attempts) == 1


def test_a_notice_that_takes_long_keeps_no_run_waiting(url: str, thread: str) -> None:
    begun, end = Event(), Event()

    def slow(_: Wait) -> None:
        begun.set()
        assert end.wait(WAIT)

    with noticing(url, slow) as service:
        run = ask(service, thread)
        assert begun.wait(WAIT)
        (wait,) = service.inbox().waits(thread=thread)
        service.decide(wait.id, "approve", by="ann")
        assert run.result(WAIT)["messages"][-1].text == "Done."
        end.set()


def test_a_process_that_dies_while_it_sends_leaves_the_notice_to_others(
    url: str, tables: Tables, thread: str
) -> None:
    """The first service only claims: it stands for a process that was killed before it sent."""
    sent: list[Wait] = []
    queue = NoticeQueue(Backend(tables.database))
    with noticing(url, sent.append, SENDS_NOTHING) as service:
        ask(service, thread)
        (claimed,) = queue.claim_due()
        assert queue.claim_due() == []
        tables.write(update(waits).values(notice_due=tables.now - 1))  # a minute later
    with noticing(url, sent.append):
        until(lambda: sent and not due(tables))
    assert [notice.id for notice in sent] == [claimed.wait.id]


def test_nobody_is_called_for_what_is_decided_or_a_client_runs_or_without_on_wait(
    url: str, tables: Tables, thread: str
) -> None:
    with noticing(url, lambda _: None, SENDS_NOTHING) as service:
        ask(service, thread)
        (wait,) = service.inbox().waits(thread=thread)
        service.decide(wait.id, "approve", by="ann").result(WAIT)
        assert NoticeQueue(Backend(tables.database)).claim_due() == []
        ask(service, thread, "open it")
        assert [wait.kind for wait in service.inbox().waits(thread=thread)] == ["client"]
        assert due(tables) == []
    with noticing(url, None) as service:
        ask(service, f"{thread} asks")
        assert due(tables) == []


def test_a_call_that_hangs_holds_back_no_other(
    url: str, tables: Tables, thread: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its claim is extended, another thread takes its place, and `stop` leaves it."""
    seconds, end, called = [0.0], Event(), list[str]()
    monkeypatch.setattr(deliveries, "monotonic", lambda: seconds[0])
    monkeypatch.setattr(deliveries, "THREADS", 1)

    def hang(wait: Wait) -> None:
        called.append(wait.id)
        if wait.thread_id == thread:
            end.wait()

    with noticing(url, hang, replace(QUICK, stop=0.0)) as service:
        ask(service, thread)
        until(lambda: called)
        tables.write(update(waits).values(notice_due=tables.now - 1))
        seconds[0] = 30.0
        until(lambda: tables.values(select(waits.c.notice_due - tables.now))[0] > 0)
        ask(service, f"{thread} next")
        seconds[0] = 60.0
        until(lambda: len(called) == 2)
        until(lambda: due(tables) == called[:1])
    assert len({*called}) == 2
    end.set()


def test_an_async_call_has_a_deadline(
    url: str, tables: Tables, thread: str, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    monkeypatch.setattr(notices, "DEADLINE_SECONDS", 0.02)
    called: list[Wait] = []

    async def hang(wait: Wait) -> None:
        called.append(wait)
        await asyncio.Event().wait()

    with noticing(url, hang) as service:
        ask(service, thread)
        until(lambda: called and not due(tables))
    assert "attempt 3, failed: no end within 0.02 seconds." in caplog.text


def test_an_attempt_that_outlasts_its_claim_changes_no_later_attempt(
    url: str, tables: Tables, thread: str
) -> None:
    """A clock an hour ahead wrote the claim: another process claims the notice at once."""
    queue = NoticeQueue(Backend(tables.database))
    with noticing(url, lambda _: None, SENDS_NOTHING) as service:
        ask(service, thread)
        (first,) = queue.claim_due()
        tables.write(update(waits).values(notice_due=waits.c.notice_due + 3600))
        (second,) = queue.claim_due()
        queue.repeat(first, 0)
        queue.finish(first)
        assert (queue.claim_due(), len(due(tables))) == ([], 1)
        queue.repeat(second, 600)  # the longest pause
        assert queue.claim_due() == []
        queue.finish(second)
        assert due(tables) == []


@pytest.mark.long
def test_the_recipe_of_the_page_sends_a_line(
    url: str, tables: Tables, thread: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = ROOT / "docs/service/inbox.md"
    recipes = ModuleType("recipes")
    for block in blocks(page):
        if block.info == "python":
            run_block(block, page, recipes)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("DESK_URL", "https://desk.example.com")
    with receiving() as received, noticing(url, recipes.post_to_channel) as service:
        monkeypatch.setenv("CHANNEL_WEBHOOK", received.url)
        ask(service, thread)
        until(lambda: received.requests and not due(tables))
        (wait,) = service.inbox().waits(thread=thread)
    ((_, post),) = received.requests
    line = f"desk asks whether pay may run: https://desk.example.com/inbox/{wait.id}"
    assert json.loads(post) == {"text": line}
