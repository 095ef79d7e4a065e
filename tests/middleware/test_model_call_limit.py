"""ModelCallLimitMiddleware: the model is not called too often, and runs end well."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from agent_factory import (
    AgentMiddleware,
    TurnError,
    create_agent,
)
from agent_factory.middleware import ModelCallLimitExceededError, ModelCallLimitMiddleware
from agent_factory.testing import ScriptedChatModel
from samples import Answer, AsksTwice, BackToModel, add, in_memory
from tables import each

Ask = Callable[..., Any]
CALL = [{"name": "add", "args": {"a": 1, "b": 2}}]


ONE: Any = {"configurable": {"thread_id": "1"}}


def test_a_run_ends_with_a_message_and_its_work_is_kept(send: Ask) -> None:
    model = ScriptedChatModel([CALL, CALL])
    agent = create_agent(model, [add], middleware=[ModelCallLimitMiddleware(run_limit=2)])
    result = send(agent)
    assert [m.type for m in result["messages"]] == ["human", "ai", "tool", "ai", "tool", "ai"]
    last = result["messages"][-1]
    assert "2 of 2 model calls are used up in this run" in last.text
    assert not last.tool_calls
    assert set(result) == {"messages"}
    model.assert_done()


def test_a_run_within_its_limit_is_unchanged(send: Ask) -> None:
    agent = create_agent(
        ScriptedChatModel([CALL, "3"]), [add], middleware=[ModelCallLimitMiddleware(run_limit=2)]
    )
    assert send(agent)["messages"][-1].text == "3"


def test_every_run_of_a_thread_has_its_own_run_limit(send: Ask) -> None:
    model = ScriptedChatModel([CALL, "a", CALL, "b"])
    agent = create_agent(
        model, [add], middleware=[ModelCallLimitMiddleware(run_limit=2)], **in_memory()
    )
    send(agent, config=ONE)
    assert send(agent, config=ONE)["messages"][-1].text == "b"
    model.assert_done()


def test_the_limit_of_a_thread_applies_over_its_runs_and_only_to_it(send: Ask) -> None:
    model = ScriptedChatModel([CALL, "a", "b", "other"])
    agent = create_agent(
        model, [add], middleware=[ModelCallLimitMiddleware(thread_limit=3)], **in_memory()
    )
    send(agent, config=ONE)
    assert send(agent, config=ONE)["messages"][-1].text == "b"
    ended = send(agent, config=ONE)
    assert "3 of 3 model calls are used up in this thread" in ended["messages"][-1].text
    other = send(agent, config={"configurable": {"thread_id": "2"}})
    assert other["messages"][-1].text == "other"


def test_a_limit_of_a_thread_needs_a_checkpointer() -> None:
    assert ModelCallLimitMiddleware(thread_limit=1).needs_checkpointer
    assert not ModelCallLimitMiddleware(run_limit=1).needs_checkpointer


def test_a_limit_of_zero_allows_no_call(send: Ask) -> None:
    model = ScriptedChatModel([])
    agent = create_agent(model, middleware=[ModelCallLimitMiddleware(run_limit=0)])
    assert [m.type for m in send(agent)["messages"]] == ["human", "ai"]


def test_an_error_carries_the_numbers_and_the_work_is_kept(send: Ask) -> None:
    limits = ModelCallLimitMiddleware(thread_limit=5, run_limit=1, exit_behavior="error")
    agent = create_agent(ScriptedChatModel([CALL, CALL]), [add], middleware=[limits], **in_memory())
    for count in (1, 2):
        with pytest.raises(ModelCallLimitExceededError, match="1 of 1 model calls") as caught:
            send(agent, config=ONE)
        error = caught.value
        assert isinstance(error, TurnError)
        assert (error.thread_count, error.run_count) == (count, 1)
        assert (error.thread_limit, error.run_limit) == (5, 1)
    kept = [m.type for m in agent.get_state(ONE).values["messages"]]
    assert kept == ["human", "ai", "tool", "human", "ai", "tool"]


def test_both_limits_are_named_if_both_are_reached(send: Ask) -> None:
    limits = ModelCallLimitMiddleware(thread_limit=1, run_limit=1)
    agent = create_agent(ScriptedChatModel([CALL]), [add], middleware=[limits], **in_memory())
    text = send(agent, config=ONE)["messages"][-1].text
    assert "used up in this thread and 1 of 1" in text
    assert "used up in this run." in text


def test_two_instances_count_each_call_once(send: Ask) -> None:
    limits = [
        ModelCallLimitMiddleware(thread_limit=4, name="thread"),
        ModelCallLimitMiddleware(run_limit=2, name="run"),
    ]
    model = ScriptedChatModel([CALL, CALL, CALL, CALL])
    agent = create_agent(model, [add], middleware=limits, **in_memory())
    assert "in this run" in send(agent, config=ONE)["messages"][-1].text
    counts = agent.get_state(ONE).values
    assert counts["thread_model_call_count"] == 2
    assert "in this thread" in send(agent, config=ONE)["messages"][-1].text
    assert "in this thread" in send(agent, config=ONE)["messages"][-1].text
    model.assert_done()


@each("first", [True, False])
def test_a_hook_that_always_jumps_back_does_not_bypass_the_limit(send: Ask, first: bool) -> None:
    limit = ModelCallLimitMiddleware(run_limit=3)
    stack = [limit, BackToModel()] if first else [BackToModel(), limit]
    model = ScriptedChatModel(["1", "2", "3"])
    result = send(create_agent(model, middleware=stack))
    assert [m.text for m in result["messages"]][1:4] == ["1", "2", "3"]
    assert len(result["messages"]) == 5


def test_calls_that_a_hook_has_jumped_away_from_are_answered_at_the_end(send: Ask) -> None:
    model = ScriptedChatModel([CALL])
    stack = [ModelCallLimitMiddleware(run_limit=1), BackToModel()]
    messages = send(create_agent(model, [add], middleware=stack))["messages"]
    assert [m.type for m in messages] == ["human", "ai", "tool", "ai"]
    expected = "The run ended, and this call has no result. It is not known whether the call ran."
    assert messages[2].text == expected


def test_a_run_that_bypasses_the_hook_still_ends(send: Ask, call: Ask) -> None:
    """A person who edits the thread can lead the next run straight to the model."""
    limit = ModelCallLimitMiddleware(thread_limit=1)
    agent = create_agent(ScriptedChatModel(["Hi."]), middleware=[limit], **in_memory())
    send(agent, config=ONE)
    update = {"messages": [HumanMessage("Hurry!")]}
    agent.update_state(ONE, update, as_node="ModelCallLimitMiddleware.before_model")
    assert agent.get_state(ONE).next == ("model",)
    assert "1 of 1 model calls" in call(agent, None, ONE)["messages"][-1].text


def test_a_call_that_failed_does_not_count(send: Ask) -> None:
    model = ScriptedChatModel([RuntimeError("down"), "up"])
    limit = ModelCallLimitMiddleware(thread_limit=1)
    agent = create_agent(model, middleware=[limit], **in_memory())
    with pytest.raises(RuntimeError, match="down"):
        send(agent, config=ONE)
    assert send(agent, config=ONE)["messages"][-1].text == "up"


@each("outermost", [True, False])
def test_what_layers_do_within_a_call_counts_as_one(send: Ask, outermost: bool) -> None:
    limit = ModelCallLimitMiddleware(run_limit=2)
    stack = [AsksTwice(), limit] if outermost else [limit, AsksTwice()]
    model = ScriptedChatModel([CALL, CALL, "a", "b"])
    assert send(create_agent(model, [add], middleware=stack))["messages"][-1].text == "b"


def test_a_structured_answer_that_never_fits_ends_at_the_limit(send: Ask) -> None:
    wrong = [{"name": "Answer", "args": {"number": "many"}}]
    agent = create_agent(
        ScriptedChatModel([wrong, wrong]),
        middleware=[ModelCallLimitMiddleware(run_limit=2)],
        response_format=Answer,
    )
    result = send(agent)
    assert "2 of 2 model calls" in result["messages"][-1].text
    assert result.get("structured_response") is None


def test_after_agent_hooks_still_run_at_the_limit(send: Ask) -> None:
    class Closing(AgentMiddleware[Any, Any]):
        def after_agent(self, state: Any, runtime: Any) -> dict[str, Any]:
            return {"messages": [AIMessage("closed")]}

    stack = [ModelCallLimitMiddleware(run_limit=0), Closing()]
    result = send(create_agent(ScriptedChatModel([]), middleware=stack))
    assert result["messages"][-1].text == "closed"


def test_an_answer_is_the_last_allowed_call_without_tools(send: Ask) -> None:
    model = ScriptedChatModel([CALL, "It is 3, as far as I came."])
    limit = ModelCallLimitMiddleware(run_limit=2, exit_behavior="answer")
    result = send(create_agent(model, [add], middleware=[limit]))
    assert [m.type for m in result["messages"]] == ["human", "ai", "tool", "ai"]
    assert result["messages"][-1].text == "It is 3, as far as I came."
    assert [request.tools for request in model.requests] == [["add"], []]
    assert "2 of 2 model calls are used up in this run" in model.requests[1].messages[-1].text


def test_a_tool_call_in_the_last_answer_does_not_run(send: Ask) -> None:
    model = ScriptedChatModel([CALL, CALL])
    limit = ModelCallLimitMiddleware(run_limit=2, exit_behavior="answer")
    result = send(create_agent(model, [add], middleware=[limit]))
    assert [m.type for m in result["messages"]] == ["human", "ai", "tool", "ai"]
    assert result["messages"][-1].text.startswith("I had to stop here: 2 of 2 model calls")


def test_a_used_up_thread_has_no_call_left_for_an_answer(send: Ask) -> None:
    model = ScriptedChatModel([CALL, "So."])
    limit = ModelCallLimitMiddleware(thread_limit=2, exit_behavior="answer")
    agent = create_agent(model, [add], middleware=[limit], **in_memory())
    assert send(agent, config=ONE)["messages"][-1].text == "So."
    assert "2 of 2 model calls" in send(agent, config=ONE)["messages"][-1].text


@each("first", [True, False])
def test_an_answer_is_given_once_even_if_a_hook_jumps_back(send: Ask, first: bool) -> None:
    limit = ModelCallLimitMiddleware(run_limit=2, exit_behavior="answer")
    stack = [limit, BackToModel()] if first else [BackToModel(), limit]
    model = ScriptedChatModel(["1", "2"])
    texts = [m.text for m in send(create_agent(model, middleware=stack))["messages"]]
    assert texts[1:3] == ["1", "2"]
    assert texts[3].startswith("I had to stop here")


def test_the_last_answer_may_be_structured(send: Ask) -> None:
    good = [{"name": "Answer", "args": {"number": 3}}]
    limit = ModelCallLimitMiddleware(run_limit=2, exit_behavior="answer")
    model = ScriptedChatModel([CALL, good])
    agent = create_agent(model, [add], middleware=[limit], response_format=Answer)
    assert send(agent)["structured_response"] == Answer(number=3)
    assert model.requests[1].tools == ["Answer"]


def test_an_invalid_structured_last_answer_does_not_exceed_the_limit(send: Ask) -> None:
    limit = ModelCallLimitMiddleware(run_limit=2, exit_behavior="answer")
    model = ScriptedChatModel([CALL, "three"])
    agent = create_agent(model, [add], middleware=[limit], response_format=Answer)
    result = send(agent)
    assert "2 of 2 model calls" in result["messages"][-1].text
    assert result.get("structured_response") is None


@each(
    "settings, problem",
    [
        ({}, "Pass thread_limit, run_limit or both"),
        ({"run_limit": -1}, "run_limit must be a whole number"),
        ({"thread_limit": 1.0}, "thread_limit must be a whole number"),
        ({"thread_limit": "3"}, "thread_limit must be a whole number"),
        ({"run_limit": True}, "run_limit must be a whole number"),
        (
            {"run_limit": 1, "exit_behavior": "continue"},
            "exit_behavior must be 'end', 'error' or 'answer'",
        ),
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
