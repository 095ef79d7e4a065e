"""Flaky tests: the report of past runs, the quarantine, and the rule by which a run passes.

A failed test runs once more, alone. If it passes then, the run passes, and the report keeps the
test. The run is refused all the same where that would hide a fault: `refusals`.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from changes import ROOT, git
from changes import touched as touched_by_change

MOST = 3
"""Number of tests of a run that may pass in a second attempt."""

RUNS = 20
"""Runs whose reports count."""

DAYS = 7
"""Longest time of a test in quarantine, in days."""

ENTRIES = 10
"""Largest number of tests in quarantine."""

QUARANTINE = ROOT / "tests" / "quarantine.toml"


def new_run() -> str:
    """The name of a new run: the commit and the time."""
    return f"{git('rev-parse', 'HEAD') or 'unknown'} {datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"


def report_file() -> Path:
    """The report of past runs: `FLAKES` in the environment, or the file of this project."""
    return ROOT / os.environ.get("FLAKES", "tests/flakes.jsonl")


@dataclass(frozen=True)
class Flake:
    """A test with a failed first attempt and a passed second attempt."""

    id: str
    message: str
    law: bool
    run: str
    """The commit and the moment of the run."""
    date: str
    load: float
    """Processes that were ready to run, in the mean of a minute."""
    processors: int

    @classmethod
    def of(cls, failure: dict[str, Any], run: str) -> Flake:
        """A flake of this moment, from a failed test of `tests/outcomes.py`."""
        load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
        today = date.today().isoformat()
        return cls(**failure, run=run, date=today, load=load, processors=os.cpu_count() or 1)


def read(path: Path) -> list[Flake]:
    """The flakes of past runs, the oldest first."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    return [Flake(**json.loads(line)) for line in lines if line.strip()]


def write(path: Path, flakes: Sequence[Flake]) -> None:
    """Store the flakes of the newest runs."""
    runs = list(dict.fromkeys(flake.run for flake in flakes))[-RUNS:]
    lines = [json.dumps(asdict(flake)) + "\n" for flake in flakes if flake.run in runs]
    path.write_text("".join(lines), encoding="utf-8")


@dataclass(frozen=True)
class Entry:
    """A test in quarantine, which runs and reports, and refuses no run."""

    id: str
    since: date
    until: date
    reason: str


def quarantine(path: Path = QUARANTINE, today: date | None = None) -> dict[str, Entry]:
    """The tests in quarantine, by their ids.

    Raises:
        ValueError: The quarantine has too many tests, or a test for too long.
    """
    if not path.exists():
        return {}
    rows = tomllib.loads(path.read_text(encoding="utf-8")).get("test", [])
    entries = [Entry(**row) for row in rows]
    if len(entries) > ENTRIES:
        raise ValueError(
            f"{path.name} may have {ENTRIES} tests, got {len(entries)}. Repair some of them."
        )
    for entry in entries:
        if entry.until - entry.since > timedelta(DAYS):
            raise ValueError(
                f"{entry.id} may be in {path.name} for {DAYS} days, got {entry.since} to"
                f" {entry.until}. Name an earlier day."
            )
        if entry.until < (today or date.today()):
            raise ValueError(
                f"{entry.id} was in {path.name} until {entry.until}. Repair it, or delete it."
            )
    return {entry.id: entry for entry in entries}


def refusals(
    flakes: Sequence[Flake],
    earlier: Iterable[Flake],
    exempt: Iterable[str] = (),
    touched: Callable[[str], list[str]] | None = None,
    repaired: Callable[[Flake], bool] | None = None,
) -> list[str]:
    """The reasons to refuse a run though its failed tests passed in their second attempt.

    Args:
        flakes: The flakes of this run.
        earlier: The flakes of past runs.
        exempt: The ids of tests in quarantine.
        touched: Changes behind a test; default: since the last release of main.
        repaired: Return True if a test has changed since a past flake; by default as git says.
    """
    touched, repaired = touched or touched_by_change, repaired or has_changed_since
    counted = [flake for flake in flakes if flake.id not in set(exempt)]
    past = list(earlier)
    reasons = []
    if len(counted) > MOST:
        reasons.append(f"{len(counted)} tests needed a second attempt, more than {MOST}")
    for flake in counted:
        if flake.law:
            reasons.append(f"{flake.id} is a law: it holds always, or not at all")
        if parts := touched(flake.id):
            reasons.append(f"{flake.id} is about what changed: {', '.join(parts[:5])}")
        again = [p for p in past if p.id == flake.id and p.run != flake.run and not repaired(p)]
        if again:
            days = ", ".join(sorted({p.date for p in again}))
            reasons.append(f"{flake.id} needed a second attempt before: {days}")
    return reasons


def has_changed_since(flake: Flake) -> bool:
    """Return True if the file of a test changed after the run of a flake."""
    commit, file = flake.run.partition(" ")[0], flake.id.partition("::")[0]
    return bool(git("diff", "--name-only", commit, "HEAD", "--", file))
