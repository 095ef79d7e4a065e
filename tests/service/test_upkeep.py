"""Deadlines, schedules, limits, draining, and what puts tables in order again."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from langchain_core.messages import AIMessage, BaseMessage
from sqlalchemy import delete, event, insert, select, update
from stack_agents import kept_agent

from agent_factory import ToolRuntime
from agent_factory import middleware as m
from agent_factory.errors import ArgumentError
from agent_factory.service import Crons, Pace, Run, Service
from agent_factory.service.backend import Backend
from agent_factory.service.effects import SharedEffects
from agent_factory.service.errors import AlreadyDecided, AlreadyExists, NotFound
from agent_factory.service.runner import Runner
from agent_factory.service.scheduled_messages import ScheduledMessages
from agent_factory.service.tables import events, runs, schedules, threads, waits
from agent_factory.testing import ScriptedChatModel
from samples import Killed
from service.desk import Journal, check_history, make_desk, waiting
from service.stored import Tables
from waiting import until

WAIT = 60.0


@pytest.fixture
def pace() -> Pace:
    return Pace(beat=0.1)


@pytest.fixture(autouse=True)
def desk(service: Service, tmp_path: Path) -> None:
    """The agent of most tests."""
    service.add("desk", make_desk(Journal(tmp_path / "journal"), calls=1, review=True))


# Deadlines


def late_desk(tmp_path: Path, **options: Any) -> Any:
    return make_desk(Journal(tmp_path / "late"), calls=1, **options)


@pytest.mark.long
def test_a_wait_that_nobody_decides_is_rejected(service: Service, tmp_path: Path) -> None:
    """The call does not run, or the run ends where there is no call."""
    service.add("hasty", late_desk(tmp_path, review=True), review_within=0.05)
    service.add("stops", late_desk(tmp_path, interrupt_before=["model"]), review_within=0.05)
    service.start()
    run = service.submit("hasty", thread="t", message="Pay.")
    paused = service.submit("stops", message="Pay.")
    until(lambda: (run.status, paused.status) == ("done", "cancelled"))
    result = run.result(WAIT)["messages"][2]
    assert result.text == "Nobody decided about this call in time, so it was not approved."
    (entry,) = service.inbox().audit(thread="t")
    assert (entry.who, entry.what, service.inbox().count()) == ("deadline", "reject", 0)


@pytest.mark.long
def test_a_late_review_is_escalated_once(service: Service, tmp_path: Path) -> None:
    service.add("hasty", late_desk(tmp_path, review=True), review_within=3.0, late="escalate")
    service.start()
    first = waiting(service, "t", "hasty")
    service.inbox().claim(first.id, by="ann")
    until(lambda: service.inbox().get(first.id).priority == 1)
    escalated = service.inbox().get(first.id)
    assert escalated.claimed_by is None
    assert escalated.deadline > first.deadline
    until(lambda: service.run(first.run).status == "done")
    what = [entry.what for entry in service.inbox().audit(thread="t")]
    assert what == ["reject", "escalate", "claim"]


# Tables


@pytest.mark.long
def test_the_tables_are_written_again(service: Service, tables: Tables) -> None:
    service.start()
    wait = waiting(service, "t-1")
    waiting(service, "t-2")
    service.decide(service.inbox().waits(thread="t-2")[0].id, "approve", by="ann").result(WAIT)
    before = service.inbox().waits()
    tables.write(*map(delete, (threads, waits, runs)))
    assert sorted(service.reindex()) == ["t-1", "t-2"]
    after = service.inbox().waits()
    assert [(one.id, one.args, one.tenant) for one in after] == [
        (one.id, one.args, one.tenant) for one in before
    ]
    indexed = {one.id: (one.status, one.title) for one in service.threads.search()}
    assert indexed == {"t-1": ("waiting", "Pay."), "t-2": ("idle", "Pay.")}
    service.decide(wait.id, "approve", by="ann").result(WAIT)
    check_history(service.threads.state("t-1").values["messages"], ["m-1"])
    service.submit("desk", thread="t-2", message="Again.", message_id="m-2").result(WAIT)
    # Once more, when nothing is wrong: nothing changes.
    before = service.inbox().waits()
    assert sorted(service.reindex()) == ["t-1", "t-2"]
    assert service.inbox().waits() == before
    # Waits that are in no checkpoint are removed.
    tables.write(update(waits).values(decided_at=None), update(threads).values(status="waiting"))
    assert [one.thread_id for one in service.inbox().waits()] == ["t-1", "t-2"]
    assert sorted(service.reindex()) == ["t-1", "t-2"]
    assert [one.thread_id for one in service.inbox().waits()] == ["t-2"]
    assert service.threads.get("t-1").status == "idle"
    # A thread that another tenant has by now is left alone.
    tables.write(*map(delete, (threads, waits, runs)))
    created = service.threads.create("t-1", tenant="other")
    assert sorted(service.reindex()) == ["t-1", "t-2"]
    assert (service.threads.get("t-1"), service.threads.count_runs("t-1")) == (created, 0)


@pytest.mark.long
def test_old_threads_are_forgotten(service: Service, tables: Tables) -> None:
    service.start()
    for name in ("old", "old/2", "new"):
        service.decide(waiting(service, name).id, "approve", by="ann").result(WAIT)
    waiting(service, "waiting")
    old = update(threads).where(threads.c.thread_id.in_(("old", "waiting")))
    tables.write(old.values(updated_at=0.0))
    assert [*service.forget(older_than="30d", tenant="other")] == []
    assert [*service.forget(older_than="30d")] == ["old"]
    with pytest.raises(NotFound):
        service.threads.state("old")
    assert sorted(one.id for one in service.threads.search()) == ["new", "old/2", "waiting"]
    assert len(service.threads.state("old/2").values["messages"]) == 4
    assert service.inbox().audit(thread="old")[0].what == "delete"
    assert sorted(tables.values(select(runs.c.thread_id))) == ["new", "old/2", "waiting"]
    # The name can be used again.
    run = service.submit("desk", thread="old", message="Pay.", message_id="m-1")
    assert "__interrupt__" in run.result(WAIT)


@pytest.mark.long
def test_events_are_forgotten(service: Service, backend: Backend, tables: Tables) -> None:
    service.start()
    run = service.submit("desk", thread="t", message="Pay.")
    run.result(WAIT)
    tables.write(update(events).values(at=0.0))
    backend.log.forget()
    (end,) = run.stream(timeout=WAIT)
    assert (end["type"], end["data"]["status"]) == ("end", "waiting")


# Many reviews, many reviewers


def test_two_reviewers_at_once(service: Service) -> None:
    service.start()
    wait = waiting(service, "t")

    def decide(at: int) -> str:
        decision = "approve" if at % 2 else "reject"
        try:
            service.decide(wait.id, decision, by=f"person-{at}")
        except AlreadyDecided:
            return "late"
        return decision

    with ThreadPoolExecutor(8) as pool:
        outcomes = [*pool.map(decide, range(16))]
    made = {outcome for outcome in outcomes if outcome != "late"}
    assert len(made) == 1
    service.run(wait.run).result(WAIT)
    results = [m for m in service.threads.state("t").values["messages"] if m.type == "tool"]
    assert len(results) == 1
    assert [entry.what for entry in service.inbox().audit(thread="t")] == [made.pop()]


@pytest.mark.long
def test_ten_thousand_threads_that_wait(service: Service, backend: Backend) -> None:
    """The first page of a tenant takes no longer than with ten."""
    row = {
        "run": "r", "job": "j", "call_id": "c", "digest": "d", "tool": "pay", "kind": "review",
        "args": "{}", "question": "null", "allowed": "approve", "agent": "desk", "late": "reject",
    }  # fmt: skip
    many = []
    for at in range(10_000):
        ids = {"wait_id": f"w-{at}", "thread_id": f"t-{at}", "tenant": f"tenant-{at % 10}"}
        many.append({**row, **ids, "priority": at % 3, "created_at": float(at)})
    with backend.database.begin() as connection:
        connection.execute(insert(waits), many)
    found = service.inbox("tenant-3").waits(limit=50)
    assert [one.priority for one in found] == [2] * 50
    created = [one.created_at for one in found]
    assert created == sorted(created)
    assert service.inbox("tenant-3").count() == 1000
    plans = _plans(backend, lambda: service.inbox("tenant-3").waits(limit=50))
    assert any("INDEX" in plan.upper() and "waits" in plan for plan in plans), plans


def _plans(backend: Backend, work: Callable[[], Any]) -> list[str]:
    """How the database carries out the queries of some work."""
    engine, queries = backend.database.engine, []

    def note(_: Any, __: Any, statement: str, parameters: Any, *___: Any) -> None:
        queries.append((statement, parameters))

    event.listen(engine, "before_cursor_execute", note)
    work()
    event.remove(engine, "before_cursor_execute", note)
    explain = "EXPLAIN QUERY PLAN" if engine.dialect.name == "sqlite" else "EXPLAIN"
    with engine.connect() as connection:
        if engine.dialect.name != "sqlite":
            connection.exec_driver_sql("ANALYZE service_waits")
        plans = [connection.exec_driver_sql(f"{explain} {sql}", args) for sql, args in queries]
        return ["\n".join(map(str, plan)) for plan in plans]


# Stacks that change under threads


def reviewed(journal: Journal, name: str, **options: Any) -> Any:
    review = m.HumanInTheLoopMiddleware(interrupt_on={"pay": True}, name=name)
    return make_desk(journal, calls=1, middleware=[review], **options)


def test_a_renamed_middleware_under_a_waiting_thread(
    service: Service, backend: Backend, journal: Journal, caplog: pytest.LogCaptureFixture
) -> None:
    """The decision is not lost: it can be made again when the new name is known."""
    service.add("shop", reviewed(journal, "Review"))
    service.start()
    wait = waiting(service, "t", "shop")
    assert [*service.stranded("shop")] == []
    agents = backend.agents
    del agents["shop"]
    service.add("shop", reviewed(journal, "Approval"))
    (stranded,) = service.stranded("shop")
    assert (stranded.thread_id, stranded.nodes) == ("t", ("Review.after_model",))
    run = service.decide(wait.id, "approve", by="ann")
    assert "__interrupt__" in run.result(WAIT)
    info = service.threads.get("t")
    assert info.status == "waiting"
    assert "waits at Review.after_model, which this agent does not have" in str(info.error)
    assert [one.id for one in service.inbox().waits()] == [wait.id]
    assert [entry.what for entry in service.inbox().audit()] == ["stranded", "approve"]
    assert "The plan of agent 'shop' has changed since thread t ran" in caplog.text
    del agents["shop"]
    service.add("shop", reviewed(journal, "Approval", moved={"Review": "Approval"}))
    assert [*service.stranded("shop")] == []
    run = service.decide(wait.id, "approve", by="ann")
    assert run.result(WAIT)["messages"][-1].text == "Paid."
    assert service.threads.get("t").error is None
    assert list(journal.times("pay").values()) == [1]


def test_an_earlier_attempt_takes_back_no_decision_that_a_later_one_carries_out(
    service: Service, backend: Backend, journal: Journal
) -> None:
    """Its agent does not have the node that waits, and the agent of the later one does."""
    queue, runner, agents = backend.queue, Runner(backend, lambda: "w"), backend.agents
    service.add("shop", reviewed(journal, "Review"))
    run = service.submit("shop", thread="t", message="Pay.")
    runner.run(queue.claim("w", ["shop"], 1)[0][0])
    service.decide(service.inbox().waits()[0].id, "approve", by="ann")
    ((earlier,), *_) = queue.claim("w", ["shop"], 1)
    queue.give_back("w")
    ((later,), *_) = queue.claim("w", ["shop"], 1)
    right = agents.pop("shop")
    service.add("shop", reviewed(journal, "Approval"))
    runner.run(earlier)
    assert (run.status, service.inbox().waits()) == ("running", [])
    agents["shop"] = right
    assert runner.run(later) == run.status == "done"


# Effects


def booking(journal: Journal, *, asynchronous: bool = False) -> Any:
    """An agent that books, then pays after a review; bookings can be undone."""

    def book(nights: int, runtime: ToolRuntime) -> str:
        """Book a hotel."""
        journal.write("book", m.idempotency_key(runtime))
        return f"Booked {nights} nights."

    def pay(euros: int) -> str:
        """Pay."""
        journal.write("pay", euros)
        return "Paid."

    def cancel(effect: m.Effect) -> None:
        journal.write("cancel", effect.key, effect.args["nights"])

    async def acancel(effect: m.Effect) -> None:
        cancel(effect)

    def answer(messages: list[BaseMessage]) -> AIMessage:
        last, done = messages[-1], sum(m.type == "tool" for m in messages)
        if last.type == "human" and "pay" not in last.text.lower():
            return AIMessage("Fine.")
        steps = ("book", {"nights": 2}), ("book", {"nights": 3}), ("pay", {"euros": 9})
        if done == len(steps):
            return AIMessage("Done.")
        name, args = steps[done]
        return AIMessage("", tool_calls=[{"name": name, "args": args, "id": f"call-{done}"}])

    return kept_agent(
        ScriptedChatModel([answer] * 100),
        m.HumanInTheLoopMiddleware(interrupt_on={"pay": True}),
        m.OnceMiddleware({"book": "ask"}, undo={"book": acancel if asynchronous else cancel}),
        tools=[book, pay],
    )


@pytest.mark.parametrize("how", ["cancel", pytest.param("reject", marks=pytest.mark.long)])
@pytest.mark.parametrize("asynchronous", [False, pytest.param(True, marks=pytest.mark.long)])
def test_the_effects_of_a_run_are_undone(
    service: Service, journal: Journal, how: str, asynchronous: bool
) -> None:
    agent = booking(journal, asynchronous=asynchronous)
    service.add("hotel", agent, asynchronous=asynchronous)
    service.start()
    wait = waiting(service, "t", "hotel")
    keys = journal.lines("book")
    assert len(set(keys)) == 2
    held = service.submit("hotel", thread="t", message="Never mind.", message_id="m-2")
    with pytest.raises(ArgumentError, match="goes with 'reject' only, got approve"):
        service.decide(wait.id, "approve", by="ann", undo=True)
    if how == "cancel":
        service.run(wait.run).cancel(by="ann", undo=True)
    else:
        service.decide(wait.id, "reject", by="ann", undo=True)
    assert held.result(WAIT)["messages"][-1].text == "Fine."
    assert journal.lines("cancel") == [f"{keys[1]} 3", f"{keys[0]} 2"]
    assert journal.lines("pay") == []
    entry = next(one for one in service.inbox().audit(thread="t") if one.what == "undo")
    assert [text.partition(",")[0] for text in entry.detail["undone"]] == [
        "book(nights=3)",
        "book(nights=2)",
    ]
    assert (entry.detail["unknown"], entry.detail["kept"]) == ([], [])
    assert service.run(wait.run).status == "cancelled"


def test_an_effect_whose_outcome_is_unknown_is_asked_about(
    service: Service, backend: Backend, journal: Journal
) -> None:
    """The worker died after the booking: a person says what became of it."""
    service.add("hotel", booking(journal))
    deaths = [Killed()]

    class Dies(SharedEffects):
        def finish(self, effect: m.Effect, result: bytes) -> None:
            if deaths:
                raise deaths.pop()
            super().finish(effect, result)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("agent_factory.service.attempt.SharedEffects", Dies)
        run = service.submit("hotel", thread="t", message="Pay.")
        work(backend, run)
    assert deaths == []
    work(backend, run)
    (wait,) = service.inbox().waits()
    assert wait.tool == "book"
    assert wait.allowed == ("approve", "reject", "respond")
    assert "its outcome is unknown: it may have been done" in wait.question
    service.start()
    service.decide(wait.id, "respond", message="Booked 2 nights.", by="ann").result(WAIT)
    assert len(journal.lines("book")) == 2  # the other booking follows, this one is not repeated
    said = service.threads.state("t").values["messages"]
    assert [m.text for m in said if m.type == "tool"] == ["Booked 2 nights.", "Booked 3 nights."]


def work(backend: Backend, run: Any) -> None:
    """Carry out the job of a run in this thread, as a worker does."""
    queue, worker = backend.queue, f"w-{uuid4()}"
    queue.take_over()  # from the one before, which has no row
    ((claim,), *_) = queue.claim(worker, backend.agents, 1)
    assert claim.run.run_id == run.id
    with suppress(Killed):
        Runner(backend, lambda: worker).run(claim)


# Assistants and crons


def test_assistants(service: Service) -> None:
    assistants = service.assistants("acme")
    made = assistants.create("desk", assistant="a-1", name="100% tea", metadata={"n": {"x": 1}})
    with pytest.raises(AlreadyExists):
        assistants.create("desk", assistant="a-1")
    second = assistants.change("a-1", name="Tea", context={"shop": "\N{TEACUP WITHOUT HANDLE}"})
    assert (second.version, second.created_at) == (2, made.created_at)
    assert second.updated_at > made.updated_at
    assert assistants.search(name="tea", metadata={"n": {"x": 1}}) == [second]
    assert assistants.search(name="%") == []  # a sign that is looked for, and no pattern
    assert [version.name for version in assistants.versions("a-1")] == ["Tea", "100% tea"]
    assert assistants.set_latest("a-1", 1).context == {}
    assistants.delete("a-1")
    with pytest.raises(NotFound):
        assistants.get("a-1")
    assert assistants.create("desk", assistant="a-1").version == 1


def create_cron(crons: Crons, schedule: str = "0 3 * * *", **options: Any) -> Any:
    message = {"message": "Hi"}
    whom: Any = {"agent": "desk", "assistant": "desk", "by": "ann"}
    return crons.create(schedule, options=message, **whom, **options)


def test_crons_are_sorted_and_paged(service: Service) -> None:
    crons = service.crons()
    ids = [
        create_cron(crons, f"{minute} * * * *", ends_at=ends, metadata={"tags": [minute]}).id
        for minute, ends in enumerate([None, 5e9, 4e9, 6e9])
    ]
    service.schedule("nightly", "0 3 * * *", agent="desk", message="Hi")  # is not a cron
    assert {cron.id for cron in crons.search()} == {*ids}
    assert service.crons("acme").search() == []
    with pytest.raises(NotFound):
        service.crons("acme").get(ids[0])
    by_end = [crons.search(sort_by="ends_at", limit=1, offset=at)[0].id for at in range(4)]
    assert by_end == [ids[3], ids[1], ids[2], ids[0]]
    rising = crons.search(sort_by="ends_at", descending=False)
    assert [cron.id for cron in rising] == [ids[2], ids[1], ids[3], ids[0]]
    assert (crons.count(), crons.count(metadata={"tags": [2]})) == (4, 1)


def test_a_cron_of_an_agent_that_is_gone_can_be_disabled(
    service: Service, backend: Backend
) -> None:
    crons = service.crons()
    cron = create_cron(crons)
    del backend.agents["desk"]
    for change in ({"schedule": "5 3 * * *"}, {"agent": "nobody", "enabled": True}):
        with pytest.raises(NotFound):
            crons.change(cron.id, **change)
    assert crons.change(cron.id, enabled=False).next_at is None
    assert crons.get(cron.id).schedule == cron.schedule


def test_a_cron_that_ends_while_others_are_submitted_begins_no_run(
    service: Service, backend: Backend, tables: Tables
) -> None:
    crons = service.crons()
    first, second, third = sorted(create_cron(crons).id for _ in range(3))
    tables.write(update(schedules).values(next_at=0.0))
    ends: list[Any] = [
        partial(crons.delete, second),
        partial(crons.change, third, enabled=False),
    ]

    def submit(**options: Any) -> Run:
        while ends:
            ends.pop()()
        return service.submit(**options)

    ScheduledMessages(backend, service.webhooks, submit).submit_due()
    (run,) = service.threads.search_runs().runs
    assert run.thread_id.startswith(first)


def test_a_cron_whose_message_raises_lets_others_run(
    service: Service, backend: Backend, tables: Tables
) -> None:
    first, second = sorted(create_cron(service.crons()).id for _ in range(2))
    tables.write(update(schedules).values(next_at=0.0))

    def submit(**options: Any) -> Run:
        if options["thread"].startswith(first):
            raise RuntimeError("a guard of the agent is out of order")
        return service.submit(**options)

    for _ in range(2):
        ScheduledMessages(backend, service.webhooks, submit).submit_due()
    (run,) = service.threads.search_runs().runs
    assert run.thread_id.startswith(second)


def test_a_cron_whose_process_died_begins_its_run_once_though_the_run_has_ended(
    service: Service, backend: Backend, tables: Tables
) -> None:
    create_cron(service.crons())
    tables.write(update(schedules).values(next_at=0.0))

    def submit(**options: Any) -> Run:
        service.submit(**options)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ScheduledMessages(backend, service.webhooks, submit).submit_due()
    tables.write(update(threads).values(status="idle"), update(runs).values(status="done"))
    ScheduledMessages(backend, service.webhooks, service.submit).submit_due()
    (run,) = service.threads.search_runs().runs
    assert run.status == "done"


ACTS: dict[str, Callable[[Crons, str], object]] = {
    "create": lambda crons, id: create_cron(crons, "* * * * * *"),
    "change": lambda crons, id: crons.change(id, enabled=True, schedule="* * * * * *"),
    "delete": lambda crons, id: crons.delete(id),
}


@pytest.mark.parametrize("act", ACTS)
def test_a_process_that_dies_between_two_statements_leaves_a_cron_that_runs_or_none(
    service: Service, backend: Backend, act: str
) -> None:
    left, crons = 0, service.crons()

    def die(*_: object) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Killed

    event.listen(backend.database.engine, "before_execute", die)
    for number in range(1, 100):
        left = 0
        for cron in crons.search():
            crons.delete(cron.id)
        cron = create_cron(crons, enabled=False)
        left = number
        with suppress(Killed):
            ACTS[act](crons, cron.id)
        has_ended, left = left > 0, 0
        enabled = {cron.id for cron in crons.search(enabled=True)}
        assert {schedule.name for schedule in service.schedules()} == enabled
        if has_ended:
            break
    assert number > 1
