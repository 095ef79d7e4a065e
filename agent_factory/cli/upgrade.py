"""`agent-factory upgrade`: gives the tables of a service the form of the installed version."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, TimeElapsedColumn

from agent_factory.cli import console
from agent_factory.cli.console import AsJson
from agent_factory.cli.error_reports import EXIT_FOUND
from agent_factory.cli.service import load_service

EXAMPLES = """\
agent-factory upgrade shop.service:service
agent-factory upgrade postgresql://user@host/desk --dry-run"""


def upgrade(
    service: Annotated[
        str,
        typer.Argument(
            metavar="SERVICE",
            help="Where the service is: module:name or file.py:name; or the URL of its database.",
        ),
    ],
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Only show the steps; the exit code is 1 if there are some."
        ),
    ] = False,
    json: AsJson = False,
) -> None:
    """Bring the tables of a service into the form of this version, without losing anything.

    Workers may run meanwhile, unless the command says otherwise. Behind PgBouncer, give the URL of
    Postgres itself.
    """
    from agent_factory.service import Service

    loaded_service = Service(service) if "://" in service else load_service(service)
    with closing(loaded_service):
        pending = loaded_service.pending_upgrade()
        upgraded = bool(pending.steps) and not dry_run
        if not json:
            has = f"The database has version {pending.before}"
            if pending.before is None:
                line = f"The database is empty: it gets the tables of version {pending.after}."
            elif not pending.steps:
                line = f"{has}: there is nothing to do."
            else:
                line = f"{has}, {pending.after} is needed:"
            console.write(line)
            for version, title in pending.steps.items():
                console.write(f"  {version}  {title}.")
        if not dry_run:
            columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
            with console.progress_bar("{task.description}", *columns) as bar:
                task = bar.add_task("", total=None)

                def report(version: int, done: int, total: int) -> None:
                    title = pending.steps[version]
                    bar.update(task, description=title, completed=done, total=total)

                loaded_service.upgrade(report)
    if json:
        steps = [{"version": version, "title": title} for version, title in pending.steps.items()]
        numbers = {"before": pending.before, "after": pending.after}
        console.write_json({**numbers, "steps": steps, "upgraded": upgraded})
    elif upgraded:
        console.write(f"The database has version {pending.after} now.")
    if dry_run and pending.steps:
        raise typer.Exit(EXIT_FOUND)
