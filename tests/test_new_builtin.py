"""`scripts/new_builtin.py`: a new built-in that passes the checks, in each list it belongs to."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from new_builtin import ROOT, main

from tables import each

FILES = (
    *("mkdocs.yml", "CHANGELOG.md", "README.md", "CONTRIBUTING.md", "SECURITY.md"),
    "pyproject.toml",
)
FOLDERS = ("agent_factory", "benchmarks", "docs", "examples", "middleware", "scripts", "tests")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the checkout, of what a new built-in changes and its tests read."""
    ignore = shutil.ignore_patterns("node_modules", "__pycache__")
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, tmp_path / folder, symlinks=True, ignore=ignore)
    for file in FILES:
        shutil.copy(ROOT / file, tmp_path / file)
    return tmp_path


def run(tree: Path, *arguments: str) -> None:
    """Run a module of Python in the copy, which is imported in place of this checkout."""
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    command = [sys.executable, "-m", *arguments]
    process = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True)
    assert process.returncode == 0, process.stdout + process.stderr


@pytest.mark.parametrize("name", ["audit_trail", "zebra", "pii2_a"])
def test_what_it_writes_is_linted_and_in_each_list(
    tree: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([name, "--group", "When things fail"], tree) == 0
    names = capsys.readouterr().out.split("Next:")[0].split()
    assert len(names) == 10
    kind = "".join(map(str.capitalize, name.split("_"))) + "Middleware"
    for file in names:
        text = (tree / file).read_text(encoding="utf-8")
        assert kind in text or (file == "mkdocs.yml" and f"middleware/{name}.md" in text)
    python = [file for file in names if file.endswith(".py")]
    run(tree, "ruff", "check", "-q", *python)
    run(tree, "ruff", "format", "-q", "--check", *python)


@pytest.mark.long  # starts pytest
def test_its_tests_and_its_page_pass_and_it_joins_the_stacks_of_built_ins(tree: Path) -> None:
    assert main(["audit_trail"], tree) == 0
    tests = (
        *("tests/crossings", "tests/middleware", "tests/test_docs.py"),
        "tests/test_public_api.py",
    )
    which = (
        "audit_trail or AuditTrail or test_each_built_in_has_a_row or"
        " test_every_built_in_takes_part or test_type_checkers_find"
    )
    run(tree, "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", *tests, "-k", which)


@each(
    "arguments, message",
    [
        (["AuditTrail"], "got 'AuditTrail'. Write audit_trail."),
        (["audit-trail"], "got 'audit-trail'. Write audit_trail."),
        (["audit_middleware"], "got 'audit_middleware'. Write audit."),
        (["_audit"], "got '_audit'. Write audit."),
        (["class"], "got 'class'. Write one such as audit_trail."),
        (["2fast"], "got '2fast'. Write one such as audit_trail."),
        (["todo"], "middleware/todo.py exists. Write another NAME."),
        (["budget"], "middleware/budget exists. Write another NAME."),
        (["todo_list"], "TodoListMiddleware exists. Write another NAME."),
        (["a" * 40], "Write a shorter NAME."),
        (["audit", "--group", "Other"], "--group must be one of Limits, When things fail, "),
    ],
)
def test_a_name_that_cannot_be_used_is_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert message in capsys.readouterr().err
