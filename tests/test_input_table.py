"""The table of inputs names tests and files that exist."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path

import pytest
from inputs import INPUTS

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def files() -> list[str]:
    """The files of the project, those that git ignores included."""
    folders = {pattern.partition("/")[0] for row in INPUTS.values() for pattern in row}
    paths = [path for path in ROOT.iterdir() if path.is_file()]
    for folder in folders:
        paths += (ROOT / folder).rglob("*")
    return [path.relative_to(ROOT).as_posix() for path in paths]


def test_each_pattern_matches_a_file(files: list[str]) -> None:
    patterns = {pattern for patterns in INPUTS.values() for pattern in patterns}
    assert [p for p in patterns if not any(fnmatch(file, p) for file in files)] == []


def test_the_tests_of_the_table_exist() -> None:
    assert [name for name in INPUTS if not (ROOT / "tests" / name).is_file()] == []
