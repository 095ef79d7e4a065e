"""The shape of an agent as plain values: which nodes exist, which edges may be taken, and why.

`decide` decides all of it from a `Shape`, with the standard library alone. Two lists fix the order:

```
head = before_agent hooks, before_model hooks, the model, after_model hooks reversed
tail = after_agent hooks reversed, the end
```

Three questions stay apart: *may* a run go there (here), *does* it (routing), *how* (wiring).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

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


@dataclass(frozen=True, slots=True)
class _Corners:
    entry: str
    loop_entry: str
    loop_exit: str
    exit: str


def decide(shape: Shape) -> TopologyData:
    """Decide nodes and edges.

    >>> planned = decide(Shape(hooks=(Hook("A", Phase.AFTER_MODEL),), has_tools=True))
    >>> planned.loop_exit, planned.nodes
    ('A.after_model', ('model', 'A.after_model', 'tools'))
    """
    by = {phase: [h.node for h in shape.hooks if h.phase is phase] for phase in Phase}
    loop_head = [*by[Phase.BEFORE_MODEL], shape.style.model]
    head = [*by[Phase.BEFORE_AGENT], *loop_head, *reversed(by[Phase.AFTER_MODEL])]
    tail = [*reversed(by[Phase.AFTER_AGENT]), END]
    corners = _Corners(head[0], loop_head[0], head[-1], tail[0])
    return TopologyData(
        nodes=(*head, *([TOOLS] if shape.has_tools else []), *tail[:-1]),
        entry=corners.entry,
        loop_entry=corners.loop_entry,
        loop_exit=corners.loop_exit,
        exit=corners.exit,
        edges=tuple(_edges(shape, head, tail, corners)),
        # What order makes no difference is put into one, so that plans alike are equal.
        layers=tuple(layer for call in Call for layer in shape.layers if layer.call is call),
        hooks=tuple(hook for phase in Phase for hook in shape.hooks if hook.phase is phase),
        tools=shape.tools,
        retries_output=shape.retries_output,
        style=shape.style,
    )


def _edges(
    shape: Shape, head: Sequence[str], tail: Sequence[str], corners: _Corners
) -> Iterator[Edge]:
    hook_at = {hook.node: hook for hook in shape.hooks}
    yield Edge(START, (corners.entry,))
    for source, default in pairwise(head):
        yield _step(hook_at.get(source), source, default, corners)
    yield from _loop(shape, hook_at, corners)
    for source, default in pairwise(tail):
        yield _step(hook_at.get(source), source, default, corners)


def _step(hook: Hook | None, source: str, default: str, corners: _Corners) -> Edge:
    if hook is None or not hook.can_jump_to:
        return Edge(source, (default,))
    targets = jump_targets(corners, leaving=hook.phase is Phase.AFTER_AGENT)
    more = [targets[jump] for jump in JUMPS if jump in hook.can_jump_to]
    # A jump from the loop's entry to the loop's entry is the way it goes anyhow.
    more = [target for target in more if target != source]
    return Edge(source, tuple(dict.fromkeys((default, *more))), Route.JUMP)


def jump_targets(corners: _Corners | TopologyData, *, leaving: bool) -> Mapping[str, str]:
    """Which node each jump leads to.

    Args:
        corners: The plan, or its corners.
        leaving: Seen from an after_agent hook. There "end" is the end itself: the exit is
            where those hooks begin, and would lead round for ever.
    """
    end = END if leaving else corners.exit
    return {"end": end, "tools": TOOLS, "model": corners.loop_entry}


def _loop(shape: Shape, hook_at: Mapping[str, Hook], corners: _Corners) -> Iterator[Edge]:
    source = corners.loop_exit
    if shape.has_tools:
        skips = shape.may_skip_tools or source != shape.style.model
        again = (corners.loop_entry,) if skips else ()
        yield Edge(source, (TOOLS, corners.exit, *again), Route.AFTER_MODEL)
        yield _after_tools(shape, corners)
    elif shape.retries_output:
        yield Edge(source, (corners.loop_entry, corners.exit), Route.RETRY)
    else:
        yield _step(hook_at.get(source), source, corners.exit, corners)


def _after_tools(shape: Shape, corners: _Corners) -> Edge:
    if shape.style.tools_can_end_run:
        # Any tool may stop the run, so the way out is always declared.
        return Edge(TOOLS, (corners.loop_entry, corners.exit), Route.AFTER_TOOLS)
    if any(tool.return_direct for tool in shape.tools):
        # Straight out: a result that is the answer passes by what else makes one.
        return Edge(TOOLS, (corners.loop_entry, END), Route.AFTER_TOOLS)
    return Edge(TOOLS, (corners.loop_entry,))
