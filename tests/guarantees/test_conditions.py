"""Conditions in sentences: which calls they are about, decided exactly, and what is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Set
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given
from stack_agents import agent_of, kept_agent

from agent_factory import plan_agent
from agent_factory.errors import SpecError
from agent_factory.middleware import HumanInTheLoopMiddleware, Rule, ToolPolicy
from agent_factory.testing import (
    PlanViolation,
    ScriptedChatModel,
    assert_plan,
    replay_counterexample,
)
from agent_factory.topology.conditions import COMPARISONS, counterexample_case, parse_condition
from samples import THREAD, call_of, refund
from tables import each

ASK_OVER_5 = Rule("refund", "ask", when={"euros": {">": 5}})


@each(
    "rules, sentence, arguments",
    [
        (
            [Rule("refund", "allow", when={"euros": {"<=": 10}}), Rule("refund", "ask")],
            "when euros > 50",
            None,
        ),
        (
            [Rule("refund", "ask", when={"euros": {">": 100}}), Rule("*", "allow")],
            "when euros > 50",
            {"euros": 51},
        ),
        # Two rules together are about all calls.
        (
            [
                Rule("refund", "ask", when={"euros": {">": 5}}),
                Rule("refund", "deny", when={"euros": {"<=": 5}}),
            ],
            "",
            None,
        ),
        # Between 50 and 51 there is no whole number.
        (
            [Rule("refund", "ask", when={"euros": {">=": 51}}), Rule("*", "allow")],
            "when euros > 50",
            None,
        ),
        (
            [Rule("refund", "allow", when={"euros": {"in": [1, 2]}}), Rule("refund", "ask")],
            "unless euros in [1, 2, 3] and tool refund passes a guard unless euros < 3",
            None,
        ),
        (
            [Rule("refund", "allow", when=lambda request: True), Rule("refund", "ask")],
            "when euros > 50",
            {"euros": 51},
        ),
    ],
)
def test_conditions_are_compared_by_what_they_mean(
    rules: list[Rule], sentence: str, arguments: Any
) -> None:
    review = HumanInTheLoopMiddleware(ToolPolicy(*rules))
    agent = agent_of([], review, tools=[refund], ignore=["AF211", "AF213"])
    try:
        assert_plan(agent, f"tool refund passes a person {sentence}".strip())
    except PlanViolation as error:
        (counterexample,) = error.counterexamples
        assert counterexample.arguments == arguments
        replay = replay_counterexample(counterexample)
        assert replay.run().tools == ("refund",)
        assert replay.model.steps[0][0]["args"] == {"request": "Go", **arguments}
    else:
        assert arguments is None


@each(
    "condition, words",
    [
        ("when euro > 50", "'euro' is not one of its arguments, which are euros"),
        (
            'when euros > "50"',
            "euros is an integer, and 'euros > \"50\"' compares it with a string",
        ),
        ('when euros like "5*"', "compares it with a string"),
        ('when order < "b"', 'cannot be decided for order < "b". Compare texts by'),
        ('when order like "[ab]*"', "cannot be decided for order like"),
    ],
)
def test_a_condition_that_cannot_be_decided_is_refused_by_name(condition: str, words: str) -> None:
    def pay(euros: int, order: str) -> str:
        """Pay."""
        return "paid"

    tool = pay if "order" in condition else refund
    review = HumanInTheLoopMiddleware({tool.__name__: True})
    sentence = f"tool {tool.__name__} passes a person {condition}"
    with pytest.raises(SpecError, match=re.escape(words)) as caught:
        plan_agent(tools=[tool], middleware=[review], guarantees=[sentence], ignore=["AF211"])
    assert caught.value.code == "AF128"


@each(
    "when, words",
    [
        ({"euros": {"=>": 50}}, "compares it with an object"),
        ({"euros": {"gt": 50}}, "compares it with an object"),
        ({"euros": {"<=": "50"}}, "compares it with a string"),
        ({"cents": {"<=": 50}}, "'cents' is not one of its arguments, which are euros"),
    ],
)
def test_a_rule_that_no_call_can_meet_is_an_error_of_the_build(when: Any, words: str) -> None:
    review = HumanInTheLoopMiddleware(
        ToolPolicy(Rule("refund", "allow", when=when), Rule("*", "ask"))
    )
    with pytest.raises(SpecError, match=re.escape(words)) as caught:
        plan_agent(tools=[refund], middleware=[review], ignore=["AF211"])
    assert caught.value.code == "AF131"
    plan_agent(tools=[refund], middleware=[review], ignore=["AF131", "AF211"])


SIGNS = ["<", "<=", ">", ">=", "==", "!="]
NUMBERS = st.integers(-3, 3)
LEAVES = st.one_of(
    st.tuples(st.just("n"), st.sampled_from(SIGNS), NUMBERS),
    st.tuples(st.just("n"), st.sampled_from(["in", "not in"]), st.lists(NUMBERS, min_size=1)),
    st.tuples(st.just("t"), st.sampled_from(["==", "like", "not like"]), st.text("ab*?")),
    st.tuples(st.just("b"), st.sampled_from(["==", "!="]), st.booleans()),
)
CONDITIONS = st.recursive(
    LEAVES.map(lambda leaf: f"{leaf[0]} {leaf[1]} {json.dumps(leaf[2])}"),
    lambda parts: st.lists(parts, min_size=1, max_size=3).flatmap(
        lambda texts: st.sampled_from(["{}", "not ({})", "not ({}, or unknown)"]).map(
            lambda form: form.format(" and ".join(texts))
        )
    ),
    max_leaves=5,
)
CALLS = st.fixed_dictionaries({"n": st.floats(-4, 4), "t": st.text("abc"), "b": st.booleans()})


@given(
    CONDITIONS,
    st.lists(CONDITIONS, max_size=3),
    st.lists(st.tuples(CALLS, st.sets(st.sampled_from("ntb"))), max_size=40),
)
def test_a_case_is_found_if_and_only_if_there_is_one(
    wanted: str, deciding: list[str], calls: list[tuple[dict[str, object], set[str]]]
) -> None:
    """A found case meets the one condition and none of the others; without one, no call does."""
    first, *others = [parse_condition(text) for text in (wanted, *deciding)]
    assert [str(first), *map(str, others)] == [wanted, *deciding]

    def slips(call: Mapping[str, object], unknown: Set[str]) -> bool:
        """A sentence is about calls as they run, unless it speaks of unknown arguments."""

        def as_written(leaf: Any) -> bool | None:
            return None if leaf.name in unknown else as_run(leaf)

        def as_run(leaf: Any) -> bool | None:
            return COMPARISONS[leaf.sign](call[leaf.name], leaf.value)

        is_meant = first.holds(as_written if "unknown" in wanted else as_run) is True
        return is_meant and all(other.holds(as_written) is False for other in others)

    case = counterexample_case(first, others, lambda fact: None)
    if case is None:
        assert not any(slips(*call) for call in calls)
    elif {str(leaf)[0] for each in (first, *others) for leaf in each.leaves} == {*case}:
        assert slips({"n": 0, "t": "", "b": True, **case}, set())
    else:
        assert "unknown" in "".join([wanted, *deciding])


@each("arguments", [{}, {"euros": "3"}, {"euros": 3}])
def test_a_judge_takes_a_call_whose_argument_it_does_not_know(arguments: Any) -> None:
    """The tool runs with 3 euros: as a default, or converted, or as written."""
    paid: list[int] = []

    def pay(euros: int = 3) -> str:
        """Pay."""
        paid.append(euros)
        return "paid"

    judgement = {"reason": "Small.", "probability": 0}
    judge = ScriptedChatModel([[{"name": "RiskJudgement", "args": judgement}]] * 2)
    rules = Rule("pay", "judge", when={"euros": {">": 4}}), Rule("pay", "ask")
    review = HumanInTheLoopMiddleware(ToolPolicy(*rules, judge=judge))
    agent = kept_agent([[call_of("pay", **arguments)], "done"], review, tools=[pay])
    ran = "__interrupt__" not in agent.invoke({"messages": "Pay."}, THREAD)
    assert paid == [3] * ran
    assert ran == (arguments != {"euros": 3})
    with pytest.raises(PlanViolation):
        assert_plan(agent, "tool pay passes a person when euros <= 4")
    assert_plan(agent, "tool pay passes a person when not (euros > 4, or unknown)")
