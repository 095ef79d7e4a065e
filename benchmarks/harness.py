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
) -> Rounds:
    """Time contenders in turn, round after round.

    Each is called once off the record first, since a first call fills caches. Whoever starts a
    round reads slow now and then, so the order rotates.

    Args:
        contenders: Who takes part, by name.
        rounds: How often each is timed.
        clock: What to time by.
        after_round: Called between rounds, off the clock.
    """
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
class Comparison:
    """What to measure: nothing is built before `open` is entered.

    Args:
        group: The group it belongs to.
        name: What it is about.
        of: The contender whose figure it is.
        over: The contender it is measured against; None for milliseconds.
        open: Builds the contenders, and clears up after them.
        rounds: How often each is timed.
        goal: What the figure should be at most, or None.
    """

    group: str
    name: str
    of: str
    over: str | None
    open: Callable[[], AbstractContextManager[Mapping[str, Timed]]]
    rounds: int
    goal: float | None = None


@dataclass(frozen=True, slots=True)
class Figure:
    """What a comparison gave: a ratio, or milliseconds where it is measured against nothing.

    Args:
        group: The group it belongs to.
        name: What it is about.
        of: The contender whose figure it is.
        over: The contender it was measured against, or None.
        wall: The figure by the wall clock.
        cpu: The same by the time this process worked.
        milliseconds: The median wall time of each contender.
        rounds: How often each was timed.
        goal: What the figure should be at most, or None.
    """

    group: str
    name: str
    of: str
    over: str | None
    wall: Interval
    cpu: Interval
    milliseconds: Mapping[str, float]
    rounds: int
    goal: float | None

    @property
    def verdict(self) -> str:
        """Whether the goal is met: "yes", "within noise", "no", or "" without a goal."""
        if self.goal is None:
            return ""
        if self.wall.middle <= self.goal:
            return "yes"
        return "within noise" if min(self.wall.low, self.cpu.low) <= self.goal else "no"


def compare(
    comparison: Comparison, clock: Clock = now, after_round: Callable[[], None] = _nothing
) -> Figure:
    """Measure one comparison."""
    with comparison.open() as contenders:
        rounds = measure(contenders, comparison.rounds, clock, after_round)
        names = list(contenders)
    of, over = comparison.of, comparison.over
    return Figure(
        group=comparison.group,
        name=comparison.name,
        of=of,
        over=over,
        wall=interval([_figure(r[of].wall, r[over].wall if over else None) for r in rounds]),
        cpu=interval([_figure(r[of].cpu, r[over].cpu if over else None) for r in rounds]),
        milliseconds={name: median([r[name].wall for r in rounds]) * 1000 for name in names},
        rounds=comparison.rounds,
        goal=comparison.goal,
    )


def _figure(seconds: float, over: float | None) -> float:
    return seconds * 1000 if over is None else seconds / over


def is_steady(reading: Interval) -> bool:
    """Whether something measured against itself reads 1, so that other figures mean something."""
    return abs(reading.middle - 1) <= TOLERANCE
