"""Stopping points: where stored threads can wait, and their fate under another plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Literal

from agent_factory.topology.model import TOOLS, Call, ToolKind, TopologyData, printable


class Verdict(StrEnum):
    """Fate of the threads at a stopping point."""

    STANDS = "stands"
    """A thread at a node is resumed there; a call of a tool runs."""
    MOVED = "moved"
    """A thread is resumed at the node of the same hook under its current name."""
    BREAKS = "breaks"
    """To resume a thread at a node raises `MissingNode`; a call of a tool does not run."""


@dataclass(frozen=True, slots=True)
class StoppingPoint:
    """Place where stored threads can wait or were cut short, and their fate under a new plan.

    Args:
        part: "node", or "tool" for the waiting calls of a tool.
        name: The node, or the tool.
        verdict: Whether threads can be resumed.
        effect: Sentence about a resumed thread.
        now: The node at which the thread continues; empty without a node, and for tools.
        skipped: Nodes before this place that the thread has not passed: they do not run in this
            turn of the model, or in this run if they run once a run.
        repeated: Nodes after this place that the thread has passed: these nodes run once more.
    """

    part: Literal["node", "tool"]
    name: str
    verdict: Verdict
    effect: str
    now: str = ""
    skipped: tuple[str, ...] = ()
    repeated: tuple[str, ...] = ()

    def __str__(self) -> str:
        return printable(f"{self.verdict} {self.part} {self.name}: {self.effect}")

    def to_data(self) -> dict[str, Any]:
        """The point as a plain dict, for JSON."""
        return {**asdict(self), "verdict": str(self.verdict)}


def stopping_points(old: TopologyData, new: TopologyData) -> tuple[StoppingPoint, ...]:
    """The places where threads of `old` can wait, with their fate under `new`."""
    names = {move.old: move.new for move in new.moved}
    targets = {**new.former_nodes, **{node: node for node in new.nodes}}
    # Threads may wait at nodes with names that were former names in the old plan, too.
    places = {**{node: node for node in old.nodes}, **old.former_nodes}
    calls = {TOOLS: Call.TOOL, old.style.model: Call.MODEL}
    points = []
    for place, node in places.items():
        if place not in targets:
            former = place.rpartition(".")[0]
            owner = names.get(former, former)
            phases = [str(hook.phase) for hook in new.hooks if hook.owner == owner]
            why = f"{owner} has only the hooks {', '.join(phases)}" if phases else "it is gone"
            # No hook of the owner is left: the owner was removed, or has another name now.
            if not phases and old.hook_at(node):
                why = f"if {owner} was renamed, pass moved={{{owner!r}: ...}}"
            effect = f"raises MissingNode; {why}"
            points.append(StoppingPoint("node", place, Verdict.BREAKS, effect))
            continue
        now = targets[place]
        earlier = {targets[n] for n in old.nodes[: old.nodes.index(node)] if n in targets}
        # The tools stand before the hooks at the end of a run, and run only if they are called.
        at = new.nodes.index(now)
        skipped = tuple(n for n in new.nodes[:at] if n not in earlier and n != TOOLS)
        repeated = tuple(n for n in new.nodes[at + 1 :] if n in earlier)
        effects = ["resumes there" if place == now else f"resumes at {now}"]
        effects += [f"{', '.join(skipped)} does not run before it"] if skipped else []
        effects += [f"{', '.join(repeated)} runs once more"] if repeated else []
        owners = {layer.owner for layer in new.layers if layer.call is calls.get(node)}
        effects += (
            f"runs without {layer.name}, and an answer to a question of it is not read"
            for layer in (old.layers_around(calls[node]) if node in calls else ())
            if names.get(layer.owner, layer.owner) not in owners
        )
        verdict, effect = Verdict.STANDS if place == now else Verdict.MOVED, "; ".join(effects)
        points.append(StoppingPoint("node", place, verdict, effect, now, skipped, repeated))
    return (*points, *tool_points(old, new))


def tool_points(old: TopologyData, new: TopologyData) -> Iterator[StoppingPoint]:
    """The tools whose calls can wait: before their review, and before and in the tools node."""
    names = {tool.name for tool in new.tools if tool.kind is ToolKind.CLIENT}
    for tool in old.tools:
        if tool.kind is not ToolKind.CLIENT or TOOLS not in old.nodes:
            continue
        verdict = Verdict.BREAKS
        if tool.name in names and old.orders_calls and not new.orders_calls:
            effect = (
                "a call that waits alone runs; one that is to run after another of its turn gets "
                "an error that the model reads: no tool touches anything any more"
            )
        elif tool.name in names:
            verdict, effect = Verdict.STANDS, "a waiting call runs"
        elif TOOLS not in new.nodes:
            effect = "a waiting call does not run: the agent has no tools"
        else:
            layers = ", ".join(layer.name for layer in new.layers_around(Call.TOOL))
            effect = (
                "a waiting call gets an error that the model reads, if it is approved: the tool is "
                f"gone{layers and f', unless {layers} runs it'}"
            )
        yield StoppingPoint("tool", tool.name, verdict, effect)
