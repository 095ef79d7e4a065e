"""`agent-factory demo`: a support desk for a small shop."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.text import Text

from agent_factory.demo import DemoError
from agent_factory.demo.interrupt import STOPPED
from agent_factory.errors import MissingExtra


def demo(
    decide: Annotated[
        Literal["approve", "reject"] | None,
        typer.Option(help="Answer every review with this, instead of asking at the terminal."),
    ] = None,
    workspace: Annotated[
        Path | None,
        typer.Option(help="Keep shop and thread in this folder; a later run continues there."),
    ] = None,
    ask: Annotated[
        str | None, typer.Option(help="Ask only this question, on the workspace's thread.")
    ] = None,
    model: Annotated[
        str,
        typer.Option(
            help="local: the embedded model; or provider:name, a model of langchain's providers."
        ),
    ] = "local",
) -> None:
    """A support desk for a small shop: tools, a review, a summary, a resumed thread."""
    console, errors = Console(), Console(stderr=True)
    try:
        # Imported here: these imports take seconds, and --help does without them.
        with console.status("Starting"):
            from agent_factory.demo.run import run_demo
        run_demo(console=console, decide=decide, workspace=workspace, ask=ask, model=model)
    # OSError: the output cannot be written.
    except (DemoError, MissingExtra, OSError) as error:
        errors.print(Text(f"agent-factory: {error}", style="red"), soft_wrap=True)
        raise typer.Exit(1) from error
    except KeyboardInterrupt as stop:
        note = f" The same command continues in {workspace}." if workspace and ask is None else ""
        errors.print(Text(f"\nStopped.{note}"), soft_wrap=True)
        raise typer.Exit(STOPPED) from stop
