"""Whatever a model says, a structured run ends: with a fresh answer, or with an OutputError."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage

from agent_factory import OutputError, create_agent
from agent_factory.state.history import is_valid
from agent_factory.structured_output import ProviderStrategy, ToolStrategy
from agent_factory.testing import ScriptedChatModel
from weather import Weather, look

RETRIES = 2


def output(degrees: int) -> dict[str, Any]:
    return {"name": "Weather", "args": {"degrees": degrees}}


LOOK: dict[str, Any] = {"name": "look", "args": {"city": "Rome"}}
STRAY: dict[str, Any] = {"name": "serch", "args": {}}
UNREADABLE: Any = {"name": "Weather", "args": "{deg", "id": "bad", "error": "no JSON"}

GOOD = ["good", "good next to a tool"]
BAD = ["invalid", "invalid next to a tool", "twice", "prose", "unreadable"]
DETOUR = ["tool", "two tools"]


def by_tool(kind: str) -> Any:
    """What the model says, where a tool stands for the schema."""
    return {
        "good": [output(18)],
        "good next to a tool": [LOOK, output(18)],
        "invalid": [output(99)],
        "invalid next to a tool": [output(99), LOOK],
        "twice": [output(18), output(18)],
        "prose": "It is fine.",
        "unreadable": AIMessage("", invalid_tool_calls=[UNREADABLE]),
        "stray": [STRAY],
        "tool": [LOOK],
        "two tools": [LOOK, LOOK],
    }[kind]


def by_provider(kind: str) -> Any:
    return {
        "good": '{"degrees": 18}',
        "invalid": '{"degrees": 99}',
        "prose": "It is fine.",
        "tool": [LOOK],
        "two tools": [LOOK, LOOK],
    }[kind]


def expected(script: list[str]) -> tuple[bool | None, int]:
    """Whether a run gives an answer, and how often its model is asked; None: it is still asking."""
    failures = 0
    for asked, kind in enumerate(script, start=1):
        if kind in GOOD:
            return True, asked
        failures += kind not in DETOUR
        if failures > RETRIES:
            return False, asked
    return None, len(script)


def outcome(agent: Any, a: bool) -> Any:
    """What a run gives, or the OutputError it ends with."""
    question = {"messages": [("user", "How is the weather?")]}
    try:
        return asyncio.run(agent.ainvoke(question)) if a else agent.invoke(question)
    except OutputError as error:
        return error


def check(script: list[str], say: Any, tools: list[Any], format_: Any, a: bool) -> None:
    ends, asked = expected(script)
    if ends is None:
        script, asked = [*script, "good"], asked + 1
    model = ScriptedChatModel([say(kind) for kind in script])
    result = outcome(create_agent(model, tools, response_format=format_), a)
    assert isinstance(result, OutputError) is (ends is False)
    assert len(model.requests) == asked
    shown: list[Any] = [record.messages for record in model.requests]
    assert all(is_valid(messages) for messages in shown)
    if isinstance(result, OutputError):
        assert result.retries == RETRIES
    else:
        assert result["structured_response"] == Weather(degrees=18)
        assert is_valid(result["messages"])


@pytest.mark.parametrize("a", [False, True], ids=["sync", "async"])
@settings.get_profile("costly")
@given(st.lists(st.sampled_from([*GOOD, *BAD, *DETOUR]), max_size=7))
@example(script=["unreadable"] * 3)
@example(script=["tool", "prose", "twice", "two tools", "invalid next to a tool"])
def test_with_tools_and_an_output_tool(a: bool, script: list[str]) -> None:
    """wanted 2, 5: never silent, never spinning."""
    format_ = ToolStrategy(Weather, max_retries=RETRIES)
    check(script, by_tool, [look], format_, a)


@pytest.mark.parametrize("a", [False, True], ids=["sync", "async"])
@settings.get_profile("costly")
@given(
    st.lists(
        st.sampled_from(["good", "invalid", "twice", "prose", "unreadable", "stray"]), max_size=7
    )
)
@example(script=["unreadable", "stray", "prose"])
def test_without_tools_and_with_an_output_tool(a: bool, script: list[str]) -> None:
    format_ = ToolStrategy(Weather, max_retries=RETRIES)
    check(script, by_tool, [], format_, a)


@pytest.mark.parametrize("a", [False, True], ids=["sync", "async"])
@settings.get_profile("costly")
@given(st.lists(st.sampled_from(["good", "invalid", "prose", "tool", "two tools"]), max_size=7))
def test_with_tools_and_a_providers_answers(a: bool, script: list[str]) -> None:
    format_ = ProviderStrategy(Weather, max_retries=RETRIES)
    check(script, by_provider, [look], format_, a)
