"""Structured answers by a tool call: written in each turn, never lost, with other tool calls."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel, Field

from agent_factory import ModelResponse, create_agent, wrap_model_call
from agent_factory.errors import SpecError
from agent_factory.structured_output import ProviderStrategy, ToolStrategy
from agent_factory.testing import ScriptedChatModel
from samples import texts
from tables import each
from weather import News, look

ASK: Any = {"messages": [("user", "How is the weather?")]}


class Weather(BaseModel):
    """The weather."""

    degrees: int = Field(le=60)
    words: str = "fine"


def answer(degrees: Any = 18, id: str = "out") -> dict[str, Any]:
    return {"name": "Weather", "args": {"degrees": degrees}, "id": id}


def looking(id: str = "look") -> dict[str, Any]:
    return {"name": "look", "args": {"city": "Rome"}, "id": id}


# --- a good answer ------------------------------------------------------------------------------


def test_a_structured_answer_ends_the_run(call: Any) -> None:
    """A38: a tool message says so, and the value is in structured_response."""
    model = ScriptedChatModel([[answer()]])
    result = call(create_agent(model, response_format=ToolStrategy(Weather)), ASK)
    assert result["structured_response"] == Weather(degrees=18)
    last = result["messages"][-1]
    assert isinstance(last, ToolMessage)
    assert (last.tool_call_id, last.name, last.status) == ("out", "Weather", "success")
    assert last.text == "Returning structured response: degrees=18 words='fine'"
    format_ = ToolStrategy(Weather, tool_message_content="Noted.")
    result = call(create_agent(ScriptedChatModel([[answer()]]), response_format=format_), ASK)
    assert texts(result)[-1] == "Noted."


def test_tools_are_used_before_the_answer_is_given(call: Any) -> None:
    model = ScriptedChatModel([[looking()], [answer()]])
    result = call(create_agent(model, [look], response_format=ToolStrategy(Weather)), ASK)
    assert [m.type for m in result["messages"]] == ["human", "ai", "tool", "ai", "tool"]
    assert texts(result)[2] == "18 degrees in Rome"
    assert result["structured_response"] == Weather(degrees=18)
    assert [record.tools for record in model.requests] == [["look", "Weather"]] * 2


@pytest.mark.parametrize("calls", [[answer(), looking()], [looking(), answer()]])
def test_a_tool_called_together_with_the_answer_runs_and_then_the_run_ends(
    call: Any, calls: Any
) -> None:
    """A38, A16 rule 2."""
    ran: list[str] = []

    def look(city: str) -> str:
        """Look at the weather of a city."""
        ran.append(city)
        return "18"

    model = ScriptedChatModel([calls])
    result = call(create_agent(model, [look], response_format=ToolStrategy(Weather)), ASK)
    assert ran == ["Rome"]
    assert result["structured_response"] == Weather(degrees=18)
    answered = {m.tool_call_id for m in result["messages"] if isinstance(m, ToolMessage)}
    assert answered == {"out", "look"}


# --- a bad answer -------------------------------------------------------------------------------


@pytest.mark.parametrize("tools", [[], [look]])
def test_an_invalid_answer_is_explained_and_asked_for_again(call: Any, tools: Any) -> None:
    """A38, A24."""
    model = ScriptedChatModel([[answer(99)], [answer(18)]])
    result = call(create_agent(model, tools, response_format=ToolStrategy(Weather)), ASK)
    assert result["structured_response"] == Weather(degrees=18)
    message = model.requests[1].messages[-1]
    assert isinstance(message, ToolMessage)
    assert (message.tool_call_id, message.name, message.status) == ("out", "Weather", "error")
    assert message.text.startswith("Error: Failed to parse structured output for tool 'Weather': ")
    assert "less than or equal to 60" in message.text
    assert message.text.endswith(".\n Please fix your mistakes.")


def test_an_invalid_answer_together_with_a_tool_call_is_reported_too(call: Any) -> None:
    """wanted 5: and the ordinary call runs."""
    model = ScriptedChatModel([[answer(99), looking()], [answer(18, "again")]])
    result = call(create_agent(model, [look], response_format=ToolStrategy(Weather)), ASK)
    assert result["structured_response"] == Weather(degrees=18)
    seen = {m.tool_call_id: m for m in model.requests[1].messages if isinstance(m, ToolMessage)}
    assert seen["look"].text == "18 degrees in Rome"
    assert seen["out"].status == "error"


def test_several_answers_at_once_are_all_refused_and_asked_for_again(call: Any) -> None:
    """A38: several structured calls in one message are an error."""
    calls = [answer(18, "1"), {"name": "News", "args": {"headline": "Sun"}, "id": "2"}]
    model = ScriptedChatModel([calls, [answer(19, "3")]])
    result = call(create_agent(model, response_format=ToolStrategy(Weather | News)), ASK)
    assert result["structured_response"] == Weather(degrees=19)
    messages = [m for m in model.requests[1].messages if isinstance(m, ToolMessage)]
    assert [(m.tool_call_id, m.name, m.status) for m in messages] == [
        ("1", "Weather", "error"),
        ("2", "News", "error"),
    ]
    assert "several structured answers (Weather, News)" in messages[0].text


BROKEN: Any = {"name": "Weather", "args": "{deg", "id": "bad", "error": None}


@each("tools", [[], [look]])
@each(
    "step, kind, words",
    [
        ("It is fine.", "human", "Call Weather to give it."),
        (AIMessage("", invalid_tool_calls=[BROKEN]), "tool", "Error"),
        ([{"name": "serch", "args": {}}], "tool", "Error: serch is not a valid tool, try one of ["),
        ([answer(18, "1"), answer(18, "2")], "tool", "several structured answers"),
    ],
)
def test_a_turn_without_an_answer_is_noticed(
    call: Any, step: Any, kind: str, words: str, tools: Any
) -> None:
    """wanted 5: never silent, also without a tools node."""
    model = ScriptedChatModel([step, [answer()]])
    result = call(create_agent(model, tools, response_format=ToolStrategy(Weather)), ASK)
    assert result["structured_response"] == Weather(degrees=18)
    assert len(model.requests) == 2
    message = model.requests[1].messages[-1]
    assert message.type == kind
    assert words in message.text


# --- fresh --------------------------------------------------------------------------------------

THREAD: Any = {"configurable": {"thread_id": "1"}}


def test_an_answer_of_an_earlier_turn_does_not_end_a_later_one(call: Any) -> None:
    """A21: the value left in the thread is not an answer to the new question."""
    model = ScriptedChatModel([[answer(18, "1")], [looking()], [answer(20, "2")]])
    agent = create_agent(
        model, [look], response_format=ToolStrategy(Weather), checkpointer=InMemorySaver()
    )
    assert call(agent, ASK, THREAD)["structured_response"] == Weather(degrees=18)
    assert call(agent, ASK, THREAD)["structured_response"] == Weather(degrees=20)
    model.assert_done()
    # The thread may be carried on by an agent that asks for no structure.
    plain = create_agent(ScriptedChatModel(["Fine."]), checkpointer=agent.checkpointer)
    assert call(plain, ASK, THREAD).get("structured_response") is None


def test_a_turn_that_fails_leaves_no_earlier_answer_behind(call: Any) -> None:
    """A21: the model node writes None where a call gave no answer."""
    model = ScriptedChatModel([[answer(18, "1")], [looking()]])
    agent = create_agent(
        model,
        [look],
        response_format=ToolStrategy(Weather),
        checkpointer=InMemorySaver(),
        interrupt_before=["tools"],
    )
    call(agent, ASK, THREAD)
    call(agent, ASK, THREAD)
    assert agent.get_state(THREAD).values["structured_response"] is None


def test_the_answer_is_from_the_model_and_asked_for(call: Any) -> None:
    agent = create_agent(ScriptedChatModel([[answer(5)]]), response_format=ToolStrategy(Weather))
    result = call(agent, {**ASK, "structured_response": Weather(degrees=1)})
    assert result["structured_response"] == Weather(degrees=5)
    assert "structured_response" not in call(create_agent(ScriptedChatModel(["Hi."])), ASK)


def overriding(**changes: Any) -> Any:
    """A layer that passes on a request with changes."""

    @wrap_model_call
    def override(request: Any) -> Any:
        return (yield request.override(**changes))

    return override


# --- the model's tools stay the user's (wanted 11) ----------------------------------------------


@each(
    "layers, tools, settings",
    [
        ([], ["look", "Weather"], {}),
        ([overriding(tools=[])], ["Weather"], {}),
        *(
            ([overriding(tool_choice=choice)], ["look", "Weather"], {"tool_choice": choice})
            for choice in ("any", "Weather", {"type": "tool", "name": "Weather"})
        ),
    ],
)
def test_tools_are_those_that_layers_leave_and_their_choice_is_never_forced(
    call: Any, layers: list[Any], tools: list[str], settings: Any
) -> None:
    model = ScriptedChatModel([[answer()]])
    call(create_agent(model, [look], middleware=layers, response_format=ToolStrategy(Weather)), ASK)
    assert (model.requests[0].tools, model.requests[0].kwargs) == (tools, settings)


def test_an_output_tool_may_not_share_its_name_with_a_tool() -> None:
    def Weather(city: str) -> str:
        """Look at the weather."""
        return city

    with pytest.raises(SpecError, match=r"^\[AF113\] .*response_format"):
        create_agent(ScriptedChatModel(), [Weather], response_format=globals()["Weather"])


# --- layers and strategies ----------------------------------------------------------------------


@each(
    "own, wanted, step, value, tools",
    [
        (ToolStrategy(Weather), ProviderStrategy(Weather), '{"degrees": 18}', 18, []),
        (None, ToolStrategy(Weather), [answer()], 18, ["Weather"]),
        (None, Weather, [answer()], 18, ["Weather"]),
        (ToolStrategy(Weather), None, "Just words.", None, []),
    ],
)
def test_a_layer_may_ask_for_another_answer_or_none(
    call: Any, own: Any, wanted: Any, step: Any, value: Any, tools: list[str]
) -> None:
    model = ScriptedChatModel([step])
    layer = overriding(response_format=wanted)
    result = call(create_agent(model, middleware=[layer], response_format=own), ASK)
    expected = None if value is None else Weather(degrees=value)
    assert result.get("structured_response") == expected
    assert model.requests[0].tools == tools


def test_a_layer_sees_the_parsed_answer(call: Any) -> None:
    seen: list[Any] = []

    @wrap_model_call
    def watch(request: Any) -> Any:
        response = yield request
        seen.append(response.structured_response)
        return ModelResponse(response.result, Weather(degrees=0))

    agent = create_agent(
        ScriptedChatModel([[answer()]]), middleware=[watch], response_format=ToolStrategy(Weather)
    )
    assert call(agent, ASK)["structured_response"] == Weather(degrees=0)
    assert seen == [Weather(degrees=18)]


@each(
    "strategy, step, tools",
    [
        (ToolStrategy(Weather), [answer()], []),
        (ToolStrategy(Weather), [answer()], [look]),
        (ProviderStrategy(Weather), '{"degrees": 18}', []),
    ],
)
def test_a_layer_that_passes_on_the_message_alone_does_not_lose_the_answer(
    call: Any, strategy: Any, step: Any, tools: Any
) -> None:
    """wanted 2, 5: an unread answer may neither spin nor pass unreported."""

    @wrap_model_call
    def message_only(request: Any) -> Any:
        response = yield request
        return response.result[0]

    model = ScriptedChatModel([step])
    agent = create_agent(model, tools, middleware=[message_only], response_format=strategy)
    assert call(agent, ASK)["structured_response"] == Weather(degrees=18)


def test_streaming_shows_the_answer_once(collect: Any) -> None:
    agent = create_agent(ScriptedChatModel([[answer()]]), response_format=ToolStrategy(Weather))
    chunks = collect(agent, ASK, stream_mode="updates")
    (update,) = [chunk["model"] for chunk in chunks if "model" in chunk]
    assert update["structured_response"] == Weather(degrees=18)
    agent = create_agent(ScriptedChatModel([[answer()]]), response_format=ToolStrategy(Weather))
    values = collect(agent, ASK, stream_mode="values")
    assert values[-1]["structured_response"] == Weather(degrees=18)
