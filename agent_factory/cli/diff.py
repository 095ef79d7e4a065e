"""`agent-factory diff`: what changed between two plans."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from agent_factory.cli import console as screen
from agent_factory.cli.console import AsJson
from agent_factory.cli.error_reports import ShowTraceback
from agent_factory.cli.loading import load
from agent_factory.topology.diff import ChangeKind, TopologyDiff

EXAMPLES = """Examples:

agent-factory diff plan.json shop.desk:agent

agent-factory diff ../main/app.py:agent app.py:agent --exit-code"""

EXIT_DIFFERS = 1
"""The exit code of `--exit-code` where the plans differ, as diff and git have it."""

_STYLES = {
    ChangeKind.ADDED: "green",
    ChangeKind.REMOVED: "red",
    ChangeKind.MOVED: "yellow",
    ChangeKind.REROUTED: "yellow",
    ChangeKind.CHANGED: "yellow",
}


def diff(
    old: Annotated[
        str, typer.Argument(metavar="OLD", help="The plan before: a target as `show` takes it.")
    ],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The plan after.")],
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit with 1 where the two differ.")
    ] = False,
    json: AsJson = False,
    traceback: ShowTraceback = False,
) -> None:
    """Say what changed from one agent to another: added, removed, moved, rerouted.

    Either may be a plan that was saved, as .json or as a .topology snapshot. Two checkouts of one
    package can be compared by the paths of their files.
    """
    found = load(old).plan.diff(load(new).plan)
    if json:
        screen.write_json(
            {"old": old, "new": new, "differs": bool(found), "changes": found.to_data()}
        )
    elif found and screen.is_terminal():
        screen.show(_for_people(found))
    else:
        screen.write(str(found))
    if exit_code and found:
        raise typer.Exit(EXIT_DIFFERS)


def _for_people(found: TopologyDiff) -> Group:
    parts: list[RenderableType] = []
    for change in found.changes:
        style = _STYLES[change.kind]
        parts.append(Text.assemble((change.kind, style), f" {change.part} ", (change.name, "bold")))
        if change.detail:
            parts.append(screen.indented(Text(change.detail)))
    return Group(*parts)
