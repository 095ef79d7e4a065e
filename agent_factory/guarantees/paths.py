"""Paths through a plan: the shortest ones, around nodes that are left out."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import pairwise

from agent_factory.topology.model import MODEL, START, TOOLS, Call, Phase, TopologyData
from agent_factory.topology.transitions import Transition, transitions_of

Path = tuple[str, ...]
"""Nodes, from the first to the last."""

_ONCE = (Phase.BEFORE_AGENT,)
"""The phases that run once, before the loop."""


def edges_of(plan: TopologyData) -> dict[str, tuple[str, ...]]:
    """The nodes that may follow each node."""
    return {edge.source: edge.targets for edge in plan.edges}


def shortest_path(
    edges: Mapping[str, Sequence[str]], source: str, target: str, without: Collection[str] = ()
) -> Path | None:
    """The shortest path of at least one step that enters none of some nodes; None if there is none.

    >>> shortest_path({"a": ("b", "c"), "b": ("c",)}, "a", "c", without=["b"])
    ('a', 'c')
    """
    previous: dict[str, str] = {}
    waiting = deque([source])
    while waiting:
        node = waiting.popleft()
        for following in edges.get(node, ()):
            if following in previous or following in without:
                continue
            previous[following] = node
            if following == target:
                path = [target]
                while (step := previous[path[-1]]) != source:
                    path.append(step)
                return (source, *reversed(path))
            waiting.append(following)
    return None


def shortest_cycle(
    edges: Mapping[str, Sequence[str]], without: Collection[str] = ()
) -> Path | None:
    """A shortest way around a loop that a run can reach and that enters none of some nodes."""
    left = {START, *_reachable(edges, START)} - set(without)
    # A node that leads nowhere in the rest, or that nothing leads to, is in no loop.
    while True:
        inside = {node for node in left if any(n in left for n in edges.get(node, ()))}
        targets = {target for node in inside for target in edges.get(node, ())}
        if (rest := inside & targets) == left:
            break
        left = rest
    cycles = [shortest_path(edges, node, node, without) for node in sorted(left)]
    return min(filter(None, cycles), key=len, default=None)


def _reachable(edges: Mapping[str, Sequence[str]], source: str) -> set[str]:
    nodes, waiting = set[str](), [source]
    while waiting:
        following = set(edges.get(waiting.pop(), ())) - nodes
        nodes |= following
        waiting += following
    return nodes


def steps_of(plan: TopologyData, path: Path) -> tuple[Transition, ...]:
    """The edges along a path, with their reasons."""
    by_nodes = {(step.source, step.target): step for step in transitions_of(plan)}
    return tuple(by_nodes[pair] for pair in pairwise(path))


def members_of(plan: TopologyData, pattern: str) -> list[str]:
    """The middleware of a plan with a name, or whose names match a pattern."""
    owners = dict.fromkeys(
        [
            *(hook.owner for hook in plan.hooks),
            *(layer.owner for layer in plan.layers),
            *(guard.owner for guard in plan.guards if "/" not in guard.owner),
            *(access.owner for access in plan.accesses),
        ]
    )
    # A name may hold the characters of patterns: "ToolCallLimitMiddleware[search]".
    return [pattern] if pattern in owners else [n for n in owners if fnmatchcase(n, pattern)]


def places_of(plan: TopologyData, members: Collection[str]) -> tuple[set[str], set[str]]:
    """The nodes at which a run passes middleware: once, at its start; and in each turn."""
    once, each_turn = set[str](), set[str]()
    for hook in plan.hooks:
        if hook.owner in members:
            (once if hook.phase in _ONCE else each_turn).add(hook.node)
    for layer in plan.layers:
        if layer.owner in members:
            if layer.call is Call.AGENT:
                once.add(START)
            else:
                each_turn.add(TOOLS if layer.call is Call.TOOL else plan.style.model)
    return once, each_turn


def node_named(plan: TopologyData, name: str) -> str | None:
    """The node that a sentence means: by its name, or "start", "end", "model"."""
    names = {"start": START, "end": "__end__", MODEL: plan.style.model}
    node = names.get(name, name)
    known = {START, "__end__", *plan.nodes}
    return node if node in known else None
