"""Canaries: what the package relies on in LangGraph and langchain-core is still there."""

from typing import Annotated, Any, TypedDict

from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import StateGraph

from agent_factory import DeltaMessages
from agent_factory.state.channels import fold_messages
from agent_factory.upstream import messages_delta_reducer


def test_langgraph_has_the_reducer_by_which_it_recognizes_messages() -> None:
    assert messages_delta_reducer(fold_messages) is not fold_messages


def test_langgraph_stores_a_pair_in_a_delta_channel_as_a_message_with_an_id() -> None:
    class State(TypedDict):
        messages: Annotated[list[Any], DeltaMessages()]

    graph = StateGraph(State).add_node("node", lambda state: {"messages": [("user", "Hi")]})
    agent = graph.set_entry_point("node").compile(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    agent.invoke({"messages": []}, config)
    (message,) = agent.get_state(config).values["messages"]
    assert isinstance(message, HumanMessage)
    assert message.id is not None
