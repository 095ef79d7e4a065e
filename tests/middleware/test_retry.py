"""Laws of retries: attempts, waits and outcome follow from the parameters, sync and async."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, ToolCall

from agent_factory import Flow, ModelRequest, ToolCallRequest, run
from agent_factory.middleware import ModelRetryMiddleware, ToolRetryMiddleware
from agent_factory.testing import ScriptedChatModel
from tables import each

REQUEST: ModelRequest[Any] = ModelRequest(model=ScriptedChatModel(), messages=[])
TOOL_REQUEST: Any = ToolCallRequest(
    ToolCall(name="fetch", args={}, id="f"), None, {"messages": []}, cast("Any", None)
)
KINDS: tuple[type[Exception], ...] = (ConnectionError, TimeoutError, KeyError)
BOTH = [ModelRetryMiddleware, ToolRetryMiddleware]


@contextmanager
def recorded() -> Iterator[list[float]]:
    """No time passes; the waits are recorded."""
    waits: list[float] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "sleep", waits.append)
        yield waits


seconds = st.floats(0, 100)
settings = st.fixed_dictionaries(
    {
        "max_retries": st.integers(0, 6),
        "backoff_factor": st.sampled_from([0, 0.5, 1, 1.5, 2, 3, 1e300]),
        "initial_delay": seconds,
        "max_delay": seconds,
        "jitter": st.booleans(),
    }
)
failures = st.lists(st.sampled_from(KINDS), max_size=9)


class Line:
    """The inner call: fails a given number of times, then answers."""

    def __init__(self, failures: Sequence[type[Exception]]) -> None:
        self.raised = [kind(str(number)) for number, kind in enumerate(failures)]
        self.calls = 0

    def __call__(self, request: Any) -> str:
        self.calls += 1
        if self.calls <= len(self.raised):
            raise self.raised[self.calls - 1]
        return "answer"


def walked(flow: Flow[Any], line: Callable[[Any], Any]) -> tuple[Any, list[float]]:
    """Run a flow: how it ended, and what it waited, although no time passes."""
    with recorded() as waits:
        try:
            return run(flow, line), waits
        except Exception as error:
            return error, waits


def retry(settings: dict[str, Any], **more: Any) -> Flow[Any]:
    return cast("Flow[Any]", ModelRetryMiddleware(**settings, **more).around_model(REQUEST))


@given(settings, failures, st.sampled_from(["continue", "error", "words"]))
def test_attempts_waits_and_outcome_follow_from_the_parameters(
    settings: dict[str, Any], failures: list[type[Exception]], on_failure: str
) -> None:
    line = Line(failures)
    retried = (ConnectionError, TimeoutError)
    words: Any = (lambda error: f"sorry: {error}") if on_failure == "words" else on_failure
    outcome, waits = walked(retry(settings, retry_on=retried, on_failure=words), line)

    most = settings["max_retries"] + 1
    foreign = next((n for n, kind in enumerate(failures) if kind is KeyError), most)
    attempts = min(len(failures) + 1, most, foreign + 1)
    assert line.calls == attempts
    assert len(waits) == attempts - 1
    if attempts > len(failures):
        assert outcome == "answer"
    elif failures[attempts - 1] is KeyError:
        assert outcome is line.raised[attempts - 1]
        assert not hasattr(outcome, "__notes__")
    elif on_failure == "error":
        assert outcome is line.raised[attempts - 1]
        assert f"after {attempts} attempt" in outcome.__notes__[0]
    else:
        (message,) = outcome.result
        assert isinstance(message, AIMessage)
        said = f"failed after {attempts} attempt" if on_failure == "continue" else "sorry: "
        assert said in message.text
    assert_waits(settings, waits)


def assert_waits(settings: dict[str, Any], waits: list[float]) -> None:
    factor = settings["backoff_factor"] or 1
    for number, wait in enumerate(waits):
        try:
            whole = settings["initial_delay"] * float(factor) ** number
        except OverflowError:
            whole = settings["max_delay"] if settings["initial_delay"] else 0
        whole = min(whole, settings["max_delay"])
        least = whole / 2 if settings["jitter"] else whole
        assert least - 1e-9 <= wait <= min(whole + 1e-9, settings["max_delay"])


def waits_of(count: int, **settings: Any) -> list[float]:
    line = Line([ConnectionError] * count)
    _, waits = walked(retry({"max_retries": count, **settings}), line)
    return waits


def test_waits_grow_by_the_factor_up_to_the_cap_and_jitter_removes_up_to_half_of_them() -> None:
    assert waits_of(5, initial_delay=1, max_delay=10, jitter=False) == [1, 2, 4, 8, 10]
    assert waits_of(3, backoff_factor=3, initial_delay=2, jitter=False) == [2, 6, 18]
    assert waits_of(3, backoff_factor=0, initial_delay=0.5, jitter=False) == [0.5] * 3
    assert waits_of(3000, jitter=False)[-1] == 60
    assert len(set(waits_of(60, initial_delay=100, max_delay=10))) > 50


def in_seconds(seconds: float) -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)


class Busy(Exception):
    """What a client raises with the response that it got."""

    def __init__(self, headers: Any, *, response: bool = True) -> None:
        super().__init__("busy")
        holder: Any = httpx.Response(429, headers=headers)
        if response:
            self.response = holder
        else:
            self.headers = holder.headers


def waits_after(error: Exception, kind: Any = ModelRetryMiddleware, **settings: Any) -> Any:
    """How a call ends that fails once with this error, and what it waited."""
    failures = iter([error])

    def inner(request: Any) -> Any:
        if (failure := next(failures, None)) is not None:
            raise failure
        return "answer"

    middleware = kind(**{"initial_delay": 2, "jitter": False, **settings})
    if kind is ModelRetryMiddleware:
        return walked(middleware.around_model(REQUEST), inner)
    return walked(middleware.around_tool(TOOL_REQUEST), inner)


@each("kind", BOTH)
@each(
    "headers, least",
    [
        ({"retry-after": "7"}, 7),
        ({"Retry-After": "7.5"}, 7.5),
        ({"retry-after-ms": "7500", "retry-after": "9"}, 7.5),
        ({"retry-after": "1"}, 2),
        ({"retry-after": in_seconds(-60)}, 2),
        ({"retry-after": "soon"}, 2),
        ({"retry-after": "nan"}, 2),
        ({"retry-after": "-5"}, 2),
        ({"retry-after-ms": "inf"}, 2),
        ({}, 2),
    ],
)
def test_a_wait_is_at_least_what_the_server_asks_for(kind: Any, headers: Any, least: Any) -> None:
    outcome, (waited,) = waits_after(Busy(headers), kind, max_delay=3600)
    assert outcome == "answer"
    assert least <= waited <= least * 1.1


@each("kind", BOTH)
def test_a_server_may_name_the_time_until_which_to_wait(kind: Any) -> None:
    headers = {"retry-after": in_seconds(3000)}
    outcome, (waited,) = waits_after(Busy(headers), kind, max_delay=3600)
    assert outcome == "answer"
    assert 2900 <= waited <= 3000


def test_the_headers_may_be_those_of_the_exception_or_a_plain_dict() -> None:
    assert waits_after(Busy({"Retry-After": "7"}, response=False))[1] == [7]
    error = ConnectionError("busy")
    error.response = SimpleNamespace(headers={"Retry-After": "7"})  # type: ignore[attr-defined]
    assert waits_after(error)[1] == [7]
    error.response = None  # type: ignore[attr-defined]
    assert waits_after(error)[1] == [2]


def test_a_server_that_asks_for_a_longer_wait_than_allowed_is_not_asked_again() -> None:
    busy, limit = Busy({"retry-after": "120"}), "asks to wait 120 seconds, and max_delay is 60."
    response, waits = waits_after(busy)
    assert response.result[0].text.startswith(
        f"The model call failed after 1 attempt with Busy: busy.\nThe server {limit}"
    )
    message, more = waits_after(busy, ToolRetryMiddleware)
    assert limit in message.text
    error, most = waits_after(busy, on_failure="error")
    assert error is busy
    assert "asks to wait 120 seconds" in busy.__notes__[0]
    assert waits == more == most == []


@each("kind", BOTH)
@each("old, new", [("raise", "error"), ("return_message", "continue")])
def test_old_spellings_of_langchain_are_taken_with_a_warning(kind: Any, old: str, new: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"Write on_failure='{new}'") as caught:
        middleware = kind(on_failure=old)
    assert middleware.on_failure == new
    assert [warning.filename for warning in caught] == [__file__]
