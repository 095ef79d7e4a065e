"""`agent-factory demo`: a support desk for a small shop."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from agent_factory.cli.error_reports import ShowTraceback
from agent_factory.demo import DemoError
from agent_factory.demo.interrupt import STOPPED


class Decision(StrEnum):
    """What a reviewer may say."""

    APPROVE = "approve"
    REJECT = "reject"


def demo(
    decide: Annotated[
        Decision | None,
        typer.Option(help="Answer every review so, rather than ask at the terminal."),
    ] = None,
    workspace: Annotated[
        Path | None,
        typer.Option(help="Keep shop and thread in this folder; a later run goes on there."),
    ] = None,
    ask: Annotated[
        str | None, typer.Option(help="Only ask this one question, on the workspace's thread.")
    ] = None,
    model: Annotated[
        str, typer.Option(help="The embedded model, local, or provider:name through langchain.")
    ] = "local",
    traceback: ShowTraceback = False,
) -> None:
    """A support desk for a small shop: tools, a review, a summary, a thread that lives on."""
    console, trouble = Console(), Console(stderr=True)
    try:
        _run_demo(console)(
            console=console, decide=decide, workspace=workspace, ask=ask, model=model
        )
    except (DemoError, OSError) as error:  # OSError: nothing can be printed
        trouble.print(Text(f"agent-factory: {error}", style="red"), soft_wrap=True)
        raise typer.Exit(1) from error
    except KeyboardInterrupt as stop:
        kept = f" The same command goes on in {workspace}." if workspace and ask is None else ""
        trouble.print(Text(f"\nStopped.{kept}"), soft_wrap=True)
        raise typer.Exit(STOPPED) from stop


def _run_demo(console: Console) -> Callable[..., None]:
    """The demo, imported late: its imports take seconds, and `--help` does without."""
    with console.status("Starting"):
        from agent_factory.demo.run import run_demo
    return run_demo
