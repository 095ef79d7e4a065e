"""`/live`, `/ready` and `/metrics`: of a server and of a worker."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any
from unittest.mock import Mock

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import delete
from starlette.testclient import TestClient

from agent_factory import create_agent
from agent_factory.errors import ArgumentError, MissingExtra
from agent_factory.serve import Principal, create_app, errors, health, metrics
from agent_factory.serve.health import health_app
from agent_factory.service import Service
from agent_factory.service.errors import DatabaseUnavailable
from agent_factory.service.tables import workers
from agent_factory.testing import ScriptedChatModel
from processes import Processes, exit_code
from servers import listening
from service.stored import tables_of
from waiting import until

EXAMPLES = Path(__file__).parents[2] / "examples"
HOME = "http://127.0.0.1"
THIS_MACHINE = ("127.0.0.1", 50000)
ANOTHER = ("10.0.0.7", 50000)
ENGINE = {"name": "embedded", "ready": True}
WAIT = 60


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with closing(Service(f"sqlite:///{tmp_path}/desk.db")) as made:
        made.add("desk", create_agent(ScriptedChatModel(["Hello!"] * 10), []))
        yield made


@pytest.fixture(params=["server", "worker"])
def app(request: pytest.FixtureRequest, service: Service) -> Any:
    """The application of a server that knows nobody, and that of a worker."""
    if request.param == "worker":
        return health_app(service)
    return create_app(service, lambda _: None)


def read(app: Any, path: str, client: tuple[str, int] = THIS_MACHINE, **options: Any) -> Any:
    return TestClient(app, HOME, client=client).get(path, **options)


def test_whoever_asks_learns_whether_the_process_lives_and_can_work(app: Any) -> None:
    for client in (THIS_MACHINE, ANOTHER):
        assert read(app, "/live", client).json() == {"live": True}
        response = read(app, "/ready", client)
        assert response.status_code == 200
        assert response.json() == {"ready": True, "problems": [], "engine": ENGINE}


@pytest.mark.parametrize(
    "error",
    [DatabaseUnavailable("the database", "is away"), RuntimeError("secret-host:5432 says no")],
    ids=["away", "never there"],
)
def test_without_a_database_a_process_is_not_ready_and_names_no_host(
    app: Any,
    service: Service,
    error: Exception,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(service, "workers", Mock(side_effect=error))
    response = read(app, "/ready")
    assert response.status_code == 503
    text = "The database is not available; the log says why."
    assert response.json() == {"ready": False, "problems": [text], "engine": ENGINE}
    assert str(error) in caplog.text
    assert read(app, "/live").status_code == 200


def test_a_database_that_hangs_is_not_waited_for(
    app: Any, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on = Event()
    monkeypatch.setattr(health, "_READY_WITHIN", 0.05)
    monkeypatch.setattr(service, "workers", lambda: goes_on.wait(WAIT) and [])
    try:
        with TestClient(app, HOME, client=THIS_MACHINE) as client:
            # More often than checks may run at once.
            for _ in range(4):
                response = client.get("/ready")
                assert response.status_code == 503
                assert response.json()["problems"] == ["The database has not answered in time."]
            goes_on.set()
    finally:
        goes_on.set()


def test_a_thread_that_begins_is_not_taken_for_one_that_has_ended(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, ended = Thread.start, list[str]()

    def start_and_look(thread: Thread) -> None:
        ended.extend(service.ended_threads)
        start(thread)

    monkeypatch.setattr(Thread, "start", start_and_look)
    service.start()
    service.submit("desk", message="Hi").result(WAIT)
    assert not ended


def test_a_worker_whose_thread_has_ended_or_that_was_given_up_is_not_ready(
    app: Any, service: Service
) -> None:
    service.start()
    assert read(app, "/ready").status_code == 200
    assert service._worker is not None
    # No beat of this test's worker writes its row again.
    service._worker._stop.set()
    service.engine.stop(WAIT)
    for thread in service._worker._threads:
        thread.join()
    response = read(app, "/ready")
    assert response.status_code == 503
    assert "The thread agent-factory-beat has ended" in response.json()["problems"][0]
    tables_of(service).write(delete(workers))
    response = read(app, "/ready")
    assert response.status_code == 503
    assert "no sign of life" in response.json()["problems"][0]


def test_metrics_are_for_this_machine_alone(app: Any) -> None:
    assert read(app, "/metrics").status_code == 200
    for refused in (
        read(app, "/metrics", ANOTHER),
        read(app, "/metrics", headers={"X-Forwarded-For": "10.0.0.7"}),
        read(app, "/metrics", headers={"Host": "desk.example"}),
    ):
        assert refused.status_code == 403
        assert "AGENT_FACTORY_METRICS_TOKEN" in refused.json()["detail"]


@pytest.mark.parametrize("kind", ["server", "worker"])
def test_with_a_token_metrics_are_for_those_who_send_it(service: Service, kind: str) -> None:
    app: Any = health_app(service, "t-1")
    if kind == "server":
        app = create_app(service, lambda _: Principal("", "ann"), metrics_token="t-1")
    for client in (THIS_MACHINE, ANOTHER):
        good = read(app, "/metrics", client, headers={"Authorization": "Bearer t-1"})
        assert good.status_code == 200
        assert good.headers["content-type"].startswith("text/plain; version=")
        for wrong in ("Bearer t-2", "Basic t-1", "Bearer ", "Bearer tä"):
            sent = {"Authorization": wrong.encode("latin-1")}
            response = read(app, "/metrics", client, headers=sent)
            assert response.status_code == 401
            assert response.headers["www-authenticate"] == "Bearer"
        assert read(app, "/metrics", client).status_code == 401


@pytest.mark.parametrize("token", ["", "  "])
def test_an_empty_token_is_refused(service: Service, token: str) -> None:
    for make in (health_app, create_app):
        with pytest.raises(ArgumentError, match="must not be empty"):
            make(service, metrics_token=token)


def test_without_the_extra_the_answer_names_it(app: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = MissingExtra("The route /metrics needs the extra `metrics`.")
    for module in (metrics, errors):
        monkeypatch.setattr(module, "require", Mock(side_effect=missing))
    assert not metrics.export_metrics()
    response = read(app, "/metrics")
    assert response.status_code == 501
    assert "the extra `metrics`" in response.json()["detail"]


def command(name: str, folder: Path, **environment: str) -> tuple[list[Any], dict[str, Any]]:
    """A command with the service of the examples, and the options of its process."""
    variables = {
        **os.environ,
        "PYTHONPATH": str(EXAMPLES.parent),
        "SHOP_DATABASE": f"sqlite:///{folder}/desk.db",
        **environment,
    }
    words = [sys.executable, "-m", "agent_factory.cli", name, "shop.service:service"]
    return words, {"cwd": EXAMPLES / "service", "env": variables}


def is_ready(url: str) -> bool:
    """Whether a process is ready."""
    with suppress(httpx.TransportError):
        return httpx.get(f"{url}/ready").status_code == 200
    return False


def samples(text: str) -> dict[str, float]:
    """The samples of the service, by name and labels without those of OpenTelemetry."""
    values = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            known = sorted(sample.labels.items())
            labels = [f'{name}="{value}"' for name, value in known if "otel_scope_" not in name]
            values[f"{sample.name}{{{','.join(labels)}}}"] = sample.value
    return values


@pytest.mark.long
@pytest.mark.parametrize("name", ["serve", "worker"])
def test_a_process_counts_what_it_did(tmp_path: Path, processes: Processes, name: str) -> None:
    words, options = command(name, tmp_path, AGENT_FACTORY_METRICS_TOKEN="t-1")
    _, url = listening(processes, words, **options)
    sent = {"Authorization": "Bearer t-1"}
    counted = 'agent_factory_service_runs_total{agent="desk",status="waiting"}'

    def metrics_with_the_run() -> str:
        """The metrics of the process; a result may be read before its worker has counted it."""
        text = httpx.get(f"{url}/metrics", headers=sent).text
        return text if counted in samples(text) else ""

    with closing(Service(f"sqlite:///{tmp_path}/desk.db")) as client:
        until(lambda: is_ready(url))
        client.add("desk", create_agent(ScriptedChatModel(["Hello!"])))
        run = client.submit("desk", message="Refund A1", tenant="acme", thread="t-9")
        run.result(timeout=WAIT)
        assert httpx.get(f"{url}/metrics").status_code == 401
        text = until(metrics_with_the_run)
    values = samples(text)
    assert values[counted] == 1
    duration = "agent_factory_service_run_duration_seconds"
    assert values[duration + '_count{agent="desk",status="waiting"}'] == 1
    assert values[duration + '_bucket{agent="desk",le="3600",status="waiting"}'] == 1
    statuses = {
        status: values[f'agent_factory_service_threads{{status="{status}"}}']
        for status in ("idle", "queued", "running", "waiting", "failed")
    }
    assert statuses == {"idle": 0, "queued": 0, "running": 0, "waiting": 1, "failed": 0}
    assert values['agent_factory_service_waits{agent="desk"}'] == 1
    assert values['agent_factory_service_workers{draining="false"}'] == 1
    assert "process_resident_memory_bytes" in text
    assert "acme" not in text
    assert "t-9" not in text


@pytest.mark.long
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT], ids=lambda end: end.name)
@pytest.mark.parametrize("name", ["serve", "worker"])
def test_a_process_that_is_stopped_ends_its_worker(
    tmp_path: Path, processes: Processes, name: str, end: signal.Signals
) -> None:
    """Containers are stopped with SIGTERM."""
    words, options = command(name, tmp_path)
    process, url = listening(processes, words, **options)
    with closing(Service(f"sqlite:///{tmp_path}/desk.db")) as client:
        until(lambda: is_ready(url))
        assert len(client.workers()) == 1
        process.send_signal(end)
        assert exit_code(process) == 0
        assert client.workers() == []


@pytest.mark.long
def test_a_worker_whose_port_is_taken_does_not_start(tmp_path: Path, processes: Processes) -> None:
    words, options = command("worker", tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        process = processes.start([*words, "--port", taken.getsockname()[1]], **options)
        assert exit_code(process) != 0
    assert not (tmp_path / "desk.db").exists()
