"""Call again what failed: the part that a model's call and a tool's call share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count, islice
from typing import Any, Final, Literal

from langgraph.errors import GraphBubbleUp
from langgraph.prebuilt.tool_node import ToolInvocationError
from tenacity import RetryCallState, Retrying, wait_exponential, wait_random_exponential

from agent_factory import AgentFactoryError, Flow, Sleep
from agent_factory.middleware._shared.errors import checked_text, format_error, is_async
from agent_factory.middleware._shared.validation import check_count, check_number


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


RetryOn = type[Exception] | tuple[type[Exception], ...] | Callable[[Exception], bool]
"""Which exceptions are worth another attempt: types, or a predicate."""

OnFailure = Literal["continue", "error"] | Callable[[Exception], str]
"""What the last failed attempt leads to: words, the exception itself, or words of one's own."""

NOT_BY_CHANCE: Final = (AgentFactoryError, ToolInvocationError)
"""Mistakes that the same call would meet again: a tool that nothing can run, a limit that is used
up, an answer that did not fit however often it was explained, arguments that do not fit. A base
class such as Exception does not mean them; only naming them, or a predicate, does."""


@dataclass(frozen=True, slots=True)
class Retries:
    """When to call again, how long to wait before, and what to say in the end.

    Args:
        owner: The middleware, for messages.
        max_retries: Attempts after the first.
        retry_on: Which exceptions are worth one.
        on_failure: What the last failure leads to.
        backoff: The waits.

    Raises:
        ValueError: An argument that is none of what it may be.
    """

    owner: str
    max_retries: int
    retry_on: RetryOn
    on_failure: OnFailure
    backoff: Backoff

    def __post_init__(self) -> None:
        if self.max_retries is None:
            raise ValueError("max_retries must be a whole number of at least 0, not None.")
        check_count("max_retries", self.max_retries)
        _check_retry_on(self.retry_on)
        _check_on_failure(self.on_failure)

    @property
    def attempts(self) -> str:
        """How often it is tried at most, in words."""
        number = self.max_retries + 1
        return f"{number} attempt{'s' if number > 1 else ''}"

    def around(self, request: Any, give_up: Callable[[Exception], Any]) -> Flow[Any]:
        """Call inward until it succeeds.

        Args:
            request: What is called with, each time.
            give_up: What the flow returns for the exception of the last attempt.

        Raises:
            Exception: What the call raised, at once, where it is not worth an attempt.
        """
        waits: Iterator[float] | None = None
        while True:
            try:
                return (yield request)
            except Exception as error:
                if not self.covers(error):
                    raise
                # Only here: most calls succeed, and need no waits.
                waits = waits or islice(self.backoff.delays(), self.max_retries)
                seconds = next(waits, None)
                if seconds is None:
                    return give_up(error)
            yield Sleep(seconds)

    def covers(self, error: Exception) -> bool:
        """Whether an exception is worth another attempt."""
        chosen = self.retry_on
        if not isinstance(chosen, type | tuple):
            return bool(chosen(error))
        kinds = chosen if isinstance(chosen, tuple) else (chosen,)
        if isinstance(error, NOT_BY_CHANCE):
            kinds = tuple(kind for kind in kinds if issubclass(kind, NOT_BY_CHANCE))
        return isinstance(error, kinds)

    def last_words(self, error: Exception, subject: str, advice: str) -> str:
        """What is said after the last attempt.

        Args:
            error: What it raised.
            subject: What failed.
            advice: What whoever reads it can do.

        Raises:
            Exception: The error itself, with a note, where `on_failure` is "error".
        """
        if self.on_failure == "error":
            error.add_note(f"{self.owner} gave up on {subject} after {self.attempts}.")
            raise error
        if self.on_failure == "continue":
            return f"{subject} failed after {self.attempts} with {format_error(error)}\n{advice}"
        return checked_text(self.owner, "on_failure", self.on_failure(error))


def _check_retry_on(retry_on: Any) -> None:
    kinds = retry_on if isinstance(retry_on, tuple) else (retry_on,)
    if kinds and all(map(_is_retryable, kinds)):
        return
    if not callable(retry_on) or isinstance(retry_on, type) or is_async(retry_on):
        raise ValueError(
            f"retry_on must be an exception type, a tuple of them, or a plain function of the "
            f"exception that says whether to try again, not {retry_on!r}. Write "
            "retry_on=(ConnectionError, TimeoutError). Only subclasses of Exception can be "
            "retried: an interrupt or a cancellation never is."
        )


def _is_retryable(kind: Any) -> bool:
    return (
        isinstance(kind, type)
        and issubclass(kind, Exception)
        and not issubclass(kind, GraphBubbleUp)
    )


def _check_on_failure(on_failure: Any) -> None:
    if isinstance(on_failure, str) and on_failure in ("continue", "error"):
        return
    if not callable(on_failure) or isinstance(on_failure, type) or is_async(on_failure):
        raise ValueError(
            "on_failure must be 'continue', 'error' or a plain function of the exception that "
            f"returns a text, not {on_failure!r}."
        )
