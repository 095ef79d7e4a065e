"""Exceptions as text, and the functions and exception types of users to handle them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from langgraph.errors import GraphBubbleUp

from agent_factory import TurnError
from agent_factory.errors import BadReturn

MAX_ERROR_TEXT = 1000
"""Characters of an exception's text that are kept. A provider's error message fits; the HTML error
page of a web server does not, and would fill the context window at every failure."""


def format_error(error: Exception) -> str:
    """The type of an exception and the beginning of the text, without a traceback."""
    kind = type(error).__name__
    try:
        text = str(error).strip()
    except Exception:  # `__str__` of a foreign exception may itself raise
        return kind
    # A lone surrogate can neither be sent to a provider nor be written to a checkpoint.
    text = text.encode("utf-8", "replace").decode("utf-8")
    if len(text) > MAX_ERROR_TEXT:
        text = f"{text[:MAX_ERROR_TEXT]}..."
    return f"{kind}: {text}" if text else kind


_TIMEOUT = re.compile(r"(Timeout|TimedOut|DeadlineExceeded)(Error|Exception|Expired)?$")
_NOT_SENT = re.compile(r"(Connect|Pool)Timeout(Error)?$|ConnectionTimeoutError$")
"""Timeouts of a client that waited for a connection, so that nothing was sent."""


def is_timeout(kind: type[BaseException]) -> bool:
    """Return True if exceptions of a type mean an answer that did not come in time.

    Types are recognized by name, so that no client library needs to be imported: `TimeoutError`,
    `httpx.ReadTimeout`, `requests.Timeout`, `openai.APITimeoutError`, `subprocess.TimeoutExpired`.
    """
    # Clients derive their own timeouts from known ones.
    names = [base.__name__ for base in kind.__mro__]
    return any(map(_TIMEOUT.search, names)) and not any(map(_NOT_SENT.match, names))


UNKNOWN_OUTCOME = "It is not known whether the call ran."
UNKNOWN_ADVICE = "Find that out before you make it again, or say that it is uncertain."
"""What a model reads about a call that raised and may have run."""


def outcome_unknown(error: BaseException) -> bool:
    """Return True if a failed call may have run: by timeout, cancellation or a bad result."""
    if isinstance(error, GeneratorExit) and error.__context__ is not None:
        error = error.__context__  # the control flow because of which a flow is closed
    if isinstance(error, BadReturn) or not isinstance(error, Exception):
        return True
    return is_timeout(type(error))


def is_async(function: object) -> bool:
    """Return True if calling a function, or an object with `__call__`, returns a coroutine."""
    # `inspect` sees functions and partials, but not an async `__call__`.
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(type(function), "__call__", None)  # noqa: B004  # reads the method
    )


def is_sync_function(value: object) -> bool:
    """Return True for a function to call without `await`; not for classes."""
    return callable(value) and not isinstance(value, type) and not is_async(value)


def are_exception_types(value: object) -> bool:
    """Return True for an exception type, or a tuple of them, that a layer may handle."""
    kinds = value if isinstance(value, tuple) else (value,)
    return bool(kinds) and all(
        isinstance(kind, type)
        and issubclass(kind, Exception)
        and not issubclass(kind, GraphBubbleUp)
        for kind in kinds
    )


_failures: ContextVar[dict[str | None, Exception] | None] = ContextVar("failures", default=None)


@contextmanager
def recorded_failures() -> Iterator[dict[str | None, Exception]]:
    """Collect the failures that layers further in report to the model, by the id of the tool call.

    A layer further out would not know of them: it receives a message, no exception.
    """
    failures: dict[str | None, Exception] = {}
    token = _failures.set(failures)
    try:
        yield failures
    finally:
        _failures.reset(token)


def record_failure(call_id: str | None, error: Exception) -> None:
    """Let the recording layer know of a failure that is reported to the model."""
    if (failures := _failures.get()) is not None:
        failures[call_id] = error


def checked_text(owner: str, argument: str, text: object) -> str:
    """The return value of a user's function, which must be a string."""
    if isinstance(text, str):
        return text
    reason = f"must return a str, got {type(text).__name__}."
    raise TurnError(f"{owner} {argument}", reason, "Return a str.")
