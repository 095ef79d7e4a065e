"""What is said of each part of a picture when a reader points at it: facts, as values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agent_factory.topology.model import Call, Hook, Phase, Tool, ToolKind, TopologyData
from agent_factory.topology.render.explanation import ORDERS, layer_order, meaning
from agent_factory.topology.render.figure import Arrow, Box, Figure

_CALLS = {"model": Call.MODEL, "tools": Call.TOOL}


@dataclass(frozen=True, slots=True)
class Item:
    """A line of a list; `leads_to` is the key of the part it speaks of, or empty."""

    text: str
    leads_to: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """A list, its heading, and whether its order means something."""

    heading: str
    items: tuple[Item, ...]
    ordered: bool = False


@dataclass(frozen=True, slots=True)
class About:
    """What is said of a box, of an arrow, or of the whole.

    Args:
        title: What it is.
        facts: Labels and what they say.
        lists: What it consists of.
        words: The names a search finds it by.
    """

    title: str
    facts: tuple[tuple[str, str], ...] = ()
    lists: tuple[Listing, ...] = ()
    words: str = ""

    def as_text(self) -> str:
        """As plain text, but for what leads elsewhere: beside a picture, the picture shows that."""
        lines = [self.title, *(f"{label}: {said}" for label, said in self.facts)]
        for listing in self.lists:
            said = [item.text for item in listing.items if not item.leads_to]
            marks = [f"{place}." if listing.ordered else "-" for place in range(1, len(said) + 1)]
            lines += [f"{listing.heading}:"] if said else []
            lines += [f"{mark} {line}" for mark, line in zip(marks, said, strict=True)]
        return "\n".join(lines)


def about_parts(plan: TopologyData, figure: Figure) -> dict[str, About]:
    """What is said of each box and each arrow, by its key."""
    boxes = {box.key: _about_box(plan, figure, box) for box in figure.boxes}
    return {**boxes, **{arrow.key: _about_arrow(arrow) for arrow in figure.arrows}}


def about_all(plan: TopologyData, figure: Figure) -> About:
    """What is said of the whole: every order, and where it comes from."""
    lists = [*_phases(figure), *(_layers(box, box.key) for box in figure.boxes if box.frames)]
    corners = {
        "a run enters at": plan.entry,
        "each turn begins at": plan.loop_entry,
        "each turn of the model ends at": plan.loop_exit,
        "a run leaves the loop for": plan.exit,
    }
    return About("Order", tuple(corners.items()), tuple(lists))


def _phases(figure: Figure) -> Iterator[Listing]:
    for phase, order in ORDERS.items():
        items = tuple(Item(box.title, box.key) for box in figure.boxes if box.kind == phase)
        if items:
            yield Listing(f"{phase}: {order}", items, ordered=True)


def _layers(box: Box, leads_to: str = "") -> Listing:
    items = tuple(Item(f"{layer.owner}.{layer.method}", leads_to) for layer in box.frames)
    return Listing(f"layers {layer_order(_CALLS[box.kind])}", items, ordered=True)


def _about_arrow(arrow: Arrow) -> About:
    reasons = tuple(Item(meaning(reason)) for reason in arrow.way.reasons)
    names = {name for reason in arrow.way.reasons for name in reason.by}
    title = f"{arrow.source.name} -> {arrow.target.name}"
    ends = (Item(arrow.source.name, arrow.source.key), Item(arrow.target.name, arrow.target.key))
    lists = Listing("why", reasons), Listing("from, to", ends)
    return About(title, (), lists, " ".join(sorted(names)))


def _about_box(plan: TopologyData, figure: Figure, box: Box) -> About:
    lists = [*_contents(plan, box), *_ways(figure, box)]
    filled = tuple(listing for listing in lists if listing.items)
    return About(box.name, tuple(_facts(plan, box)), filled, box.name)


def _facts(plan: TopologyData, box: Box) -> Iterator[tuple[str, str]]:
    for hook in plan.hooks:
        if hook.node == box.name:
            yield from _hook(plan, hook)
    if box.kind == "model":
        yield "what", "One call of the model, through its layers."
    if box.kind == "tools":
        yield "what", "Each pending call is run here, on its own, through its layers."
    corners = {
        "A run enters here.": plan.entry,
        "Each turn begins here.": plan.loop_entry,
        "Each turn of the model ends here.": plan.loop_exit,
        "A run that leaves the loop goes here.": plan.exit,
    }
    if found := [words for words, name in corners.items() if name == box.name]:
        yield "corner", " ".join(found)


def _hook(plan: TopologyData, hook: Hook) -> Iterator[tuple[str, str]]:
    peers = [other.owner for other in plan.hooks if other.phase is hook.phase]
    if hook.phase in (Phase.AFTER_MODEL, Phase.AFTER_AGENT):
        peers.reverse()
    yield "middleware", hook.owner
    yield "phase", str(hook.phase)
    yield "order", f"{peers.index(hook.owner) + 1} of {len(peers)}"
    yield "why here", f"It runs {ORDERS[hook.phase]}."
    yield "may jump to", ", ".join(sorted(hook.can_jump_to)) or "nowhere"


def _contents(plan: TopologyData, box: Box) -> Iterator[Listing]:
    if box.kind not in _CALLS:
        return
    yield _layers(box)
    client = [tool for tool in plan.tools if tool.kind is ToolKind.CLIENT]
    if box.kind == "tools":
        yield Listing("tools", tuple(_tools(client)))
    else:
        others = [tool for tool in plan.tools if tool not in client]
        yield Listing("tools that the agent does not run", tuple(_tools(others)))


def _tools(tools: Sequence[Tool]) -> Iterator[Item]:
    marks = {
        ToolKind.PROVIDER: "run by the model's provider",
        ToolKind.OUTPUT: "its call is the structured answer",
    }
    for tool in tools:
        notes = [marks[tool.kind]] if tool.kind in marks else []
        notes += ["its result ends the run (return_direct)"] if tool.return_direct else []
        notes += [f"brought by {tool.owner}"] if tool.owner else []
        yield Item(f"{tool.name}: {'; '.join(notes)}" if notes else tool.name)


def _ways(figure: Figure, box: Box) -> Iterator[Listing]:
    def item(arrow: Arrow, other: Box) -> Item:
        return Item(f"{other.name} ({', '.join(arrow.label) or 'next'})", arrow.key)

    yield Listing("ways in", tuple(item(a, a.source) for a in figure.arrows if a.target == box))
    yield Listing("ways out", tuple(item(a, a.target) for a in figure.arrows if a.source == box))
