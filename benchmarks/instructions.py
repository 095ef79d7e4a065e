"""Count the instructions of runs: `python -m benchmarks.instructions guards`.

A busy machine hides what takes a few microseconds of a turn. Valgrind counts the instructions of a
process, which vary by about a thousandth. They leave out how long each of them takes: a time tells
more where it can be read.
"""

from __future__ import annotations

import argparse
import gc
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from benchmarks.efforts import HEADLINE
from benchmarks.groups import GROUPS
from benchmarks.harness import Contender, Match

RUNS = 3, 33
"""How often a contender runs in each of two processes: their difference leaves out the start."""

_VALGRIND = ("valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null")


def main(arguments: Sequence[str] | None = None) -> int:
    """Count for each contender of some groups, and print a table."""
    parser = argparse.ArgumentParser("python -m benchmarks.instructions", description=__doc__)
    parser.add_argument("groups", nargs="+", choices=GROUPS, help="groups that compare runs")
    parser.add_argument("--alone", nargs=3, metavar=("MATCH", "CONTENDER", "RUNS"), help="internal")
    asked = parser.parse_args(arguments)
    matches = [match for name in asked.groups for match in matches_of(name)]
    if asked.alone:
        name, contender, runs = asked.alone
        run_alone(next(match for match in matches if match.name == name), contender, int(runs))
        return 0
    if shutil.which(_VALGRIND[0]) is None:
        print("Valgrind is missing: apt-get install valgrind", file=sys.stderr)
        return 1
    print("| what | of / over | instructions | each |\n|---|---|---|---|", flush=True)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for match in matches:
            names = dict.fromkeys(one for pair in match.pairs for one in (pair.of, pair.over))
            asked_for = [name for name in names if name]
            print(f"{match.group}: {match.name}, {len(asked_for)} contenders", file=sys.stderr)
            counts = pool.map(lambda name, match=match: count(match, name), asked_for)
            found = dict(zip(asked_for, counts, strict=True))
            for pair in match.pairs:
                if pair.over:
                    of, over = found[pair.of], found[pair.over]
                    each = f"{of / 1e6:.2f} / {over / 1e6:.2f} million a run"
                    what = f"{match.group}: {match.name} | {pair.of} / {pair.over}"
                    print(f"| {what} | {of / over:.3f} | {each} |", flush=True)
    return 0


def matches_of(group: str) -> list[Match]:
    """The matches of a group whose contenders run in one process."""
    return [work for work in GROUPS[group](HEADLINE) if isinstance(work, Match)]


def count(match: Match, contender: str) -> float:
    """The instructions of one run of a contender.

    Raises:
        RuntimeError: Its process has failed; the message is what it wrote.
    """
    few, many = (_instructions(match, contender, runs) for runs in RUNS)
    return (many - few) / (RUNS[1] - RUNS[0])


def _instructions(match: Match, contender: str, runs: int) -> int:
    """The instructions of a process in which a contender runs some times."""
    alone = [match.group, "--alone", match.name, contender, str(runs)]
    done = subprocess.run(
        [*_VALGRIND, sys.executable, "-m", "benchmarks.instructions", *alone],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONHASHSEED": "1", "LANGSMITH_TRACING": "false"},
    )
    if done.returncode:
        raise RuntimeError(f"{contender}: {done.stderr}")
    return counted(done.stderr)


def counted(report: str) -> int:
    """The number of instructions in what Valgrind writes.

    >>> counted("==7== I refs:        1,234,567\\n")
    1234567
    """
    found = re.search(r"I\s+refs:\s+([\d,]+)", report)
    if found is None:
        raise RuntimeError(f"Valgrind has counted no instructions: {report}")
    return int(found[1].replace(",", ""))


def run_alone(match: Match, contender: str, runs: int) -> None:
    """Run one contender of a match; the garbage collector would come at any time."""
    gc.disable()
    with match.open() as contenders:
        one = contenders[contender]
        assert isinstance(one, Contender)
        for _ in range(runs):
            one.prepare()
            one.run()
            one.tidy()


if __name__ == "__main__":
    sys.exit(main())
