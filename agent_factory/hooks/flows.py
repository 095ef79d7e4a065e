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
from types import GeneratorType
from typing import Any, Protocol, TypeVar, overload

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


EFFECTS = (Sleep, Invoke)
"""What a flow may yield beside a call inward."""


@overload
def then(
    value: Awaitable[T],
    finish: Callable[[T], R],
    on_error: Callable[[BaseException], R] | None = None,
) -> Coroutine[Any, Any, R]: ...
@overload
def then(
    value: T, finish: Callable[[T], R], on_error: Callable[[BaseException], R] | None = None
) -> R: ...
def then(
    value: Any,
    finish: Callable[[Any], R],
    on_error: Callable[[BaseException], R] | None = None,
) -> R | Coroutine[Any, Any, R]:
    """Apply a function to a value: now, or in a coroutine if the value is awaitable.

    Args:
        value: A value, or an awaitable of one.
        finish: Function of the value; its result is the result.
        on_error: Function of the exception that awaiting the value raised; its result takes the
            place of what `finish` would return. It may raise: to pass the exception on, raise it
            again. Called for control flow too (interrupts, cancellation), never for exceptions of
            `finish`, and never for a value that is not awaitable.

    >>> then(2, str)
    '2'
    """
    if not is_awaitable(value):
        return finish(value)

    async def later() -> R:
        try:
            result = await value
        except BaseException as error:
            if on_error is None:
                raise
            return on_error(error)
        return finish(result)

    return later()


def is_awaitable(value: Any) -> bool:
    """As `inspect.isawaitable`, which takes ten times as long to say no."""
    return hasattr(type(value), "__await__") or (
        isinstance(value, GeneratorType) and isawaitable(value)
    )


def close(flow: Flow[Any], signal: BaseException) -> None:
    """End a flow because of a signal, so that its cleanup runs."""
    try:
        flow.close()
    except Exception as broken:  # what a flow does as it is closed must not hide the signal
        signal.add_note(f"While its flow was closed: {broken!r}")


def is_signal(error: BaseException) -> bool:
    """Whether an error is control flow: an interrupt, a refused answer to one, a cancellation."""
    ours = isinstance(error, GraphBubbleUp) or is_invalid_resume(error)
    return ours or not isinstance(error, Exception)


Throw = Callable[[Flow[Any], BaseException], Callable[[Any], Any]]
"""How a flow hears of an error: what is called with it."""


def throw_errors_only(flow: Flow[Any], error: BaseException) -> Callable[[Any], Any]:
    """An author's flow hears of errors.

    Control flow is not its business: it is never thrown in, so no author can swallow it.
    """
    if is_signal(error):
        close(flow, error)
        raise error
    return flow.throw


def throw_everything(flow: Flow[Any], error: BaseException) -> Callable[[Any], Any]:
    """A flow of the engine's own hears of everything."""
    return flow.throw


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
    return drive(flow, handler)


async def arun(flow: Flow[R], handler: Callable[[Any], Awaitable[Any]] | None = None) -> R:
    """Walk a flow asynchronously; otherwise as `run`."""
    return await adrive(flow, handler)


def drive(
    flow: Flow[R], handler: Callable[[Any], Any] | None = None, throw: Throw = throw_errors_only
) -> R:
    """As `run`, of any flow."""
    resume: Callable[[Any], Any] = flow.send
    outcome: Any = None
    while True:
        try:
            effect = resume(outcome)
        except StopIteration as stop:
            returned: R = stop.value
            return returned
        try:
            resume = flow.send
            if handler is None or isinstance(effect, EFFECTS):
                outcome = _do(effect)
            else:
                outcome = handler(effect)
        except BaseException as error:
            outcome, resume = error, throw(flow, error)


async def adrive(
    flow: Flow[R],
    handler: Callable[[Any], Awaitable[Any]] | None = None,
    throw: Throw = throw_errors_only,
) -> R:
    """As `arun`, of any flow."""
    resume: Callable[[Any], Any] = flow.send
    outcome: Any = None
    while True:
        try:
            effect = resume(outcome)
        except StopIteration as stop:
            returned: R = stop.value
            return returned
        try:
            resume = flow.send
            if handler is None or isinstance(effect, EFFECTS):
                outcome = await _ado(effect)
            else:
                outcome = await handler(effect)
        except BaseException as error:
            outcome, resume = error, throw(flow, error)


@dataclass(frozen=True, slots=True)
class FlowLayer:
    """A flow as a layer in one colour.

    Args:
        flow: Makes the generator for a request.
        walk: `drive` or `adrive`.
    """

    flow: Callable[[Any], Flow[Any]]
    drive: Callable[..., Any]

    def __call__(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        return self.drive(self.flow(request), handler)


def _do(effect: Any) -> Any:
    match effect:
        case Sleep(seconds):
            return time.sleep(seconds)
        case Invoke(runnable, input, config):
            return runnable.invoke(input, config)
        case _:
            raise _nothing_inward(effect)


def _ado(effect: Any) -> Awaitable[Any]:
    match effect:
        case Sleep(seconds):
            return asyncio.sleep(seconds)
        case Invoke(runnable, input, config):
            return runnable.ainvoke(input, config)
        case _:
            raise _nothing_inward(effect)


def _nothing_inward(effect: Any) -> BadReturn:
    return BadReturn(
        "a flow",
        f"yielded {describe(effect)}, and there is no call inward here.",
        "Yield Sleep(...) or Invoke(...).",
    )
