"""Write once, run sync or async: `then`, the effects and the two drivers of a flow."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from langchain_core.runnables import RunnableLambda
from langgraph.errors import GraphBubbleUp, GraphInterrupt, ParentCommand
from langgraph.types import Command

from agent_factory import Flow, Invoke, Sleep, arun, run, then
from agent_factory.errors import BadReturn
from tables import each
from waiting import run_virtually

Drive = Callable[..., Any]


@pytest.fixture(params=["sync", "async"])
def drive(request: pytest.FixtureRequest) -> Drive:
    """Walk a flow with `run` or `arun`; the handler is a plain function in both cases."""
    if request.param == "sync":
        return run

    def adrive(flow: Flow[Any], handler: Callable[[Any], Any] | None = None) -> Any:
        async def ahandler(value: Any) -> Any:
            assert handler is not None
            return handler(value)

        return asyncio.run(arun(flow, ahandler if handler else None))

    return adrive


def fail_with(error: BaseException) -> Callable[[Any], Any]:
    def handler(_: Any) -> Any:
        raise error

    return handler


async def later(value: Any) -> Any:
    await asyncio.sleep(0)
    return value


async def test_then_finishes_a_value_now_and_any_awaitable_when_it_is_awaited() -> None:
    assert then(2, str) == "2"
    finished: list[int] = []
    pending = then(later(2), finished.append)
    assert finished == []
    await pending
    assert finished == [2]
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    future.set_result(3)
    assert await then(future, str) == "3"


async def raise_later(error: BaseException) -> Any:
    await asyncio.sleep(0)
    raise error


async def test_on_error_gets_the_errors_of_an_awaitable_and_no_others() -> None:
    def raise_again(error: BaseException) -> Any:
        raise KeyError("other") from error

    error = ValueError("no")
    assert await then(raise_later(error), str, on_error=lambda caught: caught is error) is True
    with pytest.raises(KeyError, match="other"):
        await then(raise_later(error), str, raise_again)
    with pytest.raises(ZeroDivisionError):
        await then(later(0), lambda value: 1 // value, on_error=lambda _: 0)
    with pytest.raises(ValueError, match="no"):
        await then(raise_later(error), str)


def test_sleep_waits_its_seconds_and_gives_none(
    drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flow() -> Flow[Any]:
        return (yield Sleep(50.0))

    waits: list[float] = []

    async def wait(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr("time.sleep", waits.append)
    monkeypatch.setattr("asyncio.sleep", wait)
    assert drive(flow()) is None
    assert waits == [50.0]


def test_sleep_lets_other_tasks_run() -> None:
    ran: list[str] = []

    def flow() -> Flow[None]:
        yield Sleep(60)
        ran.append("flow")

    async def other() -> None:
        ran.append("other")

    async def both() -> None:
        await asyncio.gather(arun(flow()), other())

    run_virtually(both())
    assert ran == ["other", "flow"]


def test_invoke_calls_a_runnable_in_the_mode_of_the_run(drive: Drive) -> None:
    """The one that is asked sees which of its two calls was made."""

    async def double_later(value: int) -> str:
        return f"async {value * 2}"

    runnable = RunnableLambda(lambda value: f"sync {value * 2}", afunc=double_later)

    def flow() -> Flow[str]:
        answer: str = yield Invoke(runnable, 4)
        return answer

    mode = "sync" if drive is run else "async"
    assert drive(flow()) == f"{mode} 8"


def test_invoke_passes_its_config_on(drive: Drive) -> None:
    runnable: RunnableLambda[None, Any] = RunnableLambda(lambda _, config: config["tags"])

    def flow() -> Flow[Any]:
        return (yield Invoke(runnable, None, {"tags": ["mine"]}))

    assert drive(flow()) == ["mine"]


@each("effect", ["request", Invoke(RunnableLambda(fail_with(KeyError(1))), 0)])
def test_an_exception_is_thrown_into_the_flow_where_it_yielded(drive: Drive, effect: Any) -> None:
    def flow() -> Flow[str]:
        try:
            yield effect
        except KeyError as error:
            return f"caught {error.args[0]}"
        return "nothing"

    assert drive(flow(), fail_with(KeyError(1))) == "caught 1"


def test_an_exception_the_flow_does_not_catch_reaches_the_caller_as_it_is(drive: Drive) -> None:
    error = ValueError("boom")

    def flow() -> Flow[None]:
        yield 1

    with pytest.raises(ValueError, match="boom") as caught:
        drive(flow(), fail_with(error))
    assert caught.value is error


SIGNALS = [
    GraphInterrupt(()),
    GraphBubbleUp(),
    ParentCommand(Command(graph=Command.PARENT)),
    KeyboardInterrupt(),
]


@each("signal", SIGNALS, ids=lambda signal: type(signal).__name__)
def test_a_signal_is_never_thrown_into_a_flow(drive: Drive, signal: BaseException) -> None:
    """Wanted 1: an author who catches everything still cannot swallow an interrupt."""
    seen: list[BaseException] = []

    def flow() -> Flow[str]:
        with suppress(GeneratorExit):  # closing is not a signal
            try:
                yield 1
            except Exception as error:
                seen.append(error)
        return "swallowed"

    with pytest.raises(type(signal)) as caught:
        drive(flow(), fail_with(signal))
    assert caught.value is signal
    assert seen == []


async def test_a_cancelled_run_closes_its_flow() -> None:
    begun, closed = asyncio.Event(), asyncio.Event()

    def flow() -> Flow[None]:
        begun.set()
        try:
            yield Sleep(60)
        except Exception:
            pytest.fail("a cancellation was thrown in")
        finally:
            closed.set()

    task = asyncio.create_task(arun(flow()))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert closed.is_set()


def test_a_signal_closes_the_flow_whose_cleanup_cannot_hide_it(drive: Drive) -> None:
    """Wanted 1: `finally: yield Sleep(...)` must not turn an interrupt into another error."""
    closed: list[bool] = []

    def flow() -> Flow[None]:
        try:
            yield 1
        finally:
            closed.append(True)
            yield Sleep(0)

    with pytest.raises(GraphInterrupt):
        drive(flow(), fail_with(GraphInterrupt(())))
    assert closed == [True]


@each("junk", [None, 3, "text", object()])
def test_without_an_inner_layer_a_flow_may_yield_effects_only(drive: Drive, junk: Any) -> None:
    def flow() -> Flow[None]:
        yield junk

    with pytest.raises(BadReturn, match="no inner layer") as caught:
        drive(flow())
    assert type(junk).__name__ in caught.value.reason
    assert "Sleep" in caught.value.hint


def test_a_bad_yield_raises_in_the_flow_at_its_yield(drive: Drive) -> None:
    def flow() -> Flow[str]:
        try:
            yield "junk"
        except BadReturn:
            return "reported"
        return "not reported"

    assert drive(flow()) == "reported"
