"""Retries with growing waits, as the layers around models and around tools use them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

from langgraph.prebuilt.tool_node import ToolInvocationError
from tenacity import RetryCallState, Retrying, wait_exponential, wait_random_exponential

from agent_factory import AgentFactoryError, Flow, Sleep

from .errors import are_exception_types, checked_text, format_error, is_sync_function
from .validation import check_count, check_number

RetryOn = type[Exception] | tuple[type[Exception], ...] | Callable[[Exception], bool]
"""The exceptions that are retried: types, or a predicate."""

OnFailure = Literal["continue", "error"] | Callable[[Exception], str]
"""What the last failed attempt leads to: a standard text, the exception, or the caller's text."""

NOT_TRANSIENT: Final = (AgentFactoryError, ToolInvocationError)
"""Errors that the same call would raise again: an unknown tool, a limit that is used up, arguments
that do not fit. A base class such as Exception does not cover them; naming their class, or a
predicate, does."""

RequestT = TypeVar("RequestT")
ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class Retries:
    """When to call again, how long to wait before that, and what follows the last failure."""

    owner: str  # the name of the middleware, for messages
    max_retries: int
    retry_on: RetryOn
    on_failure: OnFailure
    backoff_factor: float
    initial_delay: float
    max_delay: float
    jitter: bool

    def __post_init__(self) -> None:
        check_number("backoff_factor", self.backoff_factor, required=True)
        check_number("initial_delay", self.initial_delay, unit="seconds", required=True)
        check_number("max_delay", self.max_delay, unit="seconds", required=True)
        if not isinstance(self.jitter, bool):
            raise ValueError(f"jitter must be True or False, got {self.jitter!r}.")
        check_count("max_retries", self.max_retries, required=True)
        if not are_exception_types(self.retry_on) and not is_sync_function(self.retry_on):
            raise ValueError(
                "retry_on must be an exception type, a tuple of them, or a plain function of the "
                f"exception that returns whether to try again, got {self.retry_on!r}. Write "
                "retry_on=(ConnectionError, TimeoutError). Only subclasses of Exception can be "
                "retried: an interrupt or a cancellation never is."
            )
        is_word = isinstance(self.on_failure, str) and self.on_failure in ("continue", "error")
        if not is_word and not is_sync_function(self.on_failure):
            raise ValueError(
                "on_failure must be 'continue', 'error' or a plain function of the exception that "
                f"returns a str, got {self.on_failure!r}."
            )

    def around(self, request: RequestT, failed: Callable[[Exception], ResultT]) -> Flow[ResultT]:
        """Call inward until an attempt succeeds; `failed` turns the last exception to a result."""
        waits: Iterator[float] | None = None
        while True:
            try:
                result: ResultT = yield request
                return result
            except Exception as error:
                if not self.covers(error):
                    raise
                # Made here because most calls succeed and need no waits.
                waits = waits or self.delays()
                seconds = next(waits, None)
                if seconds is None:
                    return failed(error)
            yield Sleep(seconds)

    def delays(self) -> Iterator[float]:
        """The waits in seconds: `initial_delay * backoff_factor**n`, at most `max_delay`."""
        base = self.backoff_factor or 1.0
        share = 0.5 if self.jitter else 1.0
        first, longest = self.initial_delay * share, self.max_delay * share
        wait = wait_exponential(multiplier=first, max=longest, exp_base=base)
        drawn = wait_random_exponential(multiplier=first, max=longest, exp_base=base)
        state = RetryCallState(Retrying(), None, (), {})
        for attempt in range(1, self.max_retries + 1):
            state.attempt_number = attempt
            yield wait(state) + (drawn(state) if self.jitter else 0.0)

    def covers(self, error: Exception) -> bool:
        """Whether an exception is retried."""
        chosen = self.retry_on
        if not isinstance(chosen, type | tuple):
            return bool(chosen(error))
        kinds = chosen if isinstance(chosen, tuple) else (chosen,)
        if isinstance(error, NOT_TRANSIENT):
            kinds = tuple(kind for kind in kinds if issubclass(kind, NOT_TRANSIENT))
        return isinstance(error, kinds)

    def failure_text(self, error: Exception, subject: str, advice: str) -> str:
        """The text that stands in for a result after the last attempt, or raise the error."""
        number = self.max_retries + 1
        attempts = f"{number} attempt{'s' if number > 1 else ''}"
        if self.on_failure == "error":
            error.add_note(f"{self.owner}: {subject} failed after {attempts}.")
            raise error
        if self.on_failure == "continue":
            return f"{subject} failed after {attempts} with {format_error(error)}\n{advice}"
        return checked_text(self.owner, "on_failure", self.on_failure(error))
