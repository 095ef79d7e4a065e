"""Verdicts about plans, one kind of sentence after the other, and the texts of a no."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest
from stack_agents import agent_of

from agent_factory import AgentMiddleware, create_agent, plan_agent, topology_of
from agent_factory import middleware as m
from agent_factory.errors import BUILD_CODES, SpecError
from agent_factory.guarantees import (
    Counterexample,
    GuaranteeError,
    counterexamples,
    default_findings,
)
from agent_factory.prebuilt import agent_tool, create_react_agent
from agent_factory.testing import ScriptedChatModel
from agent_factory.topology import Access, AccessKind, ToolGuard, UsageLimit
from agent_factory.topology.model import (
    JUMPS,
    Call,
    Hook,
    Layer,
    Phase,
    Shape,
    Tool,
    ToolKind,
    TopologyData,
)
from agent_factory.topology.planner import decide
from samples import Answer, Declares, Rewrites, refund
from tables import each


def plan(*parts: object, tools: Sequence[str | Tool] = ("refund", "search")) -> TopologyData:
    """A plan of hooks, layers and declarations, in the order of the list."""

    def each(kind: type[Any]) -> tuple[Any, ...]:
        return tuple(part for part in parts if isinstance(part, kind))

    layers = each(Layer)
    offered = tuple(Tool(each) if isinstance(each, str) else each for each in tools)
    shape = Shape(
        hooks=each(Hook),
        layers=layers,
        has_tools=bool(offered),
        may_skip_tools=any(layer.call is Call.MODEL for layer in layers),
        tools=offered,
        guards=each(ToolGuard),
        limits=each(UsageLimit),
        accesses=each(Access),
    )
    return decide(shape, TopologyData)


def hook(owner: str, phase: str, *jumps: str) -> Hook:
    return Hook(owner, Phase(phase), frozenset(jumps))


def layer(owner: str, call: str) -> Layer:
    return Layer(owner, Call(call), f"around_{call}")


def guard(owner: str, tool: str, action: Any = "check", **options: Any) -> ToolGuard:
    return ToolGuard(tool, action, owner=owner, **options)


def limit(owner: str, most: float, unit: Any = "model calls", **options: Any) -> UsageLimit:
    return UsageLimit(most, unit, owner=owner, **options)


def writes(owner: str, aspect: str = "tool_calls") -> Access:
    return Access(owner, AccessKind.WRITES, (aspect,))


def no(checked: TopologyData, sentence: str) -> Counterexample:
    """The only counterexample: at most four lines, of which the first has the sentence."""
    (counterexample,) = counterexamples(checked, [sentence])
    lines = str(counterexample).splitlines()
    assert len(lines) <= 4
    assert lines[0].startswith(f"{sentence}: no. ")
    return counterexample


def nodes(counterexample: Counterexample) -> str:
    return " ".join([step.target for step in counterexample.path])


def holds(checked: TopologyData, sentence: str) -> bool:
    return not counterexamples(checked, [sentence])


REVIEW = (hook("Review", "after_model"), guard("Review", "refund", "ask", place="after_model"))
LAYER = (layer("Review", "tool"), guard("Review", "refund"))
ORDER = (layer("Order", "tool"), guard("Order", "refund", after="search"))
SHORTCUT = hook("Shortcut", "before_model", "tools")


# tool NAME passes MEMBER


@each(
    "checked, sentence",
    [
        (plan(*REVIEW), "tool refund passes Review"),
        # No jump bypasses a layer.
        (plan(SHORTCUT, *LAYER), "tool refund passes Review and tool refund passes a guard"),
        # A hook before the loop counts for the whole run, and so does a layer around the run.
        (plan(hook("Login", "before_agent")), "tool * passes Login"),
        (plan(SHORTCUT, layer("Session", "agent")), "tool refund passes Session"),
        # A name with the characters of patterns means itself.
        (plan(layer("Limit[refund]", "tool")), "tool refund passes Limit[refund]"),
        # There is no loop.
        (plan(tools=[]), "every loop passes a limit"),
        # A layer around tools sees calls after all hooks.
        (
            plan(hook("Edit", "after_model"), layer("Judge", "tool"), writes("Edit")),
            "Judge sees tool_calls last",
        ),
    ],
)
def test_a_sentence_holds_where_no_jump_goes_around(checked: TopologyData, sentence: str) -> None:
    assert holds(checked, sentence)


@each(
    "checked, sentence, path",
    [
        # A jump skips a hook that comes before the loop.
        (
            plan(hook("Cache", "before_agent", "model"), hook("Login", "before_agent")),
            "tool refund passes Login",
            "Cache.before_agent model tools",
        ),
        # A hook that jumps to the tools may write a call, which nobody has seen.
        (
            plan(hook("Review", "after_model"), hook("Again", "after_agent", "tools")),
            "tool refund passes Review",
            "model Review.after_model Again.after_agent tools",
        ),
    ],
)
def test_a_jump_around_a_member_is_a_no(checked: TopologyData, sentence: str, path: str) -> None:
    assert nodes(no(checked, sentence)) == path


def test_a_jump_around_a_review_is_a_path_with_who_opens_it_and_what_to_write() -> None:
    counterexample = no(plan(SHORTCUT, *REVIEW), "tool refund passes Review")
    assert str(counterexample) == (
        "tool refund passes Review: no. A run can reach the tool 'refund' without Review.\n"
        "Path: __start__ -> Shortcut.before_model -> tools\n"
        "Shortcut declares this jump in can_jump_to.\n"
        "Remove 'tools' from can_jump_to of Shortcut.before_model, or let Review wrap the call in "
        "a layer, which no jump bypasses."
    )
    assert counterexample.opened_by == ("Shortcut",)
    assert counterexample.tool == "refund"


def test_a_guard_is_passed_where_it_decides() -> None:
    """Its hook before the model decides nothing."""
    checked = plan(hook("Review", "before_model"), SHORTCUT, *REVIEW)
    path = "Review.before_model Shortcut.before_model tools"
    for member in ("Review", "a guard", "a person"):
        assert nodes(no(checked, f"tool refund passes {member}")) == path
    assert holds(checked, "model passes Review")


def test_a_member_that_guards_other_tools_or_asks_nobody_is_not_passed() -> None:
    counterexample = no(plan(*REVIEW), "tool search passes Review")
    assert counterexample.reason == "Review does not decide about 'search'."
    assert counterexample.hint == "Add 'search' to the tools that it guards."
    checked = plan(layer("Rule", "tool"), guard("Rule", "*"))
    assert holds(checked, "tool refund passes a guard")
    reason = no(checked, "tool refund passes a person").reason
    assert reason == "No middleware declares that a person decides about 'refund'."


def test_a_guard_of_some_calls_is_named_with_its_condition() -> None:
    review = guard("Review", "refund", "ask", when="euros > 50", reviewers=("finance",))
    checked = plan(layer("Review", "tool"), review)
    assert holds(checked, "tool refund passes Review")
    for member in ("a guard", "a person"):
        counterexample = no(checked, f"tool refund passes {member}")
        assert counterexample.arguments == {"euros": 49}
        assert counterexample.reason == (
            f"refund(euros=49) runs without {member}. Review decides about some calls only: "
            "finance decides about refund when euros > 50."
        )
        assert counterexample.hint == (
            f"Write 'tool refund passes {member} when euros > 50' if such calls are what you mean, "
            "or let it decide about all calls."
        )
        assert holds(checked, f"tool refund passes {member} when euros > 50")
    inside = guard("clerk/Review", "clerk/refund", "ask", when="euros > 50")
    tools = [Tool("clerk"), Tool("clerk/refund", ToolKind.INNER)]
    counterexample = no(plan(inside, tools=tools), "tool clerk/refund passes a person")
    assert "Review decides about some calls only: a person decides" in counterexample.reason


def test_unless_excuses_paths_and_each_part_that_does_not_hold_has_a_counterexample() -> None:
    checked = plan(hook("Fast", "before_model", "tools"), *REVIEW)
    assert holds(checked, "tool refund passes Review unless Fast")
    assert no(checked, "tool refund passes Review unless Slow").path
    sentence = "tool refund passes A and model passes B and every loop passes Review"
    noes = counterexamples(plan(*REVIEW), [sentence])
    assert [each.reason for each in noes] == ["A is not in the stack.", "B is not in the stack."]


def test_patterns_mean_several_tools_and_members() -> None:
    checked = plan(SHORTCUT, layer("Review1", "tool"), tools=["send_mail", "send_fax", "read"])
    assert holds(checked, "tool send_* passes Review?")
    assert no(checked, "tool send_* passes Audit*").tool == "send_mail"
    assert holds(checked, "tool delete_* passes Audit if any")


def test_the_provider_runs_its_tools_past_all_middleware() -> None:
    checked = plan(layer("Review", "tool"), tools=[Tool("web", ToolKind.PROVIDER)])
    counterexample = no(checked, "tool web passes Review")
    assert "The provider of the model runs 'web'" in counterexample.reason
    assert no(checked, "tool web only after tool web").reason == counterexample.reason


# Tools of agents inside of tools


def check(euros: int) -> str:
    """Check."""
    return "right"


def clerk(*members: Any) -> Any:
    agent = agent_of([], *members, tools=[refund], name="clerk", ignore=["AF211"])
    return agent_tool(agent, description="Refunds.")


def test_a_tool_of_an_agent_inside_passes_the_guard_in_there() -> None:
    inside = plan_agent(tools=[clerk(m.HumanInTheLoopMiddleware({"refund": True}))])
    for sentence in (
        "tool clerk/refund passes HumanInTheLoopMiddleware",
        "tool refund passes a person",
        "tool refund passes Human*",
    ):
        assert holds(inside, sentence), sentence


def test_a_guard_outside_does_not_see_the_calls_of_an_agent_inside() -> None:
    review = m.HumanInTheLoopMiddleware({"clerk": True})
    outside = plan_agent(tools=[clerk()], middleware=[review], ignore=["AF211"])
    counterexample = no(outside, "tool refund passes HumanInTheLoopMiddleware")
    assert counterexample.tool == "clerk/refund"
    assert counterexample.reason == (
        "The agent inside of the tool 'clerk' calls 'refund' without HumanInTheLoopMiddleware."
    )
    assert nodes(counterexample) == "model HumanInTheLoopMiddleware.after_model tools"
    assert holds(outside, "tool clerk passes a person")


def test_a_guard_outside_that_names_a_tool_of_an_agent_inside_decides_nothing() -> None:
    names = ToolGuard("clerk/refund", "ask"), ToolGuard("clerk/refund", "check", after="check")
    outside = plan_agent(tools=[clerk(), check], middleware=[Declares(*names)])
    for member in ("passes a guard", "passes a person", "passes Declares", "only after tool check"):
        assert no(outside, f"tool clerk/refund {member}").tool == "clerk/refund"


def test_members_of_both_agents_may_match_a_pattern() -> None:
    tools: list[Any] = ["clerk", Tool("clerk/refund", ToolKind.INNER)]
    checked = plan(layer("Review1", "tool"), guard("clerk/Review2", "clerk/refund"), tools=tools)
    assert holds(checked, "tool clerk/refund passes Review*")
    assert no(checked, "tool clerk/refund passes Review1").tool == "clerk/refund"


def test_the_order_of_tools_of_an_agent_inside_is_kept_in_there() -> None:
    order = Declares(ToolGuard("refund", "check", after="check"))
    agent = create_agent(ScriptedChatModel([]), [refund, check], middleware=[order], name="clerk")
    outside = plan_agent(tools=[agent_tool(agent, description="Refunds.")])
    assert holds(outside, "tool clerk/refund only after tool clerk/check")
    assert holds(outside, "tool refund only after tool check")
    assert no(outside, "tool check only after tool refund").tool == "clerk/check"


# model passes MEMBER, and paths


def test_the_model_passes_hooks_and_layers() -> None:
    checked = plan(hook("Fast", "before_agent", "model"), hook("Login", "before_agent"))
    assert nodes(no(checked, "model passes Login")) == "Fast.before_agent model"
    assert holds(plan(layer("Cache", "model")), "model passes Cache")
    assert holds(plan(layer("Cache", "model"), limit("Cache", 3)), "model passes a limit")


def test_a_path_may_be_asked_about_by_nodes_and_members() -> None:
    checked = plan(SHORTCUT, hook("Log", "after_agent"))
    assert holds(checked, "no path from start to end skips Log")
    assert holds(checked, "no path from tools to tools skips Shortcut.before_model")
    for ends, path in (
        ("start to tools", "Shortcut.before_model tools"),
        ("tools to end", "Shortcut.before_model tools Log.after_agent __end__"),
    ):
        assert nodes(no(checked, f"no path from {ends} skips model")) == path


# every loop passes MEMBER


def test_a_loop_without_a_limit_or_a_member_names_what_to_add() -> None:
    counterexample = no(plan(), "every loop passes a limit")
    assert nodes(counterexample) == "model tools model"
    assert counterexample.hint == "Add ModelCallLimitMiddleware(run_limit=...)."
    assert holds(plan(hook("Log", "before_model")), "every loop passes Log")
    assert no(plan(hook("Log", "before_agent")), "every loop passes Log").hint == (
        "Add Log to a part of the loop that each turn passes."
    )
    assert holds(plan(), "every loop passes model") is False  # the model is a node, no member


def test_a_limit_before_the_model_ends_each_loop_through_it() -> None:
    limited = [hook("Limit", "before_model", "end"), limit("Limit", 3)]
    assert holds(plan(*limited), "every loop passes a limit")
    around = no(plan(*limited, SHORTCUT), "every loop passes a limit")
    assert nodes(around) == "Limit.before_model Shortcut.before_model tools Limit.before_model"
    again = no(plan(*limited, hook("Again", "after_agent", "model")), "every loop passes a limit")
    assert "Again.after_agent Limit.before_model" in nodes(again)


def test_a_limit_in_a_layer_does_not_end_a_loop_that_a_jump_closes() -> None:
    """The layer answers without calls, and the hook after it jumps back all the same."""
    limited = [layer("Limit", "model"), limit("Limit", 3)]
    assert holds(plan(*limited), "every loop passes a limit")
    again = plan(*limited, hook("Again", "after_model", "model"))
    counterexample = no(again, "every loop passes a limit")
    assert nodes(counterexample) == "model Again.after_model model"
    assert counterexample.hint == "Let Limit jump to the end in a hook before the model."


# MEMBER sees PART last


def test_a_later_member_that_writes_is_a_no_with_its_path() -> None:
    checked = plan(hook("Edit", "after_model"), hook("Judge", "after_model"), writes("Edit"))
    counterexample = no(checked, "Judge sees tool_calls last")
    assert counterexample.reason == "Edit may change tool calls after Judge has seen them."
    assert nodes(counterexample) == "model Judge.after_model Edit.after_model tools"
    assert holds(checked, "Edit sees tool_calls last")


def test_a_jump_around_the_last_look_is_a_no() -> None:
    """Its layer sees the call, then it is changed, and a jump skips its hook."""
    judge = [hook("Judge", "after_model"), layer("Judge", "model")]
    edit = hook("Edit", "after_model")
    assert holds(plan(*judge, edit, writes("Edit")), "Judge sees tool_calls last")
    jumping = plan(*judge, hook("Edit", "after_model", "tools"), writes("Edit"))
    assert nodes(no(jumping, "Judge sees tool_calls last")) == "model Edit.after_model tools"


def test_a_member_without_a_look_sees_nothing_last() -> None:
    counterexample = no(plan(hook("Log", "before_model")), "Log sees answers last")
    assert counterexample.reason == "Log sees no answers."
    assert no(plan(*REVIEW), "Reviw sees answers last").hint == "Did you mean Review?"


# tool NAME only after tool OTHER


def test_only_a_layer_keeps_the_order_of_tools_against_every_jump() -> None:
    sentence = "tool refund only after tool search"
    counterexample = no(plan(), sentence)
    assert counterexample.reason == "The model may call 'refund' first, and nothing stops the call."
    assert "after='search'" in counterexample.hint
    assert holds(plan(*ORDER, SHORTCUT), sentence)
    assert holds(plan(*ORDER, SHORTCUT), "tool refund only after tool sea*")
    assert no(plan(*ORDER), "tool search only after tool refund").path


def test_a_hook_keeps_the_order_if_no_other_one_jumps_to_the_tools() -> None:
    sentence = "tool refund only after tool search"
    asks = guard("Order", "refund", after="search", place="after_model")
    ordered = [hook("Order", "after_model"), asks]
    assert holds(plan(*ordered), sentence)
    assert nodes(no(plan(*ordered, SHORTCUT), sentence)) == "Shortcut.before_model tools"
    unseen = no(plan(hook("Late", "after_model", "tools"), *ordered), sentence)
    assert nodes(unseen) == "model Order.after_model Late.after_model tools"
    assert unseen.reason == (
        "Late.after_model may jump to the tools with a call that Order has not seen."
    )


def test_a_call_that_has_to_wait_may_be_the_first_one_of_a_later_run() -> None:
    """The other tool has run in an earlier run of the thread."""
    parts = [hook("Fast", "before_agent", "tools"), hook("Log", "after_model")]
    counterexample = no(plan(*parts, *ORDER), "tool refund passes Log")
    assert nodes(counterexample) == "Fast.before_agent tools"


# at most N


def test_a_missing_limit_names_the_middleware_to_add() -> None:
    assert no(plan(), "at most 5 model calls").hint == "Add ModelCallLimitMiddleware(run_limit=5)."
    assert no(plan(), "at most 2 calls of refund a thread").hint == (
        "Add ToolCallLimitMiddleware(tool_name='refund', thread_limit=2)."
    )
    assert no(plan(), "at most 0.5 USD").hint == "Add BudgetMiddleware(run=Limits(...))."


def test_a_limit_of_the_built_ins_holds() -> None:
    of_refund = m.ToolCallLimitMiddleware(tool_name="refund", run_limit=2)
    stack: list[Any] = [m.ModelCallLimitMiddleware(run_limit=5), of_refund]
    checked = plan_agent(tools=[refund], middleware=stack)
    assert holds(checked, "at most 5 model calls and at most 2 calls of refund")
    assert holds(checked, "every loop passes a limit")
    high = no(checked, "at most 4 model calls")
    assert high.reason == "The limit of ModelCallLimitMiddleware is 5."
    assert (high.hint, high.path) == ("Lower it to 4.", ())
    assert no(checked, "at most 2 tool calls").reason == "No middleware limits tool calls a run."


def test_a_limit_that_people_may_raise_holds_nothing() -> None:
    limits = m.Limits(turns=3)
    asking = m.BudgetMiddleware(run=limits, exit_behavior="ask")
    asks = plan_agent(tools=[refund], middleware=[asking], ignore=["AF211"])
    assert "People may raise the limit" in str(no(asks, "at most 3 model calls"))
    ends = plan_agent(tools=[refund], middleware=[m.BudgetMiddleware(run=limits)])
    assert holds(ends, "at most 3 model calls")


def test_a_limit_of_a_thread_or_a_ledger_is_one_of_its_runs_and_not_the_reverse() -> None:
    checked = plan(layer("Limit", "model"), limit("Limit", 5, scope="thread"))
    assert holds(checked, "at most 5 model calls a run")
    checked = plan(layer("Limit", "model"), limit("Limit", 5))
    assert no(checked, "at most 5 model calls a thread").hint.endswith("(thread_limit=5).")
    checked = plan(layer("Limit", "model"), limit("Limit", 0))
    assert holds(checked, "at most 0 model calls a thread and at most 0 model calls a ledger")
    ledger = limit("Budget", 30, scope="ledger")
    checked = plan(hook("Budget", "before_model", "end"), layer("Budget", "model"), ledger)
    assert holds(checked, "at most 30 model calls")
    assert holds(checked, "at most 30 model calls a ledger")
    assert no(checked, "at most 29 model calls a ledger").hint == "Lower it to 29."
    # Another process has another ledger, and may continue the thread.
    assert no(checked, "at most 30 model calls a thread")
    hint = no(plan(), "at most 30 tool calls a ledger").hint
    assert hint == "Add BudgetMiddleware(ledger=Ledger(Limits(...)))."


AFTER = (hook("Limit", "after_model", "end"), limit("Limit", 3))
AGAIN, AT_END = hook("Again", "after_model", "model"), hook("Again", "after_agent", "model")
MOST = "at most 3 model calls"
BYPASSED = (hook("A", "after_agent"), limit("A", 2))
LAYERED = (layer("B", "model"), limit("B", 4))
TOKENS = (layer("Limit", "model"), limit("Limit", 900, "tokens"))
TOOL_CALLS = (layer("Limit", "tool"), limit("Limit", 3, "tool calls"))
COUNTED = (hook("Limit", "after_model"), limit("Limit", 3, "tool calls"))


@each(
    "checked, sentence, path",
    [
        # The least limit that is not bypassed counts.
        (plan(*BYPASSED), "at most 5 model calls", "model tools model"),
        (plan(*BYPASSED, *LAYERED), "at most 5 model calls", None),
        (plan(*BYPASSED, *LAYERED), "at most 3 model calls", "model model"),
        # A limit after the model is exceeded where a run comes back.
        (plan(*AFTER), "at most 3 model calls and every loop passes a limit", None),
        (plan(AFTER[0], limit("Limit", 0)), "at most 0 model calls", "model"),
        (plan(*AFTER, AT_END), MOST, "model Limit.after_model Again.after_agent model"),
        # It ends a loop unless a jump goes around it: the last of a list is the first there.
        (plan(*AFTER, AGAIN), "every loop passes a limit", "model Again.after_model model"),
        # A limit of tool calls in a layer ends no loop; a hook may be bypassed.
        (plan(*TOOL_CALLS), "every loop passes a limit", "model tools model"),
        (plan(*TOOL_CALLS), "at most 3 tool calls and at most 3 calls of refund", None),
        (plan(*COUNTED), "at most 3 tool calls", None),
        (plan(*COUNTED, SHORTCUT), "at most 3 tool calls", "Shortcut.before_model tools"),
        # Without a loop the model is called once.
        (plan(tools=[]), "at most 1 model calls and at most 0 tool calls", None),
        (plan(tools=[]), "at most 0 model calls", ""),
        (plan(tools=[]), "at most 100 tokens", ""),
        # Tokens limit those of the input, too.
        (plan(*TOKENS), "at most 900 input tokens", None),
        (plan(layer("L", "model"), limit("L", 900, "input tokens")), "at most 900 tokens", ""),
    ],
)
def test_a_limit_bounds_what_it_stops(
    checked: TopologyData, sentence: str, path: str | None
) -> None:
    """Without a path, the sentence holds."""
    assert holds(checked, sentence) is (path is None)
    assert path is None or nodes(no(checked, sentence)) == path


# Names


@each(
    "sentence, subject, hint",
    [
        ("tool refnd passes A", "tool refnd", "Did you mean 'refund'?"),
        ("tool refund only after tool serch", "tool serch", "Did you mean 'search'?"),
        ("at most 3 calls of refnd", "tool refnd", "Did you mean 'refund'?"),
        ("tool x passes A", "tool x", "Its tools: refund, search."),
        (
            "tool refnd* passes a person",
            "tool refnd*",
            "Did you mean 'refund'? Write 'if any' at the end of the sentence if there may be "
            "none.",
        ),
        ("tool re* only after tool *", "tool re*", "Name the tools one by one."),
        ("no path from strt to end skips A", "strt", "Did you mean 'start'?"),
        ("no path from start to here skips A", "here", "Its nodes: start, model, tools, end."),
    ],
)
def test_a_misspelt_tool_or_node_is_an_error(sentence: str, subject: str, hint: str) -> None:
    with pytest.raises(SpecError) as caught:
        counterexamples(plan(), [sentence])
    assert (caught.value.subject, caught.value.hint) == (subject, hint)
    assert caught.value.code == "AF128"


@each(
    "sentence, hint",
    [
        ("tool refund passes Reviw", "Did you mean Review?"),
        ("model passes Reviw", "Did you mean Review?"),
        ("model passes Budget", "Add Budget to `middleware`."),
        # A built-in that is missing is to be added, and never another one.
        (
            "tool refund passes HumanInTheLoopMiddleware",
            "Add HumanInTheLoopMiddleware(...) to `middleware`.",
        ),
        ("tool refund passes ToolEventMiddleware", "Add ToolEventMiddleware to `middleware`."),
        ("tool refund passes ToolErorMiddleware", "Did you mean ToolErrorMiddleware?"),
        ("model passes PIIMiddleware", "Did you mean PIIMiddleware[email]?"),
    ],
)
def test_a_missing_or_misspelt_member_names_the_closest(sentence: str, hint: str) -> None:
    built_in = layer("ToolErrorMiddleware", "tool"), layer("PIIMiddleware[email]", "model")
    counterexample = no(plan(*REVIEW, *built_in), sentence)
    assert counterexample.reason == f"{sentence.split()[-1]} is not in the stack."
    assert counterexample.hint == hint


def test_the_error_of_a_build_ends_each_sentence_with_a_full_stop() -> None:
    (counterexample,) = counterexamples(plan(), ["tool refund passes HumanInTheLoopMiddleware"])
    error = GuaranteeError(counterexample)
    assert error.reason.endswith("Path: __start__ -> model -> tools.")
    assert "tools. Add HumanInTheLoopMiddleware(...)" in str(error)


# Agents of create_react_agent


def test_agents_of_create_react_agent_have_verdicts() -> None:
    def pass_on(state: Any) -> Any:
        return {}

    agent = create_react_agent(ScriptedChatModel([]), [refund], pre_model_hook=pass_on)
    checked = topology_of(agent)
    assert holds(checked, "model passes pre_model_hook")
    assert holds(checked, "no path from tools to end skips model")
    assert holds(checked, "no path from start to tools skips agent")
    loop = nodes(no(checked, "every loop passes a limit"))
    assert loop == "pre_model_hook agent tools pre_model_hook"
    assert no(checked, "tool refund passes a person").path
    options: Any = {"pre_model_hook": pass_on, "response_format": Answer}
    checked = topology_of(create_react_agent(ScriptedChatModel([]), [], **options))
    assert holds(checked, "at most 2 model calls")
    for sentence in ("at most 1 model calls", "model passes pre_model_hook"):
        assert no(checked, sentence)


# At each build


def test_a_build_does_not_search_for_calls_of_an_output_tool() -> None:
    """Such a call is the structured answer, which nothing can bypass."""
    others = guard("Review", "*", place="after_model", exclude=("refund",))
    answer = Tool("Answer", ToolKind.OUTPUT)
    stack = (SHORTCUT, hook("Review", "after_model"), others)
    assert not list(default_findings(plan(*stack, tools=["refund", answer])))
    (finding,) = default_findings(plan(*stack, tools=["refund", "search", answer]))
    assert finding.reason.startswith("decides about calls of search in a hook")


def test_a_member_that_changes_calls_later_is_no_bypass() -> None:
    """A build warns of the order of the stack there, and names no jump."""
    stack = plan(hook("Last", "after_model", "tools"), *EDIT, *REVIEW)
    assert not no(stack, "tool refund passes Review").opened_by
    assert not list(default_findings(stack))


def test_only_a_jump_to_the_tools_bypasses_a_guard_in_a_hook() -> None:
    """A build searches for no other jumps."""
    outer, inner = (
        [hook(name, phase, jump) for phase in Phase for jump in JUMPS] for name in ("A", "B")
    )
    bypasses = 0
    for first, second, place in product(outer, inner, range(3)):
        stack: list[Any] = [first, second]
        stack[place:place] = REVIEW
        noes = counterexamples(plan(*stack), ["tool refund passes Review"])
        jumps = first.can_jump_to | second.can_jump_to
        assert "tools" in jumps or not any(no.opened_by for no in noes), stack
        bypasses += any(no.opened_by for no in noes)
    assert bypasses > 100


# Cost


def test_ten_sentences_about_a_large_plan_take_few_calls() -> None:
    """Function calls are the same each time. To read the plan for each takes ten times more."""
    parts: list[Any] = [
        hook(f"M{i}", phase, *(JUMPS if (i + j) % 2 else ()))
        for i in range(32)
        for j, phase in enumerate(Phase)
    ]
    parts += [layer(f"M{i}", call) for i in range(0, 32, 3) for call in ("model", "tool")]
    parts += [guard(f"M{i}", f"tool{i}", "ask") for i in range(0, 20, 3)]
    parts += [limit("M3", 5), limit("M6", 5, "tool calls"), writes("M9")]
    checked = plan(*parts, tools=[f"tool{i}" for i in range(20)])
    sentences = [
        "tool tool1 passes M1",
        "tool * passes a guard",
        "model passes M4",
        "every loop passes M7",
        "every loop passes a limit",
        "no path from start to end skips M9",
        "M9 sees tool_calls last",
        "tool tool1 only after tool tool2",
        "at most 3 model calls",
        "tool tool4 passes M4 unless M5",
    ]
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        noes = counterexamples(checked, sentences)
    finally:
        sys.setprofile(before)
    assert len(noes) == 7
    assert calls < 8_000


# What members do decides, and not how they are named


def policy(*rules: m.Rule, **options: Any) -> TopologyData:
    """The plan of a desk with the review of a policy."""
    review = m.HumanInTheLoopMiddleware(m.ToolPolicy(*rules, **options))
    return plan_agent(tools=[refund], middleware=[review], ignore=["AF211", "AF213", "AF222"])


class Named(AgentMiddleware):
    """A member that is named as the words of sentences are."""

    name = "a person"

    def around_tool(self, request: Any) -> Any:
        return (yield request)


@each(
    "middleware",
    [
        m.HumanInTheLoopMiddleware({"refund": False}),
        m.HumanInTheLoopMiddleware({}),
        m.HumanInTheLoopMiddleware(m.ToolPolicy(m.Rule("*", "allow"))),
        m.HumanInTheLoopMiddleware(m.ToolPolicy(m.Rule("*", "allow"), m.Rule("refund", "ask"))),
        m.HumanInTheLoopMiddleware({"search": True}),
        m.FlowGuardMiddleware(m.ToolPolicy(m.Rule("*", "allow"))),
        Named(),
    ],
    ids=str,
)
def test_a_member_that_decides_about_nothing_is_not_passed(middleware: Any) -> None:
    """Neither by what it does, nor by its name."""
    warnings = [code for code in BUILD_CODES if code.startswith("AF2")]
    checked = plan_agent(tools=[refund], middleware=[middleware], ignore=warnings)
    assert not holds(checked, "tool refund passes a person")
    if middleware.name != "a person":
        reason = no(checked, f"tool refund passes {middleware.name}").reason
        assert reason == f"{middleware.name} does not decide about 'refund'."


def test_a_judge_is_no_person() -> None:
    judge = ScriptedChatModel([])
    harmless = m.Rule("refund", "judge", when={"euros": {"<=": 50}})
    checked = policy(harmless, m.Rule("refund", "ask"), judge=judge)
    counterexample = no(checked, "tool refund passes a person")
    assert counterexample.arguments == {"euros": 49}
    assert holds(checked, "tool refund passes a guard")
    # "60" is a call for the judge, and the tool may make a number of it.
    sentence = "tool refund passes a person when euros > 50"
    assert "Put its rule before the rule of the judge" in no(checked, sentence).hint
    large = m.Rule("refund", "ask", when={"euros": {">": 50}})
    assert holds(policy(large, m.Rule("refund", "judge"), judge=judge), sentence)
    for rules in ([m.Rule("*", "judge"), m.Rule("refund", "ask")], [m.Rule("refund", "judge")]):
        assert no(policy(*rules, judge=judge), "tool refund passes a person")


def test_a_tool_that_is_denied_passes_everything_and_is_never_called() -> None:
    checked = policy(m.Rule("refund", "deny"), m.Rule("*", "allow"))
    assert holds(checked, "tool refund passes a person and at most 0 calls of refund")
    some = policy(m.Rule("refund", "deny", when={"euros": {">": 50}}), m.Rule("refund", "ask"))
    assert holds(some, "tool refund passes a person")
    assert no(some, "at most 0 calls of refund")


NONE = limit("L", 0, "tool calls", tool="refund")
REWRITE = (layer("Rewrite", "tool"), writes("Rewrite"))
DENIES = (*REWRITE, guard("Rewrite", "refund", "deny", when="euros < 5", decides_again=True))
EDIT = (hook("Edit", "after_model"), writes("Edit"))
CHECK, SEEN = hook("Check", "after_model"), "Check sees answers last"
EARLY, LATE = hook("Edit", "before_model", "tools"), hook("Late", "after_model", "tools")


@each(
    "checked, path",
    [
        # A layer further in turns another call into this one.
        (plan(layer("R", "tool"), guard("R", "refund", "ask"), *REWRITE), "model tools"),
        # So does a hook that runs after that of the review, and a hook that jumps.
        (plan(*EDIT, *REVIEW), "model Review.after_model Edit.after_model tools"),
        (plan(LATE, *REVIEW), "model Review.after_model Late.after_model tools"),
        # A call may come with the input, or be left by an earlier run.
        (plan(hook("Fast", "before_agent", "tools"), *REVIEW), "Fast.before_agent tools"),
        (plan(EARLY, writes("Edit"), *REVIEW), "Edit.before_model tools"),
    ],
)
def test_a_call_that_changes_after_its_guard_has_not_passed_it(
    checked: TopologyData, path: str
) -> None:
    (review,) = {guard.owner for guard in checked.guards}
    for member in ("a person", "a guard", review):
        assert nodes(no(checked, f"tool refund passes {member}")) == path
    assert nodes(no(checked, f"{review} sees tool_calls last")) == path


def test_a_guard_that_decides_again_is_passed_by_changed_calls() -> None:
    again = guard("R", "refund", "ask", decides_again=True)
    assert holds(plan(layer("R", "tool"), again, *REWRITE), "tool refund passes a person")
    stack: list[Any] = [m.HumanInTheLoopMiddleware({"refund": True}), Rewrites()]
    built_in = plan_agent(tools=[refund], middleware=stack, ignore=["AF206", "AF211"])
    assert holds(built_in, "tool refund passes a person")
    outside = [layer("R", "tool"), guard("R", "refund", "ask")]
    assert holds(plan(*REWRITE, *outside), "tool refund passes a person")


@each(
    "checked, sentence",
    [
        # A writer makes calls that the limit, or the guard of the order, has not seen.
        (plan(layer("L", "tool"), NONE, *REWRITE), "at most 0 calls of refund"),
        (plan(*ORDER, *REWRITE), "tool refund only after tool search"),
        # An edit of a review is a decision of the review alone, also of a review that denies some.
        (plan(layer("J", "tool"), guard("J", "refund", "judge"), *DENIES), "tool refund passes J"),
        # What is seen before a hook at the end, or a layer around the run, is not the last answer.
        (plan(CHECK, hook("End", "after_agent"), writes("End", "answers")), SEEN),
        (plan(CHECK, layer("Run", "agent"), writes("Run", "answers")), SEEN),
        (plan(CHECK, hook("Stop", "before_model", "end")), SEEN),
        # A layer around the run may answer without it.
        (plan(layer("Run", "agent")), "no path from start to end skips model"),
        # A thread has many runs.
        (plan(tools=[]), "at most 1 model calls a thread"),
        (
            plan(hook("L", "after_model", "end"), limit("L", 1, scope="thread")),
            "at most 1 model calls a thread",
        ),
        # A layer asks more than once, or a call costs nothing.
        (plan(Layer("Retry", Call.MODEL, "around_model", 3), tools=[]), "at most 1 model calls"),
        (plan(hook("B", "before_model", "end"), limit("B", 1, "USD")), "every loop passes a limit"),
    ],
)
def test_a_sentence_that_a_run_may_break_does_not_hold(
    checked: TopologyData, sentence: str
) -> None:
    assert no(checked, sentence)


def test_agents_inside_spend_the_limits_around_them() -> None:
    limits: list[Any] = [m.ModelCallLimitMiddleware(run_limit=2)]
    limits.append(m.ToolCallLimitMiddleware(run_limit=1))
    desk = plan_agent(tools=[clerk()], middleware=limits)
    for sentence in ("at most 2 model calls", "at most 1 tool calls"):
        assert "The agent inside of 'clerk'" in no(desk, sentence).reason
    inside = clerk(m.ModelCallLimitMiddleware(run_limit=3), m.ToolCallLimitMiddleware(run_limit=4))
    desk = plan_agent(tools=[inside], middleware=limits)
    assert holds(
        desk, "at most 5 model calls and at most 5 tool calls and at most 4 calls of refund"
    )
    assert not holds(desk, "at most 4 model calls")
    assert desk.bounds().of("model calls", "all").most == 5


def test_a_name_with_a_slash_before_it_is_a_tool_of_the_agent_itself() -> None:
    review = m.HumanInTheLoopMiddleware({"refund": True})
    desk = plan_agent(tools=[refund, clerk()], middleware=[review], ignore=["AF211"])
    assert no(desk, "tool refund passes a person").tool == "clerk/refund"
    assert holds(desk, "tool /refund passes a person")


def test_a_provider_runs_its_tools_also_for_an_agent_inside() -> None:
    agent = create_agent(ScriptedChatModel([]), [{"type": "web_search"}, refund], name="clerk")
    desk = plan_agent(tools=[agent_tool(agent, description="Refunds.")])
    assert no(desk, "tool clerk/web_search passes a person").reason.startswith("The provider")
