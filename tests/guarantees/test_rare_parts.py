"""Sentences about parts that are rare: subclasses, schemas that nobody checks, agents inside."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import date
from typing import Annotated, Any, Literal

import pytest
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from pydantic import BeforeValidator, StringConstraints

from agent_factory import (
    AgentMiddleware,
    Ordering,
    ToolGuard,
    UsageLimit,
    after_model,
    agent_tool,
    background,
    before_model,
    create_agent,
    hook_config,
    topology_of,
)
from agent_factory import middleware as m
from agent_factory.errors import SpecError
from agent_factory.guarantees import counterexamples, parse
from agent_factory.testing import PlanViolation, ScriptedChatModel, assert_plan
from samples import THREAD, PassingFlows, call_of, search
from tables import each

WEB: dict[str, Any] = {"type": "web_search_20250305", "name": "web"}


class Layers(PassingFlows, AgentMiddleware):
    """Layers that pass on, and the given declarations."""

    def __init__(self, name: str, **declared: Any) -> None:
        super().__init__(name=name)
        vars(self).update(declared)


class Late(AgentMiddleware):
    """A limit that another hook bypasses."""

    limits = (UsageLimit(40, "tokens"),)

    after_model = hook_config(can_jump_to=["end"])(lambda self, state, runtime: None)


def passes(state: Any, runtime: Any) -> None:
    """A hook that declares a jump."""


AGAIN = after_model(can_jump_to=["model"])(passes)
BACK = before_model(can_jump_to=["tools"])(passes)
AnyRule: Any = type(
    "AnyRule", (m.ToolPolicy,), {"rule_for": lambda self, request: m.Rule("*", "allow")}
)
AllowAll: Any = type("AllowAll", (m.ToolPolicy,), {"allows": lambda self, tool: True})
NoCall: Any = type("NoCall", (m.Rule,), {"matches": lambda self, request: False})
NoName: Any = type("NoName", (m.Rule,), {"names": lambda self, tool: False})
AnyName: Any = type("AnyName", (m.Rule,), {"names": lambda self, tool: True})


def loose(name: str = "pay", **properties: Any) -> StructuredTool:
    """A tool with a schema that nobody checks."""
    schema = {"type": "object", "properties": properties}
    return StructuredTool(name=name, description="Pays.", args_schema=schema, func=str)


def pay(kind: Literal["a", "b"], euros: float | None = None, note: str = "") -> str:
    """Pay."""
    return "paid"


def review(*rules: m.Rule) -> Any:
    return m.HumanInTheLoopMiddleware(m.ToolPolicy(*rules))


def ask(when: Any = None) -> m.Rule:
    return m.Rule("pay", "ask", when=when)


def allow(when: Any = None, tool: str = "pay") -> m.Rule:
    return m.Rule(tool, "allow", when=when)


REST, NO_EUROS = allow(tool="*"), allow({"euros": None})
FEW_EUROS = allow({"euros": {"<=": 50}})
FEW_OR_NONE = review(NO_EUROS, FEW_EUROS, ask())
IN_MODE, NUMBER = loose(mode={"type": "string", "enum": ["a", "b"]}), loose(n={"type": "integer"})
CALLS, CLEANS = Ordering(writes=["tool_calls"]), Ordering(sanitizes=["tool_calls"])
DENIES, GUARD = [ToolGuard("pay", "deny")], Layers("Guard", guards=[ToolGuard("search", "check")])
ONE_CALL = m.ToolCallLimitMiddleware(tool_name="clerk", run_limit=1)
TOKENS = m.BudgetMiddleware(run=m.Limits(total_tokens=100))
ONE_SEARCH = m.ToolCallLimitMiddleware(tool_name="search", run_limit=1)
JOB, REPEATED = background(search), background(search, on_loss="repeat")
THREE, CACHE = m.ModelCallLimitMiddleware(run_limit=3), Layers("Cache", ordering=CALLS)
SEARCHES = m.HumanInTheLoopMiddleware({"search": True})
SAME = StructuredTool.from_function(search, name="clerk/search")


def clerk(*middleware: Any, tool: Any = search, within: bool = False) -> Any:
    """An agent as a tool; or a graph of others, which has the agent as a node."""
    ignore, model = ["AF211", "AF217", "AF222"], ScriptedChatModel([])
    agent: Any = create_agent(model, [tool], middleware=middleware, ignore=ignore)
    if within:
        agent = StateGraph(MessagesState).add_node("own", agent).add_edge(START, "own").compile()
    return agent_tool(agent, name="clerk", description="Works.")


@each(
    "tools, stack, sentence",
    [
        # A comparison that is not decided does not name tools.
        ([pay], [review(allow({"note": {"like": "[ab]*"}}), ask())], "tool pay passes a person"),
        ([pay], [review(allow({"note": {"<": "m*"}}), ask())], "tool pay passes a person"),
        # A value that does not compare is one of the others.
        ([pay], [FEW_OR_NONE], "tool pay passes a person unless euros <= 50"),
        # Nobody checks an enum, or a whole number, of a tool with such a schema.
        ([IN_MODE], [review(ask({"mode": {"in": ["a", "b"]}}), REST)], "tool pay passes a person"),
        ([NUMBER], [review(ask({"n": {"!=": 50.5}}), REST)], "tool pay passes a person"),
        # A subclass decides by anything.
        ([pay], [m.HumanInTheLoopMiddleware(AnyRule(ask()))], "tool pay passes a person"),
        ([pay], [review(NoCall("pay", "ask"), REST)], "tool pay passes a person"),
        ([pay], [review(NoCall("pay", "allow"), NoCall("*", "ask"))], "tool pay passes a guard"),
        ([pay], [m.HumanInTheLoopMiddleware(AllowAll(ask()))], "tool pay passes a person"),
        ([pay], [review(NoName("pay", "ask"), REST)], "tool pay passes a person"),
        ([pay], [review(AnyName("x", "allow"), ask())], "tool pay passes a person"),
        # A tool that checks nothing is called with any arguments.
        (
            [pay, loose("remote")],
            [review(ask({"euros": {">": 50}}), REST)],
            "tool * passes a person when euros > 50",
        ),
        # A service repeats a call in the background that was lost.
        ([REPEATED], [m.BackgroundMiddleware(), ONE_SEARCH], "at most 1 calls of search"),
        # The provider runs its tool.
        ([pay, WEB], [], "at most 0 calls of web"),
        # An agent inside has loops, writers, limits and jobs.
        ([clerk()], [THREE], "every loop passes a limit"),
        ([clerk(GUARD, Layers("Clean", ordering=CLEANS))], [], "tool clerk/search passes a guard"),
        ([clerk(Late(), AGAIN)], [ONE_CALL, TOKENS], "at most 200 tokens"),
        ([clerk(m.BackgroundMiddleware(), tool=JOB)], [], "at most 1 jobs under way"),
        ([JOB], [m.BackgroundMiddleware()], "at most 99 jobs under way a ledger"),
        # A layer outside answers with calls, also in an agent inside, and further in.
        ([pay], [CACHE, THREE], "every loop passes a limit"),
        ([clerk(CACHE, THREE)], [THREE], "every loop passes a limit"),
        ([clerk(THREE, tool=clerk(CACHE, THREE))], [THREE], "every loop passes a limit"),
        # In there, a loop may go around the model.
        ([clerk(BACK, THREE)], [THREE], "every loop passes a limit"),
        # Nobody knows the plan of a graph of others.
        ([clerk(THREE, within=True)], [THREE], "every loop passes a limit"),
        ([clerk(THREE, within=True)], [THREE, ONE_CALL], "at most 9 model calls"),
        # A tool has the name of one of an agent inside.
        ([clerk(SEARCHES), SAME], [], "tool clerk/search passes a person"),
        # A member that refuses calls may write one.
        ([pay], [Layers("W", guards=DENIES, ordering=CALLS)], "at most 0 calls of pay"),
    ],
)
def test_a_sentence_does_not_hold(tools: Any, stack: Any, sentence: str) -> None:
    codes = ["AF125", *(f"AF2{n:02}" for n in (1, 6, 10, 11, 12, 13, 17, 19, 22))]
    agent = create_agent(ScriptedChatModel([]), tools, middleware=stack, ignore=codes)
    with pytest.raises(PlanViolation):
        assert_plan(agent, sentence)


@each(
    "kind, conditions, sentence",
    [
        (dict, [{"city": "Rome"}], ""),
        (list, [[1]], ""),
        (Annotated[Literal["a", "b"], BeforeValidator(str.lower)], [{"in": ["a", "b"]}], ""),
        (Annotated[int, BeforeValidator(round)], [{"<=": 50}, {">=": 51}], ""),
        (list[int], [[1]], " when x == [1]"),
        (date, ["2026-01-01"], ' when x == "2026-01-01"'),
        (Annotated[str, StringConstraints(to_lower=True)], ["ann"], ' when x == "ann"'),
    ],
)
def test_a_rule_sees_a_value_before_the_tool_converts_it(
    kind: Any, conditions: Any, sentence: str
) -> None:
    def pay(x: Any) -> None:
        """Pay."""

    pay.__annotations__ = {"x": kind}
    stack = [review(*[ask({"x": condition}) for condition in conditions], REST)]
    agent = create_agent(ScriptedChatModel([]), [pay], middleware=stack, ignore=["AF131", "AF211"])
    with pytest.raises((PlanViolation, SpecError), match=r"runs without a person|may change x"):
        assert_plan(agent, f"tool pay passes a person{sentence}")


def test_a_text_that_a_tool_requires_is_in_each_call_that_runs() -> None:
    def send(to: str) -> None:
        """Send."""

    own = {"to": {"like": "*@shop.example"}}
    rules = m.Rule("send", "judge", when=own), m.Rule("send", "ask")
    stack = [m.HumanInTheLoopMiddleware(m.ToolPolicy(*rules, judge=ScriptedChatModel([])))]
    agent = create_agent(ScriptedChatModel([]), [send], middleware=stack, ignore=["AF211"])
    assert_plan(agent, 'tool send passes a person unless to like "*@shop.example"')


def test_an_agent_inside_ends_by_a_limit_or_without_a_loop() -> None:
    once = create_agent(ScriptedChatModel([]), name="once")
    tools = [clerk(THREE, tool=clerk(THREE)), agent_tool(once, description="Answers.")]
    agent = create_agent(ScriptedChatModel([]), tools, middleware=[THREE])
    assert_plan(agent, "every loop passes a limit")


@each(
    "sentence, words",
    [
        ('tool pay passes a person when kind == "A"', "has no calls with kind"),
        ("tool pay passes a person when note != null", "compares it with"),
        ("tool pay passes a person when euros > 50 and euros < 10", "would hold for nothing"),
        ("no path from model to tools skips a person", "Write 'tool * passes a person'"),
        ("model passes a guard", "Write 'tool * passes a guard'"),
    ],
)
def test_a_sentence_that_holds_for_nothing_is_an_error(sentence: str, words: str) -> None:
    agent = create_agent(ScriptedChatModel([]), [pay])
    with pytest.raises(SpecError, match=words.replace("*", r"\*")):
        assert_plan(agent, sentence)


def test_tools_without_the_argument_of_a_condition_have_other_calls() -> None:
    for rules, holds in (([FEW_EUROS, m.Rule("*", "ask")], True), ([ask(), REST], False)):
        stack = [review(*rules)]
        model, ignore = ScriptedChatModel([]), ["AF211"]
        agent = create_agent(model, [pay, search], middleware=stack, ignore=ignore)
        assert_plan(agent, "tool * passes a person when euros > 50")
        with nullcontext() if holds else pytest.raises(PlanViolation, match="search"):
            assert_plan(agent, "tool * passes a person unless euros <= 50")


def test_spaces_and_words_in_quotes_are_a_part_of_a_value() -> None:
    (clause,) = parse('tool  pay passes a person when note == "a  when b"').clauses
    assert str(getattr(clause, "wanted", "")) == 'note == "a  when b"'


def test_a_call_that_a_rule_cannot_decide_about_is_one_of_the_others() -> None:
    paid: list[object] = []

    def pay(euros: float | None = None) -> str:
        """Pay."""
        paid.append(euros)
        return "paid"

    model = ScriptedChatModel([[call_of("pay", euros=None)], "done"])
    stack, saver = [review(NO_EUROS, ask())], InMemorySaver()
    agent = create_agent(model, [pay], middleware=stack, checkpointer=saver)
    agent.invoke({"messages": "Pay."}, THREAD)
    assert paid == [None]
    (no,) = counterexamples(topology_of(agent), ["tool pay passes a person unless euros <= 50"])
    assert no.arguments == {"euros": None}
