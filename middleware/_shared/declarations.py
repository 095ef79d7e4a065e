"""Declarations of built-ins for the plan."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, Literal

from agent_factory import ToolGuard, UsageLimit
from agent_factory.review.policy import DECISIONS, UNCOVERED, ToolPolicy

_WILDCARDS = frozenset("*?[")


def usage_limits(
    unit: Any, by_scope: Mapping[Any, float | None], tool: str = ""
) -> tuple[UsageLimit, ...]:
    """Limits of one unit, by what they are the limit of; None sets none."""
    return tuple(
        UsageLimit(most, unit, scope, tool) for scope, most in by_scope.items() if most is not None
    )


def policy_guards(
    policy: ToolPolicy, place: Literal["around_tool", "after_model"]
) -> tuple[ToolGuard, ...]:
    """Guards of the rules of a policy that do not allow calls.

    What an earlier rule allows is not guarded by a later one. Calls that no rule is about are asked
    about.
    """
    guards: list[ToolGuard] = []
    exclude: list[str] = []
    exceptions: list[tuple[str, str]] = []
    earlier: list[str] = []
    for rule in (*policy.rules, UNCOVERED):
        if rule is UNCOVERED:
            exclude = list(policy.covered)
        if rule.action == "allow":
            if rule.when is None:
                exclude.append(rule.tool)
            else:
                exceptions.append((rule.tool, rule.calls))
            continue
        # Tools about which the rule decides except for the calls that an earlier rule allows.
        parts: dict[str, list[str]] = {rule.tool: [rule.calls] if rule.calls else []}
        for tool, calls in exceptions:
            if _includes(tool, rule.tool):
                parts[rule.tool].append(f"not ({calls})")
            elif _may_overlap(tool, rule.tool) and not _includes(rule.tool, tool):
                # No pattern is about what both are about, and this one alone would say too much.
                parts[rule.tool].append(f"not ({tool} and {calls})")
        for tool, calls in exceptions:
            if _includes(rule.tool, tool) and not _includes(tool, rule.tool):
                parts.setdefault(tool, parts[rule.tool][:]).append(f"not ({calls})")
        narrower = [tool for tool in parts if tool != rule.tool]
        for tool, words in parts.items():
            others = exclude if tool == rule.tool else [*exclude, *earlier]
            if any(_includes(other, tool) for other in others):
                continue  # another rule is about all of its calls
            others = exclude if tool != rule.tool else [*exclude, *narrower]
            without = tuple(dict.fromkeys(other for other in others if _may_overlap(other, tool)))
            when = " and ".join(words)
            may_ask = rule.action == "ask" or (rule.action, rule.otherwise) == ("judge", "ask")
            every = set(rule.allowed_decisions) >= set(DECISIONS)
            options: dict[str, Any] = {
                # Sorted: the order has no meaning, and reviewers may be a set.
                "reviewers": tuple(sorted(set(rule.reviewers))),
                "decisions": () if every else tuple(sorted(set(rule.allowed_decisions))),
                "remember": rule.remember,
            }
            guards.append(
                ToolGuard(
                    tool,
                    rule.action,
                    when,
                    without,
                    place=place,
                    otherwise=rule.otherwise if rule.action == "judge" else "ask",
                    **(options if may_ask else {}),
                )
            )
        earlier += [] if rule.when is not None else [rule.tool]
    return tuple(dict.fromkeys(guards))


def _includes(pattern: str, other: str) -> bool:
    """Return True if each tool that matches the other pattern matches this one, too."""
    # As a text, "*" matches "[!d]*", although it is also about tools that begin with a "d".
    is_certain = not {"?", "["} & set(pattern) or not _WILDCARDS & set(other)
    return pattern == other or (is_certain and fnmatchcase(other, pattern))


def _may_overlap(pattern: str, other: str) -> bool:
    """Return True if a tool may match both of two patterns."""
    if _WILDCARDS & set(pattern) and _WILDCARDS & set(other):
        return True
    return fnmatchcase(pattern, other) or fnmatchcase(other, pattern)
