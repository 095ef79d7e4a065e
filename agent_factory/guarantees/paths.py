"""Paths through a plan: the shortest ones, around nodes that are left out."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from agent_factory.topology.declarations import Access, ToolGuard, UsageLimit
from agent_factory.topology.model import (
    END,
    MODEL,
    START,
    TOOLS,
    Call,
    Hook,
    Phase,
    TopologyData,
)
from agent_factory.topology.planner import jumps_of
from agent_factory.topology.transitions import Transition, transition

Path = tuple[str, ...]
"""Nodes, from the first to the last."""

Edges = Mapping[str, Sequence[str]]
"""The nodes that may follow each node."""


class Places(NamedTuple):
    """Nodes at which a run passes middleware.

    Args:
        once: Those that it enters at its start only.
        each_turn: Those that it may enter in each turn.
    """

    once: frozenset[str] = frozenset()
    each_turn: frozenset[str] = frozenset()

    @classmethod
    def in_each_turn(cls, *nodes: str | None) -> Places:
        """Nodes that a run may enter in each turn; None is a node that does not exist."""
        return cls(each_turn=frozenset(filter(None, nodes)))

    @property
    def all(self) -> frozenset[str]:
        """All of them."""
        return self.once | self.each_turn


def union(places: Iterable[Places]) -> Places:
    """The places of several middleware."""
    columns = zip(Places(), *places, strict=True)
    return Places(*(frozenset().union(*column) for column in columns))


def shortest_path(edges: Edges, source: str, target: str, without: Collection[str] = ()) -> Path:
    """The shortest path of at least one step that enters none of some nodes; empty without one.

    >>> shortest_path({"a": ("b", "c"), "b": ("c",)}, "a", "c", without=["b"])
    ('a', 'c')
    """
    previous = _walk(edges, source, without)
    if target not in previous:
        return ()
    path = [target]
    while (step := previous[path[-1]]) != source:
        path.append(step)
    return (source, *reversed(path))


def _walk(edges: Edges, source: str, without: Collection[str] = ()) -> dict[str, str]:
    """The nodes that a walk enters, nearest first, each with the one from which it comes there."""
    previous: dict[str, str] = {}
    waiting = deque([source])
    while waiting:
        node = waiting.popleft()
        for following in edges.get(node, ()):
            if following not in previous and following not in without:
                previous[following] = node
                waiting.append(following)
    return previous


class PlanGraph:
    """The edges of a plan, and the places of its middleware: read once for all sentences.

    Args:
        plan: The plan.
    """

    def __init__(self, plan: TopologyData) -> None:
        self.plan = plan
        self.model = plan.style.model

    @cached_property
    def edges(self) -> dict[str, tuple[str, ...]]:
        """The nodes that may follow each node."""
        return {edge.source: edge.targets for edge in self.plan.edges}

    @cached_property
    def hooks(self) -> dict[str, Hook]:
        """The hooks by their nodes."""
        return {hook.node: hook for hook in self.plan.hooks}

    @cached_property
    def guards(self) -> list[ToolGuard]:
        """The guards of the agent itself, without those of agents inside of tools."""
        return [guard for guard in self.plan.guards if "/" not in guard.owner]

    @cached_property
    def limits(self) -> list[UsageLimit]:
        """The limits of the agent itself, without those of agents inside of tools."""
        return [limit for limit in self.plan.limits if "/" not in limit.owner]

    @cached_property
    def owners(self) -> dict[str, Places]:
        """The middleware of the plan, with the places at which a run passes each."""
        nodes = {Call.AGENT: START, Call.MODEL: self.model, Call.TOOL: TOOLS}
        places = [(h.owner, n, h.phase is Phase.BEFORE_AGENT) for n, h in self.hooks.items()]
        places += [(x.owner, nodes[x.call], x.call is Call.AGENT) for x in self.plan.layers]
        declared: list[ToolGuard | UsageLimit | Access] = [*self.guards, *self.limits]
        declared += [access for access in self.plan.accesses if "/" not in access.owner]
        owners = [*(owner for owner, _, _ in places), *(each.owner for each in declared)]
        return {
            name: Places(
                frozenset(node for owner, node, is_once in places if owner == name and is_once),
                frozenset(node for owner, node, is_once in places if owner == name and not is_once),
            )
            for name in dict.fromkeys(owners)
        }

    def members(self, pattern: str) -> list[str]:
        """The middleware with a name, or whose names match a pattern."""
        # A name may hold the characters of patterns: "ToolCallLimitMiddleware[search]".
        if pattern in self.owners:
            return [pattern]
        return [owner for owner in self.owners if fnmatchcase(owner, pattern)]

    def node_of(self, owner: str, phase: Phase) -> str | None:
        """The node of the hook of a middleware in a phase."""
        nodes = (n for n, hook in self.hooks.items() if (hook.owner, hook.phase) == (owner, phase))
        return next(nodes, None)

    def node_named(self, name: str) -> str | None:
        """The node that a sentence means: by its name, or "start", "end", "model"."""
        node = {"start": START, "end": END, MODEL: self.model}.get(name, name)
        return node if node in (START, END) or node in self.plan.nodes else None

    def has_layer(self, owner: str, call: Call) -> bool:
        """Return True if a middleware has a layer around a kind of call."""
        return any(layer.owner == owner and layer.call is call for layer in self.plan.layers)

    def shortest_path(self, source: str, target: str, without: Collection[str] = ()) -> Path:
        """The shortest path from one node to another, along the edges of the plan."""
        return shortest_path(self.edges, source, target, without)

    def shortest_cycle(self, edges: Edges, without: Collection[str] = ()) -> Path:
        """A shortest way around a loop that a run can reach.

        Args:
            edges: The edges of the loop, some of those of the plan.
            without: Nodes that it does not enter.
        """
        # A run reaches a loop from outside, so a node of it has two edges that lead there.
        nodes = {START, *_walk(self.edges, START)}
        targets = Counter(target for node in nodes for target in self.edges.get(node, ()))
        doors = [node for node, number in targets.items() if number > 1 and node not in without]
        cycles = [shortest_path(edges, node, node, without) for node in sorted(doors)]
        return min(filter(None, cycles), key=len, default=())

    def jumps_from(self, node: str) -> dict[str, str]:
        """The jumps of the hook at a node, each with the node that it leads to."""
        return jumps_of(self.plan, self.hooks[node]) if node in self.hooks else {}

    def steps(self, path: Path) -> tuple[Transition, ...]:
        """The edges along a path, with their reasons."""
        edges = {edge.source: edge for edge in self.plan.edges}
        return tuple(
            transition(self.plan, edges[node], following, self.hooks.get(node))
            for node, following in pairwise(path)
        )
