"""Execution of calls, wrappers, and agents that run on the node: C16 to C22, C66 to C70."""

from __future__ import annotations

import asyncio
import os
import threading
from functools import lru_cache
from importlib.metadata import version
from inspect import isawaitable
from typing import Annotated, Any, NotRequired

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphInterrupt
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode as LangGraphToolNode
from langgraph.runtime import Runtime
from langgraph.types import Command
from packaging.version import Version

from agent_factory import AgentMiddleware, AgentState, create_agent, plan_agent
from agent_factory.errors import ArgumentError, PathNotSupported, SpecErrors
from agent_factory.prebuilt import InjectedState, ToolNode, ToolRuntime
from agent_factory.testing import ScriptedChatModel
from error_handlers import values
from samples import THREAD, add, fail, timed, two_stores, user
from tables import each


class Spy(BaseTool):
    """Notes what it is invoked with."""

    name: str = "spy"
    description: str = "Notes."
    seen: list[Any]

    def _run(self, n: int) -> str:
        return str(n)

    def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
        self.seen.append((input, config))
        return super().invoke(input, config, **kwargs)

    async def ainvoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
        self.seen.append((input, config))
        return await super().ainvoke(input, config, **kwargs)


def test_c16_c17_a_tool_is_invoked_with_its_call_and_its_own_config(
    kind: Any, run: Any, ask: Any
) -> None:
    spy, ids = Spy(seen=[]), Ids()
    config = {"metadata": {"who": "Ada"}, "callbacks": [ids]}
    run(kind([spy]), ask(("spy", {"n": 1}), ("spy", {"n": 2})), config)
    (call, first), (_, second) = sorted(spy.seen, key=lambda seen: str(seen[0]["id"]))
    assert call == {"name": "spy", "args": {"n": 1}, "id": "1", "type": "tool_call"}
    assert first["metadata"]["who"] == "Ada"
    assert first is not second
    assert len(set(ids.runs)) == 2


class Ids(BaseCallbackHandler):
    """Notes the run of each tool."""

    def __init__(self) -> None:
        self.runs: list[Any] = []

    def on_tool_start(self, serialized: Any, input_str: Any, **known: Any) -> None:
        self.runs.append(known["run_id"])


def counting(together: int) -> tuple[BaseTool, set[int]]:
    """A tool whose calls wait for so many at once, and the threads in which they run."""
    barrier, threads = threading.Barrier(together, timeout=60), set[int]()

    @tool
    def work() -> str:
        """Work with the others."""
        threads.add(threading.get_ident())
        barrier.wait()
        return "worked"

    return work, threads


def test_c17_c18_c19_max_concurrency_is_the_size_of_the_pool(kind: Any, ask: Any) -> None:
    """Sync calls run in threads, and share the object of the tool; async calls run in one."""
    for size in (1, 3):
        work, threads = counting(size)
        calls = ask(*[("work", {})] * 6)
        kind([work]).invoke(calls, {"max_concurrency": size}, runtime=Runtime())
        assert len(threads) == size

    async def main() -> set[str]:
        barrier = asyncio.Barrier(2)

        @tool
        async def where() -> str:
            """Wait for the other."""
            async with asyncio.timeout(60):
                await barrier.wait()
            return str(threading.get_ident())

        both = await kind([where]).ainvoke(ask(("where", {}), ("where", {})), runtime=Runtime())
        return {message.text for message in both}

    assert len(asyncio.run(main())) == 1


def test_c18_the_default_pool_is_pythons(
    kind: Any, ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At most 32, by the number of processors: 100 calls have never 100 threads."""
    for count in ("cpu_count", "process_cpu_count"):  # the second since Python 3.13
        monkeypatch.setattr(os, count, lambda: 1, raising=False)
    work, threads = counting(5)
    kind([work]).invoke(ask(*[("work", {})] * 15), runtime=Runtime())
    assert len(threads) == 5, "one processor and four"


def test_c20_an_unhandled_error_loses_the_results_of_that_run(
    kind: Any, call: Any, ask: Any
) -> None:
    graph = StateGraph(MessagesState).add_node("tools", kind([fail, add])).add_edge(START, "tools")
    agent: Any = graph.compile(checkpointer=InMemorySaver())
    with pytest.raises(ValueError, match="broken"):
        call(agent, {"messages": ask(("add", {"a": 1, "b": 2}), ("fail", {}))}, THREAD)
    state = agent.get_state(THREAD)
    assert [m.type for m in state.values["messages"]] == ["ai"]
    assert state.next == ("tools",)


def test_c21_an_async_tool_cannot_run_in_a_sync_run(kind: Any, ask: Any) -> None:
    """And a sync tool runs in an async run, in a thread."""

    @tool
    async def later() -> str:
        """Answer later."""
        return "now"

    def where() -> str:
        """Say where it runs."""
        return str(threading.get_ident())

    calls = ask(("later", {}), ("where", {}))
    with pytest.raises(NotImplementedError, match="does not support sync invocation"):
        kind([later, where]).invoke(calls, runtime=Runtime())
    handled = kind([later, where], handle_tool_errors=True)
    if kind is ToolNode:
        with pytest.raises(PathNotSupported, match="does not support sync invocation"):
            handled.invoke(calls, runtime=Runtime())
    else:
        assert handled.invoke(calls, runtime=Runtime())[0].status == "error"
    said, thread = asyncio.run(kind([later, where]).ainvoke(calls, runtime=Runtime()))
    assert said.text == "now"
    assert thread.text != str(threading.get_ident())


def test_c21a_arguments_reach_a_tool_as_its_types(kind: Any, run: Any, ask: Any) -> None:
    """Which may remember its answers."""
    asked: list[str] = []

    @tool
    @lru_cache
    def look_up(word: str) -> str:
        """Look a word up."""
        asked.append(word)
        return word.upper()

    @tool
    def total(numbers: list[int], config: RunnableConfig) -> int:
        """Add a batch of numbers."""
        return sum(numbers)

    calls = ask(("look_up", {"word": "a"}), ("total", {"numbers": ["1", 2]}))
    for _ in range(2):
        assert [m.text for m in run(kind([look_up, total]), calls)] == ["A", "3"]
    assert asked == ["a"]


def test_c13_c22_calls_overlap_and_results_stand_in_order(kind: Any, run: Any, ask: Any) -> None:
    """C22: so a run takes as long as its slowest call. Here each call waits for the next one."""
    ended = [threading.Event() for _ in range(4)]
    ended[3].set()
    order: list[int] = []

    def wait(n: int) -> int:
        """Wait for the call after this one."""
        assert ended[n + 1].wait(timeout=60)
        order.append(n)
        ended[n].set()
        return n

    calls = ask(*(("wait", {"n": n}) for n in range(3)))
    results = run(kind([wait]), calls, {"max_concurrency": 3})
    assert [int(message.text) for message in results] == [0, 1, 2]
    assert order == [2, 1, 0]


SUM = ("add", {"a": 1, "b": 2})


def passing(request: Any, execute: Any) -> Any:
    return execute(request)


def wrapped(kind: Any, wrap: Any, tools: Any = (add,), **options: Any) -> Any:
    """A node with the wrapper, sync and async."""

    async def awrap(request: Any, execute: Any) -> Any:
        result = wrap(request, execute)
        return await result if isawaitable(result) else result

    return kind(list(tools), wrap_tool_call=wrap, awrap_tool_call=awrap, **options)


def test_c66_a_request_holds_call_tool_state_and_runtime(kind: Any, run: Any, ask: Any) -> None:
    """And `override` gives a changed copy."""
    seen: list[Any] = []

    def change(request: Any, execute: Any) -> Any:
        seen.append(request)
        return execute(request.override(tool_call={**request.tool_call, "args": {"a": 5, "b": 5}}))

    state = {"messages": ask(SUM, ("ghost", {})), "user": "Ada"}
    result = run(wrapped(kind, change), state)["messages"]
    ghost = "Error: ghost is not a valid tool, try one of [add]."
    assert [message.text for message in result] == ["10", ghost]
    first, second = sorted(seen, key=lambda request: str(request.tool_call["id"]))
    assert first.tool_call["args"] == {"a": 1, "b": 2}
    assert (first.tool.name, second.tool) == ("add", None)
    assert first.state["user"] == "Ada"
    assert isinstance(first.runtime, ToolRuntime)


@each("answer", [ToolMessage("cached", tool_call_id="1"), Command(goto="end")])
def test_c67_a_wrapper_may_answer_itself(kind: Any, run: Any, ask: Any, answer: Any) -> None:
    assert run(wrapped(kind, lambda request, execute: answer), ask(SUM)) == [answer]


def flaky(times: int) -> Any:
    left = [times]

    @tool("add")
    def sometimes(a: int, b: int) -> int:
        """Add two numbers."""
        left[0] -= 1
        if left[0] >= 0:
            raise ConnectionError("down")
        return a + b

    return sometimes


@each("failures, report", [(2, "3"), (3, "No.")])
def test_c67_a_wrapper_may_run_a_tool_again(
    kind: Any, run: Any, ask: Any, failures: int, report: str
) -> None:
    """Until it succeeds; handled errors arrive as messages."""

    def retry(request: Any, execute: Any) -> Any:
        for _ in range(3):
            message = execute(request)
            if message.status != "error":
                break
        return message

    async def aretry(request: Any, execute: Any) -> Any:
        for _ in range(3):
            message = await execute(request)
            if message.status != "error":
                break
        return message

    wraps: Any = {"wrap_tool_call": retry, "awrap_tool_call": aretry}
    node = kind([flaky(failures)], handle_tool_errors="No.", **wraps)
    assert run(node, ask(SUM))[0].text == report


def test_c68_a_wrapper_may_run_another_tool(kind: Any, run: Any, ask: Any) -> None:
    """Also where none is known. LangGraph injects by the name of the tool that the model called."""

    def bring(request: Any, execute: Any) -> Any:
        return execute(request.override(tool=tool(request.tool_call["name"])(user)))

    ghost, other = ask(("ghost", {"name": "Eve"})), ask(("add", {}))
    (message,) = run(wrapped(kind, bring), {"messages": ghost, "user": "Ada"})["messages"]
    assert message.text == "Ada"
    (message,) = run(wrapped(kind, bring), {"messages": other, "user": "Ada"})["messages"]
    assert ("Ada" if kind is ToolNode else "name: Field required") in message.text


def test_c68_another_state_in_the_request_reaches_the_tool(kind: Any, run: Any, ask: Any) -> None:
    """Earlier versions of LangGraph ignored it."""

    def change(request: Any, execute: Any) -> Any:
        return execute(request.override(state={"user": "Eve"}))

    state = {"messages": ask(("user", {})), "user": "Ada"}
    (message,) = run(wrapped(kind, change, [user]), state)["messages"]
    ignores = kind is not ToolNode and Version(version("langgraph-prebuilt")) < Version("1.1.3")
    assert message.text == ("Ada" if ignores else "Eve")


def strict(request: Any, execute: Any) -> Any:
    raise PermissionError("not today")


REPORT = "Error: PermissionError('not today')\n Please fix your mistakes."


@each(
    "options, ours, theirs",
    [
        ({}, None, None),
        ({"handle_tool_errors": False}, None, None),
        ({"handle_tool_errors": ""}, None, None),
        ({"handle_tool_errors": True}, REPORT, REPORT),
        ({"handle_tool_errors": "No."}, "No.", "No."),
        ({"handle_tool_errors": OSError}, REPORT, REPORT),
        ({"handle_tool_errors": ValueError}, None, REPORT),
        ({"handle_tool_errors": (ValueError, KeyError)}, None, REPORT),
        ({"handle_tool_errors": values}, None, "bad value not today"),
    ],
)
def test_c69_what_a_wrapper_raises_ends_the_run_or_is_handled(
    kind: Any, run: Any, ask: Any, options: Any, ours: str | None, theirs: str | None
) -> None:
    """LangGraph reports types that are not listed, too."""
    node = wrapped(kind, strict, **options)
    report = ours if kind is ToolNode else theirs
    if report is None:
        with pytest.raises(PermissionError, match="not today"):
            run(node, ask(SUM))
        return
    (message,) = run(node, ask(SUM))
    assert (message.text, message.status, message.tool_call_id) == (report, "error", "1")


def test_c69_the_handler_is_called_once_for_an_error_of_a_tool_here(run: Any, ask: Any) -> None:
    """LangGraph asks again about what came out through a wrapper."""
    asked: list[str] = []

    def count(error: Exception) -> str:
        asked.append(type(error).__name__)
        raise error

    for kind, times in ((LangGraphToolNode, 2), (ToolNode, 1)):
        asked.clear()
        node = wrapped(kind, passing, [flaky(1)], handle_tool_errors=count)
        with pytest.raises(ConnectionError):
            run(node, ask(SUM))
        assert asked == ["ConnectionError"] * times


def test_c69_an_interrupt_passes(kind: Any, run: Any, ask: Any) -> None:
    def wait(request: Any, execute: Any) -> Any:
        raise GraphInterrupt

    with pytest.raises(GraphInterrupt):
        run(wrapped(kind, wait, handle_tool_errors=True), ask(SUM))


async def shout(request: Any, execute: Any) -> Any:
    message = await execute(request)
    return message.model_copy(update={"content": f"{message.text}!"})


def hush(request: Any, execute: Any) -> Any:
    message = execute(request)
    return message.model_copy(update={"content": f"({message.text})"})


def test_c70_an_async_run_takes_the_async_wrapper(kind: Any, ask: Any) -> None:
    node = kind([add], wrap_tool_call=hush, awrap_tool_call=shout)
    assert asyncio.run(node.ainvoke(ask(SUM), runtime=Runtime()))[0].text == "3!"
    assert node.invoke(ask(SUM), runtime=Runtime())[0].text == "(3)"


def test_c70_without_it_the_wrapper_runs_the_tool_in_the_event_loop(kind: Any, ask: Any) -> None:
    """With the tool in the loop's own thread: an async tool cannot run there."""
    node = kind([add], wrap_tool_call=hush)
    assert asyncio.run(node.ainvoke(ask(SUM), runtime=Runtime()))[0].text == "(3)"

    @tool("add")
    async def later(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    with pytest.raises(NotImplementedError, match="does not support sync invocation"):
        asyncio.run(kind([later], wrap_tool_call=hush).ainvoke(ask(SUM), runtime=Runtime()))


def test_c70_a_sync_run_refuses_to_skip_an_async_wrapper(ask: Any) -> None:
    """LangGraph skips it."""
    node = ToolNode([add], awrap_tool_call=shout, handle_tool_errors=True)
    with pytest.raises(PathNotSupported, match="awrap_tool_call alone"):
        node.invoke(ask(SUM), runtime=Runtime())
    assert issubclass(PathNotSupported, NotImplementedError)
    assert asyncio.run(node.ainvoke(ask(SUM), runtime=Runtime()))[0].text == "3!"
    theirs = LangGraphToolNode([add], awrap_tool_call=shout)
    assert theirs.invoke(ask(SUM), runtime=Runtime())[0].text == "3"


class Shop(AgentState[Any]):
    cart: NotRequired[dict[str, list[int]]]
    user: NotRequired[str]


GO: Any = {"messages": "Go", "cart": {"lamps": [1]}, "user": "Ada"}


def test_c2_c27_c32_tools_that_could_not_work_are_refused_together() -> None:
    """Also where nothing is built, but planned."""

    @tool("timed")
    def other() -> str:
        """Say something else."""
        return "never"

    builds: list[Any] = [lambda tools: create_agent(ScriptedChatModel([]), tools)]
    for build in (*builds, lambda tools: plan_agent(tools=tools)):
        with pytest.raises(SpecErrors) as caught:
            build([two_stores, timed, other])
        assert [(error.code, error.subject) for error in caught.value.errors] == [
            ("AF112", "tools: two_stores"),
            ("AF112", "tools: timed"),
            ("AF113", "timed"),
        ]


def test_c32_the_middleware_that_brings_such_a_tool_is_named() -> None:
    class Films(AgentMiddleware):
        tools = (timed,)

    with pytest.raises(ArgumentError, match=r"^\[AF112\]") as caught:
        create_agent(ScriptedChatModel([]), middleware=[Films()])
    assert caught.value.subject == "Films: timed"


@tool
def spoil(runtime: ToolRuntime[Any, Any], cart: Annotated[Any, InjectedState("cart")]) -> str:
    """Change what is given."""
    cart["lamps"].append(2)
    runtime.state["cart"]["lamps"].append(3)
    runtime.state["messages"].clear()
    return "spoilt"


def test_c39_a_tool_cannot_change_the_state_it_is_given(call: Any) -> None:
    """Nor can a tool that a layer brings."""

    class Brings(AgentMiddleware):
        def around_tool(self, request: Any) -> Any:
            return (yield request.override(tool=spoil))

    for tools, layers in ([spoil], []), ([], [Brings()]):
        model = ScriptedChatModel([[{"name": "spoil", "args": {}}], "Done"])
        result = call(create_agent(model, tools, middleware=layers, state_schema=Shop), GO)
        assert result["cart"] == {"lamps": [1]}
        assert [m.text for m in result["messages"]] == ["Go", "", "spoilt", "Done"]
