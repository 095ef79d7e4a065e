"""`scripts/versions.py`: which interpreters run, and which outcome fails."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import versions

THIS = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture
def outcomes(monkeypatch: pytest.MonkeyPatch) -> dict[str, bool]:
    """Whether the tests pass, by version; versions that are not in it are not on this machine."""
    outcomes: dict[str, bool] = {}
    monkeypatch.setattr(
        versions, "interpreter_of", lambda python: "python" if python in outcomes else None
    )
    monkeypatch.setattr(versions, "tested", lambda choice, python, *others: outcomes[python])
    return outcomes


@pytest.mark.parametrize(
    ("results", "code"),
    [
        ({"3.11": True, "3.12": True}, 0),
        ({"3.11": True}, 0),
        ({"3.11": True, "3.12": False}, 1),
        ({"3.11": False}, 1),
        ({}, 1),
    ],
)
def test_each_python_is_named_and_one_that_fails_or_none_at_all_is_an_error(
    results: dict[str, bool],
    code: int,
    outcomes: dict[str, bool],
    capsys: pytest.CaptureFixture[str],
) -> None:
    outcomes.update(results)
    assert versions.main(["oldest", "3.11", "3.12"]) == code
    *_, first, second = capsys.readouterr().out.splitlines()
    for python, line in (("3.11", first), ("3.12", second)):
        word = {True: "passed", False: "FAILED", None: "not on this machine"}[results.get(python)]
        assert line.startswith(f"Python {python}, oldest versions: {word}")


def test_an_interpreter_is_found_by_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"python{THIS}").symlink_to(sys.executable)
    broken = tmp_path / "python3.99"  # as a shim of a version that was not chosen
    broken.write_text("#!/bin/sh\nexit 127\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/usr/bin{os.pathsep}/bin")
    assert versions.interpreter_of(THIS)
    assert versions.interpreter_of("3.99") is None
    assert versions.interpreter_of("3.98") is None
