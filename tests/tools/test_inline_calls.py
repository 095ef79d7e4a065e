"""A single call runs in the thread of the caller, and otherwise as in a pool of threads."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Annotated, Any
from weakref import ref

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.graph import MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, InjectedStore, ToolRuntime
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, interrupt
from stack_agents import kept_agent

from agent_factory import ToolNode
from agent_factory.tools import tool_node
from agent_factory.tools.tool_node import with_context
from samples import THREAD, add, fail
from tables import each


@pytest.fixture(params=["here", "pool"])
def where(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run each test inline and in a pool."""
    if request.param == "pool":
        monkeypatch.setattr(tool_node, "can_run_inline", lambda: False)
    return str(request.param)


def move() -> Command[Any]:
    """Write to the state."""
    return Command(update={"messages": [ToolMessage("moved", tool_call_id="1")]})


def several() -> list[Any]:
    """Say two things."""
    return [ToolMessage("one", tool_call_id="1"), Command(update={"messages": []})]


def junk(a: int) -> Any:
    """Return what no tool may."""
    return [a]


@tool(response_format="content_and_artifact")
def found() -> tuple[str, dict[str, int]]:
    """Find something."""
    return "found", {"page": 3}


def ask_back() -> str:
    """Ask a human."""
    return f"said {interrupt('Sure?')}"


def looks(
    state: Annotated[dict[str, Any], InjectedState],
    store: Annotated[Any, InjectedStore()],
    runtime: ToolRuntime[Any, Any],
) -> str:
    """Look at what is injected."""
    report = (
        runtime.tool_call_id,
        runtime.state == state,
        runtime.store is store,
        [each.name for each in runtime.tools],
        runtime.execution_info is not None,
        runtime.config["metadata"]["langgraph_node"],
    )
    return f"{state['messages']} {report} {store.get(('a',), 'b').value}"


def nothing() -> None:
    """What is done where there is nothing to do."""


def ran(
    node: ToolNode,
    name: str,
    args: dict[str, Any] | None = None,
    then: Callable[[], object] = nothing,
    **options: Any,
) -> Any:
    """What a call comes to in a graph: the graph's state, or the error."""
    call = {"name": name, "args": args or {}, "id": "1", "type": "tool_call"}

    def act(_: Any, config: RunnableConfig) -> Any:
        output = node.invoke(with_context(call, {"messages": ["shown"]}), config)
        then()
        return output

    graph: Any = StateGraph(MessagesState)
    graph.add_node("tools", act)
    graph.set_entry_point("tools")
    store = InMemoryStore()
    store.put(("a",), "b", {"kept": 1})
    try:
        run = graph.compile(store=store).invoke({"messages": []}, **options)
    except Exception as error:
        return type(error), str(error)
    return [
        (said.content, said.name, said.status, said.tool_call_id, said.artifact)
        for said in run["messages"]
    ]


@each("handled", [True, False, "Try again.", ValueError])
@each(
    "name, args",
    [
        ("add", {"a": 1, "b": 2}),
        ("add", {"a": "one"}),
        ("fail", {}),
        ("move", {}),
        ("several", {}),
        ("junk", {"a": 1}),
        ("found", {}),
        ("looks", {}),
        ("unknown", {"a": 1}),
    ],
)
def test_an_inline_call_has_the_same_result(
    name: str, args: dict[str, Any], handled: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools: list[Any] = [add, fail, move, several, junk, found, looks]
    node = ToolNode(tools, handle_tool_errors=handled)
    here = [ran(node, name, args) for _ in range(2)]
    monkeypatch.setattr(tool_node, "can_run_inline", lambda: False)
    assert here == [ran(node, name, args)] * 2


def test_an_inline_call_runs_in_the_thread_of_the_caller(where: str) -> None:
    def tells() -> str:
        """Return the thread."""
        return str(threading.get_ident())

    ((content, *_),) = ran(ToolNode([tells]), "tells")
    assert (content == str(threading.get_ident())) is (where == "here")


def test_a_tool_can_start_an_event_loop_even_if_the_caller_runs_one() -> None:
    def starts() -> str:
        """Run a coroutine."""
        return asyncio.run(asyncio.sleep(0, "slept"))

    async def main() -> Any:
        return ran(ToolNode([starts]), "starts")

    ((content, *_),) = asyncio.run(main())
    assert content == "slept"


def test_context_variables_that_a_tool_or_a_layer_sets_do_not_leak(where: str) -> None:
    mark: ContextVar[str] = ContextVar("mark", default="none")

    def marks() -> str:
        """Mark."""
        mark.set("tool")
        return mark.get()

    def layer(request: Any, execute: Any) -> Any:
        mark.set("layer")
        return execute(request)

    node, after = ToolNode([marks], wrap_tool_call=layer), []
    ((content, *_),) = ran(node, "marks", then=lambda: after.append(mark.get()))
    assert (content, after) == ("tool", ["none"])


def test_a_layer_may_call_twice_replace_the_tool_and_the_call(where: str) -> None:
    @tool
    def dynamic(a: int, state: Annotated[dict[str, Any], InjectedState]) -> str:
        """A tool that the node does not know."""
        return f"{a} {state['messages']}"

    def layer(request: Any, execute: Any) -> Any:
        execute(request)
        return execute(request.override(tool=dynamic, tool_call={**request.tool_call, **other}))

    other = {"name": "dynamic", "args": {"a": 5}}
    ((content, *_),) = ran(ToolNode([add], wrap_tool_call=layer), "add", {"a": 1, "b": 1})
    assert content == "5 ['shown']"


@each("handled", [True, False])
def test_an_exception_of_a_layer_is_handled_like_one_of_a_tool(where: str, handled: bool) -> None:
    def layer(request: Any, execute: Any) -> Any:
        raise LookupError("no such thing")

    node = ToolNode([add], wrap_tool_call=layer, handle_tool_errors=handled)
    result = ran(node, "add", {"a": 1, "b": 1})
    if handled:
        ((content, name, status, *_),) = result
        assert "no such thing" in content
        assert (name, status) == ("add", "error")
    else:
        assert result == (LookupError, "no such thing")


class Observer(BaseCallbackHandler):
    """Record which tools start, and with which input."""

    def __init__(self) -> None:
        self.starts: list[Any] = []

    def on_tool_start(self, serialized: Any, input_str: str, **known: Any) -> None:
        metadata = known["metadata"]
        self.starts.append((serialized["name"], input_str, metadata["langgraph_node"]))
        report = known["parent_run_id"] is not None, metadata["who"], "mine" in known["tags"]
        self.starts.append(report)


def test_callbacks_get_the_config_of_their_own_run(where: str) -> None:
    node = ToolNode([add])
    for who in ("Ada", "Bob"):
        observed = Observer()
        config = {"callbacks": [observed], "metadata": {"who": who}, "tags": ["mine"]}
        ran(node, "add", {"a": 1, "b": 2}, config=config)
        assert observed.starts == [("add", "{'a': 1, 'b': 2}", "tools"), (True, who, True)]


def test_an_interrupt_of_a_tool_is_resumed(where: str) -> None:
    agent = kept_agent([[{"name": "ask_back", "args": {}}], "Done."], tools=[ask_back])
    assert agent.invoke({"messages": [("user", "Hi")]}, THREAD)["__interrupt__"]
    result = agent.invoke(Command(resume="yes"), THREAD)
    assert result["messages"][-2].text == "said yes"


class Thing:
    """Something that a run is about."""


@pytest.mark.usefixtures("quick_gc")
def test_nothing_of_a_run_is_kept_alive_after_it(where: str) -> None:
    node, thing = ToolNode([add]), Thing()
    gone = ref(thing)
    ran(node, "add", {"a": 1, "b": 1}, config={"configurable": {"thing": thing}})
    del thing
    gc.collect()
    assert gone() is None
