"""The outcome of a run of the tests, as a file for `scripts/run_tests.py`."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from measuring import draws

LAWS = pytest.StashKey[set[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--outcomes", metavar="FILE", help="write counts and failed tests as JSON")


def pytest_configure(config: pytest.Config) -> None:
    """Collect outcomes in the process that sees all reports: not in workers of pytest-xdist."""
    path = config.getoption("outcomes")
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Outcomes(Path(path)), "outcomes-of-a-run")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    """Say in the report whether a test is a law; it travels from a worker."""
    report = yield
    if report.failed:
        report.user_properties.append(("law", draws(item)))
    return report


class Outcomes:
    """Counts outcomes, and keeps the id and the message of each failed test."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.counts: Counter[str] = Counter()
        self.failed: dict[str, dict[str, Any]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._add(report, ("law", True) in report.user_properties)
        elif report.when == "call":
            self.counts[report.outcome] += 1

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._add(report, False)

    def _add(self, report: Any, law: bool) -> None:
        crash = getattr(report.longrepr, "reprcrash", None)
        message = crash.message if crash else report.longreprtext
        test = {"id": report.nodeid, "law": law, "message": message.strip()[:500]}
        self.failed.setdefault(report.nodeid, test)

    def pytest_sessionfinish(self) -> None:
        outcome = {**self.counts, "failed": [*self.failed.values()]}
        self.path.write_text(json.dumps(outcome, indent=1), encoding="utf-8")
