"""The time of a run: by the number of middleware, and by layers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product

from benchmarks.contenders import (
    BY_HAND,
    HOOKS,
    LAYERS,
    OURS,
    PEER,
    RUN_LAYERS,
    Factory,
    by_hand,
    has_peer,
    judged,
    ours,
    peer,
    rivals,
)
from benchmarks.efforts import Effort
from benchmarks.harness import Match, Pair, Scale, per
from benchmarks.parts import MANY
from benchmarks.runs import Setting, runs
from benchmarks.savers import Mode, Saver


def check(effort: Effort) -> Iterator[Match]:
    """An agent against another one that is built the same: the figures should be 1."""
    for mode in Mode:
        setting = Setting(mode, turns=effort.turns)
        opened = partial(runs, {OURS: (ours(), setting), "itself": (ours(), setting)})
        pairs = [Pair(OURS, "itself")]
        yield Match("check", f"itself, {mode}", opened, effort.checks, pairs, _a_turn(effort))


def latency(effort: Effort) -> Iterator[Match]:
    """A run by the number of its middleware: over the peer with as many, and over one with none."""
    for saver, mode in product(effort.savers, Mode):
        entrants = rivals(effort.transitions())
        entries = {
            _named(factory, number): (
                factory,
                Setting(mode, saver, HOOKS, number, effort.turns),
            )
            for number, factory in product(effort.numbers, entrants)
        }
        by = by_hand()
        entries[BY_HAND] = (by, Setting(mode, saver, turns=effort.turns))
        rounds = effort.few if saver is Saver.SQLITE else effort.runs
        pairs = [*_over_peer(effort, saver, mode), *_over_none(effort, saver, mode)]
        name = f"{mode}, {saver}"
        yield Match("latency", name, partial(runs, entries), rounds, pairs, _a_turn(effort))


def _a_turn(effort: Effort) -> Scale:
    return per(effort.turns, "ms a turn")


def _named(factory: Factory, number: int) -> str:
    return f"{factory.name}, N={number}"


def _over_peer(effort: Effort, saver: Saver, mode: Mode) -> Iterator[Pair]:
    aims = {way.name for way in judged()}
    for number, way in product(effort.numbers, effort.transitions()):
        factory = ours(way)
        if has_peer():
            goal = _goal(number, saver, mode) if way.name in aims else None
            yield Pair(_named(factory, number), f"{PEER}, N={number}", goal)
        if not number:
            yield Pair(_named(factory, number), BY_HAND)


def _goal(number: int, saver: Saver, mode: Mode) -> str | None:
    if number == 0:
        return f"none {mode}" if saver is Saver.NONE else None
    return f"{number} hooks, {saver}" if number in (8, 16, 32) else None


def _over_none(effort: Effort, saver: Saver, mode: Mode) -> Iterator[Pair]:
    counts = mode is Mode.ASYNC and saver is not Saver.SQLITE
    aims = {ours(way).name for way in judged()} if counts else set()
    for factory, number in product(rivals(effort.transitions()), effort.numbers):
        if number >= MANY:
            growth = "growth, memory" if saver is Saver.MEMORY else "growth"
            goal = growth if number == MANY and factory.name in aims else None
            yield Pair(_named(factory, number), _named(factory, 0), goal)


def layers(effort: Effort) -> Iterator[Match]:
    """What layers around the model cost: a run with them over one with none."""
    entrants = [*([peer()] if has_peer() else []), ours()]
    for mode in Mode:
        entries = {
            _named(factory, number): (factory, _layered(mode, number, effort.turns))
            for factory, number in product(entrants, (0, 1, MANY))
        }
        pairs = [
            Pair(_named(factory, number), _named(factory, 0), _layer_goal(factory, number, mode))
            for factory, number in product(entrants, (1, MANY))
        ]
        if has_peer():
            pairs.append(Pair(f"{OURS}, N={MANY}", f"{PEER}, N={MANY}"))
        opened = partial(runs, entries)
        yield Match("layers", str(mode), opened, effort.runs, pairs, _a_turn(effort))


def around(effort: Effort) -> Iterator[Match]:
    """What layers around the run cost: a run with them over one with none."""
    for saver, mode in product((Saver.NONE, Saver.MEMORY), Mode):
        entries = {
            f"{number} around the run": (
                ours(),
                Setting(mode, saver, RUN_LAYERS, number, effort.turns),
            )
            for number in (0, 1, 3)
        }
        pairs = [Pair(name, "0 around the run") for name in entries if not name.startswith("0")]
        opened = partial(runs, entries)
        yield Match("around", f"{mode}, {saver}", opened, effort.runs, pairs, _a_turn(effort))


def _layered(mode: Mode, number: int, turns: int) -> Setting:
    return Setting(mode, kind=LAYERS, number=number, turns=turns)


def _layer_goal(factory: Factory, number: int, mode: Mode) -> str | None:
    judged_here = (factory.name, number, mode) == (OURS, MANY, Mode.ASYNC)
    return "layers" if judged_here else None
