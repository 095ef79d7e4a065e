"""Measure and print: `python -m benchmarks --help` says how."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.efforts import FULL, GOALS_ONLY, HEADLINE, Effort
from benchmarks.groups import GROUPS
from benchmarks.harness import Figure, Work, is_steady
from benchmarks.latency import check
from benchmarks.progress import Bar
from benchmarks.report import doubtful, read, report, shortfalls, unmeasured
from benchmarks.store import reports_in, store, stored
from benchmarks.written import ROOT, write

_LONG = {"decisions", "batteries", "reading", "floor", "service", "pages", "peers", "temporal"}

HEADLINES = [name for name in GROUPS if name not in _LONG]
"""The groups that are measured where only headline rows are asked for."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what was asked for, or read it.

    Returns:
        1 where the machine was too unsteady to measure on, or with `--check` where a goal is not
        reached; else 0.
    """
    asked = _parser().parse_args(arguments)
    found = reports_in(asked.read) if asked.read else [report(_measured(_wanted(asked)))]
    if asked.former:
        former = read(asked.former.read_text(encoding="utf-8"))
        found = [replace(each, former=former) for each in found]
    print("\n\n".join(each.markdown() for each in found))
    if asked.json and not asked.read:
        asked.json.write_text(found[0].json())
    if asked.write_readme:
        for each in found:
            store(each.groups())
        write(stored(), ROOT)
    figures = [figure for each in found for figure in each.figures]
    return max(_steadiness(figures), _judgement(figures, asked.only) if asked.check else 0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m benchmarks", description="Measure agents.")
    parser.add_argument("--headline", action="store_true", help="the headline rows: three minutes")
    parser.add_argument(
        "--check", action="store_true", help="what has a goal, and whether it is reached"
    )
    parser.add_argument("--only", action="append", choices=GROUPS, help="this group; repeatable")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--read", type=Path, metavar="FILE", help="measure nothing: read figures")
    parser.add_argument(
        "--former",
        type=Path,
        metavar="FILE",
        help="figures over another version of langchain, shown in a column",
    )
    parser.add_argument(
        "--write-readme",
        action="store_true",
        help="store the figures of these groups, and write all pages and pictures from the stored",
    )
    return parser


def _wanted(asked: argparse.Namespace) -> list[Work]:
    effort, groups = _effort(asked)
    wanted = [work for name in asked.only or groups for work in GROUPS[name](effort)]
    if asked.check:
        wanted = [work for work in wanted if any(pair.goal for pair in work.pairs)]
    return [*check(effort), *wanted]


def _effort(asked: argparse.Namespace) -> tuple[Effort, list[str]]:
    if asked.headline:
        return HEADLINE, HEADLINES
    return (GOALS_ONLY if asked.check else FULL), list(GROUPS)


def _measured(wanted: Sequence[Work]) -> list[Figure]:
    figures: list[Figure] = []
    with Bar(wanted) as bar:
        for work in wanted:
            bar.begin(work)
            figures += work.figures(after_round=bar.advance)
    return figures


def _steadiness(figures: Sequence[Figure]) -> int:
    checks = [figure for figure in figures if figure.group == "check"]
    if any(figure.cpu and not is_steady(figure.cpu) for figure in checks):
        _say("An agent against itself does not read 1: no figure can be trusted.")
        return 1
    if not all(is_steady(figure.value) for figure in checks):
        _say("The machine is busy: only the CPU column can be trusted.")
    return 0


def _judgement(figures: Sequence[Figure], only: Sequence[str] | None) -> int:
    short = shortfalls(figures) + ([] if only else unmeasured(figures))
    hidden = doubtful(figures)
    for line in hidden:
        _say(f"within noise: {line}")
    for line in short:
        _say(f"falls short: {line}")
    if hidden:
        _say(f"Noise hides {len(hidden)} of them: a quieter machine, or more rounds, would tell.")
    elif not short:
        _say("Every goal is reached.")
    return 1 if short else 0


def _say(line: str) -> None:
    print(line, file=sys.stderr)


if __name__ == "__main__":
    # A tracer that happens to be configured would be measured too, and would send the runs away.
    os.environ["LANGSMITH_TRACING"] = "false"
    sys.exit(main())
