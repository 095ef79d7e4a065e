"""Change the package in small ways, and see whether a short test notices each change.

Run as ``python scripts/mutants.py``: the short tests run once, to learn which of them enter which
line; then each change runs the tests of its line in a copy of the project. ``--number`` says how
many changes, ``--key`` which (by default those of the commit), ``--json`` prints one object. It
fails if fewer are noticed than ``--least`` says.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from changes import ROOT, git

PACKAGES = ("runtime", "factory", "review", "service")
TESTS = 120
"""Largest number of tests for a change, as `by_turns` orders them."""

SECONDS = 300
"""Longest time of the tests of a change; beyond, the change is noticed."""

COPIED = ("agent_factory", "middleware", "tests", "scripts", "docs", "examples", "benchmarks")
INVERSE = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}


@dataclass(frozen=True)
class Mutant:
    """A change of an expression."""

    file: str
    line: int
    before: str
    after: str
    start: int
    """Start and end of the expression in the text of the file, in bytes."""
    end: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.before} -> {self.after}"

    def applied(self, text: str) -> str:
        """The text of the file with the change."""
        data = text.encode()
        return (data[: self.start] + self.after.encode() + data[self.end :]).decode()


def changed_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """The changes of an expression or a statement, each as the new node."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        inverse = INVERSE[type(node.ops[0])]()
        yield ast.Compare(node.left, [inverse], node.comparators)
    elif isinstance(node, ast.BoolOp):
        yield ast.BoolOp(ast.And() if isinstance(node.op, ast.Or) else ast.Or(), node.values)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.operand
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        yield ast.Constant(node.value + 1)
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield ast.Pass()
    elif isinstance(node, ast.Call):
        for keyword in node.keywords:
            others = [other for other in node.keywords if other is not keyword]
            if keyword.arg and isinstance(keyword.value, ast.Constant):
                yield ast.Call(node.func, node.args, others)


def mutants(path: Path, root: Path = ROOT) -> Iterator[Mutant]:
    """Each change of a file, outside of annotations and docstrings."""
    text = path.read_text(encoding="utf-8")
    lines = text.encode().splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    tree = ast.parse(text)
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for statement in function.body:
            for node in ast.walk(statement):
                for other in changed_nodes(node):
                    assert isinstance(node, ast.expr | ast.stmt)
                    start = starts[node.lineno - 1] + node.col_offset
                    end = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
                    after = ast.unparse(other)
                    if isinstance(other, ast.expr):
                        after = f"({after})"
                    yield Mutant(
                        file=str(path.relative_to(root)),
                        line=node.lineno,
                        before=" ".join(ast.unparse(node).split()),
                        after=after,
                        start=start,
                        end=end,
                    )


def drawn(root: Path, key: str, number: int) -> list[Mutant]:
    """Some changes of the packages, as a key decides: as many of each package."""
    chosen: list[Mutant] = []
    for place, package in enumerate(PACKAGES):
        files = sorted((root / "agent_factory" / package).rglob("*.py"))
        counts: Counter[str] = Counter()
        order: list[tuple[int, Mutant]] = []
        for mutant in (mutant for file in files for mutant in mutants(file, root)):
            # Not the number of the line, so a key means the same changes after a move of lines.
            name = f"{mutant.file} {mutant.before} {mutant.after}"
            counts[name] += 1
            order.append((crc32(f"{key} {name} {counts[name]}".encode()), mutant))
        share = number // len(PACKAGES) + (place < number % len(PACKAGES))
        chosen += [mutant for _, mutant in sorted(order, key=lambda row: row[0])[:share]]
    return chosen


def tests_of_lines(
    root: Path, lines: Iterable[tuple[str, int]]
) -> dict[tuple[str, int], list[str]]:
    """The short tests of each line, as `by_turns` orders them."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder, "coverage")
        environment = {**os.environ, "COVERAGE_CONTEXTS": "1", "COVERAGE_FILE": str(data)}
        coverage = [sys.executable, "-m", "coverage"]
        run = [*coverage, "run", "-m", "pytest", "-q", "-n", "3", "--tier=short"]
        subprocess.run(run, cwd=root, env=environment)
        subprocess.run([*coverage, "combine", "-q"], cwd=root, env=environment, check=True)
        from coverage import CoverageData

        measured = CoverageData(str(data))
        measured.read()
        weight: dict[str, int] = {}
        entered: dict[tuple[str, int], set[str]] = {}
        places = {str((root / file).resolve()): file for file, _ in lines}
        for name in measured.measured_files():
            for line, contexts in measured.contexts_by_lineno(name).items():
                for context in filter(None, contexts):
                    weight[context] = weight.get(context, 0) + 1
                    if file := places.get(str(Path(name).resolve())):
                        entered.setdefault((file, line), set()).add(context)
    return {place: by_turns(entered.get(place, ()), weight) for place in lines}


def by_turns(tests: Iterable[str], weight: Mapping[str, int]) -> list[str]:
    """The lightest test of each file, then the second of each file, and so on.

    Of a line that nearly all tests enter, a few files know the meaning.
    """
    turns: Counter[str] = Counter()
    ordered = []
    for test in sorted(tests, key=lambda test: (weight[test], test)):
        turns[file := test.partition("::")[0]] += 1
        ordered.append((turns[file], weight[test], test))
    return [test for _, _, test in sorted(ordered)]


def copy(root: Path, folder: Path) -> Path:
    """A copy of the project in which changes can be tried."""
    for name in COPIED:
        shutil.copytree(root / name, folder / name, symlinks=True)
    for path in root.iterdir():
        if path.is_file():
            shutil.copy(path, folder)
    return folder


def is_noticed(mutant: Mutant, tests: Sequence[str], folder: Path) -> bool:
    """Apply a change in a copy of the project, and run some tests there."""
    path = folder / mutant.file
    text = path.read_text(encoding="utf-8")
    path.write_text(mutant.applied(text), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    try:
        environment = {**os.environ, "PYTHONPATH": str(folder)}
        result = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, timeout=SECONDS
        )
        return result.returncode != 0
    except subprocess.TimeoutExpired:
        return True
    finally:
        path.write_text(text, encoding="utf-8")


def main() -> int:
    """Draw changes, try each, and print the changes without a failing test."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, default=20, help="how many changes")
    parser.add_argument("--key", help="which changes: any word")
    parser.add_argument("--least", type=float, default=0.75, help="part that has to be noticed")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--root", type=Path, default=ROOT, help="the project")
    options = parser.parse_args()
    root = options.root.resolve()
    changes = drawn(root, options.key or git("rev-parse", "HEAD") or "", options.number)
    print(f"{len(changes)} changes; the short tests run first ...", file=sys.stderr, flush=True)
    places = tests_of_lines(root, {(mutant.file, mutant.line) for mutant in changes})
    workers = os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as temporary, ThreadPoolExecutor(workers) as pool:
        folders = [copy(root, Path(temporary, str(n))) for n in range(workers)]

        def tried(mutant: Mutant) -> bool:
            folder = folders.pop()
            try:
                tests = places[mutant.file, mutant.line][:TESTS]
                noticed = bool(tests) and is_noticed(mutant, tests, folder)
            finally:
                folders.append(folder)
            word = "noticed" if noticed else "MISSED" if tests else "MISSED, no test enters it"
            print(f"{word:<8} {mutant}", file=sys.stderr, flush=True)
            return noticed

        verdicts = list(pool.map(tried, changes))
    missed = [str(m) for m, noticed in zip(changes, verdicts, strict=True) if not noticed]
    if options.json:
        print(json.dumps({"changes": len(changes), "missed": missed}, indent=2))
    else:
        print(
            f"{len(changes) - len(missed)} of {len(changes)} changes are noticed.",
            *missed,
            sep="\n",
        )
    return int(sum(verdicts) < options.least * len(changes))


if __name__ == "__main__":
    sys.exit(main())
