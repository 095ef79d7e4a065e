"""The promises of `Engine` by the engines that have a server, with real servers."""

from __future__ import annotations

import logging
import time
from threading import Timer

import pytest

from agent_factory.service.engines import Outcome
from agent_factory.service.engines.engine import engine_of
from agent_factory.service.errors import DatabaseUnavailable
from processes import Processes, exit_code, wait_for_line
from service.engines.noted_work import NotedWork, job, serving
from service.engines.servers import SERVERS, Server
from waiting import until

pytestmark = [pytest.mark.long, pytest.mark.parametrize("kind", SERVERS)]


def test_each_job_is_carried_out_once(
    engine_url: str, work: NotedWork, server: Server, name: str
) -> None:
    """Also if it is started twice."""
    with serving(work, engine_url) as engine, serving(work, engine_url, slots=0) as submitter:
        engine.start(job("held"))
        work.wait("begin")
        for number in range(20):
            engine.start(job(f"t-{number}/00000001"))
            submitter.start(job("held"))
        work.wait("end", times=20)
        work.release()
        until(lambda: not server.known(name))
        assert engine.fault() is None
    assert len(work.notes("end")) == 21


def test_a_job_that_is_over_can_be_started_again(engine_url: str, work: NotedWork) -> None:
    with serving(work, engine_url) as engine:
        for times in (1, 2, 3):

            def ended_again(times: int = times) -> bool:
                engine.start(job("a"))
                return len(work.notes("end")) >= times

            until(ended_again)


def test_a_job_for_later_or_without_database_is_called_again_and_holds_no_slot(
    engine_url: str, work: NotedWork, server: Server, name: str
) -> None:
    errors = [DatabaseUnavailable("db", "is away"), ValueError("secret")]
    work.outcomes = [Outcome("later", 0.5), *errors, Outcome("later", 3600)]
    with serving(work, engine_url, slots=1) as engine:
        engine.start(job("a"))
        work.wait("end", "a", times=4)
        engine.start(job("b"))
        work.wait("end", "b")
        assert "secret" not in str(server.known(name))


def test_a_job_begins_after_its_delay(engine_url: str, work: NotedWork) -> None:
    with serving(work, engine_url) as engine:
        before = time.monotonic()
        engine.start(job("a", delay=2.0))
        work.wait("end", "a")
    assert time.monotonic() - before >= 2.0


def test_a_cancelled_job_is_forgotten(
    engine_url: str, work: NotedWork, server: Server, name: str
) -> None:
    work.outcomes = [Outcome("later", 3600)]
    with serving(work, engine_url) as engine, serving(work, engine_url, slots=0) as other:
        other.cancel(job("unknown"))
        for one in (job("later"), job("delayed", delay=3600)):
            engine.start(one)
            until(lambda: server.known(name))
            if one.id == "later":
                work.wait("end")
            other.cancel(one)
            until(lambda: not server.known(name))


def test_the_agents_of_a_process_share_its_slots(
    engine_url: str, work: NotedWork, server: Server, name: str
) -> None:
    work.agents = ("desk", "Lager für Übergrößen_2", "bank")
    with serving(work, engine_url, slots=4) as engine:
        for number in range(12):
            engine.start(job(f"held-{number}", agent=work.agents[number % 3]))
        work.wait("begin", times=4)
        until(lambda: len(server.known(name)) == 12)
        assert len(work.notes("begin")) == 4
        work.release()
        work.wait("end", times=12)


def test_agents_that_are_added_later_are_served(engine_url: str, work: NotedWork) -> None:
    """Their jobs may be there before them, as in a service that starts without agents."""
    work.agents = []
    with serving(work, engine_url) as engine:
        for agents in (["desk"], ["desk", "bank"]):
            engine.start(job(agents[-1], agent=agents[-1]))
            work.agents = agents
            work.wait("end", agents[-1])
        until(lambda: engine.fault() is None)


def test_jobs_that_remain_at_a_stop_begin_again(engine_url: str, work: NotedWork) -> None:
    """In another process, or in the same engine once it serves again."""
    with serving(work, engine_url, slots=1) as engine:
        engine.start(job("held"))
        work.wait("begin", "held")
        engine.start(job("waits"))
        engine.stop(0)
        engine.stop(0)
        assert not work.notes("begin", "waits")
        engine.serve(work, 2)
        work.wait("begin", "held", times=2)
        work.release()
        work.wait("end", "waits")


def test_a_stop_waits_for_running_jobs(engine_url: str, work: NotedWork) -> None:
    with serving(work, engine_url) as engine:
        engine.start(job("held"))
        work.wait("begin", "held")
        Timer(0.2, work.release).start()
        engine.stop(60)
        assert work.notes("end", "held")


def test_a_process_ends_cleanly_and_loses_no_start(
    engine_url: str, work: NotedWork, processes: Processes, server: Server, name: str
) -> None:
    worker = processes.fork(["service.engines.noted_work", engine_url, work.file])
    wait_for_line(worker, "ready")
    submitter = engine_of(engine_url)
    submitter.start(job("held"))
    submitter.stop(0)
    until(lambda: server.known(name) or work.notes("begin", "held"))
    work.release()
    work.wait("end", "held")
    worker.stdin.close()
    assert exit_code(worker) == 0


@pytest.mark.parametrize("wiped", [False, True], ids=["restarted", "wiped"])
def test_jobs_go_on_after_a_crash_of_the_server(
    own_server: Server, name: str, work: NotedWork, wiped: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    own_server.start()
    with serving(work, own_server.url(name)) as engine:
        engine.start(job("held"))
        engine.start(job("delayed", delay=2.0))
        work.wait("begin", "held")
        until(lambda: len(own_server.known(name)) == 2)
        own_server.kill()
        assert until(engine.fault)
        engine.start(job("meanwhile"))
        if wiped:
            own_server.wipe()
        own_server.start()
        work.wait("end", "meanwhile")
        if wiped:
            engine.start(job("delayed"))  # as the service does every 30 seconds
        work.wait("end", "delayed")
        work.release()
        work.wait("end", "held")
        until(lambda: engine.fault() is None)
    assert capfd.readouterr() == ("", "")


def test_a_process_begins_when_the_server_is_there(
    own_server: Server, name: str, work: NotedWork, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(work, own_server.url(name)) as engine:
        for job_name in "abc":
            engine.start(job(job_name))
        assert until(engine.fault)
        own_server.start()
        for job_name in "abc":
            work.wait("end", job_name)
        until(lambda: engine.fault() is None)
    assert len([r for r in caplog.records if r.levelno >= logging.WARNING]) <= 3
