"""`examples/deploy`: what can be run of it without Docker, and whether its files fit together."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from fnmatch import fnmatch
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from environments import ROOT, Environment, ok, outside, run
from processes import exit_code, owned
from servers import listening
from service.databases import new_postgres, new_server
from service.engines.servers import SERVERS, RestateServer, free_port

DEPLOY = ROOT / "examples" / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
BOARD = DEPLOY / "grafana" / "dashboards" / "agent_factory.json"


def load(name: str) -> Any:
    """A YAML file of the folder."""
    yaml: Any = import_module("yaml")  # langchain-core brings it, without types
    return yaml.safe_load((DEPLOY / name).read_text(encoding="utf-8"))


COMPOSE = load("compose.yaml")

HEALTH_CHECK: list[str] = json.loads(re.findall(r"HEALTHCHECK .*? CMD (\[.*\])", DOCKERFILE)[0])


def instructions(name: str) -> list[str]:
    """The instructions of the Dockerfile with this name, in order."""
    return re.findall(rf"^\s*{name} +(.+)$", DOCKERFILE, flags=re.M)


def option(service: str, name: str) -> str:
    """The value of an option in the command of a service."""
    (value,) = re.findall(rf"--{name}=(\S+)", " ".join(COMPOSE["services"][service]["command"]))
    return str(value)


def test_the_image_does_not_run_as_root() -> None:
    assert instructions("USER") == ["10001"]


def test_servers_workers_and_checks_use_one_port() -> None:
    ports = {option("serve", "port"), option("worker", "port"), *instructions("EXPOSE")}
    (scraped,) = load("prometheus.yml")["scrape_configs"]
    (found,) = scraped["dns_sd_configs"]
    assert ports == {"2024", str(found["port"])}
    assert set(found["names"]) <= COMPOSE["services"].keys()
    assert ":2024/ready" in HEALTH_CHECK[-1]


def test_each_variable_that_compose_needs_is_in_the_example() -> None:
    text = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
    example = (DEPLOY / "env.example").read_text(encoding="utf-8")
    needed = set(re.findall(r"\$\{(\w+):\?", text))
    assert needed == set(re.findall(r"^(\w+)=$", example, flags=re.M))
    # A value that is missing stops everything: none is used without the check.
    assert not re.findall(r"\$\{\w+\}", text)


EXPORTED = """
from agent_factory.serve.metrics import export_metrics, exposition
from agent_factory.service import Service
export_metrics()
service = Service("sqlite:///desk.db")
metrics = service._backend.metrics
metrics.ended("desk", "done", 1.0)
metrics.taken_over(1)
print(exposition()[0].decode())
"""


@pytest.mark.long
def test_each_metric_of_the_dashboard_is_exported(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", EXPORTED], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    samples = re.findall(r"^(\w+)(?:\{(.*)\})? ", done.stdout, flags=re.M)
    exported = {name for name, _ in samples}
    labels = {label for _, text in samples for label in re.findall(r"(\w+)=", text)}
    # `agent` of waits has no sample without a wait; Prometheus adds the last two.
    labels |= {"agent", "job", "instance"}
    board = json.loads(BOARD.read_text(encoding="utf-8"))
    queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    assert len(queries) >= len(board["panels"]) > 10
    queried = {
        name for text in queries for name in re.findall(r"\b(?:agent_factory|process)_\w+", text)
    }
    assert "agent_factory_service_takeovers_total" in queried
    assert queried - exported == {"agent_factory_service_waits"} - exported
    by = {label for text in queries for label in re.findall(r"by \((\w+)\)", text)}
    selected = {label for text in queries for label in re.findall(r"(\w+)=~?\"", text)}
    assert (by | selected) - labels == set()


def test_the_key_decides_who_makes_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    from starlette.requests import Request

    monkeypatch.setenv("SHOP_API_KEY", "k-1")
    monkeypatch.syspath_prepend(str(DEPLOY))
    monkeypatch.delitem(sys.modules, "access", raising=False)
    who: Any = import_module("access").who
    keys = {b"k-1": "shop", b"k-2": None, b"": None, "kü".encode("latin-1"): None}
    for key, tenant in keys.items():
        request = Request({"type": "http", "headers": [(b"x-api-key", key)]})
        assert getattr(who(request), "tenant", None) == tenant
    monkeypatch.delitem(sys.modules, "access")
    # With an empty one, requests without a key would have it.
    monkeypatch.setenv("SHOP_API_KEY", "")
    with pytest.raises(ValueError, match="SHOP_API_KEY is empty"):
        import_module("access")


def context(folder: Path) -> None:
    """Copy what Docker would send to the build."""
    lines = (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8").split()
    left_out = [line.removeprefix("**/") for line in lines if line.startswith("**/")]
    for name in [line[1:] for line in lines if line.startswith("!")]:
        source, target = ROOT / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_file():
            shutil.copy(source, target)
        else:
            ignored = shutil.ignore_patterns(*left_out)
            shutil.copytree(source, target, symlinks=True, ignore=ignored)


def image(folder: Path) -> tuple[Environment, Path]:
    """The environment and the folder that the image has, made by the lines of the Dockerfile."""
    context(folder / "context")
    environment = Environment(folder / "environment")
    (requirement,) = re.findall(r"pip install --no-cache-dir '(\S+)'", DOCKERFILE)
    environment.install(requirement, cwd=folder / "context")
    app = folder / "app"
    app.mkdir()
    for line in instructions("COPY")[-2:]:
        source, target = line.split()
        path = folder / "context" / source
        if path.is_dir():
            shutil.copytree(path, app / target)
        else:
            shutil.copy(path, app)
    return environment, app


@contextmanager
def container(
    environment: Environment, app: Path, service: str, variables: dict[str, str]
) -> Iterator[str]:
    """The URL of the process of a service of compose.yaml, which stops on SIGTERM."""
    assert instructions("ENTRYPOINT") == ['["agent-factory"]']
    words = [w for w in COMPOSE["services"][service]["command"] if not w.startswith("--port")]
    with owned() as processes:
        command = [environment.bin / "agent-factory", *words]
        process, url = listening(processes, command, cwd=app, env=outside(**variables))
        yield url
        process.send_signal(signal.SIGTERM)
        assert exit_code(process) == 0
        # A worker looks at its engine every three seconds, and logs no look.
        assert "HTTP Request" not in process.communicate()[0]


READ = "import sys, urllib.request as r; print(r.urlopen(sys.argv[1]).read().decode())"


@contextmanager
def engine(kind: str, folder: Path) -> Iterator[dict[str, str]]:
    """The variables of compose.KIND.yaml, for its server, which runs as that file says."""
    services = load(f"compose.{kind}.yaml")["services"]
    assert services["serve"] == services["worker"]
    server, port = SERVERS[kind](folder), free_port()
    if isinstance(server, RestateServer):
        server.environment |= services[kind]["environment"]
        ingress = f"127.0.0.1:{server.ingress}/shop?admin=http://127.0.0.1:{server.admin}&"
        places = {"//restate:8080/shop?": f"//{ingress}", "//worker:": "//127.0.0.1:"}
        places[":9080"] = f":{port}"
    else:
        server.command = services[kind]["command"]
        places = {"//temporal:7233": f"//127.0.0.1:{server.port}"}
    url = services["worker"]["environment"]["AGENT_FACTORY_ENGINE"]
    for place, ours in places.items():
        assert place in url
        url = url.replace(place, ours)
    try:
        server.start()
        yield {"AGENT_FACTORY_ENGINE": url}
    finally:
        server.kill()


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    "kind", ["embedded", *(pytest.param(k, marks=pytest.mark.night) for k in SERVERS)]
)
def test_the_image_and_its_services_work_without_docker(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, kind: str
) -> None:
    environment, app = image(tmp_path)
    given = COMPOSE["services"]["serve"]["environment"]
    assert given == COMPOSE["services"]["worker"]["environment"]
    with ExitStack() as stack:
        server = stack.enter_context(new_server(tmp_path_factory.mktemp("runtime")))
        values = {"SHOP_DATABASE": new_postgres(server), "SHOP_SECONDS": "0"}
        variables = {**dict.fromkeys(given, "s-1"), **values}
        if kind != "embedded":
            variables |= stack.enter_context(engine(kind, tmp_path / kind))
        url, health = (
            stack.enter_context(container(environment, app, service, variables))
            for service in ("serve", "worker")
        )
        smoke = (str(DEPLOY / "smoke.py"), url)
        sent = {"SHOP_API_KEY": "s-1", "METRICS_TOKEN": "s-1"}
        assert "40 euros were paid back" in ok(run(sys.executable, *smoke, cwd=app, **sent))
        for address in (url, health):
            ready = json.loads(ok(run(sys.executable, "-c", READ, f"{address}/ready", cwd=app)))
            assert ready["engine"] == {"name": kind, "ready": True}
        # The check of the image holds for the worker, too, and fails where nothing listens.
        silent = stack.enter_context(socket.socket())
        silent.bind(("127.0.0.1", 0))
        nowhere = f"http://127.0.0.1:{silent.getsockname()[1]}"
        for address, works in ((health, True), (url, True), (nowhere, False)):
            port = address.rpartition(":")[2]
            here = [word.replace(":2024", f":{port}") for word in HEALTH_CHECK]
            done = run(environment.bin / here[0], *here[1:], cwd=app)
            assert (done.returncode == 0) is works, (shlex.join(here), done.stderr)
        wrong = run(sys.executable, *smoke, cwd=app, **{**sent, "METRICS_TOKEN": "s-2"})
        assert wrong.returncode != 0


def test_the_context_has_no_secrets() -> None:
    lines = (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8").split("\n")
    patterns = [line for line in lines if line and not line.startswith("#")]
    assert patterns[0] == "*"
    assert not any(fnmatch(".env", line.lstrip("!")) for line in patterns[1:])
