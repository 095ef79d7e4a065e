"""The built-in middleware of random agents: settings as plain values, and what is made of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

from langchain.agents import middleware as theirs
from langchain_core.messages import AIMessage, BaseMessage

from agent_factory import middleware as ours
from guarantees.worlds import Speaker, World, model_of, written

QUICK: Any = {"initial_delay": 0, "jitter": False}
CONDITIONS: Any = (None, None, {"n": {">": 4}}, {"n": {"<=": 4}}, {"to": {"like": "*@x.org"}})


def judge_of(where: str) -> Speaker:
    """A model that finds a call harmless or not, by chance."""

    def judged(messages: Sequence[BaseMessage]) -> AIMessage:
        document = json.loads(messages[-1].text)["call"]
        call = {"name": document["tool"], "args": document["arguments"]}
        is_harmless = World.now.chance("judge").random() < 0.6
        if is_harmless:
            World.now.decided("judged", "", where, call)
        return AIMessage(json.dumps({"reason": "So.", "probability": float(not is_harmless)}))

    return Speaker(says=judged)


def helper(text: str) -> Speaker:
    """A model that says the same each time."""
    return Speaker(says=lambda messages: AIMessage(text))


def policy_of(rules: Sequence[Any], where: str) -> ours.ToolPolicy:
    """A policy of rules: each a tool, an action, and the arguments that it is about or None."""
    judges = any(action == "judge" for _, action, _ in rules)
    made = [ours.Rule(tool, action, when=when) for tool, action, when in rules]
    return ours.ToolPolicy(*made, judge=judge_of(where) if judges else None)


def rules_of(settings: Mapping[str, Any]) -> Sequence[Any]:
    """The rules of a review: those of a dict as rules, with all other calls allowed."""
    asked = [(tool, "ask", None) for tool, asks in settings.get("on", {}).items() if asks]
    return settings.get("rules", [*asked, ("*", "allow", None)])  # type: ignore[no-any-return]


def action_of(rules: Sequence[Any], tool: str, key: Any) -> str:
    """What the rules say about a call of a tool; "ask" where none of them is about it."""
    for pattern, action, when in rules:
        if pattern in ("*", tool) and (when is None or _holds(when, action, *key)):
            return str(action)
    return "ask"


def _holds(when: Any, action: str, n: int, to: object) -> bool:
    if "to" in when:
        return str(to).endswith("@x.org")
    # Of a text, nobody knows whether it is a large number.
    return (n > 4) == (">" in when["n"]) if isinstance(written(n), int) else action != "allow"


# Draws: functions of chances and tools


def _nothing(random: Random, tools: Sequence[str]) -> dict[str, Any]:
    return {}


def _rules(random: Random, tools: Sequence[str]) -> list[Any]:
    actions, tool = ["ask", "ask", "allow", "deny", "judge", "judge"], random.choice([*tools, "*"])
    rules = [
        (
            random.choice([tool, tool, *tools, "*"]),
            random.choice(actions),
            random.choice(CONDITIONS),
        )
        for _ in range(random.choice([0, 1, 2, 2, 3]))
    ]
    last = random.choice([[], ["allow"], ["allow"], ["ask"]])
    return [*rules, *(("*", action, None) for action in last)]


def _on(random: Random, tools: Sequence[str]) -> dict[str, bool]:
    return {tool: random.choice([True, True, False]) for tool in tools if random.random() < 0.7}


def _review(random: Random, tools: Sequence[str]) -> dict[str, Any]:
    mode = {"interrupt_mode": random.choice(["batched", "per_call"])}
    on = {"on": _on(random, tools)} if random.random() < 0.4 else {"rules": _rules(random, tools)}
    return {**mode, **on}


def _of_tools(random: Random, tools: Sequence[str]) -> dict[str, Any]:
    return random.choice([{}, {"tools": random.sample([*tools], 1)}, {"tools": [*tools]}])


def _limit(*ends: str, of_tools: bool = False) -> Any:
    def draw(random: Random, tools: Sequence[str]) -> dict[str, Any]:
        low, high = sorted(random.choices([1, 1, 2, 3] if "answer" in ends else [0, 1, 2, 3], k=2))
        limits = {"run_limit": low}, {"thread_limit": low}, {"run_limit": low, "thread_limit": high}
        name = {"tool_name": random.choice(tools)} if of_tools and random.random() < 0.6 else {}
        end = {"exit_behavior": random.choice(ends)} if ends else {}
        return random.choice(limits) | name | end

    return draw


def _budget(random: Random, tools: Sequence[str]) -> dict[str, Any]:
    unit, most = (
        random.choice(["turns", "turns", "tool_calls", "total_tokens"]),
        random.choice([1, 2, 3]),
    )
    limits = {unit: most * 20 if unit == "total_tokens" else most}
    end = random.choice(["answer", "end", "error"])
    return {random.choice(["run", "thread"]): limits, "exit_behavior": end}


class BuiltIn(NamedTuple):
    """How settings are drawn, and what is made of a name, the place of the agent and settings."""

    draw: Callable[[Random, Sequence[str]], Mapping[str, Any]]
    make: Callable[..., Any]


def _ours(kind: Any, draw: Any = _nothing, **fixed: Any) -> BuiltIn:
    """A class with drawn and fixed settings; a function of these makes something for an agent."""

    def make(name: str, where: str, **settings: Any) -> Any:
        made = {k: v(where) if v in (judge_of, model_of) else v for k, v in fixed.items()}
        return kind(name=name, **made, **settings)

    return BuiltIn(draw, make)


def _theirs(kind: Any, draw: Any = _nothing, **fixed: Any) -> BuiltIn:
    return BuiltIn(draw, lambda name, where, **settings: kind(**fixed, **settings))


def _reviewing(name: str, where: str, rules: Any = None, on: Any = None, **settings: Any) -> Any:
    asked = policy_of(rules, where) if on is None else on
    return ours.HumanInTheLoopMiddleware(asked, name=name, **settings)


def _guarding(name: str, where: str, rules: Any, action: Any) -> Any:
    policy = None if rules is None else policy_of(rules, where)
    return ours.FlowGuardMiddleware(policy, name=name, action=action)


def _budgeting(name: str, where: str, exit_behavior: Any, **limits: Any) -> Any:
    limits = {scope: ours.Limits(**most) for scope, most in limits.items()}
    return ours.BudgetMiddleware(name=name, exit_behavior=exit_behavior, **limits)


def _refusing(name: str, where: str) -> Any:
    def refuses(message: AIMessage) -> bool:
        return World.now.chance(name).random() < 0.3

    return ours.ModelRefusalMiddleware(model_of(where), is_refusal=refuses, name=name)


def _routing(name: str, where: str) -> Any:
    choices = {"other": ours.ModelChoice(model_of(where), "Anything.")}
    return ours.ModelRouterMiddleware(choices=choices, classifier=lambda _: "other", name=name)


def _checking(name: str, where: str, on: Any) -> Any:
    def check(seen: Any) -> str | None:
        objects = World.now.chance(name).random() < 0.3
        if on == "call" and not objects:
            call = getattr(seen, "tool_call", seen)
            World.now.decided("checked", f"{where}{name}", where, call)
        return "No." if objects else None

    return ours.GuardMiddleware(check, on=on, when="before", name=name)


def _on_what(random: Random, tools: Sequence[str]) -> dict[str, Any]:
    return {"on": random.choice(["call", "call", "answer", "messages"])}


def _their_review(random: Random, tools: Sequence[str]) -> dict[str, Any]:
    return {"interrupt_on": _on(random, tools)}


def _effects(random: Random, tools: Sequence[str]) -> dict[str, Any]:
    return {"effects": {tool: random.choice(["rerun", "fail"]) for tool in tools}}


def _pii(random: Random, tools: Sequence[str]) -> dict[str, Any]:
    whats = ("output", "tool_results", "tool_calls")
    return {f"apply_to_{what}": True for what in whats if random.random() < 0.5}


def _flow(random: Random, tools: Sequence[str]) -> dict[str, Any]:
    rules = random.choice([None, _rules(random, tools)])
    return {"rules": rules, "action": random.choice(["ask", "deny"])}


ENDS, ENDS_OF_TOOLS = ("end", "error", "answer"), ("continue", "continue", "error")
FOLDER, SUMMARY = __file__.rpartition("/")[0], {"trigger": ("messages", 6), "keep": ("messages", 2)}
PLAIN = {"AnswerGuard", "Background", "ClientTools", "ProgressGuard", "PromptCaching", "Steering"}
PLAIN |= {"ProviderToolSearch", "TodoList", "ToolResultOffload"}
BUILT_INS: dict[str, BuiltIn] = {
    "review": BuiltIn(_review, _reviewing),
    "flow guard": BuiltIn(_flow, _guarding),
    "auto": _ours(ours.AutoModeMiddleware, _of_tools, classifier=judge_of),
    "check": BuiltIn(_on_what, _checking),
    "model limit": _ours(ours.ModelCallLimitMiddleware, _limit(*ENDS)),
    "tool limit": _ours(ours.ToolCallLimitMiddleware, _limit(*ENDS_OF_TOOLS, of_tools=True)),
    "budget": BuiltIn(_budget, _budgeting),
    "model retry": _ours(ours.ModelRetryMiddleware, **QUICK),
    "tool retry": _ours(ours.ToolRetryMiddleware, _of_tools, **QUICK),
    "tool error": _ours(ours.ToolErrorMiddleware, _of_tools),
    "emulator": _ours(ours.LLMToolEmulator, _of_tools, model=helper("emulated")),
    "pii": _ours(ours.PIIMiddleware, _pii, pii_type="email"),
    "once": _ours(ours.OnceMiddleware, _effects, store=ours.InMemoryEffects()),
    "fallback": _ours(ours.ModelFallbackMiddleware, first_model=model_of),
    "refusal": BuiltIn(_nothing, _refusing),
    "router": BuiltIn(_nothing, _routing),
    "clearing": _ours(ours.ContextEditingMiddleware, edits=[ours.ClearToolUsesEdit(1, keep=0)]),
    "summary": _ours(ours.SummarizationMiddleware, model=helper("In short."), **SUMMARY),
    "files": _ours(ours.FilesystemFileSearchMiddleware, root_path=FOLDER),
    "selector": _ours(ours.LLMToolSelectorMiddleware, model=helper('{"tools": []}'), max_tools=1),
    **{name: _ours(getattr(ours, f"{name}Middleware")) for name in sorted(PLAIN)},
    "their review": _theirs(
        theirs.HumanInTheLoopMiddleware, lambda *of: {"interrupt_on": _on(*of)}
    ),
    "their model limit": _theirs(theirs.ModelCallLimitMiddleware, _limit()),
    "their tool limit": _theirs(theirs.ToolCallLimitMiddleware, run_limit=2),
    "their retry": _theirs(theirs.ModelRetryMiddleware, **QUICK),
    "their pii": _theirs(theirs.PIIMiddleware, pii_type="email", apply_to_output=True),
}

NOT_DRAWN = {ours.ShellToolMiddleware}
"""Built-ins that begin processes."""
