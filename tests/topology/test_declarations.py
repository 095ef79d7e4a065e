"""What middleware guard and limit: in the plan, in its files and its diff, and kept by a law."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_factory import (
    AgentMiddleware,
    Ordering,
    ToolGuard,
    UsageLimit,
    agent_tool,
    background,
    create_agent,
    hook_config,
    load_topology,
    plan_agent,
    tool_labels,
)
from agent_factory import middleware as m
from agent_factory.testing import LawViolation, ScriptedChatModel, check_middleware
from samples import Rewrites, find, refund
from tables import each


def delete(path: str) -> str:
    """Delete."""
    return f"Deleted {path}."


def clerk(*stack: Any, tools: Any = (refund,)) -> Any:
    codes = ["AF210", "AF211"]
    agent = create_agent(ScriptedChatModel([]), tools, middleware=stack, name="clerk", ignore=codes)
    return agent_tool(agent, description="Pays.")


def declared(*stack: Any, tools: Any = (refund, delete)) -> list[str]:
    plan = plan_agent(tools=tools, middleware=stack, ignore=["AF210"]).render()
    kinds = ("guard: ", "limit: ", "access: ")
    return [line for line in plan.splitlines() if line.startswith(kinds)]


def deny_late(request: Any) -> bool:
    return bool(request.tool_call["args"].get("late"))


POLICY = m.ToolPolicy(
    m.Rule("search*", "allow"),
    m.Rule("refund", "allow", when={"euros": {"<=": 50}}),
    m.Rule("refund", "judge"),
    m.Rule("delete", "deny", when=deny_late),
    m.Rule("*", "ask"),
    judge=ScriptedChatModel([]),
)


REFUNDS = m.HumanInTheLoopMiddleware({"refund": True})


# What built-ins declare


def test_a_review_declares_its_rules() -> None:
    guards = declared(m.HumanInTheLoopMiddleware(POLICY))
    assert [line for line in guards if line.startswith("guard")] == [
        "guard: HumanInTheLoopMiddleware: a model decides about refund when not (euros <= 50)",
        "guard: HumanInTheLoopMiddleware: no call runs of delete when deny_late()",
        "guard: HumanInTheLoopMiddleware: a person decides about * without search*, refund",
    ]


def test_a_review_that_chooses_calls_in_its_hook_is_at_that_place() -> None:
    class Own(m.HumanInTheLoopMiddleware):
        def after_model(self, state: Any, runtime: Any) -> Any:
            return super().after_model(state, runtime)

    (guard,) = plan_agent(tools=[refund], middleware=[Own({"refund": True})]).guards
    assert guard.place == "after_model"


def test_limits_are_declared_with_their_numbers() -> None:
    def limits(member: Any) -> list[str]:
        plan = plan_agent(tools=[refund], middleware=[member], ignore=["AF210"])
        assert {limit.owner for limit in plan.limits} == {member.name}
        return [str(limit) for limit in plan.limits]

    calls = m.ModelCallLimitMiddleware(run_limit=5, thread_limit=9)
    assert limits(calls) == ["at most 5 model calls a run", "at most 9 model calls a thread"]
    refunds = m.ToolCallLimitMiddleware(tool_name="refund", run_limit=1)
    assert limits(refunds) == ["at most 1 calls of refund a run"]
    ledger = m.Ledger(m.Limits(tool_calls=7))
    run, thread = m.Limits(turns=3, total_tokens=1000), m.Limits(seconds=1.5)
    assert limits(m.BudgetMiddleware(run=run, thread=thread, ledger=ledger)) == [
        *("at most 1000 tokens a run", "at most 3 model calls a run"),
        *("at most 1.5 seconds a thread", "at most 7 tool calls a ledger"),
    ]


def test_others_that_decide_about_calls_declare_it() -> None:
    auto = m.AutoModeMiddleware(classifier=ScriptedChatModel([]), tools=["refund"])
    once = m.OnceMiddleware({"refund": "ask"})
    assert declared(auto)[0] == "guard: AutoModeMiddleware: a model decides about refund"
    assert declared(once)[0] == (
        "guard: OnceMiddleware: code decides about refund when the same call has run, or may have"
    )


# Plans and their files


@each(
    "tool, stack, absent, digest",
    [
        (find, [], "guards limits accesses labels", "b44b63d6086c56bb"),
        (refund, [REFUNDS], "reviewers decisions remember otherwise", "d64647ca2d916032"),
    ],
)
def test_a_plan_without_declarations_or_with_a_guard_of_everybody_is_written_as_before(
    tool: Any, stack: Any, absent: str, digest: str
) -> None:
    plan = plan_agent(tools=[tool], middleware=stack)
    assert not any(f'"{key}"' in plan.to_json() for key in absent.split())
    assert plan.digest == digest


def test_declarations_survive_in_files() -> None:
    how: Any = {"reviewers": ["finance"], "allowed_decisions": ["approve", "reject"]}
    people = m.Rule("refund", "ask", remember=60.5, **how)
    judged = m.Rule("delete", "judge", otherwise="deny")
    stack: list[Any] = [
        m.HumanInTheLoopMiddleware(POLICY),
        m.HumanInTheLoopMiddleware(
            m.ToolPolicy(people, judged, judge=ScriptedChatModel([])), name="People"
        ),
        m.BudgetMiddleware(run=m.Limits(usd=0.5, turns=2)),
    ]
    tools = [refund, clerk(stack[0])]
    plan = plan_agent(tools=tools, middleware=stack, ignore=["AF206", "AF210", "AF213"])
    assert load_topology(plan.to_json()) == load_topology(plan.to_snapshot()) == plan


REVIEW = m.HumanInTheLoopMiddleware({"refund": True, "delete": True})
LIMIT = m.ModelCallLimitMiddleware(run_limit=5)


class Judge(AgentMiddleware):
    """Decides in its hook, so a jump may lead around it."""

    guards = (ToolGuard("refund", "check", place="after_model"),)
    ordering = Ordering(reads=("tool_calls",))

    def after_model(self, state: Any, runtime: Any) -> None: ...


class Rewriting(AgentMiddleware):
    ordering = Ordering(writes=("tool_calls",))

    def after_model(self, state: Any, runtime: Any) -> None: ...


PER_CALL = m.HumanInTheLoopMiddleware({"refund": True}, interrupt_mode="per_call")


def shortcut(*jumps: Any) -> AgentMiddleware:
    """A middleware that may jump before the model."""

    class Shortcut(AgentMiddleware):
        @hook_config(can_jump_to=jumps)
        def before_model(self, state: Any, runtime: Any) -> None: ...

    return Shortcut()


BACKGROUND = m.BackgroundMiddleware()


def policy_of(*rules: m.Rule) -> m.HumanInTheLoopMiddleware:
    policy = m.ToolPolicy(*rules, m.Rule("*", "allow"), judge=ScriptedChatModel([]))
    return m.HumanInTheLoopMiddleware(policy)


ASK_ALL = m.Rule("*", "ask")
OVER_50: Any = {"allowed_decisions": ["approve"], "when": {"euros": {">": 50}}}
BUDGET = m.BudgetMiddleware(run=m.Limits(turns=3))


def refund_copy() -> Any:
    def refund(euros: int) -> str:
        """Pay back."""
        return str(euros)

    return refund


def ruled(before: m.Rule, after: m.Rule, was: str, now: str) -> tuple[Any, Any, str]:
    """A change of the rule of a policy about refunds."""
    head = "changed guard of refund by HumanInTheLoopMiddleware"
    old, new = ({"middleware": [policy_of(rule)]} for rule in (before, after))
    return old, new, f"{head}: was {was}, now {now}"


SLIPS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "review dropped": (
        {"middleware": [REVIEW, LIMIT]},
        {"middleware": [LIMIT]},
        "removed guard of refund by HumanInTheLoopMiddleware: it was: a person decides about "
        "refund",
    ),
    "tool dropped from a review": (
        {"middleware": [REVIEW]},
        {"middleware": [m.HumanInTheLoopMiddleware({"refund": True})]},
        "removed guard of delete by HumanInTheLoopMiddleware: it was: a person decides about "
        "delete",
    ),
    "rule with a condition": (
        {"middleware": [REVIEW]},
        {"middleware": [m.HumanInTheLoopMiddleware({"refund": OVER_50, "delete": True})]},
        "changed guard of refund by HumanInTheLoopMiddleware: was a person decides about refund, "
        "now a person decides about refund when euros > 50 (approve)",
    ),
    "those who may decide": ruled(
        m.Rule("refund", "ask", reviewers=["finance", "@ann"]),
        m.Rule("refund", "ask"),
        "@ann or finance decides about refund",
        "a person decides about refund",
    ),
    "those who may decide after a model": ruled(
        m.Rule("refund", "judge", reviewers=["finance"]),
        m.Rule("refund", "judge"),
        "a model decides about refund (else finance)",
        "a model decides about refund",
    ),
    "denials left to people": ruled(
        m.Rule("refund", "judge", otherwise="deny"),
        m.Rule("refund", "judge"),
        "a model decides about refund (else it is denied)",
        "a model decides about refund",
    ),
    "kinds of decisions": ruled(
        m.Rule("refund", "ask", allowed_decisions=["approve", "reject"]),
        m.Rule("refund", "ask", allowed_decisions=["approve"]),
        "a person decides about refund (approve, reject)",
        "a person decides about refund (approve)",
    ),
    "standing approvals": ruled(
        m.Rule("refund", "ask"),
        m.Rule("refund", "ask", remember=3600),
        "a person decides about refund",
        "a person decides about refund (approvals hold up to 1 hour)",
    ),
    "work not in the background any more": (
        {"tools": [background(find, timeout=600), delete], "middleware": [BACKGROUND]},
        {"tools": [find, background(delete)], "middleware": [BACKGROUND]},
        "changed tool find: was in the background, at most 600 s, now plain",
    ),
    "more time in the background": (
        {"tools": [background(find, timeout=600)], "middleware": [BACKGROUND]},
        {"tools": [background(find, timeout=6000)], "middleware": [BACKGROUND]},
        "changed tool find: was in the background, at most 600 s, now in the background, at most "
        "6000 s",
    ),
    "work in the background that may run twice": (
        {"tools": [background(find)], "middleware": [BACKGROUND]},
        {"tools": [background(find, on_loss="repeat")], "middleware": [BACKGROUND]},
        "changed tool find: was in the background, at most 600 s, now in the background, at most "
        "600 s, repeated if lost",
    ),
    "work in the background of a subagent": (
        {"tools": [clerk(BACKGROUND, tools=[background(find, timeout=5)])]},
        {"tools": [clerk(BACKGROUND, tools=[background(find, timeout=50)])]},
        "changed tool clerk/find: was inner, in the background, at most 5 s, now inner, in the "
        "background, at most 50 s",
    ),
    "guard moved inside": (
        {"middleware": [Judge(), Rewriting()]},
        {"middleware": [Rewriting(), Judge()], "ignore": ["AF206"]},
        "moved node Judge.after_model: now after model and before Rewriting.after_model",
    ),
    "layer of a guard outside of one that changes calls": (
        {"middleware": [Rewrites(), PER_CALL]},
        {"middleware": [PER_CALL, Rewrites()], "ignore": ["AF206"]},
        "moved layer HumanInTheLoopMiddleware.around_tool: now around each tool call, before "
        "Rewrites.around_tool",
    ),
    "a jump added": (
        {"middleware": [shortcut(), Judge()]},
        {"middleware": [shortcut("tools"), Judge()], "ignore": ["AF129"]},
        "added edge Shortcut.before_model -> tools: jump: Shortcut",
    ),
    "a subagent given the tool": (
        {"tools": [delete, clerk(tools=[find])]},
        {"tools": [delete, clerk(tools=[find, refund])]},
        "added tool clerk/refund: inner",
    ),
    "review of a subagent dropped": (
        {"tools": [delete, clerk(m.HumanInTheLoopMiddleware({"refund": True}))]},
        {"tools": [delete, clerk()]},
        "removed guard of clerk/refund by clerk/HumanInTheLoopMiddleware: it was: a person decides "
        "about clerk/refund",
    ),
    "allowed by default": (
        {"middleware": [m.HumanInTheLoopMiddleware(m.ToolPolicy(m.Rule("*", "deny")))]},
        {"middleware": [m.HumanInTheLoopMiddleware(m.ToolPolicy(m.Rule("*", "allow")))]},
        "removed guard of * by HumanInTheLoopMiddleware: it was: no call runs of *",
    ),
    "more is allowed": (
        {
            "middleware": [
                m.HumanInTheLoopMiddleware(m.ToolPolicy(m.Rule("ref*", "allow"), ASK_ALL))
            ]
        },
        {
            "middleware": [
                m.HumanInTheLoopMiddleware(m.ToolPolicy(m.Rule("[!d]*", "allow"), ASK_ALL))
            ]
        },
        "changed guard of * by HumanInTheLoopMiddleware: was a person decides about * without "
        "ref*, now a person decides about * without [!d]*",
    ),
    "asks instead of a denial": ruled(
        m.Rule("refund", "deny"),
        m.Rule("refund", "ask"),
        "no call runs of refund",
        "a person decides about refund",
    ),
    "retries outside of a limit": (
        {"middleware": [BUDGET]},
        {"middleware": [m.ModelRetryMiddleware(max_retries=9), BUDGET]},
        "added layer ModelRetryMiddleware.around_model: around each model call, before "
        "BudgetMiddleware.around_model",
    ),
    "cleaning removed": (
        {"middleware": [m.PIIMiddleware("email"), LIMIT]},
        {"middleware": [LIMIT]},
        "removed access PIIMiddleware[email] sanitizes: it was: user_messages",
    ),
    "label removed": (
        {"tools": [tool_labels("outside")(refund_copy())]},
        {"tools": [refund_copy()]},
        "changed tool refund: was outside, now plain",
    ),
}


@each("slip", SLIPS)
def test_a_slip_is_red_in_the_default_snapshot_with_a_line_that_names_it(slip: str) -> None:
    before, after, line = SLIPS[slip]
    old, new = (
        plan_agent(**{"tools": [refund, delete], "ignore": ["AF212"], **each})
        for each in (before, after)
    )
    assert old.to_snapshot() != new.to_snapshot()
    assert old != new
    # Stored threads depend neither on settings, such as how a limit ends a run, nor on the order of
    # layers.
    assert (old.digest == new.digest) == ("setting" in line or "moved layer" in line)
    assert line in str(old.diff(new)).splitlines()


PATTERNS = ("*", "ref*", "[!d]*", "[rd]e*", "?efund", "??*", "refund", "delete", "find")
DRAWN_RULES = st.lists(
    st.tuples(st.sampled_from(PATTERNS), st.sampled_from(["allow", "ask", "deny"]), st.booleans()),
    min_size=1,
    max_size=4,
)


def actions_for(rules: list[m.Rule], tool: str) -> set[str]:
    """What may happen to calls of a tool, whatever the conditions of the rules are."""
    actions: set[str] = set()
    for rule in rules:
        if fnmatchcase(tool, rule.tool):
            actions.add(rule.action)
            if rule.when is None:
                return actions
    return {*actions, "ask"}


@pytest.mark.law
@given(DRAWN_RULES)
def test_guards_of_a_policy_cover_a_tool_if_and_only_if_it_stops_calls_of_it(
    drawn: list[Any],
) -> None:
    """A guard of all calls is one of all of them."""
    rules = [
        m.Rule(pattern, action, when={f"x{number}": 1} if has_condition else None)
        for number, (pattern, action, has_condition) in enumerate(drawn)
    ]
    guards = m.HumanInTheLoopMiddleware(m.ToolPolicy(*rules)).guards
    for tool in ("refund", "delete", "find"):
        actions = actions_for(rules, tool)
        covering = [guard for guard in guards if guard.covers(tool)]
        texts = tool, [str(guard) for guard in guards]
        assert bool(covering) == (actions != {"allow"}), texts
        assert "allow" not in actions or all(guard.when for guard in covering), texts


def refactorings() -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """Arguments before and after a change that changes nothing."""

    class Renamed(m.HumanInTheLoopMiddleware):
        """A subclass under the name of its base."""

    def other_refund(euros: int) -> str:
        """Refund, in other words."""
        return f"{euros} euros are on their way."

    other_refund.__name__ = "refund"
    review: dict[str, Any] = {"refund": True, "delete": True}
    rules = m.ToolPolicy(m.Rule("refund", "ask"), m.Rule("delete", "ask"), m.Rule("*", "allow"))
    every: Any = {"allowed_decisions": ["approve", "edit", "reject", "respond"]}
    changes: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "class": ({"middleware": [REVIEW]}, {"middleware": [Renamed(review, name=REVIEW.name)]}),
        "words": ({"tools": [refund]}, {"tools": [other_refund]}),
        "order of those who may decide": (
            {"middleware": [policy_of(m.Rule("refund", "ask", reviewers=["boss", "@ann"]))]},
            {"middleware": [policy_of(m.Rule("refund", "ask", reviewers={"@ann", "boss"}))]},
        ),
        "those who may decide about a call that nobody is asked about": (
            {"middleware": [policy_of(m.Rule("refund", "deny"))]},
            {"middleware": [policy_of(m.Rule("refund", "deny", reviewers=["boss"]))]},
        ),
        "all decisions": (
            {"middleware": [REVIEW]},
            {"middleware": [m.HumanInTheLoopMiddleware(dict.fromkeys(review, every))]},
        ),
        "policy": ({"middleware": [REVIEW]}, {"middleware": [m.HumanInTheLoopMiddleware(rules)]}),
        "a tool that is not reviewed": (
            {"middleware": [REVIEW]},
            {"middleware": [m.HumanInTheLoopMiddleware({**review, "find": False})]},
        ),
        "description": (
            {"middleware": [REVIEW]},
            {"middleware": [m.HumanInTheLoopMiddleware(review, description_prefix="Look!")]},
        ),
        "remark": (
            {"middleware": [m.ProgressGuardMiddleware()]},
            {"middleware": [m.ProgressGuardMiddleware(remark_after=1)]},
        ),
        "prompt": (
            {"middleware": [m.TodoListMiddleware()]},
            {"middleware": [m.TodoListMiddleware(system_prompt="Write a list.")]},
        ),
    }
    stacks: dict[str, Callable[[], list[Any]]] = {
        "nothing": list,
        "review": lambda: [m.HumanInTheLoopMiddleware(review)],
        "limit": lambda: [m.ModelCallLimitMiddleware(run_limit=5)],
        "budget": lambda: [m.BudgetMiddleware(run=m.Limits(turns=3))],
        "calls": lambda: [m.ToolCallLimitMiddleware(run_limit=3)],
        "pii": lambda: [m.PIIMiddleware("email")],
        "judge": lambda: [Judge()],
        "todo": lambda: [m.TodoListMiddleware()],
        "once": lambda: [m.OnceMiddleware({"refund": "ask"})],
    }
    words: dict[str, Any] = {"system_prompt": "Be kind.", "name": "desk"}
    others = {**words, "checkpoints": "full", "fused": False, "tools": (refund, delete)}
    for name, make in stacks.items():
        changes[name] = ({"middleware": make()}, {"middleware": make(), **others})
    return changes


REFACTORINGS = refactorings()


@each("change", REFACTORINGS)
def test_a_refactoring_that_changes_nothing_is_green(change: str) -> None:
    both = REFACTORINGS[change]
    old, new = (plan_agent(**{"tools": [refund, delete], **each}) for each in both)
    assert old.to_snapshot() == new.to_snapshot()
    assert old == new
    assert old.digest == new.digest
    assert not old.diff(new)


def test_guards_and_limits_of_an_agent_inside_have_the_name_of_its_tool() -> None:
    plan = plan_agent(tools=[clerk(m.HumanInTheLoopMiddleware(POLICY), LIMIT), delete])
    assert [tool.name for tool in plan.tools] == ["clerk", "delete", "clerk/refund"]
    assert str(plan.guards[2]).startswith("a person decides about clerk/* without clerk/search*")
    assert [limit.owner for limit in plan.limits] == ["clerk/ModelCallLimitMiddleware"]


@each(
    "make, words",
    [
        (lambda: ToolGuard("", "ask"), "ToolGuard.tool must be the name of a tool"),
        (lambda: ToolGuard("a", "shout"), "must be one of 'ask', 'judge', 'check', 'deny'"),  # type: ignore[arg-type]
        (lambda: ToolGuard("a", "ask", place="model"), "ToolGuard.place must be one of"),  # type: ignore[arg-type]
        (lambda: UsageLimit(-1, "tokens"), "must be a number of at least 0, got -1"),
        (lambda: UsageLimit(float("nan"), "tokens"), "must be a number of at least 0, got nan"),
        (lambda: UsageLimit(1, "cups"), "UsageLimit.unit must be one of"),  # type: ignore[arg-type]
        (lambda: UsageLimit(1, "USD", "week"), "UsageLimit.scope must be one of"),  # type: ignore[arg-type]
    ],
)
def test_a_declaration_that_means_nothing_is_refused(make: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()


class Careless(AgentMiddleware):
    """Says that a person decides, and asks nobody."""

    guards = (ToolGuard("look_up", "ask"),)

    def around_tool(self, request: Any) -> Any:
        return (yield request)


class Boundless(AgentMiddleware):
    """Says that it limits calls, and counts none."""

    limits = (UsageLimit(2, "model calls"),)

    def before_model(self, state: Any, runtime: Any) -> None: ...


class Secretive(AgentMiddleware):
    """Changes calls, and does not say so."""

    def after_model(self, state: Any, runtime: Any) -> Any:
        message = state["messages"][-1]
        calls = [{**call, "args": {}} for call in getattr(message, "tool_calls", ())]
        return {"messages": [message.model_copy(update={"tool_calls": calls})]} if calls else None


# The law


@each(
    "make, words",
    [
        (Careless, "a person decides about look_up, and a call ran"),
        (Boundless, "at most 2 model calls a run, and there were 5"),
        (Secretive, "it changed tool calls; declare"),
    ],
)
def test_what_is_not_kept_is_a_violation(make: Any, words: str) -> None:
    with pytest.raises(LawViolation, match=words):
        check_middleware(make, laws=["does_what_it_declares"])


@each(
    "make",
    [
        lambda: m.HumanInTheLoopMiddleware({"look_up": True}),
        lambda: m.HumanInTheLoopMiddleware({"look_up": True}, interrupt_mode="per_call"),
        lambda: m.HumanInTheLoopMiddleware(m.ToolPolicy(m.Rule("*", "deny"))),
        lambda: m.ModelCallLimitMiddleware(run_limit=3),
        lambda: m.ModelCallLimitMiddleware(run_limit=3, exit_behavior="error"),
        lambda: m.ToolCallLimitMiddleware(run_limit=2),
        lambda: m.ToolCallLimitMiddleware(tool_name="look_up", run_limit=0),
        lambda: m.BudgetMiddleware(run=m.Limits(turns=2, tool_calls=1)),
        lambda: m.OnceMiddleware({"look_up": "ask"}),
        lambda: m.PIIMiddleware("email", apply_to_output=True),
    ],
)
def test_built_ins_keep_it(make: Any) -> None:
    check_middleware(make, laws=["does_what_it_declares"], max_examples=5)
