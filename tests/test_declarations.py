"""What middleware guard and limit: in the plan, in its files and its diff, and kept by a law."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agent_factory import (
    AgentMiddleware,
    Ordering,
    ToolGuard,
    Topology,
    UsageLimit,
    agent_tool,
    create_agent,
    hook_config,
    load_topology,
    plan_agent,
)
from agent_factory.middleware import (
    AutoModeMiddleware,
    BudgetMiddleware,
    HumanInTheLoopMiddleware,
    Ledger,
    Limits,
    ModelCallLimitMiddleware,
    OnceMiddleware,
    PIIMiddleware,
    Rule,
    TodoListMiddleware,
    ToolCallLimitMiddleware,
    ToolPolicy,
)
from agent_factory.testing import LawViolation, ScriptedChatModel, check_middleware
from samples import find, refund


def delete(path: str) -> str:
    """Delete."""
    return f"Deleted {path}."


def clerk(*stack: Any, tools: Any = (refund,)) -> Any:
    ignore = ["AF210", "AF211"]
    agent = create_agent(
        ScriptedChatModel([]), tools, middleware=stack, name="clerk", ignore=ignore
    )
    return agent_tool(agent, description="Pays.")


def lines(plan: Topology) -> list[str]:
    kinds = ("guard: ", "limit: ", "access: ")
    return [line for line in plan.render().splitlines() if line.startswith(kinds)]


def declared(*stack: Any, tools: Any = (refund, delete)) -> list[str]:
    return lines(plan_agent(tools=tools, middleware=stack, ignore=["AF210"]))


def deny_late(request: Any) -> bool:
    return bool(request.tool_call["args"].get("late"))


POLICY = ToolPolicy(
    Rule("search*", "allow"),
    Rule("refund", "allow", when={"euros": {"<=": 50}}),
    Rule("refund", "judge"),
    Rule("delete", "deny", when=deny_late),
    Rule("*", "ask"),
    judge=ScriptedChatModel([]),
)


class TestBuiltIns:
    def test_a_review_declares_its_rules(self) -> None:
        guards = declared(HumanInTheLoopMiddleware(POLICY))
        assert [line for line in guards if line.startswith("guard")] == [
            "guard: HumanInTheLoopMiddleware: a model decides about refund when not (euros <= 50)",
            "guard: HumanInTheLoopMiddleware: no call runs of delete when deny_late()",
            "guard: HumanInTheLoopMiddleware: a person decides about * without search*, refund",
        ]

    def test_a_review_that_chooses_calls_in_its_hook_is_at_that_place(self) -> None:
        class Own(HumanInTheLoopMiddleware):
            def after_model(self, state: Any, runtime: Any) -> Any:
                return super().after_model(state, runtime)

        (guard,) = plan_agent(tools=[refund], middleware=[Own({"refund": True})]).guards
        assert guard.place == "after_model"

    @pytest.mark.parametrize(
        ("member", "expected"),
        [
            (
                ModelCallLimitMiddleware(run_limit=5, thread_limit=9),
                ["at most 5 model calls a run", "at most 9 model calls a thread"],
            ),
            (
                ToolCallLimitMiddleware(tool_name="refund", run_limit=1),
                ["at most 1 calls of refund a run"],
            ),
            (
                BudgetMiddleware(
                    run=Limits(turns=3, total_tokens=1000),
                    thread=Limits(seconds=1.5),
                    ledger=Ledger(Limits(tool_calls=7)),
                ),
                [
                    "at most 1000 tokens a run",
                    "at most 3 model calls a run",
                    "at most 1.5 seconds a thread",
                    "at most 7 tool calls a ledger",
                ],
            ),
        ],
        ids=["model calls", "tool calls", "budget"],
    )
    def test_limits_are_declared_with_their_numbers(self, member: Any, expected: list[str]) -> None:
        plan = plan_agent(tools=[refund], middleware=[member], ignore=["AF210"])
        assert [str(limit) for limit in plan.limits] == expected
        assert {limit.owner for limit in plan.limits} == {member.name}

    def test_others_that_decide_about_calls_declare_it(self) -> None:
        auto = AutoModeMiddleware(classifier=ScriptedChatModel([]), tools=["refund"])
        once = OnceMiddleware({"refund": "ask"})
        assert declared(auto)[0] == "guard: AutoModeMiddleware: a model decides about refund"
        assert declared(once)[0] == (
            "guard: OnceMiddleware: code decides about refund when the same call has run, or may "
            "have"
        )

    def test_what_ordering_says_about_messages_is_in_the_plan(self) -> None:
        assert declared(PIIMiddleware("email", apply_to_output=True)) == [
            "access: PIIMiddleware[email] sanitizes answers, user_messages"
        ]


class TestFiles:
    def test_a_plan_without_declarations_is_written_as_before(self) -> None:
        text = plan_agent(tools=[find]).to_json()
        assert not any(f'"{key}"' in text for key in ("guards", "limits", "accesses", "labels"))

    def test_declarations_survive_in_files(self) -> None:
        stack: list[Any] = [
            HumanInTheLoopMiddleware(POLICY),
            BudgetMiddleware(run=Limits(usd=0.5, turns=2)),
        ]
        plan = plan_agent(tools=[refund, clerk(stack[0])], middleware=stack, ignore=["AF210"])
        assert load_topology(plan.to_json()) == load_topology(plan.to_snapshot()) == plan

    def test_an_agent_without_declarations_has_the_digest_it_had(self) -> None:
        assert plan_agent(tools=[find]).digest == "b44b63d6086c56bb"


REVIEW = HumanInTheLoopMiddleware({"refund": True, "delete": True})
LIMIT = ModelCallLimitMiddleware(run_limit=5)


class Judge(AgentMiddleware):
    """Decides in its hook, so a jump may lead around it."""

    guards = (ToolGuard("refund", "check", place="after_model"),)
    ordering = Ordering(reads=("tool_calls",))

    def after_model(self, state: Any, runtime: Any) -> None: ...


class Rewriting(AgentMiddleware):
    ordering = Ordering(writes=("tool_calls",))

    def after_model(self, state: Any, runtime: Any) -> None: ...


def shortcut(*jumps: Any) -> AgentMiddleware:
    """A middleware that may jump before the model."""

    class Shortcut(AgentMiddleware):
        @hook_config(can_jump_to=jumps)
        def before_model(self, state: Any, runtime: Any) -> None: ...

    return Shortcut()


SLIPS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "review dropped": (
        {"middleware": [REVIEW, LIMIT]},
        {"middleware": [LIMIT]},
        "removed guard of refund by HumanInTheLoopMiddleware: it was: a person decides about "
        "refund",
    ),
    "tool dropped from a review": (
        {"middleware": [REVIEW]},
        {"middleware": [HumanInTheLoopMiddleware({"refund": True})]},
        "removed guard of delete by HumanInTheLoopMiddleware: it was: a person decides about "
        "delete",
    ),
    "rule with a condition": (
        {"middleware": [REVIEW]},
        {
            "middleware": [
                HumanInTheLoopMiddleware(
                    {
                        "refund": {
                            "allowed_decisions": ["approve"],
                            "when": {"euros": {">": 50}},
                        },
                        "delete": True,
                    }
                )
            ]
        },
        "changed guard of refund by HumanInTheLoopMiddleware: was a person decides about refund, "
        "now a person decides about refund when euros > 50",
    ),
    "limit raised": (
        {"middleware": [LIMIT]},
        {"middleware": [ModelCallLimitMiddleware(run_limit=500)]},
        "changed limit of model calls a run by ModelCallLimitMiddleware: was at most 5 model calls "
        "a run, now at most 500 model calls a run",
    ),
    "guard moved inside": (
        {"middleware": [Judge(), Rewriting()]},
        {"middleware": [Rewriting(), Judge()], "ignore": ["AF206"]},
        "moved node Judge.after_model: now after model and before Rewriting.after_model",
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
        {"tools": [delete, clerk(HumanInTheLoopMiddleware({"refund": True}))]},
        {"tools": [delete, clerk()]},
        "removed guard of clerk/refund by clerk/HumanInTheLoopMiddleware: it was: a person decides "
        "about clerk/refund",
    ),
    "cleaning dropped": (
        {"middleware": [PIIMiddleware("email", apply_to_output=True)]},
        {"middleware": [PIIMiddleware("email")]},
        "changed access PIIMiddleware[email] sanitizes: was answers, user_messages, now "
        "user_messages",
    ),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_red_in_the_default_snapshot_with_a_line_that_names_it(slip: str) -> None:
    before, after, line = SLIPS[slip]
    old, new = (plan_agent(**{"tools": [refund, delete], **each}) for each in (before, after))
    assert old.to_snapshot() != new.to_snapshot()
    assert old != new
    assert old.digest != new.digest or "access" in line
    assert line in str(old.diff(new)).splitlines()


def refactorings() -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """Arguments before and after a change that changes nothing."""

    class Renamed(HumanInTheLoopMiddleware):
        """A subclass under the name of its base."""

    def other_refund(euros: int) -> str:
        """Refund, in other words."""
        return f"{euros} euros are on their way."

    other_refund.__name__ = "refund"
    review: dict[str, Any] = {"refund": True, "delete": True}
    every: Any = {"allowed_decisions": ["approve", "edit", "reject", "respond"]}
    changes: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "class": ({"middleware": [REVIEW]}, {"middleware": [Renamed(review, name=REVIEW.name)]}),
        "words": ({"tools": [refund]}, {"tools": [other_refund]}),
        "all decisions": (
            {"middleware": [REVIEW]},
            {"middleware": [HumanInTheLoopMiddleware(dict.fromkeys(review, every))]},
        ),
        "policy": (
            {"middleware": [REVIEW]},
            {
                "middleware": [
                    HumanInTheLoopMiddleware(
                        ToolPolicy(Rule("refund", "ask"), Rule("delete", "ask"), Rule("*", "allow"))
                    )
                ]
            },
        ),
        "a tool that is not reviewed": (
            {"middleware": [REVIEW]},
            {"middleware": [HumanInTheLoopMiddleware({**review, "find": False})]},
        ),
        "description": (
            {"middleware": [REVIEW]},
            {"middleware": [HumanInTheLoopMiddleware(review, description_prefix="Look!")]},
        ),
        "exit": (
            {"middleware": [LIMIT]},
            {"middleware": [ModelCallLimitMiddleware(run_limit=5, exit_behavior="error")]},
        ),
        "instance": (
            {"middleware": [LIMIT]},
            {"middleware": [ModelCallLimitMiddleware(run_limit=5)]},
        ),
        "prompt": (
            {"middleware": [TodoListMiddleware()]},
            {"middleware": [TodoListMiddleware(system_prompt="Write a list.")]},
        ),
        "name of the agent": ({"name": "a"}, {"name": "b"}),
        "system prompt": ({"system_prompt": "a"}, {"system_prompt": "b"}),
    }
    stacks: dict[str, Callable[[], list[Any]]] = {
        "nothing": list,
        "review": lambda: [HumanInTheLoopMiddleware(review)],
        "limit": lambda: [ModelCallLimitMiddleware(run_limit=5)],
        "both": lambda: [HumanInTheLoopMiddleware(review), ModelCallLimitMiddleware(run_limit=5)],
        "budget": lambda: [BudgetMiddleware(run=Limits(turns=3))],
        "calls": lambda: [ToolCallLimitMiddleware(run_limit=3)],
        "pii": lambda: [PIIMiddleware("email")],
        "judge": lambda: [Judge()],
        "todo": lambda: [TodoListMiddleware()],
        "once": lambda: [OnceMiddleware({"refund": "ask"})],
    }
    options: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "prompt": ({}, {"system_prompt": "Be kind."}),
        "names": ({}, {"name": "desk"}),
        "steps": ({}, {"checkpoints": "full", "fused": False}),
        "tools in a list": ({"tools": [refund, delete]}, {"tools": (refund, delete)}),
    }
    for name, make in stacks.items():
        for what, (before, after) in options.items():
            changes[f"{what}, {name}"] = (
                {"middleware": make(), **before},
                {"middleware": make(), **after},
            )
    return changes


REFACTORINGS = refactorings()


def test_there_are_fifty_refactorings() -> None:
    assert len(REFACTORINGS) >= 50


@pytest.mark.parametrize("change", REFACTORINGS)
def test_a_refactoring_that_changes_nothing_is_green(change: str) -> None:
    both = REFACTORINGS[change]
    old, new = (plan_agent(**{"tools": [refund, delete], **each}) for each in both)
    assert old.to_snapshot() == new.to_snapshot()
    assert old == new
    assert old.digest == new.digest
    assert not old.diff(new)


class TestAgentsInside:
    def test_guards_and_limits_of_an_agent_inside_have_the_name_of_its_tool(self) -> None:
        inner = clerk(HumanInTheLoopMiddleware(POLICY), LIMIT)
        plan = plan_agent(tools=[inner, delete])
        assert [tool.name for tool in plan.tools] == ["clerk", "delete", "clerk/refund"]
        assert str(plan.guards[2]).startswith(
            "a person decides about clerk/* without clerk/search*"
        )
        assert [limit.owner for limit in plan.limits] == ["clerk/ModelCallLimitMiddleware"]

    def test_agents_are_nested(self) -> None:
        outer = create_agent(
            ScriptedChatModel([]), [clerk(HumanInTheLoopMiddleware({"refund": True}))], name="desk"
        )
        plan = plan_agent(tools=[agent_tool(outer, description="Asks the clerk.")])
        assert [tool.name for tool in plan.tools] == ["desk", "desk/clerk", "desk/clerk/refund"]
        assert [guard.tool for guard in plan.guards] == ["desk/clerk/refund"]

    def test_an_outer_guard_is_not_one_of_a_tool_inside(self) -> None:
        everything = ToolGuard("*", "ask")
        assert everything.covers("clerk")
        assert not everything.covers("clerk/refund")


@pytest.mark.parametrize(
    ("make", "words"),
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


class TestTheLaw:
    @pytest.mark.parametrize(
        ("make", "words"),
        [
            (Careless, "a person decides about look_up, and a call ran"),
            (Boundless, "at most 2 model calls a run, and there were 5"),
            (Secretive, "it changed tool calls; declare"),
        ],
    )
    def test_what_is_not_kept_is_a_violation(self, make: Any, words: str) -> None:
        with pytest.raises(LawViolation, match=words):
            check_middleware(make, laws=["does_what_it_declares"])

    @pytest.mark.parametrize(
        "make",
        [
            lambda: HumanInTheLoopMiddleware({"look_up": True}),
            lambda: HumanInTheLoopMiddleware({"look_up": True}, interrupt_mode="per_call"),
            lambda: HumanInTheLoopMiddleware(ToolPolicy(Rule("*", "deny"))),
            lambda: ModelCallLimitMiddleware(run_limit=3),
            lambda: ModelCallLimitMiddleware(run_limit=3, exit_behavior="error"),
            lambda: ToolCallLimitMiddleware(run_limit=2),
            lambda: ToolCallLimitMiddleware(tool_name="look_up", run_limit=0),
            lambda: BudgetMiddleware(run=Limits(turns=2, tool_calls=1)),
            lambda: OnceMiddleware({"look_up": "ask"}),
            lambda: PIIMiddleware("email", apply_to_output=True),
        ],
    )
    def test_built_ins_keep_it(self, make: Any) -> None:
        check_middleware(make, laws=["does_what_it_declares"], max_examples=5)
