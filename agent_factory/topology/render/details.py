"""The details of each part of a picture, shown when a reader points at it."""

from __future__ import annotations

from dataclasses import dataclass

from agent_factory.topology.model import MODEL, TOOLS, Call, Tool, ToolKind, TopologyData
from agent_factory.topology.render.figure import Arrow, Box, Figure
from agent_factory.topology.render.text import ORDERS, layer_order, meaning


@dataclass(frozen=True, slots=True)
class Item:
    """A line of a list; `target` is the key of the part it links to, or empty."""

    text: str
    target: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """A list, its heading, and whether its order has a meaning."""

    heading: str
    items: tuple[Item, ...]
    ordered: bool = False


@dataclass(frozen=True, slots=True)
class Details:
    """The details of a box, of an arrow, or of the whole plan.

    `facts` are labels with their values, and `words` the names that a search finds the part by.
    """

    title: str
    facts: tuple[tuple[str, str], ...] = ()
    lists: tuple[Listing, ...] = ()
    words: str = ""

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
    """The details of each box and each arrow, by its key."""
    details = {box.key: _box(plan, figure, box) for box in figure.boxes}
    for arrow in figure.arrows:
        reasons = tuple(Item(meaning(reason)) for reason in arrow.edge.reasons)
        names = {name for reason in arrow.edge.reasons for name in reason.by}
        ends = tuple(Item(box.name, box.key) for box in (arrow.source, arrow.target))
        lists = Listing("why", reasons), Listing("from, to", ends)
        details[arrow.key] = Details(arrow.edge.name, (), lists, " ".join(sorted(names)))
    return details


def overview(plan: TopologyData, figure: Figure) -> Details:
    """The details of the whole plan: every order, and the reasons for it."""
    lists = []
    for phase, order in ORDERS.items():
        items = tuple(Item(box.title, box.key) for box in figure.boxes if box.kind == phase)
        if items:
            lists.append(Listing(f"{phase}: {order}", items, ordered=True))
    lists += (_layers(box, box.key) for box in figure.boxes if box.frames)
    corners = {
        "a run enters at": plan.entry,
        "each turn begins at": plan.loop_entry,
        "each turn of the model ends at": plan.loop_exit,
        "a run leaves the loop for": plan.exit,
    }
    return Details("Order", tuple(corners.items()), tuple(lists))


def _layers(box: Box, target: str = "") -> Listing:
    # The layers around a run are drawn where it starts.
    call = {TOOLS: Call.TOOL, MODEL: Call.MODEL}.get(box.kind, Call.AGENT)
    items = tuple(Item(layer.name, target) for layer in box.frames)
    return Listing(f"layers {layer_order(call)}", items, ordered=True)


def _box(plan: TopologyData, figure: Figure, box: Box) -> Details:
    facts, lists = [], []
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
    if box.kind == "terminal":
        lists.append(_layers(box))
    corners = {
        "A run enters here.": plan.entry,
        "Each turn begins here.": plan.loop_entry,
        "Each turn of the model ends here.": plan.loop_exit,
        "A run that leaves the loop goes here.": plan.exit,
    }
    if roles := [words for words, name in corners.items() if name == box.name]:
        facts.append(("corner", " ".join(roles)))
    if box.kind in (MODEL, TOOLS):
        heading = "tools" if box.kind == TOOLS else "tools that the agent does not run"
        lists += [_layers(box), Listing(heading, tuple(map(_tool, box.tools)))]

    def item(arrow: Arrow, other: Box) -> Item:
        return Item(
            f"{other.name} ({', '.join(dict.fromkeys(r.why for r in arrow.edge.reasons))})",
            arrow.key,
        )

    incoming = tuple(item(a, a.source) for a in figure.arrows if a.target == box)
    outgoing = tuple(item(a, a.target) for a in figure.arrows if a.source == box)
    lists += [Listing("edges in", incoming), Listing("edges out", outgoing)]
    listings = tuple(listing for listing in lists if listing.items)
    return Details(box.name, tuple(facts), listings, box.name)


def _tool(tool: Tool) -> Item:
    marks = {
        ToolKind.PROVIDER: "run by the model's provider",
        ToolKind.OUTPUT: "a call of it is the structured answer",
        ToolKind.INNER: "a tool of an agent inside of a tool",
    }
    notes = [marks[tool.kind]] if tool.kind in marks else []
    notes += ["its result ends the run (return_direct)"] if tool.return_direct else []
    notes += [f"added by {tool.owner}"] if tool.owner else []
    return Item(f"{tool.name}: {'; '.join(notes)}" if notes else tool.name)
