"""Tests of packages of others, which need those packages: `make foreign` installs and runs them."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from typing import Any

import pytest

from foreign.stories import compare, tell_each

# The development environment lacks deepagents and what it brings (the clients of three providers).
# Elsewhere each of these tests would be a skip, so they are not collected.
collect_ignore_glob = [] if find_spec("deepagents") else ["test_*.py"]


@pytest.fixture(params=["sync", "async"])
def alike(request: pytest.FixtureRequest) -> Any:
    """Run a build with langchain's agents, ours and ours hook by hook, and compare what is visible.

    `alike(build, *inputs)` calls `build(library, script)` for each library. It compares results,
    interrupts, errors, the state of the thread, what reached the models, and streams. Options:
    `stream=False`, `quiet=False` (not without a stream as well), and those of `invoke`.
    """

    return partial(compare, asynchronous=request.param == "async")


@pytest.fixture(params=["sync", "async"])
def each(request: pytest.FixtureRequest) -> Any:
    """Run a build with each library, for what differs by design: `theirs, *ours = each(...)`.

    The scripts of models may remain unfinished.
    """
    return partial(tell_each, asynchronous=request.param == "async")


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy stands between a client and a server on this machine."""
    monkeypatch.setenv("NO_PROXY", "*")
