"""An answer that is empty, cut off or unreadable is asked for again, and none of its calls runs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage

from agent_factory import create_agent
from agent_factory.middleware import (
    AnswerGuardMiddleware,
    ModelCallLimitMiddleware,
    ModelFallbackMiddleware,
    ModelRefusalMiddleware,
    ProgressGuardMiddleware,
    ToolCallLimitMiddleware,
    UnusableAnswerError,
)
from agent_factory.structured_output import ProviderStrategy, ToolStrategy
from agent_factory.testing import assert_valid_history, check_middleware
from samples import Answer, last_text, scripted, texts
from tables import each

GO: Any = {"messages": [HumanMessage("Go")]}
ADD: Any = {"name": "add", "args": {"a": 2, "b": 3}, "id": "1", "type": "tool_call"}
BROKEN: Any = {"name": "add", "args": '{"a": 2', "id": "1", "error": None}
USAGE: Any = {"input_tokens": 5, "output_tokens": 9, "total_tokens": 14}


@pytest.fixture
def ran() -> list[tuple[int, int]]:
    """The calls that the tool of `agent` has run."""
    return []


def agent(
    model: Any,
    ran: Any = None,
    *,
    stack: Any = (),
    schema: Any = None,
    decisions: Any = None,
    **guard: Any,
) -> Any:
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        if ran is not None:
            ran.append((a, b))
        return a + b

    members = [*stack, AnswerGuardMiddleware(**guard)]
    options: Any = {"response_format": schema, "decisions": decisions}
    return create_agent(model, [add], middleware=members, **options)


def cut(text: Any = "", *calls: Any, reason: str = "length", **fields: Any) -> AIMessage:
    metadata = {"finish_reason": reason}
    return AIMessage(
        text, tool_calls=list(calls), response_metadata=metadata, usage_metadata=USAGE, **fields
    )


def reply(call: Any, *steps: Any, **options: Any) -> Any:
    """The last message of `agent`, whose model has these steps."""
    return call(agent(scripted(*steps), **options), GO)["messages"][-1]


# Faults

CUT = [
    {"finish_reason": "length"},  # OpenAI, Azure, Mistral, Groq, DeepSeek
    {"finish_reason": "model_length"},  # Mistral
    {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},  # Responses
    {"stop_reason": "max_tokens"},  # Anthropic
    {"stop_reason": "model_context_window_exceeded"},
    {"finish_reason": "MAX_TOKENS"},  # Gemini, Cohere
    {"finish_reason": "FinishReason.MAX_TOKENS"},  # Vertex AI
    {"stopReason": "max_tokens"},  # Bedrock's Converse API
    {"done": True, "done_reason": "length"},  # Ollama
]
MALFORMED = [
    {"finish_reason": "MALFORMED_FUNCTION_CALL"},  # Gemini
    {"stopReason": "malformed_tool_use"},  # Bedrock
]
COMPLETE = [
    {},
    {"finish_reason": "stop"},
    {"finish_reason": "tool_calls"},
    {"stop_reason": "end_turn"},
    {"stop_reason": "pause_turn"},
    {"stopReason": "tool_use"},
    {"status": "completed", "incomplete_details": None},
    {"done_reason": "stop"},
    {"prompt_feedback": {"block_reason": 0}},
]


@each("metadata", [*CUT, *MALFORMED])
def test_an_answer_that_its_provider_marks_is_asked_for_again(
    metadata: dict[str, Any], call: Any, ran: list[Any]
) -> None:
    bad = AIMessage("It i", tool_calls=[ADD], response_metadata=metadata)
    result = call(agent(scripted(bad, "It is 5."), ran), GO)
    assert texts(result) == ["Go", "It is 5."]
    assert ran == []
    (failed,) = result["messages"][-1].response_metadata["failed_answers"]
    assert failed["fault"] == ("cut" if metadata in CUT else "malformed")


@each(
    "content",
    ["", " \n", [], [{"type": "text", "text": ""}], [{"type": "reasoning", "reasoning": "Hm."}]],
)
def test_an_answer_without_content_is_empty(content: Any, call: Any) -> None:
    model = scripted(AIMessage(content, usage_metadata=USAGE), "It is 5.")
    message = call(agent(model), GO)["messages"][-1]
    assert message.text == "It is 5."
    failed = {"fault": "empty", "reason": "no text and no calls", "usage_metadata": USAGE}
    assert message.response_metadata["failed_answers"] == [failed]
    remark = model.requests[1].messages[-1]
    assert remark.text == "[Your last answer was empty. Give your answer in text, or call a tool.]"


@each(
    "answer",
    [
        *(AIMessage("It is 5.", response_metadata=metadata) for metadata in COMPLETE),
        AIMessage([{"type": "image", "url": "https://shop.example/a.png"}]),
        AIMessage("", additional_kwargs={"audio": {"data": "AA=="}}),
        AIMessage("", additional_kwargs={"tool_outputs": [{"type": "web_search_call"}]}),
        AIMessage("", invalid_tool_calls=[BROKEN]),
    ],
)
def test_an_answer_that_is_complete_or_not_text_is_left_alone(answer: AIMessage, call: Any) -> None:
    message = call(agent(scripted(answer, "It is 5.")), GO)["messages"][1]
    assert message.content == answer.content
    assert "failed_answers" not in message.response_metadata


@each(
    "refusal",
    [
        AIMessage("", response_metadata={"finish_reason": "content_filter"}),
        AIMessage("", response_metadata={"stop_reason": "refusal"}),
        AIMessage("", additional_kwargs={"refusal": "No."}),
        AIMessage("", response_metadata={"incomplete_details": {"reason": "content_filter"}}),
    ],
)
def test_a_refusal_is_left_to_its_own_middleware(refusal: AIMessage, call: Any) -> None:
    model = scripted(refusal)
    call(agent(model), GO)
    assert len(model.requests) == 1
    stack = [ModelRefusalMiddleware(scripted("Gladly.", "Gladly.")), AnswerGuardMiddleware()]
    for order in (stack, stack[::-1]):
        result = call(create_agent(scripted(refusal), middleware=order), GO)
        assert last_text(result) == "Gladly."


# What the model is asked


@each(
    "bad, remark",
    [
        (cut("Once upon a"), "Answer again, in at most half the length.]"),
        (  # also if it looks complete: integrations close the brackets of what was cut
            cut("", ADD),
            "with a call of add. No call of it ran. Make smaller calls: split the work over several"
            " of them.]",
        ),
        (
            AIMessage(
                "",
                invalid_tool_calls=[BROKEN],
                response_metadata={"stop_reason": "max_tokens"},
            ),
            "with a call of add",
        ),
        (cut(), "before it began. Think briefly, then answer.]"),  # only thoughts
    ],
)
def test_the_model_and_the_log_read_what_was_cut_and_its_calls_do_not_run(
    call: Any, ran: list[Any], bad: AIMessage, remark: str
) -> None:
    log: list[Any] = []
    model = scripted("", bad, "It is 5.")
    assert texts(call(agent(model, ran, decisions=log.append), GO)) == ["Go", "It is 5."]
    assert ran == []
    assert [len(r.messages) for r in model.requests] == [1, 2, 2]  # about the last answer alone
    text = model.requests[2].messages[-1].text
    assert text.startswith("[Your last answer was cut off at the limit of output tokens")
    assert remark in text
    (reason,) = [d.reason for d in log if d.middleware == "AnswerGuardMiddleware"]
    assert reason.startswith("asked again 2 times, the last for ")


def test_after_a_result_the_remark_is_part_of_it(call: Any) -> None:
    """Some providers reject a message of the user after a result. The thread keeps the result."""
    model = scripted([ADD], "", "It is 5.")
    assert texts(call(agent(model), GO)) == ["Go", "", "5", "It is 5."]
    last = model.requests[2].messages[-1]
    assert last.type == "tool"
    assert last.text.startswith("5\n\n[Your last answer was empty.")


# Going on


def test_a_cut_text_can_be_continued(call: Any) -> None:
    model = scripted(cut("Once upon "), cut("a time "), "there was.")
    message = call(agent(model, on_cut="continue"), GO)["messages"][-1]
    assert message.text == "Once upon a time there was."
    assert len(message.response_metadata["failed_answers"]) == 2
    second, third = model.requests[1].messages, model.requests[2].messages
    assert [m.text for m in second[:2]] == ["Go", "Once upon "]
    assert [m.text for m in third[:2]] == ["Go", "Once upon a time "]
    assert "Go on exactly where it ended." in third[2].text
    end = AIMessage([{"type": "reasoning", "reasoning": "Hm."}, {"type": "text", "text": "time."}])
    message = reply(call, cut("A "), end, on_cut="continue")
    assert message.text == "A time."
    assert [block["type"] for block in message.content] == ["text", "reasoning", "text"]
    never = reply(call, cut("one "), cut("two "), cut("three"), on_cut="continue")
    assert never.text == "one two three\n\n[The answer was cut off at the limit of output tokens.]"


def test_what_cannot_be_continued_is_asked_for_again(call: Any, ran: list[Any]) -> None:
    model = scripted(cut("Once ", ADD), cut("upon "), "", "a time.")
    found = agent(model, ran, on_cut="continue", max_retries=3)
    assert last_text(call(found, GO)) == "upon a time."
    assert ran == []
    assert [m.text[:22] for m in model.requests[3].messages] == [
        "Go",
        "upon ",
        "[Your answer was cut o",
        "[Your last answer was ",
    ]


# If no answer is usable


def test_the_longest_text_is_kept_with_a_note_and_without_calls(call: Any, ran: list[Any]) -> None:
    kwargs = {"tool_calls": [{"id": "1"}], "other": 1}
    bad = cut("On", ADD, additional_kwargs=kwargs)
    result = call(agent(scripted(cut("Once upon"), cut("Once"), bad), ran), GO)
    message = result["messages"][-1]
    assert message.text == "Once upon\n\n[The answer was cut off at the limit of output tokens.]"
    assert (message.tool_calls, message.additional_kwargs) == ([], {"other": 1})
    assert len(message.response_metadata["failed_answers"]) == 3
    assert (ran, len(result["messages"])) == ([], 2)
    message = reply(call, cut("Let me add.", ADD), ran=ran, max_retries=0, keep_failed=True)
    assert message.text.startswith("Let me add.\n\n[")
    (failed,) = message.response_metadata["failed_answers"]
    assert (failed["text"], failed["tool_calls"], ran) == ("Let me add.", [ADD], [])


@each(
    "step, note",
    [
        ("", "[The model gave no answer, 3 times in a row.]"),
        (
            AIMessage("", response_metadata=MALFORMED[0]),
            "[The model made a call that could not be read, 3 times in a row.]",
        ),
    ],
)
def test_a_note_says_what_was_wrong(step: Any, note: str, call: Any) -> None:
    assert reply(call, step, step, step).text == note


def test_an_error_can_be_raised(call: Any) -> None:
    with pytest.raises(UnusableAnswerError) as caught:
        reply(call, "", cut("Once"), max_retries=1, on_failure="error")
    assert str(caught.value).startswith(
        "[AF355] the model: gave no usable answer: empty (no text and no calls), cut "
        "(finish_reason: length)."
    )
    assert caught.value.ai_message.text == "Once"
    assert [failed["fault"] for failed in caught.value.failed_answers] == ["empty", "cut"]


def test_a_fallback_takes_the_error_for_a_failure_of_the_model(call: Any) -> None:
    fallback = ModelFallbackMiddleware(scripted("It is 5."))
    options: Any = {"max_retries": 0, "on_failure": "error"}
    assert reply(call, "", stack=[fallback], **options).text == "It is 5."


# Structured output


def test_a_cut_call_of_the_answer_is_asked_for_again(call: Any) -> None:
    wrong = {"name": "Answer", "args": {"number": 1}, "id": "9", "type": "tool_call"}
    found = agent(scripted(cut("", wrong), Answer(number=12)), schema=ToolStrategy(Answer))
    assert call(found, GO)["structured_response"] == Answer(number=12)


@each("retries", [0, 3])
def test_a_cut_text_of_the_answer_is_asked_for_again(retries: int, call: Any) -> None:
    strategy = ProviderStrategy(Answer, max_retries=retries)
    model = scripted(cut('{"number": 1'), '{"number": 12}')
    result = call(agent(model, schema=strategy, on_cut="continue"), GO)
    assert result["structured_response"] == Answer(number=12)
    assert texts(result) == ["Go", '{"number": 12}']


def test_a_text_that_could_be_parsed_is_complete(call: Any) -> None:
    result = call(agent(scripted(cut('{"number": 12}')), schema=ProviderStrategy(Answer)), GO)
    assert result["structured_response"] == Answer(number=12)
    strategy = ProviderStrategy(Answer, max_retries=0)
    result = call(agent(scripted(*[cut('{"number": 1')] * 3), schema=strategy), GO)
    assert result.get("structured_response") is None
    assert "[The answer was cut off" in last_text(result)
    with pytest.raises(Exception, match="AF3"):
        reply(call, '{"number": "x"}', schema=strategy)


# With others


def test_what_it_asks_counts_as_one_call_of_the_model(call: Any) -> None:
    limit = ModelCallLimitMiddleware(run_limit=1)
    assert reply(call, "", "", "Yes.", stack=[limit]).text == "Yes."


@each(
    "stack",
    [
        [ProgressGuardMiddleware(remark_after=1, withhold_after=1, answer_after=1)],
        [ToolCallLimitMiddleware(run_limit=1, exit_behavior="answer")],
    ],
)
def test_an_empty_last_answer_is_asked_for_again(stack: list[Any], call: Any) -> None:
    model = scripted([ADD], [{**ADD, "id": "2"}], "", "It is 5.")
    assert last_text(call(agent(model, stack=stack), GO)) == "It is 5."
    assert model.requests[3].tools == []


@each(
    "arguments, error",
    [
        ({"max_retries": -1}, "max_retries must be a whole number of at least 0, got -1."),
        ({"on_cut": "stop"}, "on_cut must be 'shorten' or 'continue', got 'stop'."),
        ({"on_failure": "end"}, "on_failure must be 'answer' or 'error', got 'end'."),
    ],
)
def test_arguments_that_cannot_be_used(arguments: dict[str, Any], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        AnswerGuardMiddleware(**arguments)


# Laws


@pytest.mark.long
def test_it_keeps_the_laws_of_middleware() -> None:
    check_middleware(AnswerGuardMiddleware)


def steps() -> st.SearchStrategy[list[Any]]:
    reasons = st.sampled_from(["stop", "length", "MALFORMED_FUNCTION_CALL", "content_filter"])
    calls = st.lists(st.just(ADD), max_size=2)
    texts = st.sampled_from(["", "It is 5."])
    return st.lists(
        st.builds(lambda t, c, r: cut(t, *c, reason=r), texts, calls, reasons), max_size=6
    )


@pytest.mark.long
@settings.get_profile("costly")
@given(
    script=steps(),
    retries=st.integers(0, 2),
    on_cut=st.sampled_from(["shorten", "continue"]),
)
def test_no_call_of_a_failed_answer_runs_and_no_failed_answer_is_kept(
    script: list[AIMessage], retries: int, on_cut: str
) -> None:
    outcomes = []
    for asynchronous in (False, True):
        ran: list[Any] = []
        model = scripted(*script, *["Done."] * 9)
        found = agent(model, ran, max_retries=retries, on_cut=on_cut)
        result = asyncio.run(found.ainvoke(GO)) if asynchronous else found.invoke(GO)
        assert_valid_history(result["messages"])
        answers = [m for m in result["messages"] if m.type == "ai"]
        for answer in answers:
            failed = answer.response_metadata.get("failed_answers", [])
            assert len(failed) <= retries + 1
            if answer.tool_calls:
                assert answer.response_metadata.get("finish_reason") in ("stop", "content_filter")
            assert answer.text or answer.tool_calls or "content_filter" in str(answer)
        assert len(ran) == sum(len(answer.tool_calls) for answer in answers)
        outcomes.append([(m.type, m.text) for m in result["messages"]])
    assert outcomes[0] == outcomes[1]
