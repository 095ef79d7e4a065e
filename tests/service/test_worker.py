"""Workers: what they take, when they are dead, and what one run cannot do to the others."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import closing, nullcontext, suppress
from functools import partial
from typing import Annotated, Any, TypedDict, get_type_hints

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.graph import START, MessagesState, StateGraph
from sqlalchemy import event, insert, select, update
from stack_agents import kept_agent

from agent_factory import AgentMiddleware, AgentState, client_tool, create_agent
from agent_factory.errors import ArgumentError
from agent_factory.middleware import HumanInTheLoopMiddleware
from agent_factory.service import RunFailed, Service
from agent_factory.service.attempt import RunAttempt
from agent_factory.service.backend import Backend
from agent_factory.service.database import Database, driver_connection
from agent_factory.service.engines.embedded import Taker
from agent_factory.service.engines.engine import Outcome
from agent_factory.service.errors import DatabaseUnavailable, LeaseLost
from agent_factory.service.inbox import Inbox
from agent_factory.service.runner import Runner
from agent_factory.service.scheduled_messages import ScheduledMessages
from agent_factory.service.signals import Signals
from agent_factory.service.tables import limits, threads, workers
from agent_factory.service.thread_queue import ThreadQueue
from agent_factory.service.worker import Worker
from agent_factory.testing import ScriptedChatModel
from samples import AsyncHook, call_of, pay
from service.desk import status_of
from service.paces import NEVER, QUICK, paced
from service.stored import Tables, backend_of
from waiting import auntil, until

WAIT = 60.0
over_engines = pytest.mark.usefixtures("engine")


def echo() -> Any:
    return create_agent(ScriptedChatModel([lambda messages: f"re: {messages[-1].text}"] * 1000))


def calling(name: str, **args: Any) -> ScriptedChatModel:
    """A model that calls a tool once for each message of the user."""
    call = {"name": name, "args": args, "id": "c1"}
    answers = [lambda m: AIMessage("", tool_calls=[call]) if m[-1].type == "human" else "Done."]
    return ScriptedChatModel(answers * 1000)


class Gate:
    """A tool that waits until it is opened."""

    def __init__(self) -> None:
        self.begun, self.opened = threading.Event(), threading.Event()

    def agent(self, result: str = "waited") -> Any:
        def wait() -> str:
            """Wait."""
            self.begun.set()
            self.opened.wait(WAIT)
            return result

        return create_agent(calling("wait"), [wait])


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.opened.set()


# A thread that comes back to the same worker


@pytest.mark.parametrize("how", ["given back", "cancelled"])
def test_an_earlier_attempt_does_not_end_what_the_same_worker_runs_now(
    service: Service, backend: Backend, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The earlier one fails before it writes to the thread, as where a database was away."""
    queue, runner = backend.queue, Runner(backend, lambda: "w")
    service.add("echo", echo())
    first = service.submit("echo", thread="t", message="Hi")
    ((earlier,), *_) = queue.claim("w", ["echo"], 1)
    if how == "given back":
        queue.give_back("w")
    else:
        first.cancel()
        service.submit("echo", thread="t", message="Again")
    ((later,), *_) = queue.claim("w", ["echo"], 1)
    with pytest.raises(LeaseLost):
        queue.claim_again(earlier)
    agent = backend.agents.pop("echo")
    runner.run(earlier)
    assert "'echo'" in caplog.text
    assert first.status == ("running" if how == "given back" else "cancelled")
    backend.agents["echo"] = agent
    runner.run(later)
    assert [run.status for run in service.threads.runs("t")].count("done") == 1
    assert status_of(service, "t") == "idle"


def test_an_attempt_goes_on_under_a_lease_whose_commit_had_no_answer(
    service: Service, backend: Backend
) -> None:
    queue = backend.queue
    service.add("echo", echo())
    service.submit("echo", thread="t", message="Hi")
    ((claim,), *_) = queue.claim("w", ["echo"], 1)
    # Twice with the same claim: what the first has written was not seen.
    again = [queue.claim_again(claim) for _ in range(2)]
    assert [item.lease.epoch for item in again] == [claim.lease.epoch + 1] * 2
    Runner(backend, lambda: "w").run(claim)
    assert status_of(service, "t") == "running"  # its lease is lost
    Runner(backend, lambda: "w").run(again[1])
    assert status_of(service, "t") == "idle"


def test_nobody_sees_a_question_before_the_thread_waits_for_the_answer(
    service: Service, backend: Backend, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who answers at once would be refused."""
    call: Any = {"name": "pay", "args": {"euros": 5}, "id": "1"}
    review = HumanInTheLoopMiddleware({"pay": True})
    agent = kept_agent([[call]], review, tools=[pay])
    modes = {"updates", "values", "tasks", "debug"}
    service.add("desk", agent, stream=modes)
    run = service.submit("desk", thread="t", message="Pay.")
    ((claim,), *_) = backend.queue.claim("w", ["desk"], 1)

    def parts() -> list[Any]:
        backend.log.flush()
        parts: list[Any] = []
        with suppress(TimeoutError):
            for part in run.stream(timeout=0):
                parts.append(part)
        return parts

    seen: list[Any] = []

    def look(attempt: Any) -> Any:
        seen.extend(parts())
        return pending(attempt)

    pending = RunAttempt.read
    monkeypatch.setattr(RunAttempt, "read", look)
    Runner(backend, lambda: "w").run(claim)
    assert {part["type"] for part in seen} == modes
    assert "Interrupt(" not in repr(seen)
    new = parts()[len(seen) :]
    assert [part["type"] for part in new if "Interrupt(" in repr(part)] == ["updates", "values"]
    assert new[-1]["data"]["status"] == "waiting"
    assert tables.value(select(threads.c.owner)) is None  # no worker has it any more


# Signs of life


@paced(QUICK)
def test_a_worker_gives_signs_of_life_while_it_looks_after_the_service(
    service: Service, tables: Tables, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand deadlines take minutes."""

    def expire(*_: Any, **__: Any) -> int:
        gate.begun.set()
        gate.opened.wait(WAIT)
        return 0

    monkeypatch.setattr(Inbox, "expire", expire)
    service.start()
    assert gate.begun.wait(WAIT)
    before = tables.value(select(workers.c.beat))
    until(lambda: tables.value(select(workers.c.beat)) > before)
    gate.opened.set()


@paced(beat=0.05, look=0.05, dead_after=0.3)
@pytest.mark.parametrize("hours", [1, -1])
def test_a_dead_worker_is_taken_for_dead_whatever_the_clock_says(
    service: Service, backend: Backend, tables: Tables, hours: int
) -> None:
    """Its last sign of life lies an hour ahead, as after a clock was set back."""
    service.add("echo", echo())
    run = service.submit("echo", thread="t", message="Hi")
    dead = {"id": "dead", "beat": tables.now + 3600 * hours, "draining": False, "detail": "{}"}
    tables.write(insert(workers).values(dead))
    assert backend.queue.claim("dead", ["echo"], 1)[0]
    service.start()
    assert run.result(WAIT)["messages"][-1].text == "re: Hi"


def test_a_living_worker_stays_alive_when_the_clock_jumps_ahead(
    service: Service, backend: Backend, tables: Tables
) -> None:
    service.add("echo", echo())
    looking, living = (Worker(backend, lambda: None, slots=1) for _ in range(2))
    looking.enter()
    living.enter()

    jump = update(workers).values(beat=workers.c.beat - 3600)
    tables.write(jump)
    assert looking.dead_workers() == []
    living.give_sign()
    tables.write(jump)
    assert looking.dead_workers() == []
    assert looking.dead_workers() == [living.id]  # no sign since the look before


@pytest.mark.long
@pytest.mark.parametrize("row", ["thread", "worker"])
def test_a_process_that_was_stopped_in_a_transaction_keeps_no_others_from_a_takeover(
    postgres_url: str, row: str
) -> None:
    """It holds the lock of a row until it goes on, or its connection ends."""
    locked = threads.c.thread_id == "locked" if row == "thread" else workers.c.id == "stopped"
    with closing(Service(postgres_url)) as service, closing(Database(postgres_url)) as other:
        service.add("echo", echo())
        for thread in ("locked", "free"):
            service.submit("echo", thread=thread, message="Hi")
        gone = {"id": "stopped", "beat": other.now - 60, "draining": False, "detail": "{}"}
        Tables(other).write(insert(workers).values(gone))
        assert len(backend_of(service).queue.claim("stopped", ["echo"], 2)[0]) == 2
        looking = Worker(backend_of(service), lambda: None, slots=1)
        looking.enter()
        looking.look_after()  # only the next look can tell that nothing has changed
        with other.begin() as stopped:
            stopped.execute(select(1).where(locked).with_for_update())
            looking.look_after()
            assert status_of(service, "free") == "queued"
        looking.look_after()
        assert [status_of(service, name) for name in ("locked", "free")] == ["queued"] * 2


def test_a_process_that_was_stopped_in_a_pipeline_keeps_no_lock(postgres_url: str) -> None:
    """LangGraph's saver writes in one. Postgres takes such a session for busy."""
    with closing(Service(postgres_url)) as service, closing(Database(postgres_url)) as other:
        service.add("echo", echo())
        service.submit("echo", thread="locked", message="Hi")
        detail = json.dumps({"session": other.session, "tables": 1, "agents": ["echo"]})
        gone = {"id": "stopped", "beat": other.now - 60, "draining": False, "detail": detail}
        Tables(other).write(insert(workers).values(gone))
        assert backend_of(service).queue.claim("stopped", ["echo"], 1).taken
        looking = Worker(backend_of(service), lambda: None, slots=1)
        looking.enter()
        with suppress(DatabaseUnavailable), other.begin() as stopped:
            driver = driver_connection(stopped)
            with driver.pipeline():
                driver.execute(f"select 1 from {threads.name} for share").fetchone()
                until(partial(is_queued, service, looking))


def is_queued(service: Service, looking: Worker) -> bool:
    looking.look_after()
    return status_of(service, "locked") == "queued"


@pytest.mark.long
def test_a_locked_thread_keeps_no_other_deadline_from_passing(postgres_url: str) -> None:
    """A process that was stopped in a transaction holds it. The next look decides about it."""
    call = {"name": "ask", "args": {}, "id": "c1"}
    model, tool = ScriptedChatModel([[call]] * 2), client_tool("ask", "Ask.")
    agent = create_agent(model, [tool], checkpointer=InMemorySaver())
    with closing(Service(postgres_url)) as service, closing(Database(postgres_url)) as other:
        service.add("hasty", agent, review_within=0.001)
        for thread in ("locked", "free"):
            service.submit("hasty", thread=thread, message="Hi")
        worker = Worker(backend_of(service), lambda: None, slots=2)
        worker.enter()
        Taker(worker, 2).take_due()
        until(lambda: len(service.threads.search(status="waiting")) == 2)
        with other.begin() as stopped:
            locked = threads.c.thread_id == "locked"
            stopped.execute(select(1).where(locked).with_for_update())
            worker.look_after()
            names = ("locked", "free")
            assert [status_of(service, name) for name in names] == ["waiting", "queued"]
        worker.look_after()
        assert [status_of(service, name) for name in ("locked", "free")] == ["queued"] * 2


def test_an_idle_worker_writes_only_its_signs_of_life(service: Service, backend: Backend) -> None:
    service.add("echo", echo())
    commits: list[int] = []
    worker = Worker(backend, lambda: None, slots=1)
    worker.enter()
    event.listen(backend.database.engine, "commit", lambda _: commits.append(1))
    worker.look_after()
    Taker(worker, 1).take_due()
    ScheduledMessages(backend, service.webhooks, service.submit).submit_due()
    assert commits == []
    worker.give_sign()
    assert commits == [1]


# Jobs


@paced(look=NEVER)
@pytest.mark.parametrize("are_queued", [False, True])
def test_a_job_that_begins_later_begins_in_time_while_others_come(
    service: Service, backend: Backend, are_queued: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a look by the clock nor news of another process finds it."""
    monkeypatch.setattr(Signals, "_listen", lambda _: None)
    service.add("echo", echo())
    service.start()
    if are_queued:  # as from a process without a worker
        monkeypatch.setattr(backend, "slot", nullcontext)
    later = service.submit("echo", message="Later", delay=1.0)
    for _ in range(3):
        service.submit("echo", message="Now").result(WAIT)
    assert later.result(WAIT)["messages"][-1].text == "re: Later"


@paced(look=NEVER, beat=NEVER, dead_after=5 * NEVER, gather_first=NEVER)
def test_a_message_takes_few_commits(
    service: Service, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To submit it, which takes it, and for its end with its checkpoints and all its events."""
    monkeypatch.setattr(Signals, "_listen", lambda _: None)  # news of others begin a look for jobs
    commits: list[object] = []
    service.add("echo", echo())
    service.start()
    service.submit("echo", message="Hi").result(WAIT)
    event.listen(backend.database.engine, "commit", commits.append)
    service.submit("echo", message="Hi").result(WAIT)
    assert len(commits) <= 2


@paced(gather_first=NEVER)
@pytest.mark.parametrize(("follows", "has_input"), [(False, False), (False, True), (True, False)])
def test_a_run_that_is_cancelled_before_its_first_checkpoint_keeps_its_message(
    service: Service, backend: Backend, gate: Gate, follows: bool, has_input: bool
) -> None:
    """For a while only the job has it, since a checkpoint of an input costs no commit."""

    def wait(*_: object) -> str:
        gate.begun.set()
        gate.opened.wait(WAIT)
        return "Hello."

    def between(_: str, new: str) -> str:
        """A reducer, which is called between the checkpoint of the input and the next."""
        return wait() if has_input and not gate.begun.is_set() else new

    fields = {**get_type_hints(AgentState, include_extras=True), "note": Annotated[str, between]}
    state = TypedDict("state", fields)  # type: ignore[misc]  # with a local reducer
    options: Any = {"state_schema": state}
    service.add("slow", create_agent(ScriptedChatModel([wait] * 3), [], **options))
    service.start()
    asked = {"messages": [HumanMessage("One")], "note": "a"}
    run = service.submit("slow", thread="t", message=asked)
    assert gate.begun.wait(WAIT)
    if has_input:
        backend.log.flush()
    more = [service.submit("slow", thread="t", message="Two")] if follows else []
    run.cancel()
    gate.opened.set()
    if not follows:
        kept = service.threads.state("t").values["messages"]
        assert [message.text for message in kept] == ["One"]
        more = [service.submit("slow", thread="t", message="Two")]
    messages = more[0].result(WAIT)["messages"]
    assert [message.text for message in messages] == ["One", "Two", "Hello."]
    assert run.status == "cancelled"


def test_a_run_that_is_cancelled_in_the_queue_keeps_messages_of_earlier_runs(
    service: Service,
) -> None:
    service.add("echo", create_agent(ScriptedChatModel(["Hello."])))
    service.submit("echo", thread="t", message="One")
    service.submit("echo", thread="t", message="Two", busy="interrupt").cancel()
    run = service.submit("echo", thread="t", message="Three")
    service.start()
    messages = run.result(WAIT)["messages"]
    assert [message.text for message in messages] == ["One", "Three", "Hello."]


def test_a_review_that_is_cancelled_has_read_the_inputs_of_earlier_runs(service: Service) -> None:
    state = TypedDict("state", {**get_type_hints(AgentState, include_extras=True), "note": str})  # type: ignore[misc]
    model, review = ScriptedChatModel([[call_of("pay", euros=5)], "Hello."]), {"pay": True}
    layers: Any = [HumanInTheLoopMiddleware(review)]
    options: Any = {"state_schema": state, "middleware": layers, "checkpointer": InMemorySaver()}
    service.add("desk", create_agent(model, [pay], **options), waiting="queue")
    for note in ("first", "second"):
        asked = {"messages": [HumanMessage(note)], "note": note}
        run = service.submit("desk", thread="t", message=asked, busy="interrupt")
    service.start()
    until(lambda: run.status == "waiting")
    later = service.submit("desk", thread="t", message="Three")
    run.cancel()
    assert later.result(WAIT)["note"] == "second"


@paced(QUICK)
def test_a_claim_without_answer_is_kept(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """The transaction has committed, and the connection broke before the process knew."""
    service.add("echo", echo())
    claim, losses = ThreadQueue.claim, [True]

    def lose(*arguments: Any) -> Any:
        claims = claim(*arguments)
        if claims and losses:
            losses.pop()
            raise ConnectionError("no answer")
        return claims

    monkeypatch.setattr(ThreadQueue, "claim", lose)
    run = service.submit("echo", thread="t", message="Hi")
    service.start()
    assert run.result(WAIT)["messages"][-1].text == "re: Hi"
    assert losses == []


@paced(QUICK)
@pytest.mark.parametrize(
    ("kind", "method"), [(Worker, "give_sign"), (Taker, "take_due"), (Worker, "look_after")]
)
def test_an_error_ends_no_thread_of_a_worker(
    service: Service,
    kind: type[Any],
    method: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    original, errors = getattr(kind, method), [ValueError("odd")]

    def fails_once(part: object) -> Any:
        if errors:
            raise errors.pop()
        return original(part)

    monkeypatch.setattr(kind, method, fails_once)
    service.add("echo", echo())
    service.start()
    until(lambda: not errors)
    assert service.submit("echo", message="Hi").result(WAIT)
    assert service.ended_threads == []
    assert "ValueError: odd" in caplog.text


def test_limits_keep_nobody_else_waiting(service: Service, backend: Backend) -> None:
    service.add("echo", echo())
    service.limit("acme", concurrency=2)
    service.limit("beta", per_minute=1)
    for tenant, number in (("acme", 5), ("beta", 3), ("", 3)):
        for at in range(number):
            place: dict[str, Any] = {"thread": f"{tenant}-{at}", "tenant": tenant}
            service.submit("echo", message="Hi", priority=9 if tenant else 0, **place)
    queue = backend.queue

    def take(most: int) -> list[str]:
        claims, *_ = queue.claim("w", ["echo"], most)
        return sorted(claim.lease.thread_id for claim in claims)

    assert take(1) == ["acme-0"]
    assert take(10) == ["-0", "-1", "-2", "acme-1", "beta-0"]
    assert take(10) == []
    with backend.database.begin() as connection:
        thread = service.threads.get("acme-0")
        queue.settle(connection, thread.id, str(thread.run), "done")
    assert take(10) == ["acme-2"]


@over_engines
def test_an_error_whose_text_cannot_be_stored_ends_its_run(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    # A report of the test with the text of the log could not be sent to another process.
    caplog.set_level(logging.CRITICAL, "agent_factory.service")

    def fail(messages: list[Any]) -> str:
        raise ValueError("half \ud83d and nothing \0 of it")

    service.add("fails", create_agent(ScriptedChatModel([fail])))
    service.start()
    with pytest.raises(RunFailed, match="half \ufffd and nothing \ufffd of it"):
        service.submit("fails", thread="t", message="Hi").result(WAIT)
    assert status_of(service, "t") == "failed"


# Events


@pytest.mark.parametrize("value", [2**70, threading.Lock()], ids=["integer", "lock"])
@over_engines
def test_an_event_that_cannot_be_stored_is_the_error_of_its_run(
    service: Service, value: object
) -> None:
    def write() -> str:
        """Write."""
        get_stream_writer()(value)
        return "written"

    service.add("writer", create_agent(calling("write"), [write]))
    service.add("echo", echo())
    service.start()
    good = service.submit("echo", message="Hi")
    with pytest.raises(RunFailed, match="an event of the mode 'custom': cannot be stored"):
        service.submit("writer", message="Hi").result(WAIT)
    for run in (good, service.submit("echo", message="Hi")):
        assert "messages" in [part["type"] for part in run.stream(timeout=WAIT)]


def test_events_are_written_after_an_error(
    backend: Backend, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log, errors = backend.log, [ValueError("odd")]
    write = log._write

    def fails_once(*arguments: Any) -> None:
        if errors:
            raise errors.pop()
        write(*arguments)

    monkeypatch.setattr(log, "_write", fails_once)
    with caplog.at_level(logging.ERROR):
        log.add("t/1", {"type": "custom"})
        until(lambda: not errors)
    log.add("t/1", {"type": "values"})
    rows = log.read("t/1", 0, lambda: False)
    while not isinstance(row := next(rows), tuple):
        log.signals.wait(row, WAIT)
    assert row[1] == [{"type": "values"}]
    assert log.is_alive


# A full disk


@pytest.mark.long
def test_a_full_disk_leaves_no_thread_behind(sqlite_service: Service, gate: Gate) -> None:
    service, blob = sqlite_service, "x" * 100_000  # no page that there is has room for it
    service.add("gate", gate.agent(blob))
    service.start()
    run = service.submit("gate", thread="t", message="Hi")
    assert gate.begun.wait(WAIT)
    is_full, refusals = [True], list[object]()

    def limit(connection: Any, *_: Any) -> None:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages if is_full else 1 << 30}")

    def note(context: Any) -> None:
        refusals.append(context.original_exception)

    event.listen(backend_of(service).database.engine, "checkout", limit)
    event.listen(backend_of(service).database.engine, "handle_error", note)
    gate.opened.set()
    until(lambda: "full" in str(refusals))
    assert run.status == "running"
    is_full.clear()
    assert run.result(WAIT)["messages"][-1].text == "Done."
    follow = service.submit("gate", thread="t", message=blob)
    assert follow.result(WAIT)
    assert status_of(service, "t") == "idle"


# Async agents


@pytest.mark.long
@over_engines
def test_runs_of_an_async_agent_take_no_thread_each(service: Service) -> None:
    go, waiting, before = threading.Event(), list[int](), {*threading.enumerate()}

    async def wait() -> str:
        """Wait."""
        waiting.append(1)
        await auntil(go.is_set)
        return "waited"

    tool = StructuredTool.from_function(coroutine=wait)
    service.add("patient", create_agent(calling("wait"), [tool]), asynchronous=True)
    service.start(slots=150)
    runs = [service.submit("patient", message="Hi") for _ in range(150)]
    until(lambda: len(waiting) == 150)
    assert len({*threading.enumerate()} - before) < 40
    go.set()
    assert {run.result(WAIT)["messages"][-1].text for run in runs} == {"Done."}


@paced(stop=0.2)
def test_a_run_that_blocks_the_event_loop_does_not_keep_a_worker_from_its_end(
    service: Service,
) -> None:
    begun, may_end = threading.Event(), threading.Event()

    async def block() -> str:
        """Block."""
        begun.set()
        may_end.wait(WAIT)
        return "blocked"

    tool = StructuredTool.from_function(coroutine=block)
    service.add("blocks", create_agent(calling("block"), [tool]))
    service.start()
    service.submit("blocks", thread="t", message="Hi")
    assert begun.wait(WAIT)
    worker = service._worker
    assert worker is not None
    assert not service.stop(seconds=0)
    assert status_of(service, "t") == "queued"
    may_end.set()
    worker._loop_thread.join(WAIT)
    assert worker._loop.is_closed()


async def look(city: str) -> str:
    """Look the weather up."""
    return f"sunny in {city}"


class OnlySync(AgentMiddleware[Any, Any]):
    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        return handler(request)


ONLY_ASYNC: dict[str, dict[str, Any]] = {
    "tool": {"tools": [StructuredTool.from_function(coroutine=look)]},
    "middleware": {"tools": [look], "middleware": [AsyncHook()]},
}


@pytest.mark.parametrize("part", ONLY_ASYNC)
@over_engines
def test_an_agent_that_can_only_run_async_does(service: Service, part: str) -> None:
    agent = create_agent(calling("look", city="Rome"), **ONLY_ASYNC[part])
    with pytest.raises(ArgumentError, match="is False, and this agent can only run async"):
        service.add("asks", agent, asynchronous=False)
    service.add("asks", agent)
    service.start()
    messages = service.submit("asks", message="Hi").result(WAIT)["messages"]
    assert [message.text for message in messages] == ["Hi", "", "sunny in Rome", "Done."]
    neither = create_agent(calling("look"), ONLY_ASYNC["tool"]["tools"], middleware=[OnlySync()])
    with pytest.raises(ArgumentError, match="OnlySync is sync only and look async only"):
        service.add("neither", neither)


@over_engines
def test_an_agent_inside_counts(service: Service) -> None:
    graph = StateGraph(MessagesState)
    graph.add_node("asks", create_agent(calling("look", city="Rome"), **ONLY_ASYNC["tool"]))
    graph.add_edge(START, "asks")
    service.add("outer", graph.compile())
    service.start()
    assert service.submit("outer", message="Hi").result(WAIT)["messages"][-1].text == "Done."


def test_a_message_begins_at_once_whatever_the_clock_of_its_submission_said(
    sqlite_service: Service,
) -> None:
    """The clock was an hour ahead, and was set back."""
    ahead, backend = [3600.0], backend_of(sqlite_service)

    def julian_day(_: str) -> float:
        return 2440587.5 + (time.time() + ahead[0]) / 86400

    def fake(connection: Any, _: object) -> None:
        connection.create_function("julianday", 1, julian_day)

    event.listen(backend.database.engine, "connect", fake)
    sqlite_service.add("echo", echo())
    sqlite_service.submit("echo", thread="earlier", message="Hi")
    ahead[0] = 0.0
    sqlite_service.submit("echo", thread="later", message="Hi")
    assert backend.queue.look(["echo"])[0]
    taken = [backend.queue.claim("w", ["echo"], 1).taken for _ in range(2)]
    assert [claim.lease.thread_id for (claim,) in taken] == ["earlier", "later"]


def test_a_process_that_was_stopped_while_it_counts_a_limit_holds_up_nobody_else(
    postgres_url: str,
) -> None:
    with closing(Service(postgres_url)) as service, closing(Database(postgres_url)) as other:
        service.add("echo", echo())
        service.limit("acme", concurrency=5)
        limited = service.submit("echo", message="Hi", tenant="acme")
        service.submit("echo", message="Hi", tenant="b")
        queue = backend_of(service).queue
        with other.begin() as stopped:
            stopped.execute(select(limits).with_for_update())
            claims = queue.claim("w", ["echo"], 5)
            assert [claim.run.tenant for claim in claims.taken] == ["b"]
            assert claims.is_contended
            assert queue.take(str(limited.info.job), "w", 4.0) == Outcome("later", 1.0)
        assert [claim.run.tenant for claim in queue.claim("w", ["echo"], 5).taken] == ["acme"]
