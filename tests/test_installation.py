"""The lines of the docs install what they promise, each in an empty environment."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from agent_factory.errors import EXTRAS
from environments import ROOT, Environment, ok, run

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]

PROMISES = {
    "": """
from agent_factory import create_agent
from agent_factory.testing import ScriptedChatModel
def add(a: int, b: int) -> int:
    "Add."
    return a + b
call = {"name": "add", "args": {"a": 2, "b": 3}}
agent = create_agent(ScriptedChatModel([[call], "It is 5."]), [add])
assert agent.invoke({"messages": [("user", "?")]})["messages"][-1].text == "It is 5."
""",
    "a2a": "import agent_factory.serve.a2a.endpoint",
    "ag-ui": "import agent_factory.serve.ag_ui.endpoint",
    "cli": """
import subprocess, sys
from pathlib import Path
Path("old.py").write_text("from langgraph.prebuilt import create_react_agent\\n")
command = [sys.executable, "-m", "agent_factory.cli", "migrate", "old.py", "--write"]
assert subprocess.run(command).returncode == 0
assert "agent_factory.prebuilt" in Path("old.py").read_text()
""",
    "cost": """
from agent_factory.middleware import BudgetMiddleware, Limits
BudgetMiddleware(run=Limits(usd=1))
""",
    "draw": """
from agent_factory import plan_agent
assert plan_agent().to_png().startswith(b"\\x89PNG")
""",
    "local": """
from agent_factory.errors import require
require("local", "LocalChatModel")
import xllamacpp
""",
    "mcp": "import agent_factory.serve.mcp.endpoint",
    "metrics": """
from agent_factory.serve import create_app
from agent_factory.serve.metrics import export_metrics
from agent_factory.service import Service
from starlette.testclient import TestClient
assert export_metrics()
with Service("sqlite:///desk.db") as service:
    client = TestClient(create_app(service), "http://127.0.0.1", client=("127.0.0.1", 1))
    assert 'agent_factory_service_workers{draining="false"' in client.get("/metrics").text
""",
    "otel": """
from agent_factory import DecisionSpanEvents
from agent_factory.telemetry import Telemetry
Telemetry(), DecisionSpanEvents()
""",
    "pii": """
from agent_factory.middleware import PIIMiddleware
PIIMiddleware("phone"), PIIMiddleware("name"), PIIMiddleware("key", detector="sk-.*")
""",
    "postgres": """
from agent_factory.service import Service
Service("postgresql://user@host/name").close()
""",
    "restate": """
from agent_factory.service import Service
with Service("sqlite:///desk.db", engine="restate://127.0.0.1:1?worker=http://127.0.0.1:0"):
    pass
""",
    "serve": """
import subprocess, sys
from agent_factory.serve import Principal, create_app
from agent_factory.service import Service
from starlette.testclient import TestClient
with Service("sqlite:///desk.db") as service:
    app = create_app(service, lambda request: Principal("", "ann"))
    with TestClient(app) as client:
        assert client.get("/studio").status_code == 200
command = [sys.executable, "-m", "agent_factory.cli", "studio", "--help"]
assert subprocess.run(command).returncode == 0
""",
    "service": """
from agent_factory import create_agent
from agent_factory.service import Service
from agent_factory.testing import ScriptedChatModel
with Service("sqlite:///desk.db") as service:
    service.add("desk", create_agent(ScriptedChatModel(["Hello."]), []))
    assert service.submit("desk", message="Hi").result(timeout=60)["messages"][-1].text == "Hello."
""",
    "sqlite": """
from langgraph.checkpoint.sqlite import SqliteSaver
from agent_factory import create_agent
from agent_factory.testing import ScriptedChatModel
with SqliteSaver.from_conn_string("threads.db") as saver:
    agent = create_agent(ScriptedChatModel(["Hello."]), [], checkpointer=saver)
    agent.invoke({"messages": [("user", "Hi")]}, {"configurable": {"thread_id": "1"}})
""",
    "temporal": """
from agent_factory.service import Service
with Service("sqlite:///desk.db", engine="temporal://127.0.0.1:1"):
    pass
""",
    "testing": """
import pytest, sys
from pathlib import Path
Path("test_plan.py").write_text('''
from agent_factory import plan_agent
from agent_factory.middleware import ModelRetryMiddleware
from agent_factory.testing import check_middleware

def test_the_plan(topology_snapshot):
    assert plan_agent() == topology_snapshot

def test_the_laws():
    check_middleware(ModelRetryMiddleware)
''')
assert pytest.main(["-q", "--snapshot-update", "test_plan.py"]) == 0
""",
}
"""Code that runs what each extra is for; without an extra, the first example of the README."""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what an installation needs: it writes into the folder that it is built from."""
    folder = tmp_path_factory.mktemp("a checkout")
    for name in ("pyproject.toml", "README.md", "MANIFEST.in", "CHANGELOG.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    (folder / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "build_backend.py", folder / "scripts")
    for top in ("agent_factory", "middleware"):
        leave_out = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / top, folder / top, symlinks=True, ignore=leave_out)
    return folder


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return Environment(tmp_path / "environment")


@pytest.mark.parametrize("extra", ["", *EXTRAS], ids=lambda extra: extra or "none")
def test_the_line_of_an_extra_installs_what_it_is_for(
    extra: str, checkout: Path, environment: Environment, tmp_path: Path
) -> None:
    environment.install(f".[{extra}]" if extra else ".", cwd=checkout)
    ok(environment.python("-c", PROMISES[extra], cwd=tmp_path))


def test_a_product_that_was_written_is_installed_elsewhere(
    checkout: Path, environment: Environment, tmp_path: Path
) -> None:
    environment.install(".[cli,testing]", cwd=checkout)
    new = ("-m", "agent_factory.cli", "new", "agent", "order_desk")
    ok(environment.python(*new, cwd=tmp_path))
    product, other = tmp_path / "order_desk", Environment(tmp_path / "other")
    other.install("-e", ".[dev]", cwd=product)
    assert "7 passed" in ok(other.python("-m", "pytest", "-q", cwd=product))


def test_the_demo_runs_from_a_wheel_where_nothing_is_installed(
    checkout: Path, environment: Environment, tmp_path: Path
) -> None:
    """In an empty home folder; only the packages that uv has downloaded before are there."""
    cache = ok(run(environment.uv, "cache", "dir", cwd=tmp_path)).strip()
    ok(run(environment.uv, "build", "-q", "--wheel", "-o", tmp_path, checkout, cwd=tmp_path))
    (wheel,) = tmp_path.glob("*.whl")
    home = tmp_path / "home"
    home.mkdir()
    package = f"agent-factory[cli,local,sqlite] @ {wheel.as_uri()}"
    command = ["tool", "run", "--python", sys.executable, "--from", package, "agent-factory"]
    places = {"HOME": str(home), "XDG_CACHE_HOME": str(home), "UV_CACHE_DIR": cache}
    question = ["demo", "--ask", "Where is my order A-1001?"]
    done = run(environment.uv, *command, *question, cwd=home, **places)
    assert "Downloading the weights of SmolLM2 once" in ok(done)
    assert "a desk lamp for 39.90 dollars, was delivered" in " ".join(done.stdout.split())
    assert [path.suffix for path in (home / "agent_factory").iterdir()] == [".gguf"]


def test_the_command_of_an_error_installs_what_is_missing(checkout: Path, tmp_path: Path) -> None:
    ok(run(sys.executable, "-m", "venv", "environment", cwd=tmp_path))
    binary = tmp_path / "environment" / ("Scripts" if os.name == "nt" else "bin")
    ok(run(binary / "pip", "install", "-q", ".", cwd=checkout))
    done = run(binary / "agent-factory", "--version", cwd=tmp_path)
    assert done.returncode == 1
    command = re.search(r"Install it: (pip install '.*')", done.stderr)
    assert command, done.stderr
    path = f"{binary}{os.pathsep}{os.environ['PATH']}"
    ok(run("sh", "-c", command[1], cwd=tmp_path, PATH=path))
    assert "agent-factory 0" in ok(run(binary / "agent-factory", "--version", cwd=tmp_path))
