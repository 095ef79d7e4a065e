"""Execution of calls: C16 to C22."""

from __future__ import annotations

import asyncio
import os
import threading
from functools import lru_cache
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import Send

from agent_factory import ToolNode
from agent_factory.errors import PathNotSupported
from samples import add, fail


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


def test_c16_a_tool_is_invoked_with_its_call_and_the_config(kind: Any, run: Any, ask: Any) -> None:
    spy = Spy(seen=[])
    run(kind([spy]), ask(("spy", {"n": 1})), {"metadata": {"who": "Ada"}})
    ((call, config),) = spy.seen
    assert call == {"name": "spy", "args": {"n": 1}, "id": "1", "type": "tool_call"}
    assert config["metadata"]["who"] == "Ada"


def test_c17_sync_calls_run_in_threads_and_async_ones_in_one(kind: Any, ask: Any) -> None:
    def meet(barrier: Any) -> BaseTool:
        def where() -> str:
            """Wait for the other."""
            barrier.wait(timeout=60)
            return str(threading.get_ident())

        return tool(where)

    calls = ask(("where", {}), ("where", {}))
    node = kind([meet(threading.Barrier(2))])
    both = node.invoke(calls, {"max_concurrency": 2}, runtime=Runtime())
    assert len({message.text for message in both}) == 2, "they met: two threads"

    async def main() -> list[Any]:
        barrier = asyncio.Barrier(2)

        @tool
        async def where() -> str:
            """Wait for the other."""
            async with asyncio.timeout(60):
                await barrier.wait()
            return str(threading.get_ident())

        report: list[Any] = await kind([where]).ainvoke(calls, runtime=Runtime())
        return report

    assert len({message.text for message in asyncio.run(main())}) == 1


class Ids(BaseCallbackHandler):
    """Notes the run of each tool."""

    def __init__(self) -> None:
        self.runs: list[Any] = []

    def on_tool_start(self, serialized: Any, input_str: Any, **known: Any) -> None:
        self.runs.append(known["run_id"])


def test_c17_each_call_has_its_own_config(kind: Any, run: Any, ask: Any) -> None:
    spy, ids = Spy(seen=[]), Ids()
    run(kind([spy]), ask(("spy", {"n": 1}), ("spy", {"n": 2})), {"callbacks": [ids]})
    (_, first), (_, second) = spy.seen
    assert first is not second
    assert len(set(ids.runs)) == 2


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


def test_c18_max_concurrency_is_the_size_of_the_pool(kind: Any, ask: Any) -> None:
    for size in (1, 3):
        work, threads = counting(size)
        calls = ask(*[("work", {})] * 6)
        kind([work]).invoke(calls, {"max_concurrency": size}, runtime=Runtime())
        assert len(threads) == size


def test_c18_the_default_pool_is_pythons(
    kind: Any, ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At most 32, by the number of processors: 100 calls have never 100 threads."""
    for count in ("cpu_count", "process_cpu_count"):  # the second since Python 3.13
        monkeypatch.setattr(os, count, lambda: 1, raising=False)
    work, threads = counting(5)
    kind([work]).invoke(ask(*[("work", {})] * 15), runtime=Runtime())
    assert len(threads) == 5, "one processor and four"


def test_c19_a_tool_that_keeps_something_has_to_lock_it(kind: Any, ask: Any) -> None:
    """Sync calls share the tool's object: their threads are seen inside at once."""
    work, threads = counting(2)
    kind([work]).invoke(ask(*[("work", {})] * 2), {"max_concurrency": 2}, runtime=Runtime())
    assert len(threads) == 2


def test_c20_a_handled_error_does_not_stop_parallel_calls(kind: Any, run: Any, ask: Any) -> None:
    calls = ask(("fail", {}), ("add", {"a": 1, "b": 2}))
    first, second = run(kind([fail, add], handle_tool_errors="No."), calls)
    assert [(first.text, first.status), (second.text, second.status)] == [
        ("No.", "error"),
        ("3", "success"),
    ]


def test_c20_an_unhandled_error_loses_the_results_of_that_run(
    kind: Any, call: Any, ask: Any
) -> None:
    graph = StateGraph(MessagesState).add_node("tools", kind([fail, add])).add_edge(START, "tools")
    agent: Any = graph.compile(checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "1"}}
    with pytest.raises(ValueError, match="broken"):
        call(agent, {"messages": ask(("add", {"a": 1, "b": 2}), ("fail", {}))}, thread)
    state = agent.get_state(thread)
    assert [m.type for m in state.values["messages"]] == ["ai"]
    assert state.next == ("tools",)


def test_c20_under_send_the_results_of_siblings_are_kept(kind: Any, call: Any, ask: Any) -> None:
    """Only what failed is run again."""
    added: list[int] = []
    whole, written = threading.Event(), threading.Event()

    class Saver(InMemorySaver):
        def put_writes(self, config: Any, writes: Any, *args: Any) -> None:
            super().put_writes(config, writes, *args)
            if any(channel == "messages" for channel, _ in writes):
                written.set()

    @tool("add")
    def counted(a: int, b: int) -> int:
        """Add two numbers."""
        added.append(a + b)
        return a + b

    @tool("fail")
    def once() -> str:
        """Fail at first."""
        assert written.wait(timeout=60)
        if not whole.is_set():
            raise ValueError("broken")
        return "repaired"

    def each(state: Any) -> list[Send]:
        calls = state["messages"][-1].tool_calls
        return [Send("tools", [{**asked, "type": "tool_call"}]) for asked in calls]

    graph = StateGraph(MessagesState).add_node("tools", kind([once, counted]))
    graph.add_conditional_edges(START, each, ["tools"])
    agent: Any = graph.compile(checkpointer=Saver())
    thread = {"configurable": {"thread_id": "1"}}
    with pytest.raises(ValueError, match="broken"):
        call(agent, {"messages": ask(("add", {"a": 1, "b": 2}), ("fail", {}))}, thread)
    assert agent.get_state(thread).next == ("tools",)
    whole.set()
    result = call(agent, None, thread)
    assert [m.text for m in result["messages"][1:]] == ["3", "repaired"]
    assert added == [3]


def test_c21_an_async_tool_cannot_run_in_a_sync_run(kind: Any, ask: Any) -> None:
    @tool
    async def later() -> str:
        """Answer later."""
        return "now"

    calls = ask(("later", {}))
    with pytest.raises(NotImplementedError, match="does not support sync invocation"):
        kind([later]).invoke(calls, runtime=Runtime())
    handled = kind([later], handle_tool_errors=True)
    if kind is ToolNode:
        with pytest.raises(PathNotSupported, match="does not support sync invocation"):
            handled.invoke(calls, runtime=Runtime())
    else:
        (report,) = handled.invoke(calls, runtime=Runtime())
        assert report.status == "error"
    (report,) = asyncio.run(kind([later]).ainvoke(calls, runtime=Runtime()))
    assert report.text == "now"


def test_c21_a_sync_tool_runs_in_an_async_run_in_a_thread(kind: Any, ask: Any) -> None:
    def where() -> str:
        """Say where it runs."""
        return str(threading.get_ident())

    (report,) = asyncio.run(kind([where]).ainvoke(ask(("where", {})), runtime=Runtime()))
    assert report.text != str(threading.get_ident())


def test_c21a_arguments_reach_a_tool_as_its_types(kind: Any, run: Any, ask: Any) -> None:
    @tool
    def total(numbers: list[int], config: RunnableConfig) -> int:
        """Add a batch of numbers."""
        return sum(numbers)

    (report,) = run(kind([total]), ask(("total", {"numbers": ["1", 2]})))
    assert report.text == "3"


def test_c21a_a_tool_may_remember_its_answers(kind: Any, run: Any, ask: Any) -> None:
    asked: list[str] = []

    @tool
    @lru_cache
    def look_up(word: str) -> str:
        """Look a word up."""
        asked.append(word)
        return word.upper()

    calls = ask(("look_up", {"word": "a"}))
    assert [run(kind([look_up]), calls)[0].text for _ in range(3)] == ["A"] * 3
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
