"""`new middleware`: its files pass their tests, and replace no others."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import pytest

pytest.importorskip("typer", reason="the extra cli is not installed")

from typer.testing import CliRunner, Result

from agent_factory.cli.app import app
from agent_factory.cli.new import HOOKS, LONGEST_NAME, Skeleton, snake_case
from commands import python
from tables import each

TYPED = Path(__file__).resolve().parent / "typing"


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


@each("name, hook", product(["X", "A" * LONGEST_NAME], HOOKS))
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
        (["my-guard"], "Did you mean MyGuard?"),
        (["guard"], "Did you mean Guard?"),
        (["Audit_Trail"], "Did you mean AuditTrail?"),
        (["class"], "Did you mean Class?"),
        (["9lives"], "Write one such as AuditTrail."),
        ([""], "Write one such as AuditTrail."),
        (["None"], "Write one such as AuditTrail."),
        (["Import"], "would hide"),
        (["Types"], "Add a word: TypesMiddleware."),
        (["A" * 50], "may have 36 characters"),
        (["Guard", "--hooks", "before_modle"], "Use any of before_agent, before_model"),
        (["Guard", "--hooks", "awrap_tool_call"], "Use around_tool"),
        (["Guard", "--hooks", " ,"], "--hooks is empty"),
        (["Guard", "--dir", "nowhere"], "The folder nowhere does not exist."),
    ],
)
def test_wrong_arguments_are_reported_with_a_hint(words: list[str], said: str) -> None:
    done = new(*words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in " ".join(done.stderr.split())
    assert files() == set()
