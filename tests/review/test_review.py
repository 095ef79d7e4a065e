"""Reviews of runs paused by HumanInTheLoopMiddleware or by an `interrupt()` in a tool."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pydantic.v1
import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, interrupt
from stack_agents import kept_agent

from agent_factory import AgentMiddleware, AgentState, create_agent, review
from agent_factory.middleware import HumanInTheLoopMiddleware
from agent_factory.prebuilt import create_react_agent
from agent_factory.review.pending_calls import read_request
from agent_factory.review.policy import DECISIONS
from agent_factory.review.standing_approvals import approval_store
from agent_factory.testing import ScriptedChatModel, assert_valid_history
from reviews import goes_on, payments, question
from samples import THREAD, results_by_id
from tables import each

Act = Callable[..., Any]


class Till:
    """Tools that have an effect, so that they show which calls ran."""

    def __init__(self) -> None:
        self.done: list[Any] = []

    def pay(self, euros: int) -> str:
        """Pay money."""
        self.done.append(euros)
        return f"paid {euros}"

    def look(self) -> str:
        """Look into the till."""
        self.done.append("look")
        return "all there"

    def ask(self, about: str) -> str:
        """Ask a person."""
        answer = interrupt({"about": about})
        self.done.append(answer)
        return f"{about}: {answer}"


LOOK = {"name": "look", "args": {}, "id": "look"}


def asked(
    *script: Any, mode: Any = "batched", on: Any = True, review: Any = None, **options: Any
) -> tuple[Any, Till]:
    """An agent whose middleware, or whose tool, has asked; and what its tools do."""
    till = Till()
    review = review or HumanInTheLoopMiddleware({"pay": on}, interrupt_mode=mode)
    agent = create_agent(
        ScriptedChatModel(script),
        [till.pay, till.look, till.ask],
        middleware=[*options.pop("before", ()), review],
        checkpointer=InMemorySaver(),
        **options,
    )
    agent.invoke({"messages": [("user", "Pay!")]}, THREAD)
    return agent, till


def test_pending_calls_are_listed_by_id(act: Act, mode: Any) -> None:
    config = {"allowed_decisions": ["approve", "reject"], "description": "Is it right?"}
    agent, _ = asked([LOOK, *payments(1, 2)], mode=mode, on=config)
    calls = act("pending", agent).calls
    assert [(c.id, c.name, c.args, c.kind, c.question) for c in calls] == [
        ("call_1", "pay", {"euros": 1}, "review", "Is it right?"),
        ("call_2", "pay", {"euros": 2}, "review", "Is it right?"),
    ]
    assert {call.allowed for call in calls} == {("approve", "reject")}


def test_identical_calls_of_which_some_are_reviewed_are_distinguished_by_id(act: Act) -> None:
    alike = [{"name": "pay", "args": {"euros": 1}, "id": id_} for id_ in ("a", "b")]
    only_b = {"allowed_decisions": ["reject"], "when": lambda r: r.tool_call["id"] == "b"}
    agent, _ = asked(alike, "Done.", on=only_b)
    assert [call.id for call in act("pending", agent).calls] == ["b"]
    assert results_by_id(act("reject", agent, "no", "b")) == {"a": "paid 1", "b": "no"}


def test_a_review_by_langchains_middleware_is_matched_by_name_and_arguments(act: Act) -> None:
    theirs = pytest.importorskip("langchain.agents", reason="the extra peer is not installed")
    review = theirs.middleware.HumanInTheLoopMiddleware({"pay": True})
    agent, till = asked(payments(1, 2), "Done.", review=review)
    assert [call.id for call in act("pending", agent).calls] == ["call_1", "call_2"]
    act("decide", agent, {"call_1": {"type": "reject"}, "call_2": {"type": "approve"}})
    assert till.done == [2]


@each("allowed", [["approve", "reject"], ["approve"], [*DECISIONS]])
def test_a_review_of_each_call_by_langchains_middleware_is_read(act: Act, allowed: Any) -> None:
    """Its request does not name the decisions: they are in the schema of the answer."""
    theirs = pytest.importorskip("langchain.agents", reason="the extra peer is not installed")
    review = theirs.middleware.HumanInTheLoopMiddleware(
        {"pay": {"allowed_decisions": allowed}}, interrupt_mode="per_call"
    )
    agent, till = asked(payments(1, 2), "Done.", review=review)
    calls = act("pending", agent).calls
    assert {(call.id, call.kind, call.allowed) for call in calls} == {
        ("call_1", "review", tuple(allowed)),
        ("call_2", "review", tuple(allowed)),
    }
    act("decide", agent, {"call_1": {"type": "approve"}, "call_2": {"type": "approve"}})
    assert sorted(till.done) == [1, 2]


def test_a_request_that_a_thread_has_from_an_earlier_version_is_read() -> None:
    action = {"name": "pay", "args": {"euros": 1}, "description": "Pay.", "digest": "d"}
    config = {"action_name": "pay", "allowed_decisions": ["approve"]}
    stored = {"tool_call_id": "c", "action_request": action, "review_config": config}
    now = {"type": "tool_approval", "tool_call_id": "c", **action, "review_config": config}
    (call,) = read_request(now) or []
    assert read_request(stored) == [call]
    assert (call.id, call.allowed, call.question) == ("c", ("approve",), "Pay.")
    assert read_request({"type": "tool_approval"}) is None


def test_a_tool_with_a_model_of_pydantic_1_is_reviewed(act: Act, mode: Any) -> None:
    class Payment(pydantic.v1.BaseModel):
        euros: int

    pay = StructuredTool.from_function(Till().pay, name="pay", args_schema=Payment)
    stack = [HumanInTheLoopMiddleware({"pay": True}, interrupt_mode=mode)]
    agent: Any = kept_agent([payments(1), "Done."], *stack, tools=[pay])
    agent.invoke({"messages": [("user", "Pay!")]}, THREAD)
    assert [call.args for call in act("pending", agent).calls] == [{"euros": 1}]
    assert act("approve", agent)["messages"][-1].text == "Done."


def asked_by_clerks(till: Till, *payments_of: Any, mode: Any) -> Any:
    """An agent that gives each clerk something to do, which its middleware has asked about."""
    clerks: list[Any] = [
        create_agent(
            ScriptedChatModel([made, "Paid."] * 2),
            [till.pay],
            middleware=[HumanInTheLoopMiddleware({"pay": True}, interrupt_mode=mode)],
            ignore=["AF211"],  # the agent around it has a checkpointer
        )
        for made in payments_of
    ]

    def ask_clerk(number: int) -> str:
        """Give a clerk something to do."""
        return str(clerks[number].invoke({"messages": [("user", "Pay!")]})["messages"][-1].text)

    numbers = range(len(clerks))
    calls = [{"name": "ask_clerk", "args": {"number": n}, "id": f"outer_{n}"} for n in numbers]
    agent: Any = kept_agent([calls, "Done.", "Done."], tools=[ask_clerk])
    agent.invoke({"messages": [("user", "Pay!")]}, THREAD)
    return agent


def test_calls_of_parallel_subagents_with_one_id_are_distinguished(act: Act) -> None:
    agent = asked_by_clerks(till := Till(), payments(1), payments(1), mode="per_call")
    one, other = act("pending", agent).calls
    assert one.id != other.id
    act("decide", agent, {one.id: {"type": "approve"}, other.id: {"type": "reject"}})
    assert till.done == [1]


@each("first", ["call_1", "call_2"])
def test_calls_are_decided_one_by_one_in_any_order(act: Act, mode: Any, first: str) -> None:
    agent, till = asked(payments(1, 2), "Done.", mode=mode)
    act("approve", agent, first)
    (left,) = act("pending", agent).open
    assert {first, left.id} == {"call_1", "call_2"}
    result = act("reject", agent, "Too much.", left.id)
    assert till.done == [int(first[-1])]
    assert results_by_id(result)[left.id] == "Too much."
    assert result["messages"][-1].text == "Done."
    assert goes_on(agent)


def test_a_recorded_decision_can_be_changed_until_all_are_made(act: Act) -> None:
    agent, till = asked(payments(1, 2), "Done.")
    act("approve", agent, "call_1")
    act("reject", agent, "no", "call_1")
    act("approve", agent, "call_2")
    assert till.done == [2]
    assert goes_on(agent)


def test_decisions_of_one_stop_do_not_apply_to_the_next(act: Act) -> None:
    """The middleware asks about the calls, and then the run stops before the tools as well."""
    agent, till = asked(payments(1, 2), "Done.", interrupt_before=["tools"])
    act("approve", agent, "call_1")
    act("approve", agent, "call_2")
    waiting = act("pending", agent)
    assert [(call.kind, call.decision) for call in waiting.calls] == [("pause", None)] * 2
    act("reject", agent)
    assert not till.done
    assert goes_on(agent)


def test_a_response_replaces_the_result(act: Act, mode: Any) -> None:
    agent, till = asked(payments(1, 2), "Done.", mode=mode)
    act("respond", agent, "paid in cash", "call_1")
    assert results_by_id(act("approve", agent)) == {"call_1": "paid in cash", "call_2": "paid 2"}
    assert till.done == [2]
    assert goes_on(agent)


def test_a_new_message_keeps_the_results_of_parallel_calls(act: Act, mode: Any) -> None:
    agent, till = asked([LOOK, *payments(1)], "Stopped.", mode=mode)
    result = act("add_input", agent, "Stop!")
    assert 1 not in till.done
    # The tools may have begun where a layer around one of them asks.
    known = "did not run" if mode == "batched" else "has no result"
    for id_, name in (("call_1", "pay"), ("look", "look")):
        expected = f"This call of {name} {known}: the user sent a new message"
        if id_ not in till.done:
            assert results_by_id(result)[id_].startswith(expected)
    assert ("may have run" in results_by_id(result)["call_1"]) == (mode == "per_call")
    assert results_by_id(result)["look"] == "all there" or "look" not in till.done
    assert result["messages"][-2].text == "Stop!"
    assert goes_on(agent)


class DyingSaver(InMemorySaver):
    """Saver of a process that dies before the checkpoint of a step whose writes it has stored."""

    answers = 10

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        super().put_writes(config, writes, task_id, task_path)
        for _, value in writes:
            self.answers -= isinstance(value, list) and isinstance(value[-1], AIMessage)

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        if not self.answers:
            raise ConnectionError("the process died")
        return super().put(config, checkpoint, metadata, new_versions)


@each("fused", [True, False])
def test_a_new_message_keeps_what_a_finished_step_has_written(fused: bool) -> None:
    saver = DyingSaver()
    script = ["First.", "Second.", "Third."]
    agent = create_agent(ScriptedChatModel(script), checkpointer=saver, fused=fused)
    agent.invoke({"messages": ["Hi"]}, THREAD)
    saver.answers = 1
    with pytest.raises(ConnectionError):
        agent.invoke({"messages": ["More"]}, THREAD, durability="sync")
    saver.answers = 10
    texts = [message.text for message in review.add_input(agent, THREAD, "And?")["messages"]]
    assert texts[:3] == ["Hi", "First.", "More"]
    assert texts[-2:] == ["And?", "Third."]
    assert "Second." in texts


def test_a_repeated_decision_does_not_apply_to_the_next_review(act: Act, mode: Any) -> None:
    agent, till = asked(payments(1), payments(2), "Done.", mode=mode)
    act("approve", agent, "call_1")
    for again in ("call_1", act("pending", agent).calls[0].interrupt_id[::-1]):
        with pytest.raises(review.UnknownCall, match=r"is not a pending call\. Pending: 'call_2'"):
            act("approve", agent, again)
    assert till.done == [1]
    assert [call.id for call in act("pending", agent).open] == ["call_2"]


def test_a_repeated_answer_does_not_apply_to_the_next_review(call: Any, mode: Any) -> None:
    agent, till = asked(payments(1), payments(2), "Done.", mode=mode)
    (first,) = agent.get_state(THREAD).interrupts
    approval = {"type": "approve"}
    answer = {first.id: {"decisions": [approval]} if mode == "batched" else approval}
    call(agent, Command(resume=answer), THREAD)
    with pytest.raises(review.UnknownCall, match="not a pending interrupt"):
        call(agent, Command(resume=answer), THREAD)
    assert till.done == [1]
    assert [c.id for c in review.pending(agent, THREAD).open] == ["call_2"]


def test_a_digest_names_one_call_even_if_the_model_repeats_its_id(act: Act, mode: Any) -> None:
    same = [{"name": "pay", "args": {"euros": 1}, "id": "0"}]
    agent, till = asked(same, same, "Done.", mode=mode)
    (first,) = act("pending", agent).calls
    act("approve", agent, first.digest)
    (second,) = act("pending", agent).calls
    assert (second.id, second.args) == (first.id, first.args)
    assert second.digest != first.digest
    with pytest.raises(review.UnknownCall):
        act("approve", agent, first.digest)
    assert till.done == [1]
    act("decide", agent, {second.digest: {"type": "approve"}})
    assert till.done == [1, 1]
    assert goes_on(agent)


def test_the_id_of_an_interrupt_about_several_calls_names_none_of_them(act: Act) -> None:
    agent, till = asked(payments(1, 2), "Done.")
    one, _ = act("pending", agent).calls
    with pytest.raises(review.UnknownCall, match=r"asks about 2 calls"):
        act("approve", agent, one.interrupt_id)
    assert till.done == []


@pytest.fixture(params=["sync", "async"])
def stream(request: pytest.FixtureRequest) -> Act:
    """Stream a thread as a user interface does: a new message, or an action with `stream=True`."""

    def sync(agent: Any, action: str, *args: Any, **options: Any) -> list[Any]:
        return list(getattr(review, action)(agent, THREAD, *args, stream=True, **options))

    async def gather(agent: Any, action: str, *args: Any, **options: Any) -> list[Any]:
        act = getattr(review, f"a{action}")
        return [part async for part in await act(agent, THREAD, *args, stream=True, **options)]

    def a(*args: Any, **options: Any) -> list[Any]:
        return asyncio.run(gather(*args, **options))

    return sync if request.param == "sync" else a


def test_a_streamed_run_is_decided_about_and_streams_on(stream: Act, mode: Any) -> None:
    agent, till = asked(payments(1), payments(2), "Done.", mode=mode)
    parts = stream(agent, "approve", "call_1", stream_mode="updates")
    nodes = [node for part in parts for node in part]
    assert "tools" in nodes
    assert nodes[-1] == "__interrupt__"
    parts = stream(agent, "reject", "Enough.", stream_mode=["messages", "values"])
    assert "".join(m[0].text for kind, m in parts if kind == "messages")[-5:] == "Done."
    assert till.done == [1]
    assert goes_on(agent)


def test_an_action_that_runs_nothing_streams_nothing(stream: Act) -> None:
    options: Any = {"interrupt_before": ["tools"], "ignore": ["AF212"]}
    agent, till = asked(payments(1, 2), "Done.", on=False, **options)
    assert stream(agent, "approve", "call_1", stream_mode="updates") == []
    parts = stream(agent, "edit", {"euros": 3}, "call_2", stream_mode="updates")
    assert sorted(till.done) == [1, 3]
    assert any("tools" in part for part in parts)
    assert goes_on(agent)


@each(
    "action, more, done",
    [
        ("decide", ({"call_1": {"type": "approve"}},), [1]),
        ("respond", ("paid in cash",), []),
        ("add_input", ("Stop!",), []),
        ("edit", ({"euros": 5},), [5]),
    ],
)
def test_all_actions_stream(
    stream: Act, mode: Any, action: str, more: Any, done: list[int]
) -> None:
    agent, till = asked(payments(1), "Done.", mode=mode)
    parts = stream(agent, action, *more, stream_mode="values")
    assert parts[-1]["messages"][-1].text == "Done."
    assert till.done == done
    assert goes_on(agent)


def test_an_interrupt_in_a_tool_is_answered_with_any_value(act: Act) -> None:
    agent, till = asked([LOOK, question("size")], "Done.")
    (call,) = act("pending", agent).calls
    assert (call.id, call.name, call.kind, call.question) == (
        "size",
        "ask",
        "question",
        {"about": "size"},
    )
    result = act("respond", agent, ["big", "wide"])
    assert results_by_id(result) == {"look": "all there", "size": "size: ['big', 'wide']"}
    assert till.done.count("look") == 1
    assert goes_on(agent)


@each("version", ["v1", "v2"])
def test_an_interrupt_in_a_tool_of_a_react_agent_is_answered(act: Act, version: Any) -> None:
    """Under v1 one task runs all calls: the sibling of a tool that asked runs again with it."""
    till = Till()
    model = ScriptedChatModel([[LOOK, question("size")], "Done."])
    saver = InMemorySaver()
    agent = create_react_agent(model, [till.look, till.ask], version=version, checkpointer=saver)
    agent.invoke({"messages": [("user", "Pay!")]}, THREAD)
    assert results_by_id(act("respond", agent, "big")) == {"look": "all there", "size": "size: big"}
    assert till.done.count("look") == (2 if version == "v1" else 1)
    assert goes_on(agent)


def test_several_interrupts_are_answered_one_by_one(act: Act) -> None:
    agent, till = asked([question("size"), LOOK, question("mode")], "Done.")
    assert [call.id for call in act("pending", agent).calls] == ["size", "mode"]
    act("respond", agent, "red", "mode")
    (left,) = act("pending", agent).calls
    result = act("respond", agent, "big", left.interrupt_id)
    assert results_by_id(result) == {"size": "size: big", "look": "all there", "mode": "mode: red"}
    assert till.done.count("look") == 1
    assert goes_on(agent)


def test_an_interrupt_in_a_tool_can_not_be_approved_or_edited(act: Act) -> None:
    agent, _ = asked([question("size")])
    for name, more in (("approve", ()), ("reject", ()), ("edit", ({},))):
        with pytest.raises(review.DecisionNotAllowed, match=r"respond\(\) answers it"):
            act(name, agent, *more)


def test_a_new_message_drops_an_interrupt_in_a_tool(act: Act) -> None:
    agent, till = asked([LOOK, question("size")], "Fine.")
    assert results_by_id(act("add_input", agent, "Never mind."))["look"] == "all there"
    assert till.done == ["look"]
    assert goes_on(agent)


def test_parallel_reviews_and_interrupts_are_decided_together(act: Act) -> None:
    agent, _ = asked([*payments(1), question("size")], "Done.", mode="per_call")
    given = {"call_1": {"type": "approve"}, "size": {"type": "respond", "message": "big"}}
    assert results_by_id(act("decide", agent, given)) == {"call_1": "paid 1", "size": "size: big"}
    assert goes_on(agent)


def test_an_earlier_review_can_be_decided_differently(act: Act, mode: Any) -> None:
    agent, till = asked(payments(1, 2), "Done.", "Well.", mode=mode)
    moment = agent.get_state(THREAD).config
    act("approve", agent)
    result = review.reject(agent, moment, "No!")
    assert results_by_id(result) == {"call_1": "No!", "call_2": "No!"}
    assert result["messages"][-1].text == "Well."
    assert sorted(till.done) == [1, 2]
    assert goes_on(agent)


def test_an_earlier_review_of_subagents_is_decided_by_the_names_it_had(mode: Any) -> None:
    agent = asked_by_clerks(till := Till(), payments(1), payments(1), payments(2), mode=mode)
    moment = agent.get_state(THREAD).config
    review.reject(agent, THREAD)
    approve, reject = {"type": "approve"}, {"type": "reject"}
    calls = review.pending(agent, moment).calls
    decisions = {call.digest: approve if call.args["euros"] == 1 else reject for call in calls}
    assert review.decide(agent, moment, decisions)["messages"][-1].text == "Done."
    assert till.done == [1, 1]


class Doubts(AgentMiddleware[AgentState[Any], Any]):
    """A hook that asks, about no call."""

    def before_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> None:
        """Ask whether to go on."""
        interrupt("Shall I?")


def test_an_interrupt_in_a_hook_is_answered(act: Act) -> None:
    agent, _ = asked("Hello!", before=[Doubts()])
    (call,) = act("pending", agent).calls
    assert (call.name, call.args, call.question) == ("Doubts.before_model", {}, "Shall I?")
    assert act("respond", agent, "yes", call.id)["messages"][-1].text == "Hello!"
    assert goes_on(agent)


def test_an_agent_inside_is_answered_through_its_graph(act: Act, mode: Any) -> None:
    till = Till()
    agent = create_agent(
        ScriptedChatModel([payments(1, 2), "Done."]),
        [till.pay],
        middleware=[HumanInTheLoopMiddleware({"pay": True}, interrupt_mode=mode)],
        checkpointer=True,
    )
    parts: Any = StateGraph(MessagesState).add_node("clerk", agent).add_edge(START, "clerk")
    graph = parts.compile(checkpointer=InMemorySaver())
    graph.invoke({"messages": [("user", "Pay!")]}, THREAD)
    # The questions of the agent arrive in the order in which its tasks came to ask them.
    one, two = sorted(act("pending", graph).calls, key=lambda call: str(call.args["euros"]))
    assert [(call.name, call.args["euros"]) for call in (one, two)] == [("pay", 1), ("pay", 2)]
    result = act("decide", graph, {one.id: {"type": "approve"}, two.id: {"type": "reject"}})
    assert till.done == [1]
    assert result["messages"][-1].text == "Done."
    assert_valid_history(result["messages"])


def test_a_nested_agents_question_about_several_calls_is_answered_as_a_whole(act: Act) -> None:
    agent = asked_by_clerks(till := Till(), payments(1, 2), mode="batched")
    first, _ = act("pending", agent).calls
    with pytest.raises(review.DecideTogether, match=r"Decide about all its calls at once"):
        act("approve", agent, first.id)
    assert results_by_id(act("approve", agent)) == {"outer_0": "Paid."}
    assert sorted(till.done) == [1, 2]
    assert goes_on(agent)


def test_the_store_of_a_run_ends_with_its_block() -> None:
    first, second = (review.StoredApprovals(InMemoryStore(), scope=(name,)) for name in "ab")
    with review.approvals_of_run(first):
        with review.approvals_of_run(second):
            assert approval_store(None) is second
        assert approval_store(None) is first
    assert approval_store(None) is None
