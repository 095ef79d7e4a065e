"""ModelCallLimitMiddleware: the model is not called too often, and runs end well."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from agent_factory import AgentMiddleware, TurnError, create_agent
from agent_factory.middleware import ModelCallLimitExceededError, ModelCallLimitMiddleware
from agent_factory.testing import ScriptedChatModel
from samples import Answer, AsksTwice, BackToModel, add, in_memory, last_text, texts, types
from tables import each

Ask = Callable[..., Any]
CALL = [{"name": "add", "args": {"a": 1, "b": 2}}]


ONE: Any = {"configurable": {"thread_id": "1"}}


def agent_of(steps: Any, *stack: Any, tools: Any = (add,), **options: Any) -> Any:
    """An agent of a model or its steps, with a limit if its arguments are here."""
    limit = {name: options.pop(name) for name in LIMITS if name in options}
    limits = [ModelCallLimitMiddleware(**limit)] if limit else []
    model = ScriptedChatModel(steps) if isinstance(steps, list) else steps
    return create_agent(model, tools, middleware=[*limits, *stack], **options)


LIMITS = ("run_limit", "thread_limit", "exit_behavior")


def test_a_run_ends_with_a_message_and_its_work_is_kept(send: Ask) -> None:
    model = ScriptedChatModel([CALL, CALL])
    result = send(agent_of(model, run_limit=2))
    assert types(result) == ["human", "ai", "tool", "ai", "tool", "ai"]
    last = result["messages"][-1]
    assert "2 of 2 model calls are used up in this run" in last.text
    assert not last.tool_calls
    assert set(result) == {"messages"}
    model.assert_done()


def test_the_limit_of_a_thread_applies_over_its_runs_and_only_to_it(send: Ask) -> None:
    agent = agent_of([CALL, "a", "b", "other"], thread_limit=3, **in_memory())
    assert [last_text(send(agent, config=ONE)) for _ in range(2)] == ["a", "b"]
    ended = last_text(send(agent, config=ONE))
    assert "3 of 3 model calls are used up in this thread" in ended
    assert last_text(send(agent, config={"configurable": {"thread_id": "2"}})) == "other"


def test_an_error_carries_the_numbers_and_the_work_is_kept(send: Ask) -> None:
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


def test_both_limits_are_named_if_both_are_reached(send: Ask) -> None:
    text = last_text(send(agent_of([CALL], thread_limit=1, run_limit=1, **in_memory()), config=ONE))
    assert "used up in this thread and 1 of 1" in text
    assert "used up in this run." in text


def test_two_instances_count_each_call_once(send: Ask) -> None:
    inner = ModelCallLimitMiddleware(run_limit=2, name="run")
    model = ScriptedChatModel([CALL, CALL, CALL, CALL])
    agent = agent_of(model, inner, thread_limit=4, **in_memory())
    assert "in this run" in last_text(send(agent, config=ONE))
    assert agent.get_state(ONE).values["thread_model_call_count"] == 2
    for _ in range(2):
        assert "in this thread" in last_text(send(agent, config=ONE))
    model.assert_done()


def test_a_run_that_bypasses_the_hook_still_ends(send: Ask, call: Ask) -> None:
    """A person who edits the thread can lead the next run straight to the model."""
    agent = agent_of(["Hi."], thread_limit=1, **in_memory())
    send(agent, config=ONE)
    update = {"messages": [HumanMessage("Hurry!")]}
    agent.update_state(ONE, update, as_node="ModelCallLimitMiddleware.before_model")
    assert agent.get_state(ONE).next == ("model",)
    assert "1 of 1 model calls" in last_text(call(agent, None, ONE))


def test_a_call_that_failed_does_not_count(send: Ask) -> None:
    agent = agent_of([RuntimeError("down"), "up"], thread_limit=1, **in_memory())
    with pytest.raises(RuntimeError, match="down"):
        send(agent, config=ONE)
    assert last_text(send(agent, config=ONE)) == "up"


@each("outermost", [True, False])
def test_what_layers_do_within_a_call_counts_as_one(send: Ask, outermost: bool) -> None:
    limit = ModelCallLimitMiddleware(run_limit=2)
    stack = [AsksTwice(), limit] if outermost else [limit, AsksTwice()]
    assert last_text(send(agent_of([CALL, CALL, "a", "b"], *stack))) == "b"


@each(
    "steps, exit_behavior",
    [([[{"name": "Answer", "args": {"number": "x"}}]] * 2, "end"), ([CALL, "three"], "answer")],
)
def test_a_structured_answer_that_never_fits_ends_at_the_limit(
    send: Ask, steps: Any, exit_behavior: str
) -> None:
    limits: Any = {"run_limit": 2, "exit_behavior": exit_behavior}
    result = send(agent_of([*steps], response_format=Answer, **limits))
    assert "2 of 2 model calls" in last_text(result)
    assert result.get("structured_response") is None


def test_after_agent_hooks_still_run_at_the_limit(send: Ask) -> None:
    class Closing(AgentMiddleware[Any, Any]):
        def after_agent(self, state: Any, runtime: Any) -> dict[str, Any]:
            return {"messages": [AIMessage("closed")]}

    assert last_text(send(agent_of([], Closing(), run_limit=0))) == "closed"


def test_an_answer_is_the_last_allowed_call_without_tools(send: Ask) -> None:
    model = ScriptedChatModel([CALL, "It is 3, as far as I came."])
    result = send(agent_of(model, run_limit=2, exit_behavior="answer"))
    assert types(result) == ["human", "ai", "tool", "ai"]
    assert last_text(result) == "It is 3, as far as I came."
    assert [request.tools for request in model.requests] == [["add"], []]
    assert "2 of 2 model calls are used up in this run" in model.requests[1].messages[-1].text


def test_a_used_up_thread_has_no_call_left_for_an_answer(send: Ask) -> None:
    agent = agent_of([CALL, "So."], thread_limit=2, exit_behavior="answer", **in_memory())
    assert last_text(send(agent, config=ONE)) == "So."
    assert "2 of 2 model calls" in last_text(send(agent, config=ONE))


@each("first", [True, False])
def test_an_answer_is_given_once_even_if_a_hook_jumps_back(send: Ask, first: bool) -> None:
    limit = ModelCallLimitMiddleware(run_limit=2, exit_behavior="answer")
    stack = [limit, BackToModel()] if first else [BackToModel(), limit]
    answers = texts(send(agent_of(["1", "2"], *stack, tools=())))
    assert answers[1:3] == ["1", "2"]
    assert answers[3].startswith("I had to stop here")


def test_the_last_answer_may_be_structured(send: Ask) -> None:
    model = ScriptedChatModel([CALL, [{"name": "Answer", "args": {"number": 3}}]])
    agent = agent_of(model, run_limit=2, exit_behavior="answer", response_format=Answer)
    assert send(agent)["structured_response"] == Answer(number=3)
    assert model.requests[1].tools == ["Answer"]


@each(
    "settings, problem",
    [
        ({}, "Pass thread_limit, run_limit or both"),
        ({"run_limit": -1}, "run_limit must be a whole number"),
        ({"thread_limit": 1.0}, "thread_limit must be a whole number"),
        ({"thread_limit": "3"}, "thread_limit must be a whole number"),
        ({"run_limit": True}, "run_limit must be a whole number"),
        ({"run_limit": 1, "exit_behavior": "continue"}, "must be 'end', 'error' or 'answer'"),
    ],
)
def test_invalid_limits_raise(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        ModelCallLimitMiddleware(**settings)


DIRECT: Any = {"messages": [], "run_model_call_count": 1, "thread_model_call_count": 1}


@each("limits", [{"run_limit": 1}, {"thread_limit": 1}])
def test_its_hook_works_without_a_run(limits: Any) -> None:
    """As tests of products call it."""
    update = ModelCallLimitMiddleware(**limits).before_model(DIRECT, cast("Any", None))
    assert update is not None
    assert update["jump_to"] == "end"
    (message,) = update["messages"]
    assert "1 of 1 model calls are used up" in message.text
    failing = ModelCallLimitMiddleware(**limits, exit_behavior="error")
    with pytest.raises(ModelCallLimitExceededError):
        failing.before_model(DIRECT, cast("Any", None))
    fresh: Any = {"messages": []}
    assert ModelCallLimitMiddleware(**limits).before_model(fresh, cast("Any", None)) is None
