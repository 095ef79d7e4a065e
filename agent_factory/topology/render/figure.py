"""The content of a picture of a plan, before any layout: boxes, arrows and frames."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from textwrap import wrap

from agent_factory.topology.declarations import JOBS, ToolGuard, UsageLimit
from agent_factory.topology.model import (
    END,
    MODEL,
    START,
    TOOLS,
    Call,
    Hook,
    Layer,
    Phase,
    Tool,
    ToolKind,
    TopologyData,
)
from agent_factory.topology.transitions import Transition, TransitionReason, transitions_of

LABEL_WIDTH = 17
"""The most letters of a line of an arrow's label."""
LONGEST, LONGEST_REMARK = 36, 42
"""Letters of a name and of a remark that are shown; the details have all of them."""
MOST_REMARKS = 3
"""The most remarks in a box or a frame."""
COLUMN = 10
"""The most tools that stand in a column."""

_GROUPS = {
    "once, when a run starts": (Phase.BEFORE_AGENT,),
    "each turn": (Phase.BEFORE_MODEL, MODEL, Phase.AFTER_MODEL, TOOLS),
    "once, when a run ends": (Phase.AFTER_AGENT,),
}
"""The titles of the groups, with the kinds of their boxes."""


_WORDS = {
    "ask": ("asked", "asks about"),
    "judge": ("judged", "judges"),
    "check": ("checked", "checks"),
    "deny": ("denied", "denies"),
}
"""What a guard does with calls: the words that mark a tool, and those before names of tools."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Layer around a node, with remarks about guards and limits."""

    layer: Layer
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Box:
    """Node with layers around, outermost first, and tools inside."""

    key: str
    name: str
    kind: str  # a phase, "model", "tools" or "terminal"
    title: str
    frames: tuple[Frame, ...] = ()
    tools: tuple[Tool, ...] = ()
    guards: tuple[ToolGuard, ...] = ()  # about the tools
    remarks: tuple[str, ...] = ()  # about guards and limits of the hook

    @property
    def note(self) -> str:
        """The small text above the title."""
        return {MODEL: "model call", TOOLS: "tool calls"}.get(self.kind, self.kind)

    @property
    def grid(self) -> tuple[int, int]:
        """The number of columns of tools, and of tools in a column."""
        columns = ceil(len(self.tools) / COLUMN)
        return columns, ceil(len(self.tools) / max(columns, 1))

    def mark_of(self, tool: Tool) -> str:
        """The words that mark a tool: kind, labels, touches, and who decides."""
        marks = [KIND_MARKS[tool.kind]] if tool.kind in KIND_MARKS else []
        marks += ["return_direct"] if tool.return_direct else []
        marks += [f"up to {tool.max_requests} a call"] if tool.max_requests > 1 else []
        marks += ["in the background"] if tool.background is not None else []
        marks += ["repeated if lost"] if tool.on_loss == "repeat" else []
        marks += [*tool.labels, *tool.touches]
        guards = [guard for guard in self.guards if guard.covers(tool.name)]
        always = {guard.action for guard in guards if not guard.when}
        for action in dict.fromkeys(guard.action for guard in guards):
            marks.append(f"{_WORDS[action][0]}{'' if action in always else ' at times'}")
        return ", ".join(marks)


@dataclass(frozen=True, slots=True)
class Arrow:
    """Edge between two boxes; dashed for jumps alone."""

    key: str
    source: Box
    target: Box
    edge: Transition
    label: tuple[str, ...]
    dashed: bool


@dataclass(frozen=True, slots=True)
class Group:
    """Boxes that run equally often, in a frame with a title at the top or at the bottom."""

    key: str
    title: str
    boxes: tuple[Box, ...]
    below: bool


@dataclass(frozen=True, slots=True)
class Figure:
    """Content of a picture."""

    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    groups: tuple[Group, ...]
    title: str


def figure_of(plan: TopologyData) -> Figure:
    """Decide the content of the picture of a plan."""
    boxes = {}

    def frames(call: Call) -> tuple[Frame, ...]:
        return tuple(Frame(layer, remarks_of(plan, layer)) for layer in plan.layers_around(call))

    for index, name in enumerate([START, *plan.nodes, END]):
        key, hook = f"n{index}", plan.hook_at(name)
        if name in (START, END):
            # The layers around a run are shown at the start.
            layers = frames(Call.AGENT) if name == START else ()
            boxes[name] = Box(key, name, "terminal", name.strip("_"), layers)
        elif name in (plan.style.model, TOOLS):
            kind, call = (TOOLS, Call.TOOL) if name == TOOLS else (MODEL, Call.MODEL)
            # Tools that the agent does not run itself are listed in the model's box.
            runs_here = (ToolKind.CLIENT, ToolKind.INNER)
            tools = [t for t in plan.tools if (t.kind in runs_here) == (name == TOOLS)]
            # A guard decides only about calls that run here.
            guards = plan.guards if name == TOOLS else ()
            boxes[name] = Box(key, name, kind, name, frames(call), tuple(tools), guards)
        elif hook is not None:
            remarks = remarks_of(plan, hook)
            boxes[name] = Box(key, name, str(hook.phase), hook.owner, remarks=remarks)
        else:  # a plan from a file may have nodes without a hook
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
    groups: list[Group] = []
    for title, members in _GROUPS.items():
        inside = tuple(box for box in boxes.values() if box.kind in members)
        # A model alone needs no frame.
        if inside and [box.kind for box in inside] != [MODEL]:
            # Jumps from all nodes enter the last group at the top.
            key = f"g{len(groups)}"
            groups.append(Group(key, title, inside, below=Phase.AFTER_AGENT in members))
    return Figure(tuple(boxes.values()), tuple(arrows), tuple(groups), plan.title)


def remarks_of(plan: TopologyData, part: Hook | Layer) -> tuple[str, ...]:
    """Guards and limits of a hook or a layer, in a few short lines."""
    guards = guards_at(plan, part)
    always = {(guard.action, guard.tool) for guard in guards if not guard.when}
    tools: dict[str, list[str]] = {}
    for guard in guards:
        name = "all tools" if guard.tool == "*" else guard.tool
        times = "" if (guard.action, guard.tool) in always else " (at times)"
        _, verb = _WORDS[guard.action]
        if guard.action == "ask" and guard.reviewers:
            verb = f"asks {' or '.join(guard.reviewers)} about"
        tools.setdefault(verb, []).append(f"{name}{times}")
    lines = [f"{verb} {', '.join(dict.fromkeys(tools[verb]))}" for verb in tools]
    lines += map(str, limits_at(plan, part))
    if len(lines) > MOST_REMARKS:
        lines[MOST_REMARKS - 1 :] = [f"and {len(lines) - MOST_REMARKS + 1} more"]
    return tuple(shown(line, LONGEST_REMARK) for line in lines)


def guards_at(plan: TopologyData, part: Hook | Layer) -> list[ToolGuard]:
    """The guards of a plan in a hook or a layer."""
    place = part.phase if isinstance(part, Hook) else f"around_{part.call}"
    return [guard for guard in plan.guards if (guard.owner, guard.place) == (part.owner, place)]


def limits_at(plan: TopologyData, part: Hook | Layer) -> list[UsageLimit]:
    """The limits of a plan to show at a hook or a layer: each limit once."""
    parts: list[Hook | Layer] = [*plan.layers, *plan.hooks]
    own = [other for other in parts if other.owner == part.owner]

    def place(limit: UsageLimit) -> Hook | Layer:
        call = Call.TOOL if limit.unit in ("tool calls", JOBS) else Call.MODEL
        return next((x for x in own if isinstance(x, Layer) and x.call is call), own[0])

    return [limit for limit in plan.limits if limit.owner == part.owner and place(limit) == part]


KIND_MARKS = {
    ToolKind.OUTPUT: "structured answer",
    ToolKind.PROVIDER: "run by the provider",
    ToolKind.INNER: "of an agent inside",
}
"""The words that mark a tool that the agent does not run itself."""


def shown(name: str, longest: int = LONGEST) -> str:
    """A name, cut to the room of a picture."""
    return name if len(name) <= longest else f"{name[: longest - 1]}…"
