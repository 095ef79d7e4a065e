"""What a bad structured answer leads to: every form of `handle_errors`, and the cap."""

from __future__ import annotations

import dataclasses
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


def test_true_reports_the_error_to_the_model(call: Any, bad: Any) -> None:
    """A38."""
    built, model = agent(bad, answer(), handle_errors=True)
    assert call(built, ASK)["structured_response"] == Weather(degrees=18)
    assert all(text.startswith("Error: ") for text in error_texts(model))
    assert all(text.endswith("\n Please fix your mistakes.") for text in error_texts(model))


@pytest.mark.parametrize("kind", BAD)
def test_false_raises(call: Any, kind: str) -> None:
    step, error = BAD[kind]
    built, _ = agent(step, handle_errors=False)
    with pytest.raises(error) as caught:
        call(built, ASK)
    assert isinstance(caught.value.ai_message, AIMessage)
    assert isinstance(caught.value, OutputError)


def test_a_string_is_reported_to_the_model(call: Any, bad: Any) -> None:
    built, model = agent(bad, answer(), handle_errors="Try harder.")
    assert call(built, ASK)["structured_response"] == Weather(degrees=18)
    assert set(error_texts(model)) == {"Try harder."}


@pytest.mark.parametrize(
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


@pytest.mark.parametrize("types", [KeyError, (KeyError, OSError), MultipleStructuredOutputsError])
def test_exception_types_that_do_not_fit_let_the_error_out(call: Any, types: Any) -> None:
    built, _ = agent(INVALID, handle_errors=types)
    with pytest.raises(StructuredOutputValidationError) as caught:
        call(built, ASK)
    assert isinstance(caught.value.source, ValidationError)
    assert caught.value.tool_name == "Weather"


def test_the_result_of_a_function_is_reported_to_the_model(call: Any, bad: Any) -> None:
    seen: list[Exception] = []

    def explain(error: Exception) -> str:
        seen.append(error)
        return "From the function."

    built, model = agent(bad, answer(), handle_errors=explain)
    assert call(built, ASK)["structured_response"] == Weather(degrees=18)
    assert set(error_texts(model)) == {"From the function."}
    assert len(seen) == 1
    assert isinstance(seen[0], StructuredOutputError)


def test_a_function_may_refuse_by_raising(call: Any, bad: Any) -> None:
    def refuse(error: Exception) -> str:
        raise PermissionError("enough") from error

    built, _ = agent(bad, handle_errors=refuse)
    with pytest.raises(PermissionError, match="enough"):
        call(built, ASK)


def test_a_function_that_returns_no_string_is_named_in_the_error(call: Any, bad: Any) -> None:
    built, _ = agent(bad, handle_errors=lambda error: None)
    with pytest.raises(TurnError, match="handle_errors"):
        call(built, ASK)


# --- the cap ------------------------------------------------------------------------------------


@pytest.mark.parametrize("tools", [[], [look]])
@pytest.mark.parametrize("retries", [0, 1, 2])
def test_a_model_is_called_again_up_to_max_retries_times(
    call: Any, bad: Any, retries: int, tools: Any
) -> None:
    """wanted 2, 5."""
    built, model = agent(*[bad] * 9, tools=tools, max_retries=retries)
    with pytest.raises(OutputError, match=f"retries: {retries}") as caught:
        call(built, ASK)
    assert len(model.requests) == retries + 1
    assert caught.value.retries == retries
    assert caught.value.ai_message is not None
    assert isinstance(caught.value.__cause__, StructuredOutputError)


@pytest.mark.parametrize(
    ("strategy", "by_provider"),
    [(AutoStrategy, False), (AutoStrategy, True), (ProviderStrategy, True)],
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


def test_three_retries_by_default(call: Any, bad: Any) -> None:
    built, model = agent(*[bad] * 9)
    with pytest.raises(OutputError):
        call(built, ASK)
    assert len(model.requests) == 4


def test_mistakes_of_different_kinds_count_together(call: Any) -> None:
    built, model = agent(INVALID, PROSE, SEVERAL, INVALID, answer(), max_retries=3)
    with pytest.raises(OutputError):
        call(built, ASK)
    assert len(model.requests) == 4


def test_two_bad_answers_of_one_message_count_once(call: Any) -> None:
    built, _ = agent(SEVERAL, SEVERAL, answer(), max_retries=2)
    assert call(built, ASK)["structured_response"] == Weather(degrees=18)


def test_a_good_last_try_is_a_good_answer(call: Any, bad: Any) -> None:
    built, _ = agent(bad, bad, answer(), max_retries=2)
    assert call(built, ASK)["structured_response"] == Weather(degrees=18)


def test_tool_calls_in_between_do_not_reset_the_count(call: Any) -> None:
    """wanted 2: a limit can't be bypassed by a detour."""
    detour = [{"name": "look", "args": {"city": "Rome"}}]
    built, model = agent(*[INVALID, detour] * 5, tools=[look], max_retries=2)
    with pytest.raises(OutputError):
        call(built, ASK)
    assert len(model.requests) == 5


def test_the_count_of_retries_restarts_with_a_new_user_message(call: Any, bad: Any) -> None:
    model = ScriptedChatModel([bad, answer(), bad, answer()])
    built = create_agent(
        model,
        response_format=ToolStrategy(Weather | News, max_retries=1),
        checkpointer=InMemorySaver(),
    )
    for _ in range(2):
        assert call(built, ASK, THREAD)["structured_response"] == Weather(degrees=18)


def test_a_thread_that_failed_can_be_asked_again(call: Any, bad: Any) -> None:
    model = ScriptedChatModel([bad, bad, answer()])
    built = create_agent(
        model,
        response_format=ToolStrategy(Weather | News, max_retries=1),
        checkpointer=InMemorySaver(),
    )
    with pytest.raises(OutputError):
        call(built, ASK, THREAD)
    assert call(built, ASK, THREAD)["structured_response"] == Weather(degrees=18)


def test_asking_for_tools_that_do_not_exist_is_capped_too(call: Any) -> None:
    strange = [{"name": "serch", "args": {}}]
    built, model = agent(*[strange] * 9, max_retries=2)
    with pytest.raises(OutputError, match="tools that do not exist"):
        call(built, ASK)
    assert len(model.requests) == 3


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


@pytest.mark.parametrize("schema", [Even, Checked])
@pytest.mark.parametrize("by", ["tool", "provider"])
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


def test_an_invalid_answer_to_the_strategy_of_a_layer_is_asked_for_again(
    call: Any, bad: Any
) -> None:
    model = ScriptedChatModel([bad, answer()])
    built = create_agent(model, [look], middleware=[structured])
    assert call(built, ASK)["structured_response"] == Weather(degrees=18)


def test_without_an_edge_back_to_the_model_an_invalid_answer_raises(call: Any, bad: Any) -> None:
    """A25: without tools and without its own response_format the agent asks but once."""
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
