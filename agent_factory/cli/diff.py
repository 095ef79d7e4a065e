"""`agent-factory diff`: what changed between two plans."""

from __future__ import annotations

from typing import Annotated

import typer

from agent_factory.cli import console
from agent_factory.cli.console import AsJson, Text
from agent_factory.cli.error_reports import ShowTraceback
from agent_factory.cli.loading import load
from agent_factory.topology.diff import ChangeKind

EXAMPLES = """Examples:

agent-factory diff plan.json shop.desk:agent

agent-factory diff ../main/app.py:agent app.py:agent --exit-code"""

EXIT_DIFFERS = 1
"""The exit code of `--exit-code` if the plans differ, as in diff and git."""

_STYLES = {ChangeKind.ADDED: "green", ChangeKind.REMOVED: "red"}


def diff(
    old: Annotated[
        str, typer.Argument(metavar="OLD", help="The plan before: a target, as for `show`.")
    ],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The plan after.")],
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit with 1 if the two differ.")
    ] = False,
    json: AsJson = False,
    traceback: ShowTraceback = False,
) -> None:
    """Show what changed from one agent to another: added, removed, renamed, moved.

    Either may be a saved plan: a .json file or a .topology snapshot. Two checkouts of one package
    can be compared by the paths of their files.
    """
    difference = load(old).plan.diff(load(new).plan)
    if json:
        differs = bool(difference)
        changes = difference.to_data()
        console.write_json({"old": old, "new": new, "differs": differs, "changes": changes})
    elif difference and console.is_terminal():
        for change in difference.changes:
            style = _STYLES.get(change.kind, "yellow")
            console.show(
                Text.assemble((change.kind, style), f" {change.part} ", (change.name, "bold"))
            )
            if change.detail:
                console.show(console.indented(Text(change.detail)))
    else:
        console.write(str(difference))
    if exit_code and difference:
        raise typer.Exit(EXIT_DIFFERS)
