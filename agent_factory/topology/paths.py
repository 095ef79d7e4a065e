"""Paths through a plan: the shortest paths that avoid some nodes."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache, cached_property
from itertools import chain, pairwise, product
from types import MappingProxyType
from typing import Any, NamedTuple

from agent_factory.topology.declarations import JOBS, AccessKind, ToolGuard, UsageLimit
from agent_factory.topology.model import END, MODELS, START, TOOLS, Call, Phase, Route, TopologyData
from agent_factory.topology.planner import jumps_of
from agent_factory.topology.transitions import Transition, transition

Path = tuple[str, ...]
"""Nodes, from the first to the last."""

Edges = Mapping[str, Sequence[str]]
"""The nodes that may follow each node."""


class Position(NamedTuple):
    """Position in a run: a node, or a layer in a node.

    Args:
        node: The node.
        step: At the model, 0 is the model and layers follow, the innermost first. At the tools,
            their layers come first, the outermost at 0, then `AGAIN` and `RUN`.
    """

    node: str
    step: int = 0


Ways = Mapping[Position, "Position | None"]
"""Positions from which a run can reach a target, each with the position that comes next."""

AGAIN, RUN = Position(TOOLS, 1_000_000), Position(TOOLS, 1_000_001)
"""Where guards that decide again about changed calls do so, and where the tool runs."""

_ENDLESS = ("tool calls", "USD", JOBS)
"""Units of limits that end no loop: a refused tool call uses none, and a call may cost nothing."""


class Origin(NamedTuple):
    """Position from which a call, or an answer, may come unchanged.

    Args:
        position: The position.
        owner: The middleware that writes the call; empty for the model and the input.
        name: The node, or the layer, that writes the call.
        jumps: A hook writes the call before a jump.
    """

    position: Position
    owner: str = ""
    name: str = ""
    jumps: bool = False


def _walk(edges: Mapping[Any, Iterable[Any]], start: Any, without: Collection[Any]) -> Any:
    """The nodes that a walk reaches, each with the node before; the nearest first."""
    previous, waiting = dict[Any, Any](), deque([start])
    while waiting:
        node = waiting.popleft()
        for following in edges.get(node, ()):
            if following not in previous and following not in without:
                previous[following] = node
                waiting.append(following)
    return previous


def shortest_path(edges: Edges, source: str, target: str, without: Collection[str] = ()) -> Path:
    """The shortest path of at least one step that avoids some nodes; empty without a path.

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


def joined(first: Path, *others: Path) -> Path:
    """Join paths; empty if any of them is missing.

    >>> joined(("a", "b"), ("b", "c", "d"))
    ('a', 'b', 'c', 'd')
    """
    # Each path begins with the last node of the path before.
    steps = chain(first, *(path[1:] for path in others))
    return tuple(steps) if all((first, *others)) else ()


class PlanGraph:
    """The edges of a plan, and the nodes of middleware: read once for all sentences."""

    def __init__(
        self, plan: TopologyData, schemas: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
    ) -> None:
        self.plan, self.schemas = plan, schemas
        self.model, self.models = plan.style.model, [n for n in plan.nodes if n in MODELS]
        self.edges: Edges = {edge.source: edge.targets for edge in plan.edges}
        self.hooks = {hook.node: hook for hook in plan.hooks}
        # Guards and limits of agents inside of tools ("clerk/Review") matter to these agents.
        self.guards = [guard for guard in plan.guards if "/" not in guard.owner]
        self.limits = [limit for limit in plan.limits if "/" not in limit.owner]
        # Nodes that a run enters only before the loop.
        self.once = {START, *plan.nodes[: plan.nodes.index(plan.loop_entry)]}
        self.path_beyond, self.origins = cache(self._path_beyond), cache(self._origins)

    @cached_property
    def owners(self) -> dict[str, set[str]]:
        """The middleware of the plan, each with the nodes at which a run passes it."""
        around = {Call.AGENT: START, Call.MODEL: self.model, Call.TOOL: TOOLS}
        visits = [(hook.owner, {node}) for node, hook in self.hooks.items()]
        visits += [(layer.owner, {around[layer.call]}) for layer in self.plan.layers]
        # A middleware with declarations alone is passed nowhere.
        declarations: list[Any] = [*self.plan.guards, *self.plan.limits, *self.plan.accesses]
        visits += [(each.owner, set()) for each in declarations if "/" not in each.owner]
        owners: dict[str, set[str]] = {}
        for owner, nodes in visits:
            owners.setdefault(owner, set()).update(nodes)
        return owners

    @cached_property
    def ending(self) -> dict[str, bool]:
        """The middleware whose limits end loops, unless a layer further out writes calls: False."""
        layers = [layer.owner for layer in self.plan.layers_around(Call.MODEL)]
        writes = [access for access in self.plan.accesses if access.kind is AccessKind.WRITES]
        writers = {access.owner for access in writes if "tool_calls" in access.aspects}
        owners = [limit.owner for limit in self.limits if limit.unit not in _ENDLESS]
        return {x: x not in layers or writers.isdisjoint(layers[: layers.index(x)]) for x in owners}

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

    def positions_of(self, guard: ToolGuard) -> set[Position]:
        """The positions at which a guard decides; empty for a middleware without such a place."""
        if guard.decides_again and guard.place == "around_tool":
            return {AGAIN} if guard.owner in self.owners else set()
        node = TOOLS if guard.place == "around_tool" else f"{guard.owner}.{guard.place}"
        return {p for p in self.positions.get(guard.owner, ()) if p.node == node}

    @property
    def end(self) -> Position:
        """The position at the end of a run, outside of all layers around the run."""
        return Position(END, len(self.plan.layers_around(Call.AGENT)))

    def node_named(self, name: str) -> str | None:
        """The node of a sentence: by its name, or "start", "end", "model"."""
        node = {"start": START, "end": END, "model": self.model}.get(name, name)
        return node if node in (START, END) or node in self.plan.nodes else None

    def shortest_path(self, *nodes: str, without: Collection[str] = ()) -> Path:
        """The shortest path from each of some nodes to the next, along the edges of the plan."""
        parts = (shortest_path(self.edges, *pair, without) for pair in pairwise(nodes))
        return joined(nodes[:1], *parts)

    def way_past(
        self, places: set[str], source: str, target: str, before: Collection[str] = ()
    ) -> Path:
        """A path between two nodes around some places, and before the source around `before`."""
        start = (START,) if source == START else self.shortest_path(START, source, without=before)
        # A run at a place has passed the place.
        way = () if source in places else self.shortest_path(source, target, without=places)
        return joined(start, way)

    def bypass(self, places: set[str]) -> Path:
        """A path around some places to the first call of the model, or from a call to the next."""
        once, models = places & self.once, self.models
        # A layer around the run comes before all else, and covers each path.
        if START in once:
            return ()
        # Up to the first call, only places passed once count; then, the places of each turn.
        first = (self.way_past(places, START, node) for node in models)
        later = (self.way_past(places, *pair, before=once) for pair in product(models, models))
        return next(filter(None, chain(first, later)), ())

    def endless(self, places: Collection[str] = (), *, is_limited: bool = True) -> Path:
        """A cycle around some places without the end of a limit; empty without a cycle."""
        limits = self.ending if is_limited else {}
        # A loop without the model uses nothing. A loop that remains after all limits never ends.
        free = self.shortest_cycle(self.edges, {*places, self.model}) if limits else ()
        used_up = self.used_up(owner for owner, ends in limits.items() if ends)
        return free or self.shortest_cycle(used_up, places)

    def shortest_cycle(self, edges: Edges, without: Collection[str] = ()) -> Path:
        """A shortest cycle around some nodes, along some edges of the plan."""
        # A run comes to a loop from outside, so two edges lead to a node of the loop.
        targets = Counter(chain.from_iterable(self.edges.values()))
        doors = [node for node, number in targets.items() if number > 1 and node not in without]
        cycles = [shortest_path(edges, node, node, without) for node in sorted(doors)]
        return min(filter(None, cycles), key=len, default=())

    def used_up(self, owners: Iterable[str]) -> Edges:
        """The edges after the limits of some middleware are used up."""
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
                # Without a jump, the hook can only raise.
                edges[(jumping or hooks)[0]] = [self.plan.exit] if jumping else []
        return edges

    def _path_beyond(self, limit: UsageLimit) -> Path:
        """A path to a call above a limit; empty if there is none."""
        nodes, at = self.owners[limit.owner], self.model
        if limit.unit == "tool calls":
            return self._uncounted(limit)
        # No run reaches the model around the hooks before: the last of them leads there.
        if nodes & {at, *self.nodes_of(limit.owner, Phase.BEFORE_MODEL)}:
            return ()
        start = self.shortest_path(START, at)
        # With a limit of 0, the first call is above the limit already, and so is the first call of
        # the next run of a thread with a limit used up.
        if limit.most < 1 or limit.scope != "run":
            return start
        return joined(start, shortest_path(self.used_up([limit.owner]), at, at))

    def _uncounted(self, limit: UsageLimit) -> Path:
        """A path with a tool call that a limit has not counted."""
        counters = {p for p in self.positions.get(limit.owner, ()) if self.sees(p)}
        ways = self.ways_to(RUN, counters)
        for origin in self.origins():
            # A layer around tools adds no calls; at most, the layer calls another tool instead.
            is_other = limit.tool or not origin.owner or origin.position.node != TOOLS
            if origin.position in ways and origin.position not in counters and is_other:
                return self.path_of(origin.position, ways)
        return ()

    def path_of(self, source: Position, ways: Ways, before: Collection[str] = ()) -> Path:
        """The nodes of a run that comes to a position past some nodes, and goes on from there."""
        node = source.node
        first: Path = (START,) if node == START else self.shortest_path(START, node, without=before)
        if not first:
            once = {*before} & self.once
            later = self.shortest_path(TOOLS, node, without=before)
            first = joined(self.shortest_path(START, TOOLS, without=once), later)
        positions, position = [source], ways[source]
        while position is not None:
            positions.append(position)
            position = ways[position]
        # Layers are within their node; a step back is the same node once more.
        steps = [b.node for a, b in pairwise(positions) if a.node != b.node or a.step >= b.step]
        return (*first, *steps)

    @cached_property
    def positions(self) -> dict[str, set[Position]]:
        """The middleware, each with the positions at which a run passes it."""
        positions = defaultdict[str, set[Position]](set)
        for node, hook in self.hooks.items():
            positions[hook.owner].add(Position(node))
        # A layer sees a response after the layers inside, and a tool call before them.
        for step, layer in enumerate(reversed(self.plan.layers_around(Call.MODEL)), 1):
            positions[layer.owner].add(Position(self.model, step))
        for step, layer in enumerate(self.plan.layers_around(Call.TOOL)):
            positions[layer.owner].add(Position(TOOLS, step))
        # A layer around the run sees the input first, and the answer last.
        for step, layer in enumerate(reversed(self.plan.layers_around(Call.AGENT))):
            positions[layer.owner] |= {Position(START), Position(END, step)}
        return positions

    def sees(self, position: Position, *, answers: bool = False) -> bool:
        """Return True if an answer of the model, or a call, passes a position."""
        node, hook = position.node, self.hooks.get(position.node)
        phases = (Phase.AFTER_MODEL, Phase.AFTER_AGENT) if answers else (Phase.AFTER_MODEL,)
        around = (self.model, END) if answers else (self.model, TOOLS)
        return hook.phase in phases if hook else node in around

    @cached_property
    def _neighbours(self) -> tuple[Mapping[Position, list[Position]], ...]:
        """The positions that may follow each position, and those that may come before."""
        model, tools = (len(self.plan.layers_around(call)) for call in (Call.MODEL, Call.TOOL))
        around_run = len(self.plan.layers_around(Call.AGENT))
        inside = {
            self.model: [Position(self.model, step) for step in range(model + 1)],
            TOOLS: [*(Position(TOOLS, step) for step in range(tools)), AGAIN, RUN],
            END: [Position(END, step) for step in range(around_run + 1)],
        }
        following = defaultdict[Position, list[Position]](list)
        for positions in inside.values():
            for position, next_position in pairwise(positions):
                following[position].append(next_position)
        for source, targets in self.edges.items():
            last = inside.get(source, [Position(source)])[-1]
            following[last] += [inside.get(target, [Position(target)])[0] for target in targets]
        if around_run:  # a layer around the run may answer instead
            following[Position(START)].append(Position(END))
        previous = defaultdict[Position, list[Position]](list)
        for position, next_positions in following.items():
            for next_position in next_positions:
                previous[next_position].append(position)
        return following, previous

    def _origins(self, *, answers: bool = False) -> list[Origin]:
        """The positions from which calls or answers come.

        Calls may come with the input, or be left by an earlier run. A layer around the model may
        answer in place of the model, as a cache does. A hook may write a call before a jump to the
        tools, and an answer before a jump to the end. Other members declare their writes.
        """
        jump, aspect = ("end", "answers") if answers else ("tools", "tool_calls")
        # A call for the structured answer alone brings no tool calls.
        nodes = self.models if answers else [START, self.model]
        origins = [Origin(Position(node), name=node) for node in nodes]
        for step, layer in enumerate(reversed(self.plan.layers_around(Call.MODEL)), 1):
            origins.append(Origin(Position(self.model, step), layer.owner, layer.name))
        for node, hook in self.hooks.items():
            if jump in hook.can_jump_to:
                origins.append(Origin(Position(node), hook.owner, node, jumps=True))
        for access in self.plan.accesses:
            # A sanitizer changes text, too.
            changes = access.kind in (AccessKind.WRITES, AccessKind.SANITIZES)
            if changes and aspect in access.aspects:
                for position in sorted(self.positions.get(access.owner, ())):
                    if position.node not in (START, self.model):
                        origins.append(Origin(position, access.owner, position.node))
        return origins

    def ways_to(self, target: Position, without: Collection[Position]) -> Ways:
        """The positions on paths to a target, each with the next; no path enters `without`."""
        _, previous = self._neighbours
        return {**_walk(previous, target, without), target: None}

    def reached(self, without: Collection[Position]) -> set[Position]:
        """The positions that a run can reach in a turn around `without`.

        A position before the loop counts for all turns of a run.
        """
        start, (following, _) = Position(START), self._neighbours
        if start in without:
            return set()
        positions = {start, *_walk(following, start, without)}
        once = {position for position in without if position.node in self.once}
        if RUN in _walk(following, start, once):
            positions |= {RUN, *_walk(following, RUN, without)}
        return positions

    def jumps_from(self, node: str) -> dict[str, str]:
        """The jumps of the hook at a node, each with its target."""
        return jumps_of(self.plan, self.hooks[node]) if node in self.hooks else {}

    def steps(self, path: Path) -> tuple[Transition, ...]:
        """The edges along a path, with their reasons."""
        return tuple(
            transition(self.plan, self.plan.edge_from(node), following, self.hooks.get(node))
            for node, following in pairwise(path)
        )
