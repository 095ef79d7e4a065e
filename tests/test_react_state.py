"""The state of create_react_agent: its schemas, and what a thread keeps of it (B9-B12, D12)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, NotRequired

import langgraph.prebuilt
import pytest
from langchain_core.messages import AnyMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.managed import RemainingSteps
from pydantic import BaseModel, ValidationError

from agent_factory import create_react_agent, prebuilt
from agent_factory.prebuilt.react_state import (
    View,
    chosen_schema,
    keys_of,
    model_schema,
    schemas_of,
)
from samples import add_tool as add
from samples import scripted
from tables import each

ASK: Any = {"messages": [("user", "2 + 3?")]}
THREAD: Any = {"configurable": {"thread_id": "1"}}


ADD = [{"name": "add", "args": {"a": 2, "b": 3}}]


@each("structured, name", [(False, "AgentState"), (True, "AgentStateWithStructuredResponse")])
def test_the_usual_state_has_a_place_for_what_is_asked_for(structured: bool, name: str) -> None:
    """B10, D12"""
    chosen = chosen_schema(None, structured=structured)
    assert chosen is getattr(prebuilt, name)
    keys = ["messages", "remaining_steps", *(["structured_response"] if structured else [])]
    assert list(keys_of(chosen)) == keys


def test_a_model_of_the_state_counts_from_25_where_nobody_counts() -> None:
    """B41, D12, E8"""
    assert prebuilt.AgentStatePydantic(messages=[]).remaining_steps == 25
    assert prebuilt.AgentStateWithStructuredResponsePydantic(messages=[]).remaining_steps == 25


class Moody(prebuilt.AgentStatePydantic):
    mood: int = 0


@each("tools", [[], [add]])
def test_a_model_of_the_state_refuses_what_does_not_fit(tools: Any, call: Any) -> None:
    """B11"""
    agent = create_react_agent(scripted(), tools, state_schema=Moody)
    with pytest.raises(ValidationError, match="mood"):
        call(agent, {**ASK, "mood": "bad"})


@dataclass
class Plain:
    messages: Annotated[list[AnyMessage], add_messages]
    remaining_steps: RemainingSteps
    mood: str = "calm"


def test_a_dataclass_is_a_state_too(call: Any) -> None:
    seen = []

    def look(state: Plain) -> dict[str, Any]:
        seen.append((type(state), state.mood, len(state.messages)))
        return {"mood": "kind"}

    agent = create_react_agent(
        scripted(ADD, "5"), [add], state_schema=Plain, pre_model_hook=look, version="v1"
    )
    assert call(agent, ASK)["mood"] == "kind"
    assert seen == [(Plain, "calm", 1), (Plain, "kind", 3)]


class Noting(prebuilt.AgentState):
    notes: NotRequired[list[str]]


class Chosen(prebuilt.AgentState):
    llm_input_messages: list[AnyMessage]


class Own(BaseModel):
    messages: Annotated[list[AnyMessage], add_messages]
    remaining_steps: RemainingSteps = 25


@each("schema", [prebuilt.AgentState, Noting, Own])
def test_the_models_input_is_the_state_and_what_a_hook_chose(schema: Any) -> None:
    """B12: of the same kind as the state."""
    assert model_schema(schema, hooked=False) is schema
    made = model_schema(schema, hooked=True)
    assert made.__name__ == "CallModelInputSchema"
    assert keys_of(made).keys() == {*keys_of(schema), "llm_input_messages"}
    assert issubclass(made, BaseModel) == issubclass(schema, BaseModel)


def test_a_state_may_have_its_own_key() -> None:
    """B12: then its author says how it is kept."""
    assert model_schema(Chosen, hooked=True) is Chosen
    kept = keys_of(schemas_of(Chosen, has_tools=False, hooked=True).state)
    assert kept["llm_input_messages"] == list[AnyMessage]


def test_a_view_has_the_keys_of_its_schema_alone() -> None:
    """B11"""
    state = {"messages": [], "remaining_steps": 3, "loop_relay": [], "structured_response": None}
    assert View(prebuilt.AgentState)(state) == {"messages": [], "remaining_steps": 3}
    assert View(Own)(state) == Own(messages=[], remaining_steps=3)
    shown = View(prebuilt.AgentStateWithStructuredResponse)(state)
    assert "structured_response" not in shown


def test_what_a_hook_chose_outlives_a_pause(call: Any) -> None:
    """B32, B58"""
    asked = scripted()
    agent = create_react_agent(
        asked,
        [],
        pre_model_hook=lambda state: {"llm_input_messages": [HumanMessage("Short")]},
        checkpointer=InMemorySaver(),
        interrupt_before=["agent"],
    )
    call(agent, ASK, THREAD)
    call(agent, None, THREAD)
    assert [m.text for m in asked.requests[0].messages] == ["Short"]
    assert set(agent.get_state(THREAD).values) == {"messages"}


def test_it_is_a_node_of_another_graph(call: Any) -> None:
    """B6: with the steps of that graph's run as its own limit."""
    inner = create_react_agent(scripted(ADD, "It is 5."), [add], name="counter")
    graph = StateGraph(MessagesState).add_node("counter", inner).add_edge(START, "counter")
    outer = graph.compile()
    assert call(outer, ASK)["messages"][-1].text == "It is 5."
    short = create_react_agent(scripted(ADD), [add])
    graph = StateGraph(MessagesState).add_node("counter", short).add_edge(START, "counter")
    said = call(graph.compile(), ASK, {"recursion_limit": 3})["messages"][-1].text
    assert said == "Sorry, need more steps to process this request."


@pytest.mark.filterwarnings("ignore:create_react_agent has been moved")
@each("make", [create_react_agent, langgraph.prebuilt.create_react_agent])
def test_checkpoints_have_the_metadata_of_langgraph_and_of_the_caller(call: Any, make: Any) -> None:
    saver = InMemorySaver()
    agent = make(scripted(), [add], checkpointer=saver)
    call(agent, ASK, {"configurable": {"thread_id": "1"}, "metadata": {"team": "red"}})
    for entry in saver.list(None):
        assert entry.metadata.keys() == {"source", "step", "parents", "team"}
