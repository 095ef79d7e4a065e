"""Declarations of built-ins for the plan."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, Literal

from agent_factory import ToolGuard, UsageLimit
from agent_factory.review.policy import DECISIONS, UNCOVERED, Rule, ToolPolicy

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
        words = [rule.calls] if rule.calls else []
        # Tools about which the rule decides except for the calls that an earlier rule allows.
        narrower: dict[str, list[str]] = {}
        for tool, calls in exceptions:
            if _includes(tool, rule.tool):
                words.append(f"not ({calls})")
            elif _includes(rule.tool, tool):
                narrower.setdefault(tool, []).append(f"not ({calls})")
            elif _may_overlap(tool, rule.tool):
                # No pattern is about what both are about, and this one alone would say too much.
                words.append(f"not ({tool} and {calls})")
        # Each with the patterns that are about all of its calls, and those to leave out of it.
        parts = [(rule.tool, words, exclude, [*exclude, *narrower])]
        for tool, more in narrower.items():
            parts.append((tool, [*words, *more], [*exclude, *earlier], exclude))
        options = _options(rule)
        for tool, words, decided, excluded in parts:
            if any(_includes(other, tool) for other in decided):
                continue
            without = dict.fromkeys(other for other in excluded if _may_overlap(other, tool))
            when = " and ".join(words)
            guards.append(
                ToolGuard(tool, rule.action, when, tuple(without), place=place, **options)
            )
        earlier += [] if rule.when is not None else [rule.tool]
    return tuple(dict.fromkeys(guards))


def _options(rule: Rule) -> dict[str, Any]:
    """Options of a rule as those of a guard."""
    options: dict[str, Any] = {"otherwise": rule.otherwise} if rule.action == "judge" else {}
    if rule.asks:
        every = set(rule.allowed_decisions) >= set(DECISIONS)
        # Sorted: the order has no meaning, and reviewers may be a set.
        options["reviewers"] = tuple(sorted(set(rule.reviewers)))
        options["decisions"] = () if every else tuple(sorted(set(rule.allowed_decisions)))
        options["remember"] = rule.remember
    return options


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
