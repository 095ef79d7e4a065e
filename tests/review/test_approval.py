"""Laws of the machine that decides whether a call may run, for each policy and each answer."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage
from langchain_core.messages.tool import ToolCall
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import ToolRuntime

from agent_factory import ToolCallRequest, create_agent
from agent_factory import middleware as m
from agent_factory.errors import ReviewError
from agent_factory.review import Rule, StandingApproval, ToolPolicy, decide, pending
from agent_factory.review.approval import Approval, AskJudge, AskPerson, Deny, LookUp, Run
from agent_factory.review.records import call_digest
from agent_factory.testing import ScriptedChatModel


@tool
def pay(euros: int) -> str:
    """Pay."""
    return f"paid {euros}"


@tool
def mail(to: str) -> str:
    """Send a mail."""
    return f"mail to {to}"


TOOLS: list[BaseTool] = [pay, mail]
CALLS: list[tuple[str, dict[str, object]]] = [
    ("pay", {"euros": 5}),
    ("pay", {"euros": 60}),
    ("pay", {"euros": 99}),
    ("mail", {"to": "ann"}),
    ("mail", {"to": "bob"}),
]
RULES = st.builds(
    Rule,
    st.sampled_from(["pay", "mail", "*"]),
    st.sampled_from(["ask", "ask", "allow", "deny", "judge"]),
    when=st.sampled_from([None, {"euros": {">": 50}}, {"to": "bob"}]),
    otherwise=st.sampled_from(["ask", "deny"]),
    allowed_decisions=st.sampled_from(
        [["approve", "edit"], ["reject", "edit"], ["respond"], ["approve"]]
    ),
    remember=st.sampled_from([None, 3600]),
)
POLICIES = st.lists(RULES, min_size=1, max_size=4)
DECISIONS = st.one_of(
    st.sampled_from(
        [
            {"type": "approve"},
            {"type": "approve", "remember": {"seconds": 60, "when": {}}},
            {"type": "approve", "remember": {"seconds": 99_999}},
            {"type": "approve", "digest": "of another call"},
            {"type": "reject", "message": "No."},
            {"type": "respond", "message": "Done by hand."},
            {"type": "respond"},
            {"type": "edit", "edited_action": {"name": "pay", "args": {"amount": 1}}},
            "approved",
        ]
    ),
    st.sampled_from(CALLS).map(
        lambda call: {"type": "edit", "edited_action": {"name": call[0], "args": call[1]}}
    ),
)


def request_of(name: str, args: dict[str, object]) -> ToolCallRequest:
    call = ToolCall(name=name, args=args, id="c1", type="tool_call")
    state = {"messages": [AIMessage("", tool_calls=[call], id="m1")]}
    runtime: Any = ToolRuntime(
        state=state,
        context=None,
        config={"configurable": {"thread_id": "t"}},
        stream_writer=print,
        tool_call_id="c1",
        store=None,
        tools=TOOLS,
    )
    return ToolCallRequest(call, {each.name: each for each in TOOLS}[name], state, runtime)


def digest_of(request: ToolCallRequest) -> str:
    return call_digest(request.tool_call, request.tool)


def with_edit(request: ToolCallRequest, decision: dict[str, Any]) -> ToolCallRequest:
    action = decision["edited_action"]
    return request_of(action["name"], action["args"])


def state_of(approval: Approval) -> dict[str, object]:
    return {name: copy(value) for name, value in vars(approval).items()}


class Desk:
    """A machine, those who answer it, and what each of them has let run."""

    def __init__(self, data: Any, rules: list[Rule], remembers: bool) -> None:
        self.data = data
        self.policy = ToolPolicy(*rules, judge="a model")
        self.approval = Approval("Review", self.policy.rule_for, remembers=remembers)
        self.granted: set[str] = set()
        self.texts: set[str] = set()

    def answer(self) -> None:
        """Answer the next step, as a person, a judge or a store may."""
        approval, step = self.approval, self.approval.step
        before = state_of(approval)
        if isinstance(step, AskJudge):
            assert step.rule.action == "judge"
            objection = self.data.draw(st.sampled_from([None, "Too risky."]))
            if objection is None:
                self.granted.add(digest_of(step.request))
            approval.take(objection)
        elif isinstance(step, LookUp):
            assert approval.rule.remember is not None
            standing = StandingApproval("s1", "pay", "", {}, None, 60)
            answer = self.data.draw(st.sampled_from([None, standing]))
            if answer is not None and step.approval_id is not None:
                self.granted.add(digest_of(approval.request))
            approval.take(answer)
        elif isinstance(step, AskPerson):
            assert step.rule.asks
            decision = self.data.draw(DECISIONS)
            try:
                approval.take(decision)
            except ReviewError:
                assert state_of(approval) == before
                return
            assert decision["type"] in step.rule.allowed_decisions
            self.note(step, decision)

    def note(self, step: AskPerson, decision: dict[str, Any]) -> None:
        if decision["type"] == "approve":
            self.granted.add(digest_of(step.request))
        elif decision["type"] == "edit":
            new = with_edit(step.request, decision)
            # Nobody was asked about a call of another tool, or of another rule.
            is_same = new.tool_call["name"] == step.request.tool_call["name"]
            if is_same and self.policy.rule_for(new) == step.rule:
                self.granted.add(digest_of(new))
        else:
            self.texts.add(decision.get("message", ""))


@settings(max_examples=300)  # the machine takes no time, and needs several answers to go wrong
@given(st.data(), POLICIES, st.booleans())
def test_a_call_runs_only_if_its_rule_or_who_may_decide_has_let_that_call_run(
    data: Any, rules: list[Rule], remembers: bool
) -> None:
    desk = Desk(data, rules, remembers)
    # A layer may begin the call again, or change it.
    for call in data.draw(st.lists(st.sampled_from(CALLS), min_size=1, max_size=4)):
        desk.approval.begin(request_of(*call), is_changed=data.draw(st.booleans()))
        while not isinstance(step := desk.approval.step, Run | Deny):
            desk.answer()
        if isinstance(step, Run):
            is_free = desk.policy.rule_for(step.request).action == "allow"
            assert is_free or digest_of(step.request) in desk.granted
        for other in CALLS:
            request = request_of(*other)
            is_free = desk.policy.rule_for(request).action == "allow"
            assert desk.approval.permits(request) <= (is_free or digest_of(request) in desk.granted)
        if isinstance(step, Deny) and step.result is not None:
            assert step.result.text in desk.texts
        elif isinstance(step, Deny):
            assert step.rule is not None
            assert step.rule.action == "deny" or step.rule.otherwise == "deny"


@given(st.data(), POLICIES, st.booleans())
def test_what_was_decided_once_is_not_asked_about_again(
    data: Any, rules: list[Rule], remembers: bool
) -> None:
    desk = Desk(data, rules, remembers)
    request = request_of(*data.draw(st.sampled_from(CALLS)))
    desk.approval.begin(request)
    while not isinstance(first := desk.approval.step, Run | Deny):
        desk.answer()
    desk.approval.begin(request)
    again = desk.approval.step
    if isinstance(first, Run):
        assert isinstance(again, Run)
        assert digest_of(again.request) == digest_of(first.request)
        if digest_of(first.request) in desk.granted:
            desk.policy.rules = cast("Any", None)  # the policy is not asked again
            assert desk.approval.permits(first.request)
    elif first.result is not None:
        assert isinstance(again, Deny)
        assert again.result == first.result


def test_an_answer_to_no_question_is_refused() -> None:
    approval = Approval("Review", ToolPolicy(Rule("*", "allow")).rule_for)
    approval.begin(request_of("pay", {"euros": 5}))
    with pytest.raises(ReviewError, match="pay: is decided"):
        approval.take({"type": "approve"})


BUILDABLE = st.lists(
    st.sampled_from(
        [
            Rule("pay", "ask", when={"euros": {">": 50}}),
            Rule("pay", "allow"),
            Rule("mail", "ask"),
            Rule("mail", "allow", when={"to": "bob"}),
            Rule("*", "allow"),
        ]
    ),
    max_size=3,
)


@pytest.mark.filterwarnings("ignore::agent_factory.AgentFactoryWarning")
@given(
    st.lists(BUILDABLE, min_size=2, max_size=2),
    st.lists(st.sampled_from(["batched", "per_call"]), min_size=2, max_size=2),
    st.lists(st.sampled_from(CALLS), min_size=1, max_size=2),
)
def test_the_order_of_reviews_does_not_change_who_is_asked_about_what(
    policies: list[list[Rule]], modes: Any, calls: list[tuple[str, dict[str, object]]]
) -> None:
    def questions(order: list[int]) -> tuple[object, object]:
        reviews = [
            m.HumanInTheLoopMiddleware(
                ToolPolicy(
                    *[
                        replace(r, reviewers=[f"team {number}"], allowed_decisions=["approve"])
                        for r in policies[number]
                    ],
                    Rule("*", "ask", reviewers=[f"team {number}"], allowed_decisions=["approve"]),
                ),
                interrupt_mode=modes[number],
                name=f"Review {number}",
            )
            for number in order
        ]
        steps = [
            {"name": name, "args": args, "id": f"c{n}"} for n, (name, args) in enumerate(calls)
        ]
        model = ScriptedChatModel([steps, "Done."])
        saver = InMemorySaver()
        agent = create_agent(model, TOOLS, middleware=reviews, checkpointer=saver)
        thread: Any = {"configurable": {"thread_id": "1"}}
        agent.invoke({"messages": "Go."}, thread)
        asked = set()
        while waits := pending(agent, thread).open:
            asked |= {(call.id, call.reviewers) for call in waits}
            decide(agent, thread, {call.id: {"type": "approve"} for call in waits})
        messages = agent.get_state(thread).values["messages"]
        return asked, {message.text for message in messages if message.type == "tool"}

    (one, results), (other, same_results) = questions([0, 1]), questions([1, 0])
    assert results == same_results
    assert one == other
