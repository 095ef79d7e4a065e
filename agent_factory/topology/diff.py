"""Changes between two plans, in words and as data.

An added or removed node lengthens or shortens the edges around the node. Such edges are part of
the change of the node; only edges with another target for another reason count as rerouted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from difflib import SequenceMatcher
from enum import StrEnum
from typing import Any

from agent_factory.topology.model import (
    MODEL,
    TOOLS,
    Call,
    Edge,
    Hook,
    Layer,
    Tool,
    TopologyData,
    printable,
)
from agent_factory.topology.transitions import Transition, TransitionReason, transitions_of


class ChangeKind(StrEnum):
    """Kind of a change of a part of a plan."""

    ADDED = "added"
    REMOVED = "removed"
    MOVED = "moved"
    REROUTED = "rerouted"
    CHANGED = "changed"
    RENAMED = "renamed"


@dataclass(frozen=True, slots=True)
class Change:
    """Difference between two plans.

    Args:
        kind: Kind of the change.
        part: The kind of the changed part: "middleware", "node", "edge", "layer", "tool",
            "guard", "limit", "access", "setting" or "former name".
        name: The part's name; of a renamed middleware both names, "Old -> New".
        detail: The place of the part, or the values before and now.
    """

    kind: ChangeKind
    part: str
    name: str
    detail: str = ""

    def __str__(self) -> str:
        return printable(f"{self.kind} {self.part} {self.name}{self.detail and f': {self.detail}'}")


@dataclass(frozen=True, slots=True)
class TopologyDiff:
    """Every difference between two plans; false if there is none.

    Args:
        changes: The differences: new names, nodes, layers, tools, settings, former names, then
            edges.
    """

    changes: tuple[Change, ...]

    def __bool__(self) -> bool:
        return bool(self.changes)

    def __str__(self) -> str:
        return "\n".join(map(str, self.changes)) or "No differences."

    def to_data(self) -> list[dict[str, str]]:
        """The differences as plain dicts, for JSON."""
        return [{**asdict(change), "kind": str(change.kind)} for change in self.changes]

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """The forms for a notebook: a table, and the text."""
        # Imported here: a picture needs this module, and few programs display one.
        from agent_factory.topology.render.notebook import paragraphs, table

        rows = [[str(c.kind), c.part, c.name, c.detail] for c in self.changes]
        columns = ["change", "part", "name", "detail"]
        html = table(columns, rows) if rows else paragraphs([str(self)])
        return {"text/plain": str(self), "text/html": html}


def diff(old: TopologyData, new: TopologyData) -> TopologyDiff:
    """Return the changes from `old` to `new`.

    A middleware with another name and otherwise equal hooks, layers and tools is renamed. Settings
    are compared if both plans hold them.
    """
    names = _new_names(old, new)
    changes = [
        Change(ChangeKind.RENAMED, "middleware", f"{was} -> {now}") for was, now in names.items()
    ]
    # With the new names in the old plan, parts of a renamed middleware are not reported again.
    old = _renamed(old, names)
    for change in _listed("node", _node_order(old), _node_order(new)):
        jumps = []
        if change.kind is ChangeKind.ADDED:
            leaving = [edge for edge in transitions_of(new) if edge.source == change.name]
            jumps = [f"may go to {e.target} [{_reasons(e)}]" for e in leaving if not _is_next(e)]
        changes.append(replace(change, detail="; ".join([change.detail, *jumps])))
    for call in Call:
        before, after = ([x.name for x in plan.layers_around(call)] for plan in (old, new))
        changes += _listed("layer", before, after, f"around {call.phrase}, ")
    attempts = {layer.name: layer.attempts for layer in old.layers}
    for layer in new.layers:
        if attempts.get(layer.name, layer.attempts) != layer.attempts:
            words = f"was up to {attempts[layer.name]} attempts, now {layer.attempts}"
            changes.append(Change(ChangeKind.CHANGED, "layer", layer.name, words))
    was, now = ({t.name: ", ".join(t.notes) for t in plan.tools} for plan in (old, new))
    # Removed tools, then added tools, then the tools of both plans.
    tools = _compared("tool", was, now)
    changes += sorted(tools, key=lambda change: (change.name in now, change.name in was))
    orders = _listed("tool", list(was), list(now))
    changes += (change for change in orders if change.kind is ChangeKind.MOVED)
    changes += _declared(old, new)
    edges = list(_edges(old, new))
    changes += edges
    # Declared jumps without an edge, such as a jump to the node itself.
    sources = {change.name.partition(" -> ")[0] for change in edges}
    for hook in new.hooks:
        former = old.hook_at(hook.node)
        if former and former.can_jump_to != hook.can_jump_to and hook.node not in sources:
            jumps = [", ".join(sorted(h.can_jump_to)) or "nothing" for h in (hook, former)]
            words = f"may jump to {jumps[0]}, was {jumps[1]}"
            changes.append(Change(ChangeKind.CHANGED, "node", hook.node, words))
    return TopologyDiff(tuple(changes))


def _new_names(old: TopologyData, new: TopologyData) -> dict[str, str]:
    """The new names of middleware that are equal in everything else, by their old names."""

    only_in_one = _owners(old) ^ _owners(new)

    def owners_by_shape(plan: TopologyData) -> dict[tuple[object, ...], list[str]]:
        shapes, owners = defaultdict[str, list[object]](list), defaultdict[Any, list[str]](list)
        for part in _owned(plan):
            # Without the owner's name, the parts of equal middleware are equal. A tool without an
            # owner is the agent's own.
            if part.owner in only_in_one - {""}:
                shapes[part.owner].append(replace(part, owner=""))
        for owner, shape in shapes.items():
            owners[tuple(shape)].append(owner)
        return owners

    then, now = owners_by_shape(old), owners_by_shape(new)
    # If one of two equal middleware is gone, the new name may belong to either.
    pairs = [(then[shape], now.get(shape, [])) for shape in then]
    return {a: b for x, y in pairs if len(x) == len(y) for a, b in zip(x, y, strict=True)}


def _owned(plan: TopologyData) -> list[Hook | Layer | Tool]:
    return [*plan.hooks, *plan.layers, *plan.tools]


def _owners(plan: TopologyData) -> set[str]:
    return {part.owner for part in _owned(plan)}


def _renamed(plan: TopologyData, names: Mapping[str, str]) -> TopologyData:
    """The plan with other names of middleware."""
    parts: dict[str, Any] = {
        field: tuple(replace(x, owner=names.get(x.owner, x.owner)) for x in getattr(plan, field))
        for field in ("layers", "hooks", "tools", "settings", "guards", "limits", "accesses")
    }
    hooks: tuple[Hook, ...] = parts["hooks"]
    nodes = {was.node: now.node for was, now in zip(plan.hooks, hooks, strict=True)}

    def node(name: str) -> str:
        return nodes.get(name, name)

    for corner in ("entry", "loop_entry", "loop_exit", "exit"):
        parts[corner] = node(getattr(plan, corner))
    edges = (Edge(node(e.source), tuple(map(node, e.targets)), e.route) for e in plan.edges)
    return replace(plan, nodes=tuple(map(node, plan.nodes)), edges=tuple(edges), **parts)


def _node_order(plan: TopologyData) -> list[str]:
    """The nodes in the order of a run; the tools come first, as they stand next to the model."""
    # The sort is stable: all other nodes keep their order.
    return sorted(plan.nodes, key=lambda node: node != TOOLS)


def _place(name: str, names: Sequence[str]) -> str:
    """The place of a name in an order, by the neighbours."""
    if name == TOOLS:
        return f"next to {MODEL}"
    index = names.index(name)
    before = names[index - 1] if index and names[index - 1] != TOOLS else ""
    after = names[index + 1] if index + 1 < len(names) else ""
    neighbours = [f"after {before}" if before else "", f"before {after}" if after else ""]
    return " and ".join(filter(None, neighbours)) or "alone"


def _listed(part: str, old: Sequence[str], new: Sequence[str], where: str = "") -> Iterator[Change]:
    """Changes of an order: names added, removed, or moved."""
    for name in old:
        if name not in new:
            yield Change(ChangeKind.REMOVED, part, name, f"it was {where}{_place(name, old)}")
    for name in new:
        if name not in old:
            yield Change(ChangeKind.ADDED, part, name, f"{where}{_place(name, new)}")
    for name in _moved(old, new):
        yield Change(ChangeKind.MOVED, part, name, f"now {where}{_place(name, new)}")


def _moved(old: Sequence[str], new: Sequence[str]) -> list[str]:
    """The fewest names to take out, so that all other common names keep their order."""
    before = [name for name in old if name in new]
    after = [name for name in new if name in old]
    # autojunk is for texts: in long lists it ignores frequent items.
    blocks = SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks()
    stable = {name for block in blocks for name in after[block.b : block.b + block.size]}
    return [name for name in after if name not in stable]


_DECLARED = "{}", "it was: {}", "was {}, now {}"
_DETAILS = {
    "tool": ("{}", "", "was {}, now {}"),
    "guard": _DECLARED,
    "limit": _DECLARED,
    "access": _DECLARED,
    "setting": ("{}", "{}", "{} -> {}"),
    "former name": ("of {}", "of {}", "of {} -> {}"),
}
"""Details of what was added, removed and changed, by its part, with a place for each text."""


def _declared(old: TopologyData, new: TopologyData) -> Iterator[Change]:
    """Differences of declarations of middleware, settings and former names."""
    # Settings of middleware that are added or removed are left out.
    only_in_one = _owners(old) ^ _owners(new)
    # A plan without requested settings has only settings that guard.
    all_of_them = all(any(not s.guards for s in plan.settings) for plan in (old, new))

    def texts_of(plan: TopologyData) -> dict[str, dict[str, str]]:
        lines = [("guard", f"of {x.tool} by {x.owner}", str(x)) for x in plan.guards]
        lines += [("limit", f"of {x.what} by {x.owner}", str(x)) for x in plan.limits]
        for access in plan.accesses:
            name = f"{access.owner} {access.kind.replace('_', ' ')}"
            lines.append(("access", name, ", ".join(access.aspects)))
        for setting in plan.settings:
            if (setting.guards or all_of_them) and setting.owner not in only_in_one:
                lines.append(("setting", f"{setting.owner}.{setting.name}", setting.value))
        lines += [("former name", move.old, move.new) for move in plan.moved]
        texts: dict[str, dict[str, str]] = {part: {} for part in _DETAILS}
        for part, name, text in lines:
            # A middleware may have several guards of a tool, or several limits of a unit.
            texts[part][name] = f"{texts[part][name]}; {text}" if name in texts[part] else text
        return texts

    before, after = texts_of(old), texts_of(new)
    for part in before:
        yield from _compared(part, before[part], after[part])


def _compared(part: str, was: Mapping[str, str], now: Mapping[str, str]) -> Iterator[Change]:
    """Differences of the texts of a kind of part, by their names."""
    added, removed, changed = _DETAILS[part]
    for name in dict.fromkeys([*was, *now]):
        if name not in now:
            yield Change(ChangeKind.REMOVED, part, name, removed.format(was[name]))
        elif name not in was:
            yield Change(ChangeKind.ADDED, part, name, added.format(now[name]))
        elif was[name] != now[name]:
            # A tool without notes is a plain tool; no other text is empty.
            texts = (was[name] or "plain", now[name] or "plain")
            yield Change(ChangeKind.CHANGED, part, name, changed.format(*texts))


def _edges(old: TopologyData, new: TopologyData) -> Iterator[Change]:
    common = {node for edge in transitions_of(old) for node in (edge.source, edge.target)}
    common &= {node for edge in transitions_of(new) for node in (edge.source, edge.target)}
    stable = common - set(_moved(_node_order(old), _node_order(new)))
    was, now = _contracted(old, common, stable), _contracted(new, common, stable)
    old_edges = [pair for pair in was if pair not in now]
    new_edges = [pair for pair in now if pair not in was]
    # A copy: the loop removes items from the list.
    for source, target in list(old_edges):
        why = was[source, target]
        # Same source, same reason: the edge has a new target.
        instead = [p for p in new_edges if p[0] == source and now[p] == why]
        if instead:
            new_edges.remove(instead[0])
            old_edges.remove((source, target))
            reason = "" if why == TransitionReason.NEXT else f" [{why}]"
            detail = f"now to {instead[0][1]}{reason}"
            yield Change(ChangeKind.REROUTED, "edge", f"{source} -> {target}", detail)
    for pair in old_edges:
        yield Change(ChangeKind.REMOVED, "edge", " -> ".join(pair), was[pair])
    for pair in new_edges:
        yield Change(ChangeKind.ADDED, "edge", " -> ".join(pair), now[pair])
    for pair in [pair for pair in now if pair in was and now[pair] != was[pair]]:
        detail = f"was [{was[pair]}], now [{now[pair]}]"
        yield Change(ChangeKind.CHANGED, "edge", " -> ".join(pair), detail)


def _contracted(
    plan: TopologyData, common: set[str], stable: set[str]
) -> dict[tuple[str, str], str]:
    """The edges between nodes that both plans have, with their reasons.

    An edge is followed past nodes that were added, removed or moved: those changes are reported
    with the nodes.
    """
    edges = {}
    for edge in transitions_of(plan):
        is_common = edge.source in (stable if _is_next(edge) else common)
        if is_common and (edge.target != TOOLS or TOOLS in common):
            target, path = edge.target, set[str]()
            while target not in stable and target not in path:
                path.add(target)
                target = plan.edge_from(target).targets[0]
            if target in stable:  # otherwise the edge leads around a loop of changed nodes
                edges[edge.source, target] = _reasons(edge)
    return edges


def _is_next(edge: Transition) -> bool:
    return edge.reasons[0].why is TransitionReason.NEXT


def _reasons(edge: Transition) -> str:
    return "; ".join(map(str, edge.reasons))
