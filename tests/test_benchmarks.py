"""The harness counts, goals are judged, figures are stored and shown. No speed is asserted."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tables import each

sys.path.append(str(Path(__file__).resolve().parent.parent))  # benchmarks/ is never installed

from benchmarks import __main__ as command
from benchmarks import figures_page, harness, instructions, report, store, written
from benchmarks.efforts import Effort
from benchmarks.goals import GOALS
from benchmarks.groups import GROUPS
from benchmarks.harness import (
    NOTHING,
    Contender,
    Figure,
    Interval,
    Match,
    Pair,
    Reading,
    Scale,
    Tally,
)
from benchmarks.report import Report, read

TINY = Effort(checks=1, turns=1)


class FakeClock:
    """Time passes only when someone says so."""

    def __init__(self) -> None:
        self.wall = 0.0

    def __call__(self) -> Reading:
        return Reading(self.wall, self.wall / 2)

    def takes(self, *seconds: float) -> Callable[[], None]:
        """A run that takes these times in turn, the last one for ever."""
        left = list(seconds)

        def run() -> None:
            self.wall += left.pop(0) if len(left) > 1 else left[0]

        return run


def matched(
    clock: FakeClock, a: Contender, b: Contender, *pairs: Pair, scale: Scale = harness.MS
) -> list[Figure]:
    @contextmanager
    def opened() -> Iterator[dict[str, Contender]]:
        yield {"a": a, "b": b}

    return Match("group", "name", opened, 3, pairs, scale).figures(clock)


def figure(value: Interval, goal: str | None = "layers", **other: Any) -> Figure:
    cpu = other.pop("cpu", value)
    given = {"group": "group", "name": "name", "of": "a", "over": "b", "unit": "ms"} | other
    return Figure(**given, value=value, cpu=cpu, sides=[2.0, 1.0], rounds=3, goal=goal)


def test_each_is_called_once_off_the_record_and_then_the_order_rotates() -> None:
    calls: list[str] = []
    rivals = {name: Contender(lambda name=name: calls.append(name)) for name in "abc"}  # type: ignore[misc]
    harness.measure(rivals, rounds=4)
    assert "".join(calls) == "abc" + "abc" + "bca" + "cab" + "abc"


def test_only_the_run_is_on_the_clock() -> None:
    clock = FakeClock()
    contender = Contender(clock.takes(3), prepare=clock.takes(100), tidy=clock.takes(1000))
    assert contender.timed(clock) == Reading(wall=3, cpu=1.5)


@each("options, walls", [({}, [1, 1, 1]), ({"warm": False}, [50, 1, 1])])
def test_the_first_call_and_what_is_done_between_rounds_are_off_the_clock(
    options: Any, walls: list[float]
) -> None:
    """The first call is the first round where it would take long."""
    clock = FakeClock()
    between = clock.takes(100)
    a = {"a": Contender(clock.takes(50, 1))}
    rounds = harness.measure(a, 3, clock, after_round=between, **options)
    assert [taken["a"].wall for taken in rounds] == walls


def test_a_ratio_is_the_median_of_the_ratios_of_each_round() -> None:
    clock = FakeClock()
    # A machine ten times as slow in the second round changes no ratio.
    a = Contender(clock.takes(9, 2, 20, 6))
    b = Contender(clock.takes(9, 1, 10, 2))
    (found,) = matched(clock, a, b, Pair("a", "b"))
    assert found.value == Interval(middle=2, low=2, high=3)
    assert found.cpu == found.value
    assert found.sides == [6000, 2000]


def test_one_match_gives_a_figure_for_each_pair_and_an_amount_over_nothing() -> None:
    clock = FakeClock()
    a, b = Contender(clock.takes(1)), Contender(clock.takes(2))
    pairs = (Pair("a", "b"), Pair("b", "a"), Pair("a", None))
    found = matched(clock, a, b, *pairs, scale=harness.per(10, "ms a turn"))
    assert [each.value.middle for each in found] == [0.5, 2, 100]
    assert [each.sides for each in found] == [[100, 200], [200, 100], [100]]
    assert found[2].cpu == Interval(50, 50, 50)


def test_what_is_counted_is_exact_and_no_clock_is_in_it() -> None:
    steps: list[None] = []
    items: dict[str, Callable[[], Mapping[str, float]]] = {
        "a": lambda: {"kB": 3.0, "rows": 5},
        "b": lambda: {"kB": 2.0, "rows": 4},
    }
    pairs = [Pair("a", "b", unit="kB"), Pair("a", None, unit="rows")]
    work = Tally("group", "name", items, pairs)
    ratio, amount = work.figures(after_round=lambda: steps.append(None))
    assert (ratio.value.middle, ratio.sides, ratio.cpu) == (1.5, [3, 2], None)
    assert (amount.value.middle, amount.unit) == (5, "rows")
    assert len(steps) == work.rounds


@each(
    "value, cpu, limit, outcome",
    [
        (Interval(1.2, 1.1, 2.1), "value", 1.2, "yes"),
        (Interval(1.3, 1.1, 2.2), "value", 1.2, "within noise"),
        (Interval(2.2, 2.1, 2.3), "value", 1.2, "no"),
        (Interval(2.2, 2.1, 2.3), Interval(1.4, 1.1, 1.5), 1.2, "within noise"),  # the steadier
        (Interval(4.1, 4.1, 4.1), None, 4, "no"),  # an exact value has no noise
        (Interval(4.1, 4.1, 4.1), None, None, ""),
    ],
)
def test_a_goal_is_met_missed_or_hidden_by_noise(
    value: Interval, cpu: Any, limit: Any, outcome: str
) -> None:
    assert figure(value, cpu=value if cpu == "value" else cpu).outcome(limit) == outcome


def test_the_range_of_a_median_narrows_with_the_number_of_values() -> None:
    few, many = harness.interval(range(10)), harness.interval(range(1000))
    assert few == Interval(4.5, 1, 8)
    assert many == Interval(499.5, 469, 530)


def test_shortfalls_are_what_does_not_reach_its_goal_or_has_no_figure() -> None:
    figures = [
        figure(Interval(1.1, 1.0, 1.2)),
        figure(Interval(1.3, 1.1, 1.5), name="hidden"),
        figure(Interval(9.0, 8.0, 9.5), name="slow"),
        figure(Interval(9.0, 8.0, 9.5), goal=None),
    ]
    (short,) = report.shortfalls(figures)
    assert short == "group: slow: a / b reads 9.00 (8.00-9.50), to reach: 1.2"
    (hidden,) = report.doubtful(figures)
    assert hidden.startswith("group: hidden: ")
    missing = report.unmeasured(figures)
    assert len(missing) == len(GOALS) - 1
    assert not [line for line in missing if GOALS["layers"].what in line]


def test_goals_get_harder_and_say_what_they_were_set_by() -> None:
    for goal in GOALS.values():
        assert goal.source
        assert goal.reach or goal.then
        assert not (goal.reach and goal.then) or goal.then < goal.reach


def test_text_is_replaced_between_its_markers_only() -> None:
    text = "before\n<!-- figures -->\nold\n<!-- /figures -->\nafter\n"
    assert written.replaced(text, "figures", "new") == text.replace("old", "new")
    with pytest.raises(ValueError, match="lacks <!-- goals -->"):
        written.replaced(text, "goals", "new")


def test_the_method_names_every_group() -> None:
    text = (written.ROOT / written.METHOD).read_text(encoding="utf-8")
    assert [name for name in GROUPS if f"\n| {name} |" not in text] == []


def measured(*found: Figure) -> dict[str, Any]:
    """A group that gives these figures."""

    @contextmanager
    def opened() -> Iterator[dict[str, Contender]]:
        yield {"a": Contender(lambda: None)}

    class Ready(Match):
        def figures(self, *_: Any, **__: Any) -> list[Figure]:
            return list(found)

    pairs = [Pair("a", None, each.goal) for each in found]
    return {"ready": lambda effort: iter([Ready("ready", "name", opened, 1, pairs)])}


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The command with a short self-check that is always content."""
    for name in ("FULL", "HEADLINE", "GOALS_ONLY"):
        monkeypatch.setattr(command, name, TINY)
    monkeypatch.setattr(command, "is_steady", lambda reading: True)
    return monkeypatch


def test_the_command_prints_a_table_and_writes_json_and_the_pages(
    quick: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pages, file = tmp_path / "benchmarks", tmp_path / "measured.json"
    (tmp_path / written.PICTURES).mkdir(parents=True)
    shutil.copytree(written.ROOT / "benchmarks", pages, ignore=shutil.ignore_patterns("*.json"))
    quick.setattr(store, "FIGURES", pages / "figures.json")
    quick.setattr(store, "PEERS", pages / "peers.json")
    quick.setattr(command, "ROOT", tmp_path)
    quick.setattr(command, "GROUPS", measured(figure(Interval(1, 1, 1))))
    assert command.main(["--json", str(file), "--write-readme"]) == 0
    result = report.read(file.read_text())
    assert [found.group for found in result.figures] == ["check", "check", "group"]
    assert result.markdown() in capsys.readouterr().out
    assert result.markdown() in (pages / "figures.md").read_text()
    (kept,) = store.stored().values()
    assert kept == result
    assert "Goals: 1 of 1" in (tmp_path / written.PICTURES / "goals.svg").read_text()


def test_figures_over_another_version_of_langchain_stand_in_a_column(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    current, former = tmp_path / "current.json", tmp_path / "former.json"
    alone = figure(Interval(3, 3, 3), over="a loop")
    current.write_text(report.report([figure(Interval(2, 2, 2), over="langchain"), alone]).json())
    slower = [figure(Interval(4, 4, 5), over="langchain"), figure(Interval(5, 5, 5), over="a loop")]
    of_former = replace(report.report(slower), versions={"langchain": "1.4.7"})
    former.write_text(of_former.json())

    assert command.main(["--read", str(current), "--former", str(former)]) == 0

    head, _, over_peer, over_loop = capsys.readouterr().out.splitlines()[-4:]
    assert head.endswith("| then | CPU, langchain 1.4.7 |")
    assert over_peer.endswith("| 4.00 (4.00-5.00) |")
    assert over_loop.endswith("|  |")


ONE_GROUP = ["--check", "--only", "ready"]


@each(
    "value, arguments, code, message",
    [
        (Interval(1, 1, 1), ONE_GROUP, 0, "Every goal is reached."),
        (Interval(1.3, 1.1, 1.4), ONE_GROUP, 0, "within noise: group: name: a / b reads 1.30"),
        (Interval(1.3, 1.1, 1.4), ONE_GROUP, 0, "Noise hides 1 of them"),
        (Interval(9, 9, 9), ONE_GROUP, 1, "falls short: group: name: a / b reads 9.00"),
        (Interval(1, 1, 1), ["--check"], 1, "falls short: not measured: "),
    ],
)
def test_the_check_says_what_falls_short_or_was_not_measured(
    value: Interval,
    arguments: list[str],
    code: int,
    message: str,
    quick: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    quick.setattr(command, "GROUPS", measured(figure(value)))
    assert command.main(arguments) == code
    assert message in capsys.readouterr().err


def test_an_unsteady_machine_is_a_failure_and_without_a_terminal_each_group_is_a_line(
    quick: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    quick.setattr(command, "GROUPS", measured(figure(Interval(1, 1, 1))))
    assert command.main([]) == 0
    shown = [line.split()[-1] for line in capsys.readouterr().err.splitlines()]
    assert shown == ["check", "ready"]
    quick.setattr(command, "is_steady", lambda reading: False)
    assert command.main([]) == 1
    assert "no figure can be trusted" in capsys.readouterr().err


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the contenders of a group "two" have done."""
    done: list[str] = []

    @contextmanager
    def opened() -> Iterator[dict[str, Contender]]:
        steps = (partial(done.append, step) for step in ("run", "prepare", "tidy"))
        yield {"a": Contender(*steps), "b": Contender(partial(done.append, "b"))}

    match = Match("two", "a match", opened, 1, [Pair("a", "b"), Pair("a", None)])
    monkeypatch.setattr(instructions, "GROUPS", {"two": lambda effort: iter([match])})
    monkeypatch.setattr("gc.disable", lambda: None)
    return done


def test_a_contender_runs_alone_where_its_instructions_are_counted(ran: list[str]) -> None:
    assert instructions.main(["two", "--alone", "a match", "a", "2"]) == 0
    assert ran == ["prepare", "run", "tidy"] * 2


def test_the_start_of_a_process_does_not_count(
    ran: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    starts = {"a": 1_000_000, "b": 3_000_000}
    monkeypatch.setattr("shutil.which", lambda name: name)
    monkeypatch.setattr(
        instructions,
        "_instructions",
        lambda match, name, runs: starts[name] + runs * {"a": 3_000_000, "b": 2_000_000}[name],
    )
    assert instructions.main(["two"]) == 0
    row = "| two: a match | a / b | 1.500 | 3.00 / 2.00 million a run |"
    assert capsys.readouterr().out.splitlines()[2:] == [row]


def test_the_report_of_valgrind_is_read_and_a_missing_one_is_named(
    ran: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert instructions.counted("==7== \n==7== I refs:        1,234,567\n") == 1_234_567
    with pytest.raises(RuntimeError, match="has counted no instructions: killed"):
        instructions.counted("killed")
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert instructions.main(["two"]) == 1
    assert capsys.readouterr().err == "Valgrind is missing: apt-get install valgrind\n"


README = written.ROOT / written.README


def row(name: str, value: float, goal: str | None = None, **other: Any) -> Figure:
    interval = Interval(value, value, value)
    parts = {"group": "build", "of": "agent_factory", "over": "langchain", "unit": "ms"} | other
    return Figure(**parts, name=name, value=interval, cpu=None, sides=[1, 2], rounds=3, goal=goal)


CHECK = row("itself", 1.0, group="check", over="itself")


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty store, in a folder."""
    monkeypatch.setattr(store, "FIGURES", tmp_path / "figures.json")
    monkeypatch.setattr(store, "PEERS", tmp_path / "peers.json")
    return tmp_path


def test_a_group_that_is_measured_again_replaces_itself_and_nothing_else(kept: Path) -> None:
    first = report.report([CHECK, row("a", 1.0), row("b", 2.0, group="layers")])
    store.store(first.groups())
    second = replace(report.report([row("a", 3.0)]), date="2031-01-01")
    store.store(second.groups())
    stored = store.stored()
    assert stored["build"] == second
    assert stored["layers"] == first.groups()["layers"]
    assert [each.group for each in stored["layers"].figures] == ["check", "layers"]


def test_the_group_of_other_libraries_has_a_file_to_itself(kept: Path) -> None:
    peers = report.report([row("a turn", 1.0, group="peers")])
    store.store({**peers.groups(), **report.report([row("a", 1.0)]).groups()})
    assert store.reports_in(kept / "peers.json") == [peers]
    assert list(json.loads((kept / "figures.json").read_text())) == ["build"]
    assert list(store.stored()) == ["build", "peers"]


def test_what_was_not_measured_is_null_in_json_which_has_no_other_word_for_it() -> None:
    absent = replace(row("a", 1.0), value=NOTHING, sides=[], reason="b: not installed")
    written_down = report.report([absent]).json()

    def refuse(constant: str) -> float:
        raise AssertionError(constant)

    record = json.loads(written_down, parse_constant=refuse)
    assert record["figures"][0]["value"] is None
    assert read(written_down).figures[0].value is NOTHING


def test_a_report_keeps_its_cores_and_the_figures_over_another_version() -> None:
    former = Report("2026-01-01", {"langchain": "1.4.7"}, [row("a", 4.0)])
    figures = [row("a", 2.0, "layers"), replace(row("b", 4.0), cpu=row("", 3.0).value)]
    whole = replace(report.report(figures), former=former, cores=12)
    assert read(whole.json()) == whole
    assert json.loads(whole.json())["figures"][0]["reach"] == {"limit": 1.2, "met": "no"}
    assert "on 12 cores with python" in whole.headline()


def test_the_command_reads_a_store_and_prints_every_group(
    kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, day in (("build", "2026-01-01"), ("layers", "2026-02-02")):
        found = replace(report.report([row("a", 1.0, "layers", group=name)]), date=day)
        store.store(found.groups())
    assert command.main(["--read", str(store.FIGURES), "--check", "--only", "build"]) == 0
    output = capsys.readouterr()
    assert "Measured on 2026-01-01" in output.out
    assert "| layers: a |" in output.out
    assert "Every goal is reached." in output.err


@each("path", written.contents(store.stored()))
def test_pages_and_pictures_show_the_stored_figures(path: str) -> None:
    page = written.ROOT / path
    assert page.read_text(encoding="utf-8") == written.contents(store.stored())[path], (
        "Write it: python -m benchmarks --read benchmarks/figures.json --write-readme"
    )


def test_the_first_page_is_read_in_minutes() -> None:
    text = README.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 150
    words = [each for each in text.split() if any(map(str.isalpha, each))]
    assert len(words) <= 1_500


def test_the_short_table_finds_each_of_its_rows() -> None:
    assert "not measured" not in figures_page.headlines(store.stored())
