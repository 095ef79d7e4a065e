"""The commands behind `agent-factory`; they need the extra `cli`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Agents from middleware: look at them, and see one work.",
)


class Decision(StrEnum):
    """What a reviewer may say."""

    APPROVE = "approve"
    REJECT = "reject"


@app.callback()
def agent_factory() -> None:
    """Agents from middleware: look at them, and see one work."""


@app.command()
def demo(
    decide: Annotated[
        Decision | None, typer.Option(help="Answer reviews with this; default: ask.")
    ] = None,
    workspace: Annotated[
        Path | None, typer.Option(help="Keep shop and thread in this folder.")
    ] = None,
    ask: Annotated[
        str | None, typer.Option(help="Only ask this, on the workspace's thread.")
    ] = None,
    model: Annotated[str, typer.Option(help="'local', or 'provider:name'.")] = "local",
) -> None:
    """A support desk for a small shop: tools, a review, a summary, a thread that lives on."""
    from agent_factory.demo.run import run_demo

    console = Console()
    try:
        run_demo(console=console, decide=decide, workspace=workspace, ask=ask, model=model)
    except ImportError as error:
        Console(stderr=True).print(f"[red]{error}[/]", soft_wrap=True)
        raise typer.Exit(1) from error
