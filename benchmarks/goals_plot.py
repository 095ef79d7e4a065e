"""A picture of the goals: a dot for each, at its worst figure over the goal."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from benchmarks import svg
from benchmarks.goals import GOALS, Goal
from benchmarks.harness import Figure
from benchmarks.report import Report

LABELS, PANEL, ROW, TOP, BOTTOM = 190, 560, 20, 92, 30
"""Pixels: the names of the goals, the scale, a row, above and below."""

LEAST, MOST = 0.05, 8.0
"""The ends of the scale. A dot beyond them is drawn at the end; the number says where it is."""

KINDS = {"yes": "bar", "within noise": "open", "no": "missed"}
"""How a dot is drawn, by its outcome."""


class Standing(NamedTuple):
    """How far the worst figure of a goal is from it.

    Args:
        goal: The goal.
        figure: Its worst figure, or None where no figure is about it.
        ratio: The figure over what has to be reached.
    """

    goal: Goal
    figure: Figure | None
    ratio: float

    @property
    def outcome(self) -> str:
        """ "yes", "within noise", "no", or "" where nothing was measured."""
        return self.figure.outcome(_limit(self.goal)) if self.figure else ""


def _limit(goal: Goal) -> float:
    return goal.reach or goal.then or math.nan


def _badness(figure: Figure, limit: float) -> tuple[bool, float]:
    return figure.outcome(limit) == "no", figure.value.middle


def standings(figures: Iterable[Figure]) -> list[Standing]:
    """The standing of every goal, in the order of the goals."""
    worst: dict[str, Figure] = {}
    for figure in figures:
        if figure.goal is None or figure.reason is not None:
            continue
        before, limit = worst.get(figure.goal), _limit(GOALS[figure.goal])
        # A figure that may be noise does not hide one that is not.
        if before is None or _badness(figure, limit) > _badness(before, limit):
            worst[figure.goal] = figure
    return [
        Standing(goal, figure, figure.value.middle / _limit(goal) if figure else math.nan)
        for key, goal in GOALS.items()
        for figure in [worst.get(key)]
    ]


def goals_plot(reports: Mapping[str, Report]) -> str:
    """The picture as SVG. Goals that no figure is about are named at the bottom."""
    rows = standings(figure for report in reports.values() for figure in report.figures)
    present = [row for row in rows if row.figure is not None]
    reached = sum(row.outcome == "yes" for row in present)
    title = f"Goals: {reached} of {len(present)} that were measured are reached"
    note = (
        "The worst figure of each goal over the goal, less is better. Green: reached. "
        "Ring: within noise. Orange: missed."
    )
    bottom = TOP + len(present) * ROW
    lines = []
    for mark in (0.1, 0.25, 0.5, 1.0, 2.0, 4.0):
        lines.append(svg.line(_place(mark), TOP - 6, bottom + 4, "peer" if mark == 1 else "grid"))
        name = "the goal" if mark == 1 else f"{mark:g}"
        lines.append(svg.text(_place(mark), TOP - 12, name, "note", "middle"))
    for number, row in enumerate(present):
        y = TOP + number * ROW
        lines.append(svg.text(LABELS - 12, y + 14, row.goal.key, "name", "end"))
        lines.append(svg.dot(_place(row.ratio), y + 10, KINDS[row.outcome]))
        lines.append(svg.text(LABELS + PANEL + 12, y + 14, f"{row.ratio:.2f}"))
    missing = [row.goal.key for row in rows if row.figure is None]
    words = f"{len(missing)} goals have no stored figure; figures.md names them." if missing else ""
    lines.append(svg.text(16, bottom + 22, words, "note"))
    return svg.document(LABELS + PANEL + 70, bottom + BOTTOM, title, note, lines)


def _place(ratio: float) -> float:
    part = math.log(min(max(ratio, LEAST), MOST) / LEAST) / math.log(MOST / LEAST)
    return LABELS + part * PANEL
