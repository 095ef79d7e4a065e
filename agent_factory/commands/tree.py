"""A plan as a tree for people at a terminal: by phase, with ways, layers and tools."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text
from rich.tree import Tree

from agent_factory.facts import (
    AGENT,
    END,
    MODEL,
    START,
    TOOLS,
    Call,
    Layer,
    Phase,
    Tool,
    ToolKind,
)
from agent_factory.topology import Topology
from agent_factory.ways import Way, Why

_GUIDES = "bright_black"
_TITLE = "bold"
_OWNER = "cyan"
_ASIDE = "dim"

_FIXED = {START: _ASIDE, END: _ASIDE, MODEL: "green", AGENT: "green", TOOLS: "magenta"}

_PARTS = {
    "when a run starts": (Phase.BEFORE_AGENT,),
    "each turn": (Phase.BEFORE_MODEL, None, Phase.AFTER_MODEL),
    "when a run ends": (Phase.AFTER_AGENT,),
}
"""The parts of a run, by the phases of their nodes; the model and the tools have none."""


def tree_of(title: str, plan: Topology) -> Tree:
    """The plan as a tree."""
    tree = Tree(Text(title, style=_TITLE), guide_style=_GUIDES)
    for way in plan.ways:
        if way.source == START:
            tree.add(_way(way, named(START)))
    for part, phases in _PARTS.items():
        nodes = [node for node in plan.nodes if _phase(plan, node) in phases]
        if nodes:
            branch = tree.add(Text(part, style=_TITLE))
            for node in nodes:
                _add_node(branch, plan, node)
    for call in Call:
        _add_layers(tree, call, [layer for layer in plan.layers if layer.call is call])
    if plan.tools:
        branch = tree.add(Text("tools", style=_TITLE))
        for tool in plan.tools:
            branch.add(Text.assemble(tool.name, ("".join(f"  {n}" for n in _notes(tool)), _ASIDE)))
    return tree


def _phase(plan: Topology, node: str) -> Phase | None:
    return next((hook.phase for hook in plan.hooks if hook.node == node), None)


def _add_node(branch: Tree, plan: Topology, node: str) -> None:
    ways = [way for way in plan.ways if way.source == node]
    if len(ways) == 1:
        branch.add(_way(ways[0], named(node)))
        return
    inner = branch.add(named(node))
    for way in ways:
        inner.add(_way(way, Text()))


def _way(way: Way, start: Text) -> Text:
    reasons = [str(reason) for reason in way.reasons if reason.why is not Why.NEXT]
    line = Text.assemble(start, " " if start else "", ("-> ", _ASIDE), named(way.target))
    return line.append(f"  {'; '.join(reasons)}", style="yellow") if reasons else line


def named(node: str) -> Text:
    """The name of a node: whose it is, and when it runs."""
    owner, dot, phase = node.rpartition(".")
    if phase in list(Phase):
        return Text.assemble((owner, _OWNER), (f"{dot}{phase}", ""))
    return Text(node, style=_FIXED.get(node, _OWNER))


def _add_layers(tree: Tree, call: Call, layers: Sequence[Layer]) -> None:
    if not layers:
        return
    words = Text.assemble((f"around each {call} call", _TITLE), ("  outermost first", _ASIDE))
    branch = tree.add(words)
    for number, layer in enumerate(layers, 1):
        branch.add(Text.assemble(f"{number}. ", (layer.owner, _OWNER), f".{layer.method}"))


def _notes(tool: Tool) -> Iterator[str]:
    if tool.kind is not ToolKind.CLIENT:
        yield str(tool.kind)
    if tool.return_direct:
        yield "return_direct"
    if tool.owner:
        yield f"by {tool.owner}"
