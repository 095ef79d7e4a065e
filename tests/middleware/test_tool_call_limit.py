"""Limits of tools and of runs: no tool runs too often, every call gets a result, runs end well."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable
from itertools import count, product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import StructuredTool
from langgraph.types import Command, interrupt
from stack_agents import agent_of, kept_agent

from agent_factory import AgentMiddleware, Flow, TurnError, create_agent, hook_config, review
from agent_factory import middleware as m
from agent_factory.state.history import is_valid
from agent_factory.testing import ScriptedChatModel
from samples import THREAD, Answer, in_memory, search
from tables import each

Ask = Callable[..., Any]


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


def counts(agent: Any, config: Any = THREAD) -> dict[str, int]:
    """The calls that the thread has counted."""
    return dict(agent.get_state(config).values.get("thread_tool_call_count", {}))


def test_calls_over_the_limit_get_errors_and_the_run_continues(send: Ask) -> None:
    model = ScriptedChatModel([[s("1"), s("2"), r("3")], [s("4")], "Done."])
    limit = m.ToolCallLimitMiddleware(tool_name="search", run_limit=1)
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


def test_the_limit_of_a_thread_applies_over_its_runs_and_only_to_it(send: Ask) -> None:
    model = ScriptedChatModel([[s("1")], "a", [s("2"), s("3")], "b", [s("4")], "c"])
    limit = m.ToolCallLimitMiddleware(thread_limit=2, run_limit=2)
    agent = create_agent(model, [search], middleware=[limit], **in_memory())
    send(agent, config=THREAD)
    messages = send(agent, config=THREAD)["messages"]
    assert answers(messages) == ["found 1", "found 2", "refused"]
    assert "2 of 2 tool calls are used up in this thread." in messages[-2].text
    assert "Do not call any tool again" in messages[-2].text
    other = send(agent, config={"configurable": {"thread_id": "2"}})
    assert answers(other["messages"]) == ["found 4"]


def test_end_gives_the_numbers_after_all_calls_are_answered(send: Ask) -> None:
    model = ScriptedChatModel([[s("1"), r("2"), s("3")]])
    limit = m.ToolCallLimitMiddleware(tool_name="search", run_limit=1, exit_behavior="end")
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
    limit = m.ToolCallLimitMiddleware(run_limit=2, exit_behavior="end")
    agent = create_agent(model, [search], middleware=[limit], **in_memory())
    ends = [send(agent, config=THREAD)["messages"][-1].text for _ in range(3)]
    assert (ends[0], ends[2]) == ("Done.", "Hello again.")
    assert ends[1].startswith("I had to stop here")


def test_an_answer_is_asked_for_without_tools_and_says_why(send: Ask) -> None:
    model = ScriptedChatModel([[s("1"), s("2")], "I found 1, and 2 is missing."])
    limit = m.ToolCallLimitMiddleware(run_limit=1, exit_behavior="answer")
    messages = send(create_agent(model, [search, read], middleware=[limit]))["messages"]
    assert [m.type for m in messages] == ["human", "ai", "tool", "tool", "ai"]
    assert messages[-1].text == "I found 1, and 2 is missing."
    assert model.requests[0].tools == ["search", "read"]
    assert model.requests[1].tools == []
    assert "1 of 1 tool calls are used up in this run" in model.requests[1].messages[-1].text


def test_an_error_carries_the_numbers_and_all_work_is_kept(send: Ask) -> None:
    model = ScriptedChatModel([[s("1"), s("2"), r("3")], "Fine."])
    limit = m.ToolCallLimitMiddleware(
        tool_name="search", thread_limit=5, run_limit=1, exit_behavior="error"
    )
    agent = create_agent(model, [search, read], middleware=[limit], **in_memory())
    with pytest.raises(m.ToolCallLimitExceededError, match=r"search: may not .* 1 of 1") as caught:
        send(agent, config=THREAD)
    error = caught.value
    assert isinstance(error, TurnError)
    assert (error.tool_name, error.thread_count, error.run_count) == ("search", 1, 1)
    assert (error.thread_limit, error.run_limit) == (5, 1)
    assert pickle.loads(pickle.dumps(error)).tool_name == "search"
    assert answers(agent.get_state(THREAD).values["messages"]) == ["found 1", "refused", "read 3"]
    assert send(agent, config=THREAD)["messages"][-1].text == "Fine."


REJECT, APPROVE = {"type": "reject"}, {"type": "approve"}


ORDERS = each("order", [1, -1])
"""The middleware of a stack as it stands, and the other way around."""


@ORDERS
def test_a_call_that_people_reject_does_not_count(send: Ask, call: Ask, order: int) -> None:
    model = ScriptedChatModel([[s("1"), s("2")], [s("3")], "Done."])
    stack: list[Any] = [
        m.ToolCallLimitMiddleware(thread_limit=2),
        m.HumanInTheLoopMiddleware({"search": True}),
    ]
    agent = create_agent(model, [search], middleware=stack[::order], **in_memory())
    send(agent, config=THREAD)
    call(agent, Command(resume={"decisions": [REJECT, APPROVE]}), THREAD)
    messages = call(agent, Command(resume={"decisions": [APPROVE]}), THREAD)["messages"]
    rejected, *others = answers(messages)
    assert ("rejected" in rejected, others) == (True, ["found 2", "found 3"])
    assert counts(agent) == {"search": 2}


def test_calls_that_are_edited_in_parallel_do_not_exceed_the_limit_together(
    send: Ask, call: Ask
) -> None:
    model = ScriptedChatModel([[s("1"), s("2"), r("3")], "Done."])
    limit = m.ToolCallLimitMiddleware(tool_name="read", run_limit=2)
    review = m.HumanInTheLoopMiddleware({"search": True}, interrupt_mode="per_call")
    agent = create_agent(model, [search, read], middleware=[review, limit], **in_memory())
    waiting = send(agent, config=THREAD)["__interrupt__"]
    edit = {"type": "edit", "edited_action": {"name": "read", "args": {"page": "x"}}}
    resume = {question.id: edit for question in waiting}
    messages = call(agent, Command(resume=resume), THREAD)["messages"]
    statuses = [m.status for m in messages if isinstance(m, ToolMessage)]
    assert statuses == ["success", "error", "success"]
    assert counts(agent) == {"read": 2}


class Guard(AgentMiddleware[Any, Any]):
    """Refuses what asks for a secret, as the call is run."""

    def around_tool(self, request: Any) -> Flow[Any]:
        if "secret" in str(request.tool_call["args"]):
            return ToolMessage("No.", tool_call_id=request.tool_call["id"], status="error")
        return (yield request)


class Retries(AgentMiddleware[Any, Any]):
    def around_tool(self, request: Any) -> Flow[Any]:
        yield request
        return (yield request)


@each(
    "layers, calls, results",
    [
        ([Guard()], [s("secret"), s("1"), s("2")], ["No.", "found 1", "refused"]),
        ([Retries()], [s("1"), s("2")], ["refused", "refused"]),
        ([], [{"name": "serach", "args": {}}, s("1")], ["Error", "found 1"]),
    ],
)
@ORDERS
def test_a_call_counts_once_if_its_tool_ran(
    send: Ask, layers: Any, calls: Any, results: list[str], order: int
) -> None:
    """By any layer, which may not run it again; a call that a guard refuses has not run."""
    stack: list[Any] = [m.ToolCallLimitMiddleware(thread_limit=1), *layers][::order]
    agent = agent_of([*([call] for call in calls), "Done."], *stack, tools=[search], **in_memory())
    found = answers(send(agent, config=THREAD)["messages"])
    assert [text.split(":")[0] for text in found] == results
    assert counts(agent) == {"search": 1}


@ORDERS
def test_a_limit_that_ends_the_run_takes_precedence(send: Ask, order: int) -> None:
    limits = [
        m.ToolCallLimitMiddleware(run_limit=1, exit_behavior="end"),
        m.ToolCallLimitMiddleware(tool_name="search", run_limit=1),
    ]
    for script in ([[s("1")], [s("2")]], [[s("1"), s("2")]]):
        model = ScriptedChatModel(script)
        messages = send(create_agent(model, [search], middleware=limits[::order]))["messages"]
        assert answers(messages) == ["found 1", "refused"]
        assert "1 of 1 tool calls" in messages[-1].text


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
    limit = m.ToolCallLimitMiddleware(run_limit=1, exit_behavior=exit_behavior)
    stack: list[Any] = [limit, NeverContent()][::order]
    model = ScriptedChatModel([[s("1"), s("2")], *(["So."] if exit_behavior == "answer" else [])])
    messages = send(create_agent(model, [search], middleware=stack))["messages"]
    assert messages[-1].text.startswith(last)
    model.assert_done()


def wait(query: str) -> str:
    """Wait for a person."""
    return f"answered {interrupt(query)}"


WAITS = {"name": "wait", "args": {"query": "?"}}


def test_a_call_that_waits_for_a_person_counts_once_it_has_ended(send: Ask, call: Ask) -> None:
    model = ScriptedChatModel([[s("1"), WAITS, s("2")], [s("3"), WAITS], "Done."])
    limit = m.ToolCallLimitMiddleware(thread_limit=3)
    agent = create_agent(model, [search, wait], middleware=[limit], **in_memory())
    assert "__interrupt__" in send(agent, config=THREAD)
    messages = call(agent, Command(resume="yes"), THREAD)["messages"]
    assert answers(messages) == ["found 1", "answered yes", "found 2", "refused", "refused"]
    assert counts(agent) == {"search": 2, "wait": 1}


FINAL = {"name": "Answer", "args": {"number": 5}}


class DropsReplies(AgentMiddleware[Any, Any]):
    """Passes on what the model said, without the reply to its structured answer."""

    def around_model(self, request: Any) -> Flow[Any]:
        response = yield request
        return response.result[0]


def test_a_pending_structured_answer_is_not_a_tool_call(send: Ask) -> None:
    stack: list[Any] = [m.ToolCallLimitMiddleware(run_limit=0), DropsReplies()]
    agent = agent_of([[FINAL]], *stack, tools=[search], response_format=Answer)
    assert send(agent)["structured_response"] == Answer(number=5)


def test_a_last_answer_may_be_structured_and_is_asked_for_again(send: Ask) -> None:
    limit = m.ToolCallLimitMiddleware(thread_limit=0, exit_behavior="answer")
    model = ScriptedChatModel([[s("1")], "In prose.", [FINAL]])
    agent = create_agent(model, [search], middleware=[limit], response_format=Answer, **in_memory())
    assert send(agent, config=THREAD)["structured_response"] == Answer(number=5)
    assert [request.tools for request in model.requests[1:]] == [["Answer"], ["Answer"]]
    assert counts(agent) == {}


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
    limit = m.ToolCallLimitMiddleware(thread_limit=1)
    tools: list[Any] = [search, {"type": "web_search"}]
    agent = agent_of([message, "Done."], limit, tools=tools, **in_memory())
    assert answers(send(agent, config=THREAD)["messages"]) == ["found 1"]
    assert counts(agent) == {"search": 1}


def test_limits_are_named_after_their_tool() -> None:
    limit = m.ToolCallLimitMiddleware(tool_name="files:read", run_limit=2)
    assert limit.name == "ToolCallLimitMiddleware[files_read]"
    assert m.ToolCallLimitMiddleware(run_limit=1, name="all").name == "all"


TOOLS = ("search", "read", "write")
RUNS = 2
"""Each thread gets so many messages."""

EXITS = st.sampled_from(["continue", "end", "error", "answer"])
TURNS = st.lists(st.lists(st.sampled_from(TOOLS), max_size=3), max_size=4)
JUMPS = st.lists(st.sampled_from([None, "model", "tools", "end"]), max_size=5)


@st.composite
def limits(draw: st.DrawFn) -> dict[str, Any]:
    """The settings of a limit."""
    run, more = draw(st.integers(0, 3)), draw(st.integers(0, 2))
    settings: dict[str, Any] = {"run_limit": run, "thread_limit": run + more}
    for left_out in draw(st.sampled_from([[], ["run_limit"], ["thread_limit"]])):
        del settings[left_out]
    tool = draw(st.sampled_from([None, "search", "read"]))
    return {**settings, "tool_name": tool, "exit_behavior": draw(EXITS)}


class Jumps(AgentMiddleware[Any, Any]):
    """Jump as the parameters say."""

    def __init__(self, jumps: list[str | None]) -> None:
        super().__init__(name="jumps")
        self.left = list(jumps)

    @hook_config(can_jump_to=["model", "tools", "end"])
    def after_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        jump = self.left.pop(0) if self.left else None
        waits = getattr(state["messages"][-1], "tool_calls", ())
        return None if jump is None or (jump == "tools" and not waits) else {"jump_to": jump}


class Script:
    """A model that makes the given calls and then answers."""

    def __init__(self, turns: list[list[str]]) -> None:
        self.left = list(turns)

    def __call__(self, messages: list[Any]) -> Any:
        names = self.left.pop(0) if self.left else []
        return [{"name": name, "args": {}} for name in names] or "So."


def tools(ran: Counter[str]) -> list[Any]:
    def tool_of(name: str) -> Any:
        def work() -> str:
            ran[name] += 1
            if name == "write":
                raise ValueError("cannot write")
            return name

        return StructuredTool.from_function(work, name=name, description=name)

    return [tool_of(name) for name in TOOLS]


def covered(limit: m.ToolCallLimitMiddleware, ran: Counter[str]) -> int:
    return ran.total() if limit.tool_name is None else ran[limit.tool_name]


@settings.get_profile("costly")
@given(st.lists(limits(), min_size=1, max_size=2), TURNS, JUMPS, st.integers(0, 2))
def test_no_tool_runs_more_often_than_any_limit_allows(
    settings: list[dict[str, Any]], turns: list[list[str]], jumps: list[str | None], place: int
) -> None:
    found = [m.ToolCallLimitMiddleware(**s, name=f"limit {i}") for i, s in enumerate(settings)]
    thread: Counter[str] = Counter()
    run: Counter[str] = Counter()
    stack: list[Any] = list(found)
    stack.insert(place, Jumps(jumps))
    agent = kept_agent(
        ScriptedChatModel([Script(turns)] * 60), *stack, tools=tools(run), handle_tool_errors=True
    )
    for _ in range(RUNS):
        run.clear()
        try:
            agent.invoke({"messages": [HumanMessage("Go on")]}, THREAD)
        except m.ToolCallLimitExceededError:
            assert any(limit.exit_behavior == "error" for limit in found)
        thread += run
        values = agent.get_state(THREAD).values
        for limit in found:
            assert limit.run_limit is None or covered(limit, run) <= limit.run_limit
            assert limit.thread_limit is None or covered(limit, thread) <= limit.thread_limit
        assert Counter(values.get("thread_tool_call_count", {})) == thread
        assert has_one_answer_each(values["messages"])
        # Only a jump out of the run leaves calls behind, or an error after a jump away from them.
        raises = any(limit.exit_behavior == "error" for limit in found)
        left_behind = "end" in jumps or (raises and "model" in jumps)
        assert is_valid(values["messages"]) or left_behind


def has_one_answer_each(messages: list[Any]) -> bool:
    answers = Counter(m.tool_call_id for m in messages if m.type == "tool")
    calls = {c["id"] for m in messages if m.type == "ai" for c in m.tool_calls}
    return set(answers) <= calls and set(answers.values()) <= {1}


@pytest.mark.long
@settings.get_profile("costly")
@given(
    st.integers(0, 3),
    st.integers(0, 3),
    st.lists(st.sampled_from(TOOLS), max_size=6),
    st.booleans(),
)
def test_as_many_run_as_both_limits_allow(
    total: int, searches: int, names: list[str], total_first: bool
) -> None:
    """Limits that keep places for calls that cannot run would let too few run."""
    run: Counter[str] = Counter()
    stack = [
        m.ToolCallLimitMiddleware(run_limit=total),
        m.ToolCallLimitMiddleware(tool_name="search", run_limit=searches),
    ]
    model = ScriptedChatModel([Script([names])] * 2)
    agent = create_agent(
        model, tools(run), middleware=stack if total_first else stack[::-1], handle_tool_errors=True
    )
    agent.invoke({"messages": [HumanMessage("Go on")]})
    others = sum(name != "search" for name in names)
    assert run.total() == min(total, others + min(searches, len(names) - others))


MOST = 3

LIMITS: dict[str, Callable[[], AgentMiddleware[Any, Any]]] = {
    "model calls": lambda: m.ModelCallLimitMiddleware(run_limit=MOST),
    "tool calls": lambda: m.ToolCallLimitMiddleware(run_limit=MOST, exit_behavior="end"),
    "calls of a tool": lambda: m.ToolCallLimitMiddleware(tool_name="delete", run_limit=MOST),
    "turns of a budget": lambda: m.BudgetMiddleware(run=m.Limits(turns=MOST), exit_behavior="end"),
    "tools of a budget": lambda: m.BudgetMiddleware(run=m.Limits(tool_calls=MOST)),
}


class Desk:
    """An agent that deletes files one after the other, and each time a person is asked."""

    def __init__(self, limit: AgentMiddleware[Any, Any], mode: Any) -> None:
        self.deleted: list[int] = []
        self.broken = False
        numbers = count()

        def delete(number: int) -> str:
            """Delete a file."""
            if self.broken:
                raise ConnectionError("The disk is away.")
            self.deleted.append(number)
            return "Deleted."

        def answer(messages: Any) -> AIMessage:
            number = next(numbers)
            if number % 10 == 9:
                return AIMessage("I give up.")
            call = {"name": "delete", "args": {"number": number}, "id": f"call-{number}"}
            return AIMessage("", tool_calls=[call])

        self.model = ScriptedChatModel([answer] * 200)
        reviewer = m.HumanInTheLoopMiddleware({"delete": True}, interrupt_mode=mode)
        self.agent = kept_agent(self.model, limit, reviewer, tools=[delete])

    def approve_all(self, act: Ask) -> None:
        """Approve until nothing waits."""
        for _ in range(20):
            if not review.pending(self.agent, THREAD):
                return
            act("approve", self.agent)
        raise AssertionError("The run goes on after 20 approvals.")


EVERY = each("limit, mode", list(product(LIMITS, ["batched", "per_call"])))


@EVERY
def test_a_run_that_is_reviewed_again_and_again_has_one_limit(
    act: Ask, limit: str, mode: str
) -> None:
    desk = Desk(LIMITS[limit](), mode)
    desk.agent.invoke({"messages": "Delete all."}, THREAD)
    desk.approve_all(act)
    assert 0 < len(desk.deleted) <= MOST
    # The next message begins a run, which has the whole limit.
    before = len(desk.deleted)
    desk.agent.invoke({"messages": "Go on."}, THREAD)
    desk.approve_all(act)
    assert len(desk.deleted) - before == before


@EVERY
def test_a_run_that_goes_on_after_a_failure_continues_with_its_count(
    act: Ask, limit: str, mode: str
) -> None:
    desk = Desk(LIMITS[limit](), mode)
    desk.agent.invoke({"messages": "Delete all."}, THREAD)
    act("approve", desk.agent)
    desk.broken = True
    with pytest.raises(ConnectionError):
        act("approve", desk.agent)
    desk.broken = False
    desk.agent.invoke(None, THREAD)
    desk.approve_all(act)
    assert 0 < len(desk.deleted) <= MOST


@EVERY
def test_a_message_in_place_of_a_decision_begins_a_run(act: Ask, limit: str, mode: str) -> None:
    desk = Desk(LIMITS[limit](), mode)
    desk.agent.invoke({"messages": "Delete all."}, THREAD)
    act("approve", desk.agent)
    act("approve", desk.agent)
    assert len(desk.deleted) == 2
    act("add_input", desk.agent, "Stop. Now delete the others.")
    desk.approve_all(act)
    assert len(desk.deleted) > MOST
