"""How long a run takes: by the number of middleware, by layers, and beside other libraries."""

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
    PLAIN,
    Factory,
    by_hand,
    has_peer,
    judged,
    ours,
    peer,
    plain,
    rivals,
)
from benchmarks.efforts import Effort
from benchmarks.harness import Match, Pair, Scale, per
from benchmarks.others import others
from benchmarks.runs import Setting, runs
from benchmarks.savers import Colour, Saver

MANY = 16
"""How many middleware are many."""


def check(effort: Effort) -> Iterator[Match]:
    """An agent against another one that is built the same: the figures should be 1."""
    for colour in Colour:
        setting = Setting(colour, turns=effort.turns)
        opened = partial(runs, {OURS: (ours(), setting), "itself": (ours(), setting)})
        pairs = [Pair(OURS, "itself")]
        yield Match("check", f"itself, {colour}", opened, effort.checks, pairs, _a_turn(effort))


def latency(effort: Effort) -> Iterator[Match]:
    """A run by the number of its middleware: over the peer with as many, and over one with none."""
    for saver, colour in product(effort.savers, Colour):
        entrants = rivals(effort.transitions())
        entries = {
            _named(factory, number): (
                factory,
                Setting(colour, saver, HOOKS, number, effort.turns),
            )
            for number, factory in product(effort.numbers, entrants)
        }
        by = by_hand()
        entries[BY_HAND] = (by, Setting(colour, saver, turns=effort.turns))
        rounds = effort.few if saver is Saver.SQLITE else effort.runs
        pairs = [*_over_peer(effort, saver, colour), *_over_none(effort, saver, colour)]
        name = f"{colour}, {saver}"
        yield Match("latency", name, partial(runs, entries), rounds, pairs, _a_turn(effort))


def _a_turn(effort: Effort) -> Scale:
    return per(effort.turns, "ms a turn")


def _named(factory: Factory, number: int) -> str:
    return f"{factory.name}, N={number}"


def _over_peer(effort: Effort, saver: Saver, colour: Colour) -> Iterator[Pair]:
    aims = {way.name for way in judged()}
    for number, way in product(effort.numbers, effort.transitions()):
        factory = ours(way)
        if has_peer():
            goal = _goal(number, saver, colour) if way.name in aims else None
            yield Pair(_named(factory, number), f"{PEER}, N={number}", goal)
        if not number:
            yield Pair(_named(factory, number), BY_HAND)


def _goal(number: int, saver: Saver, colour: Colour) -> str | None:
    if number == 0:
        return f"none {colour}" if saver is Saver.NONE else None
    return {8: "8 hooks", 16: "16 hooks", 32: "32 hooks"}.get(number)


def _over_none(effort: Effort, saver: Saver, colour: Colour) -> Iterator[Pair]:
    counts = colour is Colour.ASYNC and saver is not Saver.SQLITE
    aims = {ours(way).name for way in judged()} if counts else set()
    for factory, number in product(rivals(effort.transitions()), effort.numbers):
        if number >= MANY:
            goal = "growth" if number == MANY and factory.name in aims else None
            yield Pair(_named(factory, number), _named(factory, 0), goal)


def layers(effort: Effort) -> Iterator[Match]:
    """What layers around the model cost: a run with them over one with none."""
    entrants = [*([peer()] if has_peer() else []), ours()]
    for colour in Colour:
        entries = {
            _named(factory, number): (factory, _layered(colour, number, effort.turns))
            for factory, number in product(entrants, (0, 1, MANY))
        }
        pairs = [
            Pair(_named(factory, number), _named(factory, 0), _layer_goal(factory, number, colour))
            for factory, number in product(entrants, (1, MANY))
        ]
        if has_peer():
            pairs.append(Pair(f"{OURS}, N={MANY}", f"{PEER}, N={MANY}"))
        opened = partial(runs, entries)
        yield Match("layers", str(colour), opened, effort.runs, pairs, _a_turn(effort))


def _layered(colour: Colour, number: int, turns: int) -> Setting:
    return Setting(colour, kind=LAYERS, number=number, turns=turns)


def _layer_goal(factory: Factory, number: int, colour: Colour) -> str | None:
    judged_here = (factory.name, number, colour) == (OURS, MANY, Colour.ASYNC)
    return "layers" if judged_here else None


def peers(effort: Effort) -> Iterator[Match]:
    """The same loop in every library, without middleware and saver; each over the plain one."""
    entrants = [*rivals(effort.transitions()), by_hand(), *others(), plain()]
    for colour in Colour:
        entries = {
            factory.name: (factory, Setting(colour, turns=effort.turns)) for factory in entrants
        }
        pairs = [Pair(factory.name, PLAIN) for factory in entrants if factory.name != PLAIN]
        pairs += [
            Pair(ours(way).name, factory.name)
            for way, factory in product(judged(), [by_hand(), *others()])
        ]
        opened = partial(runs, entries)
        yield Match("peers", str(colour), opened, effort.runs, pairs, _a_turn(effort))
