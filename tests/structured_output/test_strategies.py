"""Which strategy is taken, and the structured answers that a provider makes."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from stack_agents import kept_agent
from typing_extensions import TypedDict

from agent_factory import create_agent, wrap_model_call, wrap_tool_call
from agent_factory.structured_output import (
    AutoStrategy,
    ProviderStrategy,
    ToolStrategy,
    supports_provider_strategy,
)
from agent_factory.testing import ScriptedChatModel
from samples import THREAD, through
from tables import each
from weather import News, Weather, look

ASK: Any = {"messages": [("user", "How is the weather?")]}


@dataclasses.dataclass
class Point:
    x: int


class Move(TypedDict):
    by: int


class NamedModel(ScriptedChatModel):
    """A scripted model with a model name."""

    model_name: str


GOOD = '{"degrees": 18}'
BLOCKS: Any = [{"type": "text", "text": '{"degrees"'}, {"type": "text", "text": ": 18}"}]
LOOKING = [{"name": "look", "args": {"city": "Rome"}, "id": "look"}]


@each("strict, passed", [(None, {}), (True, {"strict": True})])
def test_the_provider_is_asked_for_the_schema(call: Any, strict: Any, passed: Any) -> None:
    """wanted 11: no empty `tools: []`, which some providers refuse."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        pytest.fail("bind_tools was called")

    model = type("Untooled", (ScriptedChatModel,), {"bind_tools": refuse})(steps=[GOOD])
    format_ = ProviderStrategy(Weather, strict=strict)
    result = call(create_agent(model, response_format=format_), ASK)
    assert result["structured_response"] == Weather(degrees=18)
    assert [m.type for m in result["messages"]] == ["human", "ai"]
    ((name, asked),) = model.requests[0].kwargs.items()
    assert (name, asked["type"]) == ("response_format", "json_schema")
    assert asked["json_schema"].pop("schema")["properties"].keys() == {"degrees"}
    assert asked["json_schema"] == {"name": "Weather", **passed}


def test_tools_and_schema_are_sent_together(call: Any) -> None:
    model = ScriptedChatModel([LOOKING, GOOD])
    result = call(create_agent(model, [look], response_format=ProviderStrategy(Weather)), ASK)
    assert result["structured_response"] == Weather(degrees=18)
    assert [record.tools for record in model.requests] == [["look"], ["look"]]
    assert all(set(record.kwargs) == {"response_format"} for record in model.requests)


def test_settings_of_a_layer_are_sent_with_the_schema(call: Any) -> None:
    @wrap_model_call
    def cold(request: Any) -> Any:
        return (yield request.override(model_settings={"temperature": 0}))

    model = ScriptedChatModel([GOOD])
    call(create_agent(model, middleware=[cold], response_format=ProviderStrategy(Weather)), ASK)
    assert set(model.requests[0].kwargs) == {"response_format", "temperature"}


@each("strategy", [ProviderStrategy, ToolStrategy])
@each(
    "schema, text, value",
    [
        (Weather, GOOD, Weather(degrees=18)),
        (Weather, f" ```json\n{GOOD}\n```\n", Weather(degrees=18)),
        (Weather, AIMessage(BLOCKS), Weather(degrees=18)),
        (Point, '{"x": 1}', Point(1)),
        (Move, '{"by": 2}', {"by": 2}),
        ({"title": "Any", "type": "object"}, '{"a": [1]}', {"a": [1]}),
        ({"title": "Many", "type": "array"}, "[1, 2]", [1, 2]),
    ],
)
def test_the_text_is_read_as_the_schema(
    call: Any, strategy: Any, schema: Any, text: Any, value: Any
) -> None:
    agent = create_agent(ScriptedChatModel([text]), response_format=strategy(schema))
    assert call(agent, ASK)["structured_response"] == value


@each("tools", [[], [look]])
@each(
    "bad, reason",
    [
        ("It is fine.", "Answer with JSON that matches Weather, and nothing else."),
        ("", "Answer with JSON that matches Weather"),
        ('{"degrees": 99}', "less than or equal to 60"),
        ('{"degrees": 18} Enjoy!', "Answer with JSON"),
        ("[1]", "Failed to parse structured output"),
    ],
)
def test_an_invalid_answer_is_explained(call: Any, bad: str, reason: str, tools: Any) -> None:
    """wanted 5."""
    model = ScriptedChatModel([bad, GOOD])
    result = call(create_agent(model, tools, response_format=ProviderStrategy(Weather)), ASK)
    assert result["structured_response"] == Weather(degrees=18)
    report = model.requests[1].messages[-1]
    assert isinstance(report, HumanMessage)
    assert reason in report.text


def test_an_answer_of_an_earlier_turn_is_not_this_turns(call: Any) -> None:
    """A21, also where no tool stands for the schema."""
    model = ScriptedChatModel([GOOD, LOOKING, '{"degrees": 20}'])
    agent = kept_agent(model, tools=[look], response_format=ProviderStrategy(Weather))
    assert call(agent, ASK, THREAD)["structured_response"] == Weather(degrees=18)
    assert call(agent, ASK, THREAD)["structured_response"] == Weather(degrees=20)


@each(
    "name, supports",
    [
        ("gpt-4o-mini", True),
        ("gpt-4.1", True),
        ("openai/gpt-5", True),
        ("ft:gpt-4o-mini:shop", True),
        ("openai.gpt-5.1", True),
        ("x-ai/grok-4-fast", True),
        ("claude-sonnet-4-5", True),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", True),
        ("Claude-Sonnet-4-5", True),
        ("gpt-4", False),
        ("my-gpt-4o", False),
        ("gpt-50", False),
        ("grok-3", False),
        ("gemini-3-pro", False),
        ("claude-3-5-sonnet", False),
        ("claude-sonnet-4-0", False),
        ("llama-3", False),
        ("", False),
    ],
)
@each("attribute", ["model_name", "model", "model_id"])
def test_models_with_structured_output_are_known(name: str, supports: bool, attribute: str) -> None:
    assert supports_provider_strategy(type("Model", (), {attribute: name})()) is supports


@each(
    "profile, name, promised",
    [
        *(({"structured_output": True}, name, True) for name in ("gpt-5", "llama-3")),
        *(({"structured_output": False}, name, False) for name in ("gpt-5", "llama-3")),
        # Without the key, it is left to the name.
        ({}, "gpt-5", True),
        ({}, "", False),
    ],
)
def test_a_profile_counts_before_the_name(profile: Any, name: str, promised: bool) -> None:
    assert supports_provider_strategy(NamedModel(model_name=name, profile=profile)) is promised
    assert not supports_provider_strategy(ScriptedChatModel())


GEMINI: Any = {"structured_output": True}
TOOL_CALL = [{"name": "Weather", "args": {"degrees": 18}}]


@each(
    "name, with_tools",
    [
        ("gemini-1.5-pro", False),
        ("models/gemini-2.5-flash", False),
        ("Gemini-2.5-Pro", False),
        ("gemini-flash-latest", False),
        ("gemini-3-pro-preview", True),
        ("google/gemini-3.5-flash", True),
        ("gemini-10-pro", True),
        ("gemma-3-27b-it", True),
    ],
)
def test_a_schema_goes_with_tools_to_models_that_take_both(name: str, with_tools: bool) -> None:
    """Gemini before version 3 answers such a request with an error."""
    model = NamedModel(model_name=name, profile=GEMINI)
    assert supports_provider_strategy(model)
    assert supports_provider_strategy(model, with_tools=True) is with_tools


@wrap_model_call
def with_look(request: Any) -> Any:
    """Offer a tool that the agent does not have."""
    return (yield request.override(tools=[*request.tools, look]))


@wrap_model_call
def with_bound_look(request: Any) -> Any:
    """Ask a model that a tool is bound to."""
    return (yield request.override(model=request.model.bind_tools([look])))


@wrap_model_call
def with_look_in_settings(request: Any) -> Any:
    """Pass the provider a tool as a setting."""
    return (yield request.override(model_settings={"tools": [{"google_search": {}}]}))


run_all = wrap_tool_call(through)
"""A layer that may run tools which the agent does not have."""


@each(
    "tools, stack, by_provider",
    [
        ([], [], True),
        ([look], [], False),
        ([{"google_search": {}}], [], False),
        ([], [with_look, run_all], False),
        ([], [with_bound_look], False),
        ([], [with_look_in_settings], False),
    ],
)
def test_any_tools_count(call: Any, tools: Any, stack: list[Any], by_provider: bool) -> None:
    step: Any = GOOD if by_provider else TOOL_CALL
    model = NamedModel(steps=[step], model_name="gemini-2.5-flash", profile=GEMINI)
    agent = create_agent(model, tools, middleware=stack, response_format=Weather)
    assert call(agent, ASK)["structured_response"] == Weather(degrees=18)
    assert ("response_format" in model.requests[0].kwargs) is by_provider


def test_an_answer_is_finished_by_the_strategy_that_was_asked_for(call: Any) -> None:
    """A layer leaves out the result of the output tool, which only this request had."""

    @wrap_model_call
    def answer_alone(request: Any) -> Any:
        return (yield request).result[0]

    model = NamedModel(steps=[TOOL_CALL], model_name="gemini-2.5-flash", profile=GEMINI)
    stack = [answer_alone, with_look, run_all]
    result = call(create_agent(model, middleware=stack, response_format=Weather), ASK)
    assert result["structured_response"] == Weather(degrees=18)
    assert [m.type for m in result["messages"]] == ["human", "ai", "tool"]


def test_fallbacks_of_a_model_must_take_the_schema_too(call: Any) -> None:
    first = NamedModel(steps=[ConnectionError("down")], model_name="gpt-5")
    other = NamedModel(steps=[TOOL_CALL], model_name="llama-3")
    model: Any = first.with_fallbacks([other])
    agent = create_agent(model, response_format=Weather)
    assert call(agent, ASK)["structured_response"] == Weather(degrees=18)


@each("format_", [Weather, AutoStrategy(Weather)])
@each("name, by_provider", [("gpt-5", True), ("llama-3", False)])
def test_auto_strategy_fits_a_model(call: Any, format_: Any, name: str, by_provider: bool) -> None:
    step: Any = GOOD if by_provider else TOOL_CALL
    model = NamedModel(steps=[step], model_name=name)
    result = call(create_agent(model, response_format=format_), ASK)
    assert result["structured_response"] == Weather(degrees=18)
    assert model.requests[0].tools == ([] if by_provider else ["Weather"])
    assert ("response_format" in model.requests[0].kwargs) is by_provider


def test_auto_strategy_suits_the_model_a_layer_takes(call: Any) -> None:
    """For each call: a fallback to another provider gets its own form."""
    other = NamedModel(steps=[GOOD], model_name="gpt-5")

    @wrap_model_call
    def fall_back(request: Any) -> Any:
        try:
            return (yield request)
        except ConnectionError:
            return (yield request.override(model=other))

    first = NamedModel(steps=[ConnectionError("down")], model_name="llama-3")
    agent = create_agent(first, middleware=[fall_back], response_format=Weather)
    assert call(agent, ASK)["structured_response"] == Weather(degrees=18)
    assert first.requests[0].tools == ["Weather"]
    assert other.requests[0].tools == []


def test_a_union_always_means_the_tool_strategy(call: Any) -> None:
    model = NamedModel(steps=[[{"name": "News", "args": {"headline": "Sun"}}]], model_name="gpt-5")
    either: Any = Weather | News
    result = call(create_agent(model, response_format=either), ASK)
    assert result["structured_response"] == News(headline="Sun")
    assert model.requests[0].tools == ["Weather", "News"]
