"""How much is measured: everything, the headline rows, or what has a goal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from benchmarks.contenders import WAYS, Transition, judged, there
from benchmarks.savers import Saver


class Thread(NamedTuple):
    """A thread that is weighed.

    Args:
        turns: How many tool turns it has.
        size: How long each message is, in bytes.
        numbers: How many middleware agents have.
    """

    turns: int
    size: int
    numbers: tuple[int, ...]


SHORT, LONG = 20, 200
"""Bytes of a message."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured.

    Args:
        checks: Rounds of the self-check, also where little is measured.
        runs: Rounds of agent runs; a third of them where runs are long.
        watches: Rounds of watched runs, of which there are many.
        builds: Rounds of builds.
        imports: Rounds of imports.
        turns: Tool turns in a run.
        numbers: How many middleware agents have; 0 and 16 are always measured.
        savers: Where threads are kept.
        calls: How many calls one turn makes.
        histories: How many messages a conversation has already.
        crowds: How many runs there are at once.
        memories: How many runs there are at once where memory is counted.
        threads: What is weighed.
        floors: Rounds of the parts of a turn.
        services: Rounds of the service.
        share: The share of the service's messages and of its model's time.
        servers: Whether servers of others take part, each in an environment that is made for it.
        waiting: How many threads wait at once where their memory is compared with other libraries.
        kills: How often a process of each library is killed.
        pick: Chooses the ways that take part.
    """

    checks: int = 100
    runs: int = 15
    watches: int = 10
    builds: int = 30
    imports: int = 12
    turns: int = 10
    numbers: tuple[int, ...] = (0, 1, 8, 16, 32)
    savers: tuple[Saver, ...] = tuple(Saver)
    calls: tuple[int, ...] = (1, 10, 100, 500)
    histories: tuple[int, ...] = (1_000, 10_000)
    crowds: tuple[int, ...] = (100, 1_000)
    memories: tuple[int, ...] = (100, 1_000)
    threads: tuple[Thread, ...] = (
        Thread(10, SHORT, (0, 32)),
        Thread(10, LONG, (0, 8, 32)),
        Thread(50, LONG, (0, 8, 32)),
        Thread(200, LONG, (0, 8)),
    )
    floors: int = 60
    services: int = 5
    share: float = 1.0
    servers: bool = True
    waiting: int = 1_000
    kills: int = 3
    pick: Callable[[Sequence[Transition]], list[Transition]] = there

    def transitions(self, transitions: Sequence[Transition] = WAYS) -> list[Transition]:
        """Those of the ways that take part."""
        return self.pick(transitions)

    @property
    def few(self) -> int:
        """Rounds where runs are long."""
        return max(2, self.runs // 3)


FULL = Effort()

HEADLINE = Effort(
    checks=40,
    runs=5,
    watches=3,
    builds=6,
    imports=3,
    numbers=(0, 8, 16, 32),
    savers=(Saver.NONE, Saver.MEMORY),
    calls=(100,),
    histories=(10_000,),
    crowds=(100,),
    memories=(),
    threads=(Thread(10, SHORT, (0, 32)), Thread(200, LONG, (8,))),
    services=3,
    waiting=100,
    kills=1,
    pick=judged,
)
"""What takes about three minutes."""

GOALS_ONLY = Effort(
    checks=100,
    runs=15,
    builds=20,
    imports=8,
    numbers=(0, 8, 16, 32),
    calls=(100,),
    histories=(10_000,),
    crowds=(100,),
    memories=(),
    threads=(Thread(10, SHORT, (0, 32)), Thread(200, LONG, (8,))),
    waiting=100,
    kills=1,
    pick=judged,
)
"""What has a goal, with as many rounds as everything gets."""
