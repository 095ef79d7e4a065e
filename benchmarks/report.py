"""Figures become a table for people, JSON for programs and back, and a verdict on the goals."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from benchmarks.goals import GOALS
from benchmarks.harness import Figure, Interval

PACKAGES = ("langgraph", "langchain-core", "langchain", "pydantic-ai-slim", "openai-agents")

HEAD = "| what | of / over | figure | CPU | each | reach | then |\n|---|---|---|---|---|---|---|"


@dataclass(frozen=True, slots=True)
class Report:
    """What was found, when, and with what.

    Args:
        date: The day, as in 2026-11-22.
        versions: Of Python and of the packages that took part.
        figures: What was found.
    """

    date: str
    versions: Mapping[str, str]
    figures: Sequence[Figure]

    def markdown(self) -> str:
        """A line of date and versions, and a table."""
        with_ = ", ".join(f"{name} {number}" for name, number in self.versions.items())
        return f"Measured on {self.date} with {with_}.\n\n{table(self.figures)}"

    def json(self) -> str:
        """For programs, and for `read`."""
        figures = [_record(figure) for figure in self.figures]
        whole = {"date": self.date, "versions": dict(self.versions), "figures": figures}
        return json.dumps(whole, indent=2)


def report(figures: Sequence[Figure]) -> Report:
    """Figures that were measured just now."""
    return Report(datetime.now(UTC).date().isoformat(), versions(), figures)


def read(text: str) -> Report:
    """What `Report.json` wrote. Goals are those of today."""
    whole = json.loads(text)
    return Report(whole["date"], whole["versions"], [_figure(each) for each in whole["figures"]])


def versions() -> dict[str, str]:
    """What was measured with."""
    return {"python": platform.python_version(), **{name: _version(name) for name in PACKAGES}}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def table(figures: Iterable[Figure]) -> str:
    """The figures as a Markdown table."""
    return "\n".join([HEAD, *map(_row, figures)])


def _row(figure: Figure) -> str:
    aim = figure.aim
    cells = [
        f"{figure.group}: {figure.name}",
        _rivals(figure),
        _said(figure, figure.value),
        _said(figure, figure.cpu) if figure.cpu else "",
        _sides(figure),
        _judged(figure, aim.reach if aim else None),
        _judged(figure, aim.then if aim else None),
    ]
    return f"| {' | '.join(cells)} |"


def _rivals(figure: Figure) -> str:
    return f"{figure.of} / {figure.over}" if figure.over else figure.of


def _said(figure: Figure, found: Interval) -> str:
    if figure.cpu is None:
        return f"{found.middle:.4g}{_unit(figure)}"
    return f"{found.middle:.2f} ({found.low:.2f}-{found.high:.2f}){_unit(figure)}"


def _unit(figure: Figure) -> str:
    return "" if figure.over else f" {figure.unit}"


def _sides(figure: Figure) -> str:
    if figure.over is None:
        return ""
    return f"{' / '.join(f'{side:.3g}' for side in figure.sides)} {figure.unit}"


def _judged(figure: Figure, limit: float | None) -> str:
    return "" if limit is None else f"{limit:.3g}: {figure.outcome(limit)}"


def shortfalls(figures: Iterable[Figure]) -> list[str]:
    """A line for each figure that does not reach its goal, beyond noise."""
    return _lines(figures, "no")


def doubtful(figures: Iterable[Figure]) -> list[str]:
    """A line for each figure that does not reach its goal, but whose range does."""
    return _lines(figures, "within noise")


def _lines(figures: Iterable[Figure], outcome: str) -> list[str]:
    return [
        f"{figure.group}: {figure.name}: {_rivals(figure)} reads "
        f"{_said(figure, figure.value)}, to reach: {figure.aim.reach:.3g}"
        for figure in figures
        if figure.aim and figure.aim.reach and figure.outcome(figure.aim.reach) == outcome
    ]


def unmeasured(figures: Iterable[Figure]) -> list[str]:
    """A line for each goal that no figure is about."""
    seen = {figure.goal for figure in figures}
    return [f"not measured: {goal.what}" for key, goal in GOALS.items() if key not in seen]


def _record(figure: Figure) -> dict[str, Any]:
    aim = figure.aim
    limits = {"reach": aim.reach, "then": aim.then} if aim else {}
    return {
        **asdict(figure),
        "value": figure.value._asdict(),
        "cpu": figure.cpu._asdict() if figure.cpu else None,
        **{name: {"limit": at, "met": figure.outcome(at)} for name, at in limits.items()},
    }


def _figure(record: Mapping[str, Any]) -> Figure:
    names = set(Figure.__dataclass_fields__)
    known = {name: value for name, value in record.items() if name in names}
    cpu = known["cpu"] and Interval(**known["cpu"])
    return Figure(**{**known, "value": Interval(**known["value"]), "cpu": cpu})
