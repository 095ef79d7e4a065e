"""Write once, run sync or async: effects, `then`, and the two drivers of a flow.

A *flow* is a generator that decides whether, when and with what to call. It yields what it wants
done and is resumed with the outcome, or with the exception:

- `yield request` calls inward and receives the response,
- `yield Sleep(seconds)` waits,
- `yield Invoke(runnable, input)` asks another runnable, a model for example.

A driver walks it in the colour of the run, so that a flow never says `async`.

>>> def polite(name):
...     yield Sleep(0)
...     return f"Hello {name}"
>>> run(polite("Ada"))
'Hello Ada'
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any, Generic, Protocol, TypeVar, cast, overload

from langgraph.errors import GraphBubbleUp, is_invalid_resume

from agent_factory.errors import BadReturn, describe

T = TypeVar("T")
R = TypeVar("R")

Flow = Generator[Any, Any, R]


class CanInvoke(Protocol):
    """Anything with LangChain's two calls: a model, a chain, a compiled graph."""

    def invoke(self, input: Any, config: Any = None) -> Any:
        """Run now."""

    async def ainvoke(self, input: Any, config: Any = None) -> Any:
        """Run, awaited."""


@dataclass(frozen=True, slots=True)
class Sleep:
    """Wait before the flow goes on.

    Args:
        seconds: How long, in seconds.
    """

    seconds: float


@dataclass(frozen=True, slots=True)
class Invoke:
    """Ask another runnable; the flow is resumed with its answer.

    Args:
        runnable: What to call: a chat model, a chain, a compiled graph.
        input: Its input.
        config: A RunnableConfig for this call, if it needs one of its own.
    """

    runnable: CanInvoke
    input: Any
    config: Any = None


@overload
def then(value: Awaitable[T], finish: Callable[[T], R]) -> Coroutine[Any, Any, R]: ...
@overload
def then(value: T, finish: Callable[[T], R]) -> R: ...
def then(value: Any, finish: Callable[[Any], R]) -> R | Coroutine[Any, Any, R]:
    """Finish a value now, or later if it is still to be awaited.

    >>> then(2, str)
    '2'
    """
    if not isawaitable(value):
        return finish(value)

    async def later() -> R:
        return finish(await value)

    return later()


class _Steps(Generic[R]):
    """Walks a flow; knows nothing of sync or async."""

    def __init__(self, flow: Flow[R]) -> None:
        self._flow = flow
        self._resume: Callable[[], Any] = lambda: next(flow)
        self.result: R | None = None
        self.done = False

    def next(self) -> Any:
        try:
            return self._resume()
        except StopIteration as stop:
            self.result, self.done = stop.value, True
            return None

    def answer(self, value: Any) -> None:
        self._resume = lambda: self._flow.send(value)

    def fail(self, error: BaseException) -> None:
        # Control flow (an interrupt, a refused answer to one, a parent command, a cancellation)
        # is not the flow's business: it is never thrown in, so no author can swallow it.
        if _is_signal(error):
            self._close(error)
            raise error
        self._resume = lambda: self._flow.throw(error)

    def _close(self, signal: BaseException) -> None:
        try:
            self._flow.close()
        except Exception as broken:  # what a flow does as it is closed must not hide the signal
            signal.add_note(f"While its flow was closed: {broken!r}")


def _is_signal(error: BaseException) -> bool:
    ours = isinstance(error, GraphBubbleUp) or is_invalid_resume(error)
    return ours or not isinstance(error, Exception)


def run(flow: Flow[R], handler: Callable[[Any], Any] | None = None) -> R:
    """Walk a flow synchronously.

    Args:
        flow: The generator.
        handler: Receives every yielded value that is no effect: the call inward.

    Returns:
        What the flow returned.

    Raises:
        BadReturn: The flow yielded something that is no effect, and there is no call inward.
    """
    steps = _Steps(flow)
    while True:
        effect = steps.next()
        if steps.done:
            return cast("R", steps.result)
        try:
            steps.answer(_do(effect, handler))
        except BaseException as error:
            steps.fail(error)


async def arun(flow: Flow[R], handler: Callable[[Any], Awaitable[Any]] | None = None) -> R:
    """Walk a flow asynchronously; otherwise as `run`."""
    steps = _Steps(flow)
    while True:
        effect = steps.next()
        if steps.done:
            return cast("R", steps.result)
        try:
            steps.answer(await _ado(effect, handler))
        except BaseException as error:
            steps.fail(error)


def _do(effect: Any, handler: Callable[[Any], Any] | None) -> Any:
    match effect:
        case Sleep(seconds):
            return time.sleep(seconds)
        case Invoke(runnable, input, config):
            return runnable.invoke(input, config)
        case _:
            return _inward(effect, handler)(effect)


async def _ado(effect: Any, handler: Callable[[Any], Awaitable[Any]] | None) -> Any:
    match effect:
        case Sleep(seconds):
            return await asyncio.sleep(seconds)
        case Invoke(runnable, input, config):
            return await runnable.ainvoke(input, config)
        case _:
            return await _inward(effect, handler)(effect)


def _inward(effect: Any, handler: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    if handler is None:
        raise BadReturn(
            "a flow",
            f"yielded {describe(effect)}, and there is no call inward here.",
            "Yield Sleep(...) or Invoke(...).",
        )
    return handler
