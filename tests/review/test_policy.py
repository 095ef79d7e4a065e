"""Rules about tool calls, as values: conditions, rules, the table, and standing approvals."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages.tool import ToolCall
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.store.memory import InMemoryStore

from agent_factory import SpecError, create_agent, warnings_of
from agent_factory.errors import ArgumentError
from agent_factory.middleware import FlowGuardMiddleware, HumanInTheLoopMiddleware, Rule, ToolPolicy
from agent_factory.review import StandingApproval, StoredApprovals, approvals, policy_table, revoke
from agent_factory.review.policy import condition_text, holds
from agent_factory.testing import ScriptedChatModel
from agent_factory.topology.conditions import COMPARISONS
from samples import find, pay
from tables import each


def request(name: str, **args: Any) -> ToolCallRequest:
    call = ToolCall(name=name, args=args, id="1")
    return ToolCallRequest(call, None, {"messages": []}, None)  # type: ignore[arg-type]


@each(
    "condition, args, expected",
    [
        ({}, {"euros": 5}, True),
        ({"to": "Ann"}, {"to": "Ann"}, True),
        ({"to": "Ann"}, {"to": "ann"}, False),
        ({"to": {"!=": "Ann"}}, {"to": "Bob"}, True),
        ({"to": {"in": [1, "a"]}}, {"to": "1"}, None),
        ({"euros": {">": 1, "<": 3}}, {"euros": 2.5}, True),
        ({"euros": {">": 1, "<": 3}}, {"euros": 3}, False),
        ({"euros": {">=": 3}}, {"euros": 3}, True),
        ({"to": {"in": ["Ann", "Bob"]}}, {"to": "Bob"}, True),
        ({"to": {"in": ["Ann", "Bob"]}}, {"to": "Cid"}, False),
        ({"to": {"not in": ["Ann", "Bob"]}}, {"to": "Cid"}, True),
        ({"to": {"like": "*@shop.example"}}, {"to": "a@shop.example"}, True),
        ({"to": {"not like": "*@shop.example"}}, {"to": "a@shop.example"}, False),
        ({"place": {"city": "Rome"}}, {"place": {"city": "Rome"}}, True),
        ({"euros": {"<=": 50}, "to": "Ann"}, {"to": "Bob"}, False),
    ],
)
def test_a_condition_holds_or_not(condition: Any, args: Any, expected: bool) -> None:
    assert holds(condition, args) is expected


@each("value", ["5", None, True, [5], float("nan"), {"euros": 5}])
@each("sign", ["==", "!=", "<", "<=", ">", ">="])
def test_a_condition_on_a_value_of_another_type_is_undecided(sign: str, value: Any) -> None:
    """A tool may convert it: "5000" is more than 50."""
    assert holds({"euros": {sign: 50}}, {"euros": value}) is None
    assert holds({"euros": {sign: 50}}, {}) is None


def test_an_undecided_condition_restricts() -> None:
    condition = {"euros": {">": 50}}
    for action, matches in (("allow", False), ("ask", True), ("deny", True), ("judge", True)):
        rule = Rule("pay", action, when=condition)  # type: ignore[arg-type]
        assert rule.matches(request("pay", euros="60")) is matches
        assert rule.matches(request("pay", euros=60)) is True
        assert rule.matches(request("pay", euros=40)) is False


VALUES = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "b", "*"])
LISTS = st.lists(VALUES, min_size=1, max_size=2)


@given(st.sampled_from(sorted(COMPARISONS)), VALUES, VALUES, LISTS)
def test_a_comparison_and_its_opposite_are_decided_alike(
    sign: str, given_: Any, value: Any, options: list[Any]
) -> None:
    """And only an equal value of the same type is the same."""
    opposite = {
        "==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">", "in": "not in",
        "not in": "in", "like": "not like", "not like": "like",
    }[sign]  # fmt: skip
    if sign.endswith("in"):
        value = options
    elif "like" in sign:
        value, given_ = str(value), str(given_)
    elif sign not in ("==", "!="):
        value, given_ = hash(str(value)), hash(str(given_))
    found = (holds({"x": {one: value}}, {"x": given_}) for one in (sign, opposite))
    one, other = found
    assert one is None if other is None else one is not other
    if one and sign == "==":
        assert json.dumps(given_) == json.dumps(value)


def test_a_condition_is_shown_in_words() -> None:
    text = condition_text({"euros": {">": 10, "<=": 50}, "to": {"in": ["Ann", "Bob"]}})
    assert text == 'euros > 10 and euros <= 50 and to in ["Ann", "Bob"]'
    assert condition_text(test_a_condition_is_shown_in_words).endswith("in_words()")
    assert (condition_text(None), condition_text({})) == ("", "any arguments")


@each(
    "arguments, message",
    [
        ({"tool": ""}, "tool must be the name"),
        ({"action": "maybe"}, "action of 'pay' must be one of 'allow', 'ask', 'deny', 'judge'"),
        ({"otherwise": "allow"}, "otherwise of 'pay' must be one of 'ask', 'deny'"),
        ({"when": 5}, "when of 'pay' must be"),
        ({"when": {"euros": {"<": 5, "=<": 3}}}, r"when\['euros'\] must compare with some of =="),
        ({"when": {"euros": {}}}, r"when\['euros'\] must compare"),
        ({"when": {"to": {"in": "Ann"}}}, r"when\['to'\]\['in'\] must be a list"),
        ({"when": {"to": {"==": ["Ann"]}}}, r"when\['to'\]\['=='\] must be one value"),
        ({"when": {"to": {"like": 5}}}, r"must be a pattern"),
        ({"when": {"to": {"<": None}}}, r"must be a number or a string"),
        ({"when": {5: "x"}}, "names of arguments"),
        ({"when": {"to": object()}}, "must hold what JSON can hold"),
        ({"allowed_decisions": []}, "allowed_decisions of 'pay' must be a list of some of"),
        ({"reviewers": "ann"}, "reviewers of 'pay' must be a list of roles"),
        ({"remember": 0}, "remember of 'pay' must be a number of seconds"),
        ({"remember": float("inf")}, "remember of 'pay' must be a number of seconds"),
        ({"reason": None}, "reason of 'pay' must be a string"),
        ({"description": 5}, "description of 'pay' must be a string or a plain function"),
        ({"args_schema": "x"}, "args_schema of 'pay' must be a JSON schema"),
    ],
)
def test_a_rule_that_cannot_work_is_refused(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Rule(**{"tool": "pay", "action": "ask", **arguments})


def test_the_first_rule_decides() -> None:
    policy = ToolPolicy(
        Rule("read_*", "allow"),
        Rule("pay", "allow", when={"euros": {"<=": 50}}),
        Rule("pay", "deny", when=lambda request: request.tool_call["args"]["to"] == "Eve"),
        Rule("pay", "ask"),
    )
    small = {"euros": 5, "to": "Ann"}
    actions = [
        policy.rule_for(request(name, **args)).action
        for name, args in (
            ("read_mail", {}),
            ("pay", small),
            ("pay", {**small, "euros": 60}),
            ("pay", {"to": "Eve", "euros": 60}),
            ("Pay", small),
            ("unknown", {}),
        )
    ]
    assert actions == ["allow", "allow", "ask", "deny", "ask", "ask"]
    assert policy.covered == ("read_*", "pay")


_rules = st.builds(
    Rule,
    st.sampled_from(["*", "pay", "p*", "read"]),
    st.sampled_from(["allow", "ask", "deny"]),
    when=st.sampled_from([None, {"euros": {"<=": 50}}]),
)


@given(st.lists(_rules, max_size=4), st.sampled_from(["pay", "read", "other"]))
def test_a_tool_is_allowed_if_all_its_calls_are(rules: list[Rule], tool: str) -> None:
    policy = ToolPolicy(*rules)
    calls: tuple[dict[str, Any], ...] = ({}, {"euros": 5}, {"euros": 60})
    actions = {policy.rule_for(request(tool, **args)).action for args in calls}
    assert not policy.allows(tool) or actions == {"allow"}
    if all(rule.when is None for rule in rules if rule.names(tool)):
        assert policy.allows(tool) == (actions == {"allow"})


def test_a_subclass_that_chooses_rules_allows_no_tool_as_a_whole() -> None:
    class NightPolicy(ToolPolicy):
        def rule_for(self, request: ToolCallRequest) -> Rule:
            return Rule("*", "ask")

    assert ToolPolicy(Rule("*", "allow")).allows("pay")
    assert not NightPolicy(Rule("*", "allow")).allows("pay")

    class DayRule(Rule):
        def matches(self, request: ToolCallRequest) -> bool:
            return False

    assert not ToolPolicy(DayRule("*", "allow")).allows("pay")
    assert not ToolPolicy(DayRule("read", "ask"), Rule("*", "allow")).allows("pay")
    assert ToolPolicy(Rule("*", "allow"), DayRule("*", "ask")).allows("pay")


@given(st.text("ab*?[]!-", max_size=5).filter(bool), st.text("ab*?[]!-", max_size=3))
def test_a_rule_names_what_its_pattern_matches(pattern: str, tool: str) -> None:
    assert Rule(pattern, "ask").names(tool) == fnmatchcase(tool, pattern)


def test_a_policy_that_cannot_work_is_refused() -> None:
    with pytest.raises(TypeError, match=r"rules\[0\] must be a Rule, got list"):
        ToolPolicy([Rule("pay", "ask")])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="judge is required, because it decides about pay"):
        ToolPolicy(Rule("pay", "judge"))


def agent_with(policy: Any, **options: Any) -> Any:
    middleware = [] if policy is None else [policy]
    if isinstance(policy, ToolPolicy | dict):
        middleware = [HumanInTheLoopMiddleware(policy)]
    model = ScriptedChatModel([])
    ignore = ["AF211", *options.pop("ignore", ())]
    return create_agent(model, [find, pay], middleware=middleware, ignore=ignore, **options)


def test_the_table_has_a_row_for_each_rule_that_may_decide() -> None:
    policy = ToolPolicy(
        Rule("pay", "judge", when={"euros": {"<": 9}}, otherwise="deny", reviewers=["ann"]),
        Rule("p*", "ask", reviewers=["ann"], remember=60, allowed_decisions=["approve"]),
        Rule("*", "allow"),
        judge=ScriptedChatModel([]),
    )
    rows = policy_table(agent_with(policy))
    assert [(row.tool, row.rule, row.action, row.when) for row in rows] == [
        ("find", "*", "allow", ""),
        ("pay", "pay", "judge", "euros < 9"),
        ("pay", "p*", "ask", ""),
    ]
    judged, asked = rows[1:]
    assert (judged.otherwise, judged.reviewers, judged.decisions) == ("deny", (), ())
    assert (asked.reviewers, asked.decisions, asked.remember) == (("ann",), ("approve",), 60)
    assert all(row.is_covered for row in rows)


ALLOW, ASK, SMALL = Rule("*", "allow"), Rule("pay", "ask"), {"euros": {"<": 9}}
SMALL_PAY = Rule("pay", "allow", when=SMALL)
IDLE, LATE = "AF212 does nothing: no ", 'AF222 has a rule that never decides: Rule("'


@pytest.mark.filterwarnings("ignore::agent_factory.AgentFactoryWarning")
@each(
    "policy, findings",
    [
        ({"pay": True, "find": False}, []),
        ({}, [f"{IDLE}rule asks"]),
        ({"pay": False}, [f"{IDLE}rule asks"]),
        ({"p*": True, "pay": True}, [f'{LATE}pay", "ask") follows Rule("p*", "ask")']),
        (ToolPolicy(ALLOW), [f"{IDLE}rule asks"]),
        (ToolPolicy(ALLOW, ASK), [f'{LATE}pay", "ask") follows Rule("*", "al', f"{IDLE}rule"]),
        (ToolPolicy(ASK, Rule("p*", "deny", when=SMALL), ALLOW), []),
        (ToolPolicy(ASK, SMALL_PAY, ALLOW), [f'{LATE}pay", "allow") when euros < 9 follows']),
        (ToolPolicy(SMALL_PAY), ["AF213 has no rule for all calls of the tool 'find'", "AF213"]),
        (FlowGuardMiddleware(), [f"{IDLE}tool of the agent has a label"]),
        (FlowGuardMiddleware(ToolPolicy(ASK)), []),
        # To keep labels for another review.
        (FlowGuardMiddleware(ToolPolicy(ALLOW)), [IDLE]),
    ],
)
def test_a_build_names_rules_and_reviews_that_decide_nothing(policy: Any, findings: Any) -> None:
    warnings = [f"{warning.code} {warning.reason}" for warning in warnings_of(agent_with(policy))]
    assert len(warnings) == len(findings)
    assert all(map(str.startswith, warnings, findings)), warnings


@pytest.mark.filterwarnings("ignore::agent_factory.AgentFactoryWarning")
def test_tools_that_no_rule_covers_are_in_the_table() -> None:
    agent = agent_with(ToolPolicy(SMALL_PAY))
    assert [(row.tool, row.rule, row.is_covered) for row in policy_table(agent)] == [
        ("find", "", False),
        ("pay", "pay", True),
        ("pay", "", False),
    ]


@pytest.mark.filterwarnings("ignore::agent_factory.AgentFactoryWarning")
def test_tools_that_are_covered_are_not_reported() -> None:
    for policy in (ToolPolicy(Rule("f*", "ask"), Rule("pay", "deny")), {"pay": True}, None):
        assert [w.code for w in warnings_of(agent_with(policy))] == []
    rows = policy_table(agent_with(None))
    assert [(row.tool, row.action, row.is_covered) for row in rows] == [
        ("find", "allow", False),
        ("pay", "allow", False),
    ]
    assert [row.action for row in policy_table(agent_with({"pay": True}))] == ["allow", "ask"]
    missing = agent_with(ToolPolicy(Rule("cash", "ask"), Rule("*", "allow")))
    assert [w.code for w in warnings_of(missing)] == ["AF210"]
    for rule in (Rule("pya", "ask"), Rule("finds*", "deny")):
        with pytest.raises(SpecError, match="AF124"):
            agent_with(ToolPolicy(rule, Rule("*", "allow")))


def approval(id: str = "1", **changes: Any) -> StandingApproval:
    fields = {"tool": "pay", "schema": "s", "args": {"euros": 1}, "when": None, "seconds": 60}
    return StandingApproval(id=id, **{**fields, **changes})


def call(**args: Any) -> ToolCall:
    return ToolCall(name="pay", args=args, id="1")


def test_an_approval_covers_the_same_arguments_or_what_its_condition_holds_for() -> None:
    store = StoredApprovals(InMemoryStore())
    store.add(approval())
    found = [
        store.find(one, schema, None) is not None
        for one, schema in (
            (call(euros=1), "s"),
            (call(euros=1), "other"),
            (call(euros=True), "s"),
            (call(euros=2), "s"),
            (call(euros=1, to="Ann"), "s"),
            (call(), "s"),
            (ToolCall(name="refund", args={"euros": 1}, id="1"), "s"),
        )
    ]
    assert found == [True, False, False, False, False, False, False]
    store.add(approval("2", when={"euros": {"<": 9}}, thread="t"))
    assert store.find(call(euros=2, to="Ann"), "s", "t") is not None
    for args, thread in (({"euros": 2}, "other"), ({"euros": 9}, "t"), ({"euros": "2"}, "t")):
        assert store.find(call(**args), "s", thread) is None


def test_an_approval_ends_when_it_is_revoked_or_its_time_is_over() -> None:
    agent = agent_with(None, store=InMemoryStore())
    store = StoredApprovals(agent.store)
    store.add(approval(by="ann"))
    store.add(approval("short", seconds=0))
    assert [one.id for one in approvals(agent)] == ["1"]
    first = store.find(call(euros=1), "s", None)
    assert first is not None
    revoked = revoke(agent, "1", by="bob")
    store.use(first, call(euros=1), None)  # a call that found it before
    store.add(approval())  # a decision that is carried out again
    assert (revoked.revoked_by, approvals(agent)) == ("bob", [])
    assert store.find(call(euros=1), "s", None) is None
    known = {one.id: one for one in approvals(agent, active=False)}
    assert (known["1"].revoked_by, known["1"].uses, known["1"].by) == ("bob", 1, "ann")
    assert revoke(agent, "1", by="cid") == known["1"]
    with pytest.raises(LookupError, match="no standing approval 'x'"):
        revoke(agent, "x", by="bob")
    with pytest.raises(ArgumentError, match="must have a store"):
        approvals(agent_with(None))


def test_scopes_keep_approvals_apart() -> None:
    memory = InMemoryStore()
    store, other = (StoredApprovals(memory, scope=(name,)) for name in ("acme", "other"))
    store.add(approval())
    assert store.find(call(euros=1), "s", None) is not None
    for apart in (other, StoredApprovals(memory)):
        assert (apart.find(call(euros=1), "s", None), apart.list()) == (None, [])
