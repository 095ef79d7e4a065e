"""The group `peers` as tables, and as sentences about the rows in which others are better."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.contenders import OURS, by_hand
from benchmarks.harness import Figure
from benchmarks.others import libraries
from benchmarks.peer_kills import ANSWERED, LOST, ONCE, REPEATED, UNITS
from benchmarks.peers import NAMES
from benchmarks.report import Report

OUR_SIDES = (OURS, "agent-factory serve")
"""How the names of ours begin: as a library, and as a server."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table.

    Args:
        name: What it is about.
        unit: What is counted, or "" where several things are.
        amounts: The figure of each contender by its unit.
        ratios: The same over ours.
    """

    name: str
    unit: str
    amounts: Mapping[str, Mapping[str, Figure]]
    ratios: Mapping[str, Figure]

    @property
    def ours(self) -> str:
        """Which contender is ours, or the one of ours that others are measured against."""
        return next((figure.over for figure in self.ratios.values() if figure.over), OURS)

    @property
    def title(self) -> str:
        """Its name, with the short unit: what each amount is of is in the name."""
        return f"{self.name}, {self.unit.partition(' ')[0]}" if self.unit else self.name

    @property
    def is_counted(self) -> bool:
        """Whether several things are counted, as after kills."""
        return not self.unit

    def amount(self, name: str, unit: str | None = None) -> float | None:
        """The amount of a contender: CPU time where that was taken; None where there is none."""
        figure = self.amounts.get(name, {}).get(self.unit if unit is None else unit)
        if figure is None or figure.reason is not None:
            return None
        return (figure.cpu or figure.value).middle

    def reason(self, name: str) -> str:
        """Why a contender has no amount."""
        figure = next(iter(self.amounts.get(name, {}).values()), None)
        return (
            figure.reason.removeprefix(f"{name}: ") if figure and figure.reason else "not measured"
        )

    def order(self, name: str) -> tuple[float, ...] | None:
        """What contenders are compared by, less is better; None where there is no amount."""
        if not self.is_counted:
            amount = self.amount(name)
            return None if amount is None else (amount,)
        amounts = [self.amount(name, unit) for unit in (ONCE, REPEATED, LOST)]
        if any(amount is None for amount in amounts):
            return None
        once, repeated, lost = (amount or 0.0 for amount in amounts)
        return (-once, repeated, lost)

    def best(self, names: Sequence[str]) -> list[str]:
        """The contenders with the least; several where they are the same."""
        orders = {name: order for name in names if (order := self.order(name)) is not None}
        least = min(orders.values(), default=())
        return [name for name, order in orders.items() if order == least]

    def betters(self, names: Sequence[str]) -> Iterator[tuple[str, str]]:
        """The contenders that are better than ours beyond noise, and by how much."""
        ours = self.order(self.ours)
        for name in names:
            order, ratio = self.order(name), self.ratios.get(name)
            if name.startswith(OUR_SIDES) or order is None or ours is None:
                continue
            if self.is_counted:
                if order < ours:
                    yield name, self.cell(name)
            elif ratio and ratio.reason is None:
                interval = ratio.cpu or ratio.value
                if interval.high < 1:
                    yield name, f"{interval.middle:.2f}"

    def cell(self, name: str) -> str:
        """What a table says about a contender."""
        if self.order(name) is None:
            return self.reason(name)
        if self.is_counted:
            lost, answered = self.amount(name, LOST) or 0, self.amount(name, ANSWERED) or 0
            parts = [
                f"{self.amount(name, ONCE):.0f} %",
                f"{self.amount(name, REPEATED):.2g} repeated",
            ]
            parts += [f"{lost:.2g} lost"] if lost else []
            parts += [f"{100 - answered:.0f} % without an answer"] if answered < 100 else []
            return ", ".join(parts)
        ratio = self.ratios.get(name)
        over = f" ({(ratio.cpu or ratio.value).middle:.2f})" if ratio and not ratio.reason else ""
        return f"{self.amount(name):.3g}{over}"


def rows_of(report: Report, group: str = "peers") -> list[Row]:
    """The rows of a report, in its order."""
    names = dict.fromkeys(each.name for each in report.figures if each.group == group)
    return [_row(name, [each for each in report.figures if each.name == name]) for name in names]


def _row(name: str, figures: Sequence[Figure]) -> Row:
    amounts: dict[str, dict[str, Figure]] = {}
    for figure in figures:
        if figure.over is None:
            amounts.setdefault(figure.of, {})[figure.unit] = figure
    units = {unit for each in amounts.values() for unit in each}
    unit = "" if units <= set(UNITS) else units.pop()
    ratios = {each.of: each for each in figures if (each.over or "").startswith(OUR_SIDES)}
    return Row(name, unit, amounts, ratios)


def is_of_servers(row: Row) -> bool:
    """Whether servers take part in a row, and not libraries."""
    return OURS not in row.amounts


def names_of(row: Row) -> list[str]:
    """The columns of a row's table."""
    return list(row.amounts) if is_of_servers(row) else list(NAMES)


def tables(report: Report) -> str:
    """The libraries, and then the servers. The best of each row is bold."""
    rows = rows_of(report)
    found = (
        [row for row in rows if not is_of_servers(row)],
        [row for row in rows if is_of_servers(row)],
    )
    return "\n\n".join(_table(part) for part in found if part)


def plugin_table(report: Report) -> str:
    """Temporal's plugin alone."""
    return _table(rows_of(report, "temporal"))


def _table(rows: Sequence[Row]) -> str:
    names = names_of(rows[0])
    head = ["", *(f"**{name}**" if name == rows[0].ours else name for name in names)]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for row in rows:
        best = row.best(names) if len(names) > 1 else []
        cells = [f"**{row.cell(name)}**" if name in best else row.cell(name) for name in names]
        lines.append(f"| {' | '.join([row.title, *cells])} |")
    return "\n".join(lines)


def losses(report: Report) -> str:
    """A line for each contender that is better than ours somewhere, with the rows."""
    rows = rows_of(report)
    found: dict[str, list[str]] = {}
    for row in rows:
        for name, amount in row.betters(names_of(row)):
            found.setdefault(name, []).append(f"{row.name} ({amount})")
    lines = [f"- **{name}**: {'; '.join(places)}." for name, places in found.items()]
    return "\n".join(lines or ["No other is better in any row, beyond noise."])


def forms() -> str:
    """What stands for middleware in the libraries that have none, as a sentence."""
    parts = [f"{each.name}, {each.form}" for each in (by_hand(), *libraries()) if each.form]
    return f"What stands for middleware: {'; '.join(parts)}."
