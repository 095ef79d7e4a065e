"""Application with all commands."""

from __future__ import annotations

from collections.abc import Callable
from inspect import getdoc
from typing import Annotated, Any

import typer

from agent_factory.cli import (
    audit,
    check,
    demo,
    diff,
    engine,
    explain,
    migrate,
    new,
    policy,
    replay,
    service,
    show,
    skill,
    studio,
    upgrade,
)
from agent_factory.cli.error_reports import installed_version, reporting_errors

SERVICE = "Agents as a service"

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},  # of each command, too
    # `reporting_errors` prints errors instead.
    pretty_exceptions_enable=False,
)

_new = typer.Typer(no_args_is_help=True, help="Write the first files of something.")


def _print_version(value: bool) -> None:
    if value:
        print(f"agent-factory {installed_version()}")
        raise typer.Exit


@app.callback()
def agent_factory(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Agents from middleware: show them, check them, and see one work."""


def _add(
    group: typer.Typer, command: Callable[..., object], examples: str = "", **settings: Any
) -> None:
    # Typer keeps line breaks of a docstring: join the lines of each paragraph.
    paragraphs = (getdoc(command) or "").split("\n\n")
    text = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    epilog = "\n\n".join(["Examples:", *examples.splitlines()]) if examples else None
    group.command(help=text, epilog=epilog, **settings)(reporting_errors(command))


_add(app, show.show, show.EXAMPLES)
_add(app, diff.diff, diff.EXAMPLES)
_add(app, explain.explain, explain.EXAMPLES)
_add(app, check.check, check.EXAMPLES)
_add(app, policy.policy, policy.EXAMPLES)
_add(app, replay.replay, replay.EXAMPLES)
_add(app, migrate.migrate, migrate.EXAMPLES)
_add(app, skill.skill, skill.EXAMPLES)
_add(app, demo.demo)
_add(app, service.worker, service.EXAMPLES, rich_help_panel=SERVICE)
_add(app, service.serve, rich_help_panel=SERVICE)
_add(app, studio.studio, studio.EXAMPLES)
_add(app, engine.engine, engine.EXAMPLES, rich_help_panel=SERVICE)
_add(app, service.submit, rich_help_panel=SERVICE)
_add(app, service.inbox, rich_help_panel=SERVICE)
_add(app, service.decide, rich_help_panel=SERVICE)
_add(app, audit.audit, rich_help_panel=SERVICE)
_add(app, service.approvals, rich_help_panel=SERVICE)
_add(app, service.drain, rich_help_panel=SERVICE)
_add(app, service.reindex, rich_help_panel=SERVICE)
_add(app, upgrade.upgrade, upgrade.EXAMPLES, rich_help_panel=SERVICE)
_add(_new, new.middleware, new.EXAMPLES)
_add(_new, new.agent, new.AGENT_EXAMPLES)
app.add_typer(_new, name="new")
