"""Waits between attempts: they grow, they stay under a cap, and they differ between clients.

The arithmetic is tenacity's, which has been asked about overflow, huge exponents and tiny bases
before. What is ours is how its strategies are put together, and that waits come as an iterator: a
flow waits by yielding, so tenacity's own loop, which sleeps, is of no use here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

from tenacity import RetryCallState, Retrying, wait_exponential, wait_random_exponential

from ._checks import check_number


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long to wait before each retry, in seconds.

    The wait before retry n (from 0) is `initial_delay * backoff_factor**n`, at most `max_delay`.
    With jitter, half of that is waited for certain and up to as much again is drawn by chance, so
    that clients which failed together do not come back together, also where the cap is reached.

    Args:
        backoff_factor: How much longer each wait is than the one before; 0 (as 1) keeps all the
            same.
        initial_delay: The first wait in seconds.
        max_delay: The longest wait in seconds, jitter included.
        jitter: Whether chance takes up to half of a wait away.

    Raises:
        ValueError: A number that is negative, not finite or no number; a jitter that is no bool.

    >>> from itertools import islice
    >>> list(islice(Backoff(2.0, 1.0, 5.0, jitter=False).delays(), 4))
    [1.0, 2.0, 4.0, 5.0]
    """

    backoff_factor: float
    initial_delay: float
    max_delay: float
    jitter: bool

    def __post_init__(self) -> None:
        for name, value, unit in (
            ("backoff_factor", self.backoff_factor, ""),
            ("initial_delay", self.initial_delay, "seconds"),
            ("max_delay", self.max_delay, "seconds"),
        ):
            _refuse_none(name, value)
            check_number(name, value, unit=unit)
        if not isinstance(self.jitter, bool):
            raise ValueError(f"jitter must be True or False, not {self.jitter!r}.")

    def delays(self) -> Iterator[float]:
        """The waits in seconds, one for each retry, without end."""
        wait = self._strategy()
        state = RetryCallState(Retrying(), None, (), {})
        for attempt in count(1):
            state.attempt_number = attempt
            yield wait(state)

    def _strategy(self) -> Any:
        base = self.backoff_factor or 1.0
        if not self.jitter:
            return wait_exponential(
                multiplier=self.initial_delay, max=self.max_delay, exp_base=base
            )
        half, most = self.initial_delay / 2, self.max_delay / 2
        return wait_exponential(multiplier=half, max=most, exp_base=base) + wait_random_exponential(
            multiplier=half, max=most, exp_base=base
        )


def _refuse_none(name: str, value: Any) -> None:
    if value is None:
        raise ValueError(f"{name} must be a number, not None.")
