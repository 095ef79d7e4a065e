"""Processes are killed, stopped and restarted: nothing is lost, doubled or out of order."""

from __future__ import annotations

import os
import random
import signal
import subprocess
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage, ToolMessage
from sqlalchemy import select

from agent_factory.middleware import SteeringMiddleware
from agent_factory.service import Run, Service
from agent_factory.service.background import MOST_ATTEMPTS
from agent_factory.service.tables import background_jobs
from agent_factory.testing import assert_valid_history
from processes import exit_code
from service.databases import new_postgres, new_server
from service.desk import Journal, check_history, make_desk, take
from service.stored import Tables
from service.studio_process import make_studio
from service.worker_process import WorkerProcess
from waiting import until

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

KILLS = 500 if os.environ.get("HYPOTHESIS_PROFILE") == "prove" else 5
"""How many workers are killed, and how many are frozen, on each database and engine."""

STUDIO = ("service.studio_process",)
Start = Callable[..., WorkerProcess]


@pytest.fixture
def desk(url: str, engine: str, journal: Journal) -> Iterator[Service]:
    """A service that only submits and reads."""
    with closing(Service(url, engine=engine)) as service:
        service.add("desk", make_desk(journal, middleware=[SteeringMiddleware()]))
        yield service


@pytest.fixture
def start_desk(start_worker: Start, url: str, engine: str) -> Start:
    """Start workers of the desk."""
    return partial(start_worker, url, engine=engine)


@pytest.fixture
def studio(service: Service, journal: Journal) -> Service:
    service.add("studio", make_studio(journal), busy="steer")
    return service


def submit(service: Service, threads: int, messages: int) -> list[Run]:
    """Messages on some threads, in turn."""
    return [
        service.submit(
            "desk", thread=f"t-{at % threads}", message="Pay.", message_id=f"m-{at // threads:03}"
        )
        for at in range(messages)
    ]


def finish(runs: Sequence[Run]) -> None:
    """Wait until all runs have ended."""
    for run in runs:
        run.result(timeout=900)


def histories(service: Service, lengths: Mapping[str, int]) -> list[list[Any]]:
    """The messages of threads, of which each has so many of the user."""
    states = {thread: service.threads.state(thread).values["messages"] for thread in lengths}
    for thread, messages in states.items():
        check_history(messages, [f"m-{at:03}" for at in range(lengths[thread])])
    return [*states.values()]


def doubled(journal: Journal) -> int:
    """How many effects happened again."""
    return sum(times - 1 for times in journal.times("pay").values())


def kill_at_random(
    start: Callable[..., WorkerProcess],
    number: int,
    act: Callable[[random.Random], None],
    *,
    freezes: bool = False,
) -> Iterator[WorkerProcess]:
    """Kill one of several workers after another, once something was done; start others.

    Yields each before it is killed. With `freezes`, as many workers are frozen as well: most wake
    when others have their work, and all are killed.
    """
    chance = random.Random(KILLS)
    workers = [start(ready=False) for _ in range(number)]
    frozen: deque[WorkerProcess] = deque()

    def wake(left: int) -> None:
        while len(frozen) > left:
            worker = frozen.popleft()
            worker.send(signal.SIGCONT)
            take(chance.uniform(0.0, 0.2))  # it writes, or tries to
            worker.kill()

    for _ in range(KILLS):
        for is_frozen in (True, False)[not freezes :]:
            position = chance.randrange(number)
            (worker := workers[position]).wait_until_ready()
            act(chance)
            yield worker
            if is_frozen:
                worker.freeze()
                frozen.append(worker)
                wake(left=4)
            else:
                worker.kill()
            workers[position] = start(ready=False)
    wake(left=0)


@pytest.mark.law  # `make prove` kills more
@pytest.mark.timeout(300 if KILLS < 100 else 7200)  # starting workers takes most of it
def test_workers_are_killed_and_frozen_at_random(
    desk: Service, journal: Journal, start_desk: Start
) -> None:
    """Nothing is lost or out of order, no effect is doubled, and what is unknown is named."""
    threads, each = 16, max(KILLS // 2, 3)
    runs = submit(desk, threads, threads * each)
    start = partial(start_desk, seconds=0.03, middleware="once")
    for _ in kill_at_random(start, 3, lambda chance: take(chance.uniform(0.0, 0.6)), freezes=True):
        pass
    finish(runs)
    paid, unknown = journal.times("pay"), 0
    for messages in histories(desk, dict.fromkeys({run.thread_id for run in runs}, each)):
        for message in messages:
            if isinstance(message, ToolMessage):
                known = "its outcome is unknown" not in message.text
                unknown += not known
                assert paid[message.tool_call_id] in ((1,) if known else (0, 1))
    assert max(paid.values()) == 1
    # A kill or freeze leaves at most one call in each slot whose outcome nobody knows.
    assert unknown <= 2 * KILLS * 8


@pytest.mark.law
@pytest.mark.timeout(300 if KILLS < 100 else 7200)
def test_workers_are_killed_while_steered(desk: Service, start_desk: Start) -> None:
    """Each message is read once and in order, by a run under way or by the next one."""
    sent: dict[str, list[Run]] = {f"t-{at}": [] for at in range(4)}

    def steer(chance: random.Random) -> None:
        for _ in range(12):
            thread = chance.choice([*sent])
            options: Any = {"message_id": f"m-{len(sent[thread]):03}", "busy": "steer"}
            sent[thread].append(desk.submit("desk", thread=thread, message="Pay.", **options))
            take(chance.uniform(0.0, 0.1))

    start = partial(start_desk, seconds=0.03, middleware="steering", calls=4)
    for _ in kill_at_random(start, 2, steer):
        pass
    runs = [run for of_thread in sent.values() for run in of_thread]
    finish(runs)
    readers = [run.info.reader for run in runs]
    assert any(readers)
    assert None in readers
    histories(desk, {thread: len(of_thread) for thread, of_thread in sent.items()})


@pytest.mark.law
@pytest.mark.timeout(300 if KILLS < 100 else 7200)
def test_workers_are_killed_while_they_work_in_the_background(
    studio: Service, journal: Journal, url: str, start_worker: Start, tables: Tables
) -> None:
    """There is one job for each call, and one message for each job.

    That is its result, or that it is lost; a job that may be begun again has its result.
    """
    verbs: dict[str, str] = {}  # by their pages

    def ask(verb: str, thread: int) -> None:
        page = f"p-{len(verbs):05}"
        studio.submit("studio", thread=f"t-{thread}", message=f"{verb} {page}")
        verbs[page] = verb

    def ask_often(chance: random.Random) -> None:
        for _ in range(8):
            thread, verb = chance.randrange(4), chance.choice(["Render", "Print"])
            ask(verb, thread)
            take(chance.uniform(0.0, 0.1))

    def jobs() -> list[Any]:
        return tables.rows(select(background_jobs))

    # At least one job is lost, and at least one begins again.
    ask("Render", 0)
    ask("Print", 1)
    with start_worker(url, module=STUDIO, seconds=60) as first:
        until(lambda: len(jobs()) == 2 and journal.has("begun", 1))
        first.kill()
    start = partial(start_worker, url, module=STUDIO, seconds=0.3)
    for number, worker in enumerate(kill_at_random(start, 2, ask_often)):
        if number % 5 == 4:
            worker.send(signal.SIGTERM)
            exit_code(worker.process)

    def is_idle() -> bool:
        return not studio.threads.count(status=("queued", "running"))

    # Twice: what a job sends makes its thread busy once more.
    until(lambda: is_idle() and not jobs() and is_idle())
    states = [studio.threads.state(f"t-{at}").values["messages"] for at in range(4)]
    rendered, endings = journal.times("rendered"), Counter[tuple[str, str]]()
    for messages in states:
        assert_valid_history(messages)
        handles = [m.text.split(" as ")[1][:8] for m in messages if m.type == "tool"]
        marks = [m.additional_kwargs.get("background") for m in messages if m.type == "human"]
        ended = {mark["id"]: mark["ending"] for mark in filter(None, marks)}
        assert len(ended) == len([*filter(None, marks)])
        assert sorted(handles) == sorted(ended)
        endings.update((mark["tool"], mark["ending"]) for mark in filter(None, marks))
    kinds = [("render", "done"), ("render", "lost"), ("print_page", "done")]
    assert {*endings} == {*kinds}
    assert endings["render", "done"] <= sum(rendered.values())
    printed, begun = journal.times("printed"), journal.times("begun")
    # Also where a worker was killed before it had stored the handle: the call is made again.
    assert len(printed) == endings["print_page", "done"] <= sum(printed.values())
    assert endings.total() == len(verbs)
    assert sum(begun.values()) > endings["print_page", "done"]  # some have begun again
    assert [*sorted(printed)] == [page for page, verb in verbs.items() if verb == "Print"]
    asked = [m.tool_call_id for messages in states for m in messages if m.type == "tool"]
    assert sorted(asked) == [*verbs]


@pytest.mark.parametrize("seconds", [0.0, 0.5])
def test_a_job_that_kills_each_worker_is_lost_after_its_attempts(
    studio: Service, journal: Journal, url: str, start_worker: Start, seconds: float
) -> None:
    """Before its handle is stored, or after it."""
    studio.submit("studio", thread="t", message="Crash p")
    start = partial(start_worker, url, module=STUDIO, seconds=seconds, attempts=MOST_ATTEMPTS)
    deaths = 0

    def has_ended(worker: WorkerProcess) -> bool:
        return worker.process.poll() is not None or bool(outcomes(studio))

    while not outcomes(studio):
        until(partial(has_ended, start(ready=False)))
        deaths += not outcomes(studio)
    (message,) = outcomes(studio)
    assert "is lost after 3 attempts: the process or event loop" in message.text
    assert journal.times("crashed") == {"p": 3} == {"p": deaths}


@pytest.mark.timeout(600)  # it starts several processes, one after the other
def test_a_deployment_hands_a_job_from_each_worker_to_the_next(
    studio: Service, journal: Journal, url: str, start_worker: Start
) -> None:
    """More workers stop than may die."""
    studio.submit("studio", thread="t", message="Print p")
    start = partial(start_worker, url, module=STUDIO, attempts=MOST_ATTEMPTS)
    for number in range(1, MOST_ATTEMPTS + 2):
        worker = start(seconds=60)
        until(partial(journal.has, "begun", number))
        # A job that has begun, and whose handle its run has stored.
        until(lambda: studio.threads.get("t").status == "idle")
        worker.send(signal.SIGTERM)
        assert exit_code(worker.process) == 0
    with start(seconds=0):
        (message,) = until(lambda: outcomes(studio))
    assert message.text.endswith("Page p is printed.")
    assert journal.times("printed") == {"p": 1}


def outcomes(service: Service) -> list[BaseMessage]:
    """The messages of the jobs of the thread that have ended."""
    messages = service.threads.state("t").values.get("messages", ())
    return [message for message in messages if message.name == "background"]


@pytest.mark.parametrize("url", ["postgres"], indirect=True)  # SQLite has a lock for all
@pytest.mark.parametrize("fenced", [True, False], ids=["fenced", "without the fence"])
def test_a_worker_that_was_given_up_comes_back(
    desk: Service, journal: Journal, start_desk: Start, fenced: bool
) -> None:
    """Without the fence, what this test looks for happens: effects are doubled."""
    threads = 12
    # Few threads and long runs: the zombie is in the middle of each of them.
    start = partial(start_desk, calls=12, seconds=0.05, fenced=fenced, slots=threads)
    with start() as zombie:
        runs = submit(desk, threads, threads)
        until(partial(journal.has, "pay", threads + 1))
        zombie.freeze()
        with start():
            taken_over = len(journal.lines("pay")) + threads + 1
            until(partial(journal.has, "pay", taken_over))
            zombie.send(signal.SIGCONT)
            finish(runs)
    broken = 0
    for run in runs:
        try:
            histories(desk, {run.thread_id: 1})
        except AssertionError:
            broken += 1
    # Each run that was stopped between an effect and the storing of its result has it twice.
    again = doubled(journal) + len(journal.times("pay")) - threads * 12
    if fenced:
        assert broken == 0
        assert again <= threads
    else:
        assert again > threads or broken > 0


def test_a_review_outlives_its_worker_and_its_code(
    desk: Service, journal: Journal, start_desk: Start
) -> None:
    """Parked under one version of the code, decided while no worker runs, done by the next one."""
    start = partial(start_desk, review=True, calls=1)
    worker = start()
    run = desk.submit("desk", thread="t", message="Pay.", message_id="m")
    run.result(timeout=60)
    worker.kill()
    (wait,) = desk.inbox().waits()
    desk.decide(wait.id, "approve", by="ann")
    second = desk.submit("desk", thread="t", message="And?", message_id="m-2")
    assert (run.status, second.status) == ("queued", "queued")
    with start(middleware="limit"):  # the next version has more
        run.result(timeout=60)
        second.result(timeout=60)
    assert desk.threads.state("t").values["messages"][3].text == "Paid."
    assert list(journal.times("pay").values()) == [1]


def test_the_database_restarts(tmp_path: Path, journal: Journal, start_worker: Start) -> None:
    """Runs wait for it, and nothing is lost or doubled."""
    with new_server(tmp_path) as server:
        url = new_postgres(server)
        with closing(Service(url)) as service, start_worker(url, calls=6, seconds=0.05):
            service.add("desk", make_desk(journal))
            runs = submit(service, 12, 24)
            for _ in range(2):
                until(partial(journal.has, "pay", len(journal.lines("pay")) + 10))
                restart(server)
            finish(runs)
            histories(service, dict.fromkeys({run.thread_id for run in runs}, 2))
    # What was stored is not done again. A restart may come between an effect and its storing.
    assert doubled(journal) <= 2 * 8


def restart(server: Any) -> None:
    """Restart a Postgres as after a crash: it does not wait for anybody."""
    folder, control = server.pgdata, server.bin_path / "pg_ctl"
    user = {"user": server.system_user} if server.system_user else {}
    how = ["-w", "-D", folder, "-m", "immediate", "-l", f"{folder}/log"]
    subprocess.run(
        [control, *how, "-o", f'-h "" -k {folder}', "restart"],
        check=True,
        stdout=subprocess.DEVNULL,
        **user,
    )
