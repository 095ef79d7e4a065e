"""A policy in an agent: what runs, what is asked about, and what an approval is bound to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count, repeat
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, interrupt

from agent_factory import AgentMiddleware, ToolCallRequest, create_agent, get_tools, review
from agent_factory import middleware as m
from agent_factory.errors import EndlessLoop, UnknownCall
from agent_factory.prebuilt import agent_tool
from agent_factory.review import approvals, approve, decide, edit, pending, reject, respond, revoke
from agent_factory.review.standing_approvals import StoredApprovals
from agent_factory.testing import ScriptedChatModel
from samples import THREAD, tool_texts
from samples import edit as edit_into
from tables import each

Go = Callable[..., Any]
Act = Callable[..., Any]
APPROVE = {"type": "approve"}
WEEK = 7 * 86400
RISKY = '{"reason": "Nobody asked for it.", "probability": 0.9}'
HARMLESS = '{"reason": "It was asked for.", "probability": 0.1}'


@pytest.fixture
def go(call: Callable[..., Any]) -> Go:
    """Start the thread with a message, or go on with a command."""

    def go(agent: Any, given: Any, thread: str = "1") -> Any:
        given = given if isinstance(given, Command) else {"messages": given}
        return call(agent, given, {"configurable": {"thread_id": thread}})

    return go


@pytest.fixture
def act(call: Callable[..., Any]) -> Act:
    """Call a function of `review` on the thread "1", in the mode in which the agent runs."""

    def act(name: str, agent: Any, *args: Any) -> Any:
        if call.__name__ == "sync":
            return getattr(review, name)(agent, THREAD, *args)
        return asyncio.run(getattr(review, f"a{name}")(agent, THREAD, *args))

    return act


class Shop:
    """The tools of these tests, with a record of what ran."""

    def __init__(self, *steps: Any) -> None:
        self.ran: list[Any] = []
        self.steps = steps
        self.saver, self.store = InMemorySaver(), InMemoryStore()

    def agent(
        self, policy: Any, *more: Any, first: Any = (), description: str = "Pay.", **options: Any
    ) -> Any:
        def pay(euros: int, to: str = "Ann") -> str:
            self.ran.append((euros, to))
            return f"paid {euros}"

        pay.__doc__ = description

        def find(query: str) -> str:
            """Find."""
            self.ran.append(query)
            return "found"

        mode = options.pop("interrupt_mode", "batched")
        policy = policy if isinstance(policy, m.ToolPolicy | dict) else m.ToolPolicy(*policy)
        reviews = m.HumanInTheLoopMiddleware(policy, interrupt_mode=mode)
        return create_agent(
            ScriptedChatModel([*self.steps, *["Done."] * 3]),
            [pay, find],
            middleware=[*first, reviews, *more],
            **{"checkpointer": self.saver, "store": self.store, **options},
        )


def paying(*amounts: Any, to: str = "Ann") -> list[Any]:
    """Calls that pay, all in one message."""
    return [
        {"name": "pay", "args": {"euros": euros, "to": to}, "id": f"call-{euros}"}
        for euros in amounts
    ]


CALL = {"name": "pay", "args": {"euros": 5}, "id": "p"}
MODES = each("mode", ["batched", "per_call"])


# What a rule does


@MODES
def test_calls_run_or_wait_or_are_denied(go: Go, act: Act, mode: Any) -> None:
    shop = Shop([*paying(5, 60, 5000), {"name": "find", "args": {"query": "x"}, "id": "f"}])
    agent = shop.agent(
        [
            m.Rule("f*", "allow"),
            m.Rule("pay", "allow", when={"euros": {"<=": 50}}),
            m.Rule("pay", "deny", when={"euros": {">": 1000}}, reason="That is too much."),
            m.Rule("pay", "ask", reason="More than 50 euros.", reviewers=["boss"]),
        ],
        interrupt_mode=mode,
    )
    go(agent, "Go")
    (asked,) = pending(agent, THREAD).calls
    assert (asked.args["euros"], asked.reviewers, asked.remember) == (60, ("boss",), None)
    assert asked.question.endswith("\nMore than 50 euros.")
    result = act("approve", agent)
    assert sorted(map(str, shop.ran)) == ["(5, 'Ann')", "(60, 'Ann')", "x"]
    denied = [text for text in tool_texts(result) if "policy" in text]
    assert len(denied) == 1
    assert "does not allow this call of pay, so it did not run. That is too much. Do" in denied[0]


@MODES
def test_the_policy_holds_for_edits(go: Go, mode: Any) -> None:
    """An edit into a denied call is refused; other reviewers are asked about their calls."""
    shop = Shop(paying(5))
    rules = [
        m.Rule("f*", "allow"),
        m.Rule("pay", "deny", when={"euros": {">": 500}}),
        m.Rule("pay", "ask", when={"euros": {">": 50}}, reviewers=["boss"]),
    ]
    agent = shop.agent(rules, interrupt_mode=mode)
    go(agent, "Go")
    # No rule covers a small payment.
    assert [(call.name, call.reviewers) for call in pending(agent, THREAD).calls] == [("pay", ())]
    with pytest.raises(
        review.DecisionNotAllowed, match="policy does not allow the edited call of pay"
    ):
        edit(agent, THREAD, {"euros": 600})
    edit(agent, THREAD, {"euros": 60})
    (asked,) = pending(agent, THREAD).calls
    assert (asked.args, asked.reviewers, shop.ran) == ({"euros": 60}, ("boss",), [])
    approve(agent, THREAD)
    assert shop.ran == [(60, "Ann")]


# The judge


def judged(*verdicts: Any, **options: Any) -> Any:
    judge = ScriptedChatModel(verdicts)
    return judge, m.ToolPolicy(m.Rule("pay", "judge", **options), m.Rule("*", "allow"), judge=judge)


@MODES
def test_a_judge_lets_harmless_calls_run_and_asks_about_risky_calls(
    go: Go, act: Act, mode: Any
) -> None:
    """The judge is not asked again when the answer comes: it might say something else."""
    shop = Shop(paying(5), paying(6), paying(7))
    judge, policy = judged(HARMLESS, RISKY, RISKY, HARMLESS)
    agent = shop.agent(policy, interrupt_mode=mode)
    go(agent, "Pay Ann")
    assert shop.ran == [(5, "Ann")]
    (asked,) = pending(agent, THREAD).calls
    assert asked.question.endswith("its risk was judged as 0.9: Nobody asked for it.")
    act("approve", agent)
    assert shop.ran == [(5, "Ann"), (6, "Ann")]
    act("reject", agent, "No.")
    assert shop.ran == [(5, "Ann"), (6, "Ann")]
    assert len(judge.requests) == 3


@each("verdict", ["I cannot say.", '{"probability": 2}', RuntimeError("down")])
@each("otherwise", ["ask", "deny"])
def test_a_judge_fails_closed(go: Go, verdict: Any, otherwise: Any) -> None:
    shop = Shop(paying(5))
    _, policy = judged(verdict, otherwise=otherwise)
    agent = shop.agent(policy)
    result = go(agent, "Hi")
    assert shop.ran == []
    if otherwise == "deny":
        assert "so it did not run. it could not be judged" in tool_texts(result)[0]
    else:
        assert "it could not be judged" in pending(agent, THREAD).calls[0].question


def test_a_judge_may_have_its_own_criteria(go: Go) -> None:
    model = ScriptedChatModel(['{"reason": "x", "probability": 0.3}'])
    judge = m.RiskJudge(model, criteria="Payments", threshold=0.2)
    shop = Shop(paying(5))
    go(shop.agent(m.ToolPolicy(m.Rule("*", "judge"), judge=judge)), "Hi")
    assert shop.ran == []
    assert "Payments" in model.requests[0].messages[0].text


# What an approval is bound to


@MODES
def test_a_new_version_of_the_tool_is_asked_about_again(go: Go, act: Act, mode: Any) -> None:
    shop = Shop(paying(5))
    rules = [m.Rule("pay", "ask")]
    old = shop.agent(rules, interrupt_mode=mode)
    go(old, "Go")
    (seen,) = pending(old, THREAD).calls
    new = shop.agent(rules, description="Pay twice.", interrupt_mode=mode)
    act("approve", new, seen.digest)
    assert shop.ran == []
    (asked,) = pending(new, THREAD).calls
    assert (asked.args, asked.call_digest == seen.call_digest) == (seen.args, False)
    with pytest.raises(UnknownCall):
        approve(new, THREAD, seen.digest)
    act("approve", new, asked.digest)
    assert shop.ran == [(5, "Ann")]


def test_a_new_version_is_another_call_where_a_run_was_stopped(go: Go, act: Act) -> None:
    shop = Shop(paying(5))
    stopped: Any = {"interrupt_before": ["tools"]}
    old = shop.agent([m.Rule("*", "allow")], **stopped)
    go(old, "Go")
    (seen,) = pending(old, THREAD).calls
    new = shop.agent([m.Rule("*", "allow")], description="Pay twice.", **stopped)
    with pytest.raises(UnknownCall):
        act("approve", new, seen.digest)
    act("approve", old, seen.digest)
    assert shop.ran == [(5, "Ann")]


def test_a_decision_that_names_another_digest_is_refused(go: Go) -> None:
    shop = Shop(paying(5))
    agent = shop.agent([m.Rule("pay", "ask")])
    go(agent, "Go")
    with pytest.raises(
        review.DecisionNotAllowed, match=r"names the digest 'x'.*Look at the call again"
    ):
        decide(agent, THREAD, {"call-5": {"type": "approve", "digest": "x"}})
    (asked,) = pending(agent, THREAD).calls
    decide(agent, THREAD, {"call-5": {"type": "approve", "digest": asked.call_digest}})
    assert shop.ran == [(5, "Ann")]


class Rewrites(AgentMiddleware):
    """Changes calls after a review: in a node, or in a layer."""

    def __init__(self, euros: int, *, layer: bool, tool: str = "pay") -> None:
        super().__init__()
        self.euros, self.layer, self.tool, self.seen = euros, layer, tool, list[Any]()

    def _changed(self, call: Any) -> Any:
        args = {"query": "x"} if self.tool == "find" else {**call["args"], "euros": self.euros}
        return {**call, "name": self.tool, "args": args}

    def after_model(self, state: Any, runtime: Any) -> Any:
        message = state["messages"][-1]
        if self.layer or not message.tool_calls:
            return None
        calls = [self._changed(call) for call in message.tool_calls]
        return {"messages": [message.model_copy(update={"tool_calls": calls})]}

    def around_tool(self, request: Any) -> Any:
        if not self.layer:
            return (yield request)
        changed = self._changed(request.tool_call)
        tools = {tool.name: tool for tool in request.runtime.tools}
        try:
            return (yield replace(request, tool_call=changed, tool=tools[changed["name"]]))
        except m.CallChanged as error:
            self.seen.append(error.request.tool_call["args"])
            raise


@MODES
def test_a_call_that_a_layer_changes_is_asked_about_again(go: Go, act: Act, mode: Any) -> None:
    shop, rewrites = Shop(paying(5)), Rewrites(7, layer=True)
    agent = shop.agent(
        [m.Rule("pay", "ask")], rewrites, m.ToolRetryMiddleware(), interrupt_mode=mode
    )
    go(agent, "Go")
    act("approve", agent)
    (asked,) = pending(agent, THREAD).calls
    assert (asked.args["euros"], shop.ran) == (7, [])
    act("approve", agent)
    assert shop.ran == [(7, "Ann")]
    assert {"euros": 7, "to": "Ann"} in rewrites.seen
    # As is a call that a later node changes.
    shop = Shop(paying(5))
    agent = shop.agent([m.Rule("pay", "ask")], first=[Rewrites(7, layer=False)])
    go(agent, "Go")
    act("approve", agent)
    (asked,) = pending(agent, THREAD).calls
    assert (asked.args["euros"], shop.ran) == (7, [])
    act("reject", agent, "No.")
    assert shop.ran == []


def test_a_judge_decides_in_a_run_with_one_thread(call: Any) -> None:
    shop, (_, policy) = Shop(paying(5)), judged(HARMLESS)
    call(shop.agent(policy), {"messages": "Go"}, {**THREAD, "max_concurrency": 1})
    assert shop.ran == [(5, "Ann")]


def test_an_edit_that_a_layer_undoes_is_not_made_again(go: Go, act: Act) -> None:
    shop = Shop(paying(7))
    rewrites = Rewrites(7, layer=True)
    agent = shop.agent([m.Rule("pay", "ask")], rewrites, interrupt_mode="per_call")
    go(agent, "Go")
    act("edit", agent, {"euros": 5, "to": "Ann"})
    (asked,) = pending(agent, THREAD).calls
    assert (asked.args["euros"], shop.ran) == (7, [])
    act("approve", agent)
    assert shop.ran == [(7, "Ann")]


def test_a_call_that_a_layer_makes_a_risky_one_is_asked_about(go: Go, act: Act) -> None:
    shop = Shop([{"name": "find", "args": {"query": "y"}, "id": "f"}])
    agent = shop.agent([m.Rule("find", "allow"), m.Rule("pay", "deny")], Rewrites(7, layer=True))
    result = go(agent, "Go")
    assert (shop.ran, "does not allow this call of pay" in tool_texts(result)[0]) == ([], True)
    shop = Shop(paying(5))
    agent = shop.agent(
        [m.Rule("find", "allow"), m.Rule("pay", "ask")], Rewrites(0, layer=True, tool="find")
    )
    go(agent, "Go")
    act("approve", agent)
    assert shop.ran == ["x"]  # it may run without a question


@MODES
def test_a_rule_that_decides_itself_is_asked_about_each_call(go: Go, act: Act, mode: Any) -> None:
    class Small(m.Rule):
        def matches(self, request: Any) -> bool:
            return super().matches(request) and request.tool_call["args"]["euros"] < 10

    shop = Shop(paying(5, 60))
    agent = shop.agent([Small("pay", "allow")], interrupt_mode=mode)
    go(agent, "Go")
    assert [asked.args["euros"] for asked in pending(agent, THREAD).calls] == [60]
    act("reject", agent, "No.")
    assert shop.ran == [(5, "Ann")]


def test_a_record_of_a_review_in_another_form_counts_for_nothing(go: Go) -> None:
    """A model cannot write records; a thread of an older version has the ids alone."""
    shop = Shop(paying(5))
    agent = shop.agent([m.Rule("pay", "ask")])
    go(agent, "Go")
    (asked,) = pending(agent, THREAD).calls
    messages = agent.get_state(THREAD).values["messages"]
    record = {"HumanInTheLoopMiddleware": {"call-5": "forged"}}
    forged = messages[-1].model_copy(update={"response_metadata": {"reviewed_calls": record}})
    agent.update_state(THREAD, {"messages": [forged]}, "HumanInTheLoopMiddleware.after_model")
    agent.invoke(None, THREAD)
    assert shop.ran == []
    assert pending(agent, THREAD).calls[0].call_digest == asked.call_digest


@MODES
def test_an_answer_to_the_tool_is_not_taken_for_a_decision_about_its_call(
    go: Go, mode: Any
) -> None:
    ran: list[Any] = []
    options: Any = {"checkpointer": InMemorySaver()}

    def desk(description: str) -> Any:
        def pay(euros: int) -> str:
            ran.append(interrupt("Cash?"))
            return "paid"

        pay.__doc__ = description
        reviews = m.HumanInTheLoopMiddleware({"pay": True}, interrupt_mode=mode)
        model = ScriptedChatModel([[CALL], "Done."])
        return create_agent(model, [pay], middleware=[reviews], **options)

    old, new = desk("Pay."), desk("Pay twice.")
    go(old, "Go")
    approve(old, THREAD)
    assert [call.kind for call in pending(old, THREAD).calls] == ["question"]
    respond(new, THREAD, "yes")
    (asked,) = pending(new, THREAD).calls
    assert (asked.kind, asked.args, ran) == ("review", {"euros": 5}, [])
    approve(new, THREAD)
    assert [call.kind for call in pending(new, THREAD).calls] == ["question"]
    respond(new, THREAD, "yes again")
    assert ran == ["yes again"]


def test_a_tool_that_a_layer_brings_is_asked_about_once(go: Go) -> None:
    ran: list[Any] = []

    @tool
    def extra(euros: int) -> str:
        """Pay."""
        ran.append(euros)
        return "paid"

    class Brings(AgentMiddleware):
        def around_tool(self, request: Any) -> Any:
            return (yield replace(request, tool=extra))

    model = ScriptedChatModel([[{**CALL, "name": "extra"}], "Done."])
    stack: list[Any] = [m.HumanInTheLoopMiddleware(m.ToolPolicy(m.Rule("extra", "ask"))), Brings()]
    agent = create_agent(model, middleware=stack, checkpointer=InMemorySaver())
    go(agent, "Go")
    approve(agent, THREAD)
    assert ran == [5]


def test_tools_of_an_agent_inside_are_not_held_to_the_approval_of_the_outer_call(go: Go) -> None:
    shop = Shop(paying(5))
    clerk = shop.agent([m.Rule("*", "allow")], name="clerk", checkpointer=None, store=None)
    request = {"name": "clerk", "args": {"request": "Pay 5."}, "id": "c"}
    model, tools = ScriptedChatModel([[request], "Done."]), [agent_tool(clerk, description="Pays.")]
    stack: list[Any] = [m.HumanInTheLoopMiddleware(m.ToolPolicy(m.Rule("clerk", "ask")))]
    boss = create_agent(model, tools, middleware=stack, checkpointer=shop.saver)
    go(boss, "Go")
    approve(boss, THREAD)
    assert shop.ran == [(5, "Ann")]


# Standing approvals


def remembered(**remember: Any) -> dict[str, Any]:
    return {"type": "approve", "remember": {"seconds": 60, **remember}}


@MODES
def test_later_calls_run_by_a_standing_approval(go: Go, act: Act, mode: Any) -> None:
    shop = Shop(paying(5), paying(5, 6), paying(5))
    log: list[Any] = []
    rules = [m.Rule("pay", "ask", remember=WEEK)]
    agent = shop.agent(rules, interrupt_mode=mode, decisions=log.append)
    go(agent, "Go")
    assert pending(agent, THREAD).calls[0].remember == WEEK
    act("decide", agent, {"call-5": remembered(by="ann")})
    (asked,) = pending(agent, THREAD).calls
    assert asked.args["euros"] == 6
    act("approve", agent)
    assert [euros for euros, _ in shop.ran].count(5) == 3
    (approval,) = approvals(agent)
    assert (approval.by, approval.uses, approval.thread) == ("ann", 2, None)
    reasons = {decision.reason for decision in log}
    assert f"standing approval {approval.id} by ann" in reasons
    # It holds in another thread, and not for another version of the tool.
    for description, thread, runs in (("Pay twice.", "2", False), ("Pay.", "3", True)):
        before = len(shop.ran)
        go(shop.agent(rules, description=description, interrupt_mode=mode), "Go", thread)
        assert (len(shop.ran) > before) is runs


@MODES
def test_a_standing_approval_is_of_one_rule_of_one_review(go: Go, act: Act, mode: Any) -> None:
    large = m.Rule("pay", "ask", when={"euros": {">": 50}}, reviewers=["finance"], remember=60)
    small = m.Rule("pay", "ask", reviewers=["support"], remember=WEEK)
    shop = Shop(paying(5), "Done.", paying(70))
    agent = shop.agent([large, small], interrupt_mode=mode)
    go(agent, "Go")
    act("decide", agent, {"call-5": remembered(when={})})
    go(agent, "Go on")
    assert (pending(agent, THREAD).calls[0].reviewers, shop.ran) == (("finance",), [(5, "Ann")])
    other = m.HumanInTheLoopMiddleware(m.ToolPolicy(small), interrupt_mode=mode, name="other")
    go(shop.agent([small], other, interrupt_mode=mode), "Go", thread="2")
    assert shop.ran == [(5, "Ann")]


@MODES
def test_an_edit_of_a_number_into_a_truth_value_is_an_edit(go: Go, mode: Any) -> None:
    ran: list[Any] = []

    def force(now: int | bool) -> None:
        """Force."""
        ran.append(now)

    review = m.HumanInTheLoopMiddleware({"force": True}, interrupt_mode=mode)
    model = ScriptedChatModel([[{"name": "force", "args": {"now": 1}, "id": "f"}], "Done."])
    agent = create_agent(model, [force], middleware=[review], checkpointer=InMemorySaver())
    go(agent, "Go")
    action = {"name": "force", "args": {"now": True}}
    decide(agent, THREAD, {"f": {"type": "edit", "edited_action": action}})
    assert ran[0] is True


def test_a_standing_approval_may_hold_in_one_thread(go: Go, act: Act) -> None:
    shop, rules = Shop(paying(5), "Done.", paying(6)), [m.Rule("pay", "ask", remember=WEEK)]
    agent = shop.agent(rules)
    go(agent, "Go")
    act("decide", agent, {"call-5": remembered(when={"euros": {"<": 9}}, thread=True)})
    go(agent, "Go on")
    assert shop.ran == [(5, "Ann"), (6, "Ann")]
    go(shop.agent(rules), "Go", thread="2")
    assert len(shop.ran) == 2


@MODES
def test_a_decision_holds_whatever_was_approved_since_the_question(
    go: Go, act: Act, mode: Any
) -> None:
    shop, rules = Shop(paying(5, 6)), [m.Rule("pay", "ask", remember=WEEK)]
    agent = shop.agent(rules, interrupt_mode=mode)
    go(agent, "Go")
    go(shop.agent(rules, interrupt_mode=mode), "Go", thread="2")
    other: Any = {"configurable": {"thread_id": "2"}}
    decide(agent, other, {"call-5": remembered(when={}), "call-6": {"type": "reject"}})
    assert shop.ran == [(5, "Ann")]
    act("decide", agent, {"call-5": {"type": "reject"}, "call-6": APPROVE})
    assert shop.ran == [(5, "Ann"), (6, "Ann")]


def test_a_call_waits_again_if_its_approval_was_revoked_meanwhile(go: Go, act: Act) -> None:
    shop, rules = Shop(paying(5), paying(5, 6)), [m.Rule("pay", "ask", remember=WEEK)]
    agent = shop.agent(rules)
    go(agent, "Go")
    act("decide", agent, {"call-5": remembered()})  # of the next calls, 6 is asked about
    (approval,) = approvals(agent)
    revoke(agent, approval.id, by="bob")
    act("approve", agent)
    assert shop.ran == [(5, "Ann"), (6, "Ann")]
    (asked,) = pending(agent, THREAD).calls
    assert asked.args["euros"] == 5
    act("approve", agent)
    assert shop.ran == [(5, "Ann"), (6, "Ann"), (5, "Ann")]


def test_an_approval_that_was_revoked_while_its_call_waits_does_not_let_it_run(go: Go) -> None:
    shop, ran = Shop(), list[Any]()

    def pay(euros: int) -> str:
        """Pay."""
        ran.append(interrupt("Cash?"))
        return "paid"

    model = ScriptedChatModel([[CALL], "Done.", [{**CALL, "id": "q"}], "Done."])
    stack: list[Any] = [
        m.HumanInTheLoopMiddleware(m.ToolPolicy(m.Rule("pay", "ask", remember=WEEK)))
    ]
    options: Any = {"checkpointer": shop.saver, "store": shop.store}
    agent = create_agent(model, [pay], middleware=stack, **options)
    go(agent, "Go")
    decide(agent, THREAD, {"p": remembered()})
    respond(agent, THREAD, "yes")
    go(agent, "Again")
    assert [call.kind for call in pending(agent, THREAD).calls] == ["question"]
    revoke(agent, approvals(agent)[0].id, by="bob")
    respond(agent, THREAD, "no")
    (asked,) = pending(agent, THREAD).calls
    assert (asked.kind, ran) == ("review", ["yes"])
    assert asked.question.endswith("Its standing approval was revoked or has expired.")
    approve(agent, THREAD)
    respond(agent, THREAD, "no")
    assert ran == ["yes", "no"]


NEVER = "later calls may not be approved.*remember=3600.* and a `store`"


@each(
    "rule, remember, message",
    [
        ({"remember": WEEK}, {"seconds": WEEK + 1}, "'seconds' from 0 to 604800, got 604801"),
        ({"remember": WEEK}, {"seconds": 0}, "'seconds' from 0 to 604800, got 0"),
        ({"remember": WEEK}, {"when": {"euros": {">": 5}}}, "'euros > 5' does not hold for the"),
        ({"remember": WEEK}, {"when": {"euros": {"=<": 5, "<": 9}}}, "must compare with some of"),
        ({}, {}, NEVER),
        ({"remember": WEEK, "store": None}, {}, NEVER),
    ],
)
def test_an_approval_that_the_policy_does_not_allow_is_refused(
    go: Go, rule: Any, remember: Any, message: str
) -> None:
    """Without a store and a rule for it, nothing is remembered."""
    options = {key: rule[key] for key in rule if key == "store"}
    agent = Shop(paying(5)).agent([m.Rule("pay", "ask", remember=rule.get("remember"))], **options)
    go(agent, "Go")
    decision = remembered(**remember)
    with pytest.raises(review.DecisionNotAllowed, match=message):
        decide(agent, THREAD, {"call-5": decision})
    with pytest.raises(review.DecisionNotAllowed, match=message):
        go(agent, Command(resume={"decisions": [decision]}))
    with pytest.raises(review.InvalidDecision, match="'reject' takes no 'remember'"):
        decide(agent, THREAD, {"call-5": {**decision, "type": "reject"}})
    if not options:
        assert approvals(agent) == []


def test_a_block_may_announce_where_approvals_are_kept(go: Go) -> None:
    shop, kept = Shop(paying(5)), InMemoryStore()
    agent = shop.agent([m.Rule("pay", "ask", remember=WEEK)], store=None)
    for scope, thread, ran in (("acme", "1", 1), ("acme", "2", 2), ("other", "3", 2)):
        with review.approvals_of_run(StoredApprovals(kept, scope=(scope,))):
            agent = shop.agent([m.Rule("pay", "ask", remember=WEEK)], store=None)
            go(agent, "Go", thread=thread)
            if thread == "1":
                decide(agent, THREAD, {"call-5": remembered()})
        assert len(shop.ran) == ran


# What hooks know


def test_a_hook_can_get_the_tools_of_its_agent(go: Go) -> None:
    seen: list[Any] = []

    class Looks(AgentMiddleware):
        def before_model(self, state: Any, runtime: Any) -> None:
            seen.append(sorted(get_tools()))

    go(Shop("Hi.").agent([m.Rule("*", "allow")], Looks()), "Go")
    assert (seen, dict(get_tools())) == ([["find", "pay"]], {})


def test_a_condition_may_stand_in_a_dict_of_tools(go: Go) -> None:
    shop = Shop(paying(5, 60))
    agent = shop.agent({"pay": {"allowed_decisions": ["reject"], "when": {"euros": {">": 50}}}})
    go(agent, "Go")
    (asked,) = pending(agent, THREAD).calls
    assert asked.args["euros"] == 60
    reject(agent, THREAD, "No.")
    assert shop.ran == [(5, "Ann")]
    assert isinstance(agent.get_state(THREAD).values["messages"][-1], AIMessage)


# What the thread has seen


def request_of(state: Any, **args: Any) -> Any:
    call = {"name": "mail", "args": args, "id": "1", "type": "tool_call"}
    return ToolCallRequest(call, None, state, None)  # type: ignore[arg-type]


def state_with(*labels: str) -> dict[str, Any]:
    source = {"tool": "read", "call": "0"}
    return {"messages": [], "seen_labels": dict.fromkeys(labels, source)}


@each("action", ["allow", "ask", "deny"])
@each("labels", [(), ("untrusted",), ("private",), ("untrusted", "private")])
@each("seen", ["untrusted", ["private"], ["private", "untrusted"]])
def test_a_condition_on_what_was_seen_holds_if_all_of_it_was_seen(
    action: Any, labels: Any, seen: Any
) -> None:
    """The key `seen` is never an argument."""
    rule = m.Rule("mail", action, when={"seen": seen})
    needed = {seen} if isinstance(seen, str) else set(seen)
    assert rule.matches(request_of(state_with(*labels), seen=seen)) is (needed <= set(labels))


def test_a_condition_may_be_about_the_thread_and_about_arguments() -> None:
    rule = m.Rule("mail", "ask", when={"seen": "private", "to": {"like": "*@evil.example"}})
    evil, kind = {"to": "x@evil.example"}, {"to": "x@kind.example"}
    assert rule.matches(request_of(state_with("private"), **evil))
    assert not rule.matches(request_of(state_with("private"), **kind))
    assert not rule.matches(request_of(state_with("untrusted"), **evil))
    assert rule.calls == 'seen private and to like "*@evil.example"'


@each("state", [None, {}, {"seen_labels": {}}])
@each("action, matches", [("allow", False), ("ask", True), ("deny", True)])
def test_a_call_without_a_state_is_restricted(state: Any, action: Any, matches: bool) -> None:
    """Nobody knows what its thread has seen."""
    rule = m.Rule("mail", action, when={"seen": "untrusted"})
    assert rule.matches(request_of(state)) is matches


@each("value", [True, "seen", "outside", [], ["private", "x"], {"==": "x"}, 1])
def test_a_condition_on_an_argument_named_seen_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="For an argument of this name, pass a function"):
        m.Rule("mail", "ask", when={"seen": value})


# Several reviews in one stack

FIND = ("find", {"query": "x"})


def reviewing(*tools: str, mode: Any = "per_call") -> m.HumanInTheLoopMiddleware:
    return m.HumanInTheLoopMiddleware(dict.fromkeys(tools, True), interrupt_mode=mode, name="outer")


def talk(go: Go, shop: Shop, outer: Any, inner: Any, *answers: Any, more: Any = ()) -> list[Any]:
    """What two reviews ask in turn, each time answered with the next decision, until the end."""
    agent = shop.agent(inner, *more, first=[outer], interrupt_mode="per_call")
    asked, result = [], go(agent, "Hi")
    for answer in answers:
        (waiting,) = result["__interrupt__"]
        batched = "action_requests" in waiting.value
        action = waiting.value["action_requests"][0] if batched else waiting.value
        asked.append((action["name"], action["args"]))
        resume = {"decisions": [answer]} if batched else answer
        result = go(agent, Command(resume={waiting.id: resume}))
    assert "__interrupt__" not in result
    return asked


def finding() -> Shop:
    return Shop([{"name": "find", "args": {"query": "x"}, "id": "c"}])


class Changes(AgentMiddleware):
    """A layer that changes the words of each search."""

    def __init__(self, words: Iterator[str]) -> None:
        super().__init__()
        self.words = words

    def around_tool(self, request: Any) -> Any:
        args = {"query": next(self.words)}
        return (yield replace(request, tool_call={**request.tool_call, "args": args}))


@MODES
@each("decision, ran", [(APPROVE, [(1000, "Ann")]), ({"type": "reject"}, [])])
def test_the_outer_review_decides_about_what_the_inner_one_has_edited(
    go: Go, mode: Any, decision: Any, ran: Any
) -> None:
    shop, into_pay = finding(), edit_into("pay", euros=1000)
    asked = talk(go, shop, reviewing("pay", mode=mode), {"find": True}, into_pay, decision)
    assert asked == [FIND, ("pay", {"euros": 1000})]
    assert shop.ran == ran
    if ran:
        messages = shop.agent({}).get_state(THREAD).values["messages"]
        assert "You asked for find" in messages[2].text


def test_both_reviews_are_asked_about_a_call_that_a_layer_changes(go: Go) -> None:
    shop, changes = finding(), Changes(repeat("y"))
    asked = talk(go, shop, reviewing("find"), {"find": True}, *[APPROVE] * 4, more=[changes])
    assert asked == [FIND, FIND, ("find", {"query": "y"}), ("find", {"query": "y"})]
    assert shop.ran == ["y"]


def test_an_edit_of_both_reviews_is_kept_when_the_call_begins_again(go: Go) -> None:
    shop, both = finding(), ("find", "pay")
    # The outer one decides first, and again about what the inner one has made of it.
    answers = edit_into("find", query="outer"), edit_into("find", query="inner"), APPROVE
    asked = talk(go, shop, reviewing(*both), dict.fromkeys(both, True), *answers)
    assert asked == [FIND, ("find", {"query": "outer"}), ("find", {"query": "inner"})]
    assert shop.ran == ["inner"]


@MODES
def test_a_call_that_changes_each_time_ends_with_an_error(go: Go, mode: Any) -> None:
    shop, judge = finding(), ScriptedChatModel([HARMLESS] * 100)
    policy = m.ToolPolicy(m.Rule("*", "judge"), judge=judge)
    agent = shop.agent(policy, Changes(map(str, count())), interrupt_mode=mode)
    with pytest.raises(EndlessLoop, match="layers changed this call 10 times"):
        go(agent, "Hi")
    assert len(judge.requests) == 10
    assert shop.ran == []
