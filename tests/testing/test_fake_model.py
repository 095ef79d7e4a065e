"""The scripted chat model: steps, records, streaming, and replies with usage, delays and errors."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage

from agent_factory import AgentMiddleware, create_agent
from agent_factory import middleware as m
from agent_factory.structured_output import ProviderStrategy, ToolStrategy
from agent_factory.testing import ModelCallRecord, Reply, ScriptedChatModel, ScriptError
from samples import Answer, User, add_tool
from tables import each


def streamed(chunks: Any) -> Any:
    whole = None
    for chunk in chunks:
        whole = chunk if whole is None else whole + chunk
    return whole


@pytest.fixture(params=["invoke", "stream"])
def say(request: pytest.FixtureRequest, sync_or_async: Any) -> Any:
    """Ask a model once, in each of the four ways."""
    if request.param == "invoke":
        return sync_or_async.invoke
    return lambda *arguments: streamed(sync_or_async.stream(*arguments))


def test_a_model_is_shown_with_what_it_was_given() -> None:
    shown = repr(ScriptedChatModel(["It is five."], name="calculator"))
    assert shown.startswith("ScriptedChatModel(name='calculator', ")
    assert shown.endswith("steps=['It is five.'])")
    assert "None" not in shown


BLOCKS: Any = [{"type": "text", "text": "Hi", "index": 0}]


def test_texts_and_blocks_are_answered_in_order(say: Any) -> None:
    model = ScriptedChatModel(["It is five.", "", "Two.", AIMessage(BLOCKS)])
    assert [say(model, "?").content for _ in range(4)] == ["It is five.", "", "Two.", BLOCKS]


MESSAGE = AIMessage(
    "Some words.",
    tool_calls=[{"name": "add", "args": {"a": 1}, "id": "1"}],
    invalid_tool_calls=[
        {"name": "add", "args": "{a", "id": "2", "error": None, "type": "invalid_tool_call"}
    ],
    name="someone",
    additional_kwargs={"extra": 1},
    response_metadata={"model": "m"},
    usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
    id="mine",
)


def test_a_message_arrives_with_all_its_fields(say: Any) -> None:
    said = say(ScriptedChatModel([MESSAGE]), "?")
    for field in ("text", "tool_calls", "additional_kwargs", "usage_metadata", "id"):
        assert getattr(said, field) == getattr(MESSAGE, field)
    assert said.response_metadata["model"] == "m"
    whole = ScriptedChatModel([MESSAGE]).invoke("?")  # chunks cannot carry these fields
    assert (whole.invalid_tool_calls, whole.name) == (MESSAGE.invalid_tool_calls, "someone")


def test_an_exception_is_raised_and_recorded_and_the_script_goes_on(say: Any) -> None:
    model = ScriptedChatModel([ConnectionError("down"), "Up again."])
    with pytest.raises(ConnectionError, match="down"):
        say(model, "first")
    assert [message.text for message in model.requests[0].messages] == ["first"]
    assert say(model, "?").text == "Up again."


def test_a_function_decides_by_the_messages_on_any_step(say: Any) -> None:
    steps: list[Any] = [
        lambda messages: f"to {messages[-1].text}",
        lambda messages: AIMessage("a message"),
        lambda messages: [{"name": "add"}],
        lambda messages: ValueError("decided to fail"),
    ]
    model = ScriptedChatModel(steps)
    assert [say(model, "What?").text for _ in range(2)] == ["to What?", "a message"]
    assert say(model, "?").tool_calls[0]["name"] == "add"
    with pytest.raises(ValueError, match="decided to fail"):
        say(model, "?")


def test_a_step_given_twice_is_two_messages_and_two_models_share_nothing() -> None:
    message = AIMessage("Again.")
    steps = [message, message]
    model, another = ScriptedChatModel(steps), ScriptedChatModel(steps)
    one, other = model.invoke("?"), model.invoke("?")
    one.name = "changed"
    assert other.name is None
    assert message.name is None
    assert another.requests == []
    assert another.invoke("?").text == "Again."


@each("junk", [5, None, {"name": "add"}, [5]])
def test_an_invalid_step_is_named(say: Any, junk: Any) -> None:
    with pytest.raises(ScriptError, match="step 1"):
        say(ScriptedChatModel([junk]), "?")


def test_a_request_beyond_the_script_fails_and_quotes_the_last_message(say: Any) -> None:
    model = ScriptedChatModel(["One."])
    say(model, "first")
    with pytest.raises(ScriptError, match=r"the script has 1 step, and this is request 2.*second"):
        say(model, "second")
    with pytest.raises(ScriptError, match="request 1"):
        say(ScriptedChatModel(), "?")


def test_steps_that_were_not_requested_are_reported() -> None:
    """As an assertion: a test that meets it fails as a test, not as an error of the program."""
    model = ScriptedChatModel(["One.", "Two."])
    with pytest.raises(ScriptError, match=r"2 steps, and 0 were requested; the next is 'One\.'"):
        model.assert_done()
    model.invoke("?")
    model.invoke("?")
    model.assert_done()
    assert issubclass(ScriptError, AssertionError)


def test_every_request_is_recorded_with_the_messages_that_it_had(say: Any) -> None:
    model = ScriptedChatModel(["One.", "Two.", "Three."])
    say(model, "first")
    say(model, [("system", "Be brief."), ("user", "second")])
    assert all(isinstance(record, ModelCallRecord) for record in model.requests)
    texts = [[message.text for message in record.messages] for record in model.requests]
    assert texts == [["first"], ["Be brief.", "second"]]
    assert [record.system_prompt for record in model.requests] == [None, "Be brief."]
    messages: Any = [HumanMessage("third")]
    say(model, messages)
    messages.append(HumanMessage("later"))
    assert len(model.requests[2].messages) == 1


@each(
    "offered, name",
    [
        (add_tool, "add"),
        (Answer, "Answer"),
        ({"type": "web_search"}, "web_search"),
        ({"type": "function", "function": {"name": "given", "parameters": {}}}, "given"),
        ({"name": "plain", "input_schema": {}}, "plain"),
    ],
)
def test_tools_are_recorded_by_name(say: Any, offered: Any, name: str) -> None:
    model = ScriptedChatModel(["One."])
    say(model.bind_tools([offered]), "?")
    assert model.requests[0].tools == [name]


def test_bound_arguments_and_stop_words_are_recorded(say: Any) -> None:
    model = ScriptedChatModel(["One.", "Two."])
    say(model.bind_tools([add_tool], tool_choice="any", strict=True).bind(temperature=0), "?")
    say(model.bind(stop=["END"]), "?")
    assert [request.kwargs for request in model.requests] == [
        {"tool_choice": "any", "strict": True, "temperature": 0},
        {"stop": ["END"]},
    ]


def test_words_are_streamed_one_by_one_and_tool_calls_last() -> None:
    chunks = list(ScriptedChatModel(["It is  five."]).stream("?"))
    assert all(isinstance(chunk, AIMessageChunk) for chunk in chunks)
    assert [chunk.text for chunk in chunks] == ["It ", "is ", " ", "five.", ""]
    assert chunks[-1].chunk_position == "last"
    assert len({chunk.id for chunk in chunks}) == 1
    message = AIMessage("Wait.", tool_calls=[{"name": "add", "args": {"a": 1}, "id": "1"}])
    calling: Any = list(ScriptedChatModel([message]).stream("?"))
    assert [len(chunk.tool_call_chunks) for chunk in calling] == [0, 1]
    assert calling[-1].tool_call_chunks[0]["args"] == '{"a": 1}'


def test_parallel_requests_get_different_steps() -> None:
    model = ScriptedChatModel([str(number) for number in range(50)])
    with ThreadPoolExecutor(10) as pool:
        said = list(pool.map(lambda _: model.invoke("?").text, range(50)))
    assert sorted(said, key=int) == [str(number) for number in range(50)]
    assert len(model.requests) == 50


@pytest.mark.parametrize("usage", [(12, 5), {"input_tokens": 12, "output_tokens": 5}])
def test_a_reply_has_usage_in_every_way(usage: Any, sync_or_async: Any) -> None:
    model = ScriptedChatModel([Reply("Five.", usage=usage), Reply("Five.", usage=usage)])
    assert sync_or_async.invoke(model, "?").usage_metadata["total_tokens"] == 17
    assert sync_or_async.stream(model, "?")[-1].usage_metadata["total_tokens"] == 17


def test_a_reply_comes_after_its_delay(sync_or_async: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model = ScriptedChatModel([Reply("Late.", delay=50.0), Reply("Late.", delay=60.0)])
    waits: list[float] = []

    async def wait(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr("time.sleep", waits.append)
    monkeypatch.setattr("asyncio.sleep", wait)
    sync_or_async.invoke(model, "?")
    sync_or_async.stream(model, "?")
    assert [seconds for seconds in waits if seconds] == [50.0, 60.0]


async def test_parallel_delays_take_the_time_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them wait at once: none begins after another one has ended."""
    model = ScriptedChatModel([Reply("Late.", delay=50.0)] * 8)
    together = asyncio.Barrier(8)

    async def wait(seconds: float) -> None:
        await together.wait()

    monkeypatch.setattr("asyncio.sleep", wait)
    await asyncio.gather(*(model.ainvoke("?") for _ in range(8)))


def test_a_reply_is_streamed_in_the_pieces_it_names(sync_or_async: Any) -> None:
    model = ScriptedChatModel([Reply(chunks=["Fi", "ve", "."])])
    texts = [chunk.text for chunk in sync_or_async.stream(model, "?")]
    assert [text for text in texts if text] == ["Fi", "ve", "."]
    assert ScriptedChatModel([Reply(chunks=["Fi", "ve."])]).invoke("?").text == "Five."


def test_an_error_breaks_a_stream_off_after_its_pieces(sync_or_async: Any) -> None:
    model = ScriptedChatModel([Reply(chunks=["Fi"], error=ConnectionError("cut"))])
    pieces = model.stream("?")
    assert next(pieces).text == "Fi"
    with pytest.raises(ConnectionError, match="cut"):
        list(pieces)
    for way in (sync_or_async.stream, sync_or_async.invoke):
        model.rewind()
        with pytest.raises(ConnectionError):
            way(model, "?")


@each(
    "strategy, answer",
    [
        (ToolStrategy(Answer), Answer(number=5)),
        (ProviderStrategy(Answer), Answer(number=5)),
        (ToolStrategy(User), User("Ada")),
    ],
)
def test_a_structured_answer_is_a_step(strategy: Any, answer: Any, sync_or_async: Any) -> None:
    agent = create_agent(ScriptedChatModel([answer]), response_format=strategy)
    result = sync_or_async.invoke(agent, {"messages": [("user", "2 + 3?")]})
    assert result["structured_response"] == answer


def test_a_with_block_fails_if_steps_are_left() -> None:
    with pytest.raises(ScriptError, match="1 step, and 0 were requested"), ScriptedChatModel(["?"]):
        pass
    with pytest.raises(ValueError, match="mine"), ScriptedChatModel(["?"]):
        raise ValueError("mine")


def test_a_request_beyond_the_script_counts_even_if_a_layer_caught_it() -> None:
    class Catches(AgentMiddleware):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            try:
                return handler(request)
            except Exception:
                return AIMessage("Sorry.")

    model = ScriptedChatModel([])
    create_agent(model, middleware=[Catches()]).invoke({"messages": [("user", "Hi")]})
    with pytest.raises(ScriptError, match="the script has 0 steps, and this is request 1"):
        model.assert_done()


CALLS_TOOL = [{"name": "tell", "args": {}}]

STACKS: dict[str, Any] = {
    "model retry": lambda out: ([], [m.ModelRetryMiddleware(retry_on=Exception, initial_delay=60)]),
    "model fallback": lambda out: ([], [m.ModelFallbackMiddleware(ScriptedChatModel(["Hi."]))]),
    "guard": lambda out: (
        ["Hi."],
        [m.GuardMiddleware(out, on="answer", instructions="Stop lies.")],
    ),
    "summary": lambda out: (
        ["Hi."],
        [m.SummarizationMiddleware(out, trigger=("messages", 1), keep=("messages", 1))],
    ),
    "tool error": lambda out: ([CALLS_TOOL], [m.ToolErrorMiddleware(lambda *_: "No.")]),
    "tool retry": lambda out: (
        [CALLS_TOOL],
        [m.ToolRetryMiddleware(retry_on=Exception, initial_delay=60)],
    ),
}


@each("name", STACKS)
def test_no_layer_answers_or_repeats_a_request_beyond_the_script(
    name: str, sync_or_async: Any
) -> None:
    out = ScriptedChatModel()

    def tell() -> str:
        """Ask another model."""
        return out.invoke("?").text

    script, stack = STACKS[name](out)
    agent = create_agent(ScriptedChatModel(script), [tell], middleware=stack)
    with pytest.raises(ScriptError, match="the script has 0 steps, and this is request 1"):
        sync_or_async.invoke(agent, {"messages": [("user", "Hi"), ("user", "Hello")]})


def test_an_error_cuts_long_messages_and_steps() -> None:
    with pytest.raises(
        ScriptError, match=r"content='x{200,}\.\.\. and 9,\d\d\d more characters\.$"
    ):
        ScriptedChatModel().invoke("x" * 10_000)
    with pytest.raises(ScriptError, match=r"'x{299}\.\.\. and 9,702 more characters\.$"):
        ScriptedChatModel(["x" * 9_999 + "y"]).assert_done()


def test_a_script_of_the_fixture_can_be_rewound(scripted_model: Any) -> None:
    model = scripted_model(["One.", "Two."])
    model.invoke("first")
    model.invoke("second")
    model.rewind(1)
    assert (model.position, len(model.requests)) == (1, 1)
    assert model.invoke("again").text == "Two."
