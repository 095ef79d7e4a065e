"""`agent-factory diff`: changes from a plan to another."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import RenderableType

from agent_factory.cli import console
from agent_factory.cli.console import AsJson, Text
from agent_factory.cli.error_reports import EXIT_FOUND
from agent_factory.cli.loading import BuildFailed, load
from agent_factory.topology.stopping_points import Verdict

EXAMPLES = """\
agent-factory diff plan.json shop.desk:agent
agent-factory diff ../main/app.py:agent app.py:agent --exit-code
agent-factory diff deployed.topology shop.desk:agent --threads --exit-code"""

_STYLES = {"added": "green", "removed": "red", "stands": "green", "breaks": "red"}
"""Styles of kinds of changes, and of verdicts; all other words are yellow."""


def diff(
    old: Annotated[
        str, typer.Argument(metavar="OLD", help="The plan before: a target, as for `show`.")
    ],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The plan after.")],
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit with 1 if the two differ, or threads break.")
    ] = False,
    threads: Annotated[
        bool,
        typer.Option("--threads", help="Show what happens to stored threads of OLD under NEW."),
    ] = False,
    json: AsJson = False,
) -> None:
    """Show the changes from an agent to another: added, removed, renamed, moved.

    Either may be a saved plan: a .json file or a .topology snapshot. Two checkouts of a package
    can be compared by the paths of their files.

    With --threads, show for each node and each tool at which a thread may wait whether the new
    agent can resume the thread. With --exit-code, exit with 1 if a thread breaks.

    An agent whose own guarantee does not hold is compared, too. Then the guarantee is reported, and
    the exit code is 2.
    """
    plans, refused = [], []
    rows: list[tuple[str, str, str, str]]
    for target in (old, new):
        try:
            plans.append(load(target).plan)
        except BuildFailed as failed:
            if failed.plan is None:
                raise
            # The changes have broken the guarantee: the changes are shown first, then the error.
            plans.append(failed.plan)
            refused.append(failed)
    before, after = plans
    if threads:
        points = before.stopping_points(after)
        fails = any(point.verdict is Verdict.BREAKS for point in points)
        data = {"breaks": fails, "points": [point.to_data() for point in points]}
        rows = [(str(x.verdict), x.part, x.name, x.effect) for x in points]
        text = "\n".join(map(str, points))
    else:
        difference = before.diff(after)
        fails = bool(difference)
        data = {"differs": fails, "changes": difference.to_data()}
        rows = [(str(x.kind), x.part, x.name, x.detail) for x in difference.changes]
        text = str(difference)
    styled: list[RenderableType] = []
    for word, part, name, detail in rows:
        verdict = (word, _STYLES.get(word, "yellow"))
        styled.append(Text.assemble(verdict, f" {part} ", (name, "bold")))
        styled += [console.indented(Text(detail))] if detail else []
    console.report({"old": old, "new": new, **data}, text, styled, json=json)
    if refused:
        raise refused[-1]
    if exit_code and fails:
        raise typer.Exit(EXIT_FOUND)
