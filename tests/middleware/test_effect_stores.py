"""Stores of effects: one record for each key, whatever threads and processes do at once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from agent_factory.middleware import Effect, EffectStore, InMemoryEffects, SqliteEffects
from processes import Processes, exit_code, wait_for_line


def effect(key: str = "key", run: str = "run") -> Effect:
    return Effect.start(key, run, "pay", b"args")


@pytest.fixture(params=[InMemoryEffects, SqliteEffects])
def store(request: Any, tmp_path: Path) -> Iterator[EffectStore]:
    if request.param is InMemoryEffects:
        yield InMemoryEffects()
        return
    store = SqliteEffects(tmp_path / "effects.db")
    yield store
    store.close()


def test_the_first_attempt_is_recorded_and_others_see_it(store: EffectStore) -> None:
    first, second = effect(), effect()
    assert store.begin(first) is None
    assert store.begin(second) == first
    store.finish(first, b"result")
    earlier = store.begin(second)
    assert earlier is not None
    assert (earlier.result_data, earlier.attempt) == (b"result", first.attempt)


def test_an_attempt_that_is_not_done_can_be_released_by_itself_alone(store: EffectStore) -> None:
    first, second = effect(), effect()
    store.begin(first)
    store.release(second)
    store.finish(second, b"wrong")
    assert store.begin(second) == first
    store.release(first)
    assert store.begin(second) is None
    store.finish(second, b"result")
    store.release(second)
    assert store.begin(first) is not None


def test_a_run_lists_its_effects_in_order(store: EffectStore) -> None:
    first, second, third = effect("b"), effect("c", "other"), effect("a")
    for one in (first, second, third):
        store.begin(one)
    assert store.of_run("run") == [first, third]
    store.release(first)
    store.begin(first)
    assert store.of_run("run") == [third, first]


def test_one_of_many_threads_begins(store: EffectStore) -> None:
    with ThreadPoolExecutor(8) as threads:
        begun = list(threads.map(lambda _: store.begin(effect()), range(50)))
    assert begun.count(None) == 1


def test_a_file_keeps_its_effects_and_a_closed_store_opens_again(tmp_path: Path) -> None:
    first = effect()
    for earlier in (None, first):
        store = SqliteEffects(tmp_path / "effects.db")
        store.close()
        assert store.begin(first) == earlier
        store.close()
        assert store.begin(effect()) == first
        store.close()


RACE = """
import sys
from agent_factory.middleware import Effect, SqliteEffects

store = SqliteEffects(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
won = []
for number in range(200):
    one = Effect.start(str(number), "run", "pay", b"")
    if store.begin(one) is None:
        won.append(number)
        if number % 3 == 0:
            store.finish(one, b"result")
print(won)
"""


@pytest.mark.long
def test_one_of_several_processes_begins_each_effect(tmp_path: Path, processes: Processes) -> None:
    command = [sys.executable, "-c", RACE, tmp_path / "effects.db"]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    racers = [processes.start(command, **pipes) for _ in range(3)]
    for racer in racers:
        wait_for_line(racer, "ready")
    for racer in racers:
        racer.stdin.write("go\n")  # type: ignore[union-attr]
        racer.stdin.flush()  # type: ignore[union-attr]
    won = [json.loads(wait_for_line(racer, "[")) for racer in racers]
    assert [exit_code(racer) for racer in racers] == [0] * 3
    assert sorted(number for numbers in won for number in numbers) == list(range(200))
    store = SqliteEffects(tmp_path / "effects.db")
    assert sum(one.is_done for one in store.of_run("run")) == len(range(0, 200, 3))
    store.close()
