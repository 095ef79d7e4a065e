"""The helpers of tests: tables that one test walks, waits in looks, processes that end."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any, cast

import pytest

import waiting
from processes import Processes, exit_code, owned
from tables import each
from waiting import auntil, run_virtually, until


def test_each_row_runs_and_each_that_fails_is_named() -> None:
    seen = []

    @each("number, name", [(1, "a"), pytest.param(2, "b", id="two"), (3, "c")])
    def walk(number: int, name: str) -> None:
        seen.append((number, name))
        assert number == 1
        with pytest.raises(ValueError, match="never"):
            pass

    without_columns: Callable[[], None] = cast("Any", walk)
    with pytest.raises(BaseExceptionGroup, match="3 of 3 rows fail") as raised:
        without_columns()
    assert seen == [(1, "a"), (2, "b"), (3, "c")]
    notes = [note for error in raised.value.exceptions for note in error.__notes__]
    assert notes == ["in the row 1-a", "in the row two", "in the row 3-c"]


@each("value", ["first", "second"])
def test_a_row_undoes_its_patches(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "ROW" not in os.environ
    monkeypatch.setenv("ROW", value)


def test_a_row_that_is_skipped_hides_no_row_that_fails() -> None:
    @each("number", [1, 2])
    def walk(number: int) -> None:
        if number == 1:
            pytest.skip("not here")
        raise LookupError

    @each("number", [1, 2])
    def skip(number: int) -> None:
        pytest.skip(f"not {number}")

    with pytest.raises(BaseExceptionGroup, match="1 of 2 rows fail"):
        cast("Any", walk)()
    with pytest.raises(pytest.skip.Exception, match="not 1"):
        cast("Any", skip)()


def test_no_walk_awaits_its_rows() -> None:
    with pytest.raises(TypeError, match="walk must be sync"):

        @each("number", [1])
        async def walk(number: int) -> None: ...


@pytest.mark.parametrize(
    ("names", "rows", "error"),
    [
        ("value", [], "table with rows"),
        ("value, other", [(1,)], "Expected 2 values"),
        ("value", [pytest.param(1, marks=pytest.mark.long)], "without marks"),
        ("values", [1], "has no parameters"),
    ],
)
def test_a_table_that_no_test_can_walk_is_refused(names: str, rows: Any, error: str) -> None:
    with pytest.raises((TypeError, ValueError), match=error):

        @each(names, rows)
        def walk(value: int, other: int = 0) -> None: ...


def test_a_wait_gives_up_after_its_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    monkeypatch.setattr(waiting, "PAUSE", 0)
    with pytest.raises(AssertionError, match="3000 looks"):
        until(lambda: looks.append(1))
    assert len(looks) == waiting.LOOKS
    with pytest.raises(AssertionError, match="3000 looks"):
        asyncio.run(auntil(lambda: False))
    assert until(lambda: "value") == asyncio.run(auntil(lambda: "value")) == "value"


def test_hours_pass_at_once_in_a_virtual_loop() -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        begin = loop.time()
        await asyncio.sleep(7200)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 3600)
        return loop.time() - begin

    assert run_virtually(main()) == 10_800


def test_a_process_ends_with_its_owner(processes: Processes) -> None:
    sleeping = "import time; print('ready', flush=True); time.sleep(3600)"
    with owned() as mine:
        running = mine.start([sys.executable, "-c", sleeping], ready="ready")
        assert running.poll() is None
    assert running.returncode != 0
    assert exit_code(processes.start([sys.executable, "-c", "raise SystemExit(3)"])) == 3
    with pytest.raises(AssertionError, match="ended before it wrote 'ready'"):
        processes.start([sys.executable, "-c", "print('no')"], ready="ready")


def test_a_process_ends_where_its_test_fails() -> None:
    owner = owned()
    running = owner.__enter__().start([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert not owner.__exit__(RuntimeError, RuntimeError("the test has failed"), None)
    assert running.returncode is not None
