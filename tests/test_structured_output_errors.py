"""What a bad structured answer leads to: every form of `handle_errors`, and the cap."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel, ValidationError, field_validator

from agent_factory import OutputError, TurnError, before_model, create_agent, wrap_model_call
from agent_factory.structured_output import (
    AutoStrategy,
    MissingStructuredOutputError,
    MultipleStructuredOutputsError,
    ProviderStrategy,
    StructuredOutputError,
    StructuredOutputValidationError,
    ToolStrategy,
)
from agent_factory.testing import ScriptedChatModel
from tables import each
from weather import News, Weather, look

ASK: Any = {"messages": [("user", "How is the weather?")]}
THREAD: Any = {"configurable": {"thread_id": "1"}}


def answer(degrees: Any = 18) -> list[dict[str, Any]]:
    return [{"name": "Weather", "args": {"degrees": degrees}}]


INVALID = answer(99)
SEVERAL = [*answer(), {"name": "News", "args": {"headline": "Sun"}}]
PROSE = "It is fine."
BAD: dict[str, tuple[Any, type[StructuredOutputError]]] = {
    "invalid": (INVALID, StructuredOutputValidationError),
    "several": (SEVERAL, MultipleStructuredOutputsError),
    "prose": (PROSE, MissingStructuredOutputError),
}


@pytest.fixture(params=BAD)
def bad(request: pytest.FixtureRequest) -> Any:
    return BAD[request.param][0]


def agent(*steps: Any, tools: Any = (), **options: Any) -> tuple[Any, ScriptedChatModel]:
    model = ScriptedChatModel(list(steps))
    return create_agent(
        model, list(tools), response_format=ToolStrategy(Weather | News, **options)
    ), model


def error_texts(model: ScriptedChatModel) -> list[str]:
    """What was reported to the model about its first answer."""
    after = model.requests[1].messages[2:]
    return [message.text for message in after]


# --- the forms of handle_errors -----------------------------------------------------------------


@each(
    "handle, pattern",
    [
        (True, r"Error: (?s:.*)\n Please fix your mistakes\."),
        ("Try harder.", r"Try harder\."),
        (lambda error: f"From {isinstance(error, StructuredOutputError)}.", r"From True\."),
    ],
)
def test_a_handled_error_is_reported_to_the_model(
    call: Any, bad: Any, handle: Any, pattern: str
) -> None:
    """A38."""
    built, model = agent(bad, answer(), handle_errors=handle)
    assert call(built, ASK)["structured_response"] == Weather(degrees=18)
    assert error_texts(model)
    assert all(re.fullmatch(pattern, text) for text in error_texts(model))


@each("kind", BAD)
def test_false_raises(call: Any, kind: str) -> None:
    step, error = BAD[kind]
    built, _ = agent(step, handle_errors=False)
    with pytest.raises(error) as caught:
        call(built, ASK)
    assert isinstance(caught.value.ai_message, AIMessage)
    assert isinstance(caught.value, OutputError)


@each(
    "types",
    [
        StructuredOutputError,
        ValueError,
        ValidationError,
        (KeyError, ValidationError),
        StructuredOutputValidationError,
    ],
)
def test_exception_types_cover_the_error_and_its_source(call: Any, types: Any) -> None:
    built, model = agent(INVALID, answer(), handle_errors=types)
    assert call(built, ASK)["structured_response"] == Weather(degrees=18)
    assert "less than or equal to 60" in error_texts(model)[0]


@each("types", [KeyError, (KeyError, OSError), MultipleStructuredOutputsError])
def test_exception_types_that_do_not_fit_let_the_error_out(call: Any, types: Any) -> None:
    built, _ = agent(INVALID, handle_errors=types)
    with pytest.raises(StructuredOutputValidationError) as caught:
        call(built, ASK)
    assert isinstance(caught.value.source, ValidationError)
    assert caught.value.tool_name == "Weather"


def test_a_function_may_refuse_by_raising_and_has_to_return_a_string(call: Any, bad: Any) -> None:
    seen: list[Exception] = []

    def refuse(error: Exception) -> str:
        seen.append(error)
        raise PermissionError("enough") from error

    built, _ = agent(bad, handle_errors=refuse)
    with pytest.raises(PermissionError, match="enough"):
        call(built, ASK)
    assert len(seen) == 1
    built, _ = agent(bad, handle_errors=lambda error: None)
    with pytest.raises(TurnError, match="handle_errors"):
        call(built, ASK)


# --- the cap ------------------------------------------------------------------------------------


@each("tools", [[], [look]])
@each("retries", [0, 1, 2, 3])
def test_a_model_is_called_again_up_to_max_retries_times(
    call: Any, bad: Any, retries: int, tools: Any
) -> None:
    """wanted 2, 5: three times by default."""
    options = {} if retries == 3 else {"max_retries": retries}
    built, model = agent(*[bad] * 9, tools=tools, **options)
    with pytest.raises(OutputError, match=f"retries: {retries}") as caught:
        call(built, ASK)
    assert len(model.requests) == retries + 1
    assert caught.value.retries == retries
    assert caught.value.ai_message is not None
    assert isinstance(caught.value.__cause__, StructuredOutputError)


@each(
    "strategy, by_provider", [(AutoStrategy, False), (AutoStrategy, True), (ProviderStrategy, True)]
)
def test_every_strategy_takes_max_retries(call: Any, strategy: Any, by_provider: bool) -> None:
    """AutoStrategy too, so that nobody has to know how the model answers."""
    profile: Any = {"structured_output": by_provider}
    model = ScriptedChatModel(["{}" if by_provider else answer(99)] * 9, profile=profile)
    built = create_agent(model, response_format=strategy(Weather, max_retries=1))
    with pytest.raises(OutputError, match="retries: 1"):
        call(built, ASK)
    assert len(model.requests) == 2
    assert ("response_format" in model.requests[0].kwargs) is by_provider


DETOUR = [{"name": "look", "args": {"city": "Rome"}}]
STRANGE = [{"name": "serch", "args": {}}]


@each(
    "steps, tools, retries, requests, words",
    [
        ([INVALID, PROSE, SEVERAL, INVALID, answer()], [], 3, 4, "retries: 3"),
        ([INVALID, DETOUR] * 5, [look], 2, 5, "retries: 2"),
        ([STRANGE] * 9, [], 2, 3, "tools that do not exist"),
    ],
)
def test_mistakes_of_all_kinds_count_together(
    call: Any, steps: Any, tools: Any, retries: int, requests: int, words: str
) -> None:
    """wanted 2: no detour bypasses a limit."""
    built, model = agent(*steps, tools=tools, max_retries=retries)
    with pytest.raises(OutputError, match=words):
        call(built, ASK)
    assert len(model.requests) == requests


def test_a_good_last_try_is_a_good_answer(call: Any, bad: Any) -> None:
    """Two bad answers of one message count once."""
    built, _ = agent(bad, bad, answer(), max_retries=2)
    assert call(built, ASK)["structured_response"] == Weather(degrees=18)


def test_the_count_of_retries_restarts_with_a_new_user_message(call: Any, bad: Any) -> None:
    """Also after a run that failed."""
    model = ScriptedChatModel([bad, answer(), bad, answer(), bad, bad, answer()])
    built = create_agent(
        model,
        response_format=ToolStrategy(Weather | News, max_retries=1),
        checkpointer=InMemorySaver(),
    )
    for _ in range(2):
        assert call(built, ASK, THREAD)["structured_response"] == Weather(degrees=18)
    with pytest.raises(OutputError):
        call(built, ASK, THREAD)
    assert call(built, ASK, THREAD)["structured_response"] == Weather(degrees=18)


def test_the_cap_holds_while_a_summary_shortens_the_history(call: Any) -> None:
    """A layer that shows the model less must not make it spin."""

    @wrap_model_call
    def short(request: Any) -> Any:
        return (yield request.override(messages=request.messages[:1]))

    model = ScriptedChatModel([INVALID] * 9)
    built = create_agent(
        model, middleware=[short], response_format=ToolStrategy(Weather, max_retries=2)
    )
    with pytest.raises(OutputError):
        call(built, ASK)
    assert len(model.requests) == 3


# --- what a schema raises -----------------------------------------------------------------------


@dataclasses.dataclass
class Even:
    number: int

    def __post_init__(self) -> None:
        if self.number % 2:
            raise LookupError("odd")


class Checked(BaseModel):
    number: int

    @field_validator("number")
    @classmethod
    def _even(cls, number: int) -> int:
        if number % 2:
            raise LookupError("odd")
        return number


@each("schema", [Even, Checked])
@each("by", ["tool", "provider"])
def test_whatever_a_schema_raises_makes_the_answer_a_bad_one(
    call: Any, schema: Any, by: str
) -> None:
    name = schema.__name__
    if by == "tool":
        steps: list[Any] = [[{"name": name, "args": {"number": n}}] for n in (1, 2)]
        format_: Any = ToolStrategy(schema)
    else:
        steps = ['{"number": 1}', '{"number": 2}']
        format_ = ProviderStrategy(schema)
    model = ScriptedChatModel(steps)
    result = call(create_agent(model, response_format=format_), ASK)
    assert result["structured_response"] == schema(number=2)
    assert "odd" in model.requests[1].messages[-1].text


# --- a strategy of a layer ----------------------------------------------------------------------


@wrap_model_call
def structured(request: Any) -> Any:
    """Asks for an answer where the agent has no response_format."""
    return (yield request.override(response_format=ToolStrategy(Weather | News)))


def test_an_invalid_answer_to_the_strategy_of_a_layer_is_asked_for_again_if_there_is_an_edge(
    call: Any, bad: Any
) -> None:
    """A25: without tools and without its own response_format the agent asks but once."""
    built = create_agent(ScriptedChatModel([bad, answer()]), [look], middleware=[structured])
    assert call(built, ASK)["structured_response"] == Weather(degrees=18)
    built = create_agent(ScriptedChatModel([bad]), middleware=[structured])
    with pytest.raises(OutputError):
        call(built, ASK)


def test_a_user_message_of_a_hook_does_not_reset_the_count(call: Any, bad: Any) -> None:
    """wanted 2: a reminder before each call is not a new question."""

    @before_model
    def remind(state: Any, runtime: Any) -> Any:
        return {"messages": [HumanMessage("Remember the rules.")]}

    model = ScriptedChatModel([bad] * 9)
    built = create_agent(
        model, middleware=[remind], response_format=ToolStrategy(Weather | News, max_retries=2)
    )
    with pytest.raises(OutputError, match="retries: 2"):
        call(built, ASK)
    assert len(model.requests) == 3
