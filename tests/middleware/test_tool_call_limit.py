"""ToolCallLimitMiddleware: no tool runs too often, every call gets a result, runs end well."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.types import Command, interrupt

from agent_factory import AgentMiddleware, Flow, TurnError, create_agent, hook_config
from agent_factory.middleware import (
    HumanInTheLoopMiddleware,
    ToolCallLimitExceededError,
    ToolCallLimitMiddleware,
)
from agent_factory.testing import ScriptedChatModel
from samples import Answer, BackToModel, in_memory, search, show
from tables import each

Ask = Callable[..., Any]
ONE: Any = {"configurable": {"thread_id": "1"}}


def read(page: str) -> str:
    """Read."""
    return f"read {page}"


def s(query: str = "a") -> dict[str, Any]:
    return {"name": "search", "args": {"query": query}}


def r(page: str = "b") -> dict[str, Any]:
    return {"name": "read", "args": {"page": page}}


def answers(messages: list[Any]) -> list[str]:
    """What each call got: the text of a result, or "refused"."""
    return [
        "refused" if m.text.startswith("Limit reached") else m.text
        for m in messages
        if isinstance(m, ToolMessage)
    ]


def counts(agent: Any, config: Any = ONE) -> dict[str, int]:
    """The calls that the thread has counted."""
    return dict(agent.get_state(config).values.get("thread_tool_call_count", {}))


def test_calls_over_the_limit_get_errors_and_the_run_continues(send: Ask) -> None:
    model = ScriptedChatModel([[s("1"), s("2"), r("3")], [s("4")], "Done."])
    limit = ToolCallLimitMiddleware(tool_name="search", run_limit=1)
    messages = send(create_agent(model, [search, read], middleware=[limit]))["messages"]
    assert answers(messages) == ["found 1", "refused", "read 3", "refused"]
    refused = messages[3]
    assert refused.status == "error"
    assert refused.text == (
        "Limit reached: 1 of 1 calls of search are used up in this run. This call of search did "
        "not run. Do not call search again; go on with what you have."
    )
    assert messages[-1].text == "Done."
    model.assert_done()


def test_a_limit_for_all_tools_counts_them_together(send: Ask) -> None:
    model = ScriptedChatModel([[s("1"), r("2"), s("3")], "Done."])
    agent = create_agent(model, [search, read], middleware=[ToolCallLimitMiddleware(run_limit=2)])
    messages = send(agent)["messages"]
    assert answers(messages) == ["found 1", "read 2", "refused"]
    assert "2 of 2 tool calls are used up" in messages[-2].text
    assert "Do not call any tool again" in messages[-2].text


def test_every_run_of_a_thread_has_its_own_run_limit(send: Ask) -> None:
    model = ScriptedChatModel([[s("1"), s("2")], "a", [s("3"), s("4")], "b"])
    limit = ToolCallLimitMiddleware(run_limit=1)
    agent = create_agent(model, [search], middleware=[limit], **in_memory())
    send(agent, config=ONE)
    messages = send(agent, config=ONE)["messages"]
    assert answers(messages) == ["found 1", "refused", "found 3", "refused"]
    assert counts(agent) == {"search": 2}


def test_the_limit_of_a_thread_applies_over_its_runs_and_only_to_it(send: Ask) -> None:
    model = ScriptedChatModel([[s("1")], "a", [s("2"), s("3")], "b", [s("4")], "c"])
    limit = ToolCallLimitMiddleware(thread_limit=2, run_limit=2)
    agent = create_agent(model, [search], middleware=[limit], **in_memory())
    send(agent, config=ONE)
    messages = send(agent, config=ONE)["messages"]
    assert answers(messages) == ["found 1", "found 2", "refused"]
    assert "2 of 2 tool calls are used up in this thread." in messages[-2].text
    other = send(agent, config={"configurable": {"thread_id": "2"}})
    assert answers(other["messages"]) == ["found 4"]


def test_end_gives_the_numbers_after_all_calls_are_answered(send: Ask) -> None:
    model = ScriptedChatModel([[s("1"), r("2"), s("3")]])
    limit = ToolCallLimitMiddleware(tool_name="search", run_limit=1, exit_behavior="end")
    messages = send(create_agent(model, [search, read], middleware=[limit]))["messages"]
    assert [m.type for m in messages] == ["human", "ai", "tool", "tool", "tool", "ai"]
    assert answers(messages) == ["found 1", "read 2", "refused"]
    assert messages[-1].text == (
        "I had to stop here: 1 of 1 calls of search are used up in this run."
    )


def test_the_last_allowed_call_does_not_end_the_run_and_a_thread_continues_after_its_end(
    send: Ask,
) -> None:
    model = ScriptedChatModel([[s("1"), s("2")], "Done.", [s("3")] * 3, "Hello again."])
    limit = ToolCallLimitMiddleware(run_limit=2, exit_behavior="end")
    agent = create_agent(model, [search], middleware=[limit], **in_memory())
    ends = [send(agent, config=ONE)["messages"][-1].text for _ in range(3)]
    assert (ends[0], ends[2]) == ("Done.", "Hello again.")
    assert ends[1].startswith("I had to stop here")


def test_an_answer_is_asked_for_without_tools_and_says_why(send: Ask) -> None:
    model = ScriptedChatModel([[s("1"), s("2")], "I found 1, and 2 is missing."])
    limit = ToolCallLimitMiddleware(run_limit=1, exit_behavior="answer")
    messages = send(create_agent(model, [search, read], middleware=[limit]))["messages"]
    assert [m.type for m in messages] == ["human", "ai", "tool", "tool", "ai"]
    assert messages[-1].text == "I found 1, and 2 is missing."
    assert model.requests[0].tools == ["search", "read"]
    assert model.requests[1].tools == []
    assert "1 of 1 tool calls are used up in this run" in model.requests[1].messages[-1].text


def test_an_error_carries_the_numbers_and_all_work_is_kept(send: Ask) -> None:
    model = ScriptedChatModel([[s("1"), s("2"), r("3")], "Fine."])
    limit = ToolCallLimitMiddleware(
        tool_name="search", thread_limit=5, run_limit=1, exit_behavior="error"
    )
    agent = create_agent(model, [search, read], middleware=[limit], **in_memory())
    with pytest.raises(ToolCallLimitExceededError, match=r"search: may not .* 1 of 1") as caught:
        send(agent, config=ONE)
    error = caught.value
    assert isinstance(error, TurnError)
    assert (error.tool_name, error.thread_count, error.run_count) == ("search", 1, 1)
    assert (error.thread_limit, error.run_limit) == (5, 1)
    assert pickle.loads(pickle.dumps(error)).tool_name == "search"
    kept = agent.get_state(ONE).values["messages"]
    assert answers(kept) == ["found 1", "refused", "read 3"]
    assert send(agent, config=ONE)["messages"][-1].text == "Fine."


def test_a_call_that_cannot_run_reaches_no_reviewer(send: Ask) -> None:
    model = ScriptedChatModel([[s("1")], [s("2")], "Done."])
    stack: list[Any] = [
        HumanInTheLoopMiddleware({"search": {"allowed_decisions": ["approve"]}}),
        ToolCallLimitMiddleware(run_limit=0),
    ]
    agent = create_agent(model, [search], middleware=stack, **in_memory())
    assert answers(send(agent, config=ONE)["messages"]) == ["refused", "refused"]


REJECT, APPROVE = {"type": "reject"}, {"type": "approve"}


ORDERS = each("order", [1, -1])
"""The middleware of a stack as it stands, and the other way around."""


@ORDERS
def test_a_call_that_people_reject_does_not_count(send: Ask, call: Ask, order: int) -> None:
    model = ScriptedChatModel([[s("1"), s("2")], [s("3")], "Done."])
    stack: list[Any] = [
        ToolCallLimitMiddleware(thread_limit=2),
        HumanInTheLoopMiddleware({"search": True}),
    ]
    agent = create_agent(model, [search], middleware=stack[::order], **in_memory())
    send(agent, config=ONE)
    call(agent, Command(resume={"decisions": [REJECT, APPROVE]}), ONE)
    messages = call(agent, Command(resume={"decisions": [APPROVE]}), ONE)["messages"]
    assert answers(messages)[1:] == ["found 2", "found 3"]
    assert len(answers(messages)) == 3
    assert counts(agent) == {"search": 2}
    model = ScriptedChatModel([[s("1")], "Done."])
    review = HumanInTheLoopMiddleware({"search": True}, interrupt_mode="per_call")
    stack = [ToolCallLimitMiddleware(thread_limit=1), review]
    agent = create_agent(model, [search], middleware=stack[::order], **in_memory())
    send(agent, config=ONE)
    messages = call(agent, Command(resume=REJECT), ONE)["messages"]
    assert "rejected" in answers(messages)[0]
    assert counts(agent) == {}


@ORDERS
def test_an_edited_call_counts_for_the_tool_that_ran(send: Ask, call: Ask, order: int) -> None:
    model = ScriptedChatModel([[s("1"), r("2")], "Done."])
    limit = ToolCallLimitMiddleware(tool_name="read", thread_limit=1)
    stack: list[Any] = [limit, HumanInTheLoopMiddleware({"search": True})][::order]
    agent = create_agent(model, [search, read], middleware=stack, **in_memory())
    send(agent, config=ONE)
    edit = {"type": "edit", "edited_action": {"name": "read", "args": {"page": "x"}}}
    messages = call(agent, Command(resume={"decisions": [edit]}), ONE)["messages"]
    assert answers(messages)[0].startswith("read x")
    assert answers(messages)[1] == "refused"
    assert counts(agent) == {"read": 1}


def test_calls_that_are_edited_in_parallel_do_not_exceed_the_limit_together(
    send: Ask, call: Ask
) -> None:
    model = ScriptedChatModel([[s("1"), s("2"), r("3")], "Done."])
    limit = ToolCallLimitMiddleware(tool_name="read", run_limit=2)
    review = HumanInTheLoopMiddleware({"search": True}, interrupt_mode="per_call")
    agent = create_agent(model, [search, read], middleware=[review, limit], **in_memory())
    waiting = send(agent, config=ONE)["__interrupt__"]
    edit = {"type": "edit", "edited_action": {"name": "read", "args": {"page": "x"}}}
    resume = {question.id: edit for question in waiting}
    messages = call(agent, Command(resume=resume), ONE)["messages"]
    statuses = [m.status for m in messages if isinstance(m, ToolMessage)]
    assert statuses == ["success", "error", "success"]
    assert counts(agent) == {"read": 2}


class Guard(AgentMiddleware[Any, Any]):
    """Refuses what asks for a secret, as the call is run."""

    def around_tool(self, request: Any) -> Flow[Any]:
        if "secret" in str(request.tool_call["args"]):
            return ToolMessage("No.", tool_call_id=request.tool_call["id"], status="error")
        return (yield request)


@ORDERS
def test_a_call_that_a_guard_refuses_does_not_count(send: Ask, order: int) -> None:
    model = ScriptedChatModel([[s("secret")], [s("1")], [s("2")], "Done."])
    stack: list[Any] = [ToolCallLimitMiddleware(thread_limit=1), Guard()][::order]
    agent = create_agent(model, [search], middleware=stack, **in_memory())
    assert answers(send(agent, config=ONE)["messages"]) == ["No.", "found 1", "refused"]
    assert counts(agent) == {"search": 1}


class AnswersHimself(AgentMiddleware[Any, Any]):
    """Runs a tool in its own way, which LangChain does not see."""

    def around_tool(self, request: Any) -> Flow[Any]:
        return ToolMessage("mine", tool_call_id=request.tool_call["id"])
        yield


def test_a_tool_that_a_layer_runs_itself_counts(send: Ask) -> None:
    model = ScriptedChatModel([[s("1")], [s("2")], "Done."])
    stack: list[Any] = [ToolCallLimitMiddleware(run_limit=1), AnswersHimself()]
    messages = send(create_agent(model, [search], middleware=stack))["messages"]
    assert answers(messages) == ["mine", "refused"]


def test_a_call_of_an_unknown_tool_does_not_count(send: Ask) -> None:
    model = ScriptedChatModel([[{"name": "serach", "args": {}}], [s("1")], "Done."])
    limit = ToolCallLimitMiddleware(thread_limit=1)
    agent = create_agent(model, [search], middleware=[limit], **in_memory())
    assert answers(send(agent, config=ONE)["messages"])[1] == "found 1"
    assert counts(agent) == {"search": 1}


def broken(query: str) -> str:
    """Break."""
    raise RuntimeError(query)


def test_a_tool_that_fails_counts(send: Ask) -> None:
    calls = [{"name": "broken", "args": {"query": "1"}}]
    limit = ToolCallLimitMiddleware(run_limit=2)
    agent = create_agent(
        ScriptedChatModel([calls, calls, calls, "Done."]),
        [broken],
        middleware=[limit],
        handle_tool_errors=True,
    )
    texts = answers(send(agent)["messages"])
    assert ["Error" in text for text in texts] == [True, True, False]
    assert texts[-1] == "refused"


def test_a_tool_that_kills_the_run_leaves_a_thread_that_still_counts(send: Ask) -> None:
    model = ScriptedChatModel([[s("1"), {"name": "broken", "args": {"query": "1"}}], [s("2")], "."])
    limit = ToolCallLimitMiddleware(tool_name="search", thread_limit=1)
    agent = create_agent(model, [search, broken], middleware=[limit], **in_memory())
    with pytest.raises(RuntimeError, match="1"):
        send(agent, config=ONE)
    texts = answers(send(agent, config=ONE)["messages"])
    # Results of tools parallel to the failed one are kept or dropped together with their counts.
    assert texts[-1] == ("refused" if "found 1" in texts else "found 2")


class Retries(AgentMiddleware[Any, Any]):
    def around_tool(self, request: Any) -> Flow[Any]:
        yield request
        return (yield request)


@ORDERS
def test_what_layers_do_within_a_call_counts_as_one(send: Ask, order: int) -> None:
    stack: list[Any] = [ToolCallLimitMiddleware(thread_limit=2), Retries()][::order]
    model = ScriptedChatModel([[s("1")], [s("2")], [s("3")], "Done."])
    agent = create_agent(model, [search], middleware=stack, **in_memory())
    assert answers(send(agent, config=ONE)["messages"]) == ["found 1", "found 2", "refused"]
    assert counts(agent) == {"search": 2}


@ORDERS
def test_a_call_that_one_limit_refuses_does_not_count_for_others(send: Ask, order: int) -> None:
    limits = [
        ToolCallLimitMiddleware(thread_limit=2),
        ToolCallLimitMiddleware(tool_name="search", thread_limit=1),
    ]
    model = ScriptedChatModel([[s("1"), s("2"), r("3"), r("4")], "Done."])
    agent = create_agent(model, [search, read], middleware=limits[::order], **in_memory())
    messages = send(agent, config=ONE)["messages"]
    assert answers(messages) == ["found 1", "refused", "read 3", "refused"]
    assert "calls of search" in messages[3].text
    assert "2 of 2 tool calls" in messages[5].text
    assert counts(agent) == {"search": 1, "read": 1}


@ORDERS
def test_a_limit_that_ends_the_run_takes_precedence(send: Ask, order: int) -> None:
    limits = [
        ToolCallLimitMiddleware(run_limit=1, exit_behavior="end"),
        ToolCallLimitMiddleware(tool_name="search", run_limit=1),
    ]
    for script in ([[s("1")], [s("2")]], [[s("1"), s("2")]]):
        model = ScriptedChatModel(script)
        messages = send(create_agent(model, [search], middleware=limits[::order]))["messages"]
        assert answers(messages) == ["found 1", "refused"]
        assert "1 of 1 tool calls" in messages[-1].text


class Hurries(AgentMiddleware[Any, Any]):
    """Sends the calls to the tools past all hooks between."""

    @hook_config(can_jump_to=["tools"])
    def after_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        return {"jump_to": "tools"} if state["messages"][-1].tool_calls else None


@ORDERS
def test_a_jump_to_the_tools_does_not_bypass_the_limit(send: Ask, order: int) -> None:
    stack: list[Any] = [ToolCallLimitMiddleware(run_limit=1), Hurries()][::order]
    model = ScriptedChatModel([[s("1"), s("2")], "Done."])
    messages = send(create_agent(model, [search], middleware=stack))["messages"]
    assert answers(messages) == ["found 1", "refused"]


class NeverContent(AgentMiddleware[Any, Any]):
    @hook_config(can_jump_to=["model"])
    def after_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        calls = state["messages"][-1].tool_calls if state["messages"][-1].type == "ai" else []
        return None if calls else {"jump_to": "model"}


@ORDERS
@each("exit_behavior, last", [("end", "I had to stop"), ("answer", "So.")])
def test_a_hook_that_always_jumps_back_cannot_continue_after_the_limit(
    send: Ask, exit_behavior: Any, last: str, order: int
) -> None:
    limit = ToolCallLimitMiddleware(run_limit=1, exit_behavior=exit_behavior)
    stack: list[Any] = [limit, NeverContent()][::order]
    model = ScriptedChatModel([[s("1"), s("2")], *(["So."] if exit_behavior == "answer" else [])])
    messages = send(create_agent(model, [search], middleware=stack))["messages"]
    assert messages[-1].text.startswith(last)
    model.assert_done()


def test_calls_that_a_hook_has_jumped_away_from_are_answered_at_the_end(send: Ask) -> None:
    limit = ToolCallLimitMiddleware(tool_name="search", run_limit=0, exit_behavior="end")
    model = ScriptedChatModel([[s("1"), r("2")]])
    agent = create_agent(model, [search, read], middleware=[limit, BackToModel()])
    messages = send(agent)["messages"]
    expected = "The run ended, and this call has no result. It is not known whether the call ran."
    assert answers(messages) == ["refused", expected]
    assert messages[-1].text.startswith("I had to stop here")


def wait(query: str) -> str:
    """Wait for a person."""
    return f"answered {interrupt(query)}"


WAITS = {"name": "wait", "args": {"query": "?"}}


def test_a_call_that_waits_for_a_person_counts_once_it_has_ended(send: Ask, call: Ask) -> None:
    model = ScriptedChatModel([[s("1"), WAITS, s("2")], [s("3"), WAITS], "Done."])
    limit = ToolCallLimitMiddleware(thread_limit=3)
    agent = create_agent(model, [search, wait], middleware=[limit], **in_memory())
    assert "__interrupt__" in send(agent, config=ONE)
    messages = call(agent, Command(resume="yes"), ONE)["messages"]
    assert answers(messages) == ["found 1", "answered yes", "found 2", "refused", "refused"]
    assert counts(agent) == {"search": 2, "wait": 1}


def test_the_limit_still_ends_a_run_that_waited_for_a_person(send: Ask, call: Ask) -> None:
    model = ScriptedChatModel([[WAITS, s("1")]])
    limit = ToolCallLimitMiddleware(thread_limit=1, exit_behavior="end")
    agent = create_agent(model, [search, wait], middleware=[limit], **in_memory())
    assert "__interrupt__" in send(agent, config=ONE)
    messages = call(agent, Command(resume="yes"), ONE)["messages"]
    assert answers(messages) == ["answered yes", "refused"]
    assert messages[-1].text.startswith("I had to stop here: 1 of 1 tool calls")


FINAL = {"name": "Answer", "args": {"number": 5}}


def test_a_structured_answer_does_not_count_and_may_still_be_given(send: Ask) -> None:
    limit = ToolCallLimitMiddleware(thread_limit=0)
    model = ScriptedChatModel([[s("1")], [FINAL]])
    agent = create_agent(model, [search], middleware=[limit], response_format=Answer, **in_memory())
    assert send(agent, config=ONE)["structured_response"] == Answer(number=5)
    assert counts(agent) == {}


class DropsReplies(AgentMiddleware[Any, Any]):
    """Passes on what the model said, without the reply to its structured answer."""

    def around_model(self, request: Any) -> Flow[Any]:
        response = yield request
        return response.result[0]


def test_a_pending_structured_answer_is_not_a_tool_call(send: Ask) -> None:
    stack: list[Any] = [ToolCallLimitMiddleware(run_limit=0), DropsReplies()]
    model = ScriptedChatModel([[FINAL]])
    agent = create_agent(model, [search], middleware=stack, response_format=Answer)
    assert send(agent)["structured_response"] == Answer(number=5)


def test_a_last_answer_may_be_structured_and_is_asked_for_again(send: Ask) -> None:
    limit = ToolCallLimitMiddleware(run_limit=0, exit_behavior="answer")
    model = ScriptedChatModel([[s("1")], "In prose.", [FINAL]])
    agent = create_agent(model, [search], middleware=[limit], response_format=Answer)
    assert send(agent)["structured_response"] == Answer(number=5)
    assert [request.tools for request in model.requests[1:]] == [["Answer"], ["Answer"]]


def test_calls_that_the_provider_runs_do_not_count_and_foreign_metadata_are_ignored(
    send: Ask,
) -> None:
    content: Any = [
        {"type": "server_tool_use", "id": "x", "name": "web_search", "input": {}},
        {"type": "text", "text": "Let me look."},
    ]
    foreign = {"tool_call_limits": {"x": 3}}
    calls: Any = [{**s("1"), "id": "1", "type": "tool_call"}]
    message = AIMessage(content, tool_calls=calls, response_metadata=foreign)
    limit = ToolCallLimitMiddleware(thread_limit=1)
    tools: list[Any] = [search, {"type": "web_search"}]
    model = ScriptedChatModel([message, "Done."])
    agent = create_agent(model, tools, middleware=[limit], **in_memory())
    assert answers(send(agent, config=ONE)["messages"]) == ["found 1"]
    assert counts(agent) == {"search": 1}


def test_a_tool_that_ends_the_run_counts_and_a_refused_call_of_it_goes_back_to_the_model(
    send: Ask,
) -> None:
    last = [{"name": "show", "args": {"text": "all"}}]
    limit = ToolCallLimitMiddleware(thread_limit=1)
    agent = create_agent(
        ScriptedChatModel([last, last, "Then not."]), [show], middleware=[limit], **in_memory()
    )
    ends = [send(agent, config=ONE)["messages"][-1].text for _ in range(2)]
    assert ends == ["<all>", "Then not."]
    assert counts(agent) == {"show": 1}


def test_a_subagent_in_a_tool_has_separate_counts(send: Ask) -> None:
    limit = ToolCallLimitMiddleware(run_limit=1)

    @tool
    def delegate(task: str) -> str:
        """Delegate."""
        model = ScriptedChatModel([[{**s(task), "id": "1"}, {**s(task), "id": "2"}], "Inner."])
        inner = create_agent(model, [search], middleware=[limit])
        return str(answers(inner.invoke({"messages": "x"})["messages"]))

    model = ScriptedChatModel([[{"name": "delegate", "args": {"task": "t"}, "id": "1"}], "Done."])
    outer = ToolCallLimitMiddleware(thread_limit=5)
    agent = create_agent(model, [delegate], middleware=[outer], **in_memory())
    assert answers(send(agent, config=ONE)["messages"]) == ["['found t', 'refused']"]
    assert counts(agent) == {"delegate": 1}


def test_results_are_streamed_as_without_a_limit(collect: Ask) -> None:
    def streamed(*middleware: Any) -> list[Any]:
        model = ScriptedChatModel([[{**s("1"), "id": "1"}], "Done."])
        agent = create_agent(model, [search], middleware=middleware)
        chunks = collect(agent, {"messages": "Hi"}, stream_mode="messages")
        return [(m.type, m.text, c["langgraph_node"]) for m, c in chunks]

    assert streamed(ToolCallLimitMiddleware(run_limit=1)) == streamed()


def test_a_limit_with_room_for_the_whole_turn_leaves_no_record(send: Ask) -> None:
    for limit, noted in ((2, False), (1, True)):
        model = ScriptedChatModel([[s("1"), s("2")], "Done."])
        stack: list[Any] = [ToolCallLimitMiddleware(run_limit=limit)]
        result = send(create_agent(model, [search], middleware=stack))
        assert ("tool_call_limits" in result["messages"][1].response_metadata) == noted
        assert set(result) == {"messages"}


def test_limits_have_attributes_and_are_named_after_their_tool() -> None:
    limit = ToolCallLimitMiddleware(tool_name="files:read", thread_limit=4, run_limit=2)
    assert (limit.tool_name, limit.thread_limit, limit.run_limit) == ("files:read", 4, 2)
    assert limit.exit_behavior == "continue"
    assert limit.name == "ToolCallLimitMiddleware[files_read]"
    assert ToolCallLimitMiddleware(run_limit=1, name="all").name == "all"


@each(
    "settings, error, problem",
    [
        ({}, ValueError, "Pass thread_limit, run_limit or both"),
        ({"run_limit": -1}, ValueError, "run_limit must be a whole number"),
        ({"thread_limit": 1.0}, ValueError, "thread_limit must be a whole number"),
        ({"run_limit": True}, ValueError, "run_limit must be a whole number"),
        ({"run_limit": 3, "thread_limit": 2}, ValueError, r"run_limit \(3\) must .*limit \(2\)"),
        (
            {"run_limit": 1, "exit_behavior": "x"},
            ValueError,
            "'continue', 'end', 'error' or 'answer'",
        ),
        ({"run_limit": 1, "tool_name": ""}, ValueError, "tool_name must not be empty"),
        ({"run_limit": 1, "tool_name": search}, TypeError, "tool_name must be a string or None"),
    ],
)
def test_invalid_limits_raise(settings: Any, error: Any, problem: str) -> None:
    with pytest.raises(error, match=problem):
        ToolCallLimitMiddleware(**settings)


def test_a_limit_that_is_changed_between_runs_applies(send: Ask) -> None:
    limit = ToolCallLimitMiddleware(run_limit=2)
    for allowed in (2, 1):
        limit.run_limit = allowed
        model = ScriptedChatModel([[s()], [s("b")], "Done."])
        result = send(create_agent(model, [search], middleware=[limit]))
        refused = ["refused"] * (2 - allowed)
        assert answers(result["messages"]) == [*["found a", "found b"][:allowed], *refused]
