"""Flows: code that is written once and runs sync or async.

A *flow* is a generator that decides whether, when and with what to call. It yields what should
happen and is resumed with the result, or with the exception:

- `yield request` calls the inner layer and receives its response,
- `yield Sleep(seconds)` waits,
- `yield Invoke(runnable, input)` calls another runnable, such as a model,
- `yield Task(name, function)` calls a function once in a run; only `around_agent` may do that.

`run` and `arun` drive a flow in a sync or an async run, so a flow contains no `async`.

>>> def polite(name):
...     yield Sleep(0)
...     return f"Hello {name}"
>>> run(polite("Ada"))
'Hello Ada'
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from dataclasses import dataclass
from inspect import isawaitable
from types import GeneratorType
from typing import Any, Protocol, TypeVar, overload

from langgraph.errors import GraphBubbleUp, is_invalid_resume
from langgraph.types import Interrupt

from agent_factory.errors import BadReturn, describe
from agent_factory.upstream import configured

T = TypeVar("T")
R = TypeVar("R")

Flow = Generator[Any, Any, R]


class CanInvoke(Protocol):
    """Object with LangChain's `invoke` and `ainvoke`: a model, a chain, a compiled graph."""

    def invoke(self, input: Any, config: Any = None) -> Any:
        """Call it."""

    async def ainvoke(self, input: Any, config: Any = None) -> Any:
        """Call it and await the result."""


@dataclass(frozen=True, slots=True)
class Sleep:
    """Wait before the flow continues.

    Args:
        seconds: How long, in seconds.
    """

    seconds: float


@dataclass(frozen=True, slots=True)
class Invoke:
    """Call another runnable; the flow is resumed with its result.

    Args:
        runnable: A chat model, a chain, a compiled graph.
        input: The input of the call.
        config: A RunnableConfig for this call; by default that of the run applies.
    """

    runnable: CanInvoke
    input: Any
    config: Any = None


@dataclass(frozen=True, slots=True)
class Task:
    """Call a function once in a run of the agent. Only a flow `around_agent` may yield it.

    The result is stored in the thread until the run ends. When the run goes on after a pause, here
    or in another process, the flow is resumed with the stored result, and nothing is called.

    Args:
        name: Name of the task; a flow that yields it again gets the same result.
        function: Called without arguments. A coroutine function serves async runs only. What it
            returns must be something that the checkpointer can store.
    """

    name: str
    function: Callable[[], object]


class RunPaused(BaseException):
    """Thrown into `around_agent` at its `yield` when the run pauses: it is not over.

    A flow may catch it, to note the pause or to keep something open, and must end then. The run
    stays paused in any case. It is not an `Exception`, so `except Exception` does not catch it.

    Args:
        interrupts: What the run waits for; empty if it pauses before or after a node.
    """

    def __init__(self, interrupts: Sequence[Interrupt] = ()) -> None:
        self.interrupts = tuple(interrupts)
        super().__init__(*self.interrupts)


EFFECTS = (Sleep, Invoke)
"""What a flow may yield, other than a call of the inner layer."""


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
        # Without `finish` in it: an error of `finish` is not one of the value.
        try:
            result = await value
        except BaseException as error:
            if on_error is None:
                raise
            return on_error(error)
        return finish(result)

    return later()


def is_awaitable(value: object) -> bool:
    """`inspect.isawaitable`, ten times faster for values that are not awaitable."""
    return hasattr(type(value), "__await__") or (
        isinstance(value, GeneratorType) and isawaitable(value)
    )


def close(flow: Flow[Any], signal: BaseException) -> None:
    """Close a flow because of a control-flow exception, so that its cleanup runs."""
    try:
        flow.close()
    except Exception as broken:  # An error in the cleanup must not hide the signal.
        signal.add_note(f"While its flow was closed: {broken!r}")


MAX_REFUSALS = 100
"""How often a flow may catch a BadReturn and go on. What it yields is refused then without end."""


def is_signal(error: BaseException) -> bool:
    """Return True for control flow: an interrupt, an invalid resume, a cancellation."""
    # An invalid resume is a pydantic.ValidationError in langgraph 1.2, as invalid arguments are.
    from_langgraph = isinstance(error, GraphBubbleUp) or is_invalid_resume(error)
    return from_langgraph or not isinstance(error, Exception)


def run(flow: Flow[R], handler: Callable[[Any], object] | None = None) -> R:
    """Drive a flow in a sync run.

    Args:
        flow: The generator.
        handler: Called with every yielded value but `Sleep` and `Invoke`: the inner layer.

    Returns:
        What the flow returned.

    Raises:
        BadReturn: The flow yielded a request, and it has no inner layer.
    """
    return drive(flow, handler)


async def arun(flow: Flow[R], handler: Callable[[Any], Awaitable[object]] | None = None) -> R:
    """Drive a flow in an async run; otherwise as `run`."""
    return await adrive(flow, handler)


def drive(
    flow: Flow[R], handler: Callable[[Any], object] | None = None, *, throw_signals: bool = False
) -> R:
    """`run`; with `throw_signals`, control flow is thrown into the flow too: an internal one.

    An `except Exception` in the flow of a middleware would swallow interrupts.
    """
    resume: Callable[[Any], object] = flow.send
    outcome = None
    refusals = 0
    while True:
        try:
            effect = resume(outcome)
        except StopIteration as stop:
            # The annotation is for mypy: the value of a StopIteration is Any.
            result: R = stop.value
            return result
        try:
            # After an exception was thrown in, the flow goes on with `send` again.
            resume = flow.send
            if handler is None or isinstance(effect, EFFECTS):
                outcome = perform(effect, time.sleep, "invoke")
            else:
                outcome = handler(effect)
        except BaseException as error:
            # A flow may catch the refusal and yield the same value again. That has to end.
            refusals += isinstance(error, BadReturn)
            if refusals > MAX_REFUSALS or (not throw_signals and is_signal(error)):
                close(flow, error)
                raise
            outcome, resume = error, flow.throw


# The loop of `drive` is written twice, because only one of the two may await.
async def adrive(
    flow: Flow[R],
    handler: Callable[[Any], Awaitable[Any]] | None = None,
    *,
    throw_signals: bool = False,
) -> R:
    """`drive` for async runs."""
    resume: Callable[[Any], object] = flow.send
    outcome = None
    refusals = 0
    while True:
        try:
            effect = resume(outcome)
        except StopIteration as stop:
            result: R = stop.value
            return result
        try:
            resume = flow.send
            if handler is None or isinstance(effect, EFFECTS):
                outcome = await perform(effect, asyncio.sleep, "ainvoke")
            else:
                outcome = await handler(effect)
        except BaseException as error:
            refusals += isinstance(error, BadReturn)
            if refusals > MAX_REFUSALS or (not throw_signals and is_signal(error)):
                close(flow, error)
                raise
            outcome, resume = error, flow.throw


@dataclass(frozen=True, slots=True)
class FlowLayer:
    """Layer that drives a flow, sync or async."""

    flow: Callable[[Any], Flow[Any]]
    drive: Callable[..., object]

    def __call__(self, request: object, handler: Callable[[Any], object]) -> object:
        return self.drive(self.flow(request), handler)


def perform(effect: object, sleep: Callable[[float], object], invoke: str) -> Any:
    """Sleep or call a runnable; the result is awaitable in an async run."""
    if isinstance(effect, Sleep):
        return sleep(effect.seconds)
    if isinstance(effect, Invoke):
        runnable = configured(effect.runnable, effect.config)
        return getattr(runnable, invoke)(effect.input, effect.config)
    raise BadReturn(
        "a flow",
        f"yielded {describe(effect)}, but it has no inner layer to call.",
        "Yield Sleep(...) or Invoke(...).",
    )
