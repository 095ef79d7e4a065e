"""Another model answers if one fails or refuses, and receives a request that it understands."""

from __future__ import annotations

import pickle
from functools import partial
from typing import Any

import pytest
from langchain_core.callbacks import get_usage_metadata_callback
from langchain_core.exceptions import ModelRefusalError as CoreRefusalError
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt
from stack_agents import agent_of, reply

from agent_factory import Flow, ModelRequest, OutputError, TurnError, create_agent, wrap_model_call
from agent_factory import middleware as m
from agent_factory.structured_output import ProviderStrategy, ToolStrategy
from agent_factory.testing import Reply, ScriptedChatModel
from samples import THREAD, Answer, Gpt, add, in_memory, last_text, scripted, texts
from tables import each

ASK: Any = {"messages": [HumanMessage("Go on")]}
ADD = [{"name": "add", "args": {"a": 1, "b": 2}}]


class Claude(ScriptedChatModel):
    model_name: str = "claude-3"


def down(times: int = 1) -> ScriptedChatModel:
    return ScriptedChatModel([ConnectionError("first is down")] * times)


def test_when_all_models_fail_the_last_error_lists_every_failure_once(call: Any) -> None:
    """Also if the same exception is raised again."""
    other = Gpt(steps=[KeyError("quota")] * 2)
    agent = create_agent(down(2), middleware=[m.ModelFallbackMiddleware(other)])
    for _ in range(2):
        with pytest.raises(KeyError, match="quota") as caught:
            call(agent, ASK)
    notes = [n for n in caught.value.__notes__ if n.startswith("Model ")]
    assert notes == [
        "Model 1, ScriptedChatModel: ConnectionError: first is down",
        "Model 2, Gpt gpt-5: KeyError: 'quota'",
    ]


@each("handle", [TimeoutError, (TimeoutError, KeyError), lambda e: False])
def test_exceptions_outside_handle_are_raised_at_once(call: Any, handle: Any) -> None:
    fallback = ScriptedChatModel([])
    agent = create_agent(down(), middleware=[m.ModelFallbackMiddleware(fallback, handle=handle)])
    with pytest.raises(ConnectionError) as caught:
        call(agent, ASK)
    assert not fallback.requests
    assert not [n for n in getattr(caught.value, "__notes__", ()) if n.startswith("Model ")]


def test_a_predicate_selects_the_exceptions_that_lead_to_another_model(call: Any) -> None:
    hi, other = ScriptedChatModel(["Hi."]), (ScriptedChatModel([]), {"temperature": 0})
    fallback = m.ModelFallbackMiddleware(hi, other, handle=lambda error: "down" in str(error))
    assert reply(call, down(), fallback).text == "Hi."
    assert fallback.models == [hi, other[0]]


# What is the first model's own stays with it


@wrap_model_call
def for_the_first(request: ModelRequest[Any]) -> Flow[Any]:
    """Ask as one asks the first model's provider."""
    settings = {"cache_control": {"type": "ephemeral"}, "strict": True, "temperature": 0.5}
    tools = [*request.tools, {"type": "web_search_20250305", "name": "web_search"}]
    choice = {"type": "tool", "name": "add"}
    return (yield request.override(model_settings=settings, tools=tools, tool_choice=choice))


def with_search(request: ModelRequest[Any]) -> ModelRequest[Any]:
    portable = m.portable_request(request.override(model=Claude(steps=[])), request.model)
    return portable.override(tools=[*portable.tools, {"type": "web_search"}])


PORTABLE = {"temperature": 0.5, "tool_choice": "add"}


@each(
    "terms, kwargs, tools",
    [
        (lambda other: other, PORTABLE, ["add"]),
        (lambda other: (other, {"seed": 1}), {"seed": 1, "tool_choice": "add"}, ["add"]),
        (lambda other: (other, with_search), PORTABLE, ["add", "web_search"]),
        (lambda other: other.bind(seed=7), {**PORTABLE, "seed": 7}, ["add"]),
    ],
)
def test_another_provider_gets_what_it_understands_and_what_is_set_for_it(
    call: Any, terms: Any, kwargs: dict[str, Any], tools: list[str]
) -> None:
    first, other = Claude(steps=[ConnectionError("down")]), Gpt(steps=["Hi."])
    reply(call, first, for_the_first, m.ModelFallbackMiddleware(terms(other)), tools=[add])
    assert "cache_control" in first.requests[0].kwargs
    assert first.requests[0].tools == ["add", "web_search"]
    assert (other.requests[0].kwargs, other.requests[0].tools) == (kwargs, tools)


def test_a_function_without_a_return_value_is_reported(call: Any) -> None:
    terms: Any = lambda request: None  # noqa: E731  # the mistake is that it returns nothing
    third = ScriptedChatModel([])
    fallback = m.ModelFallbackMiddleware((ScriptedChatModel([]), terms), third)
    with pytest.raises(TypeError, match="model 1 must return a ModelRequest, got None"):
        reply(call, down(), fallback)
    assert not third.requests


THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "abc"}


def test_thoughts_are_sent_only_to_the_provider_that_wrote_them(call: Any) -> None:
    """In a tool loop where the first model comes back, fails again, and comes back."""
    other_says = AIMessage([THOUGHT, {"type": "text", "text": "Adding."}], tool_calls=[call_add()])
    first = Claude(steps=[ConnectionError(), ConnectionError(), "Three."])
    other = Gpt(steps=[other_says, ADD])
    result = call(create_agent(first, [add], middleware=[m.ModelFallbackMiddleware(other)]), ASK)
    shown_to_first = first.requests[1].messages[1]
    assert (shown_to_first.content, shown_to_first.tool_calls) == ("Adding.", [call_add()])  # type: ignore[attr-defined]
    assert other.requests[1].messages[1].content == other_says.content
    said = result["messages"][1]
    assert said.content == other_says.content
    assert said.response_metadata["lc_written_by"].endswith(".Gpt")
    assert "lc_written_by" not in result["messages"][-1].response_metadata


def call_add() -> Any:
    return {**ADD[0], "id": "call_1", "type": "tool_call"}


# Structured answers


GIVEN = [{"name": "Answer", "args": {"number": 3}}]
WRITTEN = '{"number": 3}'


@each(
    "first, other, format_",
    [
        (Gpt, Claude, Answer),
        (Gpt, Claude, ProviderStrategy(Answer, strict=True)),
        (Claude, Gpt, Answer),
    ],
)
@each("tools", [(), (add,)])
def test_a_fallback_gives_the_structured_answer_in_its_own_way(
    call: Any, first: Any, other: Any, format_: Any, tools: Any
) -> None:
    """By its provider, or by a tool."""
    by_provider = other is Gpt
    down, up = first(steps=[ConnectionError()]), other(steps=[WRITTEN if by_provider else GIVEN])
    stack = [m.ModelFallbackMiddleware(up)]
    result = call(create_agent(down, tools, middleware=stack, response_format=format_), ASK)
    assert result["structured_response"] == Answer(number=3)
    for model, is_by_provider in ((down, not by_provider), (up, by_provider)):
        assert ("response_format" in model.requests[0].kwargs) is is_by_provider
    assert ("Answer" in up.requests[0].tools) is not by_provider


@each("tools", [(), (add,)])
def test_a_bad_answer_of_a_fallback_is_explained_and_asked_for_again(call: Any, tools: Any) -> None:
    wrong = [{"name": "Answer", "args": {"number": "many"}}]
    first, other = Gpt(steps=[ConnectionError(), WRITTEN]), Claude(steps=[wrong])
    stack = [m.ModelFallbackMiddleware(other)]
    agent = create_agent(first, tools, middleware=stack, response_format=ProviderStrategy(Answer))
    result = call(agent, ASK)
    assert result["structured_response"] == Answer(number=3)
    assert [m.type for m in result["messages"]] == ["human", "ai", "tool", "ai"]


def test_a_model_that_cannot_give_the_structured_answer_has_failed(call: Any) -> None:
    strategy = ToolStrategy(Answer, handle_errors=False)

    def answer(step: Any) -> Any:
        stack = [m.ModelFallbackMiddleware(ScriptedChatModel([step]))]
        agent = agent_of(["prose"], *stack, response_format=strategy)
        return call(agent, ASK)["structured_response"]

    assert answer(GIVEN) == Answer(number=3)
    with pytest.raises(OutputError) as caught:
        answer("more prose")
    assert caught.value.ai_message is not None
    assert caught.value.ai_message.text == "more prose"


# Control flow, limits, streams, other layers


@each(
    "outer",
    [
        m.ModelFallbackMiddleware(ScriptedChatModel([])),
        m.ModelRefusalMiddleware(ScriptedChatModel([])),
        m.ModelRetryMiddleware(),
    ],
)
def test_an_interrupt_does_not_count_as_a_failure(call: Any, outer: Any) -> None:
    @wrap_model_call
    def asks(request: ModelRequest[Any]) -> Flow[Any]:
        interrupt("Shall I?")
        return (yield request)

    agent = create_agent(ScriptedChatModel(["Done."]), middleware=[outer, asks], **in_memory())
    assert call(agent, ASK, THREAD)["__interrupt__"][0].value == "Shall I?"
    assert last_text(call(agent, Command(resume=True), THREAD)) == "Done."


def test_a_limit_that_is_used_up_does_not_count_as_a_failure(call: Any) -> None:
    @wrap_model_call
    def used_up(request: ModelRequest[Any]) -> Flow[Any]:
        yield from ()
        raise m.ModelCallLimitExceededError(1, 1, 1, None)

    fallback = m.ModelFallbackMiddleware(ScriptedChatModel([]))
    with pytest.raises(m.ModelCallLimitExceededError) as caught:
        reply(call, ScriptedChatModel([]), fallback, used_up)
    assert not [n for n in caught.value.__notes__ if n.startswith("Model ")]


def test_a_model_without_tool_calling_is_replaced(call: Any) -> None:
    fallback = m.ModelFallbackMiddleware(ScriptedChatModel(["Hi."]))
    toolless = FakeListChatModel(responses=["never"])
    assert reply(call, toolless, fallback, tools=[add]).text == "Hi."


def test_tokens_of_a_failed_model_are_in_the_stream_but_not_in_the_history(collect: Any) -> None:
    stack = [m.ModelFallbackMiddleware(ScriptedChatModel(["All is well."]))]
    model = ScriptedChatModel([Reply(chunks=["Half "], error=ConnectionError("cut off"))])
    agent = create_agent(model, middleware=stack, **in_memory())
    streamed: dict[str, str] = {}
    for chunk, _ in collect(agent, ASK, THREAD, stream_mode="messages"):
        streamed[chunk.id] = streamed.get(chunk.id, "") + chunk.text
    assert sorted(streamed.values()) == ["All is well.", "Half "]
    assert [m.text for m in agent.get_state(THREAD).values["messages"]] == ["Go on", "All is well."]


retry = partial(m.ModelRetryMiddleware, max_retries=1, initial_delay=0)


@each("inside, settings", [(True, {}), (True, {"on_failure": "error"}), (False, {})])
def test_a_retry_asks_each_model_again(call: Any, inside: bool, settings: Any) -> None:
    """Further in before the next model, also where it gives up in words; further out after all."""
    first, second = down(2), ScriptedChatModel([ConnectionError(), "Hi."])
    stack: list[Any] = [m.ModelFallbackMiddleware(second), retry(**settings)]
    assert reply(call, first, *(stack if inside else stack[::-1])).text == "Hi."
    first.assert_done()
    second.assert_done()


@each("inside", [True, False])
def test_the_failure_message_of_a_retry_is_kept_when_all_models_fail(
    call: Any, inside: bool
) -> None:
    fallback = m.ModelFallbackMiddleware(ScriptedChatModel([KeyError("second is down")] * 2))
    stack: list[Any] = [fallback, retry()] if inside else [retry(), fallback]
    assert "second is down" in reply(call, down(2), *stack).text


# Refusals


SORRY = "I'm sorry, I can't help with that."
CALL: Any = {"name": "add", "args": {"a": 1, "b": 2}, "id": "1", "type": "tool_call"}


def refusing(text: str = SORRY, **fields: Any) -> AIMessage:
    usage: Any = {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}
    metadata = {"stop_reason": "refusal", "model_name": "strict"}
    return AIMessage(text, response_metadata=metadata, usage_metadata=usage, **fields)


@each(
    "metadata",
    [
        {"stop_reason": "refusal"},
        {"finish_reason": "content_filter"},
        {"finish_reason": "SAFETY"},
        {"finish_reason": "FinishReason.PROHIBITED_CONTENT"},
        {"finish_reason": "content-filter"},
        {"stopReason": "guardrail_intervened"},
        {"stopReason": "content_filtered"},
        {"finish_reason": "ERROR_TOXIC"},
        {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}},
        {"prompt_feedback": {"block_reason": "OTHER"}},
        {"prompt_feedback": {"block_reason": 1}},
    ],
)
def test_a_providers_reason_or_block_is_a_refusal(metadata: dict[str, Any]) -> None:
    assert m.refusal_of(AIMessage("", response_metadata=metadata))
    block: Any = {"type": "refusal", "refusal": SORRY}
    for part in (block, {"type": "non_standard", "value": block}):
        assert m.refusal_of(AIMessage([part])) == "refusal"
    assert m.refusal_of(AIMessage("", additional_kwargs={"refusal": SORRY})) == "refusal"


def test_another_model_answers_what_one_refused_and_does_not_see_the_refusal(call: Any) -> None:
    no, second = AIMessage([{"type": "refusal", "refusal": SORRY}]), scripted("Gladly.")
    agent = create_agent(scripted(no), middleware=[m.ModelRefusalMiddleware(second)])
    assert texts(call(agent, ASK)) == ["Go on", "Gladly."]
    assert texts({"messages": second.requests[0].messages}) == ["Go on"]


@each(
    "answer",
    [
        AIMessage(SORRY),
        AIMessage(SORRY, response_metadata={"stop_reason": "end_turn"}),
        AIMessage("", response_metadata={"finish_reason": "length"}),
        AIMessage("", response_metadata={"finish_reason": None, "stop_reason": 5}),
        AIMessage("", response_metadata={"incomplete_details": {"reason": "max_output_tokens"}}),
        AIMessage("", response_metadata={"incomplete_details": None, "prompt_feedback": "x"}),
        AIMessage("", response_metadata={"prompt_feedback": {"block_reason": 0}}),
        AIMessage("", additional_kwargs={"refusal": None}),
        AIMessage(["refusal", {"type": "text", "text": "refusal"}]),
    ],
)
def test_prose_and_other_stop_reasons_do_not_count(answer: AIMessage) -> None:
    assert m.refusal_of(answer) is None


def test_a_predicate_may_judge_the_text(call: Any) -> None:
    refusal = m.ModelRefusalMiddleware(scripted("Gladly."), is_refusal=lambda m: "sorry" in m.text)
    answer = reply(call, scripted(SORRY), refusal)
    assert answer.text == "Gladly."
    assert [r["reason"] for r in answer.response_metadata["refusals"]] == ["is_refusal"]
    answer = reply(call, scripted(SORRY), m.ModelRefusalMiddleware(scripted()))  # without it
    assert answer.text == SORRY
    assert "refusals" not in answer.response_metadata


def test_the_answer_lists_the_tokens_of_refusals(call: Any) -> None:
    refusal = m.ModelRefusalMiddleware(scripted(refusing(), "Yes."), scripted("Gladly."))
    with get_usage_metadata_callback() as counted:
        answer = reply(call, scripted(refusing()), refusal)
    assert [r["model"] for r in answer.response_metadata["refusals"]] == ["ScriptedChatModel"] * 2
    (first, _) = answer.response_metadata["refusals"]
    assert first["reason"] == "stop_reason: refusal"
    assert first["usage_metadata"]["total_tokens"] == 7
    assert counted.usage_metadata["strict"]["total_tokens"] == 14


def test_when_all_refuse_the_error_lists_all_refusals(call: Any) -> None:
    stack = [m.ModelRefusalMiddleware(scripted(refusing("Nor will I.")), on_refusal="error")]
    agent = create_agent(scripted(refusing()), middleware=stack, checkpointer=InMemorySaver())
    with pytest.raises(m.ModelRefusalError, match="stop_reason: refusal") as caught:
        call(agent, ASK, THREAD)
    error = caught.value
    assert isinstance(error, TurnError)
    assert error.code == "AF347"
    assert error.ai_message.text == SORRY
    assert [r["usage_metadata"]["total_tokens"] for r in error.refusals] == [7, 7]
    assert [m.type for m in agent.get_state(THREAD).values["messages"]] == ["human"]


@each("settings", [{}, {"on_refusal": "error"}])
def test_without_another_model_a_refusal_is_an_error(call: Any, settings: Any) -> None:
    """As in langchain; what handles the error of langchain-core handles it."""
    with pytest.raises(CoreRefusalError) as caught:
        reply(call, scripted(refusing()), m.ModelRefusalMiddleware(**settings))
    error = caught.value
    assert isinstance(error, m.ModelRefusalError)
    assert error.raw_message is error.ai_message
    assert error.ai_message.text == SORRY
    assert not error.is_retryable


def test_an_error_of_a_refusal_travels_between_processes() -> None:
    error = pickle.loads(pickle.dumps(m.ModelRefusalError(refusing(), [])))
    assert isinstance(error, m.ModelRefusalError)
    assert error.raw_message == error.ai_message
    assert error.ai_message.text == SORRY


@each(
    "error, text",
    [
        (CoreRefusalError("No.", raw_message=refusing()), SORRY),
        (CoreRefusalError("No."), "No."),
        (m.ModelRefusalError(refusing(), []), SORRY),
    ],
)
def test_a_refusal_that_is_raised_counts(call: Any, error: Exception, text: str) -> None:
    stack = [m.ModelRefusalMiddleware(scripted("Gladly.", error))]
    agent = create_agent(scripted(error, error), middleware=stack)
    assert call(agent, ASK)["messages"][-1].text == "Gladly."
    assert call(agent, ASK)["messages"][-1].text == text


def test_refusals_of_a_middleware_further_in_are_listed(call: Any) -> None:
    inner = m.ModelRefusalMiddleware(scripted(refusing()), on_refusal="error", name="inner")
    answer = reply(call, scripted(refusing()), m.ModelRefusalMiddleware(scripted("Gladly.")), inner)
    reasons = [refusal["reason"] for refusal in answer.response_metadata["refusals"]]
    assert reasons == ["stop_reason: refusal"] * 2


def test_when_all_refuse_the_first_refusal_is_the_answer_without_its_calls(call: Any) -> None:
    ran: list[int] = []

    def note(number: int) -> str:
        """Note."""
        ran.append(number)
        return "noted"

    calls: Any = [{"name": "note", "args": {"number": 1}, "id": "1", "type": "tool_call"}]
    no = refusing(tool_calls=calls, additional_kwargs={"tool_calls": [{"id": "1"}]})
    refusal = m.ModelRefusalMiddleware(scripted(refusing()))
    last = reply(call, scripted(no), refusal, tools=[note])
    assert (last.text, last.tool_calls, last.additional_kwargs) == (SORRY, [], {})
    assert ran == []
    assert len(last.response_metadata["refusals"]) == 2


FORMATS = [
    Answer,
    ProviderStrategy(Answer),
    ToolStrategy(Answer, handle_errors=False),
    ToolStrategy(Answer, max_retries=0),
]


@each("format_", FORMATS)
@each("tools", [(), (add,)])
def test_another_model_gives_the_structured_answer_and_a_final_refusal_is_not_retried(
    call: Any, format_: Any, tools: Any
) -> None:
    class Plain(ScriptedChatModel):
        model_name: str = "plain"

    def ask(other: Any) -> Any:
        stack = [m.ModelRefusalMiddleware(other)]
        agent = create_agent(scripted(refusing()), tools, middleware=stack, response_format=format_)
        return call(agent, ASK)

    assert ask(Plain(steps=[GIVEN]))["structured_response"] == Answer(number=3)
    result = ask(scripted(refusing()))
    assert (texts(result), result["structured_response"]) == (["Go on", SORRY], None)


def test_an_exception_is_left_to_a_fallback(call: Any) -> None:
    """So is a refusal by all, where it is raised."""
    down = ConnectionError("down")
    with pytest.raises(ConnectionError):
        reply(call, scripted(refusing()), m.ModelRefusalMiddleware(scripted(down)))
    for outer in (True, False):
        refusal = m.ModelRefusalMiddleware(scripted("Gladly.", "Gladly."))
        fallback = m.ModelFallbackMiddleware(scripted(refusing(), refusing()))
        stack: Any = [refusal, fallback] if outer else [fallback, refusal]
        assert reply(call, scripted(down), *stack).text == "Gladly."
    refusal = m.ModelRefusalMiddleware(on_refusal="error")
    stack = m.ModelFallbackMiddleware(scripted("Well.")), refusal
    assert reply(call, scripted(refusing()), *stack).text == "Well."


def test_settings_of_one_provider_do_not_leak_to_one_that_does_not_refuse(call: Any) -> None:
    @wrap_model_call
    def cached(request: ModelRequest[Any]) -> Flow[Any]:
        return (yield request.override(model_settings={"cache_control": {}, "temperature": 0}))

    other = scripted("Gladly.")
    answer = reply(call, scripted(refusing()), cached, m.ModelRefusalMiddleware(other))
    assert other.requests[0].kwargs == {"temperature": 0}
    assert answer.response_metadata["lc_written_by"] == "unknown"


def test_the_other_model_may_call_tools_and_its_thoughts_stay_with_it(call: Any) -> None:
    thought = AIMessage([{"type": "thinking", "thinking": "Hm."}], tool_calls=[CALL])
    first = scripted(refusing(), "Three.")
    reply(call, first, m.ModelRefusalMiddleware(scripted(thought)), tools=[add])
    assert first.requests[1].messages[1].content == ""
