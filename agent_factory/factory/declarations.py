"""Declarations of middleware and tools for the plan: guards, limits, accesses, agents inside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from langchain_core.tools import BaseTool

from agent_factory.errors import SpecError
from agent_factory.hooks.base import AgentMiddleware, Middleware
from agent_factory.hooks.ordering import Ordering
from agent_factory.topology.declarations import Access, AccessKind, ToolGuard, UsageLimit
from agent_factory.topology.model import Call, Shape, Tool, ToolKind, TopologyData


def declarations_of(members: Sequence[Middleware], tools: Mapping[str, BaseTool]) -> dict[str, Any]:
    """Return what middleware and agents inside of tools declare, as the fields of a shape."""
    plans = {name: plan for name, tool in tools.items() if (plan := plan_inside(tool))}
    guards = [
        *_owned(members, "guards", ToolGuard),
        *(
            replace(
                guard,
                tool=f"{name}/{guard.tool}",
                owner=f"{name}/{guard.owner}",
                exclude=tuple(f"{name}/{pattern}" for pattern in guard.exclude),
            )
            for name, plan in plans.items()
            for guard in plan.guards
        ),
    ]
    limits = [
        *_owned(members, "limits", UsageLimit),
        *(
            replace(limit, owner=f"{name}/{limit.owner}")
            for name, plan in plans.items()
            for limit in plan.limits
        ),
    ]
    return {
        "guards": tuple(dict.fromkeys(guards)),
        "limits": tuple(dict.fromkeys(limits)),
        "accesses": tuple(_accesses(members)),
    }


def inner_tools(tools: Mapping[str, BaseTool]) -> Iterator[Tool]:
    """Yield the tools of agents inside of tools, by the names of both: "clerk/refund"."""
    for name, tool in tools.items():
        plan = plan_inside(tool)
        for inner in plan.tools if plan else ():
            if inner.kind in (ToolKind.CLIENT, ToolKind.INNER):
                yield Tool(f"{name}/{inner.name}", ToolKind.INNER, labels=inner.labels)


def plan_inside(tool: BaseTool) -> TopologyData | None:
    """Return the plan of the agent that a tool of `agent_tool` calls; None for any other tool."""
    builder = getattr(getattr(tool, "agent", None), "builder", None)
    plan = getattr(getattr(builder, "spec", None), "topology", None)
    return plan if isinstance(plan, TopologyData) else None


def _owned(members: Sequence[Middleware], name: str, kind: type[object]) -> Iterator[Any]:
    for member in members:
        for item in getattr(member, name):
            if isinstance(item, kind):  # anything else has been reported
                yield replace(item, owner=member.name)  # type: ignore[type-var]


def _accesses(members: Sequence[Middleware]) -> Iterator[Access]:
    for member in members:
        # A value of another type has been reported.
        if isinstance(member.ordering, Ordering) and member.ordering != AgentMiddleware.ordering:
            for kind in AccessKind:
                if aspects := getattr(member.ordering, kind):
                    yield Access(member.name, kind, tuple(sorted(aspects)))


def guards_without_place(shape: Shape) -> Iterator[SpecError]:
    """Find guards that name a hook or a layer which their middleware does not have."""
    places = {(hook.owner, str(hook.phase)) for hook in shape.hooks}
    places |= {(layer.owner, "around_tool") for layer in shape.layers if layer.call is Call.TOOL}
    for guard in shape.guards:
        if (guard.owner, guard.place) not in places and "/" not in guard.owner:
            yield SpecError(
                guard.owner,
                f"declares that it guards {guard.tool!r} in {guard.place}, which it does not "
                "define.",
                f"Define {guard.place}, or name the place in ToolGuard(..., place=...).",
                code="AF126",
            )
