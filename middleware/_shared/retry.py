"""Retries with growing waits, as the middleware around models and around tools make them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite
from random import uniform
from typing import Any, Final, Literal, TypeVar
from warnings import warn

from langchain_core.exceptions import ContextOverflowError, ModelError
from langgraph.errors import GraphBubbleUp
from langgraph.prebuilt.tool_node import ToolInvocationError

from agent_factory import (
    AgentFactoryError,
    AgentMiddleware,
    AgentState,
    Flow,
    ModelRequest,
    Sleep,
    set_reason,
)
from agent_factory.errors import sentence
from agent_factory.providers import is_overflow

from .errors import (
    UNKNOWN_ADVICE,
    UNKNOWN_OUTCOME,
    are_exception_types,
    checked_text,
    format_error,
    is_sync_function,
    is_timeout,
    outcome_unknown,
)
from .overflow import plural, recovers_later
from .validation import check_count, check_number, check_value

RetryOn = type[Exception] | tuple[type[Exception], ...] | Callable[[Exception], bool]
"""The exceptions to retry: types, or a predicate."""

OnFailure = Literal["continue", "error"] | Callable[[Exception], str]
"""The result of the last failed attempt: a standard text, the exception, or the caller's text."""

NOT_TRANSIENT: Final = (AgentFactoryError, ContextOverflowError, ToolInvocationError)
"""Errors that the same call would raise again: an unknown tool, a limit that is used up, arguments
that do not fit, a conversation that is too long. So would a `ModelError` whose `is_retryable` is
False, such as an invalid key."""

_BASES: Final = {base for kind in NOT_TRANSIENT for base in kind.__mro__[1:]}

_DEPRECATED: Final[Mapping[object, Literal["continue", "error"]]] = {
    "raise": "error",
    "return_message": "continue",
}
"""Old values of langchain's `on_failure`, with their names of today."""

RequestT = TypeVar("RequestT")
ResultT = TypeVar("ResultT")


def default_retry_on(error: BaseException) -> bool:
    """Return True if an exception is retried by default.

    An exception is not retried if the same call would raise it again: a `ModelError` of
    langchain-core whose `is_retryable` is False (an invalid key, an unknown model, a refusal), a
    conversation that is too long (`is_overflow`), arguments that do not fit
    (`ToolInvocationError`), and this library's own errors (`AgentFactoryError`). Control flow is
    never retried.

    >>> from langchain_core.exceptions import ModelAuthenticationError, ModelRateLimitError
    >>> default_retry_on(ModelRateLimitError("slow down"))
    True
    >>> default_retry_on(ModelAuthenticationError("invalid key"))
    False
    """
    if not isinstance(error, Exception) or isinstance(error, (*NOT_TRANSIENT, GraphBubbleUp)):
        return False
    if is_overflow(error):
        return False
    return not isinstance(error, ModelError) or error.is_retryable


class RetryMiddleware(AgentMiddleware[AgentState, Any]):
    """Base of the middleware that call again after a failure, with the arguments of both."""

    def __init__(
        self,
        max_retries: int,
        retry_on: RetryOn,
        on_failure: OnFailure,
        backoff_factor: float,
        initial_delay: float,
        max_delay: float,
        jitter: bool,
        name: str | None,
    ) -> None:
        super().__init__(name=name)
        check_number("backoff_factor", backoff_factor, required=True)
        check_number("initial_delay", initial_delay, unit="seconds", required=True)
        check_number("max_delay", max_delay, unit="seconds", required=True)
        check_value("jitter", jitter, isinstance(jitter, bool), "True or False")
        check_count("max_retries", max_retries, required=True)
        if not are_exception_types(retry_on) and not is_sync_function(retry_on):
            raise ValueError(
                "retry_on must be an exception type, a tuple of them, or a plain function of the "
                f"exception that returns whether to try again, got {retry_on!r}. Write "
                "retry_on=(ConnectionError, TimeoutError). Only subclasses of Exception can be "
                "retried: an interrupt or a cancellation never is."
            )
        if isinstance(on_failure, str) and on_failure in _DEPRECATED:
            word = _DEPRECATED[on_failure]
            text = f"on_failure={on_failure!r} is deprecated. Write on_failure={word!r}."
            # The line of the user, above this constructor and the subclass's.
            warn(text, DeprecationWarning, stacklevel=3)
            on_failure = word
        is_word = isinstance(on_failure, str) and on_failure in ("continue", "error")
        expected = "'continue', 'error' or a plain function of the exception that returns a str"
        check_value("on_failure", on_failure, is_word or is_sync_function(on_failure), expected)
        self.max_retries = max_retries
        self.most_attempts = 1 + max_retries
        self.retry_on, self.on_failure, self.backoff_factor = retry_on, on_failure, backoff_factor
        self.initial_delay, self.max_delay, self.jitter = initial_delay, max_delay, jitter

    def _retry(
        self,
        request: RequestT,
        subject: str,
        advice: str,
        report: Callable[[Exception, int, str], ResultT],  # of the error, the attempts and a text
        *,
        idempotent: bool,
        is_once: bool = False,
    ) -> Flow[ResultT]:
        """Call inward until an attempt succeeds, or make the last failure's `report`.

        A call that may have run is repeated if idempotent, or if `retry_on` names the error and no
        OnceMiddleware decides about the call.
        """
        waits: Iterator[float] | None = None
        attempts = 0
        reasons: list[str] = []
        while True:
            try:
                result: ResultT = yield request
                return result
            except Exception as error:
                # A layer further out makes a too long conversation smaller.
                recovers = isinstance(request, ModelRequest) and recovers_later(request)
                if not self._covers(error) or (recovers and is_overflow(error)):
                    raise
                attempts += 1
                is_unknown = not idempotent and outcome_unknown(error)
                if is_unknown and not reasons:
                    reasons, advice = [UNKNOWN_OUTCOME], UNKNOWN_ADVICE
                # Made here because most calls succeed and need no waits.
                waits = waits or self._delays()
                seconds, server_delay = next(waits, None), retry_after(error)
                if is_unknown and (is_once or not self._names_timeout(error)):
                    seconds = None
                elif seconds is not None and server_delay > self.max_delay:
                    seconds = None
                    reasons.append(
                        f"The server asks to wait {server_delay:g} seconds, and max_delay is "
                        f"{self.max_delay:g}."
                    )
                if seconds is None:
                    count = plural(attempts, "attempt")
                    failed = f"{subject} failed after {count}"
                    if self.on_failure == "error":
                        error.add_note(" ".join([f"{self.name}: {failed}.", *reasons]))
                        raise
                    cause = sentence(f"{failed} with {format_error(error)}")
                    text = f"{cause}\n{' '.join([*reasons, advice])}"
                    if self.on_failure != "continue":
                        text = checked_text(self.name, "on_failure", self.on_failure(error))
                    set_reason(f"gave up after {count}")
                    return report(error, attempts, text)
            yield Sleep(max(seconds, server_delay))

    def _delays(self) -> Iterator[float]:
        """The waits in seconds: `initial_delay * backoff_factor**n`, at most `max_delay`."""
        wait = self.initial_delay
        for _ in range(self.max_retries):
            yield min(wait, self.max_delay) * (uniform(0.5, 1) if self.jitter else 1)
            # With a factor of 0 all waits are equal.
            wait *= self.backoff_factor or 1

    def _kinds(self) -> tuple[type[Exception], ...]:
        """The types of `retry_on`; none for a predicate."""
        types = self.retry_on
        if isinstance(types, tuple):
            return types
        return (types,) if isinstance(types, type) else ()

    def _covers(self, error: Exception) -> bool:
        if not isinstance(self.retry_on, type | tuple):
            return bool(self.retry_on(error))
        kinds = self._kinds()
        if not default_retry_on(error):
            # A base class of the error also covers passing errors, so it does not name this error.
            kinds = tuple(k for k in kinds if k not in _BASES and k.__module__ != "builtins")
        return isinstance(error, kinds)

    def _names_timeout(self, error: Exception) -> bool:
        """Return True if `retry_on` covers a timeout by its own type, or by a predicate."""
        if self.retry_on is default_retry_on:
            return False
        kinds = self._kinds()
        return not kinds or any(isinstance(error, kind) and is_timeout(kind) for kind in kinds)


def retry_after(error: Exception) -> float:
    """The seconds to wait that a server asks for in the headers of its response; 0 without.

    Clients keep the response in `error.response` (openai, anthropic, httpx, requests), or its
    headers in `error.headers` (urllib, aiohttp).
    """
    response = getattr(error, "response", None)
    headers = getattr(error if response is None else response, "headers", None)
    try:
        # `headers` may be anything: a missing attribute is caught below.
        values = {str(key).lower(): str(value).strip() for key, value in headers.items()}  # type: ignore[union-attr]
    except Exception:  # a foreign object without headers, or with unusual headers
        return 0.0
    # `retry-after-ms` is not standard, but more exact: OpenAI's clients prefer it too.
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = values.get(name, "")
        try:
            seconds = float(value) * unit
        except ValueError:
            try:
                # The header may also be a date (RFC 9110, 10.2.3).
                date = parsedate_to_datetime(value)
            except ValueError:
                continue
            seconds = (date.replace(tzinfo=date.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
        # A header may also say "nan" or "inf".
        if isfinite(seconds) and seconds > 0:
            return seconds
    return 0.0
