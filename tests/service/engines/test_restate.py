"""Behaviour of the engine of Restate alone."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import httpx
import pytest

from agent_factory.errors import ArgumentError
from agent_factory.service.engines import Restate
from agent_factory.service.engines import restate as adapter
from service.engines.noted_work import NotedWork, job, serving
from service.engines.servers import RestateServer
from waiting import until

pytestmark = pytest.mark.parametrize("kind", ["restate"])


@pytest.mark.long
def test_a_long_job_goes_on(
    engine_url: str,
    work: NotedWork,
    server: RestateServer,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its request comes again and again, and finds that the job goes on."""
    monkeypatch.setattr(adapter, "_PATIENCE", 0.1)
    requests: set[str] = set()
    with serving(work, engine_url) as engine:
        engine.start(job("held"))
        while len(requests) < 4:
            requests |= {row["created_at"] for row in server.known(name)}
        assert len(work.notes("begin")) == 1
        work.release()


@pytest.mark.long
def test_many_waiting_jobs_keep_few_connections(
    engine_url: str, work: NotedWork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapter, "_WAITING", 1)
    monkeypatch.setattr(adapter, "_PATIENCE", 0.2)
    with serving(work, engine_url, slots=1) as engine:
        for number in range(4):
            engine.start(job(f"held-{number}"))
        work.wait("begin")
        work.release()
        work.wait("end", times=4)


@pytest.mark.long
def test_an_agent_without_a_process_is_a_fault(engine_url: str, work: NotedWork) -> None:
    with serving(work, engine_url) as engine:
        engine.start(job("nobody", agent="unknown"))
        assert "unknown" in str(until(engine.fault))


@pytest.mark.long
def test_a_job_of_an_address_that_is_gone_goes_to_the_newest(
    engine_url: str, work: NotedWork, server: RestateServer, name: str
) -> None:
    with serving(work, engine_url) as engine:
        engine.start(job("held"))
        work.wait("begin")
    server.workers.pop(name)
    with serving(work, server.url(name)):
        work.wait("begin", times=2)
        work.release()


@pytest.mark.long
def test_restate_waits_for_each_request(
    engine_url: str, work: NotedWork, server: RestateServer, name: str
) -> None:
    """Longer than a request takes; it ignores other limits for requests without a journal."""
    with serving(work, engine_url) as engine:
        engine.start(job("a"))
        work.wait("end")
        url = f"http://127.0.0.1:{server.admin}/services/{name}.desk"
        service = httpx.get(url, trust_env=False).json()
    assert "info" not in service
    assert float(service["abort_timeout"].removesuffix("s")) > 5


@pytest.mark.long
def test_a_request_without_a_signature_is_refused(
    engine_url: str,
    work: NotedWork,
    server: RestateServer,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    key = "publickeyv1_w7YHemBctH5Ck2nQRQ47iBBqhNHy4FV7t2Usbye2A6f"
    monkeypatch.setenv("RESTATE_IDENTITY_KEYS", key)
    with serving(work, engine_url) as engine:
        url = f"{server.workers[name]}/invoke/{name}.desk/carry_out"
        assert httpx.post(url, trust_env=False).status_code == 401
        assert until(engine.fault)


def test_a_start_has_the_token(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    requests: list[str] = []

    class Ingress(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            requests.append(f"{self.path} {self.headers['authorization']}")
            self.send_response(202)
            self.end_headers()

        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()

    monkeypatch.setenv("RESTATE_AUTH_TOKEN", "key_1")
    with HTTPServer(("127.0.0.1", 0), Ingress) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        engine = Restate(f"restate://127.0.0.1:{server.server_port}")
        engine.start(job("t-1/00000001", delay=60))
        engine.stop(0)
        server.shutdown()
    path, _, token = requests[0].partition(" ")
    assert path.startswith("/agent-factory.desk/carry_out/send?delay=")
    assert token == "Bearer key_1"


def test_an_unknown_parameter_is_refused(kind: str) -> None:
    with pytest.raises(ArgumentError, match="'adnim'"):
        Restate("restate://127.0.0.1?adnim=http://127.0.0.1:9070")
