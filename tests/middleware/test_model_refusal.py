"""A refusing answer goes to another model, and does not enter the history."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.callbacks import get_usage_metadata_callback
from langchain_core.exceptions import ModelRefusalError as CoreRefusalError
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from stack_agents import reply

from agent_factory import Flow, ModelRequest, TurnError, create_agent, wrap_model_call
from agent_factory.middleware import (
    ModelFallbackMiddleware,
    ModelRefusalError,
    ModelRefusalMiddleware,
    refusal_of,
)
from agent_factory.structured_output import ProviderStrategy, ToolStrategy
from agent_factory.testing import ScriptedChatModel
from samples import Answer, add, scripted, texts
from tables import each

Call = Callable[..., Any]
ASK: Any = {"messages": [HumanMessage("Go on")]}
ONE: Any = {"configurable": {"thread_id": "1"}}
SORRY = "I'm sorry, I can't help with that."
ADD: Any = {"name": "add", "args": {"a": 1, "b": 2}, "id": "1", "type": "tool_call"}


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
    assert refusal_of(AIMessage("", response_metadata=metadata))
    block: Any = {"type": "refusal", "refusal": SORRY}
    for part in (block, {"type": "non_standard", "value": block}):
        assert refusal_of(AIMessage([part])) == "refusal"
    assert refusal_of(AIMessage("", additional_kwargs={"refusal": SORRY})) == "refusal"


def test_another_model_answers_what_one_refused_and_does_not_see_the_refusal(call: Call) -> None:
    no, second = AIMessage([{"type": "refusal", "refusal": SORRY}]), scripted("Gladly.")
    agent = create_agent(scripted(no), middleware=[ModelRefusalMiddleware(second)])
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
    assert refusal_of(answer) is None


def test_a_predicate_may_judge_the_text(call: Call) -> None:
    refusal = ModelRefusalMiddleware(scripted("Gladly."), is_refusal=lambda m: "sorry" in m.text)
    answer = reply(call, scripted(SORRY), refusal)
    assert answer.text == "Gladly."
    assert [r["reason"] for r in answer.response_metadata["refusals"]] == ["is_refusal"]
    answer = reply(call, scripted(SORRY), ModelRefusalMiddleware(scripted()))  # without it
    assert answer.text == SORRY
    assert "refusals" not in answer.response_metadata


def test_the_answer_lists_the_tokens_of_refusals(call: Call) -> None:
    refusal = ModelRefusalMiddleware(scripted(refusing(), "Yes."), scripted("Gladly."))
    with get_usage_metadata_callback() as counted:
        answer = reply(call, scripted(refusing()), refusal)
    assert [r["model"] for r in answer.response_metadata["refusals"]] == ["ScriptedChatModel"] * 2
    (first, _) = answer.response_metadata["refusals"]
    assert first["reason"] == "stop_reason: refusal"
    assert first["usage_metadata"]["total_tokens"] == 7
    assert counted.usage_metadata["strict"]["total_tokens"] == 14


def test_when_all_refuse_the_first_refusal_is_the_answer(call: Call) -> None:
    stack = [ModelRefusalMiddleware(scripted(refusing("Nor will I.")))]
    result = call(create_agent(scripted(refusing()), middleware=stack), ASK)
    assert [m.text for m in result["messages"]] == ["Go on", SORRY]
    assert len(result["messages"][-1].response_metadata["refusals"]) == 2


def test_when_all_refuse_the_error_lists_all_refusals(call: Call) -> None:
    stack = [ModelRefusalMiddleware(scripted(refusing("Nor will I.")), on_refusal="error")]
    agent = create_agent(scripted(refusing()), middleware=stack, checkpointer=InMemorySaver())
    with pytest.raises(ModelRefusalError, match="stop_reason: refusal") as caught:
        call(agent, ASK, ONE)
    error = caught.value
    assert isinstance(error, TurnError)
    assert error.code == "AF347"
    assert error.ai_message.text == SORRY
    assert [r["usage_metadata"]["total_tokens"] for r in error.refusals] == [7, 7]
    assert [m.type for m in agent.get_state(ONE).values["messages"]] == ["human"]


@each("settings", [{}, {"on_refusal": "error"}])
def test_without_another_model_a_refusal_is_an_error(call: Call, settings: Any) -> None:
    """As in langchain; what handles the error of langchain-core handles it."""
    with pytest.raises(CoreRefusalError) as caught:
        reply(call, scripted(refusing()), ModelRefusalMiddleware(**settings))
    error = caught.value
    assert isinstance(error, ModelRefusalError)
    assert error.raw_message is error.ai_message
    assert error.ai_message.text == SORRY
    assert not error.is_retryable


def test_an_error_of_a_refusal_travels_between_processes() -> None:
    error = pickle.loads(pickle.dumps(ModelRefusalError(refusing(), [])))
    assert isinstance(error, ModelRefusalError)
    assert error.raw_message == error.ai_message
    assert error.ai_message.text == SORRY


@each(
    "error, text",
    [
        (CoreRefusalError("No.", raw_message=refusing()), SORRY),
        (CoreRefusalError("No."), "No."),
        (ModelRefusalError(refusing(), []), SORRY),
    ],
)
def test_a_refusal_that_is_raised_counts(call: Call, error: Exception, text: str) -> None:
    stack = [ModelRefusalMiddleware(scripted("Gladly.", error))]
    agent = create_agent(scripted(error, error), middleware=stack)
    assert call(agent, ASK)["messages"][-1].text == "Gladly."
    assert call(agent, ASK)["messages"][-1].text == text


def test_refusals_of_a_middleware_further_in_are_listed(call: Call) -> None:
    inner = ModelRefusalMiddleware(scripted(refusing()), on_refusal="error", name="inner")
    answer = reply(call, scripted(refusing()), ModelRefusalMiddleware(scripted("Gladly.")), inner)
    reasons = [refusal["reason"] for refusal in answer.response_metadata["refusals"]]
    assert reasons == ["stop_reason: refusal"] * 2


def test_tool_calls_of_a_refusal_do_not_run(call: Call) -> None:
    ran: list[int] = []

    def note(number: int) -> str:
        """Note."""
        ran.append(number)
        return "noted"

    calls: Any = [{"name": "note", "args": {"number": 1}, "id": "1", "type": "tool_call"}]
    no = refusing(tool_calls=calls, additional_kwargs={"tool_calls": [{"id": "1"}]})
    refusal = ModelRefusalMiddleware(scripted(refusing()))
    last = reply(call, scripted(no), refusal, tools=[note])
    assert (last.text, last.tool_calls, last.additional_kwargs) == (SORRY, [], {})
    assert ran == []


GIVEN = [{"name": "Answer", "args": {"number": 3}}]
FORMATS = [
    Answer,
    ProviderStrategy(Answer),
    ToolStrategy(Answer, handle_errors=False),
    ToolStrategy(Answer, max_retries=0),
]


@each("format_", FORMATS)
@each("tools", [(), (add,)])
def test_another_model_gives_the_structured_answer_and_a_final_refusal_is_not_retried(
    call: Call, format_: Any, tools: Any
) -> None:
    class Plain(ScriptedChatModel):
        model_name: str = "plain"

    def ask(other: Any) -> Any:
        stack = [ModelRefusalMiddleware(other)]
        agent = create_agent(scripted(refusing()), tools, middleware=stack, response_format=format_)
        return call(agent, ASK)

    assert ask(Plain(steps=[GIVEN]))["structured_response"] == Answer(number=3)
    result = ask(scripted(refusing()))
    assert (texts(result), result["structured_response"]) == (["Go on", SORRY], None)


def test_an_exception_is_left_to_a_fallback(call: Call) -> None:
    """So is a refusal by all, where it is raised."""
    down = ConnectionError("down")
    with pytest.raises(ConnectionError):
        reply(call, scripted(refusing()), ModelRefusalMiddleware(scripted(down)))
    for outer in (True, False):
        refusal = ModelRefusalMiddleware(scripted("Gladly.", "Gladly."))
        fallback = ModelFallbackMiddleware(scripted(refusing(), refusing()))
        stack: Any = [refusal, fallback] if outer else [fallback, refusal]
        assert reply(call, scripted(down), *stack).text == "Gladly."
    stack = ModelFallbackMiddleware(scripted("Well.")), ModelRefusalMiddleware(on_refusal="error")
    assert reply(call, scripted(refusing()), *stack).text == "Well."


def test_settings_of_one_provider_do_not_leak_to_another(call: Call) -> None:
    @wrap_model_call
    def cached(request: ModelRequest[Any]) -> Flow[Any]:
        return (yield request.override(model_settings={"cache_control": {}, "temperature": 0}))

    other = scripted("Gladly.")
    answer = reply(call, scripted(refusing()), cached, ModelRefusalMiddleware(other))
    assert other.requests[0].kwargs == {"temperature": 0}
    assert answer.response_metadata["lc_written_by"] == "unknown"


def test_the_other_model_may_call_tools_and_its_thoughts_stay_with_it(call: Call) -> None:
    thought = AIMessage([{"type": "thinking", "thinking": "Hm."}], tool_calls=[ADD])
    first = scripted(refusing(), "Three.")
    reply(call, first, ModelRefusalMiddleware(scripted(thought)), tools=[add])
    assert first.requests[1].messages[1].content == ""


@each(
    "arguments, settings, error, problem",
    [
        ((), {"on_refusal": "keep"}, ValueError, "on_refusal='keep' needs another model"),
        ((scripted(),), {"on_refusal": "stop"}, ValueError, "on_refusal must be 'keep' or 'error'"),
        ((5,), {}, TypeError, "ModelRefusalMiddleware model 1 must be a chat model"),
        ((scripted(),), {"is_refusal": "no"}, TypeError, "is_refusal must be a plain function"),
    ],
)
def test_invalid_arguments_are_refused(
    arguments: Any, settings: Any, error: Any, problem: str
) -> None:
    with pytest.raises(error, match=problem):
        ModelRefusalMiddleware(*arguments, **settings)
