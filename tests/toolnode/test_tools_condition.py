"""Where a turn goes on: D1 to D3."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import tools_condition as langgraph_tools_condition

from agent_factory import ToolNode, tools_condition
from samples import Thread, ThreadModel, add
from tables import each

CALL = {"name": "add", "args": {"a": 1, "b": 2}, "id": "1"}
ASKS = AIMessage("", tool_calls=[CALL])
SAYS = AIMessage("Done.")


@pytest.fixture(params=[langgraph_tools_condition, tools_condition], ids=["langgraph", "ours"])
def condition(request: pytest.FixtureRequest) -> Any:
    return request.param


@each("state", [lambda messages: messages, Thread, lambda m: ThreadModel(messages=m)])
def test_d1_d2_the_last_message_decides(condition: Any, state: Any) -> None:
    """D3: and the state stays as it was."""
    assert condition(state([ASKS])) == "tools"
    assert condition(state([ASKS, SAYS])) == "__end__"
    assert condition(state([ASKS, HumanMessage("Well?")])) == "__end__"
    messages = [SAYS, ASKS]
    assert condition(state(messages)) == "tools"
    assert messages == [SAYS, ASKS]


def test_d1_the_messages_may_have_another_key(condition: Any) -> None:
    assert condition({"talk": [ASKS]}, messages_key="talk") == "tools"
    assert condition({"talk": [SAYS], "messages": [ASKS]}, "talk") == "__end__"


@each("state", [{}, {"messages": []}, Thread([]), ThreadModel(messages=[]), None, 5])
def test_d1_without_a_message_there_is_nothing_to_decide(condition: Any, state: Any) -> None:
    """E19"""
    with pytest.raises(ValueError, match="No messages found in input state to tool_edge: "):
        condition(state)


def test_d1_an_empty_list_has_no_message_and_is_an_index_error_in_langgraph() -> None:
    """E19"""
    with pytest.raises(ValueError, match=r"No messages found in input state to tool_edge: \[\]"):
        tools_condition([])
    with pytest.raises(IndexError):
        langgraph_tools_condition([])


def test_d3_it_serves_as_a_route(condition: Any, call: Any) -> None:
    def model(state: Any) -> Any:
        asked = any(isinstance(m, AIMessage) for m in state["messages"])
        return {"messages": [SAYS if asked else ASKS]}

    graph = StateGraph(MessagesState).add_node("model", model)
    graph.add_node("tools", ToolNode([add])).add_edge(START, "model").add_edge("tools", "model")
    agent: Any = graph.add_conditional_edges("model", condition).compile()
    edges = {(edge.source, edge.target) for edge in agent.get_graph().edges if edge.conditional}
    assert edges == {("model", "tools"), ("model", "__end__")}
    result = call(agent, {"messages": "Go"})
    assert [m.text for m in result["messages"]] == ["Go", "", "3", "Done."]
