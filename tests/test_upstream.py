"""Canaries for what agent_factory/upstream.py relies on."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState
from langgraph.prebuilt import ToolNode as LangGraphToolNode
from langgraph.runtime import Runtime
from langgraph.types import Send

from agent_factory.upstream import read_channels


class State(MessagesState):
    color: str


def test_read_channels_returns_the_state_that_langgraphs_tool_node_reads() -> None:
    seen: list[Any] = []

    def look(state: Annotated[Any, InjectedState]) -> str:
        """Look at the state."""
        seen.append(state)
        return "seen"

    tools = LangGraphToolNode([look])

    def act(calls: Any, config: RunnableConfig) -> Any:
        seen.append(read_channels(config))
        return tools.invoke(calls, config)

    call = {"name": "look", "args": {}, "id": "1", "type": "tool_call"}
    graph: Any = StateGraph(State)
    graph.add_node("act", act)
    graph.add_conditional_edges(START, lambda _: [Send("act", [call])], ["act"])
    graph.compile().invoke({"messages": [AIMessage("Hi", id="1")], "color": "red"})
    ours, theirs = seen
    assert ours == theirs
    assert ours["color"] == "red"


def test_read_channels_is_empty_outside_of_a_graph() -> None:
    assert read_channels({}) == {}


@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_tool_node_calls_its_attributes_func_and_afunc(mode: str) -> None:
    """Our ToolNode replaces them; LangGraph passes them the config and the runtime."""

    def func(input: Any, config: RunnableConfig, runtime: Runtime[Any]) -> Any:
        return input, config["metadata"], runtime.context

    async def afunc(input: Any, config: RunnableConfig, runtime: Runtime[Any]) -> Any:
        return func(input, config, runtime)

    node = LangGraphToolNode([])
    node.func, node.afunc = func, afunc
    config: Any = {"metadata": {"who": "Ada"}}
    context: Any = "context"
    runtime = Runtime(context=context)
    if mode == "sync":
        result = node.invoke(["input"], config, runtime=runtime)
    else:
        result = await node.ainvoke(["input"], config, runtime=runtime)
    assert result == (["input"], {"who": "Ada"}, "context")
