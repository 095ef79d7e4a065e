"""Slots: a run that is submitted where a worker has a free one begins at once, in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from contextvars import Context, ContextVar
from threading import Event, Thread, current_thread, main_thread
from typing import Any

import pytest
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.memory import InMemorySaver

from agent_factory import AgentMiddleware, create_agent
from agent_factory.service import Pace, Service, ThreadBusy
from agent_factory.service.database import Database
from agent_factory.service.engines.embedded import Taker
from agent_factory.service.signals import Signals
from agent_factory.service.thread_queue import ThreadQueue, lock_thread
from agent_factory.service.worker import Worker
from agent_factory.testing import ScriptedChatModel
from service.paces import NEVER, paced
from waiting import until

WAIT = 60.0

user = ContextVar("user", default="nobody")


class Answers:
    """An agent whose answers wait until they may go on, and the order in which they began."""

    def __init__(self) -> None:
        self.go_on, self.begun = Event(), list[str]()

    def answer(self, messages: list[BaseMessage]) -> str:
        self.begun.append(messages[-1].text)
        assert self.go_on.wait(WAIT)
        return f"re: {messages[-1].text}"

    def agent(self, middleware: Sequence[Any] = ()) -> Any:
        model = ScriptedChatModel([self.answer] * 1000)
        return create_agent(model, middleware=middleware, checkpointer=InMemorySaver())


@pytest.fixture
def answers() -> Iterator[Answers]:
    made = Answers()
    yield made
    made.go_on.set()


@pytest.fixture
def pace() -> Pace:
    return Pace(look=NEVER)


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The threads whose jobs were taken from the queue.

    No worker looks without a signal from its process: what begins during a look is queued.
    """
    threads: list[str] = []
    claim = ThreadQueue.claim

    def note(*arguments: Any) -> Any:
        claims = claim(*arguments)
        threads.extend(one.lease.thread_id for one in claims.taken)
        return claims

    monkeypatch.setattr(ThreadQueue, "claim", note)
    monkeypatch.setattr(Signals, "_listen", lambda _: None)
    return threads


def start(
    service: Service,
    answers: Answers,
    asynchronous: bool = False,
    middleware: Sequence[Any] = (),
    **options: Any,
) -> Worker:
    """Start a worker, and wait until it has looked for jobs."""
    looked, take_due = Event(), Taker.take_due

    def look(taker: Taker) -> float:
        seconds = take_due(taker)
        looked.set()
        return seconds

    service.add("echo", answers.agent(middleware), asynchronous=asynchronous)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Taker, "take_due", look)
        service.start(**options)
        assert looked.wait(WAIT)
    assert service._worker is not None
    return service._worker


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_run_begins_as_it_is_submitted_and_knows_nothing_of_the_context_of_that(
    service: Service, answers: Answers, taken: list[str], asynchronous: bool
) -> None:
    """That may be the context of another run, which LangGraph would take for the graph around."""
    seen: list[str] = []

    class Look(AgentMiddleware[Any, Any]):
        def before_model(self, state: Any, runtime: Any) -> None:
            seen.append(user.get())

    start(service, answers, asynchronous, middleware=[Look()])
    context = Context()
    context.run(user.set, "ann")
    run = context.run(service.submit, "echo", thread="t", message="Hi")
    assert run.status == "running"
    answers.go_on.set()
    assert run.result(WAIT)["messages"][-1].text == "re: Hi"
    # The slot of its last run may still be held.
    assert service.submit("echo", thread="t", message="Ho").result(WAIT)
    assert (seen, taken) == (["nobody"] * 2, [])


def test_a_run_without_a_slot_waits(service: Service, answers: Answers, taken: list[str]) -> None:
    start(service, answers, slots=1)
    runs = [service.submit("echo", thread="a", message="first")]
    until(lambda: answers.begun == ["first"])
    runs.append(service.submit("echo", thread="b", message="later"))
    runs.append(service.submit("echo", thread="c", message="urgent", priority=1))
    assert [run.status for run in runs] == ["running", "queued", "queued"]
    answers.go_on.set()
    for run in runs:
        run.result(WAIT)
    assert answers.begun == ["first", "urgent", "later"]
    assert taken == ["c", "b"]


@pytest.mark.parametrize("why", ["delay", "limit", "drained", "stopped"])
def test_a_run_that_has_to_wait_is_queued(
    service: Service, answers: Answers, taken: list[str], why: str
) -> None:
    worker = start(service, answers)
    options: dict[str, Any] = {"delay": 600.0} if why == "delay" else {}
    if why == "limit":
        service.limit("", concurrency=0, per_minute=0)
    if why == "drained":
        service.drain()
        worker.give_sign()
    if why == "stopped":
        service.stop()
    run = service.submit("echo", message="Hi", **options)
    assert (run.status, taken) == ("queued", [])


def test_a_slot_is_free_again_if_nothing_was_submitted(
    service: Service, answers: Answers, taken: list[str]
) -> None:
    start(service, answers, slots=2)
    run = service.submit("echo", thread="t", message="Hi")
    for _ in range(3):
        with pytest.raises(ThreadBusy, match=r"is running\. Submit the message later"):
            service.submit("echo", thread="t", message="Ho", busy="reject")
    other = service.submit("echo", message="Ha")
    assert (run.status, other.status, taken) == ("running", "running", [])


def test_a_run_whose_commit_had_no_answer_is_taken_again(
    service: Service, answers: Answers, taken: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    start(service, answers)
    answers.go_on.set()
    begin, losses = Database.begin, [True]

    @contextmanager
    def lose(database: Database) -> Iterator[Any]:
        with begin(database) as connection:
            yield connection
        if losses and current_thread() is main_thread():
            losses.pop()
            raise ConnectionError("no answer")

    monkeypatch.setattr(Database, "begin", lose)
    with pytest.raises(ConnectionError):
        service.submit("echo", thread="t", message="Hi", message_id="m")
    # A client that got no answer sends it again.
    run = service.submit("echo", thread="t", message="Hi", message_id="m")
    assert run.result(WAIT)["messages"][-1].text == "re: Hi"
    assert (answers.begun, taken) == (["Hi"], ["t"])


@pytest.mark.parametrize("url", ["postgres"], indirect=True)
@pytest.mark.usefixtures("taken")
def test_a_job_is_taken_soon_whose_thread_a_client_had_locked(
    service: Service, url: str, pace: Pace, database: Database, answers: Answers
) -> None:
    """As a client does that sends a message again: no signal says that its lock has ended."""
    answers.go_on.set()
    service.add("echo", answers.agent())
    run = service.submit("echo", thread="t", message="Hi")
    with closing(Service(url, pace=pace)) as worker:
        with database.begin() as connection:
            lock_thread(connection, "t")
            start(worker, answers)
        assert run.result(WAIT)["messages"][-1].text == "re: Hi"


@paced(look=0.05)
@pytest.mark.parametrize("way", ["submitted", "taken"])
def test_a_run_that_gets_no_thread_is_taken_again(
    service: Service,
    answers: Answers,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    way: str,
) -> None:
    """As at the limit of threads."""
    answers.go_on.set()
    begin, losses = Thread.start, [True]

    def fail(thread: Thread) -> None:
        if losses and "/" in thread.name:  # that of a job
            losses.pop()
            raise RuntimeError("can't start new thread")
        begin(thread)

    if way == "submitted":
        start(service, answers)
    monkeypatch.setattr(Thread, "start", fail)
    if way == "taken":
        service.add("echo", answers.agent())
    # Taken together: what is behind the job without a thread begins, too.
    submitted = [service.submit("echo", message="Hi") for _ in range(3)]
    if way == "taken":
        service.start()
    assert {run.result(WAIT)["messages"][-1].text for run in submitted} == {"re: Hi"}
    assert (answers.begun, losses) == (["Hi"] * 3, [])
    assert "can't start new thread" in caplog.text
