"""Flows in both modes, and layers around a call: their order, returns and commands."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, cast

import pytest
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda
from langgraph.errors import GraphBubbleUp, GraphInterrupt, ParentCommand
from langgraph.types import Command

from agent_factory import Flow, Invoke, Sleep, arun, run, then
from agent_factory.errors import BadReturn
from agent_factory.hooks.flows import FlowLayer, adrive, drive
from agent_factory.runtime.composition import ModelOutcome, compose_model_call
from agent_factory.testing import ScriptedChatModel
from agent_factory.types import ExtendedModelResponse, ModelRequest, ModelResponse
from samples import through
from tables import each
from waiting import cancel, run_virtually

Body = Callable[[Any], Any]
Fold = Callable[..., ModelOutcome]


def request() -> ModelRequest[Any]:
    return ModelRequest(model=ScriptedChatModel(), messages=[])


def response(text: str = "inner") -> ModelResponse[Any]:
    return ModelResponse(result=[AIMessage(text)])


def writes(key: str, value: Any, inner: Any = None) -> ExtendedModelResponse[Any]:
    return ExtendedModelResponse(inner or response(), Command(update={key: value}))


@pytest.fixture(params=["sync", "async", "sync, as lone layers", "async, as lone layers"])
def fold(request: pytest.FixtureRequest) -> Fold:
    """Compose flows (outermost first) around an answer and call the whole once."""
    lone = "lone" in request.param
    make = globals()["request"]

    def sync(*flows: Body, innermost: Callable[[Any], Any] = lambda _: response()) -> ModelOutcome:
        layers = named(flows, drive, lone)
        call = compose_model_call(layers, lambda request: ModelOutcome(innermost(request)))
        return cast("ModelOutcome", call(make()))

    def a(*flows: Body, innermost: Callable[[Any], Any] = lambda _: response()) -> ModelOutcome:
        async def inner(request: Any) -> ModelOutcome:
            return ModelOutcome(innermost(request))

        call = compose_model_call(named(flows, adrive, lone), inner)
        return cast("ModelOutcome", asyncio.run(call(make())))

    return sync if "async" not in request.param else a


def named(flows: Sequence[Body], drive: Callable[..., Any], lone: bool) -> list[Any]:
    """Flows as layers: adjacent ones are walked together, those that are lone one in the other."""
    if not lone:
        return [(flow.__name__, FlowLayer(flow, drive)) for flow in flows]
    return [
        (flow.__name__, lambda request, handler, flow=flow: drive(flow(request), handler))
        for flow in flows
    ]


def updates(outcome: ModelOutcome) -> list[Any]:
    return [command.update for command in outcome.commands]


def answers(answer: Any) -> Body:
    """A layer that answers without calling inward."""

    def layer(request: Any) -> Any:
        return answer
        yield

    return layer


def replaces(answer: Any) -> Body:
    """A layer that calls inward and returns another answer."""

    def layer(request: Any) -> Any:
        yield request
        return answer

    return layer


def writing(key: str) -> Body:
    """A layer that adds a command to the answer."""

    def layer(request: Any) -> Any:
        return writes(key, 1, (yield request))

    return layer


def extended(request: Any) -> Any:
    """A layer whose extended response has no command."""
    return ExtendedModelResponse((yield request))


@each(
    "flows, text, commands",
    [
        ([replaces(AIMessage("short"))], "short", []),
        ([answers(writes("key", 1, AIMessage("short")))], "short", [{"key": 1}]),
        ([answers(writes("outer", 1)), writing("inner")], "inner", [{"outer": 1}]),
        ([writing("outer"), through, writing("inner")], "inner", [{"inner": 1}, {"outer": 1}]),
        ([extended], "inner", []),
    ],
)
def test_an_answer_has_the_commands_of_the_layers_that_it_passed_the_inner_first(
    fold: Fold, flows: Any, text: str, commands: Any
) -> None:
    outcome = fold(*flows)
    assert [message.text for message in outcome.response.result] == [text]
    assert outcome.response.structured_response is None
    assert updates(outcome) == commands


def test_an_outer_layer_sees_a_plain_response_whatever_the_inner_one_returned(fold: Fold) -> None:
    seen: list[Any] = []

    def outer(request: Any) -> Any:
        seen.append((yield request))
        return seen[0]

    def unreached(request: Any) -> ModelResponse[Any]:
        pytest.fail("the model was asked")

    fold(outer, answers(writes("key", 1, AIMessage("short"))), innermost=unreached)
    assert isinstance(seen[0], ModelResponse)
    assert seen[0].result[0].text == "short"


def counting() -> Body:
    calls = iter(range(1, 10))

    def inner(request: Any) -> Any:
        return writes("try", next(calls), (yield request))

    return inner


@each(
    "junk, kind",
    [
        (None, "NoneType"),
        ("text", "str"),
        ([AIMessage("in a list")], "list"),
        ({"messages": []}, "dict"),
        (ExtendedModelResponse(None), ""),  # type: ignore[arg-type]
        (ExtendedModelResponse(response(), {"update": {}}), ""),  # type: ignore[arg-type]
        (ModelResponse(result=AIMessage("no list")), ""),  # type: ignore[arg-type]
    ],
)
def test_a_layer_that_returns_anything_else_is_named(fold: Fold, junk: Any, kind: str) -> None:
    """A layer that forgets to return is found at its first run, by name (wanted 17)."""
    with pytest.raises(BadReturn, match="layer") as caught:
        fold(through, replaces(junk))
    assert caught.value.subject == "layer"
    assert kind in caught.value.reason


# --- flows that lie in each other ------------------------------------------------------------


def test_a_signal_closes_all_flows_from_the_inside_and_is_never_thrown_into_them(
    fold: Fold,
) -> None:
    log: list[str] = []

    def closing(name: str) -> Body:
        def layer(request: Any) -> Any:
            try:
                return (yield request)
            except Exception as error:
                log.append(f"{name} received {error!r}")
                raise
            finally:
                log.append(f"{name} closed")

        return layer

    def interrupted(request: Any) -> Any:
        raise signal
        yield

    signal = GraphInterrupt(())
    with pytest.raises(GraphInterrupt) as caught:
        fold(closing("outer"), closing("inner"), interrupted)
    assert caught.value is signal
    assert log == ["inner closed", "outer closed"]


def test_what_breaks_as_flows_are_closed_is_noted_on_the_signal(fold: Fold) -> None:
    def broken(request: Any) -> Any:
        try:
            return (yield request)
        finally:
            raise LookupError("no way out")

    def innermost(request: Any) -> Any:
        raise GraphInterrupt(())

    with pytest.raises(GraphInterrupt) as caught:
        fold(broken, through, broken, innermost=innermost)
    assert caught.value.__notes__ == ["While its flow was closed: LookupError('no way out')"] * 2


def test_an_error_of_a_flow_is_thrown_into_the_flow_around_it_which_may_retry(fold: Fold) -> None:
    """A failed call leaves no commands behind."""
    attempts: list[int] = []

    def retrying(request: Any) -> Any:
        while True:
            try:
                return (yield request)
            except LookupError:
                continue

    def failing(request: Any) -> Any:
        attempts.append(len(attempts))
        answer = yield request
        if len(attempts) < 3:
            raise LookupError
        return writes("attempt", len(attempts), answer)

    outcome = fold(through, retrying, through, failing, counting())
    assert updates(outcome) == [{"try": 3}, {"attempt": 3}]


def test_a_wrong_answer_of_a_flow_is_an_error_for_the_one_around_it(fold: Fold) -> None:
    def careful(request: Any) -> Any:
        try:
            return (yield request)
        except BadReturn as error:
            return AIMessage(error.subject)

    assert fold(careful, through, replaces(None)).response.result[0].text == "layer"


@each("junk", [None, "text", {"messages": []}])
def test_a_wrong_yield_raises_inside_the_flow_that_yielded_it(fold: Fold, junk: Any) -> None:
    raised: list[BadReturn] = []

    def confused(request: Any) -> Any:
        try:
            yield junk
        except BadReturn as error:
            raised.append(error)
            return (yield request)

    def unaware(request: Any) -> Any:
        try:
            return (yield request)
        except BadReturn:
            pytest.fail("that was not its doing")

    assert fold(unaware, confused).response.result[0].text == "inner"
    assert "must call its handler with a ModelRequest" in raised[0].reason
    assert "override" in raised[0].hint


def test_the_commands_of_the_last_call_that_returned_are_kept(fold: Fold) -> None:
    """One that failed after it, half of the way in, changes nothing."""
    attempts = iter(range(2))

    def insisting(request: Any) -> Any:
        answer = yield request
        with suppress(LookupError):
            yield request
        return answer

    def failing(request: Any) -> Any:
        answer = yield request
        if (attempt := next(attempts)) == 1:
            raise LookupError
        return writes("attempt", attempt, answer)

    assert updates(fold(insisting, failing, writing("deep"))) == [{"deep": 1}, {"attempt": 0}]


def test_a_stop_iteration_further_in_does_not_end_a_flow(fold: Fold) -> None:
    def layer(request: Any) -> Any:
        try:
            return (yield request)
        except RuntimeError:
            return AIMessage("reported")

    def stopping(request: Any) -> Any:
        try:
            yield request.override(messages=[AIMessage("second")])
        except Exception as error:
            raise RuntimeError from error

    def innermost(request: Any) -> Any:
        return next(iter([]))

    assert fold(layer, stopping, innermost=innermost).response.result[0].text == "reported"


# --- tool layers ---------------------------------------------------------------------------


Drive = Callable[..., Any]


@pytest.fixture(params=["sync", "async"])
def walk(request: pytest.FixtureRequest) -> Drive:
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


def test_invoke_calls_a_runnable_in_the_mode_of_the_run(walk: Drive) -> None:
    """The one that is asked sees which of its two calls was made."""

    async def double_later(value: int) -> str:
        return f"async {value * 2}"

    runnable = RunnableLambda(lambda value: f"sync {value * 2}", afunc=double_later)

    def flow() -> Flow[str]:
        answer: str = yield Invoke(runnable, 4)
        return answer

    mode = "sync" if walk is run else "async"
    assert walk(flow()) == f"{mode} 8"


def test_invoke_passes_its_config_on(walk: Drive) -> None:
    runnable: RunnableLambda[None, Any] = RunnableLambda(lambda _, config: config["tags"])

    def flow() -> Flow[Any]:
        return (yield Invoke(runnable, None, {"tags": ["mine"]}))

    assert walk(flow()) == ["mine"]


@each("effect", ["request", Invoke(RunnableLambda(fail_with(KeyError(1))), 0)])
def test_an_exception_is_thrown_into_the_flow_where_it_yielded(walk: Drive, effect: Any) -> None:
    def flow() -> Flow[str]:
        try:
            yield effect
        except KeyError as error:
            return f"caught {error.args[0]}"
        return "nothing"

    assert walk(flow(), fail_with(KeyError(1))) == "caught 1"


SIGNALS = [
    GraphInterrupt(()),
    GraphBubbleUp(),
    ParentCommand(Command(graph=Command.PARENT)),
    KeyboardInterrupt(),
]


@each("signal", SIGNALS, ids=lambda signal: type(signal).__name__)
def test_a_signal_is_never_thrown_into_a_flow(walk: Drive, signal: BaseException) -> None:
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
        walk(flow(), fail_with(signal))
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
    await cancel(task)
    assert closed.is_set()


def test_a_signal_closes_the_flow_whose_cleanup_cannot_hide_it(walk: Drive) -> None:
    """Wanted 1: `finally: yield Sleep(...)` must not turn an interrupt into another error."""
    closed: list[bool] = []

    def flow() -> Flow[None]:
        try:
            yield 1
        finally:
            closed.append(True)
            yield Sleep(0)

    with pytest.raises(GraphInterrupt):
        walk(flow(), fail_with(GraphInterrupt(())))
    assert closed == [True]


@each("junk", [None, 3, "text", object()])
def test_without_an_inner_layer_a_flow_may_yield_effects_only(walk: Drive, junk: Any) -> None:
    def flow() -> Flow[None]:
        yield junk

    with pytest.raises(BadReturn, match="no inner layer") as caught:
        walk(flow())
    assert type(junk).__name__ in caught.value.reason
    assert "Sleep" in caught.value.hint
