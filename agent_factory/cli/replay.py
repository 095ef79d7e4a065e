"""`agent-factory replay`: recorded runs, replayed with the present agent."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group
from rich.table import Table

from agent_factory.cli import console
from agent_factory.cli.console import AsJson, Text
from agent_factory.cli.error_reports import EXIT_FOUND, CommandError
from agent_factory.cli.loading import load_builder

EXAMPLES = """\
agent-factory replay shop.agent:build tests/recordings
agent-factory replay shop/agent.py:agent tests/recordings -o report.html
agent-factory replay shop.agent:build tests/recordings --allow-changes --json"""

_STYLES = {"passed": "green", "changed": "yellow", "failed": "bold red", "error": "bold red"}


def replay(
    agent: Annotated[
        str,
        typer.Argument(
            metavar="AGENT",
            help="An agent, or a function of a model that builds it: module:name or file.py:name.",
        ),
    ],
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="The folder with recordings, *.jsonl.")
    ],
    allow_changes: Annotated[
        bool,
        typer.Option(
            "--allow-changes", help="Exit with 0 if runs have changed, and match their patterns."
        ),
    ] = False,
    run_tools: Annotated[
        bool,
        typer.Option("--run-tools", help="Run the agent's tools, instead of taking their results."),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write a page: report.html."),
    ] = None,
    json: AsJson = False,
) -> None:
    """Replay recorded runs with the present agent, and show the changes.

    The answers of the model and the results of tools come from the recordings. Exit codes: 0 all
    runs passed, 1 a run has changed or failed, 2 the agent or the folder could not be loaded.
    """
    from agent_factory.errors import ArgumentError
    from agent_factory.middleware.budget.prices import listed_price
    from agent_factory.testing import ReplayVerdict, replay_folder

    if output is not None and output.suffix != ".html":
        raise CommandError(f"{output} must end with .html. Write -o {output.stem}.html.")
    builder = load_builder(agent)
    try:
        report = replay_folder(
            builder,
            folder,
            progress=lambda paths: console.with_progress(paths, "Replaying"),
            run_tools=run_tools,
            price=listed_price,
        )
    except ArgumentError as error:
        raise CommandError(f"{error.subject} {error.reason} {error.hint}", error) from None
    if output is not None:
        console.save(report.to_html().encode(), output)
    head, *rows, sums = report.rows()
    table = Table(*head, show_footer=True)
    for column, cell in zip(table.columns, sums, strict=True):
        column.footer = cell
        # The first two columns are words, all further columns numbers.
        column.justify = "left" if cell in sums[:2] else "right"
    for run, (name, verdict, *cells) in zip(report.runs, rows, strict=True):
        lines = [Text(name, "bold"), *([Text(run.reason, "dim")] if run.reason else [])]
        table.add_row(Group(*lines), Text(verdict, _STYLES[verdict]), *cells)
    summary = Text(report.summary, "green" if report.passed else "bold")
    data = {"agent": agent, "folder": str(folder), **report.to_data()}
    console.report(data, str(report), [table, summary], json=json)
    good = {ReplayVerdict.PASSED, *([ReplayVerdict.CHANGED] if allow_changes else [])}
    if any(run.verdict not in good for run in report.runs):
        raise typer.Exit(EXIT_FOUND)
