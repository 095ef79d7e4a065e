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
from itertools import pairwise

from agent_factory.diff import TopologyDiff, diff
from agent_factory.facts import (
    END,
    JUMPS,
    MODEL,
    START,
    TOOLS,
    Call,
    Dialect,
    Edge,
    Hook,
    Layer,
    Phase,
    Route,
    Shape,
    Tool,
    ToolKind,
)
from agent_factory.render.as_json import to_json
from agent_factory.render.explained import explain, explain_way
from agent_factory.render.mermaid import to_mermaid
from agent_factory.render.text import render
from agent_factory.ways import Way, ways_of

__all__ = [
    "END",
    "JUMPS",
    "MODEL",
    "START",
    "TOOLS",
    "Call",
    "Dialect",
    "Edge",
    "Hook",
    "Layer",
    "Phase",
    "Route",
    "Shape",
    "Tool",
    "ToolKind",
    "Topology",
    "Way",
    "jump_targets",
    "plan",
]


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
        hooks: The node hooks, in the order of the middleware list.
        tools: The tools known when the agent is built.
        retries_output: A structured answer is wanted, and asked for again where it is wrong.
        dialect: Which factory it is of.
    """

    nodes: tuple[str, ...]
    entry: str
    loop_entry: str
    loop_exit: str
    exit: str
    edges: tuple[Edge, ...]
    layers: tuple[Layer, ...] = ()
    hooks: tuple[Hook, ...] = ()
    tools: tuple[Tool, ...] = ()
    retries_output: bool = False
    dialect: Dialect = Dialect.CREATE_AGENT

    def edge_from(self, source: str) -> Edge:
        """The edge that leaves a node.

        Raises:
            KeyError: No edge leaves it.
        """
        for edge in self.edges:
            if edge.source == source:
                return edge
        raise KeyError(source)

    @property
    def ways(self) -> tuple[Way, ...]:
        """Every step a run may take from one node to another, each with its reasons."""
        return ways_of(self)

    def render(self) -> str:
        """The plan as text: a line for each way, each layer and each tool.

        >>> print(plan(Shape()).render())
        __start__ -> model
        model -> __end__
        """
        return render(self)

    def to_mermaid(self) -> str:
        """The plan as the text of a Mermaid flowchart, which GitHub and others draw.

        >>> print(plan(Shape()).to_mermaid())
        flowchart TD
            n0(["start"])
            n1["model"]
            n2(["end"])
            n0 --> n1
            n1 --> n2
        """
        return to_mermaid(self)

    def to_svg(self) -> str:
        """The plan as a picture: an SVG file that stands alone, for light and dark screens.

        Equal plans give equal files, from one version of Graphviz.

        Raises:
            ImportError: The extra `draw`, which brings Graphviz, is not installed.

        >>> plan(Shape()).to_svg().startswith("<svg ")
        True
        """
        # Far more plans are made than drawn: importing one form less is time saved at each start.
        from agent_factory.render.svg import to_svg

        return to_svg(self)

    def to_html(self) -> str:
        """The plan as one page to move about in: zoom, search, and details of every part.

        It needs no network, can be opened as a file, and can be read without its script.

        Raises:
            ImportError: The extra `draw`, which brings Graphviz, is not installed.

        >>> plan(Shape()).to_html().startswith("<!doctype html>")
        True
        """
        from agent_factory.render.html import to_html

        return to_html(self)

    def to_json(self) -> str:
        """The plan as JSON in one canonical form; `load_topology` reads it back."""
        return to_json(self)

    def diff(self, other: Topology) -> TopologyDiff:
        """What changes from this plan to another one; false where they are alike.

        >>> before = plan(Shape(has_tools=True, tools=(Tool("find"),)))
        >>> after = plan(Shape(has_tools=True, tools=(Tool("find", return_direct=True),)))
        >>> print(before.diff(after).changes[0])
        changed tool find: was plain, now return_direct
        """
        return diff(self, other)

    def explain(self, source: str | None = None, target: str | None = None) -> str:
        """In which order everything runs and why; or, for two nodes, why a way is there.

        Args:
            source: The node a way leaves, with `target`.
            target: The node it reaches.

        Raises:
            KeyError: One of the two is no node of this plan.
            TypeError: Only one of the two is given.

        >>> print(plan(Shape()).explain("model", "__end__"))
        model -> __end__
        - It comes next: nothing decides.
        """
        if source is None and target is None:
            return explain(self)
        if source is None or target is None:
            raise TypeError("explain() takes two nodes, or none.")
        return explain_way(self, source, target)


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
    loop_head = [*by[Phase.BEFORE_MODEL], shape.dialect.model]
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
        # What order makes no difference is put into one, so that plans alike are equal.
        layers=tuple(layer for call in Call for layer in shape.layers if layer.call is call),
        hooks=tuple(hook for phase in Phase for hook in shape.hooks if hook.phase is phase),
        tools=shape.tools,
        retries_output=shape.retries_output,
        dialect=shape.dialect,
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
        skips = shape.may_skip_tools or source != shape.dialect.model
        again = (corners.loop_entry,) if skips else ()
        yield Edge(source, (TOOLS, corners.exit, *again), Route.AFTER_MODEL)
        yield _after_tools(shape, corners)
    elif shape.retries_output:
        yield Edge(source, (corners.loop_entry, corners.exit), Route.RETRY)
    else:
        yield _step(hook_at.get(source), source, corners.exit, corners)


def _after_tools(shape: Shape, corners: _Corners) -> Edge:
    if shape.dialect.tools_stop:
        # Any tool may stop the run, so the way out is always declared.
        return Edge(TOOLS, (corners.loop_entry, corners.exit), Route.AFTER_TOOLS)
    if any(tool.return_direct for tool in shape.tools):
        # Straight out: a result that is the answer passes by what else makes one.
        return Edge(TOOLS, (corners.loop_entry, END), Route.AFTER_TOOLS)
    return Edge(TOOLS, (corners.loop_entry,))
