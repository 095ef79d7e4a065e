"""Costs of the source for a reader: files entered, frames stacked, words to learn, copies.

Run as ``python scripts/figures.py``. ``--details`` prints the places, ``--json`` one object, and
``--check`` fails where a figure is worse than its goal and its ratchet. CONTRIBUTING.md explains
the figures.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from flakes import quarantine
from measures import calls, source, words
from measures.source import ROOT, Source
from measures.tests import fixed_waits, private_names

import agent_factory


@dataclass(frozen=True)
class Figure:
    """A figure with a goal, and a ratchet if the goal is missed.

    A ratchet is the value of today, follows the value towards the goal, and never goes back.
    """

    name: str
    value: float
    goal: float
    ratchet: float | None = None
    rises: bool = False
    """The goal is a minimum, not a maximum."""
    slack: float = 0
    """Largest distance of a better value from the ratchet. Beyond, the ratchet has to follow."""
    counts_calls: bool = False
    """The value depends on the version of Python: before 3.12 a comprehension is a call."""

    @property
    def problem(self) -> str | None:
        """Problem for `--check`, or None."""
        sign = -1 if self.rises else 1
        value, goal = sign * self.value, sign * self.goal
        if self.ratchet is None:
            return f"the goal of {self.goal:,} is missed" if value > goal else None
        ratchet = sign * self.ratchet
        if value > max(goal, ratchet):
            return f"worse than the ratchet of {self.ratchet:,}"
        if self.counts_calls and sys.version_info >= (3, 12):
            return None
        if value <= goal:
            return "the goal is reached: remove the ratchet"
        if value < ratchet - self.slack:
            return f"{'raise' if self.rises else 'lower'} the ratchet to {self.value:,}"
        return None

    def __str__(self) -> str:
        """A row: name, value, goal, ratchet."""
        ratchet = "" if self.ratchet is None else f"ratchet {self.ratchet:,}"
        return f"{self.name:<52} {self.value:>7,}   {self.goal:>5,}   {ratchet}".rstrip()


def figures() -> list[Figure]:
    """Every figure, in the order in which they are printed."""
    files, tests = source.sources(), source.sources_of_tests()
    return [*of_calls(), *of_source(files), *of_lines(files, tests), *of_tests(tests)]


def of_calls() -> Iterator[Figure]:
    """The figures of running code; the default run comes first."""
    fused, single = calls.tool_call(fused=True), calls.tool_call(fused=False)
    frames = [len(calls.traceback_frames(fused=fused)) for fused in (True, False)]
    rows = (
        ("files that a tool call behind two layers enters", len(fused.files), 12, None),
        ("deepest stack of own frames there", fused.deepest, 10, None),
        ("own frames in the traceback of a tool", frames[0], 9, None),
        ("calls of own functions in a tool call", fused.calls, 330, None),
        ("moves between files there", fused.moves, 110, None),
        ("hook by hook: files", len(single.files), 10, None),
        ("hook by hook: deepest stack", single.deepest, 9, None),
        ("hook by hook: traceback", frames[1], 9, None),
        ("hook by hook: calls", single.calls, 220, None),
        ("hook by hook: moves", single.moves, 68, None),
        ("files that building an agent enters", len(calls.build().files), 14, 17),
    )
    for name, value, goal, ratchet in rows:
        yield Figure(name, value, goal, ratchet, counts_calls=True)
    approval, worker = calls.approval(), calls.decision_of_worker()
    decisions = (
        ("files that `review.approve` enters", len(approval.files), 22, 30, 0),
        ("`review.approve`: deepest stack", approval.deepest, 16, 19, 0),
        ("`review.approve`: calls", approval.calls, 480, 540, 0),
        ("files in which a worker carries out a decision", len(worker.files), 30, 42, 0),
        ("a worker's decision: deepest stack", worker.deepest, 16, 20, 0),
        ("a worker's decision: calls", worker.calls, 600, 675, 60),
    )
    for name, value, goal, ratchet, slack in decisions:
        yield Figure(name, value, goal, ratchet, slack=slack, counts_calls=True)


GOALS_OF_LINES = {
    "agent_factory": (2200, 2260),
    "cli": (3400, 3411),
    "compat": (407, 427),
    "counts": (82, 82),
    "decisions": (1686, 2020),
    "demo": (683, 683),
    "factory": (1985, 2366),
    "guarantees": (1144, 1392),
    "hooks": (2206, 2590),
    "local_model": (1034, 1544),
    "middleware": (17791, 19063),
    "migrate": (1012, 1349),
    "models": (100, 91),
    "prebuilt": (1217, 1390),
    "providers": (960, 996),
    "review": (2844, 3622),
    "runtime": (5926, 6960),
    "serve": (10613, 12020),
    "service": (10900, 12632),
    "state": (1476, 1625),
    "structured_output": (986, 1177),
    "telemetry": (832, 790),
    "testing": (5241, 9150),
    "tools": (1980, 2373),
    "topology": (3122, 4550),
}
"""Lines of each package: goal and ratchet. A commit with a higher ratchet has no other change."""


def of_lines(files: list[Source], tests: list[Source]) -> Iterator[Figure]:
    """The size of each package, and of the tests."""
    lines = Counter[str]()
    for file in files:
        first, *others = Path(file.name).parts
        lines[others[0] if first == "agent_factory" and len(others) > 1 else first] += file.lines
    for package in sorted(lines):
        goal, ratchet = GOALS_OF_LINES.get(package, (0, None))
        value = lines[package]
        yield Figure(
            f"lines of {package}", value, goal, ratchet if value > goal else None, slack=50
        )
    of_tests = sum(file.lines for file in tests)
    yield Figure("lines of tests", of_tests, 105_000, 114441, slack=200)
    share = round(of_tests / sum(lines.values()), 2)
    yield Figure("lines of tests per line of package", share, 1.1, 1.21, slack=0.01)


def of_source(files: list[Source]) -> Iterator[Figure]:
    """The figures of `agent_factory` and `middleware`."""
    docstrings = sum(len(file.docstrings) for file in files)
    lines = sum(file.lines for file in files)
    names = [name for file in files for name in source.bound_names(file)]
    single, functions = source.used_once(files)

    def share(part: int, whole: int, of: int, digits: int | None = None) -> float:
        return round(of * part / whole, digits)

    upward = len(list((ROOT / "agent_factory").glob("*.py"))) - 1
    yield Figure("modules in the root of agent_factory", upward, 4)
    yield Figure("import circles", len(source.circles()), 0)
    yield Figure("private functions used once, %", share(len(single), functions, 100), 33, 35)
    yield Figure("`Any` per 1,000 lines of code", any_share(files), 50)
    participles = sum(map(words.is_participle, names))
    yield Figure("participles per 1,000 names", share(participles, len(names), 1000), 15, 16)
    clauses = sum(len(source.clauses(file)) for file in files)
    yield Figure("docstrings that are a clause, %", share(clauses, docstrings, 100), 3)
    comments = sum(map(source.comment_lines, files))
    yield Figure("comments, %", share(comments, lines, 100, 1), 3, rises=True)
    yield Figure(
        "lines with words of our own", len(words.private_words([*files, *words.pages()])), 0
    )
    prose = words.prose(files)
    for word, expression, goal in (
        ("what", "what", 2),
        ("that", "that", 12),
        ("it, its", "its?", 18),
        ("those, others, one(s)", "those|others|ones?", 6),
    ):
        rate = words.rate(prose, expression)
        yield Figure(f"`{word}` per 1,000 words of prose", rate, goal)
    variables = sum(map(source.context_variables, files))
    yield Figure("context variables", variables, 12, 14)
    unpublished = sum(map(source.is_unpublished, files))
    yield Figure("files that rely on unpublished behaviour", unpublished, 1)


def of_tests(files: list[Source]) -> Iterator[Figure]:
    """The figures of the tests."""
    copies = sum(len(places) - 1 for places in source.copies(files).values())
    yield Figure("copies of helpers in tests", copies, 60)
    yield Figure("lines of tests with words of our own", len(words.private_words(files)), 0)
    yield Figure("waits in tests that a slow machine breaks", len([*fixed_waits(files)]), 0)
    private = len([*private_names(files)])
    yield Figure("private names in tests", private, 100, 108, slack=5)
    yield Figure("tests in quarantine", len(quarantine()), 0)


def any_share(files: Iterable[Source]) -> int:
    """Number of uses of `Any` per 1,000 lines of code."""
    files = list(files)
    code = sum(map(source.code_lines, files))
    return round(1000 * sum(map(source.any_count, files)) / code) if code else 0


def details() -> Iterator[str]:
    """The places behind the figures."""
    files, tests = source.sources(), source.sources_of_tests()
    call = calls.tool_call(fused=True)
    yield "A tool call behind two layers enters:"
    yield from (f"  {Path(name).resolve().relative_to(ROOT)}" for name in sorted(call.files))
    yield "The traceback of a tool that raises:"
    yield from (f"  {frame}" for frame in calls.traceback_frames(fused=True))
    yield "Building an agent enters:"
    yield from (
        f"  {Path(name).resolve().relative_to(ROOT)}" for name in sorted(calls.build().files)
    )
    yield "Import circles:"
    yield from (f"  {', '.join(sorted(circle))}" for circle in source.circles())
    yield "Unpublished behaviour:"
    yield from (f"  {file.name}" for file in files if source.is_unpublished(file))
    yield "Words of our own:"
    yield from (f"  {place}" for place in words.private_words([*files, *words.pages(), *tests]))
    yield "Private functions used once:"
    yield from (f"  {place}" for place in source.used_once(files)[0])
    yield "Names that are participles:"
    for file in files:
        counts = Counter(filter(words.is_participle, source.bound_names(file)))
        if counts:
            listed = ", ".join(f"{name} {count}" for name, count in counts.most_common())
            yield f"  {file.name}: {listed}"
    yield "Docstrings that are a clause:"
    yield from (f"  {file.name}:{line}" for file in files for line in source.clauses(file))
    yield "Waits in tests:"
    yield from (f"  {place}" for place in fixed_waits(tests))
    yield "Private names in tests:"
    yield from (f"  {place}" for place in private_names(tests))
    yield "Copies of helpers in tests:"
    for places in sorted(source.copies(tests).values(), key=len, reverse=True):
        yield f"  {len(places)}: {', '.join(places)}"
    yield "Folders, with their lines, and `Any` per 1,000 lines of code:"
    for folder in sorted({file.folder for file in files}):
        inside = [file for file in files if file.folder == folder]
        yield f"  {folder:<34} {sum(file.lines for file in inside):>6,} {any_share(inside):>4}"
    yield f"  {'all':<34} {sum(file.lines for file in files):>6,} {any_share(files):>4}"


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail where a figure is worse")
    parser.add_argument("--details", action="store_true", help="print the places behind them")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    if not calls.is_ours(agent_factory.__file__):  # nothing of this checkout would be counted
        parser.error(
            f"expected the package of {ROOT}, got {agent_factory.__file__}. Set PYTHONPATH={ROOT}."
        )
    rows = figures()
    if options.json:
        print(json.dumps({f.name: [f.value, f.goal, f.ratchet] for f in rows}, indent=2))
    else:
        print(f"{'figure':<52} {'value':>7}   {'goal':>5}")
        print(*rows, sep="\n")
    if options.details:
        print(*details(), sep="\n")
    problems = [f"{figure.name}: {figure.problem}" for figure in rows if figure.problem]
    if options.check and problems:
        print("", *problems, sep="\n", file=sys.stderr)
    return int(options.check and bool(problems))


if __name__ == "__main__":
    sys.exit(main())
