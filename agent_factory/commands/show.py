"""`agent-factory show`: the plan of an agent, in the form that is asked for."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from agent_factory.commands import screen
from agent_factory.commands.loading import Loaded, load
from agent_factory.commands.screen import AsJson
from agent_factory.commands.tree import tree_of
from agent_factory.commands.trouble import ShowTraceback, Trouble
from agent_factory.topology import Topology

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
