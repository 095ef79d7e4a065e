"""Processes are killed, stopped and restarted: nothing is lost, doubled or out of order."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage, ToolMessage
from sqlalchemy import func, select

from agent_factory.middleware import SteeringMiddleware
from agent_factory.service import Run, Service
from agent_factory.service.background import MOST_ATTEMPTS
from agent_factory.service.tables import background_jobs
from agent_factory.testing import assert_valid_history
from service.databases import new_postgres, new_server
from service.desk import Journal, check_history, make_desk
from service.studio_process import StudioProcess, make_studio
from service.worker_process import WorkerProcess

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

KILLS = 500 if os.environ.get("HYPOTHESIS_PROFILE") == "prove" else 5
"""How many workers are killed on each kind of database."""

Until = Callable[..., None]


def client(url: str, journal: Journal) -> Service:
    """A service that only submits and reads."""
    service = Service(url)
    service.add("desk", make_desk(journal))
    return service


def submit(service: Service, threads: int, messages: int) -> list[Run]:
    """Messages on some threads, in turn."""
    return [
        service.submit(
            "desk", thread=f"t-{at % threads}", message="Pay.", message_id=f"m-{at // threads:03}"
        )
        for at in range(messages)
    ]


def finish(runs: Sequence[Run], seconds: float = 200) -> None:
    """Wait until all runs have ended."""
    end = time.monotonic() + seconds
    for run in runs:
        run.result(timeout=max(end - time.monotonic(), 0.1))


def doubled(journal: Journal) -> int:
    """How many effects happened again."""
    return sum(times - 1 for times in journal.times("pay").values())


@pytest.mark.law  # `make prove` kills more
@pytest.mark.timeout(300 if KILLS < 100 else 7200)  # starting workers takes most of it
def test_workers_are_killed_at_random(url: str, tmp_path: Path) -> None:
    """Nothing is lost or out of order, no effect is doubled, and what is unknown is named."""
    journal, chance = Journal(tmp_path / "journal"), random.Random(KILLS)
    threads, each = 16, max(KILLS // 2, 3)
    service = client(url, journal)
    runs = submit(service, threads, threads * each)
    options: dict[str, Any] = {"seconds": 0.03, "once": True}
    workers = [WorkerProcess(url, tmp_path / "journal", **options) for _ in range(3)]
    try:
        for _ in range(KILLS):
            position = chance.randrange(3)
            workers[position].wait_until_ready()
            time.sleep(chance.uniform(0.0, 1.0))
            workers[position].kill()
            workers[position] = WorkerProcess(url, tmp_path / "journal", **options)
        finish(runs, 900)
        paid, unknown = journal.times("pay"), 0
        for thread in range(threads):
            messages = service.threads.state(f"t-{thread}").values["messages"]
            check_history(messages, [f"m-{at:03}" for at in range(each)])
            for message in messages:
                if isinstance(message, ToolMessage):
                    known = "its outcome is unknown" not in message.text
                    unknown += not known
                    assert paid[message.tool_call_id] in ((1,) if known else (0, 1))
        assert max(paid.values()) == 1
        # A kill leaves at most one call in each slot whose outcome nobody knows.
        assert unknown <= KILLS * 8
    finally:
        for worker in workers:
            worker.end()
        service.close()


@pytest.mark.law
@pytest.mark.timeout(300 if KILLS < 100 else 7200)
def test_workers_are_killed_while_their_runs_are_steered(url: str, tmp_path: Path) -> None:
    """Each message is read once and in order, by a run under way or by the next one."""
    chance, threads = random.Random(KILLS), 4
    service = Service(url)
    service.add("desk", make_desk(Journal(tmp_path / "journal"), middleware=[SteeringMiddleware()]))
    options: dict[str, Any] = {"seconds": 0.03, "steered": True, "calls": 4}
    workers = [WorkerProcess(url, tmp_path / "journal", **options) for _ in range(2)]
    sent: dict[str, list[Run]] = {f"t-{at}": [] for at in range(threads)}
    try:
        for _ in range(KILLS):
            position = chance.randrange(2)
            workers[position].wait_until_ready()
            for _ in range(12):
                thread = chance.choice([*sent])
                id = f"m-{len(sent[thread]):03}"
                run = service.submit(
                    "desk", thread=thread, message="Pay.", message_id=id, busy="steer"
                )
                sent[thread].append(run)
                time.sleep(chance.uniform(0.0, 0.1))
            workers[position].kill()
            workers[position] = WorkerProcess(url, tmp_path / "journal", **options)
        finish([run for runs in sent.values() for run in runs], 900)
        readers = [run.info.reader for runs in sent.values() for run in runs]
        assert any(readers)
        assert None in readers
        for thread, runs in sent.items():
            messages = service.threads.state(thread).values["messages"]
            check_history(messages, [f"m-{at:03}" for at in range(len(runs))])
    finally:
        for worker in workers:
            worker.end()
        service.close()


@pytest.mark.law
@pytest.mark.timeout(300 if KILLS < 100 else 7200)
def test_workers_are_killed_while_they_work_in_the_background(
    url: str, tmp_path: Path, until: Until
) -> None:
    """There is one job for each call, and one message for each job.

    That is its result, or that it is lost; a job that may be begun again has its result.
    """
    journal, chance, threads = Journal(tmp_path / "journal"), random.Random(KILLS), 4
    service = Service(url)
    service.add("studio", make_studio(journal), busy="steer")
    workers = [StudioProcess(url, tmp_path / "journal", seconds=0.3) for _ in range(2)]
    verbs: dict[str, str] = {}  # by their pages
    try:
        for number in range(KILLS):
            position = chance.randrange(2)
            workers[position].wait_until_ready()
            for _ in range(8):
                thread, page = f"t-{chance.randrange(threads)}", f"p-{len(verbs):05}"
                verb = chance.choice(["Render", "Print"])
                service.submit("studio", thread=thread, message=f"{verb} {page}")
                verbs[page] = verb
                time.sleep(chance.uniform(0.0, 0.1))
            if number % 5 == 4:
                workers[position].send(signal.SIGTERM)
                workers[position].process.wait(60)
            workers[position].kill()
            workers[position] = StudioProcess(url, tmp_path / "journal", seconds=0.3)

        def is_idle() -> bool:
            return not service.threads.count(status=("queued", "running"))

        # Twice: what a job sends makes its thread busy once more.
        until(lambda: is_idle() and not jobs_under_way(service) and is_idle(), 900)
        states = [service.threads.state(f"t-{at}").values["messages"] for at in range(threads)]
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
    finally:
        for worker in workers:
            worker.end()
        service.close()


@pytest.mark.parametrize("seconds", [0.0, 0.5])
def test_a_job_that_kills_each_worker_is_lost_after_its_attempts(
    url: str, tmp_path: Path, seconds: float
) -> None:
    """Before its handle is stored, or after it."""
    journal, deaths = Journal(tmp_path / "journal"), 0
    service = Service(url)
    service.add("studio", make_studio(journal), busy="steer")
    service.submit("studio", thread="t", message="Crash p")
    worker = StudioProcess(url, tmp_path / "journal", seconds=seconds, attempts=MOST_ATTEMPTS)
    try:
        end = time.monotonic() + 100
        while time.monotonic() < end and not (messages := outcomes(service, "t")):
            if worker.process.poll() is not None:
                worker.kill()
                deaths += 1
                options = {"seconds": seconds, "attempts": MOST_ATTEMPTS}
                worker = StudioProcess(url, tmp_path / "journal", **options)
            time.sleep(0.05)
        (message,) = messages
        assert "is lost after 3 attempts: the process or event loop" in message.text
        assert journal.times("crashed") == {"p": 3} == {"p": deaths}
    finally:
        worker.end()
        service.close()


@pytest.mark.timeout(600)  # it starts seven processes, one after the other
def test_a_deployment_hands_a_job_from_each_worker_to_the_next(
    url: str, tmp_path: Path, until: Until
) -> None:
    """More workers stop than may die."""
    journal = Journal(tmp_path / "journal")
    service = Service(url)
    service.add("studio", make_studio(journal), busy="steer")
    service.submit("studio", thread="t", message="Print p")
    try:
        for number in range(1, MOST_ATTEMPTS + 3):
            seconds = 60 if number < MOST_ATTEMPTS + 2 else 0
            options = {"seconds": seconds, "attempts": MOST_ATTEMPTS}
            with StudioProcess(url, tmp_path / "journal", **options) as worker:
                until(lambda n=number: len(journal.lines("begun")) == n, 120)
                if seconds:
                    # A job that has begun, and whose handle its run has stored.
                    until(lambda: service.threads.get("t").status == "idle", 120)
                    worker.send(signal.SIGTERM)
                    assert worker.process.wait(120) == 0
                else:
                    until(lambda: outcomes(service, "t"), 120)
        (message,) = outcomes(service, "t")
        assert message.text.endswith("Page p is printed.")
        assert journal.times("printed") == {"p": 1}
    finally:
        service.close()


def outcomes(service: Service, thread: str) -> list[BaseMessage]:
    """The messages of the jobs of a thread that have ended."""
    messages = service.threads.state(thread).values.get("messages", ())
    return [message for message in messages if message.name == "background"]


def jobs_under_way(service: Service) -> int:
    with service._backend.database.read() as connection:
        query = select(func.count()).select_from(background_jobs)
        return int(connection.execute(query).scalar_one())


@pytest.mark.parametrize("fenced", [True, False], ids=["fenced", "without the fence"])
def test_a_worker_that_was_given_up_comes_back(url: str, tmp_path: Path, fenced: bool) -> None:
    """Without the fence, what this test looks for happens: effects are doubled."""
    journal = Journal(tmp_path / "journal")
    threads = 12
    service = client(url, journal)
    # Few threads and long runs: the zombie is in the middle of each of them.
    options: dict[str, Any] = {"calls": 12, "seconds": 0.05, "fenced": fenced, "slots": threads}
    with WorkerProcess(url, tmp_path / "journal", **options) as zombie:
        zombie.wait_until_ready()
        runs = submit(service, threads, threads)
        wait_until(lambda: len(journal.lines("pay")) > threads)
        stop(zombie, url)
        with WorkerProcess(url, tmp_path / "journal", **options) as other:
            other.wait_until_ready()
            before = len(journal.lines("pay"))
            wait_until(lambda: len(journal.lines("pay")) > before + threads)  # it has taken over
            zombie.send(signal.SIGCONT)
            finish(runs)
    broken = 0
    for thread in range(threads):
        try:
            check_history(service.threads.state(f"t-{thread}").values["messages"], ["m-000"])
        except AssertionError:
            broken += 1
    service.close()
    # Each run that was stopped between an effect and the storing of its result has it twice.
    if fenced:
        assert broken == 0
        assert doubled(journal) + extra_calls(journal, threads * 12) <= threads
    else:
        assert doubled(journal) + extra_calls(journal, threads * 12) > threads or broken > 0


def stop(worker: WorkerProcess, url: str) -> None:
    """Stop a worker, where it does not hold the lock of SQLite: the others could not go on."""
    while True:
        worker.send(signal.SIGSTOP)
        os.waitpid(worker.process.pid, os.WUNTRACED)  # until it has stopped
        if not url.startswith("sqlite:///"):
            return
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), timeout=0)) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                worker.send(signal.SIGCONT)
                time.sleep(0.01)
            else:
                return


def extra_calls(journal: Journal, expected: int) -> int:
    """How many calls were made that are in no history in the end."""
    return len(journal.times("pay")) - expected


def has_lines(journal: Journal, number: int) -> bool:
    return len(journal.lines("pay")) >= number


def wait_until(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition did not hold in time"
        time.sleep(0.05)


def test_a_review_outlives_its_worker_and_its_code(url: str, tmp_path: Path) -> None:
    """Parked under one version of the code, decided while no worker runs, done by the next one."""
    journal = Journal(tmp_path / "journal")
    service = client(url, journal)
    options: dict[str, Any] = {"review": True, "calls": 1}
    worker = WorkerProcess(url, tmp_path / "journal", **options).wait_until_ready()
    run = service.submit("desk", thread="t", message="Pay.", message_id="m")
    run.result(timeout=60)
    worker.kill()
    (wait,) = service.inbox().waits()
    service.decide(wait.id, "approve", by="ann")
    second = service.submit("desk", thread="t", message="And?", message_id="m-2")
    assert (run.status, second.status) == ("queued", "queued")
    # The next version has more middleware.
    options["version"] = "next"
    with WorkerProcess(url, tmp_path / "journal", **options) as newer:
        newer.wait_until_ready()
        run.result(timeout=60)
        second.result(timeout=60)
    assert service.threads.state("t").values["messages"][3].text == "Paid."
    assert list(journal.times("pay").values()) == [1]
    service.close()


def test_the_database_restarts(tmp_path: Path) -> None:
    """Runs wait for it, and nothing is lost or doubled."""
    journal = Journal(tmp_path / "journal")
    with new_server(tmp_path) as server:
        url = new_postgres(server)
        service = client(url, journal)
        with WorkerProcess(url, tmp_path / "journal", calls=6, seconds=0.05) as worker:
            worker.wait_until_ready()
            runs = submit(service, 12, 24)
            for _ in range(2):
                more = len(journal.lines("pay")) + 10
                wait_until(partial(has_lines, journal, more))
                restart(server)
            finish(runs)
        for thread in range(12):
            check_history(
                service.threads.state(f"t-{thread}").values["messages"], ["m-000", "m-001"]
            )
        # What was stored is not done again. A restart may come between an effect and its storing.
        assert doubled(journal) <= 2 * 8
        service.close()


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
