"""The laws of stores: each answers as the simplest store of its kind, in one process or in many."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent_factory import middleware as m
from agent_factory.service import Service, SharedLedger
from agent_factory.service.database import Database
from agent_factory.service.effects import SharedEffects
from agent_factory.service.leases import take_lease
from service.stored import insert_thread


class Dictionary:
    """The store that all others are compared with: a record for each key, in order."""

    def __init__(self) -> None:
        self.records: dict[str, m.Effect] = {}

    def begin(self, effect: m.Effect) -> m.Effect | None:
        known = self.records.get(effect.key)
        self.records.setdefault(effect.key, effect)
        return known

    def finish(self, effect: m.Effect, result: bytes) -> None:
        if self.of_attempt(effect) is not None:
            self.records[effect.key] = replace(self.records[effect.key], result_data=result)

    def release(self, effect: m.Effect) -> None:
        known = self.of_attempt(effect)
        if known is not None and known.result_data is None:
            del self.records[effect.key]

    def of_run(self, run: str) -> list[m.Effect]:
        return [record for record in self.records.values() if record.run == run]

    def of_attempt(self, effect: m.Effect) -> m.Effect | None:
        known = self.records.get(effect.key)
        return known if known is not None and known.attempt == effect.attempt else None


@pytest.fixture(params=["memory", "file", "sqlite", "postgres"])
def effect_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[m.EffectStore]:
    if request.param == "memory":
        yield m.InMemoryEffects()
    elif request.param == "file":
        with closing(m.SqliteEffects(tmp_path / "effects.db")) as store:
            yield store
    else:
        url: str = request.getfixturevalue(f"{request.param}_url")
        with closing(Database(url)) as database:
            with database.begin() as connection:
                insert_thread(connection, "t")
                lease = take_lease(connection, "t")
            yield SharedEffects(database, lease)


KEYS = st.sampled_from(["a", "b", "c/undo"])
EFFECT_STEPS = st.lists(
    st.tuples(st.sampled_from(["begin", "finish", "release"]), KEYS, st.integers(0, 1)),
    max_size=12,
)


@settings.get_profile("costly")
@given(steps=EFFECT_STEPS)
@example([("begin", "a", 0), ("begin", "a", 1), ("finish", "a", 1), ("finish", "a", 0)])
@example([("begin", "a", 0), ("release", "a", 1), ("release", "a", 0), ("begin", "a", 1)])
@example([("begin", "a", 0), ("finish", "a", 0), ("release", "a", 0), ("begin", "a", 1)])
@example([("begin", "a", 0), ("begin", "b", 0), ("release", "a", 0), ("begin", "a", 0)])
def test_a_store_of_effects_answers_as_a_dictionary_does(
    effect_store: m.EffectStore, steps: list[tuple[str, str, int]]
) -> None:
    """The first attempt is recorded; an attempt without a result is released by itself alone."""
    model, run = Dictionary(), uuid4().hex
    attempts = {
        (key, number): m.Effect.start(
            f"{run}{key}", run if key == "a" else f"{run}2", "pay", b"args"
        )
        for key in ("a", "b", "c/undo")
        for number in range(2)
    }
    for method, key, number in steps:
        arguments: list[Any] = [attempts[key, number]]
        if method == "finish":
            arguments.append(b"%d" % number)
        answers = [getattr(store, method)(*arguments) for store in (effect_store, model)]
        assert answers[0] == answers[1], (method, key, number)
        for name in (run, f"{run}2"):
            assert list(effect_store.of_run(name)) == model.of_run(name)


def test_one_of_many_threads_begins_an_effect(effect_store: m.EffectStore) -> None:
    def begin(_: int) -> m.Effect | None:
        return effect_store.begin(m.Effect.start("key", "run", "pay", b"args"))

    with ThreadPoolExecutor(8) as pool:
        begun = list(pool.map(begin, range(50)))
    assert begun.count(None) == 1


DOLLARS = st.sampled_from([0.0, 0.1, 0.2, 0.3, 0.7, 1e-7]) | st.floats(0, 1)
SPENT = st.builds(
    m.Spent,
    usd=DOLLARS,
    input_tokens=st.integers(0, 40),
    output_tokens=st.integers(0, 40),
    turns=st.integers(0, 2),
    tool_calls=st.integers(0, 2),
    seconds=st.sampled_from([0, 0, 3]),
)
NONE = st.just(m.Spent())
ERRORS = (OSError, TimeoutError, KeyboardInterrupt)


STEPS = st.lists(
    st.tuples(st.just("reserve"), SPENT, NONE | SPENT)
    | st.tuples(st.just("commit"), st.integers(0, 3), SPENT)
    | st.tuples(st.just("leave"), st.integers(0, 3), st.sampled_from(ERRORS))
    | st.tuples(st.just("record"), SPENT, st.sampled_from([None, "m1", "m2"]))
    | st.tuples(st.just("recorded"), st.sampled_from(["m1", "m2"]), st.none())
    | st.tuples(st.just("raise"), st.sampled_from(["usd", "turns", "seconds"]), st.integers(1, 2))
    | st.tuples(st.just("wait"), st.integers(1, 5), st.none()),
    min_size=3,
    max_size=12,
)
LIMITS = st.builds(
    m.Limits,
    usd=st.none() | DOLLARS,
    total_tokens=st.none() | st.integers(0, 200),
    output_tokens=st.none() | st.integers(0, 90),
    seconds=st.none() | st.integers(0, 9),
    turns=st.none() | st.integers(0, 4),
    tool_calls=st.none() | st.integers(0, 4),
)


def play(ledger: m.Ledger, step: tuple[str, Any, Any], held: list[Any]) -> tuple[str, list[float]]:
    """Do a step; what a caller can see of it, as text and as numbers."""
    kind, first, second = step
    answer = ""
    try:
        if kind == "reserve":
            held.append(ledger.reserve(first, keep=second))
        elif kind == "commit" and first < len(held):
            held[first].commit(second)
        elif kind == "leave" and first < len(held):
            with pytest.raises(second), held[first]:
                raise second
        elif kind == "record":
            ledger.record(first, second)
        elif kind == "recorded":
            answer = str(ledger.take_recorded(first))
        elif kind == "raise":
            ledger.raise_limits({first: second})
    except m.BudgetExceededError as error:
        answer = f"over {sorted(error.reached['ledger'])}"
    except RuntimeError as error:
        answer = str(error)
    account = ledger.account()
    limits = account.limits.given()
    amounts = [amounts_of(ledger.spent), amounts_of(account.used)]
    return f"{answer} {sorted(limits)}", [*limits.values(), *chain(*amounts)]


def amounts_of(spent: m.Spent) -> list[float]:
    return [getattr(spent, name) for name in m.Spent.__slots__]


DIME, FREE = m.Spent(usd=0.1), m.Spent()
DIMES = [("reserve", DIME, FREE), ("commit", 0, DIME), ("reserve", DIME, FREE), ("commit", 1, DIME)]
WAITS = [("reserve", FREE, FREE), ("wait", 3, None), ("reserve", FREE, FREE)]


@settings.get_profile("costly")
@given(limits=LIMITS, steps=STEPS)
@example(limits=m.Limits(), steps=[("reserve", DIME, FREE), ("reserve", DIME + DIME, FREE)])
@example(limits=m.Limits(), steps=[("reserve", DIME, FREE), ("record", DIME, None)])
@example(limits=m.Limits(usd=0.3), steps=[*DIMES, ("reserve", DIME, FREE)])
@example(
    limits=m.Limits(), steps=[*WAITS, ("wait", 2, None), ("commit", 0, FREE), ("wait", 1, None)]
)
@example(limits=m.Limits(seconds=3), steps=[*WAITS, ("commit", 0, FREE), ("reserve", FREE, FREE)])
def test_a_shared_ledger_answers_as_a_ledger_does(
    limits: m.Limits, steps: list[Any], sqlite_service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    for place in ("middleware.budget", "service"):
        monkeypatch.setattr(f"agent_factory.{place}.ledger.monotonic", lambda: now)
    shared = SharedLedger(sqlite_service, scope=uuid4().hex, limits=limits)
    model = m.Ledger(limits)
    held: tuple[list[Any], list[Any]] = [], []
    for step in [*steps, *(("leave", at, OSError) for at in range(len(steps)))]:
        now += step[1] if step[0] == "wait" else 0
        answer, amounts = play(model, step, held[0])
        shared_answer, shared_amounts = play(shared, step, held[1])
        assert shared_answer == answer, step
        # The two add up floats in different orders.
        assert shared_amounts == pytest.approx(amounts, abs=1e-9), step
    assert shared.reserved == m.Spent()
    assert shared.limits.given() == pytest.approx(model.limits.given())
    total = sum((part.spent for part in shared.breakdown()), m.Spent())
    assert amounts_of(total) == pytest.approx(amounts_of(shared.spent), abs=1e-9)
