"""Figures of the tests themselves and of prose, ratchets with some slack, and mutants."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path

import mutants
import pytest
from figures import Figure
from inputs import INPUTS
from measures import words
from measures.calls import approval
from measures.source import Source, context_variables
from measures.tests import fixed_waits, private_names
from mutants import drawn, is_noticed

from tables import each


@each(
    "code, problem",
    [
        ("time.sleep(0.1)", "time.sleep(0.1)"),
        ("asyncio.sleep(x)", "asyncio.sleep(x)"),
        ("await asyncio.sleep(0)", None),
        ("clock.sleep(60)", None),
        ("time.sleep(1)  # waits: the clock of the system", None),
        ("subprocess.Popen([])", "subprocess.Popen"),
        ("run(timeout=0.5)", "timeout=0.5"),
        ("run(idle_timeout=0.5)", "idle_timeout=0.5"),
        ("run(after_seconds=0.5)", "after_seconds=0.5"),
        ("run(timeout=60)", None),
        ("run(timeout=0)", None),
        ("run(threshold=0.5)", None),
        ("run_virtually(main(timeout=0.5)); asyncio.sleep(9)", None),
        ("run_virtually(main()); time.sleep(9)", "time.sleep(9)"),
    ],
)
def test_a_wait_that_a_slow_machine_breaks_is_counted(code: str, problem: str | None) -> None:
    source = Source("tests/test_a.py", f"async def test() -> None:\n    {code}\n")
    assert [*fixed_waits([source])] == ([f"tests/test_a.py:2 {problem}"] if problem else [])
    assert [*fixed_waits([Source("tests/processes.py", source.text)])] == []


def test_names_of_the_insides_are_counted() -> None:
    source = Source("tests/a.py", "a._b\nself._c\na.__class__\na.b\nfrom x import _y\n")
    assert [*private_names([source])] == ["tests/a.py:1 _b"]


def test_words_are_counted_in_prose_and_not_in_examples() -> None:
    source = Source("a.py", '"""It is its own.\n\n>>> it()\n"""\nit = "it"  # So is it.\n')
    prose = words.prose([source])
    assert prose.split() == ["It", "is", "its", "own.", "#", "So", "is", "it."]
    assert words.rate(prose, "its?") == round(1000 * 3 / 7, 1)
    assert words.rate("", "it") == 0


def test_context_variables_are_counted() -> None:
    assert (
        context_variables(Source("a.py", "a = ContextVar('a')\nb = contextvars.ContextVar('b')"))
        == 2
    )


def test_a_ratchet_with_slack_follows_only_a_larger_step() -> None:
    def problem(value: float) -> str | None:
        return Figure("lines", value, 100, 200, slack=20).problem

    assert problem(201) == "worse than the ratchet of 200"
    assert problem(180) is None
    assert problem(179) == "lower the ratchet to 179"
    assert problem(100) == "the goal is reached: remove the ratchet"


def test_an_approval_enters_the_package() -> None:
    trace = approval()
    assert trace.calls > len(trace.files) > 1
    assert any(name.endswith("review/steps.py") for name in trace.files)


SOURCE = '''"""Prices."""

LIMIT = 3


def price(euros: int, known: bool = False) -> int:
    """Round a price."""
    note(euros, loud=True)
    if not known and euros == 5:
        return round(euros, ndigits=1)
    return 0
'''


def test_each_expression_of_a_function_changes(tmp_path: Path) -> None:
    (path := tmp_path / "prices.py").write_text(SOURCE)
    every = list(mutants.mutants(path, tmp_path))
    assert sorted(f"{m.line} {m.before} -> {m.after}" for m in every) == sorted(
        [
            "8 note(euros, loud=True) -> pass",
            "8 note(euros, loud=True) -> (note(euros))",
            "9 not known and euros == 5 -> (not known or euros == 5)",
            "9 not known -> (known)",
            "9 euros == 5 -> (euros != 5)",
            "9 5 -> (6)",
            "10 round(euros, ndigits=1) -> (round(euros))",
            "10 1 -> (2)",
            "11 0 -> (1)",
        ]
    )
    for mutant in every:
        assert mutant.applied(SOURCE) != SOURCE
        compile(mutant.applied(SOURCE), "prices.py", "exec")


def test_a_key_means_the_same_changes_where_lines_move(tmp_path: Path) -> None:
    for package in mutants.PACKAGES:
        (folder := tmp_path / "agent_factory" / package).mkdir(parents=True)
        (folder / "prices.py").write_text(SOURCE)
    old = drawn(tmp_path, "a", 6)
    assert len(old) == 6
    assert {Path(m.file).parent.name for m in old} == {*mutants.PACKAGES}
    (tmp_path / "agent_factory" / "runtime" / "prices.py").write_text(f"import os\n\n{SOURCE}")
    new = drawn(tmp_path, "a", 6)
    assert [(m.file, m.before, m.after) for m in new] == [(m.file, m.before, m.after) for m in old]
    assert new != old
    assert drawn(tmp_path, "b", 6) != old


def test_a_change_is_noticed_where_a_test_fails_and_is_undone(tmp_path: Path) -> None:
    (tmp_path / "prices.py").write_text("def price() -> int:\n    return 7\n")
    (tmp_path / "test_prices.py").write_text(
        "from prices import price\n"
        "def test_a(): assert price() == 7\n"
        "def test_b(): assert price()\n"
    )
    (change,) = mutants.mutants(tmp_path / "prices.py", tmp_path)
    assert is_noticed(change, ["test_prices.py::test_a"], tmp_path)
    assert not is_noticed(change, ["test_prices.py::test_b"], tmp_path)
    assert (tmp_path / "prices.py").read_text().endswith("return 7\n")


def test_each_file_has_a_test_before_a_file_has_two() -> None:
    weight = {"a::heavy": 2, "a::light": 1, "b::heaviest": 9}
    assert mutants.by_turns(weight, weight) == ["a::light", "b::heaviest", "a::heavy"]


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
