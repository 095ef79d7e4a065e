"""Small changes of the package, by which the tests are tested."""

from __future__ import annotations

from pathlib import Path

import mutants
from mutants import drawn, is_noticed

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
    first = drawn(tmp_path, "a", 6)
    assert len(first) == 6
    assert {Path(m.file).parent.name for m in first} == {*mutants.PACKAGES}
    (tmp_path / "agent_factory" / "runtime" / "prices.py").write_text(f"import os\n\n{SOURCE}")
    moved = drawn(tmp_path, "a", 6)
    assert [(m.file, m.before, m.after) for m in moved] == [
        (m.file, m.before, m.after) for m in first
    ]
    assert moved != first
    assert drawn(tmp_path, "b", 6) != first


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
