"""Laws among the tests, and coverage: measured in tests alone, without laws and tests of documents.

Laws run lines that other tests run, too, a hundred times; measured, they take as long again.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Generator
from functools import cache
from inspect import getsource
from pathlib import Path
from typing import Any

import pytest
from hypothesis import is_hypothesis_test

UNMEASURED = ("test_architecture", "test_attackers", "test_benchmark", "test_docs", "test_recovery")
"""Files whose tests run lines of the package that other tests run, too, or none."""

COVERAGE = pytest.StashKey[Any]()
"""The coverage measurement of this process, or None."""

MEASURED = pytest.StashKey[Path]()
"""The module that is measured as a whole now."""


def pytest_configure(config: pytest.Config) -> None:
    """Find the coverage measurement, which cannot be found while it is paused."""
    module = sys.modules.get("coverage")
    config.stash[COVERAGE] = module.Coverage.current() if module else None


@pytest.hookimpl(tryfirst=True)  # before `-m law` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark laws."""
    for item in items:
        if is_hypothesis_test(getattr(item, "function", None)) or laws_within(item.path):
            item.add_marker("law")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Pause coverage between tests."""
    if coverage := session.config.stash[COVERAGE]:
        coverage.stop()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, Any, Any]:
    """Measure modules with servers as a whole, whose threads live longer than a test."""
    coverage = item.config.stash[COVERAGE]
    if coverage is None or not _has_servers(item):
        return (yield)
    if item.session.stash.get(MEASURED, None) != item.path:
        coverage.start()
        item.session.stash[MEASURED] = item.path
    _name_context(coverage, item)
    try:
        return (yield)
    finally:
        if nextitem is None or nextitem.path != item.path:
            coverage.stop()
            del item.session.stash[MEASURED]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Measure a test, but not its fixtures."""
    coverage = item.config.stash[COVERAGE]
    if coverage is None or _has_servers(item) or not _is_measured(item):
        return (yield)
    coverage.start()
    _name_context(coverage, item)
    try:
        return (yield)
    finally:
        coverage.stop()


def _name_context(coverage: Any, item: pytest.Item) -> None:
    """Note which test enters a line, for `scripts/mutants.py`."""
    if "COVERAGE_CONTEXTS" in os.environ:
        coverage.switch_context(item.nodeid)


def _has_servers(item: pytest.Item) -> bool:
    return item.path.parent.name in ("serve", "service")


def _is_measured(item: pytest.Item) -> bool:
    return not item.path.stem.startswith(UNMEASURED) and not draws(item)


def draws(item: pytest.Item) -> bool:
    """Return True if a test draws examples itself; others of its file are marked as laws, too."""
    function = getattr(item, "function", None)
    if "law" not in item.keywords or function is None:
        return False
    return is_hypothesis_test(function) or LAWS_WITHIN.search(getsource(function)) is not None


LAWS_WITHIN = re.compile(r"^(?!@given|@settings|from |import ).*\b(given\(|settings[(.])", re.M)


@cache
def laws_within(path: Path) -> bool:
    """Return True if a file draws examples inside a test, so that more of them may prove more."""
    text = path.read_text(encoding="utf-8")
    return "hypothesis" in text and LAWS_WITHIN.search(text) is not None
