"""A plan as plain text: parts line by line, the order of a run, and the reasons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from agent_factory.topology.model import Call, Phase, TopologyData, printable
from agent_factory.topology.transitions import Reason, Transition, paths_between, transitions_of

ORDERS = {
    Phase.BEFORE_AGENT: "once, when a run starts; in the order of the list",
    Phase.BEFORE_MODEL: "before each model call; in the order of the list",
    Phase.AFTER_MODEL: "after each model call; in reverse order of the list, so the first has the "
    "last word",
    Phase.AFTER_AGENT: "once, when a run ends; in reverse order of the list",
}
"""When the hooks of a phase run, and in which order."""


CORNERS = {
    "entry": "a run enters at",
    "loop_entry": "each turn begins at",
    "loop_exit": "each turn of the model ends at",
    "exit": "a run leaves the loop for",
}
"""Meaning of the corners of a plan: words before the name of a node."""


@dataclass(frozen=True, slots=True)
class OrderedPart:
    """The hooks of a phase, or the layers around a kind of call, in the order in which they run."""

    part: str
    why: str
    names: tuple[str, ...]


def ordered_parts(plan: TopologyData) -> Iterator[OrderedPart]:
    """Hooks and layers, part by part; empty parts are left out."""
    for phase, why in ORDERS.items():
        if hooks := plan.run_order(phase):
            yield OrderedPart(str(phase), why, tuple(hook.owner for hook in hooks))
    for call in Call:
        if layers := plan.layers_around(call):
            names = tuple(layer.name for layer in layers)
            yield OrderedPart(f"{call} layers", layer_order(call), names)


def layer_order(call: Call) -> str:
    """Place of layers, and the order in which they run."""
    ends = ("state", "result") if call is Call.AGENT else ("request", "response")
    return (
        f"around {call.phrase}; the first of the list is the outermost: it gets the {ends[0]} "
        f"first and the {ends[1]} last"
    )


def declared(plan: TopologyData) -> dict[str, list[str]]:
    """Guards, limits and accesses of a plan, a line each."""
    guards, limits = ([f"{x.owner}: {x}" for x in part] for part in (plan.guards, plan.limits))
    return {"guards": guards, "limits": limits, "accesses": list(map(str, plan.accesses))}


def render(plan: TopologyData) -> str:
    """The plan as text: a line for each edge, layer (outermost first), tool, guard, limit ..."""
    guards, limits, accesses = declared(plan).values()
    return _lines(
        *map(edge_line, transitions_of(plan)),
        *(f"around {layer.call.phrase}: {layer.name}" for layer in plan.layers),
        *(f"tool: {tool.name}{_bracketed(tool.notes)}" for tool in plan.tools),
        *(f"guard: {line}" for line in guards),
        *(f"limit: {line}" for line in limits),
        *(f"access: {line}" for line in accesses),
        *(f"setting: {x.owner}.{x.name} = {x.value}" for x in plan.settings),
        *(f"moved: {move.old} -> {move.new}" for move in plan.moved),
    )


def _lines(*lines: str) -> str:
    return "\n".join(map(printable, lines))


def edge_line(edge: Transition) -> str:
    """An edge, with reasons unless the target is simply the next node."""
    return f"{edge.name}{_bracketed(edge.notes)}"


def _bracketed(notes: Sequence[str]) -> str:
    return f"  [{'; '.join(notes)}]" if notes else ""


_DECLARED = {
    "guards": "what decides about tool calls before they run",
    "limits": "the most that may be used",
    "accesses": "what middleware do with parts of the conversation",
}


def explain(plan: TopologyData) -> str:
    """The order of all hooks and layers with reasons; guards, limits and accesses."""
    lines = []
    for part in ordered_parts(plan):
        lines.append(f"{part.part:<14} {part.why}:")
        lines += [f"  {number}. {name}" for number, name in enumerate(part.names, 1)]
    lines.append(
        f"{'corners':<14} a run enters at {plan.entry}, each turn begins at {plan.loop_entry} and "
        f"ends at {plan.loop_exit}, and the run leaves the loop for {plan.exit}"
    )
    for name, items in declared(plan).items():
        lines += [f"{name:<14} {_DECLARED[name]}:", *(f"  {x}" for x in items)] if items else []
    return _lines(*lines)


MOST_PATHS = 3
"""The most paths that an explanation lists."""


def explain_transition(plan: TopologyData, source: str, target: str) -> str:
    """The reasons for an edge; if there is none, the paths from `source` to `target`."""
    edges = transitions_of(plan)
    for name in (source, target):
        if name not in {node for edge in edges for node in (edge.source, edge.target)}:
            raise KeyError(name)
    for edge in edges:
        if (edge.source, edge.target) == (source, target):
            return _lines(edge_line(edge), *(f"- {meaning(r)}" for r in edge.reasons))
    lines = []
    # Lazily: where all nodes jump, millions of paths exist.
    for path in islice(paths_between(plan, source, target), MOST_PATHS):
        lines.append(path_line(path))
        lines += (f"- {edge.name}: {meaning(r)}" for edge in path for r in edge.reasons)
    if lines:
        title = f"No edge leads from {source} to {target}, but a path does; the shortest first:"
        return _lines(title, *lines)
    leaving = [edge_line(edge) for edge in edges if edge.source == source]
    instead = leaving or [f"{source} is where a run ends."]
    return _lines(f"No path leads from {source} to {target}.", *(f"- {x}" for x in instead))


def path_line(path: Sequence[Transition]) -> str:
    """The nodes of a path: `model -> A.after_model -> tools`."""
    return " -> ".join([path[0].source, *(edge.target for edge in path)])


def meaning(reason: Reason) -> str:
    """A reason as a sentence."""
    return reason.why.meaning.format(by=", ".join(reason.by))
