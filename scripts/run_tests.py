"""Run the tests: an estimate first, failed tests once more, and the failures at the end.

Run as ``python scripts/run_tests.py PYTEST_ARGUMENTS``. ``--coverage`` measures the package.
``--reruns`` runs each failed test once more, alone, and passes where the rule of `flakes.py` allows
it. Continuous integration names a folder for the outcome in ``OUTCOMES``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import flakes
from changes import ROOT
from flakes import Flake

ESTIMATES = ROOT / ".pytest_cache" / "seconds.json"
"""How long the same arguments took before on this machine."""


def main(arguments: Sequence[str]) -> int:
    """Run pytest with some arguments; the exit code, or 0 if each failed test passed again."""
    options = list(arguments)
    coverage, reruns = (_take(options, flag) for flag in ("--coverage", "--reruns"))
    begin = time.monotonic()
    _announce(options)
    _compile(options)
    code, outcome = run(options, coverage=coverage)
    seconds = time.monotonic() - begin
    failed = outcome.pop("failed", [])
    summary = {**outcome, "failed": len(failed), "rerun": 0}
    if code == 0:
        _remember(options, seconds)
    if reruns and code == 1 and failed:
        code, summary["rerun"] = second_attempts(options, failed)
    if folder := os.environ.get("OUTCOMES"):
        Path(folder, f"{time.time_ns()}.json").write_text(json.dumps(summary), encoding="utf-8")
    return code


def run(
    options: Sequence[str], *, coverage: bool = False, alone: bool = False
) -> tuple[int, dict[str, Any]]:
    """The exit code of pytest, and the outcome of `tests/outcomes.py`."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "outcome.json")
        before = ["-m", "coverage", "run"] if coverage else []
        after = ["-n0"] if alone else []
        command = [sys.executable, *before, "-m", "pytest", *options, *after, f"--outcomes={path}"]
        process = subprocess.Popen(command, cwd=ROOT)
        while True:
            try:
                code = process.wait()
                break
            except KeyboardInterrupt:  # pytest was interrupted as well, and prints failures
                continue
        return code, json.loads(path.read_text()) if path.exists() else {}


def second_attempts(options: Sequence[str], failed: Sequence[dict[str, Any]]) -> tuple[int, int]:
    """Run each failed test once more, alone: the exit code, and how many passed then."""
    try:
        listed = flakes.quarantine()
    except (TypeError, ValueError) as error:
        print(f"\nRefused: {error}")
        return 1, 0
    counted = [test for test in failed if test["id"] not in listed]
    if len(counted) > flakes.MOST:
        print(f"\n{len(counted)} tests failed, more than {flakes.MOST}: none runs once more.")
        return 1, 0
    others = _without_selection(options)
    again: list[dict[str, Any]] = []
    failing: list[dict[str, Any]] = []
    for test in failed:
        print(f"\nOnce more, alone: {test['id']}", flush=True)
        code, _ = run([*others, test["id"]], alone=True)
        (failing if code else again).append(test)
    path, this = flakes.report_file(), os.environ.get("RUN") or flakes.new_run()
    past = flakes.read(path)
    present = [flake for flake in past if flake.run == this]  # of the targets before
    present += [Flake.of(test, this) for test in again]
    earlier = [flake for flake in past if flake.run != this]
    reasons = [f"{test['id']} failed twice" for test in failing if test["id"] not in listed]
    reasons += flakes.refusals(present, earlier, listed)
    flakes.write(path, [*earlier, *present])
    for test in again:
        print(f"Passed in its second attempt: {test['id']}: {test['message'].splitlines()[0]}")
    for reason in reasons:
        print(f"Refused: {reason}.")
    return int(bool(reasons)), len(again)


def _take(options: list[str], flag: str) -> bool:
    present = flag in options
    if present:
        options.remove(flag)
    return present


def _without_selection(options: Sequence[str]) -> list[str]:
    """The options by which a test is the same alone: no workers, paths, and end of a slice."""
    others: list[str] = []
    words = iter(options)
    for word in words:
        if word in ("-n", "-m", "-k"):
            next(words, None)
        elif word == "-p":
            others += [word, next(words, "")]
        elif word.startswith("-") and not word.startswith("--maxprocesses"):
            others.append("--tier=night" if word == "--tier=slice" else word)
    return others


def _compile(options: Sequence[str]) -> None:
    """Compile the tests of a new checkout once, before the workers do."""
    if "-n" not in options or any((ROOT / "tests" / "__pycache__").glob("*-pytest-*.pyc")):
        return
    print("This checkout is new: its tests are compiled first ...", flush=True)
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *_without_selection(options)]
    subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL)


def _announce(options: Sequence[str]) -> None:
    seconds = _estimates().get(" ".join(options))
    if seconds is not None:
        print(f"These tests took {seconds / 60:.1f} minutes last time.", flush=True)
    elif "--tier=short" in options:
        print("The tests take about four minutes on two processors.", flush=True)


def _remember(options: Sequence[str], seconds: float) -> None:
    ESTIMATES.parent.mkdir(exist_ok=True)
    ESTIMATES.write_text(json.dumps({**_estimates(), " ".join(options): seconds}))


def _estimates() -> dict[str, float]:
    try:
        estimates: dict[str, float] = json.loads(ESTIMATES.read_text())
    except (OSError, ValueError):
        return {}
    return estimates


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
