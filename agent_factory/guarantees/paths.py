"""Paths through a plan: the shortest ones, around nodes that are left out."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import chain, pairwise

from agent_factory.topology.declarations import Access, ToolGuard, UsageLimit
from agent_factory.topology.model import END, MODEL, START, TOOLS, Call, Phase, Route, TopologyData
from agent_factory.topology.planner import jumps_of
from agent_factory.topology.transitions import Transition, transition

Path = tuple[str, ...]
"""Nodes, from the first to the last."""

Edges = Mapping[str, Sequence[str]]
"""The nodes that may follow each node."""

_Declared = ToolGuard | UsageLimit | Access


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
        # What a run enters before its loop, and never again.
        self.once = {START, *plan.nodes[: plan.nodes.index(plan.loop_entry)]}

    @cached_property
    def owners(self) -> dict[str, set[str]]:
        """The middleware of the plan, each with the nodes at which a run passes it."""
        plan, around = self.plan, {Call.AGENT: START, Call.MODEL: self.model, Call.TOOL: TOOLS}
        passed = [(hook.owner, {hook.node}) for hook in plan.hooks]
        passed += [(layer.owner, {around[layer.call]}) for layer in plan.layers]
        # One that only declares something is passed nowhere.
        declared: list[_Declared] = [*plan.guards, *plan.limits, *plan.accesses]
        passed += [(each.owner, set()) for each in declared if "/" not in each.owner]
        owners: dict[str, set[str]] = {}
        for owner, nodes in passed:
            owners.setdefault(owner, set()).update(nodes)
        return owners

    def members(self, pattern: str) -> list[str]:
        """The middleware with a name, or whose names match a pattern."""
        # A name may hold the characters of patterns: "ToolCallLimitMiddleware[search]".
        if pattern in self.owners:
            return [pattern]
        return [owner for owner in self.owners if fnmatchcase(owner, pattern)]

    def nodes_of(self, owner: str, phase: str) -> set[str]:
        """The node of the hook of a middleware in a phase; empty without such a hook."""
        hooks = self.hooks.items()
        return {node for node, hook in hooks if (hook.owner, hook.phase) == (owner, phase)}

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

    def way_past(
        self, places: set[str], source: str, target: str, before: Collection[str] = ()
    ) -> Path:
        """A path from one node to another past some places, and before that past others."""
        start = (START,) if source == START else self.shortest_path(START, source, without=before)
        # A run that is at one of the places has passed it.
        way = () if source in places else self.shortest_path(source, target, without=places)
        return joined(start, way)

    def bypass(self, places: set[str], target: str, *, first: bool = True) -> Path:
        """A path past some places before the first visit of a node, or before a later one.

        Without `first`, what happens before the first visit does not count.
        """
        once = places & self.once
        # A layer around the run is passed before all else, and covers each path.
        if START in once:
            return ()
        start = self.way_past(places, START, target) if first else ()
        # Up to the first visit, only what is passed once counts; then, what each turn passes.
        return start or self.way_past(places, target, target, before=once)

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

    def used_up(self, owners: Iterable[str]) -> Edges:
        """The edges that are left when the limits of some middleware are used up."""
        edges, last = {**self.edges}, self.plan.loop_exit
        for owner in owners:
            before = self.nodes_of(owner, Phase.BEFORE_MODEL)
            hooks = [*before, *self.nodes_of(owner, Phase.AFTER_MODEL)]
            jumping = [node for node in hooks if "end" in self.hooks[node].can_jump_to]
            if self.model in self.owners[owner] and not before & {*jumping}:
                # Without calls, the end of a turn leads out of the loop, or where a hook jumps.
                if self.plan.edge_from(last).route is Route.AFTER_MODEL:
                    targets = {self.plan.exit, *self.jumps_from(last).values()}
                    edges[last] = [node for node in edges[last] if node in targets]
            elif hooks:
                # Without a jump, all that its hook can do is to raise.
                edges[(jumping or hooks)[0]] = [self.plan.exit] if jumping else []
        return edges

    def path_beyond(self, limit: UsageLimit, at: str) -> Path:
        """A path to a call at a node that a limit does not allow; empty if there is none.

        Args:
            limit: The limit.
            at: The node of the calls.
        """
        nodes = self.owners[limit.owner]
        if at == TOOLS:
            return self.bypass(nodes & {TOOLS, *self.nodes_of(limit.owner, Phase.AFTER_MODEL)}, at)
        # No run reaches the model around a hook before it: the last of them leads there.
        if nodes & {at, *self.nodes_of(limit.owner, Phase.BEFORE_MODEL)}:
            return ()
        start = self.shortest_path(START, at)
        # With a limit of 0 the first call is one too many already.
        if limit.most < 1:
            return start
        return joined(start, shortest_path(self.used_up([limit.owner]), at, at))

    def views(self, *, of_calls: bool) -> list[tuple[str, str]]:
        """The nodes and the middleware that see an answer there, or its calls, in their order."""
        # A layer sees a response after those inside of it, and a tool call before them.
        views = [(self.model, x.owner) for x in reversed(self.plan.layers_around(Call.MODEL))]
        views += [(hook.node, hook.owner) for hook in self.plan.run_order(Phase.AFTER_MODEL)]
        around_tools = self.plan.layers_around(Call.TOOL) if of_calls else []
        return [*views, *((TOOLS, layer.owner) for layer in around_tools)]

    def jumps_from(self, node: str) -> dict[str, str]:
        """The jumps of the hook at a node, each with the node that it leads to."""
        return jumps_of(self.plan, self.hooks[node]) if node in self.hooks else {}

    def steps(self, path: Path) -> tuple[Transition, ...]:
        """The edges along a path, with their reasons."""
        return tuple(
            transition(self.plan, self.plan.edge_from(node), following, self.hooks.get(node))
            for node, following in pairwise(path)
        )
