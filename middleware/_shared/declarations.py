"""Declarations of built-ins for the plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, Literal

from agent_factory import ToolGuard, UsageLimit
from agent_factory.errors import BuildWarning
from agent_factory.review.policy import DECISIONS, UNCOVERED, Rule, ToolPolicy, decides_as_written

_WILDCARDS = frozenset("*?[")


def usage_limits(
    unit: Any, by_scope: Mapping[Any, float | None], tool: str = ""
) -> tuple[UsageLimit, ...]:
    """Limits of one unit, by scope; None sets no limit."""
    return tuple(
        UsageLimit(most, unit, scope, tool) for scope, most in by_scope.items() if most is not None
    )


def policy_guards(
    policy: ToolPolicy, place: Literal["around_tool", "after_model"]
) -> tuple[ToolGuard, ...]:
    """Guards of the rules of a policy that do not allow calls.

    An earlier rule takes its calls from later rules: allowed calls from all of them, calls of a
    judge from rules that ask or deny, and calls of people from rules that deny. Calls without a
    rule are asked about.
    """
    guards: list[ToolGuard] = []
    choice = "" if decides_as_written(policy) else f"{type(policy).__name__}.rule_for()"
    taken: list[Rule] = []
    earlier: list[str] = []
    for rule in (*policy.rules, UNCOVERED):
        # A call is asked about, or denied, unless an earlier rule lets it run in another way.
        others = {"ask": ("judge",), "deny": ("ask", "judge")}.get(rule.action, ())
        taking = [r for r in taken if r.action == "allow" or r.action in others]
        exclude = [other.tool for other in taking if _is_whole(other)]
        exclude = [*policy.covered] if rule is UNCOVERED else exclude
        exceptions = [(_tools(r), _certainly(r)) for r in taking if not _is_whole(r)]
        taken.append(rule)
        if rule.action == "allow":
            continue
        # Tools with an earlier rule about some of their calls; each gets a separate guard.
        narrower = [t for t, _ in exceptions if t != rule.tool and _includes(rule.tool, t)]
        for tool in dict.fromkeys((rule.tool, *narrower)):
            decided = exclude if tool == rule.tool else [*exclude, *earlier]
            if any(_includes(other, tool) for other in decided):
                continue
            words = [*filter(None, (_calls(rule), choice))]
            without = [other for other in exclude if _may_overlap(other, tool)]
            for other, calls in exceptions:
                if _includes(other, tool):
                    words.append(f"not ({calls})")
                elif _includes(tool, other):
                    without.append(other)
                elif _may_overlap(other, tool):
                    # No pattern covers exactly the calls of both patterns, and this pattern alone
                    # would cover too many.
                    words.append(f"not ({other} and {calls})")
            when, names = " and ".join(words), tuple(dict.fromkeys(without))
            options = _options(rule) | {"decides_again": place == "around_tool"}
            guards.append(ToolGuard(tool, rule.action, when, names, place=place, **options))
        earlier += [rule.tool] if _is_whole(rule) else []
    return tuple(dict.fromkeys(guards))


def _tools(rule: Rule) -> str:
    """The pattern of the tools of a rule: a subclass may cover other tools."""
    return rule.tool if type(rule).names is Rule.names else "*"


def _certainly(rule: Rule) -> str:
    """The calls of a rule, in words: an unknown condition is met, unless the rule allows calls."""
    is_unknown = rule.action != "allow" and isinstance(rule.when, Mapping)
    return f"{_calls(rule)}, or unknown" if is_unknown else _calls(rule)


def _calls(rule: Rule) -> str:
    """The calls of a rule, in words: a subclass without its own words may match by anything."""
    is_known = decides_as_written(rule) or type(rule).calls is not Rule.calls
    return rule.calls if is_known else f"{type(rule).__name__}.matches()"


def _is_whole(rule: Rule) -> bool:
    return rule.when is None and decides_as_written(rule)


def policy_findings(
    owner: str, policy: ToolPolicy, tools: Iterable[Any], count: int
) -> Iterator[BuildWarning]:
    """Rules among the first `count` that never decide, and tools without a rule for any call."""
    for number, rule in enumerate(policy.rules[: count if decides_as_written(policy) else 0]):
        for first in policy.rules[:number]:
            if _is_whole(first) and _includes(first.tool, rule.tool):
                when = f" when {rule.calls}" if rule.calls else ""
                yield BuildWarning(
                    owner,
                    f'has a rule that never decides: Rule("{rule.tool}", "{rule.action}"){when} '
                    f'follows Rule("{first.tool}", "{first.action}"), which decides about all of '
                    "its calls.",
                    "Put the narrower rule first, or remove it.",
                    code="AF222",
                )
                break
    for tool in tools:
        is_covered = any(fnmatchcase(tool.name, pattern) for pattern in policy.covered)
        if tool.kind == "client" and not is_covered:
            yield BuildWarning(
                owner,
                f"has no rule for all calls of the tool {tool.name!r}: a person is asked about the "
                "others.",
                f'Add a rule, such as Rule({tool.name!r}, "ask"), or Rule("*", "ask") at the end.',
                code="AF213",
            )


def _options(rule: Rule) -> dict[str, Any]:
    options: dict[str, Any] = {"otherwise": rule.otherwise} if rule.action == "judge" else {}
    if rule.asks:
        every = set(rule.allowed_decisions) >= set(DECISIONS)
        # Sorted: the order has no meaning, and reviewers may be a set.
        options["reviewers"] = tuple(sorted(set(rule.reviewers)))
        options["decisions"] = () if every else tuple(sorted(set(rule.allowed_decisions)))
        options["remember"] = rule.remember
    return options


def _includes(pattern: str, other: str) -> bool:
    """Return True if this pattern matches each tool of the other pattern."""
    # As a text, "*" matches "[!d]*", although "*" also covers tools that begin with a "d".
    is_certain = not {"?", "["} & set(pattern) or not _WILDCARDS & set(other)
    return pattern == other or (is_certain and fnmatchcase(other, pattern))


def _may_overlap(pattern: str, other: str) -> bool:
    if _WILDCARDS & set(pattern) and _WILDCARDS & set(other):
        return True
    return fnmatchcase(pattern, other) or fnmatchcase(other, pattern)
