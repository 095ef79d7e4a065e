"""Declarations of built-ins for the plan."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase

from agent_factory.review.policy import ToolPolicy, condition_text
from agent_factory.topology import GuardAction, LimitScope, LimitUnit, ToolGuard, UsageLimit


def usage_limits(
    unit: str, by_scope: Mapping[str, float | None], tool: str = ""
) -> tuple[UsageLimit, ...]:
    """Limits of one unit, by what they are the limit of; None is no limit."""
    return tuple(
        UsageLimit(most, LimitUnit(unit), LimitScope(scope), tool)
        for scope, most in by_scope.items()
        if most is not None
    )


def tool_guards(
    action: GuardAction, tools: Collection[str] | None, when: str = ""
) -> tuple[ToolGuard, ...]:
    """Guards of tools by a layer around their calls; None is all tools."""
    # Sorted: the order of strings in a set differs from process to process.
    names = ("*",) if tools is None else sorted(tools)
    return tuple(ToolGuard(name, action, when) for name in names)


def policy_guards(policy: ToolPolicy, place: str) -> tuple[ToolGuard, ...]:
    """Guards of the rules of a policy that do not allow calls.

    What an earlier rule allows is not guarded by a later one.
    """
    guards: list[ToolGuard] = []
    exclude: list[str] = []
    exceptions: list[tuple[str, str]] = []
    for rule in policy.rules:
        when = condition_text(rule.when)
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
            action, when = GuardAction(rule.action), " and ".join(words)
            guards.append(ToolGuard(rule.tool, action, when, without, place=place))
    return tuple(guards)
