"""The model of capacity: what a load needs, what breaks first, and the command that says so."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_factory.errors import ArgumentError
from tables import each

sys.path.append(str(Path(__file__).resolve().parent.parent))  # benchmarks/ is never installed

from benchmarks.capacity import Costs, Limit, Limits, Load, capacity, main

LOAD = Load(messages_per_second=10, seconds_per_message=6, tool_calls=2, retention_days=10)
COSTS = Costs(
    commits=10,
    commits_per_call=5,
    wal_kb=100,
    wal_kb_per_call=50,
    stored_kb=30,
    stored_kb_per_call=10,
    cpu_ms=20,
    cpu_ms_per_call=10,
    database_cpu_ms=6,
    database_cpu_ms_per_call=2,
    polls=7,
)
LIMITS = Limits(slots_per_worker=8, connections_per_worker=5)


def found(load: Load = LOAD, limits: Limits = LIMITS) -> dict[str, Limit]:
    return {one.name: one for one in capacity(load, COSTS, limits).limits}


def test_each_limit_is_computed_by_its_formula() -> None:
    result = capacity(LOAD, COSTS, LIMITS)
    assert (result.runs_at_once, result.workers) == (60, 8)
    assert {name: one.needs for name, one in found().items()} == pytest.approx(
        {
            "commits": 10 * (10 + 2 * 5) + 8 * 7,
            "WAL": 10 * (100 + 2 * 50) / 1000,
            "database CPU": 10 * (6 + 2 * 2) / 1000,
            "connections": 8 * 5,
            "storage": 10 / 3 * 10 * 86_400 * (30 + 2 * 10) / 1e6,
            "notifications": 8 * 20,
        }
    )


def test_workers_a_shared_budget_and_short_messages_have_limits_of_their_own() -> None:
    limits = found(limits=replace(LIMITS, workers=4))
    assert (limits["slots"].needs, limits["slots"].has) == (60, 32)
    assert (limits["worker CPU"].needs, limits["worker CPU"].has) == pytest.approx((0.4, 2.8))
    assert limits["connections"].needs == 4 * 5
    assert "budget row" not in found()
    assert found(replace(LOAD, one_budget=True))["budget row"].needs == 10 * 3 * 2
    # 100 messages of 40 ms: 4 cores, of which a worker uses 0.7.
    load = replace(LOAD, messages_per_second=100, seconds_per_message=0.1)
    assert capacity(load, COSTS, LIMITS).workers == 6


def test_what_is_used_most_breaks_first() -> None:
    result = capacity(LOAD, COSTS, replace(LIMITS, connections=20))
    assert result.first.name == "connections"
    assert result.first.used == 2
    assert str(result).endswith(
        "First breaks: connections (max_connections of Postgres, or max_client_conn of PgBouncer). "
        "Use PgBouncer, or fewer connections for each worker."
    )
    assert "First would break: " in str(capacity(LOAD, COSTS, LIMITS))
    # Nothing of something is too little.
    assert capacity(LOAD, COSTS, replace(LIMITS, storage_gb=0)).first.name == "storage"


@each(
    "make, message",
    [
        (lambda: replace(LOAD, tool_calls=-1), "tool_calls: must be a number, 0 or more, got -1"),
        (lambda: replace(COSTS, polls=float("nan")), "polls: must be a number"),
        (lambda: replace(LIMITS, storage_gb=float("inf")), "storage_gb: must be a number"),
        (lambda: replace(LIMITS, slots_per_worker=0), "slots_per_worker: must be 1 or more, got 0"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        make()


numbers = st.floats(0, 1e6)


@given(
    before=st.builds(Load, messages_per_second=numbers, seconds_per_message=numbers),
    factor=st.floats(1, 1000),
)
def test_more_messages_never_need_less(before: Load, factor: float) -> None:
    after = replace(before, messages_per_second=before.messages_per_second * factor)
    more = {one.name: one.needs for one in capacity(after).limits}
    assert all(one.needs <= more[one.name] for one in capacity(before).limits)


def test_the_command_prints_a_table_or_json(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--messages-per-second", "10", "--seconds-per-message", "6", "--one-budget"]
    main([*asked, "--storage-gb", "1"])
    table = capsys.readouterr().out
    expected = capacity(
        Load(messages_per_second=10, seconds_per_message=6, one_budget=True),
        limits=Limits(storage_gb=1),
    )
    assert table == f"{expected}\n"
    main([*asked, "--storage-gb", "1", "--json"])
    written = json.loads(capsys.readouterr().out)
    assert written["workers"] == expected.workers
    assert written["limits"][0] == {**asdict(expected.first), "used": expected.first.used}


def test_the_command_says_what_is_wrong_and_what_each_option_means(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["--messages-per-second", "-1", "--seconds-per-message", "1"])
    assert "must be a number, 0 or more, got -1" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "Commits that a tool call adds. (default: 3.1)" in capsys.readouterr().out
