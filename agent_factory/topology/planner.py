"""Decide the shape of an agent: which nodes exist, and which edges a run may take.

`decide` needs a `Shape` and the standard library only. Two lists fix the order:

```
head = before_agent hooks, before_model hooks, the model, after_model hooks reversed
tail = after_agent hooks reversed, the end
```

Three modules decide three questions: which edges exist (here), which edge a run takes
(`runtime/routing.py`), and how LangGraph executes the plan (`factory/wiring.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from itertools import chain, pairwise
from typing import TypeVar

from agent_factory.topology.model import (
    END,
    JUMPS,
    START,
    TOOLS,
    Call,
    Edge,
    Hook,
    Phase,
    Route,
    Shape,
    TopologyData,
)

PlanT = TypeVar("PlanT", bound=TopologyData)

_SAME = {field.name for field in fields(Shape)} & {field.name for field in fields(TopologyData)}
_SAME -= {"hooks", "layers", "sequential_calls"}
"""Fields that a plan has as its shape has them."""


def decide(shape: Shape, kind: type[PlanT]) -> PlanT:
    """Decide nodes and edges, as a plan of this class."""
    phases = {phase: [h for h in shape.hooks if h.phase is phase] for phase in Phase}
    nodes = {phase: [hook.node for hook in hooks] for phase, hooks in phases.items()}
    loop_head = [*nodes[Phase.BEFORE_MODEL], shape.style.model]
    head = [*nodes[Phase.BEFORE_AGENT], *loop_head, *reversed(nodes[Phase.AFTER_MODEL])]
    tail = [*reversed(nodes[Phase.AFTER_AGENT]), END]
    # Edges depend on the corners, so the plan is made without edges first.
    plan = kind(
        nodes=(*head, *([TOOLS] if shape.has_tools else []), *tail[:-1]),
        entry=head[0],
        loop_entry=loop_head[0],
        loop_exit=head[-1],
        exit=tail[0],
        edges=(),
        # Sorted by call and by phase: the order of a list between kinds means nothing, and plans
        # with another order between kinds must be equal.
        layers=tuple(layer for call in Call for layer in shape.layers if layer.call is call),
        hooks=tuple(chain(*phases.values())),
        # Without tools there are no calls: then the plan is that of an agent without the flag.
        sequential_calls=shape.sequential_calls and shape.has_tools,
        **{name: getattr(shape, name) for name in _SAME},
    )
    hooks = dict(zip(chain(*nodes.values()), plan.hooks, strict=True))
    edges = [Edge(START, (plan.entry,))]
    edges += (_step(plan, hooks.get(source), source, default) for source, default in pairwise(head))
    edges += _loop(shape, plan)
    edges += (_step(plan, hooks.get(source), source, default) for source, default in pairwise(tail))
    return replace(plan, edges=tuple(edges))


def _step(plan: TopologyData, hook: Hook | None, source: str, default: str) -> Edge:
    """The edge to the next node, and to the nodes that the hook in `source` may jump to."""
    if hook is None or not hook.can_jump_to:
        return Edge(source, (default,))
    # A jump from the loop's entry to itself is left out: routing treats it as the default.
    jumps = [target for target in jumps_of(plan, hook).values() if target != source]
    # The default is the first target, and a jump to the default adds no target.
    return Edge(source, tuple(dict.fromkeys((default, *jumps))), Route.JUMP)


def jump_targets(plan: TopologyData, *, leaving: bool) -> Mapping[str, str]:
    """The node that each jump leads to.

    Args:
        plan: The plan.
        leaving: For an after_agent hook. There "end" is the end itself, because the exit is the
            first of the after_agent hooks: a jump to the exit would loop for ever.
    """
    end = END if leaving else plan.exit
    return {"end": end, "tools": TOOLS, "model": plan.loop_entry}


def jumps_of(plan: TopologyData, hook: Hook) -> dict[str, str]:
    """The declared jumps of a hook, each with its target."""
    targets = jump_targets(plan, leaving=hook.phase is Phase.AFTER_AGENT)
    return {jump: targets[jump] for jump in JUMPS if jump in hook.can_jump_to}


def _loop(shape: Shape, plan: TopologyData) -> Iterator[Edge]:
    """The edges that close the loop: from the last node, and from the tools."""
    source = plan.loop_exit
    if not shape.has_tools:
        if shape.retries_output:
            yield Edge(source, (plan.loop_entry, plan.exit), Route.RETRY)
        else:
            yield _step(plan, plan.hook_at(source), source, plan.exit)
        return
    # An after_model hook, a layer or structured output may have answered the calls. Then the model
    # comes next, and the tools are skipped.
    skips = shape.may_skip_tools or source != shape.style.model
    again = (plan.loop_entry,) if skips else ()
    yield Edge(source, (TOOLS, plan.exit, *again), Route.AFTER_MODEL)
    if shape.style.tools_can_end_run:
        # Any tool may end the run, so the edge out of the loop always exists.
        yield Edge(TOOLS, (plan.loop_entry, plan.exit), Route.AFTER_TOOLS)
    elif any(tool.return_direct for tool in shape.tools):
        # Straight to the end: create_react_agent asks for no structured answer after return_direct.
        yield Edge(TOOLS, (plan.loop_entry, END), Route.AFTER_TOOLS)
    else:
        yield Edge(TOOLS, (plan.loop_entry,))
