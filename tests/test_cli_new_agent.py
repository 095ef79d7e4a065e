"""`new agent`: the files of a product pass their tests, are typed, and replace no others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytest.importorskip("typer", reason="the extra cli is not installed")

from typer.testing import CliRunner, Result

from agent_factory.cli.app import app
from agent_factory.cli.new_agent import FILES, LONGEST_NAME, SNAPSHOT
from agent_factory.errors import requirement
from tables import each

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = ROOT / "examples" / "product"


pytestmark = pytest.mark.usefixtures("empty_folder")


def new(*words: str) -> Result:
    return CliRunner().invoke(app, ["new", "agent", *words])


def runs(*command: str, folder: str = "order_desk", **more: str) -> str:
    """Run a module of Python in the product's folder; its output."""
    unset = ("PYTEST", "COV", "HYPOTHESIS")
    env = {key: value for key, value in os.environ.items() if not key.startswith(unset)}
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        env={**env, "PYTHONPATH": str(ROOT), **more},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def files(folder: str = ".") -> set[str]:
    """What was written; where Python keeps bytecode, drawing the plan leaves some."""
    found = (path for path in Path(folder).rglob("*") if path.parent.name != "__pycache__")
    return {path.relative_to(folder).as_posix() for path in found if path.is_file()}


@pytest.mark.long
def test_its_tests_pass_and_it_is_formatted() -> None:
    done = new("order_desk")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines() == [
        "Wrote order_desk with 8 files.",
        "Try it: cd order_desk && python -m pytest",
    ]
    plugins = ["-p", "no:cacheprovider", "-p", "no:asyncio"]
    assert "7 passed" in runs("pytest", "-q", *plugins)
    runs("ruff", "check", "--no-cache", ".")
    runs("ruff", "format", "--no-cache", "--check", ".")
    agent = Path("order_desk/order_desk/agent.py")
    agent.write_text(agent.read_text().replace("        ModelRetryMiddleware(),", "        "))
    with pytest.raises(AssertionError, match="removed layer ModelRetryMiddleware"):
        runs("pytest", "-q", *plugins)


@pytest.mark.long
def test_it_is_typed() -> None:
    new("order_desk")
    # The cache of the checkout, which has types of the libraries.
    cache = str(ROOT / ".mypy_cache")
    assert "no issues found" in runs("mypy", "--cache-dir", cache, MYPYPATH=str(ROOT))


@pytest.mark.long
def test_other_commands_take_it_and_its_recordings() -> None:
    new("order_desk")
    show = CliRunner().invoke(app, ["show", "order_desk/order_desk/agent.py:stack"])
    assert "around each model call: ModelRetryMiddleware.around_model" in show.stdout
    recording = """
from agent_factory.testing import ScriptedChatModel, record_agent
from order_desk.agent import build_agent
call = {"name": "find_order", "args": {"order_id": "A-1001"}}
model = ScriptedChatModel([[call], "On Thursday."])
agent = record_agent(build_agent(model), "tests/recordings/thursday.jsonl")
agent.invoke({"messages": [("user", "When?")]})
"""
    subprocess.run(
        [sys.executable, "-c", recording],
        cwd="order_desk",
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}."},
        check=True,
    )
    target = "order_desk/order_desk/agent.py:build_agent"
    done = CliRunner().invoke(app, ["replay", target, "order_desk/tests/recordings"])
    assert done.exit_code == 0, done.output
    assert "1 run: 1 passed" in done.stdout


def test_it_is_built_as_the_example_of_a_product() -> None:
    new("desk")
    example = {path for path in files(str(PRODUCT)) if "cassettes" not in path}
    kinds = {"README.md", "pyproject.toml", "desk/__init__.py", "desk/agent.py"}
    assert kinds <= example
    assert kinds <= files("desk")
    for path in ("tests", "tests/__snapshots__"):
        assert (PRODUCT / path).is_dir()
        assert Path("desk", path).is_dir()


@pytest.mark.parametrize("name", ["a", "a" * LONGEST_NAME])
def test_its_lines_fit_into_88_columns_for_any_name(name: str) -> None:
    assert new(name).exit_code == 0
    for path in Path(name).rglob("*.py"):
        assert max(map(len, path.read_text().splitlines()), default=0) <= 88


def test_json_names_the_files() -> None:
    data = json.loads(new("desk", "--json").stdout)
    assert data["package"] == "desk"
    assert set(data["files"]) == {f"desk/{path}" for path in files("desk")}
    assert len(data["files"]) == len(FILES) + 1
    assert f"desk/{SNAPSHOT}" in data["files"]


def test_nothing_is_overwritten() -> None:
    Path("desk").mkdir()
    Path("desk/mine.txt").touch()
    done = new("desk")
    assert done.exit_code == 2
    assert "desk exists and is not changed." in done.stderr
    assert files() == {"desk/mine.txt"}


@each(
    "words, said",
    [
        (["order-desk"], "Did you mean order_desk?"),
        (["OrderDesk"], "Did you mean orderdesk?"),
        (["9lives"], "Write one such as order_desk."),
        (["class"], "Write one such as order_desk."),
        ([""], "Write one such as order_desk."),
        (["json"], "Add a word: json_agent."),
        (["tests"], "Add a word: tests_agent."),
        (["langgraph"], "Add a word: langgraph_agent."),
        (["a" * 50], "may have 30 characters"),
        (["desk", "--dir", "nowhere"], "The folder nowhere does not exist."),
    ],
)
def test_wrong_arguments_are_reported_with_a_hint(words: list[str], said: str) -> None:
    done = new(*words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in " ".join(done.stderr.split())
    assert files() == set()


def test_its_project_names_where_the_library_was_installed_from() -> None:
    new("order_desk")
    project = tomllib.loads(Path("order_desk/pyproject.toml").read_text())["project"]
    assert project["dependencies"][0] == requirement()
    extras = project["optional-dependencies"]
    assert extras["dev"][0] == requirement("cli", "testing")
    assert extras["studio"] == [requirement("serve")]
    assert all(" @ " in text for text in (requirement(), extras["dev"][0], *extras["studio"]))
    assert "agent-factory[" not in Path("order_desk/README.md").read_text()
