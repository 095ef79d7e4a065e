"""The figures of each group as data: `figures.json`, and `peers.json` for the group `peers`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from benchmarks.report import Report, report_of

FIGURES = Path(__file__).with_name("figures.json")
"""A report for each group, by its name."""

PEERS = Path(__file__).with_name("peers.json")
"""The report of the group `peers`, in the form that `--json` writes."""


def stored() -> dict[str, Report]:
    """The report of each group, as it was last measured."""
    files = [file for file in (FIGURES, PEERS) if file.exists()]
    reports = [report for file in files for report in reports_in(file)]
    return {name: each for report in reports for name, each in report.groups().items()}


def reports_in(file: Path) -> list[Report]:
    """The reports in a file: all of a store, or the only one of a measurement."""
    record = json.loads(file.read_text(encoding="utf-8"))
    return (
        [report_of(record)] if "date" in record else [report_of(each) for each in record.values()]
    )


def store(reports: Mapping[str, Report]) -> None:
    """Replace the reports of these groups, and keep those of the others."""
    others = {**stored(), **reports}
    if peers := others.pop("peers", None):
        PEERS.write_text(f"{peers.json()}\n", encoding="utf-8")
    texts = [f"{json.dumps(name)}: {each.json()}" for name, each in others.items()]
    FIGURES.write_text("{\n" + ",\n".join(texts) + "\n}\n", encoding="utf-8")
