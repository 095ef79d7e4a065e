"""Declarations of built-ins for the plan."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, Literal

from agent_factory import ToolGuard, UsageLimit
from agent_factory.review.policy import ToolPolicy


def usage_limits(
    unit: Any, by_scope: Mapping[Any, float | None], tool: str = ""
) -> tuple[UsageLimit, ...]:
    """Limits of one unit, by what they are the limit of; None is no limit."""
    return tuple(
        UsageLimit(most, unit, scope, tool) for scope, most in by_scope.items() if most is not None
    )


def policy_guards(
    policy: ToolPolicy, place: Literal["around_tool", "after_model"]
) -> tuple[ToolGuard, ...]:
    """Guards of the rules of a policy that do not allow calls.

    What an earlier rule allows is not guarded by a later one.
    """
    guards: list[ToolGuard] = []
    exclude: list[str] = []
    exceptions: list[tuple[str, str]] = []
    for rule in policy.rules:
        when = rule.calls
        if rule.action == "allow":
            if rule.when is None:
                exclude.append(rule.tool)
            else:
                exceptions.append((rule.tool, when))
            continue
        words = [when] if when else []
        words += [
            f"not ({text})" if tool == rule.tool else f"not ({tool}: {text})"
            for tool, text in exceptions
            if fnmatchcase(tool, rule.tool) or fnmatchcase(rule.tool, tool)
        ]
        without = tuple(tool for tool in exclude if fnmatchcase(tool, rule.tool))
        if rule.tool not in exclude:
            when = " and ".join(words)
            guards.append(ToolGuard(rule.tool, rule.action, when, without, place=place))
    return tuple(guards)
