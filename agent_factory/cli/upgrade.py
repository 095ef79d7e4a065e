"""`agent-factory upgrade`: gives the tables of a service the form of the installed version."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from agent_factory.cli import console
from agent_factory.cli.console import AsJson
from agent_factory.cli.error_reports import CommandError, ShowTraceback
from agent_factory.cli.service import load_service
from agent_factory.errors import AgentFactoryError

if TYPE_CHECKING:
    from agent_factory.service import Service, Upgrade

EXAMPLES = """Examples:

agent-factory upgrade shop.service:service

agent-factory upgrade postgresql://user@host/desk --dry-run"""

EXIT_LEFT = 1
"""The exit code of `--dry-run` if there are steps to take."""


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
    traceback: ShowTraceback = False,
) -> None:
    """Bring the tables of a service into the form that this version needs, without losing anything.

    Workers may run meanwhile, unless it says otherwise. Behind PgBouncer, give the URL of Postgres
    itself.
    """
    with closing(_service(service)) as loaded_service:
        try:
            pending = loaded_service.pending_upgrade()
            if not json:
                _show(pending)
            taken = bool(pending.steps) and not dry_run
            if taken or (pending.before is None and not dry_run):
                _take(loaded_service, pending)
        except AgentFactoryError as error:
            raise CommandError(str(error), error) from error
    if json:
        steps = [{"version": version, "title": title} for version, title in pending.steps.items()]
        numbers = {"before": pending.before, "after": pending.after}
        console.write_json({**numbers, "steps": steps, "upgraded": taken})
    elif taken:
        console.write(f"The database has version {pending.after} now.")
    if dry_run and pending.steps:
        raise typer.Exit(EXIT_LEFT)


def _service(target: str) -> Service:
    """The service of a target, or one without agents on the database of a URL."""
    if "://" not in target:
        return load_service(target)
    from agent_factory.service import Service

    try:
        return Service(target)
    except AgentFactoryError as error:
        raise CommandError(str(error), error) from error


def _show(pending: Upgrade) -> None:
    if pending.before is None:
        console.write(f"The database is empty: it gets the tables of version {pending.after}.")
    elif not pending.steps:
        console.write(f"The database has version {pending.before}: there is nothing to do.")
    else:
        console.write(f"The database has version {pending.before}, {pending.after} is needed:")
    for version, title in pending.steps.items():
        console.write(f"  {version}  {title}.")


def _take(service: Service, pending: Upgrade) -> None:
    """Take the steps, with a progress bar on a terminal."""
    errors = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as bar:
        task = bar.add_task("", total=None)

        def report(version: int, done: int, total: int) -> None:
            bar.update(task, description=pending.steps[version], completed=done, total=total)

        service.upgrade(report)
