"""What the benchmarks store, and the pages and pictures that they write from it."""

from __future__ import annotations

import json
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tables import each

sys.path.append(str(Path(__file__).resolve().parent.parent))  # benchmarks/ is never installed

from benchmarks import __main__ as command
from benchmarks import figures_page, goals_plot, store, written
from benchmarks.goals import GOALS
from benchmarks.harness import NOTHING, Figure, Interval
from benchmarks.report import Report, read, report

README = written.ROOT / written.README


def figure(name: str, value: float, goal: str | None = None, **other: Any) -> Figure:
    interval = Interval(value, value, value)
    parts = {"group": "build", "of": "agent_factory", "over": "langchain", "unit": "ms"} | other
    return Figure(**parts, name=name, value=interval, cpu=None, sides=[1, 2], rounds=3, goal=goal)


CHECK = figure("itself", 1.0, group="check", over="itself")


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty store, in a folder."""
    monkeypatch.setattr(store, "FIGURES", tmp_path / "figures.json")
    monkeypatch.setattr(store, "PEERS", tmp_path / "peers.json")
    return tmp_path


# The store


def test_a_group_that_is_measured_again_replaces_itself_and_nothing_else(kept: Path) -> None:
    first = report([CHECK, figure("a", 1.0), figure("b", 2.0, group="layers")])
    store.store(first.groups())
    second = replace(report([figure("a", 3.0)]), date="2031-01-01")
    store.store(second.groups())
    stored = store.stored()
    assert stored["build"] == second
    assert stored["layers"] == first.groups()["layers"]
    assert [each.group for each in stored["layers"].figures] == ["check", "layers"]


def test_the_group_of_other_libraries_has_a_file_to_itself(kept: Path) -> None:
    peers = report([figure("a turn", 1.0, group="peers")])
    store.store({**peers.groups(), **report([figure("a", 1.0)]).groups()})
    assert store.reports_in(kept / "peers.json") == [peers]
    assert list(json.loads((kept / "figures.json").read_text())) == ["build"]
    assert list(store.stored()) == ["build", "peers"]


def test_what_was_not_measured_is_null_in_json_which_has_no_other_word_for_it() -> None:
    absent = replace(figure("a", 1.0), value=NOTHING, sides=[], reason="b: not installed")
    written_down = report([absent]).json()

    def refuse(constant: str) -> float:
        raise AssertionError(constant)

    record = json.loads(written_down, parse_constant=refuse)
    assert record["figures"][0]["value"] is None
    assert read(written_down).figures[0].value is NOTHING


def test_a_report_keeps_its_cores_and_the_figures_over_another_version() -> None:
    former = Report("2026-01-01", {"langchain": "1.4.7"}, [figure("a", 4.0)])
    figures = [figure("a", 2.0, "layers"), replace(figure("b", 4.0), cpu=figure("", 3.0).value)]
    whole = replace(report(figures), former=former, cores=12)
    assert read(whole.json()) == whole
    assert json.loads(whole.json())["figures"][0]["reach"] == {"limit": 1.2, "met": "no"}
    assert "on 12 cores with python" in whole.headline()


# Pages


def test_the_command_reads_a_store_and_prints_every_group(
    kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, day in (("build", "2026-01-01"), ("layers", "2026-02-02")):
        found = replace(report([figure("a", 1.0, "layers", group=name)]), date=day)
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


def test_the_short_table_says_what_was_not_measured() -> None:
    lines = figures_page.headlines({}).splitlines()
    assert len(lines) == 2 + len(figures_page.HEADLINES)
    assert lines[2] == "| a run with 16 middleware | langchain | not measured |  |"
    shown = figure("invoke, no saver", 0.25, group="watched")
    versions = {"langchain": "1.5.2"}
    lines = figures_page.headlines(
        {"watched": Report("2026-01-01", versions, [shown])}
    ).splitlines()
    assert lines[2] == "| a run with 16 middleware | langchain 1.5.2 | **0.25** | 1 / 2 |"


def test_the_short_table_finds_each_of_its_rows() -> None:
    assert "not measured" not in figures_page.headlines(store.stored())


def missed(*figures: Figure) -> list[str]:
    return figures_page.misses({"build": report(figures)}).splitlines()[2:]


def test_a_missed_goal_has_a_row_with_its_worst_figure_beyond_noise() -> None:
    worse, bad = figure("worse", 1.5, "layers"), figure("bad", 1.3, "layers")
    noisy = replace(figure("noisy", 1.3, "layers"), value=Interval(1.3, 1.1, 1.5))
    row = f"| {GOALS['layers'].what} | {{}} | build: {{}} | 1.2 |"
    assert missed(bad, worse, figure("fine", 0.1, "build")) == [row.format(1.5, "worse")]
    assert missed(noisy) == []
    assert missed(bad, replace(noisy, value=Interval(1.5, 1.1, 1.9))) == [row.format(1.3, "bad")]
    none = figures_page.misses({"build": report([figure("fine", 0.1, "build")])})
    assert none == "No goal is missed."


# The picture of goals


@each(
    "value, kind",
    [
        (Interval(0.6, 0.6, 0.6), "bar"),
        (Interval(1.3, 1.1, 1.5), "open"),
        (Interval(2.4, 2.4, 2.4), "missed"),
    ],
)
def test_a_dot_shows_how_far_a_goal_is(value: Interval, kind: str) -> None:
    found = replace(figure("a", 1.0, "layers"), value=value)
    picture = goals_plot.goals_plot({"build": report([found])})
    (dot,) = dots(picture, lambda element: element.tag.endswith("}circle"))
    assert dot.get("class") == kind
    (goal,) = dots(picture, lambda element: element.get("class") == "peer")
    is_beyond = float(dot.get("cx", "")) > float(goal.get("x1", ""))
    assert is_beyond == (value.middle > 1.2)
    assert f">{value.middle / 1.2:.2f}<" in picture
    assert f"{len(GOALS) - 1} goals have no stored figure" in picture


def dots(picture: str, is_wanted: Callable[[ET.Element], bool]) -> list[ET.Element]:
    return [element for element in ET.fromstring(picture).iter() if is_wanted(element)]


def test_a_goal_of_which_nothing_was_measured_has_no_outcome() -> None:
    absent = replace(figure("a", 1.0, "layers"), value=NOTHING, reason="b: not installed")
    standings = {each.goal.key: each for each in goals_plot.standings([absent])}
    assert standings.keys() == GOALS.keys()
    assert standings["layers"].figure is None
    assert standings["layers"].outcome == ""
