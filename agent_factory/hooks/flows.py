"""Flows: code that is written once and runs sync or async.

A *flow* is a generator that decides whether, when and with which arguments to call. The generator
yields an effect and is resumed with the result, or with the exception:

- `yield request` calls the inner layer and receives its response,
- `yield Sleep(seconds)` waits,
- `yield Invoke(runnable, input)` calls another runnable, such as a model,
- `yield Together(...)` performs several effects at once,
- `yield Task(name, function)` calls a function once in a run; only in `around_agent`.

A node hook that is a flow has no inner layer, so the hook yields no requests.

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
from functools import partial, wraps
from inspect import isawaitable
from types import GeneratorType
from typing import Any, ParamSpec, Protocol, TypeVar, overload

from langchain_core.runnables.config import ContextThreadPoolExecutor
from langgraph.errors import GraphBubbleUp, is_invalid_resume
from langgraph.types import Interrupt

from agent_factory.errors import ArgumentError, BadReturn, describe
from agent_factory.models import configured

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")

Flow = Generator[Any, Any, R]
InnerLayer = Callable[[Any], object]


class CanInvoke(Protocol):
    """Object with LangChain's `invoke` and `ainvoke`: a model, a chain, a compiled graph."""

    def invoke(self, input: Any, config: Any = None) -> Any:
        """Call the object."""

    async def ainvoke(self, input: Any, config: Any = None) -> Any:
        """Call the object and await the result."""


@dataclass(frozen=True, slots=True)
class Sleep:
    """Wait before the flow continues.

    Args:
        seconds: How long, in seconds.
    """

    seconds: float


@dataclass(frozen=True, slots=True)
class Invoke:
    """Call another runnable; the flow is resumed with the result.

    Args:
        runnable: A chat model, a chain, a compiled graph.
        input: The input of the call.
        config: A RunnableConfig for this call; by default the config of the run applies.
    """

    runnable: CanInvoke
    input: Any
    config: Any = None


@dataclass(frozen=True, slots=True, init=False)
class Together:
    """Perform several effects at once; the flow is resumed with a tuple of the results.

    An async run makes a task of each part. A sync run performs one part in its own thread, the call
    of the inner layer if there is one, and each other part in a thread for this part alone.

    The first part that raises ends all parts: tasks are cancelled, threads are waited for, and the
    flow is resumed with the exception. So no part outlives the `yield`.

    Args:
        *parts: `Sleep`, `Invoke`, flows with these effects, and at most one request, which calls
            the inner layer.

    >>> def letters(word):
    ...     yield Sleep(0)
    ...     return len(word)
    >>> def count():
    ...     first, second = yield Together(letters("one"), letters("three"))
    ...     return first + second
    >>> run(count())
    8
    """

    parts: tuple[object, ...]
    request: int | None
    """Index of the part that calls the inner layer; None without such a part."""

    def __init__(self, *parts: object) -> None:
        others = (*EFFECTS, GeneratorType)
        requests = [at for at, part in enumerate(parts) if not isinstance(part, others)]
        if not parts or len(requests) > 1:
            reason = "needs at least one part." if not parts else "calls the inner layer twice."
            hint = "Write Together(Invoke(...), request), with one request at most."
            raise ArgumentError("Together", reason, hint)
        object.__setattr__(self, "parts", parts)
        object.__setattr__(self, "request", requests[0] if requests else None)


@dataclass(frozen=True, slots=True)
class NextChunk:
    """The next chunk of a model's answer, or None at the end, as the result for a flow of chunks.

    See `ModelRequest.through`.
    """


@dataclass(frozen=True, slots=True)
class Inward:
    """Part of a `Together` that calls the inner layer, as a flow that yields requests."""

    flow: Flow[Any]


@dataclass(frozen=True, slots=True)
class Task:
    """Call a function once in a run of the agent. Only a flow `around_agent` may yield a task.

    The result is stored in the thread until the run ends. When the run goes on after a pause, here
    or in another process, the flow is resumed with the stored result, and nothing is called.

    Args:
        name: Name of the task; a flow that yields the name again gets the same result.
        function: Called without arguments. A coroutine function serves async runs only. The
            checkpointer must be able to store the result.
    """

    name: str
    function: Callable[[], object]


class RunPaused(BaseException):
    """Thrown into `around_agent` at its `yield` when the run pauses: the run is not over.

    A flow may catch the exception, to note the pause or to keep something open, and must end then.
    The run stays paused in any case. `RunPaused` is not an `Exception`, so `except Exception` does
    not catch it.

    Args:
        interrupts: The interrupts of the run; empty if the run pauses before or after a node.
    """

    def __init__(self, interrupts: Sequence[Interrupt] = ()) -> None:
        self.interrupts = tuple(interrupts)
        super().__init__(*self.interrupts)


EFFECTS = (Sleep, Invoke, Together)
"""Effects of a flow, other than a call of the inner layer."""


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
        value: A value, or an awaitable.
        finish: Function of the value; its result is the result.
        on_error: Function of the exception that awaiting the value raised, in place of `finish`.
            The function may raise: to pass the exception on, raise it again. Called for control
            flow too (interrupts, cancellation), never for exceptions of `finish`, and never for a
            value that is not awaitable.

    >>> then(2, str)
    '2'
    """
    if not is_awaitable(value):
        return finish(value)

    async def later() -> R:
        # Without `finish` in the block: an error of `finish` is not an error of the value.
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
"""How often a flow may catch a BadReturn and go on. Further values would be refused forever."""


def is_signal(error: BaseException) -> bool:
    """Return True for control flow: an interrupt, an invalid resume, a cancellation."""
    # An invalid resume is a pydantic.ValidationError in langgraph 1.2, as invalid arguments are.
    from_langgraph = isinstance(error, GraphBubbleUp) or is_invalid_resume(error)
    return from_langgraph or not isinstance(error, Exception)


def identity(state: T) -> T:
    """Return a state unchanged; the handler of a flow that yields values in place of requests."""
    return state


def run(flow: Flow[R], handler: Callable[[Any], object] | None = None) -> R:
    """Drive a flow in a sync run.

    Args:
        flow: The generator.
        handler: Called with each value but `Sleep`, `Invoke` and `Together`: the inner layer.

    Raises:
        BadReturn: The flow yielded a request, and there is no inner layer.
    """
    return drive(flow, handler)


async def arun(flow: Flow[R], handler: Callable[[Any], Awaitable[object]] | None = None) -> R:
    """Drive a flow in an async run; otherwise as `run`."""
    return await adrive(flow, handler)


def drive(flow: Flow[R], handler: InnerLayer | None = None, *, throw_signals: bool = False) -> R:
    """`run`; with `throw_signals`, control flow is thrown into the flow too: an internal flow.

    An `except Exception` in the flow of a middleware would swallow interrupts.
    """
    resume: Callable[[Any], object] = flow.send
    outcome = None
    refusals = 0
    while True:
        try:
            effect = resume(outcome)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]
        try:
            # After an exception was thrown in, the flow goes on with `send` again.
            resume = flow.send
            if handler is None or isinstance(effect, EFFECTS):
                outcome = perform(effect, handler, asynchronous=False, flow=flow)
            else:
                outcome = handler(effect)
        except BaseException as error:
            # A flow may catch the refusal and yield the same value again, which has to end.
            refusals += isinstance(error, BadReturn)
            if refusals > MAX_REFUSALS or (not throw_signals and is_signal(error)):
                close(flow, error)
                raise
            outcome, resume = error, flow.throw


# The loop of `drive` is written twice, because only a coroutine may await.
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
            return stop.value  # type: ignore[no-any-return]
        try:
            resume = flow.send
            if handler is None or isinstance(effect, EFFECTS):
                outcome = await perform(effect, handler, asynchronous=True, flow=flow)
            else:
                outcome = await handler(effect)
        except BaseException as error:
            refusals += isinstance(error, BadReturn)
            if refusals > MAX_REFUSALS or (not throw_signals and is_signal(error)):
                close(flow, error)
                raise
            outcome, resume = error, flow.throw


def forms_of(flow: Callable[P, Flow[R]]) -> tuple[Callable[P, R], Callable[P, Awaitable[R]]]:
    """Return a sync and an async function that run a flow without an inner layer."""

    @wraps(flow)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        return drive(flow(*args, **kwargs))

    @wraps(flow)
    async def acall(*args: P.args, **kwargs: P.kwargs) -> R:
        return await adrive(flow(*args, **kwargs))

    return call, acall


@dataclass(frozen=True, slots=True)
class FlowLayer:
    """Layer that drives a flow, sync or async."""

    flow: Callable[[Any], Flow[Any]]
    drive: Callable[..., object]

    def __call__(self, request: object, handler: InnerLayer) -> object:
        return self.drive(self.flow(request), handler)


def perform(
    effect: object, handler: InnerLayer | None = None, *, asynchronous: bool, flow: object = None
) -> Any:
    """Perform the effect of a flow; the result is awaitable in an async run."""
    if isinstance(effect, Together):
        calls = [partial(_do, part, handler, asynchronous=asynchronous) for part in effect.parts]
        return _in_tasks(calls) if asynchronous else _in_threads(calls, effect.request)
    if isinstance(effect, Sleep):
        return (asyncio.sleep if asynchronous else time.sleep)(effect.seconds)
    if isinstance(effect, Invoke):
        runnable = configured(effect.runnable, effect.config)
        invoke = runnable.ainvoke if asynchronous else runnable.invoke
        return invoke(effect.input, effect.config)
    reason = f"yielded {describe(effect)}, but it has no inner layer to call."
    hint = "Yield Sleep(...), Invoke(...) or Together(...)."
    raise BadReturn(getattr(flow, "__qualname__", "a flow"), reason, hint)


def _do(part: object, handler: InnerLayer | None, *, asynchronous: bool) -> Any:
    """Do a part of a `Together`; the result is awaitable in an async run."""
    driver: Callable[..., object] = adrive if asynchronous else drive
    if isinstance(part, Inward):
        return driver(part.flow, handler, throw_signals=True)
    if isinstance(part, GeneratorType):
        return driver(part)
    if handler is None or isinstance(part, EFFECTS):
        return perform(part, asynchronous=asynchronous)
    return handler(part)


def _in_threads(calls: Sequence[Callable[[], object]], own: int | None) -> tuple[object, ...]:
    """Make calls at once, the call at `own` in this thread; raise the first exception."""
    # LangGraph finds the task of a run, for an interrupt for example, in its own thread alone.
    own = len(calls) - 1 if own is None else own
    errors: list[BaseException] = []

    def attempt(call: Callable[[], object]) -> object:
        try:
            return call()
        except BaseException as error:
            errors.append(error)
            return None

    # The end of the block waits for all threads: Python cannot end a thread.
    with ContextThreadPoolExecutor(max_workers=len(calls)) as threads:
        futures = {at: threads.submit(attempt, call) for at, call in enumerate(calls) if at != own}
        result = attempt(calls[own])
    _raise_first(errors)
    return tuple(result if at == own else futures[at].result() for at in range(len(calls)))


async def _in_tasks(calls: Sequence[Callable[[], Awaitable[object]]]) -> tuple[object, ...]:
    """Make calls at once; when a call raises, cancel the rest and raise the first exception."""
    errors: list[BaseException] = []

    async def attempt(call: Callable[[], Awaitable[object]]) -> object:
        try:
            return await call()
        except BaseException as error:
            errors.append(error)
            raise

    # Not a TaskGroup, which raises an ExceptionGroup: a flow expects the exception of its call.
    tasks = [asyncio.create_task(attempt(call)) for call in calls]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        # Also when this task is cancelled itself. A task that has ended ignores the call.
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    _raise_first(errors)
    return tuple(task.result() for task in tasks)


def _raise_first(errors: Sequence[BaseException]) -> None:
    """Raise the first error. A cancellation counts only if there is no other error."""
    if errors:
        others = [error for error in errors if not isinstance(error, asyncio.CancelledError)]
        raise (others or errors)[0]
