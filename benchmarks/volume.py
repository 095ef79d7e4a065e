"""Much of something: long threads, long conversations, wide turns, many runs at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product

from benchmarks.contenders import (
    BY_HAND,
    FULL_CHECKPOINTS,
    PEER,
    PLAIN,
    Transition,
    by_hand,
    has_peer,
    judged,
    ours,
    plain,
    rivals,
)
from benchmarks.efforts import SHORT, Effort, Thread
from benchmarks.harness import Match, Pair, Scale, Tally, per
from benchmarks.runs import Entry, Setting, crowds, memory_per_run, runs, weigh
from benchmarks.savers import Mode, Saver
from benchmarks.threads import Read, readings

CROWD_TURNS = 3
"""Tool turns of each run of a crowd."""

FEW = 100
"""Above so many runs at once, only langchain and what goals are about take part: it takes long."""

CROWD_HOOKS = 8
"""Middleware of each run of a crowd."""


def checkpoints(effort: Effort) -> Iterator[Tally]:
    """How many checkpoints a turn makes, and what they weigh."""
    factories = rivals([*effort.transitions(), *effort.transitions(FULL_CHECKPOINTS)])
    for thread in effort.threads:
        items = {
            f"{factory.name}, N={number}": partial(
                weigh, factory, number, thread.turns, thread.size
            )
            for factory, number in product(factories, thread.numbers)
        }
        pairs = [
            pair
            for factory in factories
            for pair in _weights(factory.name, thread.numbers, _weight_goals(factory.name, thread))
        ]
        name = f"{thread.turns} turns, messages of {thread.size} bytes"
        yield Tally("checkpoints", name, items, pairs)


def _weight_goals(name: str, thread: Thread) -> dict[tuple[str, int], str]:
    """The goals of a contender, by what is counted and the number of middleware."""
    if name not in {ours(way).name for way in judged()}:
        return {}
    goals = {("checkpoints a turn", number): "checkpoints" for number in (8, 32)}
    if thread.size == SHORT:
        goals["over none", 32] = "bytes"
    if thread.turns == 200:
        goals["kB a turn", 8] = "long thread"
    return goals


def _weights(
    name: str, numbers: Sequence[int], goals: dict[tuple[str, int], str]
) -> Iterator[Pair]:
    for number in numbers:
        of = f"{name}, N={number}"
        for unit in ("checkpoints a turn", "kB a turn"):
            yield Pair(of, None, goals.get((unit, number)), unit)
        if number and 0 in numbers:
            yield Pair(of, f"{name}, N=0", goals.get(("over none", number)), "kB a turn")


def calls(effort: Effort) -> Iterator[Match]:
    """A turn with many calls at once, over a loop that makes them."""
    for number, mode in product(effort.calls, Mode):
        setting = Setting(mode, turns=1, calls=number, plain=True)
        aims = f"calls {mode}" if number == 100 else None
        rounds = effort.few if number > 100 else effort.runs
        name = f"{number} at once, {mode}"
        yield _over_plain("calls", name, setting, rounds, effort.transitions(), aims, per(1, "ms"))


def messages(effort: Effort) -> Iterator[Match]:
    """A run in a long conversation, without a saver, over a loop that only appends to a list."""
    for number, mode in product(effort.histories, Mode):
        setting = Setting(mode, turns=effort.turns, before=number)
        aims = "history" if number == 10_000 else None
        name, scale = f"{number:,} messages, {mode}", per(effort.turns, "ms a turn")
        yield _over_plain("messages", name, setting, effort.few, effort.transitions(), aims, scale)


def reading(effort: Effort) -> Iterator[Match]:
    """A long thread that is read: its state, and one more turn; over LangGraph wired by hand.

    Each contender has written the last ten turns of the thread itself, the way it writes them.
    """
    for number, mode, act in product(effort.histories, Mode, Read):
        ways = [*effort.transitions(), *effort.transitions(FULL_CHECKPOINTS)]
        entrants = [*rivals(ways), by_hand()]
        setting = Setting(mode, Saver.MEMORY, turns=effort.turns, before=number)
        entries: dict[str, Entry] = {factory.name: (factory, setting) for factory in entrants}
        aims = {ours(way).name for way in judged()} if number == 10_000 else set()
        pairs = [
            Pair(factory.name, BY_HAND, "reading" if factory.name in aims else None)
            for factory in entrants
            if factory.name != BY_HAND
        ]
        opened = partial(readings, entries, act)
        name = f"{number:,} messages, {act}, {mode}"
        yield Match("reading", name, opened, effort.few, pairs)


def _over_plain(
    group: str,
    name: str,
    setting: Setting,
    rounds: int,
    transitions: Sequence[Transition],
    goal: str | None,
    scale: Scale,
) -> Match:
    entrants = [*rivals(transitions), by_hand(), plain()]
    entries: dict[str, Entry] = {factory.name: (factory, setting) for factory in entrants}
    aims = {ours(way).name for way in judged()}
    pairs = [
        Pair(factory.name, PLAIN, goal if factory.name in aims else None)
        for factory in entrants
        if factory.name != PLAIN
    ]
    return Match(group, name, partial(runs, entries), rounds, pairs, scale)


def crowd(effort: Effort) -> Iterator[Match | Tally]:
    """Many async runs at once: how fast they end, and what each holds while it waits."""
    for number in effort.crowds:
        entries = _crowd_entries(effort, number)
        rounds = effort.few if number <= FEW else 2
        scale = Scale("agents a second", partial(_rate, number))
        pairs = _crowd_pairs(entries, "crowd" if number == FEW else None)
        opened = partial(crowds, entries, number)
        warm = number <= FEW
        yield Match("crowd", _crowd_name(number), opened, rounds, pairs, scale, warm)
    for number in effort.memories:
        entries = _crowd_entries(effort, number)
        items = {name: partial(_memory, entry, number) for name, entry in entries.items()}
        pairs = [replace(pair, unit=UNIT) for pair in _crowd_pairs(entries, None)]
        yield Tally("crowd", f"memory, {_crowd_name(number)}", items, pairs)


def _crowd_entries(effort: Effort, number: int) -> dict[str, Entry]:
    setting = Setting(Mode.ASYNC, number=CROWD_HOOKS, turns=CROWD_TURNS)
    transitions = effort.transitions() if number <= FEW else judged()
    return {factory.name: (factory, setting) for factory in rivals(transitions)}


def _crowd_name(number: int) -> str:
    return f"{number:,} runs, {CROWD_HOOKS} middleware"


UNIT = "kB a run"
"""What memory is said in: what Python allocated, by tracemalloc, in thousands of bytes."""


def _rate(number: int, seconds: float) -> float:
    return number / seconds


def _memory(entry: Entry, number: int) -> dict[str, float]:
    factory, setting = entry
    # One turn is enough: counting slows everything down, and a turn adds two messages.
    return {UNIT: memory_per_run((factory, replace(setting, turns=1)), number) / 1000}


def _crowd_pairs(entries: dict[str, Entry], goal: str | None) -> list[Pair]:
    aims = {ours(way).name for way in judged()} if has_peer() else set()
    over = PEER if has_peer() else None
    return [Pair(name, over, goal if name in aims else None) for name in entries if name != PEER]
