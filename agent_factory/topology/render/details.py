"""The details of each part of a picture, shown when a reader points at it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent_factory.topology.model import MODEL, TOOLS, Hook, Layer, Tool, ToolKind, TopologyData
from agent_factory.topology.render.figure import Arrow, Box, Figure, guards_at, limits_at
from agent_factory.topology.render.text import (
    CORNERS,
    ORDERS,
    declared,
    layer_order,
    meaning,
)


@dataclass(frozen=True, slots=True)
class Item:
    """Line of a list; `target` is the key of the linked part, or empty."""

    text: str
    target: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """List with a heading; `ordered` if the order has a meaning."""

    heading: str
    items: tuple[Item, ...]
    ordered: bool = False


@dataclass(frozen=True, slots=True)
class Details:
    """The details of a box, of an arrow, or of the whole plan."""

    title: str
    facts: tuple[tuple[str, str], ...] = ()  # labels with their values
    lists: tuple[Listing, ...] = ()
    words: str = ""  # the names by which a search finds the part

    def as_text(self) -> str:
        """Plain text for a tooltip, without links: the picture shows where they lead."""
        lines = [self.title, *(f"{label}: {value}" for label, value in self.facts)]
        for listing in self.lists:
            texts = [item.text for item in listing.items if not item.target]
            lines += [f"{listing.heading}:"] if texts else []
            for number, text in enumerate(texts, 1):
                lines.append(f"{number}. {text}" if listing.ordered else f"- {text}")
        return "\n".join(lines)


def details_of(plan: TopologyData, figure: Figure) -> dict[str, Details]:
    """The details of each box and each arrow, by key."""
    details = {box.key: _box(plan, figure, box) for box in figure.boxes}
    for arrow in figure.arrows:
        reasons = tuple(Item(meaning(reason)) for reason in arrow.edge.reasons)
        names = {name for reason in arrow.edge.reasons for name in reason.by}
        ends = tuple(Item(box.name, box.key) for box in (arrow.source, arrow.target))
        lists = Listing("why", reasons), Listing("from, to", ends)
        details[arrow.key] = Details(arrow.edge.name, (), lists, " ".join(sorted(names)))
    return details


def overview(plan: TopologyData, figure: Figure, undecided: Sequence[str] = ()) -> Details:
    """The details of the whole plan: each order with reasons, and undecided calls."""
    lists = []
    for phase, order in ORDERS.items():
        items = tuple(Item(box.title, box.key) for box in figure.boxes if box.kind == phase)
        lists.append(Listing(f"{phase}: {order}", items, ordered=True))
    lists += (_layers(box, box.key) for box in figure.boxes)
    lists += (Listing(name, tuple(map(Item, lines))) for name, lines in declared(plan).items())
    lists.append(Listing("calls that nothing decides about", tuple(map(Item, undecided))))
    corners = tuple((words, getattr(plan, corner)) for corner, words in CORNERS.items())
    return Details("Order", corners, tuple(x for x in lists if x.items))


def _layers(box: Box, target: str = "") -> Listing:
    items = tuple(Item(frame.layer.name, target) for frame in box.frames)
    order = layer_order(box.frames[0].layer.call) if items else ""
    return Listing(f"layers {order}", items, ordered=True)


def _declared(plan: TopologyData, parts: Sequence[Hook | Layer]) -> list[Listing]:
    """Guards and limits of hooks and layers, and accesses of their middleware."""
    # A hook is alone in its details; several layers may share details.
    several = len(parts) > 1

    def item(owner: str, words: object) -> Item:
        return Item(f"{owner}: {words}" if several else str(words))

    owners = {part.owner for part in parts}
    return [
        Listing("guards", tuple(item(g.owner, g) for part in parts for g in guards_at(plan, part))),
        Listing("limits", tuple(item(x.owner, x) for part in parts for x in limits_at(plan, part))),
        Listing("accesses", tuple(Item(str(a)) for a in plan.accesses if a.owner in owners)),
    ]


def _box(plan: TopologyData, figure: Figure, box: Box) -> Details:
    facts = []
    if hook := plan.hook_at(box.name):
        peers = plan.run_order(hook.phase)
        facts += [
            ("middleware", hook.owner),
            ("phase", str(hook.phase)),
            ("order", f"{peers.index(hook) + 1} of {len(peers)}"),
            ("why here", f"It runs {ORDERS[hook.phase]}."),
            ("may jump to", ", ".join(sorted(hook.can_jump_to)) or "nowhere"),
        ]
    if box.kind == MODEL:
        facts.append(("what", "One model call, through its layers."))
    if box.kind == TOOLS:
        facts.append(("what", "Each pending tool call is run on its own, through its layers."))
    if roles := [f"{CORNERS[x]} this node" for x in CORNERS if getattr(plan, x) == box.name]:
        facts.append(("corner", "; ".join(roles)))

    def item(arrow: Arrow, other: Box) -> Item:
        reasons = dict.fromkeys(reason.why for reason in arrow.edge.reasons)
        return Item(f"{other.name} ({', '.join(reasons)})", arrow.key)

    heading = "tools" if box.kind == TOOLS else "tools that the agent does not run"
    lists = (
        _layers(box),
        Listing(heading, tuple(_tool(plan, box, tool) for tool in box.tools)),
        *_declared(plan, [hook] if hook else [frame.layer for frame in box.frames]),
        Listing("edges in", tuple(item(a, a.source) for a in figure.arrows if a.target == box)),
        Listing("edges out", tuple(item(a, a.target) for a in figure.arrows if a.source == box)),
    )
    return Details(box.name, tuple(facts), tuple(x for x in lists if x.items), box.name)


_KINDS = {
    ToolKind.PROVIDER: "run by the model's provider",
    ToolKind.OUTPUT: "a call of it is the structured answer",
    ToolKind.INNER: "a tool of an agent inside of a tool",
}

_LABELS = {
    "untrusted": "untrusted: its results hold text of others",
    "private": "private: its results hold private data",
    "outside": "outside: it has an effect outside",
}


def _tool(plan: TopologyData, box: Box, tool: Tool) -> Item:
    notes = [_KINDS[tool.kind]] if tool.kind in _KINDS else []
    notes += ["its result ends the run (return_direct)"] if tool.return_direct else []
    notes += [f"added by {tool.owner}"] if tool.owner else []
    notes += [_LABELS.get(label, label) for label in tool.labels]
    notes += [f"up to {tool.max_requests} requests a call"] if tool.max_requests > 1 else []
    if tool.background is not None:
        notes.append(f"works in the background, at most {tool.background:g} s")
    notes += ["a service repeats a call that is lost"] if tool.on_loss == "repeat" else []
    notes += tool.touches
    notes += [f"{guard} ({guard.owner})" for guard in box.guards if guard.covers(tool.name)]
    notes += [f"{x} ({x.owner})" for x in plan.limits if x.tool == tool.name]
    return Item(f"{tool.name}: {'; '.join(notes)}" if notes else tool.name)
