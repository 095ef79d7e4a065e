"""What changed between two plans, in words and as data.

A node that comes in or goes shortens or lengthens the ways around it. Those are told with the
node; only ways that lead elsewhere on their own count as rerouted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from enum import StrEnum

from agent_factory.topology.model import MODEL, TOOLS, Call, Tool, TopologyData
from agent_factory.topology.transitions import Transition, TransitionReason, transitions_of


class ChangeKind(StrEnum):
    """What happened to a part of a plan."""

    ADDED = "added"
    REMOVED = "removed"
    MOVED = "moved"
    REROUTED = "rerouted"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class Change:
    """One difference.

    Args:
        kind: What happened.
        part: What it happened to: "node", "way", "layer", "tool".
        name: Which one.
        detail: Where, or from what to what.
    """

    kind: ChangeKind
    part: str
    name: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.part} {self.name}{self.detail and f': {self.detail}'}"


@dataclass(frozen=True, slots=True)
class TopologyDiff:
    """Every difference between two plans; false where there is none.

    Args:
        changes: The differences: nodes, layers, tools, then ways.
    """

    changes: tuple[Change, ...]

    def __bool__(self) -> bool:
        return bool(self.changes)

    def __str__(self) -> str:
        return "\n".join(map(str, self.changes)) or "no difference"

    def to_data(self) -> list[dict[str, str]]:
        """The differences as plain dicts, for machines."""
        return [
            {"kind": str(c.kind), "part": c.part, "name": c.name, "detail": c.detail}
            for c in self.changes
        ]


def diff(old: TopologyData, new: TopologyData) -> TopologyDiff:
    """What changed from `old` to `new`."""
    transitions = list(_ways(old, new))
    return TopologyDiff(
        (
            *_nodes(old, new),
            *(change for call in Call for change in _layers(old, new, call)),
            *_tools(old.tools, new.tools),
            *transitions,
            *_jumps(old, new, {change.name.partition(" -> ")[0] for change in transitions}),
        )
    )


def _nodes(old: TopologyData, new: TopologyData) -> Iterator[Change]:
    leaves = {way.source for way in transitions_of(new)}
    for change in _listed("node", _Listed(_path(old)), _Listed(_path(new))):
        if change.kind is ChangeKind.ADDED and change.name in leaves:
            more = [w for w in _ways_from(new, change.name) if not _is_next(w)]
            words = [f"may go to {way.target} [{_why(way)}]" for way in more]
            change = replace(change, detail="; ".join([change.detail, *words]))
        yield change


def _path(plan: TopologyData) -> list[str]:
    """The nodes in the order of a run; the tools stand beside it."""
    return [*([TOOLS] if TOOLS in plan.nodes else []), *(n for n in plan.nodes if n != TOOLS)]


def _layers(old: TopologyData, new: TopologyData, call: Call) -> Iterator[Change]:
    def names(plan: TopologyData) -> list[str]:
        return [f"{x.owner}.{x.method}" for x in plan.layers if x.call is call]

    words = f"around each {call} call,"
    yield from _listed("layer", _Listed(names(old), words), _Listed(names(new), words))


@dataclass(frozen=True, slots=True)
class _Listed:
    """Names in an order, and the words that say where in it one stands."""

    names: Sequence[str]
    words: str = ""

    def place(self, name: str) -> str:
        if name == TOOLS:
            return f"beside {MODEL}"
        at = list(self.names).index(name)
        before = self.names[at - 1] if at and self.names[at - 1] != TOOLS else ""
        after = self.names[at + 1] if at + 1 < len(self.names) else ""
        where = [f"after {before}" if before else "", f"before {after}" if after else ""]
        found = " and ".join(filter(None, where)) or "alone"
        return f"{self.words} {found}" if self.words else found


def _listed(part: str, old: _Listed, new: _Listed) -> Iterator[Change]:
    """Names that came, went, or changed places with each other."""
    for name in old.names:
        if name not in new.names:
            yield Change(ChangeKind.REMOVED, part, name, f"it was {old.place(name)}")
    for name in new.names:
        if name not in old.names:
            yield Change(ChangeKind.ADDED, part, name, new.place(name))
    for name in _moved(old.names, new.names):
        yield Change(ChangeKind.MOVED, part, name, f"now {new.place(name)}")


def _moved(old: Sequence[str], new: Sequence[str]) -> list[str]:
    """The fewest names to take out so that the common ones keep their order."""
    before = [name for name in old if name in new]
    after = [name for name in new if name in old]
    blocks = SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks()
    stayed = {name for block in blocks for name in after[block.b : block.b + block.size]}
    return [name for name in after if name not in stayed]


def _tools(old: Sequence[Tool], new: Sequence[Tool]) -> Iterator[Change]:
    was, now = {t.name: t for t in old}, {t.name: t for t in new}
    for name in [name for name in was if name not in now]:
        yield Change(ChangeKind.REMOVED, "tool", name)
    for name in [name for name in now if name not in was]:
        yield Change(ChangeKind.ADDED, "tool", name, ", ".join(_notes(now[name])))
    for name in [name for name in now if name in was and now[name] != was[name]]:
        before, after = (", ".join(_notes(t[name])) or "plain" for t in (was, now))
        yield Change(ChangeKind.CHANGED, "tool", name, f"was {before}, now {after}")
    for name in _moved(list(was), list(now)):
        yield Change(ChangeKind.MOVED, "tool", name, f"now {_Listed(list(now)).place(name)}")


def _notes(tool: Tool) -> Iterator[str]:
    if tool.kind != "client":
        yield str(tool.kind)
    if tool.return_direct:
        yield "return_direct"
    if tool.owner:
        yield f"by {tool.owner}"


def _ways(old: TopologyData, new: TopologyData) -> Iterator[Change]:
    shared = _ends(old) & _ends(new)
    fixed = shared - set(_moved(_path(old), _path(new)))
    was, now = _contracted(old, shared, fixed), _contracted(new, shared, fixed)
    gone = [pair for pair in was if pair not in now]
    come = [pair for pair in now if pair not in was]
    for source, target in list(gone):
        why = was[source, target]
        instead = [p for p in come if p[0] == source and now[p] == why]
        if instead:
            come.remove(instead[0])
            gone.remove((source, target))
            detail = f"now to {instead[0][1]}{_because(why)}"
            yield Change(ChangeKind.REROUTED, "way", f"{source} -> {target}", detail)
    for pair in gone:
        yield Change(ChangeKind.REMOVED, "way", " -> ".join(pair), was[pair])
    for pair in come:
        yield Change(ChangeKind.ADDED, "way", " -> ".join(pair), now[pair])
    for pair in [pair for pair in now if pair in was and now[pair] != was[pair]]:
        detail = f"was [{was[pair]}], now [{now[pair]}]"
        yield Change(ChangeKind.CHANGED, "way", " -> ".join(pair), detail)


def _because(why: str) -> str:
    return f" [{why}]" if why != TransitionReason.NEXT else ""


def _ends(plan: TopologyData) -> set[str]:
    return {node for way in transitions_of(plan) for node in (way.source, way.target)}


def _contracted(
    plan: TopologyData, shared: set[str], fixed: set[str]
) -> Mapping[tuple[str, str], str]:
    """The ways between nodes that both plans have, with their reasons.

    What merely comes next is followed past nodes that came, went or moved: that is told with them.
    """
    return {
        (way.source, _onward(plan, way.target, fixed)): _why(way)
        for way in transitions_of(plan)
        if way.source in (fixed if _is_next(way) else shared)
        and (way.target != TOOLS or TOOLS in shared)
    }


def _onward(plan: TopologyData, node: str, fixed: set[str]) -> str:
    while node not in fixed:
        node = plan.edge_from(node).targets[0]
    return node


def _is_next(way: Transition) -> bool:
    return way.reasons[0].why is TransitionReason.NEXT


def _ways_from(plan: TopologyData, source: str) -> list[Transition]:
    return [way for way in transitions_of(plan) if way.source == source]


def _why(way: Transition) -> str:
    return "; ".join(map(str, way.reasons))


def _jumps(old: TopologyData, new: TopologyData, told: set[str]) -> Iterator[Change]:
    """Declared jumps that make no difference to the ways, such as one to the node itself."""
    was = {hook.node: hook.can_jump_to for hook in old.hooks}
    for hook in new.hooks:
        before = was.get(hook.node, hook.can_jump_to)
        if before != hook.can_jump_to and hook.node not in told:
            words = f"may jump to {_set(hook.can_jump_to)}, and not to {_set(before)}"
            yield Change(ChangeKind.CHANGED, "node", hook.node, words)


def _set(jumps: frozenset[str]) -> str:
    return ", ".join(sorted(jumps)) or "nothing"
