"""Tiers of the tests: the functions, cases, modes and databases that a run has.

| `--tier` | runs |
|---|---|
| (none) | each case, in one mode and on one database: a look at a file |
| `short` | each function that is not `long`, with one case |
| `long` | each function that is `long` as a whole, with one case; not those marked `night` |
| `slice` | cases of the night in an order of this commit, as many as begin in two minutes |
| `night` | each case, in the other mode and on the other database |
| `all` | each case, in both modes and on both databases |

A function that could run sync and async, or on SQLite and Postgres, runs in one of both, by its
name; a night has the other. A law over the drivers says that the modes are the same. A test with a
snapshot has all of its cases, as a snapshot that no test asks for fails the run. By day, a test of
documents or scripts runs only if one of its inputs has changed.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

import changes
import pytest
from inputs import INPUTS

TESTS = Path(__file__).resolve().parent
TIERS = ("short", "long", "slice", "night", "all")
SLICE = 120.0
"""Seconds in which tests of a slice begin."""

SNAPSHOTS = {"snapshot", "topology_snapshot"}
"""Fixtures that compare with a stored snapshot."""

MODES = ("sync", "async")
DATABASES = ("sqlite", "postgres")
END = pytest.StashKey[float]()
"""The moment after which no test of a slice begins."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tiers")
    group.addoption("--tier", choices=TIERS, help="the part of the tests that runs")
    group.addoption("--key", default="", help="the commit that orders a slice")


@pytest.hookimpl(wrapper=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> Generator[None, Any, Any]:
    """Generate only the cases of the tier: to make an item costs as much as a quick test."""
    result = yield
    # pytest 9 has no public way to drop a case that a mark or a fixture asks for.
    calls = metafunc._calls
    if calls and not SNAPSHOTS.intersection(metafunc.fixturenames):
        tier = metafunc.config.getoption("tier")
        calls[:] = chosen(calls, tier, crc32(metafunc.definition.nodeid.encode()))
    return result


def chosen(calls: Sequence[Any], tier: str | None, number: int) -> list[Any]:
    """The cases of one function.

    Args:
        calls: All of its cases, each with `params`, `id` and `marks`.
        tier: The tier, or None.
        number: A number of the function, which decides for it.
    """
    if tier == "all":
        return list(calls)
    other = tier in ("slice", "night")
    for names, shift in ((MODES, 0), (DATABASES, 1)):
        value = names[(number >> shift & 1) ^ other]
        calls = [call for call in calls if _values(call, names) <= {value}] or calls
    if tier not in ("short", "long"):
        return list(calls)
    calls = [call for call in calls if not _is_marked(call.marks)] or calls
    return [calls[(number >> 2) % len(calls)]]


def _values(call: Any, names: tuple[str, ...]) -> set[str]:
    """The modes or databases that a case names."""
    values = {v for k, v in call.params.items() if isinstance(v, str) and k != "durability"}
    words = set() if "durability" in call.params else set(call.id.split("-"))
    return {name for name in names if name in values | words}


def _is_marked(marks: Iterable[Any]) -> bool:
    return any(mark.name in ("long", "night") for mark in marks)


def is_long(node: pytest.Item | Any) -> bool:
    """Return True if a function is marked as long, by itself or with its module."""
    return node.get_closest_marker("long") is not None


def is_untouched(path: Path) -> bool:
    """Return True if a file tests documents or scripts of which none has changed.

    They are compared with the last release of main (`scripts/changes.py`).
    """
    name = path.relative_to(TESTS).as_posix()
    if name not in INPUTS:
        return False
    return not changes.matches((f"tests/{name}", "tests/conftest.py", *INPUTS[name]))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the functions of other tiers, and order a slice."""
    tier = config.getoption("tier")
    if tier in ("short", "long"):
        untouched = {path for path in {item.path for item in items} if is_untouched(path)}
        remaining = [
            item
            for item in items
            if is_long(item) == (tier == "long")
            and item.get_closest_marker("night") is None
            and item.path not in untouched
        ]
        config.hook.pytest_deselected(items=[*{*items}.difference(remaining)])
        items[:] = remaining
    if tier == "slice":
        key = config.getoption("key")
        items.sort(key=lambda item: crc32(f"{key} {item.nodeid}".encode()))


def pytest_sessionstart(session: pytest.Session) -> None:
    if session.config.getoption("tier") == "slice":
        session.stash[END] = time.monotonic() + SLICE


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> bool | None:
    """Begin no test of a slice after its time."""
    end = item.session.stash.get(END, None)
    return True if end is not None and time.monotonic() > end else None
