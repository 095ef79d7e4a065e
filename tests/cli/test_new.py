"""`new middleware` and `new agent`: their files pass their tests, and replace no others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from itertools import product
from pathlib import Path

import pytest

pytest.importorskip("typer", reason="the extra cli is not installed")

from typer.testing import CliRunner, Result

from agent_factory.cli.app import app
from agent_factory.cli.new import CLASS, FILES, HOOKS, PACKAGE, SNAPSHOT, Skeleton, snake_case
from agent_factory.errors import requirement
from commands import python
from tables import each

TYPED = Path(__file__).resolve().parents[1] / "typing"


pytestmark = pytest.mark.usefixtures("empty_folder")


def new(*words: str) -> Result:
    return CliRunner().invoke(app, ["new", "middleware", *words])


def files() -> set[str]:
    return {path.as_posix() for path in Path().rglob("*.py")}


@pytest.mark.long
def test_the_files_pass_their_tests_and_doctest() -> None:
    done = new("AuditTrail", "--hooks", ",".join(HOOKS))
    assert done.exit_code == 0
    assert files() == {"audit_trail.py", "test_audit_trail.py"}
    assert done.stdout.splitlines()[0] == "Wrote audit_trail.py and test_audit_trail.py."
    tested = python("-m", "pytest", "-q", "-p", "no:cacheprovider", "--doctest-modules")
    assert "4 passed" in tested.stdout, tested.stdout


def test_the_files_are_those_that_mypy_and_ruff_check_here() -> None:
    """tests/typing holds it, where mypy and ruff look at it; see CONTRIBUTING.md."""
    skeleton = Skeleton("AuditTrail", "skeleton", HOOKS)
    assert (TYPED / "skeleton.py").read_text(encoding="utf-8") == skeleton.code
    tests = (TYPED / "skeleton_tests.py").read_text(encoding="utf-8")
    assert tests.partition("\n")[2] == skeleton.tests  # its first line is for ruff


@each("name, hook", product(["X", "A" * CLASS.longest], HOOKS))
def test_its_lines_fit_into_88_columns_for_any_name(name: str, hook: str) -> None:
    skeleton = Skeleton(name, snake_case(name), [hook])
    assert max(map(len, (skeleton.code + skeleton.tests).splitlines())) <= 88
    for text in (skeleton.code, skeleton.tests):
        compile(text, "new", "exec")


def test_only_the_requested_hooks_are_written() -> None:
    new("Guard", "--hooks", "after_model, around_tool")
    code = Path("guard.py").read_text(encoding="utf-8")
    assert [hook for hook in HOOKS if f"def {hook}(" in code] == ["after_model", "around_tool"]
    assert "ModelRequest" not in code
    new("Plain")
    assert "def before_model(" in Path("plain.py").read_text(encoding="utf-8")


def test_in_a_package_the_tests_import_from_it() -> None:
    Path("shop/desk").mkdir(parents=True)
    for folder in ("shop", "shop/desk"):
        Path(folder, "__init__.py").touch()
    assert new("Guard", "--dir", "shop/desk").exit_code == 0
    assert "from shop.desk.guard import (" in Path("shop/desk/test_guard.py").read_text()


def test_json_names_the_files() -> None:
    data = json.loads(new("Guard", "--json").stdout)
    files = ["guard.py", "test_guard.py"]
    assert data == {"class": "Guard", "hooks": ["before_model"], "files": files}


@pytest.mark.parametrize("there", ["guard.py", "test_guard.py"])
def test_nothing_is_overwritten(there: str) -> None:
    Path(there).write_text("mine", encoding="utf-8")
    done = new("Guard")
    assert done.exit_code == 2
    assert f"{there} exists and is not changed." in done.stderr
    assert files() == {there}
    assert Path(there).read_text(encoding="utf-8") == "mine"


@each(
    "words, said",
    [
        (["middleware", "my-guard"], "Did you mean MyGuard?"),
        (["middleware", "guard"], "Did you mean Guard?"),
        (["middleware", "Audit_Trail"], "Did you mean AuditTrail?"),
        (["middleware", "class"], "Did you mean Class?"),
        (["middleware", "9lives"], "Write one such as AuditTrail."),
        (["middleware", ""], "Write one such as AuditTrail."),
        (["middleware", "None"], "Write one such as AuditTrail."),
        (["middleware", "Import"], "would hide"),
        (["middleware", "Types"], "Add a word: TypesMiddleware."),
        (["middleware", "A" * 50], "may have 36 characters"),
        (
            ["middleware", "Guard", "--hooks", "before_modle"],
            "Use any of before_agent, before_model",
        ),
        (["middleware", "Guard", "--hooks", "awrap_tool_call"], "Use around_tool"),
        (["middleware", "Guard", "--hooks", " ,"], "--hooks is empty"),
        (["middleware", "Guard", "--dir", "nowhere"], "The folder nowhere does not exist."),
        (["agent", "order-desk"], "Did you mean order_desk?"),
        (["agent", "OrderDesk"], "Did you mean orderdesk?"),
        (["agent", "9lives"], "Write one such as order_desk."),
        (["agent", "class"], "Write one such as order_desk."),
        (["agent", ""], "Write one such as order_desk."),
        (["agent", "json"], "Add a word: json_agent."),
        (["agent", "tests"], "Add a word: tests_agent."),
        (["agent", "langgraph"], "Add a word: langgraph_agent."),
        (["agent", "a" * 50], "may have 30 characters"),
        (["agent", "desk", "--dir", "nowhere"], "The folder nowhere does not exist."),
    ],
)
def test_wrong_arguments_are_reported_with_a_hint(words: list[str], said: str) -> None:
    done = CliRunner().invoke(app, ["new", *words])
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in " ".join(done.stderr.split())
    assert not any(Path().iterdir())


ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ROOT / "examples" / "product"


def new_agent(*words: str) -> Result:
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


def files_in(folder: str = ".") -> set[str]:
    """What was written; where Python keeps bytecode, drawing the plan leaves some."""
    found = (path for path in Path(folder).rglob("*") if path.parent.name != "__pycache__")
    return {path.relative_to(folder).as_posix() for path in found if path.is_file()}


@pytest.mark.long
def test_its_tests_pass_and_it_is_formatted() -> None:
    done = new_agent("order_desk")
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
    new_agent("order_desk")
    # The cache of the checkout, which has types of the libraries.
    cache = str(ROOT / ".mypy_cache")
    assert "no issues found" in runs("mypy", "--cache-dir", cache, MYPYPATH=str(ROOT))


@pytest.mark.long
def test_other_commands_take_it_and_its_recordings() -> None:
    new_agent("order_desk")
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
    new_agent("desk")
    example = {path for path in files_in(str(PRODUCT)) if "cassettes" not in path}
    kinds = {"README.md", "pyproject.toml", "desk/__init__.py", "desk/agent.py"}
    assert kinds <= example
    assert kinds <= files_in("desk")
    for path in ("tests", "tests/__snapshots__"):
        assert (PRODUCT / path).is_dir()
        assert Path("desk", path).is_dir()


@pytest.mark.parametrize("name", ["a", "a" * PACKAGE.longest])
def test_lines_of_an_agent_fit_into_88_columns_for_any_name(name: str) -> None:
    assert new_agent(name).exit_code == 0
    for path in Path(name).rglob("*.py"):
        assert max(map(len, path.read_text().splitlines()), default=0) <= 88


def test_json_names_the_files_of_an_agent() -> None:
    data = json.loads(new_agent("desk", "--json").stdout)
    assert data["package"] == "desk"
    assert set(data["files"]) == {f"desk/{path}" for path in files_in("desk")}
    assert len(data["files"]) == len(FILES) + 1
    assert f"desk/{SNAPSHOT}" in data["files"]


def test_no_folder_is_overwritten() -> None:
    Path("desk").mkdir()
    Path("desk/mine.txt").touch()
    done = new_agent("desk")
    assert done.exit_code == 2
    assert "desk exists and is not changed." in done.stderr
    assert files_in() == {"desk/mine.txt"}


def test_its_project_names_where_the_library_was_installed_from() -> None:
    new_agent("order_desk")
    project = tomllib.loads(Path("order_desk/pyproject.toml").read_text())["project"]
    assert project["dependencies"][0] == requirement()
    extras = project["optional-dependencies"]
    assert extras["dev"][0] == requirement("cli", "testing")
    assert extras["studio"] == [requirement("serve")]
    assert all(" @ " in text for text in (requirement(), extras["dev"][0], *extras["studio"]))
    assert "agent-factory[" not in Path("order_desk/README.md").read_text()
