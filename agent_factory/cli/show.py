"""`agent-factory show`: the plan of an agent, in the requested format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal, get_args

import typer
from rich.text import Text as RichText
from rich.tree import Tree

from agent_factory.cli import console
from agent_factory.cli.console import AsJson, Text
from agent_factory.cli.error_reports import CommandError
from agent_factory.cli.loading import Loaded, load
from agent_factory.topology.model import AGENT, END, MODEL, START, TOOLS, Call, Phase
from agent_factory.topology.topology import Topology
from agent_factory.topology.transitions import Transition

_TITLE = "bold"
_OWNER = "cyan"
_ASIDE = "dim"

_NODE_STYLES = {START: _ASIDE, END: _ASIDE, MODEL: "green", AGENT: "green", TOOLS: "magenta"}

_PARTS = {
    "when a run starts": (Phase.BEFORE_AGENT,),
    "each turn": (Phase.BEFORE_MODEL, None, Phase.AFTER_MODEL),
    "when a run ends": (Phase.AFTER_AGENT,),
}
"""The parts of a run, by the phases of their nodes; the model and the tools have none."""


def plan_tree(title: str, plan: Topology) -> Tree:
    """The plan as a tree."""
    tree = Tree(Text(title, style=_TITLE), guide_style="bright_black")
    for edge in plan.transitions:
        if edge.source == START:
            tree.add(_edge(edge, _named(START)))
    for part, phases in _PARTS.items():
        hooks = {node: plan.hook_at(node) for node in plan.nodes}
        nodes = [node for node, hook in hooks.items() if (hook and hook.phase) in phases]
        branch = tree.add(Text(part, style=_TITLE)) if nodes else tree
        for node in nodes:
            edges = [edge for edge in plan.transitions if edge.source == node]
            if len(edges) == 1:
                branch.add(_edge(edges[0], _named(node)))
                continue
            inner = branch.add(_named(node))
            for edge in edges:
                inner.add(_edge(edge, Text()))
    for call in Call:
        if layers := plan.layers_around(call):
            heading = (f"around {call.phrase}", _TITLE), ("  outermost first", _ASIDE)
            branch = tree.add(Text.assemble(*heading))
            for number, layer in enumerate(layers, 1):
                branch.add(Text.assemble(f"{number}. ", (layer.owner, _OWNER), f".{layer.method}"))
    if plan.tools:
        branch = tree.add(Text("tools", style=_TITLE))
        for tool in plan.tools:
            notes = "".join(f"  {note}" for note in tool.notes)
            branch.add(Text.assemble(tool.name, (notes, _ASIDE)))
    if plan.settings:
        branch = tree.add(Text("settings", style=_TITLE))
        for setting in plan.settings:
            branch.add(Text.assemble((setting.owner, _OWNER), f".{setting.name} = {setting.value}"))
    if plan.moved:
        branch = tree.add(Text("moved", style=_TITLE))
        for move in plan.moved:
            branch.add(Text.assemble((move.old, _OWNER), " -> ", (move.new, _OWNER)))
    return tree


def _edge(edge: Transition, start: RichText) -> RichText:
    line = Text.assemble(start, " " if start else "", ("-> ", _ASIDE), _named(edge.target))
    return line.append(f"  {'; '.join(edge.notes)}", style="yellow") if edge.notes else line


def _named(node: str) -> RichText:
    """The name of a node, styled by middleware and phase."""
    owner, dot, phase = node.rpartition(".")
    # As a list: before Python 3.12, `in` of an enum raises TypeError for a string.
    if phase in list(Phase):
        return Text.assemble((owner, _OWNER), (f"{dot}{phase}", ""))
    return Text(node, style=_NODE_STYLES.get(node, _OWNER))


TARGET_HELP = (
    "module:attribute, path/to/file.py:attribute, langgraph.json or langgraph.json:name, or a "
    "plan that was saved as .json or .topology."
)

EXAMPLES = """\
agent-factory show shop.desk:agent
agent-factory show app.py:agent --output plan.svg
agent-factory show langgraph.json --json > plan.json"""


Format = Literal["text", "mermaid", "markdown", "json", "topology", "svg", "png", "html", "toml"]

_FORMATS: dict[Format, tuple[str, Callable[[Topology], str | bytes]]] = {
    "text": (".txt", Topology.render),
    "mermaid": (".mmd", Topology.to_mermaid),
    "markdown": (".md", lambda plan: f"```mermaid\n{plan.to_mermaid()}\n```"),
    "json": (".json", Topology.to_json),
    "topology": (".topology", Topology.to_snapshot),
    "svg": (".svg", Topology.to_svg),
    "png": (".png", Topology.to_png),
    "html": (".html", Topology.to_html),
}
"""Suffix of each format, and the method that writes a plan."""

_SUFFIXES = {suffix: form for form, (suffix, _) in _FORMATS.items()} | {".toml": "toml"}


def _stack(target: Loaded) -> str:
    """The stack of a target, with settings, as TOML."""
    from agent_factory.factory.agent import tools_of
    from agent_factory.factory.stack_file import dump_stack

    if target.stack is None:
        raise CommandError(
            "A plan does not hold the middleware. Name the agent to write its stack as TOML."
        )
    tools = tools_of(target.agent) if target.agent is not None else {}
    # Without tools of middleware.
    own = [tools[tool.name] for tool in target.plan.tools if not tool.owner and tool.name in tools]
    return dump_stack(target.stack, own, title=f"The stack of {target.plan.name or 'an agent'}")


def show(
    target: Annotated[str, typer.Argument(metavar="TARGET", help=TARGET_HELP)],
    format_: Annotated[
        Format | None,
        typer.Option(
            "--format",
            "-f",
            metavar="FORMAT",
            help=f"{', '.join(get_args(Format))}. Default: by the suffix of FILE, else text.",
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it to a file.")
    ] = None,
    settings: Annotated[
        bool, typer.Option("--settings", help="Show the settings of the middleware, too.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Show an agent: nodes, edges with their reasons, layers and tools.

    A terminal shows a tree; elsewhere, each fact is a line of plain text. TARGET may also be a
    function without arguments that builds an agent, a Topology, or a list of middleware.
    """
    if json and format_ not in (None, "json"):
        raise CommandError(f"--json and --format {format_} contradict each other. Use one of them.")
    form: Format | None = "json" if json else format_
    if form is None and output is not None:
        form = _SUFFIXES.get(output.suffix.lower())
        if form is None:
            suffixes = ", ".join(_SUFFIXES)
            raise CommandError(
                f"--output {output} must end in one of {suffixes}. "
                "Or choose the format with --format."
            )
    result = load(target)
    plan = replace(result.plan, name=result.plan.name or target)
    if not settings:
        plan = replace(plan, settings=tuple(s for s in plan.settings if s.guards))
    if form is None and console.is_terminal():
        console.show(plan_tree(target, plan))
        if result.findings:
            codes = ", ".join(dict.fromkeys(finding.code for finding in result.findings))
            console.note(f"Possible problems: {codes}. See: agent-factory check {target}")
        return
    document = _stack(result) if form == "toml" else _FORMATS[form or "text"][1](plan)
    if output is not None:
        # A text file of any format ends with a line break.
        content = document if isinstance(document, bytes) else (document.rstrip() + "\n").encode()
        console.save(content, output)
    elif form in ("svg", "png", "html") and console.is_terminal():
        raise CommandError(f"A terminal cannot show {form}. Write a file: --output plan.{form}")
    elif isinstance(document, bytes):
        typer.echo(document, nl=False)
    else:
        console.write(document)
