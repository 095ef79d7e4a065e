"""Measure and print: `python -m benchmarks [--json FILE] [--quick] [--only GROUP]`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.groups import GROUPS, QUICK, Effort, check
from benchmarks.harness import Comparison, Figure, compare, is_steady
from benchmarks.progress import Bar
from benchmarks.report import as_json, table, versions


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what was asked for. Returns 1 where the machine was too unsteady to measure on."""
    asked = _parser().parse_args(arguments)
    effort = QUICK if asked.quick else Effort()
    checks = list(check(effort))
    wanted = [c for name in asked.only or GROUPS for c in GROUPS[name](effort)]
    figures = _measured([*checks, *wanted])
    print(", ".join(f"{name} {number}" for name, number in versions().items()), end="\n\n")
    print(table(figures))
    if asked.json:
        asked.json.write_text(as_json(figures))
    return _complain(figures[: len(checks)])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m benchmarks", description="Measure agents.")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, wider ranges")
    parser.add_argument("--only", action="append", choices=GROUPS, help="this group; repeatable")
    return parser


def _measured(comparisons: Sequence[Comparison]) -> list[Figure]:
    with Bar(sum(comparison.rounds for comparison in comparisons)) as bar:
        return [compare(comparison, after_round=bar.advance) for comparison in comparisons]


def _complain(checks: Iterable[Figure]) -> int:
    wrong = [figure for figure in checks if not is_steady(figure.cpu)]
    waits = [figure for figure in checks if not is_steady(figure.wall)]
    if wrong:
        print(
            "\nAn agent against itself does not read 1: no figure can be trusted.", file=sys.stderr
        )
    elif waits:
        print("\nThe machine is busy: only the CPU column can be trusted.", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    # A tracer that happens to be configured would be measured too, and would send the runs away.
    os.environ["LANGSMITH_TRACING"] = "false"
    sys.exit(main())
