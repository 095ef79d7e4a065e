"""Leases for a queue of one's own: who loses the lease of a thread writes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from sqlalchemy import select

from agent_factory import AgentMiddleware
from agent_factory.middleware import HumanInTheLoopMiddleware, OnceMiddleware
from agent_factory.review import atake_turn, pending, take_turn
from agent_factory.service import DatabaseUnavailable, NotFound, Service, ThreadBusy
from agent_factory.service import service as services
from agent_factory.service.errors import LeaseLost
from agent_factory.service.tables import effects
from samples import Killed
from service.desk import Journal, check_history, make_desk, status_of
from service.stored import Tables, backend_of
from service.test_recovery import MortalDatabase

PAY = HumanMessage("Pay.", id="m-1")
AT: Any = {"configurable": {"thread_id": "t"}}


def consume(service: Service, thread: str) -> None:
    """Carry out a turn with all its reviews, as a consumer of a queue does."""
    config: Any = {"configurable": {"thread_id": thread}}
    with service.lease("desk", thread) as desk:
        decisions: dict[str, str] = {}
        while True:
            take_turn(desk, config, PAY, decisions)
            if not (calls := pending(desk, config).calls):
                return
            decisions = {call.digest: "approve" for call in calls}


def hold(service: Service, act: Callable[..., Any]) -> None:
    """Carry out a turn under one lease."""
    with service.lease("desk", "t") as desk:
        act(desk, AT, PAY)


@pytest.mark.long
@pytest.mark.parametrize("review", [False, True])
@pytest.mark.parametrize("options", [{}, {"fused": False}, {"checkpoints": "full"}], ids=str)
def test_a_consumer_that_dies_at_each_transaction(
    url: str,
    journal: Journal,
    monkeypatch: pytest.MonkeyPatch,
    review: bool,
    options: dict[str, Any],
) -> None:
    """The next one ends the turn, and no payment is made twice."""
    monkeypatch.setattr(services, "Database", MortalDatabase)
    parts: list[Any] = [HumanInTheLoopMiddleware({"pay": True})] if review else []
    parts.append(OnceMiddleware({"pay": "fail"}))
    with closing(Service(url)) as service:
        service.add("desk", make_desk(journal, middleware=parts, **options))
        database: Any = backend_of(service).database
        deaths = 0
        for at in range(1, 100):
            survived = True
            for survives_commit in (False, True):
                thread = f"t-{at}-{survives_commit}"
                database.count, database.survives_commit = 0, survives_commit
                database.dies_at = at
                try:
                    consume(service, thread)
                except Killed:
                    survived, deaths = False, deaths + 1
                database.dies_at = 0
                consume(service, thread)
                consume(service, thread)
                state = service.threads.state(thread)
                check_history(state.values["messages"], ["m-1"])
            if survived:
                break
        assert deaths > 10
    assert max(journal.times("pay").values()) == 1


@pytest.mark.parametrize("place", ["model", "tool", "before the tool", "async"])
def test_a_frozen_consumer_that_wakes_writes_nothing(
    url: str, tmp_path: Path, journal: Journal, place: str
) -> None:
    """Its tools do nothing either."""
    is_frozen, before = [True], list[Any]()

    def freeze(here: str) -> None:
        if is_frozen and here == place.replace("async", "model"):
            is_frozen.clear()
            successor = Thread(target=consume, args=(other, "t"))  # not in the run of the other
            successor.start()
            successor.join()
            before.extend(other.threads.state("t").values["messages"])

    class Freezing(Journal):
        def write(self, *words: object) -> None:
            super().write(*words)
            freeze({"model": "model", "start": "tool"}.get(str(words[0]), ""))

    class BeforeTool(AgentMiddleware):
        def around_tool(self, request: Any) -> Any:
            freeze("before the tool")
            return (yield request)

    with closing(Service(url)) as service, closing(Service(url)) as other:
        plain = make_desk(journal, calls=1)
        parts: list[Any] = [BeforeTool()]
        if place == "tool":  # a tool that runs already is stopped by nobody
            parts.append(OnceMiddleware({"pay": "fail"}))
            plain = make_desk(journal, calls=1, middleware=[OnceMiddleware({"pay": "fail"})])
        service.add("desk", make_desk(Freezing(tmp_path / "journal"), calls=1, middleware=parts))
        other.add("desk", plain)
        act: Callable[..., Any] = take_turn
        if place == "async":
            act = lambda *args: asyncio.run(atake_turn(*args))  # noqa: E731
        with pytest.raises(ThreadBusy, match="went to another process"):
            hold(service, act)
        assert other.threads.state("t").values["messages"] == before
        check_history(before, ["m-1"])
    assert len(journal.lines("pay")) == 1


def test_a_lease_and_the_service_take_turns(service: Service, journal: Journal) -> None:
    service.add("desk", make_desk(journal, calls=1))
    queued = service.submit("desk", thread="t", message="Pay.", message_id="m-0", delay=600)
    with pytest.raises(ThreadBusy, match="is queued"), service.lease("desk", "t"):
        pass
    queued.cancel(by="ann")
    consume(service, "t")
    assert status_of(service, "t") == "idle"
    with service, service.lease("desk", "t") as desk:
        service.submit("desk", thread="t", message="Pay.", message_id="m-2").result(60)
        check_history(desk.get_state(AT).values["messages"], ["m-1", "m-2"])
        with pytest.raises(LeaseLost):
            desk.update_state(AT, {"messages": "Hello"})


def test_a_lease_belongs_to_a_tenant_and_an_agent(service: Service, journal: Journal) -> None:
    service.add("desk", make_desk(journal, calls=1))
    service.threads.create("t", tenant="acme")
    with pytest.raises(NotFound), service.lease("desk", "t"):
        pass
    with pytest.raises(NotFound), service.lease("shop", "t", tenant="acme"):
        pass


def test_effects_of_a_deleted_thread_are_deleted(
    service: Service, tables: Tables, journal: Journal
) -> None:
    service.add("desk", make_desk(journal, middleware=[OnceMiddleware({"pay": "rerun"})]))
    consume(service, "t-1")
    consume(service, "t-2")
    assert len(tables.rows(select(effects))) == 4
    service.threads.delete("t-1")
    assert {row.run for row in tables.rows(select(effects))} == {"lease-t-2"}


def test_a_database_that_is_away_is_an_error_that_a_consumer_catches(
    service: Service, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.add("desk", make_desk(journal))
    database = backend_of(service).database

    def begin() -> Any:
        raise DatabaseUnavailable("the database", "restarts.")

    def act(*args: Any) -> None:
        monkeypatch.setattr(database, "begin", begin)
        take_turn(*args)

    with pytest.raises(DatabaseUnavailable, match="restarts"):
        hold(service, act)
    monkeypatch.undo()
    consume(service, "t")
    check_history(service.threads.state("t").values["messages"], ["m-1"])
