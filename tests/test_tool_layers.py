"""Layers around tool calls: `wrap_tool_call`, `awrap_tool_call` and the flow `around_tool`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.types import Command
from typing_extensions import TypedDict

from agent_factory import (
    AgentMiddleware,
    AgentState,
    Sleep,
    ToolCallRecorder,
    ToolRuntime,
    create_agent,
    wrap_model_call,
    wrap_tool_call,
)
from agent_factory.errors import BadReturn
from agent_factory.testing import ScriptedChatModel
from samples import add, through, tool_texts
from tables import each

ASK = {"messages": [("user", "2 + 3?")]}


class User(TypedDict):
    user: str


def adding(*pairs: tuple[int, int]) -> ScriptedChatModel:
    """A model that asks for these sums at once, and then says that it is done."""
    calls = [
        {"name": "add", "args": {"a": a, "b": b}, "id": str(index)}
        for index, (a, b) in enumerate(pairs or [(2, 3)])
    ]
    return ScriptedChatModel([calls, "Done."])


class Around(AgentMiddleware):
    """A tool layer of one flow."""

    def __init__(self, flow: Any, name: str = "Around") -> None:
        super().__init__(name=name)
        self.flow = flow

    def around_tool(self, request: Any) -> Any:
        return (yield from self.flow(request))


def run_with(call: Any, *flows: Any, model: Any = None, tools: Any = (add,), **options: Any) -> Any:
    members = [Around(flow, f"T{index}") for index, flow in enumerate(flows)]
    agent = create_agent(model or adding(), list(tools), middleware=members, **options)
    return call(agent, ASK)


def test_the_first_tool_layer_is_the_outermost_of_flows_and_wraps(call: Any) -> None:
    log: list[str] = []

    class Wrap(AgentMiddleware):
        def wrap_tool_call(self, request: Any, handler: Any) -> Any:
            log.append("wrap")
            return handler(request)

        async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
            log.append("wrap")
            return await handler(request)

    def flow(name: str) -> Any:
        def logged(request: Any) -> Any:
            log.append(f"{name}<")
            message = yield request
            log.append(f"{name}>")
            return message

        return logged

    members = [Around(flow("a"), "a"), Wrap(), Around(flow("b"), "b")]
    assert tool_texts(call(create_agent(adding(), [add], middleware=members), ASK)) == ["5"]
    assert log == ["a<", "wrap", "b<", "b>", "a>"]


def test_each_call_of_a_turn_has_its_own_walk_through_the_layers(call: Any) -> None:
    seen: list[str] = []

    def flow(request: Any) -> Any:
        seen.append(request.tool_call["id"])
        message = yield request
        return message.model_copy(update={"content": f"= {message.text}"})

    result = run_with(call, flow, model=adding((1, 1), (2, 2), (3, 3)))
    assert tool_texts(result) == ["= 2", "= 4", "= 6"]
    assert sorted(seen) == ["0", "1", "2"]


def test_a_layer_sees_the_call_the_tool_the_state_and_the_runtime(call: Any) -> None:
    seen: list[Any] = []

    def flow(request: Any) -> Any:
        seen.append(request)
        return (yield request)

    agent = create_agent(adding(), [add], middleware=[Around(flow)], context_schema=User)
    call(agent, ASK, context={"user": "Ada"})
    (request,) = seen
    assert request.tool_call["args"] == {"a": 2, "b": 3}
    assert request.tool.name == "add"
    assert [m.type for m in request.state["messages"]] == ["human", "ai"]
    assert request.runtime.context == {"user": "Ada"}


def test_a_layer_may_change_the_arguments_and_what_it_returns_goes_to_the_next_one_out(
    call: Any,
) -> None:
    def returning(name: str) -> Any:
        def flow(request: Any) -> Any:
            message = yield request
            return message.model_copy(update={"content": f"{name}({message.text})"})

        return flow

    def change(request: Any) -> Any:
        changed = {**request.tool_call, "args": {"a": 10, "b": 10}}
        return (yield request.override(tool_call=changed))

    result = run_with(call, returning("outer"), through, returning("inner"), change)
    assert tool_texts(result) == ["outer(inner(20))"]
    assert result["messages"][1].tool_calls[0]["args"] == {"a": 2, "b": 3}, "history is history"


def test_a_layer_may_answer_in_the_tools_place(call: Any) -> None:
    def flow(request: Any) -> Any:
        return ToolMessage("cached", tool_call_id=request.tool_call["id"])
        yield

    @tool("add")
    def never(a: int, b: int) -> int:
        """Add two numbers."""
        pytest.fail("the tool ran")

    assert tool_texts(run_with(call, flow, tools=[never])) == ["cached"]


def test_a_layer_may_run_a_tool_again(call: Any) -> None:
    attempts: list[int] = []

    @tool("add")
    def flaky(a: int, b: int) -> int:
        """Add two numbers."""
        attempts.append(a)
        if len(attempts) < 3:
            raise ConnectionError("try again")
        return a + b

    def retry(request: Any) -> Any:
        while True:
            try:
                return (yield request)
            except ConnectionError:
                yield Sleep(0)

    assert tool_texts(run_with(call, retry, tools=[flaky])) == ["5"]
    assert len(attempts) == 3


def test_a_layer_may_write_to_the_state(call: Any) -> None:
    class Audit(AgentState[Any]):
        audit: str

    class Auditing(AgentMiddleware[Audit]):
        state_schema = Audit

        def around_tool(self, request: Any) -> Any:
            message = yield request
            return Command(update={"audit": f"saw {message.text}", "messages": [message]})

    result = call(create_agent(adding(), [add], middleware=[Auditing()]), ASK)
    assert result["audit"] == "saw 5"
    assert tool_texts(result) == ["5"]


def test_an_injected_runtime_reaches_the_tool_through_layers(call: Any) -> None:
    @tool("add")
    def injected(a: int, b: int, runtime: ToolRuntime[Any, Any]) -> str:
        """Add two numbers."""
        return f"{a + b} of {runtime.tool_call_id}, {len(runtime.state['messages'])} messages"

    assert tool_texts(run_with(call, through, through, tools=[injected])) == ["5 of 0, 2 messages"]


def test_an_unknown_tool_reaches_the_layer_with_no_tool(call: Any) -> None:
    """wanted 13: a tool known only at run time is offered by one layer and run by another."""

    @tool
    def multiply(a: int, b: int) -> int:
        """Multiply two numbers."""
        return a * b

    @wrap_model_call
    def offer(request: Any) -> Any:
        return (yield request.override(tools=[multiply]))

    @wrap_tool_call
    def execute(request: Any) -> Any:
        assert request.tool is None
        return (yield request.override(tool=multiply))

    model = ScriptedChatModel([[{"name": "multiply", "args": {"a": 2, "b": 3}}], "Six."])
    result = call(create_agent(model, middleware=[offer, execute]), ASK)
    assert tool_texts(result) == ["6"]
    assert model.requests[0].tools == ["multiply"]


def test_an_unknown_tool_that_no_layer_runs_is_answered_with_an_error(call: Any) -> None:
    model = ScriptedChatModel([[{"name": "nothing", "args": {}}], "Sorry."])
    result = run_with(call, through, model=model)
    assert tool_texts(result) == ["Error: nothing is not a valid tool, try one of [add]."]


@each("junk, words", [(None, ".*unanswered"), (5, ""), ("text", ""), ({"messages": []}, "")])
def test_a_layer_that_returns_or_passes_on_something_else_is_named(
    call: Any, junk: Any, words: str
) -> None:
    def careless(request: Any) -> Any:
        yield request
        return junk

    def confused(request: Any) -> Any:
        return (yield junk)

    with pytest.raises(BadReturn, match=rf"T1\.around_tool{words}"):
        run_with(call, through, careless)
    with pytest.raises(BadReturn, match=r"T0\.around_tool"):
        run_with(call, confused)


def test_what_a_layer_raises_ends_the_run_or_is_reported_if_errors_are_handled(call: Any) -> None:
    def strict(request: Any) -> Any:
        raise PermissionError("not today")
        yield

    with pytest.raises(PermissionError, match="not today"):
        run_with(call, strict)
    result = run_with(call, strict, handle_tool_errors=True)
    (answer,) = [m for m in result["messages"] if m.type == "tool"]
    assert answer.status == "error"
    assert "not today" in answer.text


def test_a_tool_message_of_a_layer_answers_its_call_even_if_it_failed_inside(call: Any) -> None:
    @tool("add")
    def failing(a: int, b: int) -> int:
        """Add two numbers."""
        raise ValueError("broken")

    def soften(request: Any) -> Any:
        try:
            return (yield request)
        except ValueError as error:
            return ToolMessage(f"Sorry: {error}", tool_call_id=request.tool_call["id"])

    result = run_with(call, soften, tools=[failing])
    assert tool_texts(result) == ["Sorry: broken"]
    assert result["messages"][-1].text == "Done."


async def test_layers_of_parallel_calls_run_side_by_side() -> None:
    both_inside = asyncio.Barrier(2)

    @wrap_tool_call
    async def meet(request: Any, handler: Any) -> Any:
        async with asyncio.timeout(60):
            await both_inside.wait()
        return await handler(request)

    agent = create_agent(adding((1, 1), (2, 2)), [add], middleware=[meet])
    assert tool_texts(await agent.ainvoke({"messages": [HumanMessage("Go.")]})) == ["2", "4"]


def test_a_layer_alone_makes_a_tools_node(call: Any) -> None:
    """A3: without any static tool, a tool layer answers the model's calls."""

    @wrap_tool_call
    def answer(request: Any) -> Any:
        return ToolMessage("dynamic", tool_call_id=request.tool_call["id"])
        yield

    model = ScriptedChatModel(
        [AIMessage("", tool_calls=[{"name": "x", "args": {}, "id": "1"}]), ""]
    )
    agent = create_agent(model, middleware=[answer])
    assert "tools" in agent.get_graph().nodes
    assert tool_texts(call(agent, ASK)) == ["dynamic"]


def test_a_layer_can_record_which_tools_start_inside_it(call: Any) -> None:
    """What a layer answers, and what nobody knows, has not started."""
    observed: list[list[str]] = []

    def find(query: str) -> str:
        """Find something."""
        return f"found {query}"

    @wrap_tool_call
    def listening(request: Any) -> Any:
        with ToolCallRecorder() as outer, ToolCallRecorder() as starts:
            result = yield request
        assert outer.names == starts.names
        observed.append(starts.names)
        return result

    @wrap_tool_call
    def answering(request: Any) -> Any:
        if request.tool_call["args"]["query"] == "known":
            return ToolMessage("as before", tool_call_id=request.tool_call["id"])
        return (yield request)

    calls = [
        {"name": name, "args": {"query": query}}
        for name, query in (("find", "it"), ("find", "known"), ("made_up", "it"))
    ]
    model = ScriptedChatModel([[made] for made in calls] + ["Done."])
    call(create_agent(model, [find], middleware=[listening, answering]), {"messages": "Go"})
    assert observed == [["find"], [], []]
