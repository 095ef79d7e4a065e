"""The scripts that run tests: second attempts, the quarantine, the table, and the versions."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import changes
import flakes
import pytest
import run_targets
import tiers
import versions
from flakes import Flake, quarantine, refusals
from tiers import chosen

ROOT = Path(__file__).resolve().parent.parent

FLAKE = Flake("tests/test_a.py::test_a", "no answer", False, "c0ffee now", "2026-11-28", 1.5, 2)

ONCE = """
def test_{name}(pytestconfig):
    path = pytestconfig.rootpath / "{name}"
    first = not path.exists()
    path.touch()
    assert not first, "not yet"
"""
ALWAYS = """
def test_always():
    raise LookupError("never")
"""
LAW = """
from pathlib import Path
from hypothesis import given, settings, strategies as st

@settings(database=None)
@given(st.just(Path("law")))
def test_law(path):
    first = not path.exists()
    path.touch()
    assert not first, "not yet"
"""


@pytest.fixture
def suite(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the script in a repository with some tests: `suite({"a": source}, "--reruns")`."""
    for folder, names in (
        ("scripts", ("changes", "flakes", "run_tests")),
        ("tests", ("inputs", "measuring", "outcomes", "tiers")),
    ):
        (tmp_path / folder).mkdir()
        for name in names:
            shutil.copy(ROOT / folder / f"{name}.py", tmp_path / folder)
    (tmp_path / "tests" / "conftest.py").write_text(
        'pytest_plugins = ("measuring", "outcomes", "tiers")\n'
    )
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\npythonpath = tests scripts\naddopts = --dist=worksteal\n"
        "markers =\n  law: a law\n  long: takes seconds\n"
    )
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]

    def run(files: dict[str, str], *arguments: str, change: str = "") -> Any:
        for name, source in files.items():
            (tmp_path / "tests" / f"test_{name}.py").write_text(source)
        for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "Tests"]):
            subprocess.run([*git, *command], cwd=tmp_path, check=True)
        if change:
            with (tmp_path / "tests" / "test_a.py").open("a") as file:
                file.write(change)
        environment = {k: v for k, v in os.environ.items() if k not in ("OUTCOMES", "RUN")}
        environment |= {"BASE": "HEAD", "FLAKES": str(tmp_path / "flakes.jsonl")}
        command = [sys.executable, "scripts/run_tests.py", "-q", "-p", "no:cacheprovider"]
        return subprocess.run(
            [*command, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True
        )

    return run


def once(*names: str) -> dict[str, str]:
    """Test files with a test each that fails in its first attempt."""
    return {name: ONCE.format(name=name) for name in names}


def test_a_test_that_passes_in_its_second_attempt_is_reported_and_does_not_refuse(
    suite: Any, tmp_path: Path
) -> None:
    result = suite(once("a", "b", "c"), "--reruns")
    assert result.returncode == 0, result.stdout
    assert result.stdout.count("Passed in its second attempt") == 3
    rows = flakes.read(tmp_path / "flakes.jsonl")
    assert [row.id for row in rows] == [f"tests/test_{n}.py::test_{n}" for n in "abc"]
    assert "not yet" in rows[0].message
    assert len({row.run for row in rows}) == 1


def test_another_test_of_the_same_file_may_have_changed(suite: Any) -> None:
    assert suite(once("a"), "--reruns", change="\ndef test_b(): ...\n").returncode == 0


def test_without_reruns_a_failed_test_fails_and_nothing_is_reported(
    suite: Any, tmp_path: Path
) -> None:
    assert suite(once("a")).returncode == 1
    assert not (tmp_path / "flakes.jsonl").exists()


@pytest.mark.parametrize(
    ("files", "change", "reason"),
    [
        ({"a": ALWAYS}, "", "test_always failed twice"),
        ({"a": LAW}, "", "is a law"),
        (once("a", "b", "c", "d"), "", "4 tests failed, more than 3"),
        (once("a"), "    assert path\n", "is about what changed: the test"),
    ],
    ids=["always", "law", "fourth", "changed"],
)
def test_a_run_that_a_second_attempt_would_hide_is_refused(
    suite: Any, files: dict[str, str], change: str, reason: str
) -> None:
    result = suite(files, "--reruns", change=change)
    assert result.returncode == 1
    assert reason in result.stdout


def test_a_test_in_quarantine_runs_reports_and_does_not_refuse(suite: Any, tmp_path: Path) -> None:
    today = date.today()
    (tmp_path / "tests" / "quarantine.toml").write_text(
        f'[[test]]\nid = "tests/test_a.py::test_always"\nsince = {today}\nuntil = {today}\n'
        'reason = "a socket"\n'
    )
    result = suite({"a": ALWAYS}, "--reruns")
    assert result.returncode == 0, result.stdout
    assert "never" in result.stdout


def test_a_quarantine_without_a_reason_refuses_the_run(suite: Any, tmp_path: Path) -> None:
    row = '[[test]]\nid = "tests/test_a.py"\nsince = 2026-01-01\nuntil = 2026-01-02\n'
    (tmp_path / "tests" / "quarantine.toml").write_text(row)
    result = suite({"a": ALWAYS}, "--reruns")
    assert (result.returncode, "Traceback" in result.stderr) == (1, False)
    assert "argument: 'reason'" in result.stdout.partition("Refused: ")[2]


def test_a_flake_of_another_run_is_refused_until_its_test_is_repaired() -> None:
    def reasons(repaired: bool) -> Sequence[str]:
        now = replace(FLAKE, run="c0ffee later")
        return refusals([now], [FLAKE], touched=lambda _: [], repaired=lambda _: repaired)

    assert reasons(True) == []
    assert reasons(False) == [f"{FLAKE.id} needed a second attempt before: 2026-11-28"]
    assert refusals([FLAKE], [FLAKE], touched=lambda _: [], repaired=lambda _: False) == []


def test_the_report_keeps_the_newest_runs(tmp_path: Path) -> None:
    rows = [replace(FLAKE, run=f"c0ffee {n}") for n in range(25)]
    flakes.write(tmp_path / "report", rows)
    assert flakes.read(tmp_path / "report") == rows[-flakes.RUNS :]


def entries(number: int, since: str, until: str) -> str:
    row = f'[[test]]\nid = "a{{}}"\nsince = {since}\nuntil = {until}\nreason = "a socket"\n'
    return "".join(row.format(n) for n in range(number))


def test_ten_tests_may_be_in_quarantine_for_seven_days(tmp_path: Path) -> None:
    path, today = tmp_path / "quarantine.toml", date(2026, 11, 28)
    path.write_text(entries(10, "2026-11-21", "2026-11-28"))
    assert len(quarantine(path, today)) == 10
    assert quarantine(tmp_path / "none.toml") == {}
    for text, problem in (
        (entries(11, "2026-11-21", "2026-11-28"), "may have 10 tests, got 11"),
        (entries(1, "2026-11-21", "2026-11-29"), "may be in quarantine.toml for 7 days"),
        (entries(1, "2026-11-20", "2026-11-27"), "was in quarantine.toml until 2026-11-27"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=problem):
            quarantine(path, today)


def test_the_quarantine_of_this_project_is_valid() -> None:
    assert len(quarantine()) <= flakes.ENTRIES


def test_a_test_is_about_the_modules_that_it_names() -> None:
    files = changes.subjects("tests/runtime/test_composition.py::test_x")
    assert files
    assert all(file.startswith("agent_factory/") for file in files)
    assert changes.subjects("tests/test_run_tests.py::test_x") == set()
    assert changes.subjects("tests/test_gone.py::test_x") == set()


def test_a_pattern_matches_changed_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "changed", lambda: frozenset(["docs/howto/mcp.md"]))
    assert changes.matches(("README.md", "docs/*"))
    assert not changes.matches(("docs/*.png", "README.md"))
    monkeypatch.setattr(changes, "changed", lambda: None)  # an unknown base
    assert changes.matches(("nothing/*",))


def test_a_test_of_documents_runs_by_day_where_its_inputs_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = Path(tiers.__file__).with_name("test_llms.py")
    monkeypatch.setattr(changes, "changed", lambda: frozenset(["tests/runtime/test_layers.py"]))
    assert tiers.is_untouched(path)
    assert not tiers.is_untouched(path.with_name("test_composition.py"))
    for changed in ("docs/index.md", "tests/test_llms.py", "tests/conftest.py"):
        monkeypatch.setattr(changes, "changed", lambda changed=changed: frozenset([changed]))
        assert not tiers.is_untouched(path)


class Case:
    """A case as pytest has it."""

    def __init__(self, *marks: Any, **params: Any) -> None:
        self.params, self.id = params, "-".join(map(str, params.values()))
        self.marks = [getattr(pytest.mark, mark).mark for mark in marks]


def names(cases: Sequence[Case]) -> list[str]:
    return [case.id for case in cases]


def test_the_day_has_one_mode_and_database_and_the_night_has_the_other() -> None:
    cases = [Case(call=m, url=d) for m in ("sync", "async") for d in ("sqlite", "postgres")]
    seen = set()
    for number in range(4):
        day, night = (chosen(cases, tier, number) for tier in (None, "night"))
        assert len(day) == len(night) == 1
        assert not {*day[0].params.values()} & {*night[0].params.values()}
        assert names(chosen(cases, "slice", number)) == names(night)
        assert chosen(cases, "all", number) == cases
        seen.update(names(day))
    assert seen == set(names(cases))


def test_a_tier_by_day_has_one_case_and_the_night_has_all() -> None:
    cases = [Case(value=n) for n in range(5)]
    assert {names(chosen(cases, "short", n << 2))[0] for n in range(5)} == set("01234")
    assert names(chosen(cases, "night", 0)) == names(cases)
    assert names(chosen(cases, None, 0)) == names(cases)


def test_a_tier_by_day_has_a_short_case_where_there_is_one() -> None:
    cases = [Case("long", value=1), Case(value=2), Case("long", value=3)]
    for number in range(0, 40, 4):
        assert names(chosen(cases, "short", number)) == ["2"]
        assert names(chosen(cases, "long", number)) == ["2"]
    only = [Case("long", value=n) for n in range(3)]
    assert {names(chosen(only, "long", n))[0] for n in range(0, 40, 4)} == {"0", "1", "2"}


def test_a_durability_is_no_mode() -> None:
    cases = [Case(durability=d) for d in ("sync", "async")]
    assert names(chosen(cases, "night", 0)) == ["sync", "async"]


def test_each_target_runs_to_its_end_and_the_table_has_all(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "Makefile").write_text(
        'good:\n\t@echo \'{"passed": 1200, "failed": 2, "rerun": 1}\' > $$OUTCOMES/1.json\n'
        "bad:\n\t@echo $(SAY); exit 3\nlast:\n\t@echo reached\n"
    )
    monkeypatch.setattr(run_targets, "ROOT", tmp_path)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    assert run_targets.main(["good", "bad SAY=words", "last"]) == 1
    output = capfd.readouterr().out
    assert "words" in output
    assert "reached" in output
    table = {line.split()[0]: line.split() for line in output.splitlines()[-5:]}
    assert table["good"][1:5] == ["passed", "1,202", "1", "1"]
    assert table["bad"][:4] == ["bad", "SAY=words", "FAILED", "(2)"]
    assert table["last"][1] == "passed"
    assert table["all"][1:3] == ["FAILED", "(2)"]
    assert run_targets.main(["good", "--parallel", "last", "good"]) == 0
    output = capfd.readouterr().out
    assert "=== parallel: make last\nreached\n" in output
    assert output.splitlines()[-1].split()[:4] == ["all", "passed", "2,404", "2"]
    # A second stage begins when the first has ended, and there is one table.
    assert run_targets.main(["last", "--parallel", "bad", "--then", "good", "--parallel", "last"])
    words = capfd.readouterr().out.split()
    assert words.index("bad") < words.index("good")
    assert words.count("target") == 1


THIS = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture
def outcomes(monkeypatch: pytest.MonkeyPatch) -> dict[str, bool]:
    """Whether the tests pass, by version; versions that are not in it are not on this machine."""
    outcomes: dict[str, bool] = {}
    monkeypatch.setattr(
        versions, "interpreter_of", lambda python: "python" if python in outcomes else None
    )
    monkeypatch.setattr(versions, "tested", lambda choice, python, *others: outcomes[python])
    return outcomes


@pytest.mark.parametrize(
    ("results", "code"),
    [
        ({"3.11": True, "3.12": True}, 0),
        ({"3.11": True}, 0),
        ({"3.11": True, "3.12": False}, 1),
        ({"3.11": False}, 1),
        ({}, 1),
    ],
)
def test_each_python_is_named_and_one_that_fails_or_none_at_all_is_an_error(
    results: dict[str, bool],
    code: int,
    outcomes: dict[str, bool],
    capsys: pytest.CaptureFixture[str],
) -> None:
    outcomes.update(results)
    assert versions.main(["oldest", "3.11", "3.12"]) == code
    *_, first, second = capsys.readouterr().out.splitlines()
    for python, line in (("3.11", first), ("3.12", second)):
        word = {True: "passed", False: "FAILED", None: "not on this machine"}[results.get(python)]
        assert line.startswith(f"Python {python}, oldest versions: {word}")


def test_an_interpreter_is_found_by_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"python{THIS}").symlink_to(sys.executable)
    broken = tmp_path / "python3.99"  # as a shim of a version that was not chosen
    broken.write_text("#!/bin/sh\nexit 127\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/usr/bin{os.pathsep}/bin")
    assert versions.interpreter_of(THIS)
    assert versions.interpreter_of("3.99") is None
    assert versions.interpreter_of("3.98") is None


def test_the_limit_of_a_test_comes_again() -> None:
    """An example that hangs is run once more by hypothesis, and its law still ends."""
    _, pause = signal.getitimer(signal.ITIMER_REAL)
    assert pause > 0
