"""Pace: how often the parts of a service look for news, and how long they wait."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from agent_factory.errors import ArgumentError


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Times of a service, in seconds.

    Signals wake waiting threads, so a slower pace delays only events without a signal.

    Args:
        beat: Between two signs of life of a worker; a fifth of `dead_after` where that is shorter.
        dead_after: Without a sign of life, until the runs of a worker are taken over. The same in
            all processes of a service.
        look: Between two looks of a worker for jobs, and for deadlines, schedules and dead workers.
        wake: Between two looks of a caller who waits for a run.
        notice: Without news of a run, until its caller gets the reason.
        gather: While events of runs are gathered, to be written together.
        gather_first: The same for the first events after a pause. A run that ends meanwhile writes
            them with its outcome.
        deliver: Between two looks for due webhooks and calls of `on_wait`.
        retries: Between the attempts at a delivery, which is dropped after the last attempt. A
            delivery that is due later than the longest pause, by a minute, is made at once.
        stop: For each thread of a worker that stops, and for the deliveries of a process.

    Raises:
        ArgumentError: A time is not a number, or is negative.

    >>> from tempfile import mkdtemp
    >>> from agent_factory.service import Service
    >>> pace = Pace(beat=0.5, dead_after=5.0)
    >>> service = Service(f"sqlite:///{mkdtemp()}/desk.db", pace=pace)
    """

    beat: float = 2.0
    dead_after: float = 10.0
    look: float = 2.0
    wake: float = 1.0
    notice: float = 2.0
    gather: float = 0.05
    gather_first: float = 0.015
    deliver: float = 1.0
    retries: tuple[float, ...] = (5.0, 30.0, 120.0, 600.0)
    stop: float = 5.0

    def __post_init__(self) -> None:
        """Refuse times that cannot be waited for."""
        for field in fields(self):
            value, is_tuple = getattr(self, field.name), field.name == "retries"
            times = value if is_tuple else (value,)
            if not isinstance(times, tuple) or not all(map(_is_time, times)):
                expected = "a tuple of seconds" if is_tuple else "seconds"
                reason = f"must be {expected}, 0 or more, got {value!r}."
                raise ArgumentError(f"pace.{field.name}", reason)


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and value >= 0
