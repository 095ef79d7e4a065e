"""Paths through a plan: the shortest ones, around nodes that are left out."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import chain, pairwise

from agent_factory.topology.declarations import Access, ToolGuard, UsageLimit
from agent_factory.topology.model import END, MODEL, START, TOOLS, Call, Phase, TopologyData
from agent_factory.topology.planner import jumps_of
from agent_factory.topology.transitions import Transition, transition

Path = tuple[str, ...]
"""Nodes, from the first to the last."""

Edges = Mapping[str, Sequence[str]]
"""The nodes that may follow each node."""


def shortest_path(edges: Edges, source: str, target: str, without: Collection[str] = ()) -> Path:
    """The shortest path of at least one step that enters none of some nodes; empty without one.

    >>> shortest_path({"a": ("b", "c"), "b": ("c",)}, "a", "c", without=["b"])
    ('a', 'c')
    """
    previous: dict[str, str] = {}
    waiting = deque([source])
    while waiting and target not in previous:
        node = waiting.popleft()
        for following in edges.get(node, ()):
            if following not in previous and following not in without:
                previous[following] = node
                waiting.append(following)
    if target not in previous:
        return ()
    path = [target]
    while (step := previous[path[-1]]) != source:
        path.append(step)
    return (source, *reversed(path))


def joined(first: Path, *others: Path) -> Path:
    """Paths one after the other; empty if one of them is missing.

    >>> joined(("a", "b"), ("b", "c", "d"))
    ('a', 'b', 'c', 'd')
    """
    # Each path begins with the node at which the one before it ends.
    steps = chain(first, *(path[1:] for path in others))
    return tuple(steps) if all((first, *others)) else ()


class PlanGraph:
    """The edges of a plan, and the nodes of its middleware: read once for all sentences.

    Args:
        plan: The plan.
    """

    def __init__(self, plan: TopologyData) -> None:
        self.plan = plan
        self.model = plan.style.model
        self.edges: Edges = {edge.source: edge.targets for edge in plan.edges}
        self.hooks = {hook.node: hook for hook in plan.hooks}
        # Those of agents inside of tools ("clerk/Review") are the matter of these agents.
        self.guards = [guard for guard in plan.guards if "/" not in guard.owner]
        self.limits = [limit for limit in plan.limits if "/" not in limit.owner]

    @cached_property
    def owners(self) -> dict[str, set[str]]:
        """The middleware of the plan, each with the nodes at which a run passes it."""
        plan, around = self.plan, {Call.AGENT: START, Call.MODEL: self.model, Call.TOOL: TOOLS}
        passed = [(hook.owner, {hook.node}) for hook in plan.hooks]
        passed += [(layer.owner, {around[layer.call]}) for layer in plan.layers]
        # One that only declares something is passed nowhere.
        declared: list[ToolGuard | UsageLimit | Access] = [
            *plan.guards,
            *plan.limits,
            *plan.accesses,
        ]
        passed += [(each.owner, set()) for each in declared if "/" not in each.owner]
        owners: dict[str, set[str]] = {}
        for owner, nodes in passed:
            owners.setdefault(owner, set()).update(nodes)
        return owners

    @cached_property
    def at_start(self) -> set[str]:
        """The nodes that a run enters before the loop, and never again."""
        hooks = self.hooks.items()
        return {START, *(node for node, hook in hooks if hook.phase is Phase.BEFORE_AGENT)}

    def members(self, pattern: str) -> list[str]:
        """The middleware with a name, or whose names match a pattern."""
        # A name may hold the characters of patterns: "ToolCallLimitMiddleware[search]".
        if pattern in self.owners:
            return [pattern]
        return [owner for owner in self.owners if fnmatchcase(owner, pattern)]

    def nodes_of(self, owner: str, phase: str) -> set[str]:
        """The node of the hook of a middleware in a phase; empty without such a hook."""
        hooks = self.hooks
        return {n for n in self.owners[owner] if n in hooks and hooks[n].phase == phase}

    def place_of(self, guard: ToolGuard) -> set[str]:
        """The node at which a guard decides; empty if its middleware has no such hook."""
        return {TOOLS} if guard.place == "around_tool" else self.nodes_of(guard.owner, guard.place)

    def node_named(self, name: str) -> str | None:
        """The node that a sentence means: by its name, or "start", "end", "model"."""
        node = {"start": START, "end": END, MODEL: self.model}.get(name, name)
        return node if node in (START, END) or node in self.plan.nodes else None

    def shortest_path(self, *nodes: str, without: Collection[str] = ()) -> Path:
        """The shortest path from each of some nodes to the next, along the edges of the plan."""
        parts = (shortest_path(self.edges, *pair, without) for pair in pairwise(nodes))
        return joined(nodes[:1], *parts)

    def shortest_cycle(self, edges: Edges, without: Collection[str] = ()) -> Path:
        """A shortest way around a loop.

        Args:
            edges: The edges of the loop, some of those of the plan.
            without: Nodes that it does not enter.
        """
        # A run comes to a loop from outside, so a node of it has two edges that lead there.
        targets = Counter(chain.from_iterable(self.edges.values()))
        doors = [node for node, number in targets.items() if number > 1 and node not in without]
        cycles = [shortest_path(edges, node, node, without) for node in sorted(doors)]
        return min(filter(None, cycles), key=len, default=())

    def jumps_from(self, node: str) -> dict[str, str]:
        """The jumps of the hook at a node, each with the node that it leads to."""
        return jumps_of(self.plan, self.hooks[node]) if node in self.hooks else {}

    def steps(self, path: Path) -> tuple[Transition, ...]:
        """The edges along a path, with their reasons."""
        return tuple(
            transition(self.plan, self.plan.edge_from(node), following, self.hooks.get(node))
            for node, following in pairwise(path)
        )
