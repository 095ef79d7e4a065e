"""The table of inputs names tests and files that exist."""

from __future__ import annotations

import subprocess
from fnmatch import fnmatch
from pathlib import Path

import pytest
from inputs import INPUTS

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def files() -> list[str]:
    """The files of the repository."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if process.returncode:
        pytest.skip("no repository of git")
    return process.stdout.splitlines()


def test_each_pattern_matches_a_file(files: list[str]) -> None:
    patterns = {pattern for patterns in INPUTS.values() for pattern in patterns}
    assert [p for p in patterns if not any(fnmatch(file, p) for file in files)] == []


def test_the_tests_of_the_table_exist() -> None:
    assert [name for name in INPUTS if not (ROOT / "tests" / name).is_file()] == []
