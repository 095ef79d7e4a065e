"""The structured answer of create_react_agent, made when the loop is over (B42-B45, B54)."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import Field
from typing_extensions import TypedDict

from agent_factory import create_react_agent
from agent_factory.prebuilt import (
    AgentStateWithStructuredResponse,
    AgentStateWithStructuredResponsePydantic,
)
from agent_factory.testing import ScriptedChatModel
from samples import Answer, show
from samples import add_tool as add
from tables import each

ASK: Any = {"messages": [("user", "2 + 3?")]}
THREAD: Any = {"configurable": {"thread_id": "1"}}


class AnswerDict(TypedDict):
    """The structured answer."""

    number: int


SCHEMA = {
    "title": "Answer",
    "description": "The structured answer.",
    "type": "object",
    "properties": {"number": {"type": "integer"}},
    "required": ["number"],
}

ADD = [{"name": "add", "args": {"a": 2, "b": 3}, "id": "1"}]
SHOW = [{"name": "show", "args": {"text": "it"}, "id": "2"}]


def answer(name: str = "Answer", number: int = 5) -> list[dict[str, Any]]:
    return [{"name": name, "args": {"number": number}}]


@each(
    "schema, name, expected",
    [
        (Answer, "Answer", Answer(number=5)),
        (AnswerDict, "AnswerDict", {"number": 5}),
        (SCHEMA, "Answer", {"number": 5}),
    ],
)
def test_the_model_is_asked_for_the_answer(
    schema: Any, name: str, expected: Any, call: Any
) -> None:
    """B42, B44, G17: in its own call, without the agent's tools, that leaves no message."""
    asked = ScriptedChatModel([ADD, "It is 5.", answer(name)])
    agent = create_react_agent(asked, [add], response_format=schema)
    result = call(agent, ASK)
    assert result["structured_response"] == expected
    assert [m.text for m in result["messages"]] == ["2 + 3?", "", "5", "It is 5."]
    assert len(asked.requests[2].tools) == 1
    assert "add" not in asked.requests[2].tools
    assert [m.text for m in asked.requests[2].messages] == ["2 + 3?", "", "5", "It is 5."]


def test_its_own_prompt_comes_first_and_the_agents_does_not(call: Any) -> None:
    """B43"""
    asked = ScriptedChatModel(["It is 5.", answer()])
    agent = create_react_agent(asked, [], prompt="Be brief.", response_format=("Be exact.", Answer))
    assert call(agent, ASK)["structured_response"] == Answer(number=5)
    assert [r.messages[0].text for r in asked.requests] == ["Be brief.", "Be exact."]
    assert len(asked.requests[1].messages) == 3


def test_a_bound_model_is_asked_without_what_is_bound(call: Any) -> None:
    """B22, B42"""
    asked = ScriptedChatModel(["It is 5.", answer()])
    agent = create_react_agent(asked.bind_tools([add]), [add], response_format=Answer)
    assert call(agent, ASK)["structured_response"] == Answer(number=5)
    assert [r.tools for r in asked.requests] == [["add"], ["Answer"]]


def test_without_a_format_there_is_no_answer(call: Any) -> None:
    """B45"""
    result = call(create_react_agent(ScriptedChatModel(["Hello"]), []), ASK)
    assert set(result) == {"messages"}


def test_a_result_that_is_the_answer_is_not_extracted_from(call: Any) -> None:
    """B54: the key is absent."""
    asked = ScriptedChatModel([SHOW])
    result = call(create_react_agent(asked, [show], response_format=Answer), ASK)
    assert "structured_response" not in result
    assert result["messages"][-1].text == "<it>"
    asked.assert_done()


def test_an_answer_of_an_earlier_turn_is_not_taken_for_this_ones(call: Any) -> None:
    """B54: a thread keeps its state, and the answer was to another question."""
    asked = ScriptedChatModel(["It is 5.", answer(), ADD, "It is 6.", answer(number=6), SHOW])
    agent = create_react_agent(
        asked, [add, show], response_format=Answer, checkpointer=InMemorySaver()
    )
    assert call(agent, ASK, THREAD)["structured_response"] == Answer(number=5)
    assert call(agent, ASK, THREAD)["structured_response"] == Answer(number=6)
    assert call(agent, ASK, THREAD)["structured_response"] is None


@each("schema", [None, AgentStateWithStructuredResponse, AgentStateWithStructuredResponsePydantic])
def test_the_usual_states_have_a_place_for_it(schema: Any, call: Any) -> None:
    """B10"""
    agent = create_react_agent(
        ScriptedChatModel([ADD, "It is 5.", answer()]),
        [add],
        response_format=Answer,
        state_schema=schema,
    )
    assert call(agent, ASK)["structured_response"] == Answer(number=5)


class Strict(AgentStateWithStructuredResponsePydantic):
    structured_response: dict[str, Any] = Field(default_factory=dict)


def test_a_state_that_knows_no_none_is_not_given_it(call: Any) -> None:
    """B11: neither at the first turn, nor when an earlier answer is taken back."""
    asked = ScriptedChatModel([ADD, "5", answer("AnswerDict"), ADD, "5", answer("AnswerDict")])
    agent = create_react_agent(
        asked,
        [add],
        response_format=AnswerDict,
        state_schema=Strict,
        pre_model_hook=lambda state: {},
        checkpointer=InMemorySaver(),
    )
    for _ in range(2):
        assert call(agent, ASK, THREAD)["structured_response"] == {"number": 5}


def test_a_hook_cleans_the_message_before_it_is_read(call: Any) -> None:
    """B51"""
    asked = ScriptedChatModel(["It is, well, 5.", answer()])

    def clean(state: Any) -> Any:
        last = state["messages"][-1]
        return {"messages": [last.model_copy(update={"content": "5"})]}

    agent = create_react_agent(asked, [], post_model_hook=clean, response_format=Answer)
    call(agent, ASK)
    assert asked.requests[1].messages[-1].text == "5"


def test_the_tokens_of_the_answer_are_streamed(collect: Any) -> None:
    """It is the agent's own model that speaks, in its own node."""
    agent = create_react_agent(ScriptedChatModel(["Hm.", answer()]), [], response_format=Answer)
    nodes = {about["langgraph_node"] for _, about in collect(agent, ASK, stream_mode="messages")}
    assert nodes == {"agent", "generate_structured_response"}


def test_a_tool_that_writes_the_key_does_not_end_the_run(call: Any) -> None:
    """B53, B54: return_direct alone decides where a run goes after tools."""

    @tool
    def guess() -> Command[Any]:
        """Guess."""
        message = ToolMessage("guessed", tool_call_id="3")
        return Command(update={"structured_response": Answer(number=1), "messages": [message]})

    asked = ScriptedChatModel([[{"name": "guess", "args": {}, "id": "3"}], "It is 5.", answer()])
    agent = create_react_agent(asked, [guess, show], response_format=Answer)
    assert call(agent, ASK)["structured_response"] == Answer(number=5)
