"""Structured answers by a tool call: good ones, what a bad one leads to, and the cap."""

from __future__ import annotations

import asyncio
import dataclasses
import re
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import ToolException, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.types import Command
from pydantic import BaseModel, ValidationError, field_validator
from stack_agents import agent_of, kept_agent

from agent_factory import ModelResponse, before_model, create_agent, wrap_model_call
from agent_factory import middleware as m
from agent_factory.errors import OutputError, SpecError, TurnError
from agent_factory.runtime.model_node import WAITS
from agent_factory.state.history import is_valid
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
from samples import THREAD, results_by_id, texts
from tables import each
from weather import News, Weather, look

ASK: Any = {"messages": [("user", "How is the weather?")]}


def answer(degrees: Any = 18, **more: Any) -> dict[str, Any]:
    return {"name": "Weather", "args": {"degrees": degrees}, **more}


def looking(**more: Any) -> dict[str, Any]:
    return {"name": "look", "args": {"city": "Rome"}, **more}


GOOD, LOOK = answer(id="out"), looking(id="look")


# --- a good answer ------------------------------------------------------------------------------


def test_a_structured_answer_ends_the_run(call: Any) -> None:
    """A38: a tool message says so, and the value is in structured_response."""
    result = call(agent_of([[GOOD]], response_format=ToolStrategy(Weather)), ASK)
    assert result["structured_response"] == Weather(degrees=18)
    last = result["messages"][-1]
    assert isinstance(last, ToolMessage)
    assert (last.tool_call_id, last.name, last.status) == ("out", "Weather", "success")
    assert last.text == "Returning structured response: degrees=18"
    format_ = ToolStrategy(Weather, tool_message_content="Noted.")
    result = call(create_agent(ScriptedChatModel([[answer()]]), response_format=format_), ASK)
    assert texts(result)[-1] == "Noted."


@before_model
def reminds(state: Any, runtime: Any) -> Any:
    """Adds a message of the user that asks nothing."""
    return {"messages": [HumanMessage("Remember the rules.")]}


def overriding(**changes: Any) -> Any:
    """A layer that passes on a request with changes."""

    @wrap_model_call
    def override(request: Any) -> Any:
        return (yield request.override(**changes))

    return override


# --- an answer next to other calls ----------------------------------------------------------------


@tool(return_direct=True)
def direct(city: str) -> str:
    """Look, and show the result as it is."""
    return look(city)


@tool
def stop(city: str) -> Any:
    """Look, and end the run."""
    return Command(update={"jump_to": "end", "messages": [result_of(city)]})


def result_of(city: str) -> ToolMessage:
    return ToolMessage(city, tool_call_id="look", name="stop")


def fail(city: str) -> str:
    """Fail."""
    raise ToolException(city)


ROME = {"city": "Rome"}
REJECT = {"decisions": [{"type": "reject", "message": "No."}]}
EACH_CALL = m.HumanInTheLoopMiddleware({"look": True}, interrupt_mode="per_call")
FAILS: dict[str, tuple[str, Any, list[Any]]] = {
    "unknown": ("lok", ROME, []),
    "invalid arguments": ("look", {"town": 1}, []),
    "no JSON": ("look", "{cit", []),
    "raises": ("fail", ROME, [m.ToolErrorMiddleware()]),
    "a limit": ("look", ROME, [m.ToolCallLimitMiddleware(tool_name="look", run_limit=0)]),
    "not offered": ("look", ROME, [overriding(tools=[])]),
    "rejected": ("look", ROME, [m.HumanInTheLoopMiddleware({"look": True})]),
    "rejected alone": ("look", ROME, [EACH_CALL]),
    "rejected in front of a hook": ("look", ROME, [reminds, EACH_CALL]),
}
AGENTS: list[dict[str, Any]] = [
    {},
    {"fused": False, "checkpoints": "full"},
    {"fused": "turn", "checkpoints": "delta"},
]


def among_calls(name: str, args: Any, **options: Any) -> tuple[Any, ScriptedChatModel]:
    """An agent whose model answers next to two other calls, and then alone."""
    other: Any = {"name": name, "args": args, "id": "look"}
    calls: Any = [GOOD, {**LOOK, "name": "direct", "id": "too"}]
    parts: Any = {"tool_calls": [*calls, other]}
    if isinstance(args, str):
        parts = {"tool_calls": calls, "invalid_tool_calls": [{**other, "error": None}]}
    model = ScriptedChatModel([AIMessage("", **parts), [answer(20)]])
    options = {"checkpointer": InMemorySaver(), **options}
    tools: Any = [look, fail, direct, stop]
    return create_agent(model, tools, response_format=ToolStrategy(Weather), **options), model


@each("kind", FAILS)
@each("options", AGENTS)
def test_an_answer_next_to_a_call_that_fails_is_not_taken(
    call: Any, kind: str, options: Any
) -> None:
    """guards G10: the model reads why, and answers again."""
    name, args, members = FAILS[kind]
    agent, model = among_calls(name, args, middleware=members, **options)
    result = call(agent, ASK, THREAD)
    if "__interrupt__" in result:
        assert result.get("structured_response") is None
        assert agent.get_state(THREAD).values["structured_response"] is None
        result = call(agent, Command(resume={result["__interrupt__"][0].id: REJECT}), THREAD)
    assert result["structured_response"] == Weather(degrees=20)
    shown = {m.tool_call_id: m for m in model.requests[1].messages if isinstance(m, ToolMessage)}
    assert (shown["out"].status, shown["look"].status) == ("error", "error")
    why = f"Error: this answer was not taken, because .*{name} did not succeed"
    assert re.match(why, shown["out"].text)
    assert is_valid(result["messages"])
    assert len(model.requests) == 2


@each("name", ["look", "direct", "stop"])
@each("options", [*AGENTS, {"middleware": [reminds]}, {"interrupt_before": ["tools"]}])
def test_an_answer_next_to_calls_that_succeed_ends_the_run_after_them(
    call: Any, name: str, options: Any
) -> None:
    """A38, A16 rule 2; each state of the thread before that is without the answer."""
    agent, model = among_calls(name, ROME, **options)
    result = call(agent, ASK, THREAD)
    if "interrupt_before" in options:
        assert result["structured_response"] is None
        result = call(agent, None, THREAD)
    assert result["structured_response"] == Weather(degrees=18)
    results = results_by_id(result)
    assert results["out"] == "Returning structured response: degrees=18"
    assert sorted(results) == ["look", "out", "too"]
    assert len(model.requests) == 1
    *_, at_tools = (s for s in agent.get_state_history(THREAD) if s.next[-1:] == ("tools",))
    assert at_tools.values["structured_response"] is None
    assert results_by_id(at_tools.values) == {"out": WAITS}


def test_an_answer_that_waited_is_not_taken_in_the_next_run(call: Any) -> None:
    agent, model = among_calls("look", ROME, interrupt_before=["tools"])
    call(agent, ASK, THREAD)
    assert call(agent, ASK, THREAD)["structured_response"] == Weather(degrees=20)
    shown = {m.tool_call_id: m for m in model.requests[1].messages if isinstance(m, ToolMessage)}
    assert shown["out"].text.startswith("Error: this answer was not taken")


@each("members", [[], [reminds]])
def test_the_result_of_an_answer_that_waited_is_guarded(call: Any, members: Any) -> None:
    guard = m.PIIMiddleware("degrees", detector="degrees=18", apply_to_tool_results=True)
    agent, _ = among_calls("look", ROME, middleware=[*members, guard])
    assert results_by_id(call(agent, ASK, THREAD))["out"].endswith("[REDACTED_DEGREES]")


def test_streams_show_an_answer_when_it_is_final(call: Any) -> None:
    agent, _ = among_calls("look", ROME, fused=False)
    parts = agent.stream(ASK, THREAD, stream_mode="updates")
    updates = [(name, update) for part in parts for name, update in part.items()]
    assert [name for name, _ in updates] == ["model", "tools", "tools", "model"]
    answers = [update.get("structured_response") for _, update in updates]
    assert answers == [None, None, None, Weather(degrees=18)]
    assert not any(key.startswith("loop_") for _, update in updates for key in update)


# --- a bad answer -------------------------------------------------------------------------------


@pytest.mark.parametrize("tools", [[], [look]])
def test_an_invalid_answer_is_explained_and_asked_for_again(call: Any, tools: Any) -> None:
    """A38, A24."""
    model = ScriptedChatModel([[answer(99, id="out")], [answer(18)]])
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
    model = ScriptedChatModel([[answer(99, id="out"), LOOK], [answer(18, id="again")]])
    result = call(create_agent(model, [look], response_format=ToolStrategy(Weather)), ASK)
    assert result["structured_response"] == Weather(degrees=18)
    seen = {m.tool_call_id: m for m in model.requests[1].messages if isinstance(m, ToolMessage)}
    assert seen["look"].text == "18 degrees in Rome"
    assert seen["out"].status == "error"


BROKEN: Any = {"name": "Weather", "args": "{deg", "id": "bad", "error": None}


@each("tools", [[], [look]])
@each(
    "step, kind, words",
    [
        ("It is fine.", "human", "Call Weather or News to give it."),
        ('{"degrees": 99}', "human", "Call Weather or News to give it."),
        ('{"degrees": 18, "headline": "Sun"}', "human", "Call Weather or News to give it."),
        (AIMessage("", invalid_tool_calls=[BROKEN]), "tool", "Error"),
        ([{"name": "serch", "args": {}}], "tool", "Error: serch is not a valid tool, try one of ["),
        (
            [answer(18, id="1"), {"name": "News", "args": {"headline": "Sun"}, "id": "2"}],
            "tool",
            "several structured answers (Weather, News)",
        ),
    ],
)
def test_a_turn_without_an_answer_is_noticed(
    call: Any, step: Any, kind: str, words: str, tools: Any
) -> None:
    """wanted 5: never silent, also without a tools node."""
    model = ScriptedChatModel([step, [answer()]])
    result = call(create_agent(model, tools, response_format=ToolStrategy(Weather | News)), ASK)
    assert result["structured_response"] == Weather(degrees=18)
    assert len(model.requests) == 2
    message = model.requests[1].messages[-1]
    assert message.type == kind
    assert words in message.text


# --- fresh --------------------------------------------------------------------------------------


def test_an_answer_belongs_to_its_turn(call: Any) -> None:
    """A21: the value left in the thread does not answer the next question, also if it fails."""
    saver = InMemorySaver()

    def agent(*steps: Any, **options: Any) -> Any:
        options |= {"response_format": ToolStrategy(Weather), "checkpointer": saver}
        return create_agent(ScriptedChatModel([*steps]), [look], **options)

    asked = agent([answer(18)], [looking()], [answer(20)])
    assert call(asked, ASK, THREAD)["structured_response"] == Weather(degrees=18)
    assert call(asked, ASK, THREAD)["structured_response"] == Weather(degrees=20)
    call(agent([looking()], interrupt_before=["tools"]), ASK, THREAD)
    assert asked.get_state(THREAD).values["structured_response"] is None
    # The thread may be carried on by an agent that asks for no structure.
    plain = create_agent(ScriptedChatModel(["Fine."]), checkpointer=saver)
    assert call(plain, ASK, THREAD).get("structured_response") is None


@each("checkpoints", ["delta", "full"])
@each("form", [Weather, ToolStrategy(Weather | News), {"title": "Weather", "type": "object"}])
def test_a_strict_serializer_knows_the_classes_of_answers(
    call: Any, monkeypatch: pytest.MonkeyPatch, checkpoints: Any, form: Any
) -> None:
    """As with LANGGRAPH_STRICT_MSGPACK=true, also of an answer that waits for other calls."""
    monkeypatch.setattr("langgraph._internal._serde.STRICT_MSGPACK_ENABLED", True)
    saver = InMemorySaver(serde=JsonPlusSerializer(allowed_msgpack_modules=None))
    model = ScriptedChatModel([[answer(18), looking()]])
    options: Any = {"checkpointer": saver, "checkpoints": checkpoints, "response_format": form}
    agent = create_agent(model, [look], interrupt_before=["tools"], **options)
    call(agent, ASK, THREAD)
    result = call(agent, None, THREAD)["structured_response"]
    assert result == (Weather(degrees=18) if not isinstance(form, dict) else {"degrees": 18})
    assert agent.get_state(THREAD).values["structured_response"] == result


def test_the_answer_is_from_the_model_and_asked_for(call: Any) -> None:
    agent = create_agent(ScriptedChatModel([[answer(5)]]), response_format=ToolStrategy(Weather))
    result = call(agent, {**ASK, "structured_response": Weather(degrees=1)})
    assert result["structured_response"] == Weather(degrees=5)
    assert "structured_response" not in call(create_agent(ScriptedChatModel(["Hi."])), ASK)


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

    agent = agent_of([[answer()]], watch, response_format=ToolStrategy(Weather))
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

    agent = agent_of([step], message_only, tools=tools, response_format=strategy)
    assert call(agent, ASK)["structured_response"] == Weather(degrees=18)


INVALID = [answer(99)]
SEVERAL = [answer(), {"name": "News", "args": {"headline": "Sun"}}]
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
    return [message.text for message in model.requests[1].messages[2:]]


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
    built, model = agent(bad, [answer()], handle_errors=handle)
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
    built, model = agent(INVALID, [answer()], handle_errors=types)
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


@each("tools, options, retries", [([], {"max_retries": 1}, 1), ([look], {}, 3)])
@each(
    "strategy, by_provider", [(AutoStrategy, False), (AutoStrategy, True), (ProviderStrategy, True)]
)
def test_every_strategy_takes_max_retries(
    call: Any, strategy: Any, by_provider: bool, tools: Any, options: Any, retries: int
) -> None:
    """AutoStrategy too, so that nobody has to know how the model answers."""
    bad: Any = ["{}", "No."] if by_provider else [[answer(99)]]
    model = ScriptedChatModel(bad * 9, profile={"structured_output": by_provider})
    built = create_agent(model, tools, response_format=strategy(Weather, **options))
    with pytest.raises(OutputError, match=f"retries: {retries}"):
        call(built, ASK)
    assert len(model.requests) == retries + 1
    assert ("response_format" in model.requests[0].kwargs) is by_provider


STRANGE = [{"name": "serch", "args": {}}]


@each(
    "steps, tools, retries, requests, words",
    [
        ([INVALID, PROSE, SEVERAL, INVALID, [answer()]], [], 3, 4, "retries: 3"),
        ([INVALID, [looking()]] * 5, [look], 2, 5, "retries: 2"),
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


def test_the_count_of_retries_restarts_with_a_new_user_message(call: Any, bad: Any) -> None:
    """Also after a run that failed."""
    model = ScriptedChatModel([bad, [answer()], bad, [answer()], bad, bad, [answer()]])
    built = kept_agent(model, response_format=ToolStrategy(Weather | News, max_retries=1))
    for _ in range(2):
        assert call(built, ASK, THREAD)["structured_response"] == Weather(degrees=18)
    with pytest.raises(OutputError):
        call(built, ASK, THREAD)
    assert call(built, ASK, THREAD)["structured_response"] == Weather(degrees=18)


@wrap_model_call
def shortens(request: Any) -> Any:
    """Shows the model less."""
    return (yield request.override(messages=request.messages[:1]))


@each("member", [shortens, reminds])
def test_the_cap_holds_whatever_middleware_shows_or_adds(call: Any, bad: Any, member: Any) -> None:
    """wanted 2."""
    model = ScriptedChatModel([bad] * 9)
    format_ = ToolStrategy(Weather | News, max_retries=2)
    built = create_agent(model, middleware=[member], response_format=format_)
    with pytest.raises(OutputError, match="retries: 2"):
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
    built = create_agent(ScriptedChatModel([bad, [answer()]]), [look], middleware=[structured])
    assert call(built, ASK)["structured_response"] == Weather(degrees=18)
    built = create_agent(ScriptedChatModel([bad]), middleware=[structured])
    with pytest.raises(OutputError):
        call(built, ASK)


# --- whatever a model says, a run ends ----------------------------------------------------------

RETRIES = 2

GOOD_KINDS = ["good", "good next to a tool"]
BAD_KINDS = ["invalid", "invalid next to a tool", "twice", "prose", "unreadable"]
DETOUR_KINDS = ["tool", "two tools"]


def by_tool(kind: str) -> Any:
    """What the model says, where a tool stands for the schema."""
    return {
        "good": [answer(18)],
        "good next to a tool": [looking(), answer(18)],
        "invalid": [answer(99)],
        "invalid next to a tool": [answer(99), looking()],
        "twice": [answer(18), answer(18)],
        "prose": "It is fine.",
        "unreadable": AIMessage("", invalid_tool_calls=[BROKEN]),
        "stray": STRANGE,
        "tool": [looking()],
        "two tools": [looking(), looking()],
    }[kind]


def by_provider(kind: str) -> Any:
    return {
        "good": '{"degrees": 18}',
        "invalid": '{"degrees": 99}',
        "prose": "It is fine.",
        "tool": [looking()],
        "two tools": [looking(), looking()],
    }[kind]


def end_of(script: list[str]) -> tuple[bool | None, int]:
    """Whether a run gives an answer, and how often its model is asked; None: it is still asking."""
    failures = 0
    for asked, kind in enumerate(script, start=1):
        if kind in GOOD_KINDS:
            return True, asked
        failures += kind not in DETOUR_KINDS
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


def check_script(script: list[str], say: Any, tools: list[Any], format_: Any, a: bool) -> None:
    ends, asked = end_of(script)
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
@given(st.lists(st.sampled_from([*GOOD_KINDS, *BAD_KINDS, *DETOUR_KINDS]), max_size=7))
@example(script=["unreadable"] * 3)
@example(script=["tool", "prose", "twice", "two tools", "invalid next to a tool"])
def test_with_tools_and_an_output_tool(a: bool, script: list[str]) -> None:
    """wanted 2, 5: never silent, never spinning."""
    check_script(script, by_tool, [look], ToolStrategy(Weather, max_retries=RETRIES), a)


@pytest.mark.parametrize("a", [False, True], ids=["sync", "async"])
@settings.get_profile("costly")
@given(
    st.lists(
        st.sampled_from(["good", "invalid", "twice", "prose", "unreadable", "stray"]), max_size=7
    )
)
@example(script=["unreadable", "stray", "prose"])
def test_without_tools_and_with_an_output_tool(a: bool, script: list[str]) -> None:
    check_script(script, by_tool, [], ToolStrategy(Weather, max_retries=RETRIES), a)


@pytest.mark.parametrize("a", [False, True], ids=["sync", "async"])
@settings.get_profile("costly")
@given(st.lists(st.sampled_from(["good", "invalid", "prose", "tool", "two tools"]), max_size=7))
def test_with_tools_and_a_providers_answers(a: bool, script: list[str]) -> None:
    format_ = ProviderStrategy(Weather, max_retries=RETRIES)
    check_script(script, by_provider, [look], format_, a)
