"""Background jobs whose worker has died, and that another worker begins again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from threading import Event, Lock
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage
from langgraph.channels import UntrackedValue
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import InjectedState, InjectedStore
from langgraph.store.base import BaseStore
from sqlalchemy import delete, insert, select, update

from agent_factory import AgentMiddleware, AgentState, PrivateStateAttr, background, create_agent
from agent_factory.middleware import BackgroundMiddleware, OnceMiddleware, idempotency_key
from agent_factory.middleware.background import repetition
from agent_factory.middleware.background.work import under_way
from agent_factory.prebuilt import ToolRuntime
from agent_factory.service import RunFailed, Service
from agent_factory.service import background as module
from agent_factory.service.background import LostJob, report_lost_jobs, take_lost_jobs
from agent_factory.service.errors import DatabaseLost
from agent_factory.service.tables import background_jobs, workers
from agent_factory.testing import ScriptedChatModel
from samples import User
from service.paces import paced
from service.stage import Moody
from service.stored import Tables, backend_of
from service.studio import WAIT, Studio, agent_of, rows, say, start, texts
from waiting import auntil, until


class Press:
    """A background tool whose attempts end when the test lets them, each with its own result."""

    def __init__(self) -> None:
        self.begun = [Event() for _ in range(4)]
        self.goes_on = [Event() for _ in range(4)]
        self.ended: list[int] = []
        self.looks = True  # whether it writes progress at its end
        self.studio = Studio()
        self._lock, self._attempts = Lock(), 0

    def render(self, page: int, runtime: ToolRuntime) -> str:
        """Render a page."""
        with self._lock:
            attempt, self._attempts = self._attempts, self._attempts + 1
        self.begun[attempt].set()
        runtime.stream_writer(f"attempt {attempt + 1}")
        assert self.goes_on[attempt].wait(WAIT)
        if self.looks:
            runtime.stream_writer("nearly done")
        self.ended.append(attempt + 1)
        return f"Page {page} of attempt {attempt + 1}."

    def agent(self, on_loss: Any = "repeat", **options: Any) -> Any:
        return agent_of(self.studio.answer, background(self.render, on_loss=on_loss), **options)

    def end(self, attempt: int) -> None:
        """Let an attempt go on to its end."""
        self.goes_on[attempt - 1].set()


@pytest.fixture
def press() -> Iterator[Press]:
    new_press = Press()
    yield new_press
    for event in new_press.goes_on:
        event.set()


def begin(fleet: Fleet, press: Press) -> None:
    """Begin a job, whose worker ends then; its work goes on, as that of one that was slow."""
    start(fleet.service, press.agent())
    say(fleet.service, "Render 1").result(WAIT)
    assert press.begun[0].wait(WAIT)
    fleet.service.stop()


class Fleet:
    """Workers that a test adds to those of its service, and the jobs that they have."""

    def __init__(self, service: Service, tables: Tables) -> None:
        self.service, self.tables, self._backend = service, tables, backend_of(service)

    def enter(self, worker: str = "other") -> None:
        """Add a worker that does nothing by itself."""
        values = {"id": worker, "beat": self.tables.now, "draining": False, "detail": "{}"}
        self.tables.write(insert(workers).values(values))

    def leave(self, worker: str = "other") -> None:
        self.tables.write(delete(workers).where(workers.c.id == worker))

    def jobs(self) -> list[Any]:
        """The rows of the jobs that are under way."""
        return rows(self.tables)

    def job(self) -> Any:
        """The row of the only job."""
        (row,) = self.jobs()
        return row

    def change(self, **values: Any) -> None:
        """Change all jobs."""
        self.tables.write(update(background_jobs).values(**values))

    def take(self, worker: str = "other", most: int = 8) -> list[LostJob]:
        return take_lost_jobs(self._backend, worker, most)

    def begin_again(self, worker: str = "other") -> LostJob:
        (job,) = self.take(worker)
        job.begin()
        return job

    def report_lost(self) -> int:
        return report_lost_jobs(self._backend)

    def wait_for_the_end(self) -> None:
        """Wait until no job and no run is under way any more."""
        until(lambda: not self.jobs() and self.service.threads.get("t").status == "idle")

    def read(self) -> list[str]:
        """What the thread has when nothing is under way any more."""
        self.service.start()
        self.wait_for_the_end()
        say(self.service, "And?").result(WAIT)
        self.service.stop()
        return [text for text in texts(self.service) if text not in ("Render 1", "And?")]


@pytest.fixture
def fleet(service: Service, tables: Tables) -> Fleet:
    return Fleet(service, tables)


def messages_of(service: Service) -> list[BaseMessage]:
    messages: list[BaseMessage] = service.threads.state("t").values["messages"]
    return messages


@paced(look=0.1)
@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_job_of_a_dead_worker_begins_again_and_its_result_arrives_once(
    service: Service, fleet: Fleet, press: Press, asynchronous: bool
) -> None:
    start(service, press.agent(), asynchronous)
    say(service, "Render 1").result(WAIT)
    assert press.begun[0].wait(WAIT)
    fleet.change(worker="dead")
    assert press.begun[1].wait(WAIT)
    row = fleet.job()
    assert (row.attempt, row.worker) == (2, fleet.tables.value(select(workers.c.id)))
    press.end(2)
    fleet.wait_for_the_end()
    press.end(1)
    say(service, "Thanks").result(WAIT)
    assert texts(service) == ["Render 1", "Page 1 of attempt 2.", "Thanks"]


def background_threads() -> set[threading.Thread]:
    return {each for each in threading.enumerate() if each.name == "background"}


@pytest.mark.parametrize("first", [1, 2])
@pytest.mark.parametrize("process", ["same", "other"])
@pytest.mark.parametrize("looks", [True, False])
def test_of_a_slow_worker_and_the_next_one_the_later_attempt_sends_its_result(
    service: Service,
    fleet: Fleet,
    press: Press,
    monkeypatch: pytest.MonkeyPatch,
    first: int,
    process: str,
    looks: bool,
) -> None:
    """Whichever ends first: the row belongs to the second attempt from its begin."""
    press.looks = looks
    others = background_threads()
    begin(fleet, press)
    of_attempts = [background_threads() - others]
    if process == "other":
        monkeypatch.setattr(repetition, "under_way", lambda _: None)
    fleet.enter()
    job = fleet.begin_again()
    assert press.begun[1].wait(WAIT)
    of_attempts.append(background_threads() - others - of_attempts[0])
    for attempt in (first, 3 - first):
        press.end(attempt)
        for thread in of_attempts[attempt - 1]:
            thread.join(WAIT)
        goes_on = attempt == first == 1
        assert len(fleet.jobs()) == goes_on
        assert (under_way(job.call["id"]) is not None) == goes_on
    assert fleet.read() == ["Page 1 of attempt 2."]
    # One that writes its progress notices that it is over.
    assert press.ended == ([2] if looks else [first, 3 - first])


@pytest.mark.parametrize("way", ["result", "drop", "thread", "run", "other worker", "own end"])
def test_what_has_happened_to_a_job_since_it_was_looked_for_comes_first(
    service: Service, fleet: Fleet, press: Press, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(fleet, press)
    fleet.enter()
    fleet.enter("third")

    def first(parts: Any, worker: str, row: Any) -> Any:
        if worker == "third":
            return take_row(parts, worker, row)
        if way == "result":
            press.end(1)
            until(lambda: not fleet.jobs())
        elif way == "drop":
            fleet.tables.write(delete(background_jobs))
        elif way == "thread":
            service.threads.delete("t")
        elif way == "run":
            service.run(fleet.job().run).delete()
        elif way == "other worker":
            assert len(fleet.take("third")) == 1
        else:
            fleet.leave()
        return take_row(parts, worker, row)

    take_row = module._take
    monkeypatch.setattr(module, "_take", first)
    assert fleet.take() == []
    if way == "other worker":
        (row,) = fleet.jobs()
        assert (row.attempt, row.worker) == (2, "third")


class Desk(AgentState):
    lock: Annotated[Any, PrivateStateAttr, UntrackedValue]


class Locks(AgentMiddleware[Desk, Any]):
    """A key of the state that no checkpoint has."""

    state_schema = Desk

    def before_agent(self, state: Desk, runtime: Any) -> dict[str, Any]:
        return {"lock": Lock()}


METADATA = ("ticket", "agent_factory_run", "agent_factory_tenant")


def test_the_tool_gets_what_it_got_before(fleet: Fleet) -> None:
    """Except for what no checkpoint has, as in a thread that is resumed."""
    calls, ends, locks = list[dict[str, Any]](), Event(), list[object]()

    def render(
        page: int,
        mood: Annotated[str, InjectedState("mood")],
        store: Annotated[BaseStore, InjectedStore],
        runtime: ToolRuntime[User, Any],
    ) -> str:
        """Render a page."""
        item = store.get(("pages",), "size")
        keys, state = runtime.config["configurable"], {**runtime.state}
        locks.append(state.pop("lock", None))
        calls.append(
            {
                "args": (page, mood, item.value if item else None),
                "state": state,
                "key": idempotency_key(runtime),
                "context": runtime.context,
                "call": runtime.tool_call_id,
                "store": runtime.store is store,
                "info": replace(runtime.execution_info) if runtime.execution_info else None,
                "tools": [each.name for each in runtime.tools],
                "keys": (keys["thread_id"], keys["user"]),
                "metadata": [runtime.config["metadata"][key] for key in METADATA],
                "tags": [each for each in runtime.config["tags"] if not each.startswith("seq:")],
            }
        )
        ends.wait(WAIT)
        return f"Page {page} is rendered."

    once = OnceMiddleware({"render": "rerun"})
    agent = create_agent(
        ScriptedChatModel([Studio().answer] * 10),
        [background(render, on_loss="repeat")],
        middleware=[Moody(), Locks(), BackgroundMiddleware(), once],
        checkpointer=InMemorySaver(),
        context_schema=User,
    )
    fleet.service.add("studio", agent, configurable=["user"])
    fleet.service.store("acme").put(("pages",), "size", {"inches": 8})
    fleet.service.start()
    run = fleet.service.submit(
        "studio",
        thread="t",
        message={"messages": "Render 1", "mood": "fine"},
        tenant="acme",
        context={"name": "ann"},
        config={"configurable": {"user": "bob"}, "tags": ["urgent"]},
        metadata={"ticket": "7"},
    )
    run.result(WAIT)
    until(lambda: calls)
    fleet.service.stop()
    fleet.enter()
    fleet.begin_again()
    until(lambda: len(calls) == 2)
    first, second = calls
    assert second == first
    assert [lock is None for lock in locks] == [False, True]
    assert first["args"] == (1, "fine", {"inches": 8})
    assert (first["context"], first["keys"][1]) == (User("ann"), "bob")
    assert first["state"]["messages"][0].text == "Render 1"
    ends.set()


def test_a_job_is_lost_by_name_after_attempts(fleet: Fleet, press: Press) -> None:
    begin(fleet, press)
    for attempt in (2, 3, 4):
        fleet.enter(f"worker {attempt}")
        assert fleet.report_lost() == 0
        fleet.begin_again(f"worker {attempt}")
        assert press.begun[attempt - 1].wait(WAIT)
        fleet.leave(f"worker {attempt}")
    fleet.enter()
    assert fleet.take() == []
    assert fleet.report_lost() == 1
    press.end(4)
    (lost,) = fleet.read()
    # The first worker was stopped, and three have died.
    assert 'render({"page": 1}), is lost after 4 attempts: the process' in lost
    assert press.ended == []


@pytest.mark.long
def test_a_job_has_one_time_for_all_attempts(fleet: Fleet, press: Press) -> None:
    begin(fleet, press)
    fleet.enter()
    fleet.change(deadline=fleet.tables.now + 3.0)
    fleet.begin_again()
    assert press.begun[1].wait(WAIT)
    (text,) = fleet.read()
    assert "did not end in 600 seconds" in text


def test_jobs_whose_time_is_up_or_that_cannot_be_read_are_reported_as_lost(
    service: Service, fleet: Fleet, press: Press
) -> None:
    start(service, press.agent())
    say(service, "Render 1 2").result(WAIT)
    service.stop()
    jobs, id = fleet.jobs(), background_jobs.c.id
    late, unreadable = (update(background_jobs).where(id == job.id) for job in jobs)
    fleet.tables.write(
        late.values(deadline=fleet.tables.now - 1), unreadable.values(call=b"msgpack \xc1")
    )
    fleet.enter()
    assert (fleet.take(), fleet.report_lost()) == ([], 2)
    lost = [text for text in fleet.read() if "is lost: the process" in text]
    assert len(lost) == 2


def test_a_job_that_may_not_be_repeated_keeps_no_call(fleet: Fleet, press: Press) -> None:
    start(fleet.service, press.agent(on_loss="report"))
    say(fleet.service, "Render 1").result(WAIT)
    fleet.service.stop()
    job = fleet.job()
    assert (job.call, job.deadline, job.attempt) == (None, None, 1)
    fleet.enter()
    assert (fleet.take(), fleet.report_lost()) == ([], 1)


def test_a_job_waits_for_a_worker_with_its_agent_until_its_time_is_up(
    service: Service, url: str, fleet: Fleet, press: Press
) -> None:
    begin(fleet, press)
    # A worker that was given up would take the job again and again: its own row is missing.
    assert fleet.take() == []
    fleet.enter()
    with closing(Service(url)) as other:
        others = Fleet(other, fleet.tables)
        other.add("other", Press().agent())
        assert (others.take(), others.report_lost()) == ([], 0)
        other.add("studio", Press().agent(on_loss="report"))  # its tool is not to be repeated
        assert (others.take(), others.report_lost()) == ([], 0)
        assert len(fleet.jobs()) == 1
        fleet.begin_again()
        fleet.leave()
        fleet.change(deadline=0.0)
        assert others.report_lost() == 1
    assert ["is lost after 2 attempts" in text for text in fleet.read()] == [True]


@paced(look=3.0)  # it looks for lost jobs only when the run has ended
@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("on_loss", ["report", "repeat"])
@pytest.mark.parametrize("begun_by", ["this worker", "another one", "one that has ended"])
def test_a_call_that_its_run_makes_again_has_one_job(
    service: Service,
    fleet: Fleet,
    press: Press,
    monkeypatch: pytest.MonkeyPatch,
    begun_by: str,
    on_loss: str,
    asynchronous: bool,
) -> None:
    """Its run was cut short when the job was stored, and its handle was not."""
    keep, calls = module.SharedJobs.begin, list[str]()

    def cut_short(jobs: Any, id: str, *args: Any) -> str:
        outcome = keep(jobs, id, *args)
        calls.append(outcome)
        if len(calls) > 1:
            return outcome
        if begun_by != "this worker":
            fleet.enter()
            fleet.change(worker="other")
        if begun_by == "one that has ended":
            fleet.leave()
            fleet.report_lost()
        raise DatabaseLost("the commit has no answer")

    monkeypatch.setattr(module.SharedJobs, "begin", cut_short)
    start(service, press.agent(on_loss), asynchronous)
    say(service, "Render 1").result(WAIT)
    assert calls == ["begun", "begun" if begun_by == "this worker" else "known"]
    assert len([m for m in messages_of(service) if m.type == "tool"]) == 1
    if begun_by == "this worker":
        assert press.begun[0].wait(WAIT)
    elif begun_by == "another one":
        assert (press.begun[0].is_set(), len(fleet.jobs())) == (False, 1)
        fleet.leave()
    press.end(1)
    is_lost = begun_by != "this worker" and on_loss == "report"
    fleet.wait_for_the_end()
    say(service, "And?").result(WAIT)
    (text,) = [text for text in texts(service) if text not in ("Render 1", "And?")]
    assert ("is lost: the process" if is_lost else "Page 1 of attempt 1.") in text


@pytest.mark.law
def test_each_job_is_taken_once_however_many_workers_look(fleet: Fleet) -> None:
    ends = Event()

    def render(page: int) -> str:
        """Render a page."""
        ends.wait(WAIT)
        return f"Page {page}."

    tool = background(render, on_loss="repeat")
    start(fleet.service, agent_of(Studio().answer, tool, max_running=100))
    pages = range(8)
    for thread in ("t", "u", "v"):
        text = "Render " + " ".join(map(str, pages))
        fleet.service.submit("studio", thread=thread, message=text).result(WAIT)
    fleet.service.stop()
    names = [f"worker {number}" for number in range(4)]
    for name in names:
        fleet.enter(name)

    def look(name: str) -> list[LostJob]:
        jobs: list[LostJob] = []
        while any(row.attempt == 1 for row in fleet.jobs()):
            taken = fleet.take(name, 3)
            assert len(taken) <= 3
            jobs += taken
        return jobs

    with ThreadPoolExecutor(4) as executor:
        jobs = [job for taken in executor.map(look, names) for job in taken]
    assert len(jobs) == len({(job.jobs.thread, job.call["id"]) for job in jobs}) == 24
    assert {row.attempt for row in fleet.jobs()} == {2}
    assert {row.worker for row in fleet.jobs()} <= {*names}
    ends.set()


@pytest.mark.parametrize("reported", [False, True])
def test_a_call_that_cannot_be_stored_is_refused_by_name(fleet: Fleet, reported: bool) -> None:
    """Otherwise it would be noticed only when a worker has died."""
    begun = Event()

    def render(page: int, desk: Annotated[dict[str, Any], InjectedState]) -> str:
        """Render a page."""
        begun.set()
        return f"Page {page} is rendered."

    tool = background(render, on_loss="repeat")
    start(fleet.service, agent_of(Studio().answer, tool, Locks(), handle_tool_errors=reported))
    run = say(fleet.service, "Render 1")
    if reported:
        run.result(WAIT)
        (error,) = [str(m.text) for m in messages_of(fleet.service) if m.type == "tool"]
    else:
        with pytest.raises(RunFailed) as failure:
            run.result(WAIT)
        error = str(failure.value)
    for part in ("background tool", "`desk`, key", "lock", "report", 'InjectedState("key")'):
        assert part in error
    assert (begun.is_set(), fleet.jobs()) == (False, [])


def test_work_that_does_not_begin_is_reported_as_lost(
    service: Service, fleet: Fleet, press: Press, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise RuntimeError("can't start new thread")

    begin(fleet, press)
    fleet.enter()
    with monkeypatch.context() as patch:
        patch.setattr("agent_factory.middleware.background.work.in_thread", refuse)
        fleet.begin_again()
    until(lambda: not fleet.jobs())
    assert ["is lost after 2 attempts" in text for text in fleet.read()] == [True]


@pytest.mark.long
def test_async_work_of_a_worker_that_stops_is_left_to_the_next(url: str, tables: Tables) -> None:
    """Its event loop cancels the task, which is not a result."""
    begun, ends = [Event(), Event()], Event()
    calls: list[int] = []

    async def render(page: int) -> str:
        """Render a page."""
        begun[len(calls)].set()
        calls.append(page)
        await auntil(ends.is_set)
        return f"Page {page} is rendered."

    agent = agent_of(Studio().answer, background(render, on_loss="repeat"))
    with closing(Service(url)) as first:
        start(first, agent, asynchronous=True)
        say(first, "Render 1").result(WAIT)
        assert begun[0].wait(WAIT)
    with closing(Service(url)) as second:
        start(second, agent, asynchronous=True)
        assert begun[1].wait(WAIT)
        assert (len(rows(tables)), texts(second)) == (1, ["Render 1"])
        ends.set()
        until(lambda: not rows(tables) and second.threads.get("t").status == "idle")
        assert texts(second) == ["Render 1", "Page 1 is rendered."]


@paced(look=0.1)
def test_the_model_looks_at_and_cancels_a_job_that_has_begun_again(
    service: Service, fleet: Fleet, press: Press
) -> None:
    def answer(messages: list[BaseMessage]) -> AIMessage:
        text = messages[-1].text
        if text.startswith("Check"):
            id = next(m.text for m in messages if m.type == "tool").split(" as ")[1].split(".")[0]
            call: Any = {"name": "check_background", "args": {"id": id}, "id": "check"}
            return AIMessage("", tool_calls=[call])
        return Studio().answer(messages)

    start(service, agent_of(answer, background(press.render, on_loss="repeat")))
    say(service, "Render 1").result(WAIT)
    assert press.begun[0].wait(WAIT)
    fleet.change(worker="dead")
    assert press.begun[1].wait(WAIT)
    id = fleet.job().id.rpartition("/")[2]
    until(lambda: (work := under_way(id)) is not None and work.progress is not None)
    say(service, "Check").result(WAIT)
    say(service, "Cancel").result(WAIT)
    tools = [m.text for m in messages_of(service) if m.type == "tool"]
    assert tools[1].endswith("Its last progress: attempt 2")
    assert "is cancelled, and has no result" in tools[2]
    assert fleet.jobs() == []
    press.end(2)
    press.end(1)
    say(service, "Thanks").result(WAIT)
    assert texts(service) == ["Render 1", "Check", "Cancel", "Thanks"]
    assert press.ended == []
