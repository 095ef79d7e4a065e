"""Run targets of the Makefile, each to its end, and print one table.

Run as ``python3 scripts/run_targets.py setup --then "test COVERAGE=1" long --parallel check docs``,
with the Python of the system: a target makes its own environment. Targets after ``--parallel`` run
at the same time as those before it, one after the other, and print when they end. Targets after
``--then`` begin when all before it have ended. It fails if a target fails.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from flakes import new_run

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Row:
    """A target and its outcome."""

    target: str
    code: int
    tests: int
    failed: int
    rerun: int
    seconds: float
    processor: float
    """Seconds of processor time."""

    def __str__(self) -> str:
        verdict = "passed" if self.code == 0 else f"FAILED ({self.code})"
        tests = [f"{n:,}" if self.tests else "" for n in (self.tests, self.failed, self.rerun)]
        minutes = f"{self.seconds / 60:.1f}"
        return _line([self.target, verdict, *tests, minutes, f"{self.processor:,.0f}"])


COLUMNS = ("target", "", "tests", "failed", "rerun", "minutes", "CPU s")


def _line(cells: Sequence[str]) -> str:
    first, second, *others = cells
    return f"{first:<30} {second:<12}" + "".join(f"{cell:>9}" for cell in others)


def run(target: str, *, parallel: bool = False) -> Row:
    """Run a target; the tests write their counts to a folder in the environment.

    Args:
        target: A target with variables, in the form for `make`.
        parallel: Print the output at the end, not mixed with the output of another target.
    """
    with tempfile.TemporaryDirectory() as folder, open(Path(folder, "output"), "w+") as output:
        begin = time.monotonic()
        process = subprocess.Popen(
            ["make", "--no-print-directory", *shlex.split(target)],
            cwd=ROOT,
            env={**os.environ, "OUTCOMES": folder},
            stdout=output if parallel else None,
            stderr=subprocess.STDOUT if parallel else None,
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if parallel:
            output.seek(0)
            print(f"\n=== parallel: make {target}\n{output.read()}", end="", flush=True)
        outcomes = [json.loads(path.read_text()) for path in Path(folder).glob("*.json")]
    counts = {name: sum(o.get(name, 0) for o in outcomes) for name in ("passed", "failed", "rerun")}
    return Row(
        target=target,
        code=process.returncode,
        tests=counts["passed"] + counts["failed"],
        failed=counts["failed"] - counts["rerun"],
        rerun=counts["rerun"],
        seconds=time.monotonic() - begin,
        processor=usage.ru_utime + usage.ru_stime,
    )


def run_stage(targets: Sequence[str]) -> list[Row]:
    """Run targets in sequence, and targets after ``--parallel`` at the same time."""
    at = targets.index("--parallel") if "--parallel" in targets else len(targets)
    with ThreadPoolExecutor(1) as pool:
        futures = [pool.submit(run, target, parallel=True) for target in targets[at + 1 :]]
        rows = []
        for number, target in enumerate(targets[:at], 1):
            print(f"\n=== {number} of {at}: make {target}", flush=True)
            rows.append(run(target))
        return rows + [future.result() for future in futures]


def main(arguments: Sequence[str]) -> int:
    """Run all targets, and print the table."""
    os.environ.setdefault("RUN", new_run())
    begin = time.monotonic()
    rows, rest = [], [*arguments]
    while rest:
        at = rest.index("--then") if "--then" in rest else len(rest)
        rows += run_stage(rest[:at])
        rest = rest[at + 1 :]
    whole = Row(
        target="all",
        code=max(abs(row.code) for row in rows),
        tests=sum(row.tests for row in rows),
        failed=sum(row.failed for row in rows),
        rerun=sum(row.rerun for row in rows),
        seconds=time.monotonic() - begin,
        processor=sum(row.processor for row in rows),
    )
    table = "\n".join([_line(COLUMNS), *map(str, rows), str(whole)])
    print(f"\n{table}", flush=True)
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(summary).open("a", encoding="utf-8") as page:
            page.write(f"```text\n{table}\n```\n")
    return int(whole.code != 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
