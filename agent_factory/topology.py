"""The shape of an agent as plain values: which nodes exist, which edges may be taken, and why.

`plan` decides all of it from a `Shape`, with the standard library alone. Two lists fix the order:

```
head = before_agent hooks, before_model hooks, the model, after_model hooks reversed
tail = after_agent hooks reversed, the end
```

Three questions stay apart: *may* a run go there (here), *does* it (routing), *how* (wiring).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

START, END, MODEL, TOOLS = "__start__", "__end__", "model", "tools"

JUMPS = ("end", "tools", "model")
"""Every jump target, in the order in which an edge declares them."""


class Phase(StrEnum):
    """When a node hook runs."""

    BEFORE_AGENT = "before_agent"
    BEFORE_MODEL = "before_model"
    AFTER_MODEL = "after_model"
    AFTER_AGENT = "after_agent"


class Call(StrEnum):
    """What a layer closes around."""

    MODEL = "model"
    TOOL = "tool"


class Route(StrEnum):
    """How a run chooses among the targets of an edge."""

    JUMP = "jump"
    """Follow the state's `jump_to`, else the default."""
    AFTER_MODEL = "after_model"
    """To the pending tool calls, back to the model, or out."""
    AFTER_TOOLS = "after_tools"
    """Back to the model, or out."""
    RETRY = "retry"
    """Back to the model for a better structured answer, or out."""


@dataclass(frozen=True, slots=True)
class Hook:
    """A node hook of one middleware.

    Args:
        owner: The middleware's name.
        phase: When it runs.
        can_jump_to: The jumps it declares.
    """

    owner: str
    phase: Phase
    can_jump_to: frozenset[str] = frozenset()

    @property
    def node(self) -> str:
        """The name of its node."""
        return f"{self.owner}.{self.phase}"


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer around a call, by the middleware that brings it and the method that makes it."""

    owner: str
    call: Call
    method: str


@dataclass(frozen=True, slots=True)
class Shape:
    """What the planner needs to know, and nothing else.

    Args:
        hooks: All node hooks, in the order of the middleware list.
        layers: All layers, outermost first.
        has_tools: A tools node exists.
        may_skip_tools: Something may answer in the tools' place: a layer, or structured output.
        retries_output: A structured answer may have to be asked for again.
    """

    hooks: tuple[Hook, ...] = ()
    layers: tuple[Layer, ...] = ()
    has_tools: bool = False
    may_skip_tools: bool = False
    retries_output: bool = False


@dataclass(frozen=True, slots=True)
class Edge:
    """Where a run may go from a node.

    Args:
        source: The node it leaves.
        targets: The nodes it may reach; the first is the default.
        route: How it chooses, or None where there is nothing to choose.
    """

    source: str
    targets: tuple[str, ...]
    route: Route | None = None


@dataclass(frozen=True, slots=True)
class Topology:
    """The plan of an agent: a value that can be printed, compared and kept.

    Args:
        nodes: Every node, in the order of a run.
        entry: Where a run starts.
        loop_entry: Where it returns after tools.
        loop_exit: Where a turn of the model ends.
        exit: Where it leaves the loop.
        edges: Every edge.
        layers: The layers around model and tool calls, outermost first.
    """

    nodes: tuple[str, ...]
    entry: str
    loop_entry: str
    loop_exit: str
    exit: str
    edges: tuple[Edge, ...]
    layers: tuple[Layer, ...] = ()

    def edge_from(self, source: str) -> Edge:
        """The edge that leaves a node.

        Raises:
            KeyError: No edge leaves it.
        """
        for edge in self.edges:
            if edge.source == source:
                return edge
        raise KeyError(source)

    def render(self) -> str:
        """The plan as text: a line for each edge, and one for each kind of layer.

        >>> print(plan(Shape()).render())
        __start__ -> model
        model -> __end__
        """
        lines = [_edge_line(edge) for edge in self.edges]
        for call in Call:
            owners = [layer.owner for layer in self.layers if layer.call is call]
            if owners:
                lines.append(f"around each {call} call: {' > '.join(owners)}")
        return "\n".join(lines)


def _edge_line(edge: Edge) -> str:
    why = f"  [{edge.route}]" if edge.route else ""
    return f"{edge.source} -> {' | '.join(edge.targets)}{why}"


@dataclass(frozen=True, slots=True)
class _Corners:
    entry: str
    loop_entry: str
    loop_exit: str
    exit: str


def plan(shape: Shape) -> Topology:
    """Decide nodes and edges.

    >>> planned = plan(Shape(hooks=(Hook("A", Phase.AFTER_MODEL),), has_tools=True))
    >>> planned.loop_exit, planned.nodes
    ('A.after_model', ('model', 'A.after_model', 'tools'))
    """
    by = {phase: [h.node for h in shape.hooks if h.phase is phase] for phase in Phase}
    loop_head = [*by[Phase.BEFORE_MODEL], MODEL]
    head = [*by[Phase.BEFORE_AGENT], *loop_head, *reversed(by[Phase.AFTER_MODEL])]
    tail = [*reversed(by[Phase.AFTER_AGENT]), END]
    corners = _Corners(head[0], loop_head[0], head[-1], tail[0])
    return Topology(
        nodes=(*head, *([TOOLS] if shape.has_tools else []), *tail[:-1]),
        entry=corners.entry,
        loop_entry=corners.loop_entry,
        loop_exit=corners.loop_exit,
        exit=corners.exit,
        edges=tuple(_edges(shape, head, tail, corners)),
        layers=shape.layers,
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


def jump_targets(corners: _Corners | Topology, *, leaving: bool) -> Mapping[str, str]:
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
        again = (corners.loop_entry,) if shape.may_skip_tools or source != MODEL else ()
        yield Edge(source, (TOOLS, corners.exit, *again), Route.AFTER_MODEL)
        # Any tool may stop the run, so the way out is always declared.
        yield Edge(TOOLS, (corners.loop_entry, corners.exit), Route.AFTER_TOOLS)
    elif shape.retries_output:
        yield Edge(source, (corners.loop_entry, corners.exit), Route.RETRY)
    else:
        yield _step(hook_at.get(source), source, corners.exit, corners)
