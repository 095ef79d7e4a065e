"""Stopping points: where stored threads can wait, and what another plan does with them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Literal

from agent_factory.topology.model import TOOLS, Call, Layer, ToolKind, TopologyData, printable
from agent_factory.topology.planner import former_nodes


class Verdict(StrEnum):
    """What becomes of threads at a stopping point."""

    STANDS = "stands"
    """They are resumed."""
    MOVED = "moved"
    """They are resumed at the node that `moved` names."""
    BREAKS = "breaks"
    """At a node: to resume them raises `MissingNode`. Of a tool: its calls do not run."""


@dataclass(frozen=True, slots=True)
class StoppingPoint:
    """A place where stored threads can wait or were cut short, and what a new plan does with them.

    Args:
        part: "node", or "tool" for the calls of a tool that wait.
        name: The node, or the tool.
        verdict: Whether threads can be resumed.
        effect: What happens to a thread that is resumed, as a sentence.
        now: The node at which it continues; empty if there is none.
        skipped: Nodes before this place that the thread has not passed, and that do not run before
            the next turn of the model, or the next run.
        repeated: Nodes after this place that run although the thread has passed them.
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
    """Where threads of `old` can wait, and what happens if an agent of `new` resumes them."""
    names = {move.old: move.new for move in new.moved}
    former = former_nodes(new)
    # Threads may wait at nodes that were already former ones of the old plan.
    places = {node: node for node in old.nodes} | former_nodes(old)
    known = {**former, **{node: node for node in new.nodes}}
    points = []
    for place, node in places.items():
        now = known.get(place, "")
        if not now:
            effect = f"raises MissingNode; {_why_missing(old, new, node)}"
            points.append(StoppingPoint("node", place, Verdict.BREAKS, effect))
            continue
        before = {known[n] for n in old.nodes[: old.nodes.index(node)] if n in known}
        at = new.nodes.index(now)
        skipped = tuple(n for n in new.nodes[:at] if n not in before and n != TOOLS)
        repeated = tuple(n for n in new.nodes[at + 1 :] if n in before)
        effects = ["resumes there" if place == now else f"resumes at {now}"]
        effects += [f"without {', '.join(skipped)}"] if skipped else []
        effects += [f"runs {', '.join(repeated)} once more"] if repeated else []
        effects += (
            f"nobody reads an answer to a question of {layer.name}, so the {layer.call} is called"
            for layer in _layers_at(old, node)
            if (names.get(layer.owner, layer.owner), layer.call) not in _owners(new)
        )
        verdict = Verdict.STANDS if place == now else Verdict.MOVED
        points.append(
            StoppingPoint("node", place, verdict, "; ".join(effects), now, skipped, repeated)
        )
    return (*points, *_tools(old, new))


def _why_missing(old: TopologyData, new: TopologyData, node: str) -> str:
    """Why a node is missing, as far as the plans say, and what to write."""
    hook = old.hook_at(node)
    if hook is None:
        return f"the agent has no node {node!r}"
    owner = {move.old: move.new for move in new.moved}.get(hook.owner, hook.owner)
    phases = [str(other.phase) for other in new.hooks if other.owner == owner]
    if phases:
        return f"{owner} has no {hook.phase} hook, only {', '.join(phases)}"
    return f"no middleware is called {owner}; if it was renamed, pass moved={{{owner!r}: ...}}"


def _layers_at(plan: TopologyData, node: str) -> list[Layer]:
    calls = {TOOLS: Call.TOOL, plan.style.model: Call.MODEL}
    return plan.layers_around(calls[node]) if node in calls else []


def _owners(plan: TopologyData) -> set[tuple[str, Call]]:
    return {(layer.owner, layer.call) for layer in plan.layers}


def _tools(old: TopologyData, new: TopologyData) -> Iterator[StoppingPoint]:
    """The tools whose calls can wait: before their review, and before and in the tools node."""
    kept = {tool.name for tool in new.tools if tool.kind is ToolKind.CLIENT}
    for tool in old.tools:
        if tool.kind is not ToolKind.CLIENT or TOOLS not in old.nodes:
            continue
        if tool.name in kept:
            yield StoppingPoint("tool", tool.name, Verdict.STANDS, "a waiting call runs")
        elif TOOLS not in new.nodes:
            effect = "a waiting call does not run: the agent has no tools"
            yield StoppingPoint("tool", tool.name, Verdict.BREAKS, effect)
        else:
            layers = ", ".join(layer.name for layer in new.layers_around(Call.TOOL))
            effect = (
                "a waiting call, if approved, gets an error that the model reads: tool "
                f"{tool.name!r} is gone{layers and f', unless one of {layers} runs it'}"
            )
            yield StoppingPoint("tool", tool.name, Verdict.BREAKS, effect)
