"""Together: a flow that does several things at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda

from agent_factory import AgentMiddleware, Flow, Invoke, Sleep, Together, arun, create_agent, run
from agent_factory.errors import ArgumentError, BadReturn
from agent_factory.testing import ScriptedChatModel
from agent_factory.types import ModelRequest, ModelResponse
from samples import PassingWraps
from tables import each
from waiting import cancel

BOTH = pytest.mark.parametrize("kind", ["sync", "async"])


def driven(flow: Flow[Any], call_kind: str, handler: Any = None) -> Any:
    """Result of a flow in a sync or an async run."""
    if call_kind == "sync":
        return run(flow, handler)
    return asyncio.run(arun(flow, handler))


class Meeting:
    """Runnable whose calls return once several are under way: they wait for each other."""

    def __init__(self, parties: int) -> None:
        self._barrier = threading.Barrier(parties)
        self._there, self._parties, self._all = 0, parties, asyncio.Event()

    def invoke(self, input: Any, config: Any = None) -> Any:
        self._barrier.wait(60)
        return input

    async def ainvoke(self, input: Any, config: Any = None) -> Any:
        self._there += 1
        if self._there == self._parties:
            self._all.set()
        await asyncio.wait_for(self._all.wait(), 60)
        return input


def failing(error: BaseException) -> Any:
    def fail(_: Any) -> None:
        raise error

    return RunnableLambda(fail)


@BOTH
def test_parts_are_done_at_once_and_no_thread_outlives_the_flow(kind: str) -> None:
    before, meeting = threading.active_count(), Meeting(3)

    def inner() -> Flow[str]:
        yield Sleep(0)
        return f"{(yield Invoke(meeting, 'b'))}!"

    def flow() -> Flow[Any]:
        return (yield Together(Invoke(meeting, "a"), inner(), Invoke(meeting, "c")))

    assert driven(flow(), kind) == ("a", "b!", "c")
    assert threading.active_count() == before


def test_the_other_tasks_are_cancelled_and_have_ended() -> None:
    ended: list[str] = []

    class Endless:
        async def ainvoke(self, *_: Any) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                ended.append("endless")

    def flow() -> Flow[Any]:
        try:
            yield Together(Invoke(Endless(), 1), Invoke(failing(ValueError()), 1))  # type: ignore[arg-type]
        except ValueError:
            return [*ended]

    async def main() -> Any:
        result = await arun(flow())
        assert len(asyncio.all_tasks()) == 1
        return result

    assert asyncio.run(main()) == ["endless"]


def test_a_cancellation_from_outside_ends_all_parts() -> None:
    async def main() -> None:
        begun = asyncio.Event()

        class Endless:
            async def ainvoke(self, *_: Any) -> None:
                begun.set()
                await asyncio.Event().wait()

        def flow() -> Flow[Any]:
            yield Together(Invoke(Endless(), 1), Invoke(Endless(), 2))  # type: ignore[arg-type]

        task = asyncio.create_task(arun(flow()))
        await begun.wait()
        await cancel(task)
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())


@BOTH
def test_no_parts_two_requests_and_a_flow_inside_that_calls_inward_are_refused(kind: str) -> None:
    no_parts: Any = ((), ("a", "b"))
    for parts in no_parts:
        with pytest.raises(ArgumentError, match="Together"):
            Together(*parts)

    def inner() -> Flow[Any]:
        yield "request"

    def flow() -> Flow[Any]:
        yield Together(inner(), Sleep(0))

    handler: Callable[[Any], Any] = str
    with pytest.raises(BadReturn, match="no inner layer"):
        driven(flow(), kind, handler)


class Joint(AgentMiddleware):
    """Calls the model and something else at once."""

    def __init__(self, other: Any, name: str) -> None:
        super().__init__(name=name)
        self.other = other

    def around_model(self, request: ModelRequest[Any]) -> Flow[ModelResponse]:
        value, response = yield Together(Invoke(self.other, self.name), request)
        response.result[0].content += f" {value}"
        response_: ModelResponse = response
        return response_


class Loud(AgentMiddleware):
    def around_model(self, request: ModelRequest[Any]) -> Flow[ModelResponse]:
        response: ModelResponse = yield request
        response.result[0].content = str(response.result[0].content).upper()
        return response


class Wrapped(PassingWraps, AgentMiddleware):
    """A layer of functions, so the flows around it are composed apart."""


@each("inner", [[], [Loud()], [Wrapped(), Loud()]])
def test_a_layer_calls_the_model_and_something_else_at_once(
    inner: list[AgentMiddleware], call: Any
) -> None:
    other: Any = RunnableLambda(lambda name: f"by {name}")
    stack = [Joint(other, "first"), Joint(other, "second"), *inner]
    agent = create_agent(ScriptedChatModel(["hello"]), middleware=stack)
    text = "HELLO" if inner else "hello"
    assert call(agent, {"messages": "Hi"})["messages"][-1].text == f"{text} by second by first"


def test_an_error_of_the_other_part_is_one_of_the_layer(call: Any) -> None:
    class Fallback(AgentMiddleware):
        def around_model(self, request: ModelRequest[Any]) -> Flow[Any]:
            try:
                return (yield request)
            except ValueError as error:
                return AIMessage(f"failed: {error}")

    stack = [Fallback(), Joint(failing(ValueError("no")), "joint")]
    agent = create_agent(ScriptedChatModel(["hello"]), middleware=stack)
    assert call(agent, {"messages": "Hi"})["messages"][-1].text == "failed: no"


def test_a_request_of_another_kind_is_refused(call: Any) -> None:
    class Wrong(AgentMiddleware):
        def around_model(self, request: ModelRequest[Any]) -> Flow[Any]:
            yield Together(Sleep(0), "request")

    agent = create_agent(ScriptedChatModel(["hello"]), middleware=[Wrong()])
    with pytest.raises(BadReturn, match=r"Wrong\.around_model"):
        call(agent, {"messages": "Hi"})


def test_a_run_layer_does_two_things_at_once(call: Any) -> None:
    meeting = Meeting(2)

    class Prepared(AgentMiddleware):
        def around_agent(self, state: Any, *_: Any, **__: Any) -> Flow[Any]:
            values = yield Together(Invoke(meeting, "a"), Invoke(meeting, "b"))
            result = yield state
            return {**result, "messages": [AIMessage("+".join(values))]}

    agent = create_agent(ScriptedChatModel(["hello"]), middleware=[Prepared()])
    assert call(agent, {"messages": "Hi"})["messages"][-1].text == "a+b"
