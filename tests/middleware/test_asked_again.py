"""A model is asked again: its call failed, or its answer is empty, cut off or unreadable."""

from __future__ import annotations

import asyncio
from itertools import cycle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core import exceptions
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphInterrupt
from stack_agents import reply

from agent_factory import AgentMiddleware, OutputError, TurnError, create_agent
from agent_factory import middleware as m
from agent_factory.middleware.model_retry import default_retry_on
from agent_factory.structured_output import ProviderStrategy, ToolStrategy
from agent_factory.testing import ScriptedChatModel, assert_valid_history
from samples import THREAD, Answer, add, last_text, scripted, texts
from tables import each
from waiting import auntil, cancel

GO: Any = {"messages": "Go"}
DOWN = ConnectionError("down")


def retry(**settings: Any) -> m.ModelRetryMiddleware:
    return m.ModelRetryMiddleware(**{"initial_delay": 0.0001, **settings})


ADD = [{"name": "add", "args": {"a": 1, "b": 2}}]


def test_the_last_failure_ends_the_run_with_a_message(call: Any) -> None:
    class Closing(AgentMiddleware[Any, Any]):
        def after_agent(self, state: Any, runtime: Any) -> dict[str, Any]:
            return {"messages": [AIMessage("closed")]}

    model = ScriptedChatModel([ADD, DOWN, DOWN, ValueError("gone")])
    result = call(create_agent(model, [add], middleware=[retry(), Closing()]), GO)
    *_, last, closing = result["messages"]
    assert last.text.startswith("The model call failed after 3 attempts with ValueError: gone")
    assert last.additional_kwargs == {"lc_source": "model_retry"}
    assert closing.text == "closed"
    assert [m.type for m in result["messages"]] == ["human", "ai", "tool", "ai", "ai"]


def test_a_custom_text_ends_the_run(call: Any) -> None:
    words = retry(max_retries=0, on_failure=lambda error: f"Sorry ({error}).")
    assert reply(call, [DOWN], words).text == "Sorry (down)."
    wrong: Any = retry(max_retries=0, on_failure=lambda error: None, name="Mine")
    with pytest.raises(TurnError, match="Mine on_failure: must return a str, got NoneType"):
        reply(call, [DOWN], wrong)


PERMANENT = [
    exceptions.ModelError("unknown"),
    exceptions.ModelAuthenticationError("invalid key"),
    exceptions.ModelInvalidRequestError("no such field"),
    exceptions.ContextOverflowError("too long"),
]
TRANSIENT = [
    exceptions.ModelRateLimitError("slow down"),
    exceptions.ModelAPIError("500"),
    exceptions.ModelTimeoutError("too late"),
    exceptions.LangChainException("unknown"),
    DOWN,
]
BASES: list[Any] = [Exception, (exceptions.LangChainException, OSError), default_retry_on]


@each("error", PERMANENT, ids=repr)
def test_an_error_that_no_retry_helps_is_raised_at_once(call: Any, error: Exception) -> None:
    assert not default_retry_on(error)
    ways = cycle(["continue", "error", lambda error: "Sorry."])
    for base, on_failure in zip([None, *BASES], ways, strict=False):
        settings = {} if base is None else {"retry_on": base}
        model = ScriptedChatModel([error, "never"])
        with pytest.raises(type(error)) as caught:
            reply(call, model, retry(on_failure=on_failure, **settings))
        assert caught.value is error
        assert len(model.requests) == 1


@each("error", TRANSIENT, ids=repr)
def test_an_error_that_may_pass_is_retried(call: Any, error: Exception) -> None:
    assert reply(call, [error, error, "Hello!"], retry()).text == "Hello!"
    assert default_retry_on(error)


class ProviderError(Exception):
    """The base class of a provider's client."""


class InvalidKey(ProviderError, exceptions.ModelAuthenticationError):
    """As integrations derive their errors from those of the client and of langchain-core."""


NAMED: list[Any] = [exceptions.ModelAuthenticationError, (OSError, InvalidKey), ProviderError]


@each("retry_on", [*NAMED, lambda error: isinstance(error, exceptions.ModelError)])
def test_an_error_that_no_retry_helps_is_retried_if_it_is_named(call: Any, retry_on: Any) -> None:
    steps = [InvalidKey("invalid key"), "Hello!"]
    assert reply(call, steps, retry(retry_on=retry_on)).text == "Hello!"


@each("on_failure", ["continue", lambda error: "Sorry."])
def test_a_program_can_tell_a_failure_from_an_answer_and_the_thread_goes_on(
    call: Any, on_failure: Any
) -> None:
    decisions: list[Any] = []
    model = ScriptedChatModel([DOWN, ValueError("gone"), "Hello!"])
    stack, saver = [retry(max_retries=1, on_failure=on_failure)], InMemorySaver()
    agent = create_agent(model, middleware=stack, decisions=decisions.append, checkpointer=saver)
    failure = call(agent, GO, THREAD)["messages"][-1]
    assert failure.additional_kwargs == {"lc_source": "model_retry"}
    assert failure.response_metadata["failure"] == {"error": "ValueError", "attempts": 2}
    (decision,) = [d for d in decisions if d.middleware == "ModelRetryMiddleware"]
    assert (decision.outcome, decision.error) == ("recovered", "ConnectionError, ValueError")
    assert decision.reason == "gave up after 2 attempts"
    answer = call(agent, GO, THREAD)["messages"][-1]
    assert (answer.text, "failure" in answer.response_metadata) == ("Hello!", False)
    assert decisions[-1].reason != decision.reason


WRONG = [{"name": "Answer", "args": {"number": "many"}}]


@each("strategy", [ToolStrategy, ProviderStrategy])
@each("tools", [[], [add]])
@each("before", [[], ["prose"]])
def test_an_outage_ends_a_run_with_a_response_format(
    call: Any, strategy: Any, tools: list[Any], before: list[Any]
) -> None:
    """Its message is not taken for prose that came instead of an answer."""
    model = ScriptedChatModel([*before, DOWN, DOWN])
    stack = [retry(max_retries=1)]
    agent = create_agent(model, tools, middleware=stack, response_format=strategy(Answer))
    result = call(agent, GO)
    assert "after 2 attempts" in result["messages"][-1].text
    assert result["structured_response"] is None
    model.assert_done()


@each(
    "retry_on, is_retried",
    [
        *((named, True) for named in (OutputError, (ValueError, TurnError), lambda error: True)),
        *((base, False) for base in (RuntimeError, (ValueError, OSError), *BASES)),
    ],
)
def test_an_error_of_the_library_is_retried_if_it_is_named(
    call: Any, retry_on: Any, is_retried: bool
) -> None:
    """A base class does not cover it."""
    model = ScriptedChatModel([WRONG, [{"name": "Answer", "args": {"number": 5}}]])
    format_ = ToolStrategy(Answer, max_retries=0)
    agent = create_agent(model, middleware=[retry(retry_on=retry_on)], response_format=format_)
    if is_retried:
        assert call(agent, GO)["structured_response"] == Answer(number=5)
        return
    with pytest.raises(OutputError):
        call(agent, GO)


@each("signal", [KeyboardInterrupt, SystemExit])
def test_a_signal_to_stop_is_not_retried(signal: Any) -> None:
    def stop(messages: Any) -> Any:
        raise signal

    model = ScriptedChatModel([stop, "never"])
    with pytest.raises(signal):
        create_agent(model, middleware=[retry(retry_on=lambda error: True)]).invoke(GO)
    assert len(model.requests) == 1
    assert not any(map(default_retry_on, [signal(), GraphInterrupt(), GeneratorExit()]))


async def test_a_cancelled_run_stops_waiting() -> None:
    model = ScriptedChatModel([DOWN, "never"])
    agent = create_agent(model, middleware=[retry(initial_delay=60, jitter=False)])
    task = asyncio.create_task(agent.ainvoke(GO))
    await auntil(lambda: model.requests)
    await cancel(task)
    assert len(model.requests) == 1


class Broken(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even that")


@each(
    "error, line",
    [
        (ConnectionError("provider is down"), "ConnectionError: provider is down."),
        (ConnectionError("provider is down."), "ConnectionError: provider is down."),
        (ConnectionError("is it down?"), "ConnectionError: is it down?"),
        (ConnectionError("x" * 100_000), f"ConnectionError: {'x' * 1000}..."),
        (ConnectionError("bad \ud800 text"), "ConnectionError: bad ? text."),
        (ConnectionError(), "ConnectionError."),
        pytest.param(Broken(), "Broken.", id="broken"),
    ],
)
def test_the_text_of_a_failure_is_made_of_sentences(call: Any, error: Exception, line: str) -> None:
    first, second = reply(call, [error], retry(max_retries=0)).text.splitlines()
    assert first == f"The model call failed after 1 attempt with {line}"
    assert second == "Nothing is lost: ask again later."


# Answers


ADDING: Any = {"name": "add", "args": {"a": 2, "b": 3}, "id": "1", "type": "tool_call"}
BROKEN: Any = {"name": "add", "args": '{"a": 2', "id": "1", "error": None}
USAGE: Any = {"input_tokens": 5, "output_tokens": 9, "total_tokens": 14}


@pytest.fixture
def ran() -> list[tuple[int, int]]:
    """The calls that the tool of `agent` has run."""
    return []


def agent(model: Any, ran: Any = None, *, stack: Any = (), schema: Any = None, **guard: Any) -> Any:
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        if ran is not None:
            ran.append((a, b))
        return a + b

    log = guard.pop("log", None)
    members = [*stack, m.AnswerGuardMiddleware(**guard)]
    return create_agent(model, [add], middleware=members, response_format=schema, decisions=log)


def cut(text: Any = "", *calls: Any, reason: str = "length", **fields: Any) -> AIMessage:
    metadata = {"finish_reason": reason}
    return AIMessage(
        text, tool_calls=list(calls), response_metadata=metadata, usage_metadata=USAGE, **fields
    )


def guarded(call: Any, *steps: Any, **options: Any) -> Any:
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
    {"stopReason": "tool_use"},
    {"status": "completed", "incomplete_details": None},
    {"done_reason": "stop"},
    {"prompt_feedback": {"block_reason": 0}},
]


@each("metadata", [*CUT, *MALFORMED])
def test_an_answer_that_its_provider_marks_is_asked_for_again(
    metadata: dict[str, Any], call: Any, ran: list[Any]
) -> None:
    bad = AIMessage("It i", tool_calls=[ADDING], response_metadata=metadata)
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
    stack = [m.ModelRefusalMiddleware(scripted("Gladly.", "Gladly.")), m.AnswerGuardMiddleware()]
    for order in (stack, stack[::-1]):
        result = call(create_agent(scripted(refusal), middleware=order), GO)
        assert last_text(result) == "Gladly."


# What the model is asked


@each(
    "bad, remark",
    [
        (cut("Once upon a"), "Answer again, in at most half the length.]"),
        (  # also if it looks complete: integrations close the brackets of what was cut
            cut("", ADDING),
            "add. No call of it ran. Make smaller calls: split the work over several of them.]",
        ),
        (cut("", invalid_tool_calls=[BROKEN]), "with a call of add"),
        (cut(), "before it began. Think briefly, then answer.]"),  # only thoughts
    ],
)
def test_the_model_and_the_log_read_what_was_cut_and_its_calls_do_not_run(
    call: Any, ran: list[Any], bad: AIMessage, remark: str
) -> None:
    log: list[Any] = []
    model = scripted("", bad, "It is 5.")
    assert texts(call(agent(model, ran, log=log.append), GO)) == ["Go", "It is 5."]
    assert ran == []
    assert [len(r.messages) for r in model.requests] == [1, 2, 2]  # about the last answer alone
    text = model.requests[2].messages[-1].text
    assert text.startswith("[Your last answer was cut off at the limit of output tokens")
    assert remark in text
    (reason,) = [d.reason for d in log if d.middleware == "AnswerGuardMiddleware"]
    assert reason.startswith("asked again 2 times, the last for ")


def test_after_a_result_the_remark_is_part_of_it(call: Any) -> None:
    """Some providers reject a message of the user after a result. The thread keeps the result."""
    model = scripted([ADDING], "", "It is 5.")
    assert texts(call(agent(model), GO)) == ["Go", "", "5", "It is 5."]
    last = model.requests[2].messages[-1]
    assert (last.type, last.text[:31]) == ("tool", "5\n\n[Your last answer was empty.")


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
    message = guarded(call, cut("A "), end, on_cut="continue")
    assert message.text == "A time."
    assert [block["type"] for block in message.content] == ["text", "reasoning", "text"]
    never = guarded(call, cut("one "), cut("two "), cut("three"), on_cut="continue")
    assert never.text == "one two three\n\n[The answer was cut off at the limit of output tokens.]"


def test_what_cannot_be_continued_is_asked_for_again(call: Any, ran: list[Any]) -> None:
    model = scripted(cut("Once ", ADDING), cut("upon "), "", "a time.")
    found = agent(model, ran, on_cut="continue", max_retries=3)
    assert last_text(call(found, GO)) == "upon a time."
    assert ran == []
    starts = [message.text[:12] for message in model.requests[3].messages]
    assert starts == ["Go", "upon ", "[Your answer", "[Your last a"]


# If no answer is usable


def test_the_longest_text_is_kept_with_a_note_and_without_calls(call: Any, ran: list[Any]) -> None:
    bad = cut("On", ADDING, additional_kwargs={"tool_calls": [{"id": "1"}], "other": 1})
    result = call(agent(scripted(cut("Once upon"), cut("Once"), bad), ran), GO)
    message = result["messages"][-1]
    assert message.text == "Once upon\n\n[The answer was cut off at the limit of output tokens.]"
    assert (message.tool_calls, message.additional_kwargs) == ([], {"other": 1})
    assert len(message.response_metadata["failed_answers"]) == 3
    assert (ran, len(result["messages"])) == ([], 2)
    message = guarded(call, cut("Let me add.", ADDING), ran=ran, max_retries=0, keep_failed=True)
    assert message.text.startswith("Let me add.\n\n[")
    (failed,) = message.response_metadata["failed_answers"]
    assert (failed["text"], failed["tool_calls"][0]["name"], ran) == ("Let me add.", "add", [])


@each(
    "metadata, note", [({}, "gave no answer"), (MALFORMED[0], "made a call that could not be read")]
)
def test_a_note_says_what_was_wrong(metadata: Any, note: str, call: Any) -> None:
    steps = [AIMessage("", response_metadata=metadata)] * 3
    assert guarded(call, *steps).text == f"[The model {note}, 3 times in a row.]"


def test_an_error_can_be_raised(call: Any) -> None:
    with pytest.raises(m.UnusableAnswerError) as caught:
        guarded(call, "", cut("Once"), max_retries=1, on_failure="error")
    faults = "empty (no text and no calls), cut (finish_reason: length)."
    assert str(caught.value).startswith(f"[AF355] the model: gave no usable answer: {faults}")
    assert caught.value.ai_message.text == "Once"
    assert [failed["fault"] for failed in caught.value.failed_answers] == ["empty", "cut"]


def test_a_fallback_takes_the_error_for_a_failure_of_the_model(call: Any) -> None:
    fallback = m.ModelFallbackMiddleware(scripted("It is 5."))
    options: Any = {"max_retries": 0, "on_failure": "error"}
    assert guarded(call, "", stack=[fallback], **options).text == "It is 5."


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
        guarded(call, '{"number": "x"}', schema=strategy)


# With others


def test_each_attempt_counts_as_a_call_of_the_model(call: Any) -> None:
    for most, text in ((3, "Yes."), (2, "I had to stop here")):
        limit = m.ModelCallLimitMiddleware(run_limit=most)
        assert guarded(call, "", "", "Yes.", stack=[limit]).text.startswith(text)


@each(
    "stack",
    [
        [m.ProgressGuardMiddleware(remark_after=1, withhold_after=1, answer_after=1)],
        [m.ToolCallLimitMiddleware(run_limit=1, exit_behavior="answer")],
    ],
)
def test_an_empty_last_answer_is_asked_for_again(stack: list[Any], call: Any) -> None:
    model = scripted([ADDING], [{**ADDING, "id": "2"}], "", "It is 5.")
    assert last_text(call(agent(model, stack=stack), GO)) == "It is 5."
    assert model.requests[3].tools == []


# Laws


def steps() -> st.SearchStrategy[list[Any]]:
    reasons = st.sampled_from(["stop", "length", "MALFORMED_FUNCTION_CALL", "content_filter"])
    calls = st.lists(st.just(ADDING), max_size=2)
    texts = st.sampled_from(["", "It is 5."])
    return st.lists(
        st.builds(lambda t, c, r: cut(t, *c, reason=r), texts, calls, reasons), max_size=6
    )


@pytest.mark.long
@settings.get_profile("costly")
@given(script=steps(), retries=st.integers(0, 2), on_cut=st.sampled_from(["shorten", "continue"]))
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
            assert len(answer.response_metadata.get("failed_answers", [])) <= retries + 1
            if answer.tool_calls:
                assert answer.response_metadata.get("finish_reason") in ("stop", "content_filter")
            assert answer.text or answer.tool_calls or "content_filter" in str(answer)
        assert len(ran) == sum(len(answer.tool_calls) for answer in answers)
        outcomes.append([(m.type, m.text) for m in result["messages"]])
    assert outcomes[0] == outcomes[1]
