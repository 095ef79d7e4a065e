"""The content of a picture of a plan, and its size: boxes, arrows and frames, before any layout."""

from __future__ import annotations

from dataclasses import dataclass
from operator import add
from textwrap import wrap
from unicodedata import east_asian_width

from agent_factory.topology.model import (
    END,
    MODEL,
    START,
    TOOLS,
    Call,
    Layer,
    Phase,
    Tool,
    ToolKind,
    TopologyData,
)
from agent_factory.topology.transitions import Transition, TransitionReason, transitions_of

# All sizes are pixels. Names are set in a monospaced font, whose letters are 0.6 of its height
# on every machine: so boxes fit their text, and no font has to be measured.
LETTER, SMALL_LETTER = 7.9, 6.3
"""The width of a letter of a name (13 px), and of a note (11 px, in a wide sans-serif font)."""
HEAD, ROW, HEADER = 44, 18, 20
"""The height of a box's two lines, of a row in it, and of a frame's header."""
PAD, INSET, STRIPE = 12, 7, 5
"""The space around text, between nested frames, and the width of a box's coloured stripe."""
LABEL_ROW, LABEL_WIDTH = 15, 17
"""The height of a line of an arrow's label in pixels, and its longest width in letters."""

LONGEST = 36
"""Letters of a name that are shown; its details have the whole name."""
COLUMN = 10
"""The most tools that stand in a column."""

_GROUPS = {
    "once, when a run starts": (Phase.BEFORE_AGENT,),
    "each turn": (Phase.BEFORE_MODEL, MODEL, Phase.AFTER_MODEL, TOOLS),
    "once, when a run ends": (Phase.AFTER_AGENT,),
}
"""The titles of the groups, with the kinds of their boxes."""


@dataclass(frozen=True, slots=True)
class Box:
    """A node, with the layers around it, outermost first, and the tools in it.

    `kind` is its phase, "model", "tools" or "terminal".
    """

    key: str
    name: str
    kind: str
    title: str
    frames: tuple[Layer, ...] = ()
    tools: tuple[Tool, ...] = ()

    @property
    def note(self) -> str:
        """The small text above its title."""
        return {MODEL: "model call", TOOLS: "tool calls"}.get(self.kind, self.kind)

    @property
    def columns(self) -> int:
        """The number of columns its tools stand in."""
        # Rounded up: `//` rounds down, and the two minus signs reverse that.
        return -(-len(self.tools) // COLUMN)

    @property
    def lines(self) -> int:
        """The number of tools in a column."""
        return -(-len(self.tools) // max(self.columns, 1))

    @property
    def column_width(self) -> float:
        """The width of a column."""
        names = [letters(shown(tool.name)) * LETTER for tool in self.tools]
        marks = [(len(mark) + 2) * SMALL_LETTER if mark else 0 for mark in map(mark_of, self.tools)]
        return max(map(add, names, marks), default=0) + PAD

    @property
    def core(self) -> tuple[float, float]:
        """Width and height without the frames."""
        if self.kind == "terminal":
            return letters(self.title) * LETTER + 3 * PAD, 30
        lines = [letters(shown(self.title)) * LETTER, len(self.note) * SMALL_LETTER]
        width = max(*lines, self.columns * self.column_width) + 2 * PAD + STRIPE
        return width, HEAD + (self.lines * ROW + PAD / 2 if self.tools else 0)

    @property
    def size(self) -> tuple[float, float]:
        """Width and height with all frames."""
        width, height = self.core
        # From the innermost frame outward: each is around those before.
        for place, frame in reversed(list(enumerate(self.frames, 1))):
            header = letters(shown(f"{place} {frame.owner}")) * LETTER + 2 * PAD
            width, height = max(width + 2 * INSET, header), height + HEADER + INSET
        return width, height


@dataclass(frozen=True, slots=True)
class Arrow:
    """An edge from one box to another; dashed if only a jump takes it."""

    key: str
    source: Box
    target: Box
    edge: Transition
    label: tuple[str, ...]
    dashed: bool

    @property
    def label_size(self) -> tuple[float, float]:
        """Width and height of its label."""
        widest = max((len(line) for line in self.label), default=0)
        return widest * SMALL_LETTER + 8, len(self.label) * LABEL_ROW


@dataclass(frozen=True, slots=True)
class Group:
    """Boxes that run equally often, in one frame, with its title at the top or at the bottom."""

    title: str
    boxes: tuple[Box, ...]
    below: bool

    @property
    def title_size(self) -> tuple[float, float]:
        """The space for its title, which takes the left half, or the right one next to an arrow."""
        return 2 * (len(self.title) * SMALL_LETTER + 2 * PAD), LABEL_ROW


@dataclass(frozen=True, slots=True)
class Figure:
    """Everything that a picture shows."""

    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    groups: tuple[Group, ...]
    title: str


def figure_of(plan: TopologyData) -> Figure:
    """Decide what the picture of a plan shows."""
    boxes = {}
    for index, name in enumerate([START, *plan.nodes, END]):
        key, hook = f"n{index}", plan.hook_at(name)
        if name in (START, END):
            # The layers around a run are shown where it starts.
            layers = tuple(plan.layers_around(Call.AGENT)) if name == START else ()
            boxes[name] = Box(key, name, "terminal", name.strip("_"), layers)
        elif name in (plan.style.model, TOOLS):
            kind, call = (TOOLS, Call.TOOL) if name == TOOLS else (MODEL, Call.MODEL)
            # Tools that the agent does not run itself are listed in the model's box.
            runs_here = (ToolKind.CLIENT, ToolKind.INNER)
            tools = [t for t in plan.tools if (t.kind in runs_here) == (name == TOOLS)]
            layers = tuple(plan.layers_around(call))
            boxes[name] = Box(key, name, kind, name, layers, tuple(tools))
        elif hook is not None:
            boxes[name] = Box(key, name, str(hook.phase), hook.owner)
        else:  # a plan from a file may have nodes that no hook makes
            boxes[name] = Box(key, name, "", name)
    arrows = []
    for index, edge in enumerate(transitions_of(plan)):
        kinds = list(dict.fromkeys(reason.why for reason in edge.reasons))
        notes = [str(why) for why in kinds if kinds != [TransitionReason.NEXT]]
        # Arrows bend around wide labels.
        label = (line for note in notes for line in wrap(note, LABEL_WIDTH))
        dashed = kinds == [TransitionReason.JUMP]
        source, target = boxes[edge.source], boxes[edge.target]
        arrows.append(Arrow(f"e{index}", source, target, edge, tuple(label), dashed))
    groups = []
    for title, members in _GROUPS.items():
        inside = tuple(box for box in boxes.values() if box.kind in members)
        # A model alone needs no frame around it.
        if inside and [box.kind for box in inside] != [MODEL]:
            # Jumps from all nodes enter the last group at its top.
            groups.append(Group(title, inside, below=Phase.AFTER_AGENT in members))
    return Figure(tuple(boxes.values()), tuple(arrows), tuple(groups), plan.title)


def mark_of(tool: Tool) -> str:
    """The words that mark a tool in its box; empty for a plain one."""
    marks = {
        ToolKind.OUTPUT: "structured answer",
        ToolKind.PROVIDER: "run by the provider",
        ToolKind.INNER: "of an agent inside",
    }
    return marks.get(tool.kind, "return_direct" if tool.return_direct else "")


def letters(text: str) -> int:
    """The width of a text in letters; those of East Asia count twice."""
    # W and F are the wide and the full-width letters of Unicode.
    return sum(2 if east_asian_width(letter) in "WF" else 1 for letter in text)


def shown(name: str) -> str:
    """A name, cut to the length that a picture has room for."""
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"
