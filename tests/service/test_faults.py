"""Rows with faults: what each part of a worker's loop does about the others."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from sqlalchemy import event, insert, select, update

from agent_factory import background
from agent_factory.errors import ArgumentError
from agent_factory.service import NotFound, Run, Service
from agent_factory.service import worker as worker_module
from agent_factory.service.backend import Backend
from agent_factory.service.errors import DatabaseUnavailable
from agent_factory.service.inbox import Inbox
from agent_factory.service.message_serializer import dump
from agent_factory.service.messages import as_input, as_text
from agent_factory.service.scheduled_messages import ScheduledMessages
from agent_factory.service.tables import (
    background_jobs,
    ledger,
    reservations,
    runs,
    schedules,
    threads,
    waits,
)
from agent_factory.service.worker import Worker
from service.desk import Journal, make_desk, status_of, waiting
from service.stored import Tables
from service.studio import WAIT, Studio, agent_of, say
from waiting import until

WRONG_MESSAGE = {"role": "assistant", "content": "", "tool_calls": "y"}


class Upkeep:
    """A service in which each part of the loop has something to do."""

    def __init__(self, service: Service, backend: Backend, tables: Tables, folder: Path) -> None:
        self.service, self.tables, self.studio = service, tables, Studio()
        self.worker = Worker(backend, self.submitted_by(service.submit), slots=2)
        service.add("desk", make_desk(Journal(folder / "journal"), calls=1, review=True))
        tool = background(self.studio.render, on_loss="repeat")
        service.add("studio", agent_of(self.studio.answer, tool))
        service.start()
        for name in ("broken wait", "wait"):
            waiting(service, name)
        say(service, "Render 1").result(WAIT)
        until(self.studio.begun.is_set)
        service.stop()
        (self.job,) = tables.rows(select(background_jobs))
        self.add_job("lost job", lost=dump(HumanMessage("Lost.")), call=None)
        service.submit("desk", thread="taken", message="Hi")
        tables.write(
            update(threads).where(threads.c.thread_id == "taken").values(status="running"),
            update(threads).where(threads.c.thread_id == "taken").values(owner="gone"),
            update(waits).values(deadline=1.0),
            insert(ledger).values(scope="s", per="", ends=5e9, turns_reserved=2),
        )
        self.add_reservation("reservation")
        self.add_schedule("schedule")
        self.worker.enter()

    def submitted_by(self, submit: Callable[..., Run]) -> Callable[[], None]:
        backend = self.service._backend
        return ScheduledMessages(backend, self.service.webhooks, submit).submit_due

    def add_job(self, id: str, **values: Any) -> None:
        job = {**self.job._mapping, "id": id, **values}
        self.tables.write(insert(background_jobs).values(job))

    def add_reservation(self, id: str) -> None:
        values = {"scope": "s", "per": "", "expires": 0.0, "turns": 1}
        self.tables.write(insert(reservations).values(id=id, **values))

    def add_schedule(self, name: str, **values: Any) -> None:
        self.service.schedule(name, "0 3 * * *", agent="desk", message="Hi", thread=f"of {name}")
        due = update(schedules).where(schedules.c.id == name)
        self.tables.write(due.values(next_at=0.0, **values))

    def break_rows(self) -> None:
        """Add a row with a fault to each part, before the other rows where there is an order."""
        self.add_job("a broken job", call=dump({"call": {"name": "render"}}), deadline=4e9)
        self.add_job("a broken loss", call=None, lost=b"\xc1")
        self.add_reservation("a broken reservation")
        broken = update(waits).where(waits.c.thread_id == "broken wait")
        self.tables.write(broken.values(deadline=0.0, args="{"))

        def fail(_: Any, __: Any, statement: str, parameters: Any, *___: Any) -> None:
            if statement.startswith("DELETE FROM service_res") and "broken" in str(parameters):
                raise ValueError("a broken reservation")

        event.listen(self.tables.database.engine, "before_cursor_execute", fail)
        event.listen(self.service._backend.database.engine, "before_cursor_execute", fail)
        self.add_schedule("a message", options={"message": WRONG_MESSAGE})
        self.add_schedule("a zone", timezone="Mars/Olympus")
        self.add_schedule("an expression", schedule="at night")
        self.add_schedule("an option", options={"message": "Hi", "mesage": "Hi"})
        self.add_schedule("no object", options=["Hi"])
        self.add_schedule("a last year", schedule="0 3 * * * 0 2020")

    def left(self) -> set[str]:
        """What the loop has not done."""
        jobs = {job.id: job.worker for job in self.tables.rows(select(background_jobs))}
        decided_by = select(waits.c.decided_by).where(waits.c.thread_id == "wait")
        kept = self.tables.values(select(reservations.c.id))
        is_done = {
            "take over runs": status_of(self.service, "taken") == "queued",
            "begin lost jobs again": jobs[self.job.id] == self.worker.id,
            "report lost jobs": "lost job" not in jobs,
            "end old reservations": "reservation" not in kept,
            "submit messages of schedules": self.service.threads.search(ids=["of schedule"]),
            "decide at deadlines": self.tables.value(decided_by) == "deadline",
        }
        return {part for part, done in is_done.items() if not done}


@pytest.fixture
def upkeep(service: Service, backend: Backend, tables: Tables, tmp_path: Path) -> Any:
    upkeep = Upkeep(service, backend, tables, tmp_path)
    yield upkeep
    upkeep.studio.goes_on.set()


def test_a_row_with_a_fault_holds_up_no_other_row_of_any_part(
    upkeep: Upkeep, caplog: pytest.LogCaptureFixture
) -> None:
    upkeep.break_rows()
    upkeep.worker.look_after()
    assert upkeep.left() == set()
    (wait,) = upkeep.tables.values(
        select(waits.c.wait_id).where(waits.c.thread_id == "broken wait")
    )
    for id in ("a broken job", "a broken loss", "a broken reservation", wait):
        assert f" {id} " in caplog.text


PARTS = {
    "take over runs": (Worker, "dead_workers"),
    "begin lost jobs again": (worker_module, "take_lost_jobs"),
    "report lost jobs": (worker_module, "report_lost_jobs"),
    "end old reservations": (worker_module, "expire_reservations"),
    "submit messages of schedules": (ScheduledMessages, "_carry_out"),
    "decide at deadlines": (Inbox, "expire"),
}


@pytest.mark.parametrize("part", PARTS)
def test_a_part_with_a_fault_holds_up_no_other_part(
    upkeep: Upkeep, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise ValueError("odd")

    monkeypatch.setattr(*PARTS[part], fail)
    upkeep.worker.look_after()
    assert upkeep.left() == {part}


def test_a_schedule_with_a_fault_is_logged_once_and_gets_another_time(
    upkeep: Upkeep, caplog: pytest.LogCaptureFixture
) -> None:
    upkeep.break_rows()
    for _ in range(3):
        upkeep.worker.look_after()
    now = upkeep.tables.value(select(upkeep.tables.now))
    query = select(schedules.c.id, schedules.c.next_at)
    times = {row.id: row.next_at for row in upkeep.tables.rows(query)}
    assert times.pop("a last year") is None
    assert min(times.values()) > now
    for name in ("a zone", "an expression"):
        assert caplog.text.count(f"Schedule {name} was not carried out. It is tried") == 1
        assert times[name] - now < 3601
    for name in ("a message", "an option", "no object"):
        assert caplog.text.count(f"Schedule {name} was not carried out.") == 1


def test_a_message_that_finds_no_database_stays_due_and_holds_up_no_other(
    upkeep: Upkeep,
) -> None:
    upkeep.add_schedule("a first")
    lost = ["of a first"]

    def submit(**options: Any) -> Run:
        if options["thread"] in lost:
            raise DatabaseUnavailable("the database", "is restarting.")
        return upkeep.service.submit(**options)

    submit_due = upkeep.submitted_by(submit)
    submit_due()
    assert {thread.id for thread in upkeep.service.threads.search(text="of ")} == {"of schedule"}
    lost.clear()
    submit_due()
    assert upkeep.service.threads.get("of a first").status == "queued"


# Messages and options, refused where they come in


@pytest.fixture
def desk(service: Service, tmp_path: Path) -> Service:
    service.add("desk", make_desk(Journal(tmp_path / "journal"), calls=1))
    return service


WRONG: dict[str, dict[str, Any]] = {
    "message": {"message": WRONG_MESSAGE},
    "parts of a message": {"message": [HumanMessage.model_construct(content=5)]},
    "no message": {"message": HumanMessage.model_construct()},
    "role": {"message": {"role": "remove", "content": ""}},
    "option": {"mesage": "Hi"},
    "row": {"message_id": "m"},
    "config": {"config": "fast"},
    "part of the config": {"config": {5: 5}},
    "tags": {"config": {"tags": "a"}},
    "context": {"context": "gold"},
    "metadata": {"metadata": ["a"]},
    "nodes": {"interrupt_before": [["model"]]},
    "node": {"interrupt_after": 5},
    "stream": {"stream": ["all"]},
    "priority": {"priority": 5000},
    "busy": {"busy": "maybe"},
    "delay": {"delay": "soon"},
    "checkpoint": {"checkpoint": 5},
    "webhook": {"webhook": 5},
}


WORDS = st.sampled_from([
    "role", "type", "content", "tool_calls", "id", "name", "args", "function", "function_call",
    "additional_kwargs", "response_metadata", "usage_metadata", "tool_call_id", "artifact",
])  # fmt: skip
ROLES = st.sampled_from(["user", "assistant", "tool", "system", "ai", "developer", "remove"])
LEAVES = st.none() | st.booleans() | st.integers(-9, 9) | WORDS | ROLES | st.floats()
JSON = st.recursive(
    LEAVES,
    lambda part: st.lists(part, max_size=3) | st.dictionaries(WORDS, part, max_size=4),
    max_leaves=8,
)
FIELDS = st.dictionaries(WORDS, JSON, max_size=4)
KINDS = st.sampled_from([HumanMessage, AIMessage, ToolMessage, SystemMessage])
MESSAGES = (
    st.builds(
        lambda role, content, more: {**more, "role": role, "content": content}, ROLES, JSON, FIELDS
    )
    | st.builds(lambda kind, parts: kind.model_construct(**parts), KINDS, FIELDS)
    | JSON
)

GRAPH = make_desk(Journal(Path()), calls=1)


@given(MESSAGES)
@settings(deadline=None)
@example(WRONG_MESSAGE)
@example(HumanMessage.model_construct())
def test_each_message_is_taken_or_refused_by_name(message: object) -> None:
    with suppress(ArgumentError):
        as_text(as_input([message], "m-1", GRAPH))


@pytest.mark.parametrize("name", WRONG)
def test_a_schedule_refuses_a_message_when_it_is_made(desk: Service, name: str) -> None:
    crons = desk.crons()
    whom: dict[str, Any] = {"agent": "desk", "assistant": "desk", "by": "ann"}
    options = {"message": "Hi", **WRONG[name]}
    cron = crons.create("0 3 * * *", options={"message": "Hi"}, **whom)
    if name != "row":  # an argument of Python that `schedule` does not pass on
        with pytest.raises((ArgumentError, TypeError)):
            desk.submit("desk", thread="t", **options)
    with pytest.raises(ArgumentError):
        desk.schedule("nightly", "0 3 * * *", agent="desk", **options)
    with pytest.raises(ArgumentError):
        crons.create("0 3 * * *", options=options, **whom)
    with pytest.raises(ArgumentError):
        crons.change(cron.id, options=options)
    assert desk.threads.search() == []
    assert [schedule.name for schedule in desk.schedules()] == [cron.id]


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"schedule": "0 3 30 2 *"}, ArgumentError),
        ({"schedule": "0 3 * * * 0 2020"}, ArgumentError),
        ({"schedule": 5}, ArgumentError),
        ({"timezone": "Mars/Olympus"}, ArgumentError),
        ({"timezone": 5}, ArgumentError),
        ({"ends_at": "soon"}, ArgumentError),
        ({"ends_at": float("nan")}, ArgumentError),
        ({"ends_at": 1e300}, ArgumentError),
        ({"assistant": "nobody"}, NotFound),
        ({"thread": "t" * 256}, ArgumentError),
    ],
)
def test_a_cron_refuses_times_that_never_come(
    desk: Service, values: dict[str, Any], error: type[Exception]
) -> None:
    whole: dict[str, Any] = {"schedule": "0 3 * * *", "agent": "desk", "assistant": "desk"}
    with pytest.raises(error):
        desk.crons().create(**{**whole, **values}, options={"message": "Hi"}, by="ann")
    assert desk.crons().count() == 0


def test_an_hour_that_clocks_show_twice_has_two_threads(
    desk: Service, backend: Backend, tables: Tables
) -> None:
    options: dict[str, Any] = {"agent": "desk", "message": "Hi", "timezone": "Europe/Berlin"}
    desk.schedule("half", "30 * * * *", **options)
    for due in (1792888200.0, 1792891800.0):  # 2:30 twice, on 25 October 2026
        tables.write(update(schedules).values(next_at=due))
        ScheduledMessages(backend, desk.webhooks, desk.submit).submit_due()
    assert len(desk.threads.search(text="half-")) == 2


def test_a_deleted_thread_takes_its_crons_with_it(desk: Service, tables: Tables) -> None:
    options: dict[str, Any] = {"options": {"message": "Hi"}, "agent": "desk", "by": "ann"}
    for tenant in ("acme", "other"):
        crons = desk.crons(tenant)
        crons.create("0 3 * * *", assistant="desk", thread="t", **options)
    desk.threads.create("t", tenant="acme")
    desk.threads.delete("t", by="ann", tenant="acme")
    assert (desk.crons("acme").count(), desk.crons("other").count()) == (0, 1)
    assert tables.values(select(runs.c.run_id)) == []
