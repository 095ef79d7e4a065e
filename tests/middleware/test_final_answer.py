"""The final answer, one more call without tools, and the limit of calls that asks for it."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from agent_factory import AgentMiddleware, Flow, ModelRequest, OutputError, TurnError, create_agent
from agent_factory.middleware import ModelCallLimitExceededError, ModelCallLimitMiddleware
from agent_factory.middleware._shared.final_answer import request_final_answer
from agent_factory.structured_output import ProviderStrategy, ToolStrategy
from agent_factory.testing import ScriptedChatModel
from samples import Answer, AsksTwice, BackToModel, add, in_memory, last_text, search, texts, types
from tables import each

SEARCH: Any = {"name": "search", "args": {"query": "x"}, "id": "s1", "type": "tool_call"}
GOOD: Any = {"name": "Answer", "args": {"number": 5}, "id": "a1", "type": "tool_call"}


def unread(name: str) -> Any:
    """A call whose arguments are not JSON."""
    return {"name": name, "args": "{", "id": "s1", "error": "", "type": "invalid_tool_call"}


@pytest.fixture
def ask(call: Any) -> Any:
    """Give an agent a message; what is in the thread after it."""
    return lambda agent: call(agent, {"messages": [HumanMessage("Go on")]})


class Ends(AgentMiddleware[Any, Any]):
    """Ends every run with its first answer."""

    def around_model(self, request: ModelRequest[Any]) -> Flow[Any]:
        return (yield from request_final_answer(request, "3 of 3 searches are used up"))


def ending(*steps: Any, stack: Any = (), **options: Any) -> tuple[Any, ScriptedChatModel]:
    """An agent whose next answer is its last, and its model."""
    model = ScriptedChatModel(steps)
    options = {"tools": [search], **options}
    return create_agent(model, middleware=[Ends(), *stack], **options), model


def test_the_instruction_is_sent_to_the_model_and_not_written_to_the_thread(ask: Any) -> None:
    agent, model = ending("I found nothing.")
    assert [m.text for m in ask(agent)["messages"]] == ["Go on", "I found nothing."]
    assert "3 of 3 searches are used up" in model.requests[0].messages[-1].text
    assert model.requests[0].tools == []


def test_the_instruction_is_part_of_a_last_result(ask: Any, call: Any) -> None:
    """Mistral refuses a message of the user right after a result."""
    agent, model = ending("Nothing.")
    history = [HumanMessage("Go on"), AIMessage("", tool_calls=[SEARCH])]
    call(agent, {"messages": [*history, ToolMessage("found", tool_call_id="s1")]})
    assert [m.type for m in model.requests[0].messages] == ["human", "ai", "tool"]
    assert model.requests[0].messages[-1].text.startswith("found\n\n[No tool can be called")


@each(
    "kind, choice",
    [
        ("ChatAnthropic", {"type": "none"}),
        ("ChatOpenAI", "none"),
        ("ChatMistralAI", "none"),
        ("ChatBedrockConverse", None),
        ("ChatOllama", None),
    ],
)
def test_tools_stay_where_a_provider_can_be_told_that_none_is_called(
    ask: Any, kind: str, choice: Any
) -> None:
    """So the request begins like the request before, as caches and signed thoughts need."""
    model = type(kind, (ScriptedChatModel,), {"__module__": __name__})(["Nothing.", [GOOD]])
    ask(create_agent(model, [search], middleware=[Sets(), Ends()]))
    kept = {"tool_choice": choice} if choice else {}
    assert model.requests[0].kwargs == {"temperature": 0, **kept}
    assert model.requests[0].tools == (["search"] if choice else [])
    # A call may be the structured answer.
    ask(create_agent(model, [search], middleware=[Ends()], response_format=ToolStrategy(Answer)))
    assert (model.requests[1].tools, model.requests[1].kwargs) == (["Answer"], {})


@each("tools", [[search], []])
def test_a_tool_call_is_dropped_and_the_text_stays(ask: Any, tools: Any) -> None:
    message = AIMessage("I would search.", tool_calls=[SEARCH], id="m1")
    message.additional_kwargs["tool_calls"] = [{"id": "s1"}]
    message.invalid_tool_calls = [unread("search")]
    message.usage_metadata = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
    agent, _ = ending(message, name="Ada", tools=tools)
    _, last = ask(agent)["messages"]
    assert (last.text, last.tool_calls, last.id, last.name) == ("I would search.", [], "m1", "Ada")
    assert (last.usage_metadata["total_tokens"], last.invalid_tool_calls) == (3, [])
    # A provider reads them from here where there are none in tool_calls.
    assert last.additional_kwargs == {}


EMPTY: Any = [{"type": "text", "text": ""}, {"type": "tool_use", "id": "s1", "name": "search"}]


@each("answer", [[SEARCH], "", AIMessage(EMPTY, tool_calls=[SEARCH])])
def test_an_answer_without_text_gets_the_default_text(ask: Any, answer: Any) -> None:
    messages = ask(ending(answer)[0])["messages"]
    assert len(messages) == 2
    assert messages[-1].text == "I had to stop here: 3 of 3 searches are used up."
    assert [block["type"] for block in messages[-1].content_blocks] == ["text"]


def test_calls_in_content_blocks_are_dropped(ask: Any) -> None:
    blocks: Any = [
        {"type": "reasoning", "id": "r1", "summary": []},
        {"type": "text", "text": "Let me look.", "id": "msg_1"},
        {"type": "tool_use", "id": "s1", "name": "search", "input": {"query": "x"}},
        {"type": "function_call", "id": "fc", "call_id": "s1", "name": "search", "arguments": ""},
    ]
    metadata = {"output_version": "v1", "id": "resp_1"}
    agent, _ = ending(AIMessage(blocks, tool_calls=[SEARCH], response_metadata=metadata))
    last = ask(agent)["messages"][-1]
    # OpenAI refuses the id of a text without its reasoning, and of a response with an open call.
    assert last.content == [{"type": "text", "text": "Let me look."}]
    assert "id" not in last.response_metadata
    assert [block["type"] for block in last.content_blocks] == ["text"]
    assert last.tool_calls == []
    agent, _ = ending(AIMessage(["", "Let me ", "look.", *blocks[2:]], tool_calls=[SEARCH]))
    assert ask(agent)["messages"][-1].content == [{"type": "text", "text": "Let me look."}]
    agent, _ = ending(AIMessage(blocks[:2]))
    assert ask(agent)["messages"][-1].content == blocks[:2]  # nothing to drop


@each("tools", [[search], []])
def test_a_structured_answer_by_tool_is_kept_and_other_calls_are_dropped(
    ask: Any, tools: Any
) -> None:
    blocks: Any = [
        {"type": "tool_use", "id": "a1", "name": "Answer", "input": {"number": 5}},
        {"type": "tool_use", "id": "s1", "name": "search", "input": {"query": "x"}},
    ]
    for content in ("", blocks):
        message = AIMessage(content, tool_calls=[GOOD, SEARCH] if tools else [GOOD])
        agent, model = ending(message, tools=tools, response_format=ToolStrategy(Answer))
        result = ask(agent)
        assert result["structured_response"] == Answer(number=5)
        ai, answer = result["messages"][1:]
        assert [call["name"] for call in ai.tool_calls] == ["Answer"]
        assert answer.tool_call_id == "a1"
        assert "stop here" not in ai.text
        assert model.requests[0].tools == ["Answer"]


def test_invalid_arguments_of_a_structured_answer_are_explained(ask: Any) -> None:
    wrong = AIMessage("", invalid_tool_calls=[unread("Answer")])
    agent, model = ending(wrong, [GOOD], response_format=ToolStrategy(Answer))
    assert ask(agent)["structured_response"] == Answer(number=5)
    explained = model.requests[1].messages[-1]
    assert isinstance(explained, ToolMessage)
    assert "not valid JSON" in explained.text


@each("strategy", [ToolStrategy, ProviderStrategy])
@each("tools", [[search], []])
@each(
    "wrong, reasons",
    [
        ("In prose.", [""]),
        ([SEARCH], ["tools are no longer available", "search is not a valid tool"]),
    ],
)
def test_text_or_a_tool_call_instead_of_a_structured_answer_is_explained(
    ask: Any, strategy: Any, tools: Any, wrong: Any, reasons: list[str]
) -> None:
    last = '{"number": 5}' if strategy is ProviderStrategy else [GOOD]
    agent, model = ending(wrong, last, tools=tools, response_format=strategy(Answer))
    assert ask(agent)["structured_response"] == Answer(number=5)
    offered = [] if strategy is ProviderStrategy else ["Answer"]
    assert [request.tools for request in model.requests] == [offered, offered]
    explained = "".join(message.text for message in model.requests[1].messages[-2:])
    assert any(reason in explained for reason in reasons)


def test_a_tool_call_instead_of_a_structured_answer_is_explained_only_once(ask: Any) -> None:
    agent, model = ending([SEARCH], [SEARCH], response_format=ToolStrategy(Answer))
    result = ask(agent)
    assert result["messages"][-1].text.startswith("I had to stop here")
    assert result.get("structured_response") is None
    model.assert_done()


def test_text_instead_of_a_structured_answer_is_an_error_in_the_end(ask: Any) -> None:
    agent, _ = ending("a", "b", response_format=ToolStrategy(Answer, max_retries=1))
    with pytest.raises(OutputError):
        ask(agent)


class AddsTools(AgentMiddleware[Any, Any]):
    """Offers its own tools, whatever the request has."""

    def around_model(self, request: ModelRequest[Any]) -> Flow[Any]:
        return (yield request.override(tools=[*request.tools, search], tool_choice="any"))


def test_a_call_of_a_tool_that_a_layer_further_in_offers_does_not_run(ask: Any) -> None:
    agent, model = ending(AIMessage("Hm.", tool_calls=[SEARCH]), stack=[AddsTools()])
    messages = ask(agent)["messages"]
    assert model.requests[0].tools == ["search"]
    assert [m.text for m in messages] == ["Go on", "Hm."]


class Sets(AgentMiddleware[Any, Any]):
    """Settings that providers reject in a request without tools."""

    def around_model(self, request: ModelRequest[Any]) -> Flow[Any]:
        settings = {"parallel_tool_calls": False, "tool_choice": "any", "temperature": 0}
        return (yield request.override(tool_choice="any", model_settings=settings))


def test_model_settings_about_tools_are_removed(ask: Any) -> None:
    model = ScriptedChatModel(["Nothing."])
    ask(create_agent(model, [search], middleware=[Sets(), Ends()]))
    assert model.requests[0].kwargs == {"temperature": 0}


def test_two_layers_add_the_instruction_once(ask: Any) -> None:
    agent, model = ending("Nothing.", stack=[Ends(name="second")])
    ask(agent)
    assert [m.type for m in model.requests[0].messages] == ["human", "human"]


def test_the_last_answer_is_streamed_and_its_calls_do_not_reach_the_thread(collect: Any) -> None:
    agent, _ = ending(AIMessage("I would.", tool_calls=[SEARCH]))
    *parts, last = collect(agent, {"messages": "Hi"}, stream_mode=["values", "messages"])
    assert "".join(part[0].text for mode, part in parts if mode == "messages") == "I would."
    assert last[0] == "values"
    assert [(m.type, m.text) for m in last[1]["messages"]] == [("human", "Hi"), ("ai", "I would.")]
    assert last[1]["messages"][-1].tool_calls == []


# The limit of calls of the model


CALL = [{"name": "add", "args": {"a": 1, "b": 2}}]


ONE: Any = {"configurable": {"thread_id": "1"}}


def agent_of(steps: Any, *stack: Any, tools: Any = (add,), **options: Any) -> Any:
    """An agent of a model or its steps, with a limit if its arguments are here."""
    limit = {name: options.pop(name) for name in LIMITS if name in options}
    limits = [ModelCallLimitMiddleware(**limit)] if limit else []
    model = ScriptedChatModel(steps) if isinstance(steps, list) else steps
    return create_agent(model, tools, middleware=[*limits, *stack], **options)


LIMITS = ("run_limit", "thread_limit", "exit_behavior")


def test_a_run_ends_with_a_message_and_its_work_is_kept(send: Any) -> None:
    model = ScriptedChatModel([CALL, CALL])
    result = send(agent_of(model, run_limit=2))
    assert types(result) == ["human", "ai", "tool", "ai", "tool", "ai"]
    last = result["messages"][-1]
    assert "2 of 2 model calls are used up in this run" in last.text
    assert not last.tool_calls
    assert set(result) == {"messages"}
    model.assert_done()


def test_a_limit_answers_an_open_call_before_the_next_message(send: Any) -> None:
    asked = AIMessage("", tool_calls=[SEARCH])
    model = ScriptedChatModel([])
    result = send(agent_of(model, run_limit=0), [HumanMessage("Find x"), asked, HumanMessage("Y")])
    assert types(result) == ["human", "ai", "tool", "human", "ai"]


def test_an_error_carries_the_numbers_and_the_work_is_kept(send: Any) -> None:
    limits: Any = {"thread_limit": 5, "run_limit": 1, "exit_behavior": "error"}
    agent = agent_of([CALL, CALL], **limits, **in_memory())
    for count in (1, 2):
        with pytest.raises(ModelCallLimitExceededError, match="1 of 1 model calls") as caught:
            send(agent, config=ONE)
        error = caught.value
        assert isinstance(error, TurnError)
        assert (error.thread_count, error.run_count) == (count, 1)
        assert (error.thread_limit, error.run_limit) == (5, 1)
    assert types(agent.get_state(ONE).values) == ["human", "ai", "tool"] * 2


def test_both_limits_are_named_if_both_are_reached(send: Any) -> None:
    text = last_text(send(agent_of([CALL], thread_limit=1, run_limit=1, **in_memory()), config=ONE))
    assert "used up in this thread and 1 of 1" in text
    assert "used up in this run." in text


def test_two_instances_count_each_call_once(send: Any) -> None:
    inner = ModelCallLimitMiddleware(run_limit=2, name="run")
    model = ScriptedChatModel([CALL, CALL, CALL, CALL])
    agent = agent_of(model, inner, thread_limit=4, **in_memory())
    assert "in this run" in last_text(send(agent, config=ONE))
    assert agent.get_state(ONE).values["thread_model_call_count"] == 2
    for _ in range(2):
        assert "in this thread" in last_text(send(agent, config=ONE))
    model.assert_done()


def test_a_run_that_bypasses_the_hook_still_ends(send: Any, call: Any) -> None:
    """A person who edits the thread can lead the next run straight to the model."""
    agent = agent_of(["Hi."], thread_limit=1, **in_memory())
    send(agent, config=ONE)
    update = {"messages": [HumanMessage("Hurry!")]}
    agent.update_state(ONE, update, as_node="ModelCallLimitMiddleware.before_model")
    assert agent.get_state(ONE).next == ("model",)
    assert "1 of 1 model calls" in last_text(call(agent, None, ONE))


@each("fused", [True, False])
def test_a_call_that_failed_counts(send: Any, call: Any, fused: bool) -> None:
    """Also in another process, which goes on with the run."""
    saver: Any = {**in_memory(), "fused": fused}
    for text in ("down", "up", "used up"):
        step = RuntimeError("down") if text == "down" else "up"
        agent = agent_of([step], thread_limit=2, **saver)
        try:
            result = call(agent, None, ONE) if text == "up" else send(agent, config=ONE)
            assert text in last_text(result)
        except RuntimeError:
            assert text == "down"


@each("order", [1, -1])
def test_each_attempt_of_a_layer_counts(send: Any, order: int) -> None:
    stack = [AsksTwice(), ModelCallLimitMiddleware(run_limit=3)][::order]
    assert "3 of 3 model calls" in last_text(send(agent_of([CALL, CALL, CALL, "b"], *stack)))


@each(
    "steps, exit_behavior",
    [([[{"name": "Answer", "args": {"number": "x"}}]] * 2, "end"), ([CALL, "three"], "answer")],
)
def test_a_structured_answer_that_never_fits_ends_at_the_limit(
    send: Any, steps: Any, exit_behavior: str
) -> None:
    limits: Any = {"run_limit": 2, "exit_behavior": exit_behavior}
    result = send(agent_of([*steps], response_format=Answer, **limits))
    assert "2 of 2 model calls" in last_text(result)
    assert result.get("structured_response") is None


def test_after_agent_hooks_still_run_at_the_limit(send: Any) -> None:
    class Closing(AgentMiddleware[Any, Any]):
        def after_agent(self, state: Any, runtime: Any) -> dict[str, Any]:
            return {"messages": [AIMessage("closed")]}

    assert last_text(send(agent_of([], Closing(), run_limit=0))) == "closed"


def test_an_answer_is_the_last_allowed_call_without_tools(send: Any) -> None:
    model = ScriptedChatModel([CALL, "It is 3, as far as I came."])
    result = send(agent_of(model, run_limit=2, exit_behavior="answer"))
    assert types(result) == ["human", "ai", "tool", "ai"]
    assert last_text(result) == "It is 3, as far as I came."
    assert [request.tools for request in model.requests] == [["add"], []]
    assert "2 of 2 model calls are used up in this run" in model.requests[1].messages[-1].text


def test_a_used_up_thread_has_no_call_left_for_an_answer(send: Any) -> None:
    agent = agent_of([CALL, "So."], thread_limit=2, exit_behavior="answer", **in_memory())
    assert last_text(send(agent, config=ONE)) == "So."
    assert "2 of 2 model calls" in last_text(send(agent, config=ONE))


@each("first", [True, False])
def test_an_answer_is_given_once_even_if_a_hook_jumps_back(send: Any, first: bool) -> None:
    limit = ModelCallLimitMiddleware(run_limit=2, exit_behavior="answer")
    stack = [limit, BackToModel()] if first else [BackToModel(), limit]
    answers = texts(send(agent_of(["1", "2"], *stack, tools=())))
    assert answers[1:3] == ["1", "2"]
    assert answers[3].startswith("I had to stop here")


def test_the_last_answer_may_be_structured(send: Any) -> None:
    model = ScriptedChatModel([CALL, [{"name": "Answer", "args": {"number": 3}}]])
    agent = agent_of(model, run_limit=2, exit_behavior="answer", response_format=Answer)
    assert send(agent)["structured_response"] == Answer(number=3)
    assert model.requests[1].tools == ["Answer"]
