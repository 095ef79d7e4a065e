"""`agent-factory show`: the plan of an agent, in the form that is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text
from rich.tree import Tree

from agent_factory.cli import console as screen
from agent_factory.cli.console import AsJson
from agent_factory.cli.error_reports import ShowTraceback, Trouble
from agent_factory.cli.loading import Loaded, load
from agent_factory.topology.model import (
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
from agent_factory.topology.topology import Topology
from agent_factory.topology.transitions import Transition, TransitionReason

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
    for way in plan.transitions:
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
    transitions = [way for way in plan.transitions if way.source == node]
    if len(transitions) == 1:
        branch.add(_way(transitions[0], named(node)))
        return
    inner = branch.add(named(node))
    for way in transitions:
        inner.add(_way(way, Text()))


def _way(way: Transition, start: Text) -> Text:
    reasons = [str(reason) for reason in way.reasons if reason.why is not TransitionReason.NEXT]
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


TARGET_HELP = (
    "module:attribute, path/to/file.py:attribute, langgraph.json or langgraph.json:name, or a "
    "plan that was saved as .json or .topology."
)

EXAMPLES = """Examples:

agent-factory show shop.desk:agent

agent-factory show app.py:agent --output plan.svg

agent-factory show langgraph.json --json > plan.json"""


class Format(StrEnum):
    """The forms of a plan."""

    TEXT = "text"
    MERMAID = "mermaid"
    JSON = "json"
    SVG = "svg"
    HTML = "html"


_WRITERS: dict[Format, Callable[[Topology], str]] = {
    Format.TEXT: Topology.render,
    Format.MERMAID: Topology.to_mermaid,
    Format.JSON: Topology.to_json,
    Format.SVG: Topology.to_svg,
    Format.HTML: Topology.to_html,
}

_SUFFIXES = {
    ".mmd": Format.MERMAID,
    ".mermaid": Format.MERMAID,
    ".json": Format.JSON,
    ".svg": Format.SVG,
    ".html": Format.HTML,
    ".htm": Format.HTML,
}


def show(
    target: Annotated[str, typer.Argument(metavar="TARGET", help=TARGET_HELP)],
    format_: Annotated[
        Format | None,
        typer.Option(
            "--format",
            "-f",
            metavar="FORM",
            help="text, mermaid, json, svg or html. Default: what FILE ends with, else text.",
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it to a file.")
    ] = None,
    json: AsJson = False,
    traceback: ShowTraceback = False,
) -> None:
    """Show an agent: its nodes, the ways between them and why, its layers and its tools.

    On a terminal it is a tree; elsewhere plain text, a line for each fact. TARGET may also be a
    function without arguments that builds an agent, a Topology, or a list of middleware.
    """
    chosen = _chosen(format_, output, json)
    loaded = load(target)
    if chosen is None and output is None and screen.is_terminal():
        screen.show(tree_of(target, loaded.plan))
        _hint(target, loaded)
        return
    text = _written(loaded.plan, chosen or Format.TEXT)
    if output is not None:
        screen.save(text if text.endswith("\n") else f"{text}\n", output)
    else:
        _print(text, chosen)


def _chosen(format_: Format | None, output: Path | None, json: bool) -> Format | None:
    if json and format_ not in (None, Format.JSON):
        raise Trouble(f"--json and --format {format_} contradict each other. Give one of them.")
    if json:
        return Format.JSON
    return format_ or (_SUFFIXES.get(output.suffix.lower()) if output else None)


def _written(plan: Topology, form: Format) -> str:
    try:
        return _WRITERS[form](plan)
    except ImportError as error:
        raise Trouble(str(error), error) from None


def _print(text: str, form: Format | None) -> None:
    if form in (Format.SVG, Format.HTML) and screen.is_terminal():
        raise Trouble(f"A terminal cannot show {form}. Write it: --output plan.{form}")
    screen.write(text)


def _hint(target: str, loaded: Loaded) -> None:
    if loaded.findings:
        codes = ", ".join(dict.fromkeys(finding.code for finding in loaded.findings))
        screen.note(f"Likely wrong: {codes}. See: agent-factory check {target}")
