"""Paired measurement: contenders take turns in one process, and only ratios within a round count.

A shared machine is now fast, now slow. All contenders of a round see the same machine, so the
ratio of their times holds where the times themselves do not.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple, Protocol

from benchmarks.goals import GOALS, Goal

TOLERANCE = 0.05
"""How far from 1 something may read against itself before no figure can be trusted."""


def _nothing() -> None:
    """What is done where there is nothing to do."""


class Reading(NamedTuple):
    """Two clocks, in seconds.

    Args:
        wall: What passed: what a user waits for.
        cpu: What this process worked, in all its threads: what repeats on a busy machine.
    """

    wall: float
    cpu: float


Clock = Callable[[], Reading]


def now() -> Reading:
    """Both clocks of this process."""
    return Reading(time.perf_counter(), time.process_time())


class Timed(Protocol):
    """Something that takes time and can say how much."""

    def timed(self, clock: Clock) -> Reading:
        """Do it once."""


@dataclass(frozen=True, slots=True)
class Contender:
    """Something in this process that takes time.

    Args:
        run: What is timed. What it returns is dropped.
        prepare: Done before each run, off the clock.
        tidy: Done after each run, off the clock.
    """

    run: Callable[[], object]
    prepare: Callable[[], object] = _nothing
    tidy: Callable[[], object] = _nothing

    def timed(self, clock: Clock) -> Reading:
        """Run once."""
        self.prepare()
        start = clock()
        self.run()
        end = clock()
        self.tidy()
        return Reading(end.wall - start.wall, end.cpu - start.cpu)


class Absent(NamedTuple):
    """A contender that cannot take part.

    Args:
        reason: Why, for the rows that it is missing from.
    """

    reason: str


class Interval(NamedTuple):
    """A median, and the range that holds the true one in about 19 of 20 measurements.

    Args:
        middle: The median.
        low: The lower end of the range.
        high: The upper end.
    """

    middle: float
    low: float
    high: float


NOTHING = Interval(math.nan, math.nan, math.nan)
"""What a figure has that was not measured."""


def interval(values: Sequence[float]) -> Interval:
    """The median and its range, which is read off the sorted values.

    How many values lie below the true median follows a binomial law, whatever the values follow:
    1.96 of its standard deviations, half a root of n each, to either side hold 95 %.

    >>> interval([3.0, 1.0, 2.0])
    Interval(middle=2.0, low=1.0, high=3.0)
    """
    ordered = sorted(values)
    count = len(ordered)
    low = max(0, math.floor((count - 1.96 * math.sqrt(count)) / 2))
    return Interval(median(ordered), ordered[low], ordered[count - 1 - low])


Rounds = Sequence[Mapping[str, Reading]]
"""What was measured: a reading for each contender, round by round."""


def measure(
    contenders: Mapping[str, Timed],
    rounds: int,
    clock: Clock = now,
    after_round: Callable[[], None] = _nothing,
    warm: bool = True,
) -> Rounds:
    """Time contenders in turn, round after round.

    Each is called once off the record first, since a first call fills caches. The one that starts a
    round reads slow now and then, so the order rotates.

    Args:
        contenders: Who takes part, by name.
        rounds: How often each is timed.
        clock: What to time by.
        after_round: Called between rounds, off the clock.
        warm: Make that first call.
    """
    if warm:
        for contender in contenders.values():
            contender.timed(clock)
    taken = []
    for turn in range(rounds):
        order = _rotated(list(contenders), turn)
        taken.append({name: contenders[name].timed(clock) for name in order})
        after_round()
    return taken


def _rotated(names: list[str], turn: int) -> list[str]:
    first = turn % len(names)
    return names[first:] + names[:first]


@dataclass(frozen=True, slots=True)
class Pair:
    """A figure that a measurement gives.

    Args:
        of: The contender whose figure it is.
        over: The contender it is measured against; None for the figure alone.
        goal: The key of its goal, or None.
        unit: What is counted, where several things are.
    """

    of: str
    over: str | None
    goal: str | None = None
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Scale:
    """How seconds are shown.

    Args:
        unit: In what.
        convert: Seconds in that unit.
    """

    unit: str
    convert: Callable[[float], float]


def per(number: int, unit: str = "ms") -> Scale:
    """Milliseconds of each of so many things."""
    return Scale(unit, lambda seconds: seconds * 1000 / number)


MS = per(1)


@dataclass(frozen=True, slots=True)
class Figure:
    """What was found: a ratio, or an amount where it is measured against nothing.

    Args:
        group: The group it belongs to.
        name: What it is about.
        of: The contender whose figure it is.
        over: The contender it was measured against, or None.
        unit: The unit of the sides, and of the value without `over`.
        value: The figure; by the wall clock, where it is one of time.
        cpu: The same by the time this process worked; None where no time was taken.
        sides: The median of each contender of the pair.
        rounds: How often each was measured.
        goal: The key of its goal, or None.
        reason: Why there is no value, or None.
    """

    group: str
    name: str
    of: str
    over: str | None
    unit: str
    value: Interval
    cpu: Interval | None
    sides: Sequence[float]
    rounds: int
    goal: str | None
    reason: str | None = None

    @property
    def aim(self) -> Goal | None:
        """Its goal."""
        return GOALS[self.goal] if self.goal else None

    def outcome(self, limit: float | None) -> str:
        """Whether it is at most this: "yes", "within noise", "no", or "" without a limit."""
        if limit is None or self.reason is not None:
            return ""
        if self.value.middle <= limit:
            return "yes"
        low = min(self.value.low, self.cpu.low if self.cpu else self.value.low)
        return "within noise" if low <= limit else "no"


class Work(Protocol):
    """Something that gives figures and takes a while."""

    @property
    def group(self) -> str:
        """The group it belongs to."""

    @property
    def name(self) -> str:
        """What it is about."""

    @property
    def rounds(self) -> int:
        """How often it reports that it got on."""

    @property
    def pairs(self) -> Sequence[Pair]:
        """The figures it will give."""

    def figures(
        self, clock: Clock = now, after_round: Callable[[], None] = _nothing
    ) -> list[Figure]:
        """Measure."""


@dataclass(frozen=True, slots=True)
class Match:
    """Contenders that are timed in turn. Nothing is built before `open` is entered.

    Args:
        group: The group it belongs to.
        name: What it is about.
        open: Builds the contenders, and clears up after them.
        rounds: How often each is timed.
        pairs: The figures to make of it.
        scale: How the times themselves are shown.
        warm: Call each once before the first round; False where a call is long, and its own start
            no matter.
        inside: This process does the work; False where others do, whose CPU time it cannot see.
    """

    group: str
    name: str
    open: Callable[[], AbstractContextManager[Mapping[str, Timed | Absent]]]
    rounds: int
    pairs: Sequence[Pair]
    scale: Scale = MS
    warm: bool = True
    inside: bool = True

    def figures(
        self, clock: Clock = now, after_round: Callable[[], None] = _nothing
    ) -> list[Figure]:
        """Time everyone, and compare."""
        with self.open() as contenders:
            present = {n: each for n, each in contenders.items() if not isinstance(each, Absent)}
            taken = measure(present, self.rounds, clock, after_round, self.warm)
        reasons = {n: each.reason for n, each in contenders.items() if isinstance(each, Absent)}
        return [
            self._without(pair, taken, reasons)
            if {pair.of, pair.over} & reasons.keys()
            else self._figure(pair, taken)
            for pair in self.pairs
        ]

    def _without(self, pair: Pair, taken: Rounds, reasons: Mapping[str, str]) -> Figure:
        present = [name for name in (pair.of, pair.over) if name and name not in reasons]
        sides = [self.scale.convert(median(r[name].wall for r in taken)) for name in present]
        return _unmeasured(self, pair, self.scale.unit, sides, reasons)

    def _figure(self, pair: Pair, taken: Rounds) -> Figure:
        names = [name for name in (pair.of, pair.over) if name is not None]
        walls = [[readings[name].wall for name in names] for readings in taken]
        works = [[readings[name].cpu for name in names] for readings in taken]
        return Figure(
            group=self.group,
            name=self.name,
            of=pair.of,
            over=pair.over,
            unit=self.scale.unit,
            value=interval([self._ratio(*times) for times in walls]),
            cpu=interval([self._ratio(*times) for times in works]) if self.inside else None,
            sides=[self.scale.convert(median(side)) for side in zip(*walls, strict=True)],
            rounds=self.rounds,
            goal=pair.goal,
        )

    def _ratio(self, of: float, over: float | None = None) -> float:
        return self.scale.convert(of) if over is None else of / over


def _unmeasured(
    work: Work, pair: Pair, unit: str, sides: Sequence[float], reasons: Mapping[str, str]
) -> Figure:
    """The figure of a pair that is not complete: the side that is there, and the reason."""
    names = [name for name in (pair.of, pair.over) if name in reasons]
    return Figure(
        group=work.group,
        name=work.name,
        of=pair.of,
        over=pair.over,
        unit=unit,
        value=NOTHING,
        cpu=None,
        sides=sides,
        rounds=work.rounds,
        goal=pair.goal,
        reason="; ".join(f"{name}: {reasons[name]}" for name in names if name is not None),
    )


@dataclass(frozen=True, slots=True)
class Tally:
    """Things that are counted, and read the same each time.

    Args:
        group: The group it belongs to.
        name: What it is about.
        items: What to count, by contender: amounts by their units; or why there is none.
        pairs: The figures to make of it.
    """

    group: str
    name: str
    items: Mapping[str, Callable[[], Mapping[str, float]] | Absent]
    pairs: Sequence[Pair]

    @property
    def rounds(self) -> int:
        """One for each."""
        return len(self.items)

    def figures(
        self, clock: Clock = now, after_round: Callable[[], None] = _nothing
    ) -> list[Figure]:
        """Count everything, and compare."""
        found = {}
        for name, count in self.items.items():
            if not isinstance(count, Absent):
                found[name] = count()
            after_round()
        return [self._figure(pair, found) for pair in self.pairs]

    def _figure(self, pair: Pair, found: Mapping[str, Mapping[str, float]]) -> Figure:
        names = [name for name in (pair.of, pair.over) if name is not None]
        sides = [found[name][pair.unit] for name in names if name in found]
        if len(sides) < len(names):
            reasons = {n: i.reason for n, i in self.items.items() if isinstance(i, Absent)}
            return _unmeasured(self, pair, pair.unit, sides, reasons)
        value = sides[0] / sides[1] if pair.over else sides[0]
        exact = Interval(value, value, value)
        return Figure(
            self.group, self.name, pair.of, pair.over, pair.unit, exact, None, sides, 1, pair.goal
        )


def is_steady(reading: Interval) -> bool:
    """Whether something measured against itself reads 1, so that other figures mean something."""
    return abs(reading.middle - 1) <= TOLERANCE
