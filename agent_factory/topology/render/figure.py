"""What a picture of a plan shows, and how large: boxes, arrows and frames, before any layout."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from unicodedata import east_asian_width

from agent_factory.topology.model import (
    END,
    MODEL,
    START,
    TOOLS,
    Call,
    Phase,
    Tool,
    ToolKind,
    TopologyData,
)
from agent_factory.topology.transitions import Reason, Transition, TransitionReason, transitions_of

# All sizes are pixels. Names are set in a monospaced face, whose letters are 0.6 of its height
# on every machine: so boxes fit their text, and need no font to be measured.
LETTER, SMALL_LETTER = 7.9, 6.3
"""The width of a letter of a name (13 px), and of a note (11 px; those of a wide sans-serif)."""
HEAD, ROW, HEADER = 44, 18, 20
"""The height of a box's two lines, of a row in it, and of a frame's header."""
PAD, INSET, STRIPE = 12, 7, 5
"""The space beside text, between nested frames, and the width of a box's coloured edge."""
LABEL_ROW = 15
"""The height of a line of an arrow's label."""

LONGEST = 36
"""Letters of a name that are shown; the rest is in its details."""
COLUMN = 10
"""The most tools that stand in a column."""

_WORDS = {
    TransitionReason.NO_CALLS: "answered",
    TransitionReason.ANSWERED: "calls answered",
    TransitionReason.NEXT: "next",
}
"""Where a reason's own name is long, or would not be understood alone, on an arrow."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A layer, drawn around what it closes around."""

    owner: str
    method: str


@dataclass(frozen=True, slots=True)
class Row:
    """A tool in a box, with the word that marks it."""

    name: str
    mark: str
    owner: str


@dataclass(frozen=True, slots=True)
class Box:
    """A node.

    Args:
        key: What it is called in the picture.
        name: The node.
        kind: Its phase, "model", "tools", or "terminal".
        title: What stands in it.
        owner: The middleware it belongs to, or nothing.
        frames: The layers around it, outermost first.
        rows: The tools in it.
    """

    key: str
    name: str
    kind: str
    title: str
    owner: str = ""
    frames: tuple[Frame, ...] = ()
    rows: tuple[Row, ...] = ()

    @property
    def note(self) -> str:
        """What stands above its title."""
        return {MODEL: "model call", TOOLS: "tool calls"}.get(self.kind, self.kind)

    @property
    def columns(self) -> int:
        """In how many columns its tools stand."""
        return -(-len(self.rows) // COLUMN)

    @property
    def lines(self) -> int:
        """How many of them stand in a column."""
        return -(-len(self.rows) // max(self.columns, 1))

    @property
    def column_width(self) -> float:
        """How wide each of them is."""
        return max((_row_width(row) for row in self.rows), default=0) + PAD

    @property
    def core(self) -> tuple[float, float]:
        """Width and height inside of all frames."""
        if self.kind == "terminal":
            return letters(self.title) * LETTER + 3 * PAD, 30
        lines = [letters(shown(self.title)) * LETTER, len(self.note) * SMALL_LETTER]
        width = max(*lines, self.columns * self.column_width) + 2 * PAD + STRIPE
        return width, HEAD + (self.lines * ROW + PAD / 2 if self.rows else 0)

    @property
    def size(self) -> tuple[float, float]:
        """Width and height with all frames."""
        width, height = self.core
        for place, frame in reversed(list(enumerate(self.frames, 1))):
            header = letters(shown(f"{place} {frame.owner}")) * LETTER + 2 * PAD
            width, height = max(width + 2 * INSET, header), height + HEADER + INSET
        return width, height


@dataclass(frozen=True, slots=True)
class Arrow:
    """A way from one box to another; dashed where only a jump takes it."""

    key: str
    source: Box
    target: Box
    way: Transition
    label: tuple[str, ...]
    dashed: bool

    @property
    def label_size(self) -> tuple[float, float]:
        """Width and height of its label."""
        widest = max((len(line) for line in self.label), default=0)
        return widest * SMALL_LETTER + 8, len(self.label) * LABEL_ROW


@dataclass(frozen=True, slots=True)
class Group:
    """Boxes that run equally often, in a frame of their own; its title at the top or below."""

    title: str
    boxes: tuple[Box, ...]
    below: bool

    @property
    def title_size(self) -> tuple[float, float]:
        """Room for its title. The left half holds it: arrows come in the middle."""
        return 2 * len(self.title) * SMALL_LETTER, LABEL_ROW


@dataclass(frozen=True, slots=True)
class Figure:
    """All that a picture shows."""

    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    groups: tuple[Group, ...]


def figure_of(plan: TopologyData) -> Figure:
    """Decide what the picture of a plan shows."""
    names = [START, *plan.nodes, END]
    boxes = {name: _box(plan, f"n{index}", name) for index, name in enumerate(names)}
    arrows = tuple(
        _arrow(f"e{index}", way, boxes) for index, way in enumerate(transitions_of(plan))
    )
    return Figure(tuple(boxes.values()), arrows, tuple(_groups(boxes)))


def letters(text: str) -> int:
    """How many letters wide a text is; those of East Asia count twice."""
    return sum(2 if east_asian_width(letter) in "WF" else 1 for letter in text)


def shown(name: str) -> str:
    """A name as a picture has room for it."""
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"


def _box(plan: TopologyData, key: str, name: str) -> Box:
    if name in (START, END):
        return Box(key, name, "terminal", name.strip("_"))
    if name in (plan.style.model, TOOLS):
        kind, call = (TOOLS, Call.TOOL) if name == TOOLS else (MODEL, Call.MODEL)
        frames = (Frame(lay.owner, lay.method) for lay in plan.layers if lay.call is call)
        return Box(key, name, kind, name, "", tuple(frames), tuple(_rows(plan, name)))
    for hook in plan.hooks:
        if hook.node == name:
            return Box(key, name, str(hook.phase), hook.owner, hook.owner)
    return Box(key, name, "", name)


def _rows(plan: TopologyData, node: str) -> Iterator[Row]:
    """The tools that are run in a node; those that no node runs stand with the model."""
    for tool in plan.tools:
        if (tool.kind is ToolKind.CLIENT) == (node == TOOLS):
            yield Row(tool.name, _mark(tool), tool.owner)


def _mark(tool: Tool) -> str:
    if tool.kind is ToolKind.OUTPUT:
        return "structured answer"
    if tool.kind is ToolKind.PROVIDER:
        return "run by the provider"
    return "return_direct" if tool.return_direct else ""


def _row_width(row: Row) -> float:
    return letters(shown(row.name)) * LETTER + (len(row.mark) + 2 if row.mark else 0) * SMALL_LETTER


def _arrow(key: str, way: Transition, boxes: Mapping[str, Box]) -> Arrow:
    kinds = {reason.why for reason in way.reasons}
    label = (
        tuple(dict.fromkeys(map(_word, way.reasons))) if kinds != {TransitionReason.NEXT} else ()
    )
    return Arrow(
        key, boxes[way.source], boxes[way.target], way, label, kinds == {TransitionReason.JUMP}
    )


def _word(reason: Reason) -> str:
    return _WORDS.get(reason.why, str(reason.why))


def _groups(boxes: Mapping[str, Box]) -> Iterator[Group]:
    kinds = {
        "once, when a run starts": (Phase.BEFORE_AGENT,),
        "each turn": (Phase.BEFORE_MODEL, MODEL, Phase.AFTER_MODEL, TOOLS),
        "once, when a run ends": (Phase.AFTER_AGENT,),
    }
    for title, members in kinds.items():
        inside = tuple(box for box in boxes.values() if box.kind in members)
        # A model alone needs no frame around it.
        if inside and [box.kind for box in inside] != [MODEL]:
            # Jumps from everywhere come to the last group from above.
            yield Group(title, inside, below=Phase.AFTER_AGENT in members)
