"""A worker may die before or after each transaction: the next one loses nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from threading import current_thread
from time import time_ns
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.base import id as checkpoint_ids
from sqlalchemy import Connection
from stack_agents import kept_agent

from agent_factory import ToolRuntime, create_agent
from agent_factory.middleware import HumanInTheLoopMiddleware, SteeringMiddleware
from agent_factory.service import DatabaseUnavailable, Service
from agent_factory.service.backend import Backend
from agent_factory.service.database import Database
from agent_factory.service.runner import Runner
from agent_factory.testing import ScriptedChatModel
from samples import Killed
from service.desk import Journal, check_history, make_desk, status_of
from service.stored import backend_of

pytestmark = pytest.mark.long


class MortalDatabase(Database):
    """A database whose process dies at one of the transactions that write: before or after it."""

    dies_at = 0
    survives_commit = False
    count = 0

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        if current_thread().name == "agent-factory-events":
            raise DatabaseUnavailable("it", "is gone.")  # events that are lost change nothing
        self.count += 1
        if self.dies_at and self.count >= self.dies_at + self.survives_commit:
            raise Killed
        with super().begin() as connection:
            yield connection
        if self.count == self.dies_at:
            raise Killed


def work(service: Service, thread: str, dies_at: int = 0, survives_commit: bool = False) -> bool:
    """Carry out the job of a thread, as a new worker does; whether the worker has survived."""
    database = MortalDatabase(backend_of(service).database.url)
    backend, worker = Backend(database), f"w-{uuid4()}"
    backend.agents.update(backend_of(service).agents)
    backend.queue.take_over()  # no worker has a row here: all that were are dead
    database.dies_at, database.survives_commit = dies_at, survives_commit
    database.count = 0
    try:
        for claim in backend.queue.claim(worker, backend.agents, 10)[0]:
            assert claim.lease.thread_id == thread
            Runner(backend, lambda: worker).run(claim)
    except Killed:
        return False
    finally:
        database.dies_at = 0
        backend.close()
    return True


def each_death(begin: Callable[[str], None], check: Callable[[str], None], service: Service) -> int:
    """Let a worker die at each of its transactions in turn, and another one continue."""
    for at in range(1, 200):
        survived = True
        for survives_commit in (False, True):
            thread = f"t-{at}-{survives_commit}"
            begin(thread)
            survived = work(service, thread, at, survives_commit) and survived
            assert work(service, thread)
            check(thread)
        if survived:
            return at
    raise AssertionError("the run does not end")


SETTINGS: list[dict[str, Any]] = [
    {"checkpoints": "delta"},
    {"checkpoints": "full"},
    {"checkpoints": "delta", "fused": False},
    {"checkpoints": "full", "fused": "turn"},
]


@pytest.mark.parametrize("options", SETTINGS, ids=str)
def test_a_worker_that_dies_during_a_message(
    sqlite_url: str, journal: Journal, options: Mapping[str, Any]
) -> None:
    with closing(Service(sqlite_url)) as service:
        service.add("desk", make_desk(journal, calls=2, **options))

        def begin(thread: str) -> None:
            service.submit("desk", thread=thread, message="Pay.", message_id="m-1")

        def check(thread: str) -> None:
            check_history(service.threads.state(thread).values["messages"], ["m-1"])
            assert status_of(service, thread) == "idle"

        assert each_death(begin, check, service) > 5
    # An effect runs twice only if its process died between it and the storing of its result.
    assert max(journal.times("pay").values()) <= 2
    assert min(journal.times("pay").values()) == 1


def test_a_worker_that_dies_while_it_ends_the_turn_before(sqlite_url: str, tmp_path: Path) -> None:
    """The message is in the history, behind calls that have an answer."""
    with closing(Service(sqlite_url)) as service:
        service.add("desk", make_desk(Journal(tmp_path / "journal"), calls=2))

        def begin(thread: str) -> None:
            service.submit("desk", thread=thread, message="Pay.", message_id="m-0")
            assert not work(service, thread, 4)  # between an answer of the model and its tools
            service.submit(
                "desk", thread=thread, message="Pay.", message_id="m-1", busy="interrupt"
            )

        def check(thread: str) -> None:
            check_history(service.threads.state(thread).values["messages"], ["m-0", "m-1"])
            assert status_of(service, thread) == "idle"

        assert each_death(begin, check, service) > 5


def test_the_clock_of_the_next_worker_may_be_behind(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its checkpoints are the newest of the thread all the same."""
    service.add("desk", make_desk(Journal(tmp_path / "journal"), calls=1, review=True))
    service.submit("desk", thread="t", message="Pay.", message_id="m-1")
    assert work(service, "t")
    a_minute_ago = SimpleNamespace(time_ns=lambda: time_ns() - 60 * 10**9)
    monkeypatch.setattr(checkpoint_ids, "time", a_minute_ago)
    monkeypatch.setattr(checkpoint_ids, "_last_v6_timestamp", None)
    service.decide(service.inbox().waits()[0].id, "approve", by="ann")
    assert work(service, "t")
    check_history(service.threads.state("t").values["messages"], ["m-1"])


@pytest.mark.parametrize("options", SETTINGS, ids=str)
def test_a_worker_that_dies_while_its_run_is_steered(
    sqlite_url: str, options: Mapping[str, Any]
) -> None:
    """Each message is read once: by the run, or by the run after it."""
    with closing(Service(sqlite_url)) as service:

        def steer(runtime: ToolRuntime, text: str) -> None:
            thread = runtime.config["configurable"]["thread_id"]
            service.submit("desk", thread=thread, message=text, message_id=text, busy="steer")

        def look(runtime: ToolRuntime) -> str:
            """Look. The user says something meanwhile."""
            steer(runtime, "m-3")
            steer(runtime, "m-4")
            return "There."

        def note() -> str:
            """Note what was said."""
            return "Noted."

        def answer(messages: list[BaseMessage]) -> AIMessage:
            tools = {"m-2": "look", "m-4": "note"}
            if (name := tools.get(messages[-1].id or "")) is not None:
                call = {"name": name, "args": {}, "id": uuid4().hex}
                return AIMessage("", tool_calls=[call])
            return AIMessage("Done.")

        agent = kept_agent(
            ScriptedChatModel([answer] * 10_000),
            SteeringMiddleware(),
            tools=[look, note],
            **options,
        )
        service.add("desk", agent, busy="steer")

        def begin(thread: str) -> None:
            for id in ("m-1", "m-2"):
                service.submit("desk", thread=thread, message=id, message_id=id)

        def check(thread: str) -> None:
            while work(service, thread) and status_of(service, thread) != "idle":
                pass
            messages = service.threads.state(thread).values["messages"]
            check_history(messages, ["m-1", "m-2", "m-3", "m-4"])
            (run, *steered) = reversed(service.threads.runs(thread))
            assert {each.status for each in (run, *steered)} == {"done"}
            assert {each.info.reader for each in steered} == {run.id}
            # A model call whose answer was not stored is made again: no turn is.
            assert sum(isinstance(message, AIMessage) for message in messages) == 3

        assert each_death(begin, check, service) > 5


DECISIONS: list[tuple[dict[str, Any], str]] = [
    ({"decision": "approve"}, "Paid 1."),
    ({"decision": "edit", "args": {"euros": 9}}, "Paid 9."),
    ({"decision": "reject", "message": "Too much."}, "Too much."),
    ({"decision": "respond", "message": "It was paid by hand."}, "It was paid by hand."),
]


@pytest.mark.parametrize("options", SETTINGS[:3], ids=str)
@pytest.mark.parametrize("asks", ["middleware", "interrupt_before"])
@pytest.mark.parametrize(("decision", "says"), DECISIONS, ids=str)
def test_a_worker_that_dies_during_a_decision(
    sqlite_url: str, journal: Journal, decision: Any, says: str, asks: str, options: Any
) -> None:
    """The decision is carried out once, and the next call waits for another."""
    own: Any = {"review": True} if asks == "middleware" else {"interrupt_before": ["tools"]}
    with closing(Service(sqlite_url)) as service:
        service.add("desk", make_desk(journal, calls=2, **own, **options))

        def begin(thread: str) -> None:
            service.submit("desk", thread=thread, message="Pay.", message_id="m-1")
            assert work(service, thread)
            (wait,) = service.inbox().waits(thread=thread)
            service.decide(wait.id, **decision, by="ann")

        def check(thread: str) -> None:
            (wait,) = service.inbox().waits(thread=thread)
            assert status_of(service, thread) == "waiting"
            messages = service.threads.state(thread).values["messages"]
            first, result, second = messages[1:4]
            assert (type(first), type(result), type(second)) == (AIMessage, ToolMessage, AIMessage)
            assert wait.args == second.tool_calls[0]["args"] == {"euros": 2}
            assert result.text.startswith(says)
            paid = journal.times("pay")[first.tool_calls[0]["id"]]
            assert paid in ((1, 2) if says.startswith("Paid") else (0,))
            assert journal.times("pay")[second.tool_calls[0]["id"]] == 0

        assert each_death(begin, check, service) > 3


MODES: list[list[Any]] = [
    ["batched", "per_call"],  # both kinds of review
    ["per_call"],
    ["per_call", "batched"],
    ["per_call", "per_call"],
    ["batched", "batched"],
]


@pytest.mark.parametrize("modes", MODES, ids="-".join)
def test_a_worker_that_dies_during_the_decisions_about_two_calls(
    sqlite_url: str, modes: list[Any]
) -> None:
    """Each reviewer is asked about each call once, also where two ask the same question."""
    ids, paid = count(1), set[int]()

    def pay(euros: int) -> str:
        """Pay."""
        paid.add(euros)
        return f"Paid {euros}."

    def answer(messages: list[BaseMessage]) -> Any:
        if not isinstance(messages[-1], HumanMessage):
            return "Done."
        return [{"name": "pay", "args": {"euros": 40}, "id": f"c{next(ids)}"} for _ in "ab"]

    reviews: list[Any] = [
        HumanInTheLoopMiddleware({"pay": True}, name=f"review-{number}", interrupt_mode=mode)
        for number, mode in enumerate(modes)
    ]
    model = ScriptedChatModel([answer] * 10_000)
    agent = create_agent(model, [pay], middleware=reviews, ignore=["AF206", "AF211"])
    with closing(Service(sqlite_url)) as service:
        service.add("desk", agent)

        def begin(thread: str) -> None:
            paid.clear()
            service.submit("desk", thread=thread, message="Pay.")
            assert work(service, thread)
            first, second = service.inbox().waits(thread=thread)
            service.decide(first.id, "edit", args={"euros": 10}, by="ann")
            service.decide(second.id, "approve", by="ann")

        def check(thread: str) -> None:
            asked: list[int] = []
            while waits := service.inbox().waits(thread=thread):
                assert len(asked) < 10
                asked += [wait.args["euros"] for wait in waits]
                for wait in waits:
                    service.decide(wait.id, "approve", by="bob")
                assert work(service, thread)
            assert sorted(asked) == sorted([10, 40] * len(modes[1:]))
            assert status_of(service, thread) == "idle"
            assert paid == {10, 40}

        assert each_death(begin, check, service) > 3
