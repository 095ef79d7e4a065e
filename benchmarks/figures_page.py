"""Stored figures as Markdown: all rows, the main ones, and the goals that are missed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from benchmarks.contenders import OURS, PEER
from benchmarks.goals_plot import standings
from benchmarks.harness import Figure
from benchmarks.report import Report

NOTES = {
    "service": (
        'The rows from "nothing else to do" on were measured while other programs ran, so their '
        'times are too high. "At once" and "one after the other" compare servers in the same '
        "minutes."
    ),
}
"""What a reader of a group has to know."""


class Headline(NamedTuple):
    """A row of the short table.

    Args:
        what: What it is about.
        group: The group of the figure.
        name: Its name.
        of: The contender.
        over: What it is measured against.
    """

    what: str
    group: str
    name: str
    of: str = OURS
    over: str = PEER


HEADLINES = (
    Headline("a run with 16 middleware", "watched", "invoke, no saver"),
    Headline("the same, streamed as messages", "watched", 'stream "messages", no saver'),
    Headline("the same, with a tracer", "watched", "invoke with a tracer, no saver"),
    Headline(
        "the same, thread in memory", "latency", "sync, memory", f"{OURS}, N=16", f"{PEER}, N=16"
    ),
    Headline(
        "the same, thread in SQLite", "latency", "sync, SQLite", f"{OURS}, N=16", f"{PEER}, N=16"
    ),
    Headline(
        "a run without middleware", "latency", "sync, no saver", f"{OURS}, N=0", f"{PEER}, N=0"
    ),
    Headline("building an agent with 16 middleware", "build", "16 hook middleware"),
    Headline(
        "a message of a service, SQLite",
        "service",
        "SQLite, no tool call, 0 ms a model call",
        "service",
        "langgraph alone",
    ),
    Headline(
        "16 requests at once, Postgres",
        "service",
        "runs/wait, 16 at once",
        "agent-factory serve, Postgres",
        "aegra, Postgres",
    ),
)
"""The figures that the first page shows."""


def figures_page(reports: Mapping[str, Report]) -> str:
    """All rows, group by group."""
    missing = [row.goal.key for row in standings(_all(reports)) if row.figure is None]
    lines = [
        "# All figures of the benchmarks",
        "",
        "[Benchmarks](README.md) has the main ones, and [Method](method.md) says what each group "
        "measures. The benchmarks write this page from `figures.json` and `peers.json`.",
        "",
        "![Dots: the worst figure of each goal over the goal](../docs/pictures/goals.svg)",
        "",
        f"Goals without a stored figure: {', '.join(missing) or 'none'}.",
    ]
    for name, report in reports.items():
        lines += ["", f"## {name}", ""]
        lines += [NOTES[name], ""] if name in NOTES else []
        lines.append(report.markdown())
    return "\n".join([*lines, ""])


def headlines(reports: Mapping[str, Report]) -> str:
    """The short table."""
    lines = ["| what | compared with | takes | in ms |", "|---|---|---|---|"]
    figures = list(_all(reports))
    for headline in HEADLINES:
        figure = next((each for each in figures if headline[1:] == _identity(each)), None)
        lines.append(_headline(headline, figure, reports))
    return "\n".join(lines)


def _headline(headline: Headline, figure: Figure | None, reports: Mapping[str, Report]) -> str:
    over = headline.over.partition(",")[0]
    if over == PEER and headline.group in reports:
        over = f"{over} {reports[headline.group].versions.get(PEER, '')}"
    if figure is None:
        return f"| {headline.what} | {over} | not measured |  |"
    value = (figure.cpu or figure.value).middle
    sides = " / ".join(f"{side:.3g}" for side in figure.sides)
    unit = "" if figure.unit.startswith("ms") else f" {figure.unit}"
    return f"| {headline.what} | {over} | **{value:.2f}** | {sides}{unit} |"


def _identity(figure: Figure) -> tuple[str, str, str, str | None]:
    return figure.group, figure.name, figure.of, figure.over


def misses(reports: Mapping[str, Report]) -> str:
    """The goals that are missed beyond noise, with the worst figure of each, as a table."""
    rows = [row for row in standings(_all(reports)) if row.outcome == "no"]
    if not rows:
        return "No goal is missed."
    lines = ["| goal | worst figure | where | to reach |", "|---|---|---|---|"]
    for row in rows:
        assert row.figure is not None
        where = f"{row.figure.group}: {row.figure.name}"
        limit = row.goal.reach or row.goal.then
        lines.append(f"| {row.goal.what} | {row.figure.value.middle:.3g} | {where} | {limit:.3g} |")
    return "\n".join(lines)


def dates(reports: Mapping[str, Report]) -> str:
    """When the groups were measured, as a sentence."""
    found: dict[str, list[str]] = {}
    for name, report in reports.items():
        found.setdefault(report.date, []).append(name)
    days = [f"{day} ({', '.join(names)})" for day, names in found.items()]
    return f"Measured on {', '.join(days)}."


def _all(reports: Mapping[str, Report]) -> Sequence[Figure]:
    return [figure for report in reports.values() for figure in report.figures]
